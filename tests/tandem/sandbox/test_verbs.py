"""`tandem sandbox`, as far as it goes without the real engine: what it says when something is missing or broken."""

from __future__ import annotations

import errno
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from sandbox.world import World
from tandem.sandbox.verbs import CLOUD, HOME, Place, command
from tandem.terminal import CallError

ROOT = Path(__file__).parents[3]
HOSTS = ("pulumi-language-python", "pulumi-language-python-exec")


def call(*arguments: str, cwd: Path, path: Path) -> subprocess.CompletedProcess[str]:
    """The command in a process of its own that finds programs in `path` alone."""
    env = {"PATH": str(path), "PYTHONPATH": str(ROOT), "HOME": str(cwd), "LANG": os.environ.get("LANG", "C.UTF-8")}
    command = [sys.executable, "-m", "tandem", "sandbox", *arguments]
    return subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True, timeout=900)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project with one stack."""
    folder = tmp_path / "project"
    folder.mkdir()
    for name in ("Pulumi.yaml", "Pulumi.timeslice.yaml", "__main__.py"):
        shutil.copy(ROOT / name, folder)
    return folder


@pytest.fixture
def programs(tmp_path: Path) -> Path:
    """An empty folder for programs."""
    folder = tmp_path / "bin"
    folder.mkdir()
    return folder


def install(folder: Path, version: str, *, hosts: bool = True) -> None:
    """Puts something there that calls itself `pulumi`, and can say its version."""
    for name in ("pulumi", *(HOSTS if hosts else ())):
        (folder / name).write_text(f"#!/bin/sh\necho {version}\n", encoding="utf-8")
        (folder / name).chmod(0o755)


def assert_one_line(done: subprocess.CompletedProcess[str], code: int, *parts: str) -> None:
    assert (done.returncode, done.stdout) == (code, "")
    assert done.stderr.count("\n") == 1, done.stderr
    for part in parts:
        assert part in done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("verb", ["up", "preview", "refresh", "destroy", "status"])
def test_without_pulumi_one_line_says_how_to_get_it(project: Path, programs: Path, verb: str) -> None:
    done = call(verb, cwd=project, path=programs)
    assert_one_line(done, 2, "no `pulumi` on the PATH", "https://www.pulumi.com/docs/install/")
    assert not (project / ".tandem").exists()


def test_a_pulumi_that_is_too_old_is_told_in_one_line(project: Path, programs: Path) -> None:
    install(programs, "v3.100.0")
    assert_one_line(call("up", cwd=project, path=programs), 2, "v3.100.0", "3.250 or later")


def test_a_pulumi_without_its_language_host_is_told_in_one_line(project: Path, programs: Path) -> None:
    install(programs, "v3.260.0", hosts=False)
    assert_one_line(call("up", cwd=project, path=programs), 2, "has no pulumi-language-python beside it")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('{"format": "tandem sandbox wor', "is not JSON"),
        ("{}", "is no state of the sandbox"),
        ('{"format": "tandem sandbox world", "version": 99}', "another version"),
        ('{"format": "tandem sandbox world", "version": 1}', "lacks parts"),
    ],
)
@pytest.mark.parametrize("verb", ["up", "status", "destroy"])
def test_a_broken_state_is_named_with_the_way_out_and_left_alone(
    project: Path, programs: Path, text: str, says: str, verb: str
) -> None:
    install(programs, "v3.260.0")
    cloud = project / HOME / "timeslice" / CLOUD
    cloud.parent.mkdir(parents=True)
    cloud.write_text(text, encoding="utf-8")
    assert_one_line(call(verb, cwd=project, path=programs), 2, str(cloud), says, "move it away")
    assert cloud.read_text(encoding="utf-8") == text


def test_a_cloud_in_use_by_another_command_is_told_in_one_line(project: Path, programs: Path) -> None:
    # There is no `pulumi`: nothing that takes time comes before this answer.
    world = World(project / HOME / "timeslice" / CLOUD)
    try:
        done = call("status", cwd=project, path=programs)
    finally:
        world.close()
    assert_one_line(done, 2, f"the sandbox of timeslice is in use by process {os.getpid()}. Wait for its command")


def test_an_unknown_stack_is_told_with_the_nearest_one(project: Path, programs: Path) -> None:
    assert_one_line(call("up", "timeslic", cwd=project, path=programs), 2, "Did you mean timeslice?")


def test_a_stack_that_plan_refuses_is_refused_before_anything_starts(project: Path, programs: Path) -> None:
    file = project / "Pulumi.timeslice.yaml"
    file.write_text(file.read_text(encoding="utf-8").replace("replicas: 2", "replicas: 1"), encoding="utf-8")
    done = call("up", cwd=project, path=programs)
    assert done.returncode == 1
    assert "sharing.replicas" in done.stdout
    assert not (project / ".tandem").exists()


def test_a_folder_without_a_project_is_told_in_one_line(tmp_path: Path, programs: Path) -> None:
    assert_one_line(call("status", cwd=tmp_path, path=programs), 2, "no Pulumi.yaml")


@pytest.mark.slow
def test_deleting_something_that_is_not_there_is_told(project: Path, programs: Path) -> None:
    install(programs, "v3.260.0")
    done = call("delete", "timeslice", "aws:ec2/vpc:Vpc", "vpc-1", cwd=project, path=programs)
    assert_one_line(done, 1, "no aws:ec2/vpc:Vpc 'vpc-1'", "`tandem sandbox pulumi timeslice -- stack --show-ids`")


@pytest.mark.slow
@pytest.mark.parametrize("verb", ["up", "refresh", "destroy", "status", "delete"])
def test_programs_get_an_error_as_one_object(project: Path, programs: Path, verb: str) -> None:
    thing = ("timeslice", "aws:ec2/vpc:Vpc", "vpc-1") if verb == "delete" else ()
    done = call(verb, *thing, "--json", cwd=project, path=programs)
    assert (done.returncode, done.stderr) == (2, "")
    found = json.loads(done.stdout)
    assert (found["schema_version"], "no `pulumi` on the PATH" in found["error"]) == (1, True)


@pytest.mark.slow
def test_programs_are_answered_where_there_is_nothing_to_delete(project: Path, programs: Path) -> None:
    install(programs, "v3.260.0")
    done = call("delete", "timeslice", "aws:ec2/vpc:Vpc", "vpc-1", "--json", cwd=project, path=programs)
    assert (done.returncode, done.stderr) == (1, "")
    assert "no aws:ec2/vpc:Vpc 'vpc-1'" in json.loads(done.stdout)["error"]


@pytest.mark.slow
@pytest.mark.parametrize("verb", ["up", "preview", "refresh", "destroy", "status"])
def test_a_project_on_a_read_only_disk_is_refused_in_one_line(project: Path, programs: Path, verb: str) -> None:
    install(programs, "v3.260.0")
    read_only = 'mount --bind "$1" "$1" && mount -o remount,ro,bind "$1" && cd "$1" && shift && exec "$@"'
    inside = ["unshare", "--map-root-user", "--mount", "sh", "-c", read_only, "sh", str(project)]
    if subprocess.run([*inside, "true"], capture_output=True).returncode:
        pytest.skip("unshare cannot mount a folder read-only")
    env = {**os.environ, "PATH": f"{programs}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT)}
    command = [*inside, sys.executable, "-m", "tandem", "sandbox", verb]
    done = subprocess.run(command, env=env, capture_output=True, text=True)
    folder = project / HOME / "timeslice"
    assert_one_line(done, 2, f"tandem: {folder} cannot be written (Read-only file system). Copy the project to")


@pytest.mark.parametrize(
    ("number", "says"),
    [
        (errno.EACCES, "cannot be written (Permission denied). Copy the project to a folder that you can write"),
        (errno.ENOSPC, "is full. Free some space, and run the same command again."),
        (errno.EDQUOT, "is full. Free some space, and run the same command again."),
    ],
)
def test_a_folder_that_takes_no_file_is_named_with_the_fix(
    project: Path, monkeypatch: pytest.MonkeyPatch, number: int, says: str
) -> None:
    def refuse(place: Place, **options: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr("tandem.sandbox.verbs.opened", refuse)
    place = Place("timeslice", project / "Pulumi.timeslice.yaml", project)
    with pytest.raises(CallError, match=re.escape(says)) as raised:
        command("status", place)
    assert str(place.folder) in str(raised.value)
