"""The arguments of `tandem sandbox`, and its messages if something is wrong, missing or broken. `pulumi` is a stub."""

import errno
import os
import re
import shutil
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
VPC = "aws:ec2/vpc:Vpc"


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


def test_the_help_names_every_verb_and_what_it_does() -> None:
    shown = call("sandbox", "--help").stdout
    assert "{" not in shown, "the verbs are in a list of their own"
    listed = " ".join(shown.partition("\ncommands:\n")[2].split())
    assert [verb for verb, what in VERBS.items() if f"{verb} {what}" not in listed] == []


@pytest.mark.parametrize(("given", "pace"), [((), 0), (("--pace", "1.5"), 1.5)])
def test_a_minute_takes_as_long_as_the_option_specifies(project: Path, given: tuple[str, ...], pace: float) -> None:
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


def test_a_stack_file_elsewhere_belongs_to_the_project_of_the_current_folder(
    project: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    elsewhere = (project / "Pulumi.timeslice.yaml").rename(tmp_path_factory.mktemp("elsewhere") / "Pulumi.own.yaml")
    (project / "docs").mkdir()
    for folder in (project, project / "docs"):
        assert "`pulumi` is not on the PATH" in refused(folder, "status", str(elsewhere))
    own = str(shutil.copy(elsewhere, project))
    assert "`pulumi` is not on the PATH" in refused(elsewhere.parent, "status", own)


@pytest.mark.parametrize(
    ("version", "hosts", "says"),
    [
        ("v3.249.9", HOSTS, "pulumi is v3.249.9, but the sandbox needs 3.250 or later."),
        ("v3.250.0", (), "pulumi has no pulumi-language-python beside it"),
        ("v3.260.0", HOSTS[:1], "pulumi has no pulumi-language-python-exec beside it"),
    ],
)
def test_a_pulumi_that_is_too_old_or_incomplete_is_reported(
    project: Path, version: str, hosts: Sequence[str], says: str
) -> None:
    install(project, version, hosts=hosts)
    assert f"{project / 'bin'}/{says}" in refused(project, "up")
    assert not (project / ".tandem").exists()


def test_the_language_hosts_are_beside_the_linked_pulumi(project: Path) -> None:
    install(project, "v3.260.0")
    whole = (project / "bin").rename(project / "whole")
    linked = project / "bin" / "pulumi"
    linked.parent.mkdir()
    linked.symlink_to(whole / "pulumi")
    assert executable() == str(linked)


@pytest.mark.parametrize("verb", ["up", "status", "destroy"])
def test_a_broken_state_is_named_with_its_fix_and_left_alone(project: Path, verb: str) -> None:
    """Other ways in which a state is broken: tests/sandbox/world/test_file.py."""
    install(project, "v3.260.0")
    cloud = project / HOME / "timeslice" / CLOUD
    cloud.parent.mkdir(parents=True)
    cloud.write_text("{}", encoding="utf-8")
    said = refused(project, verb)
    expected = (str(cloud), "is not a state file of the sandbox", "move it with `mv ")
    assert [part for part in expected if part not in said] == []
    assert cloud.read_text(encoding="utf-8") == "{}"


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


@pytest.mark.parametrize("verb", ["up", "preview"])
def test_a_cluster_that_the_sandbox_lacks_is_named_before_anything_starts(project: Path, verb: str) -> None:
    file = project / "Pulumi.timeslice.yaml"
    section = "  tandem:cluster: {existing: {name: platform}}\n"
    text = re.sub(r"  tandem:cluster:.*\n(    .*\n)*", "", file.read_text(encoding="utf-8"))
    file.write_text(text + section, encoding="utf-8")
    said = refused(project, verb)
    assert said.startswith("error: cluster.existing: the sandbox has no cluster 'platform'. Remove the section to try ")
    assert not (project / ".tandem").exists()


def test_a_resource_is_deleted_for_people_and_for_programs(project: Path) -> None:
    install(project, "v3.260.0")
    world = World(project / HOME / "timeslice" / CLOUD)
    one, other = (world.create(VPC, name, {"cidrBlock": "10.0.0.0/16"}, {})[0] for name in ("one", "other"))
    world.close()
    delete = ("sandbox", "delete", "timeslice", VPC)
    said = refused(project, *delete[1:], "vpc-1", code=1)
    assert "no aws:ec2/vpc:Vpc 'vpc-1'" in said
    assert "`tandem sandbox pulumi timeslice -- stack --show-ids`" in said
    assert call(*delete, one, cwd=project) == Ended(0, f"sandbox: deleted {VPC} {one}\n", "")
    shown = call(*delete, other, "--json", cwd=project).json
    assert shown == {"schema_version": 1, "stack": "timeslice", "deleted": {"type": VPC, "id": other}}


def test_text_in_the_emulated_cloud_is_made_printable(project: Path) -> None:
    install(project, "v3.260.0")
    world = World(project / HOME / "timeslice" / CLOUD)
    world.create(VPC, "a\x1b]0;title\x07\u202eb", {"cidrBlock": "10.0.0.0/16"}, {})
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
        environment = sandbox.pulumi.environment()
    attached = environment["PULUMI_DEBUG_PROVIDERS"]
    assert environment["TANDEM_STACK_FOLDER"] == str(project.resolve())
    assert not left.exists()
    assert {one.partition(":")[0] for one in attached.split(",")} >= {"aws", "eks", "kubernetes"}


@pytest.mark.parametrize(
    ("number", "says"),
    [
        (errno.EROFS, "cannot be written (Read-only file system). Copy the project to a writable folder"),
        (errno.EACCES, "cannot be written (Permission denied). Copy the project to a writable folder"),
        (errno.EPERM, "cannot be written (Operation not permitted). Copy the project to a writable folder"),
        (errno.EDQUOT, "is full. Free disk space, then repeat the command."),
        (errno.ENOSPC, "is full. Free disk space, then repeat the command."),
    ],
)
def test_a_folder_that_cannot_be_written_is_named_with_the_fix(
    project: Path, monkeypatch: pytest.MonkeyPatch, number: int, says: str
) -> None:
    def refuse(place: Place, **options: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr("tandem.sandbox.verbs.opened", refuse)
    place = Place("timeslice", project / "Pulumi.timeslice.yaml", project)
    with pytest.raises(CallError, match=f"{place.folder} {re.escape(says)}"):
        command("status", place, (), pace=0, as_json=False)
    number = errno.EIO
    with pytest.raises(OSError, match="Input/output error"):
        command("status", place, (), pace=0, as_json=False)
