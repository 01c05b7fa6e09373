"""The arguments of `tandem sandbox`, and its messages if something is wrong, missing or broken. `pulumi` is a stub."""

import errno
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from unittest import mock

import pytest

from sandbox.world import World
from tandem.sandbox.command import VERBS
from tandem.sandbox.pulumi import executable
from tandem.sandbox.verbs import CLOUD, HOME, Place, command, opened
from tandem.terminal import CallError
from tests.command import Ended, call

ROOT = Path(__file__).parents[3]
HOSTS = ("pulumi-language-python", "pulumi-language-python-exec")
VPC = ("aws:ec2/vpc:Vpc", "vpc-1")


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with one stack. There is no `pulumi`."""
    (tmp_path / "bin").mkdir()
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    for name in ("Pulumi.yaml", "Pulumi.timeslice.yaml", "__main__.py"):
        shutil.copy(ROOT / name, tmp_path)
    return tmp_path


def install(project: Path, version: str, *, hosts: Sequence[str] = HOSTS) -> None:
    """Puts a stub `pulumi` on the PATH that reports a version."""
    for name in ("pulumi", *hosts):
        (project / "bin" / name).write_text(f"#!/bin/sh\n[ $1 = version ] && echo {version}\n", encoding="utf-8")
        (project / "bin" / name).chmod(0o755)


def refused(project: Path, *arguments: str, code: int = 2) -> str:
    """The one line of a call, after a check that `--json` has the same text."""
    ended = call("sandbox", *arguments, cwd=project)
    assert (ended.returncode, ended.stdout, ended.stderr.count("\n")) == (code, "", 1), ended
    if arguments[0] not in ("preview", "pulumi") and "--" not in arguments:
        shown = call("sandbox", *arguments, "--json", cwd=project)
        assert shown == Ended(code, shown.stdout, "")
        assert shown.json.keys() == {"schema_version", "error", "problems"}
        assert f"error: {shown.json['error']}\n" == ended.stderr
    return ended.stderr


@pytest.mark.parametrize("verb", VERBS)
def test_help_of_every_verb_fits_80_columns(project: Path, verb: str) -> None:
    ended = call("sandbox", verb, "--help", cwd=project, columns=80)
    assert ended.returncode == 0
    assert ended.stdout.startswith(f"usage: tandem sandbox {verb} ")
    assert max(map(len, ended.stdout.splitlines())) <= 80
    behind = {"pulumi": " -- ARGUMENT ...", "status": "", "delete": ""}.get(verb, " [-- ARGUMENT ...]")
    usage = ended.stdout.partition("\n\n")[0]
    assert ("--json" in ended.stdout) == (verb not in ("preview", "pulumi"))
    assert usage.endswith(f" [STACK|FILE]{behind}") or (verb, "ARGUMENT" in usage) in (("delete", False),)


@pytest.mark.parametrize(("given", "pace"), [((), 0), (("--pace", "0"), 0), (("--pace", "1.5"), 1.5)])
def test_a_minute_of_the_cloud_takes_as_long_as_the_option_specifies(
    project: Path, given: tuple[str, ...], pace: float
) -> None:
    install(project, "v3.260.0")
    with mock.patch("sandbox.world.World", wraps=World) as opened:
        call("sandbox", "destroy", *given, cwd=project)
    assert opened.call_args.kwargs == {"seconds_per_minute": pace}


def test_a_sandbox_outlives_its_stack_file(project: Path) -> None:
    (project / HOME / "old").mkdir(parents=True)
    assert "`pulumi` is not on the PATH" in refused(project, "destroy", "old")
    install(project, "v3.260.0")
    shown = "sandbox: old: 0 resources in Pulumi's state, 0 in the emulated cloud\nsandbox: state and cloud agree\n"
    assert call("sandbox", "status", "old", cwd=project) == Ended(0, shown, "")


def test_a_folder_without_a_project_is_reported(tmp_path: Path) -> None:
    assert "no Pulumi.yaml" in refused(tmp_path, "status")


def test_a_project_is_found_beside_its_stack_file(project: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    said = refused(tmp_path_factory.mktemp("elsewhere"), "status", str(project / "Pulumi.timeslice.yaml"))
    assert "`pulumi` is not on the PATH" in said
    assert not (project / ".tandem").exists()


def test_a_stack_file_elsewhere_belongs_to_the_project_of_the_current_folder(
    project: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    elsewhere = (project / "Pulumi.timeslice.yaml").rename(tmp_path_factory.mktemp("elsewhere") / "Pulumi.own.yaml")
    (project / "docs").mkdir()
    for folder in (project, project / "docs"):
        assert "`pulumi` is not on the PATH" in refused(folder, "status", str(elsewhere))


@pytest.mark.parametrize(
    ("version", "hosts", "says"),
    [
        ("v3.100.0", HOSTS, "pulumi is v3.100.0, but the sandbox needs 3.250 or later."),
        ("v3.249.9", HOSTS, "pulumi is v3.249.9, but the sandbox needs 3.250 or later."),
        ("v3.250.0", (), "pulumi has no pulumi-language-python beside it"),
        ("v3.260.0", HOSTS[1:], "pulumi has no pulumi-language-python beside it"),
        ("v3.260.0", HOSTS[:1], "pulumi has no pulumi-language-python-exec beside it"),
    ],
)
def test_a_pulumi_that_is_too_old_or_incomplete_is_reported(
    project: Path, version: str, hosts: Sequence[str], says: str
) -> None:
    install(project, version, hosts=hosts)
    assert f"{project / 'bin'}/{says}" in refused(project, "up")


def test_the_language_hosts_are_beside_the_linked_pulumi(project: Path) -> None:
    install(project, "v3.260.0")
    whole = (project / "bin").rename(project / "whole")
    linked = project / "bin" / "pulumi"
    linked.parent.mkdir()
    linked.symlink_to(whole / "pulumi")
    assert executable() == str(linked)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('{"format": "tandem sandbox wor', "is not valid JSON"),
        ("{}", "is not a state file of the sandbox"),
        ('{"format": "tandem sandbox world", "version": 99}', "another version"),
        ('{"format": "tandem sandbox world", "version": 1}', "is incomplete"),
    ],
)
@pytest.mark.parametrize("verb", ["up", "status", "destroy"])
def test_a_broken_state_is_named_with_its_fix_and_left_alone(project: Path, text: str, says: str, verb: str) -> None:
    install(project, "v3.260.0")
    cloud = project / HOME / "timeslice" / CLOUD
    cloud.parent.mkdir(parents=True)
    cloud.write_text(text, encoding="utf-8")
    said = refused(project, verb)
    assert [part for part in (str(cloud), says, "move it with `mv ") if part not in said] == []
    assert cloud.read_text(encoding="utf-8") == text


def test_a_cloud_in_use_by_another_command_is_reported(project: Path) -> None:
    # There is no `pulumi`, so the answer comes before any slow step.
    world = World(project / HOME / "timeslice" / CLOUD)
    try:
        said = refused(project, "status")
    finally:
        world.close()
    assert f"the sandbox of timeslice is in use by process {os.getpid()}. Wait until its command" in said


@pytest.mark.parametrize("verb", ["up", "preview"])
def test_a_stack_that_plan_refuses_is_refused_before_anything_starts(project: Path, verb: str) -> None:
    file = project / "Pulumi.timeslice.yaml"
    file.write_text(file.read_text(encoding="utf-8").replace("replicas: 2", "replicas: 1"), encoding="utf-8")
    ended = call("sandbox", verb, cwd=project)
    assert ended.returncode == 1
    assert "sharing.replicas" in ended.stdout
    assert not (project / ".tandem").exists()


def test_deleting_a_missing_resource_is_reported(project: Path) -> None:
    install(project, "v3.260.0")
    said = refused(project, "delete", "timeslice", *VPC, code=1)
    assert "no aws:ec2/vpc:Vpc 'vpc-1'" in said
    assert "`tandem sandbox pulumi timeslice -- stack --show-ids`" in said


def test_a_resource_is_deleted_for_people_and_for_programs(project: Path) -> None:
    install(project, "v3.260.0")
    world = World(project / HOME / "timeslice" / CLOUD)
    one, other = (world.create(VPC[0], name, {"cidrBlock": "10.0.0.0/16"}, {})[0] for name in ("one", "other"))
    world.close()
    delete = ("sandbox", "delete", "timeslice", VPC[0])
    assert call(*delete, one, cwd=project) == Ended(0, f"sandbox: deleted {VPC[0]} {one}\n", "")
    assert call(*delete, other, "--json", cwd=project).json["deleted"] == {"type": VPC[0], "id": other}


def test_text_in_the_emulated_cloud_is_made_printable(project: Path) -> None:
    install(project, "v3.260.0")
    world = World(project / HOME / "timeslice" / CLOUD)
    world.create(VPC[0], "a\x1b]0;title\x07\u202eb", {"cidrBlock": "10.0.0.0/16"}, {})
    world.close()
    for options in ((), ("--json",)):
        ended = call("sandbox", "status", "timeslice", *options, cwd=project)
        assert ended.returncode == 1
        assert "title" in ended.stdout
        assert not {"\x1b", "\x07", "\u202e"} & {*ended.stdout, *ended.stderr}


def test_a_cloud_is_cleared_of_what_a_kill_left_and_its_providers_are_attached(project: Path) -> None:
    install(project, "v3.260.0")
    place = Place("timeslice", project / "Pulumi.timeslice.yaml", project)
    left = place.folder / "state" / "timeslice.json.attrs"
    left.parent.mkdir(parents=True)
    left.touch()
    with opened(place, pace=0) as sandbox:
        attached = sandbox.pulumi.environment()["PULUMI_DEBUG_PROVIDERS"]
    assert not left.exists()
    assert {one.partition(":")[0] for one in attached.split(",")} >= {"aws", "eks", "kubernetes"}


@pytest.mark.slow
@pytest.mark.parametrize("verb", ["up", "preview", "refresh", "destroy", "status"])
def test_a_project_on_a_read_only_disk_is_refused_in_one_line(project: Path, verb: str) -> None:
    install(project, "v3.260.0")
    read_only = 'mount --bind "$1" "$1" && mount -o remount,ro,bind "$1" && cd "$1" && shift && exec "$@"'
    inside = ["unshare", "--map-root-user", "--mount", "sh", "-c", read_only, "sh", str(project)]
    env = {**os.environ, "PATH": f"{project / 'bin'}:/usr/sbin:/usr/bin:/sbin:/bin", "PYTHONPATH": str(ROOT)}
    if subprocess.run([*inside, "true"], env=env, capture_output=True).returncode:
        pytest.skip("unshare cannot mount a folder read-only")
    done = subprocess.run(
        [*inside, sys.executable, "-m", "tandem", "sandbox", verb], env=env, capture_output=True, text=True
    )
    folder = project / HOME / "timeslice"
    said = f"error: {folder} cannot be written (Read-only file system). Copy the project to"
    assert (done.returncode, done.stdout, done.stderr[: len(said)], done.stderr.count("\n")) == (2, "", said, 1)


@pytest.mark.parametrize(
    ("number", "says"),
    [
        (errno.EROFS, "cannot be written (Read-only file system). Copy the project to"),
        (errno.EPERM, "cannot be written (Operation not permitted). Copy the project to"),
        (errno.EACCES, "cannot be written (Permission denied). Copy the project to a writable folder"),
        (errno.ENOSPC, "is full. Free disk space, then repeat the command."),
        (errno.EDQUOT, "is full. Free disk space, then repeat the command."),
        (errno.EIO, "Input/output error"),
    ],
)
def test_a_read_only_folder_is_named_with_the_fix(
    project: Path, monkeypatch: pytest.MonkeyPatch, number: int, says: str
) -> None:
    def refuse(place: Place, **options: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr("tandem.sandbox.verbs.opened", refuse)
    place = Place("timeslice", project / "Pulumi.timeslice.yaml", project)
    with pytest.raises((CallError, OSError), match=re.escape(says)) as raised:
        command("status", place, (), pace=0, as_json=False)
    named = isinstance(raised.value, CallError) and str(place.folder) in str(raised.value)
    assert named == (number != errno.EIO)
