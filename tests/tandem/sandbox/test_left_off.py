"""What a command that did not finish leaves for `tandem sandbox status`. A stand-in for `pulumi` succeeds or fails."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from sandbox.world import Thing, World
from tandem.sandbox import verbs as command
from tandem.sandbox.pulumi import Pulumi
from tandem.sandbox.state import Findings, Managed, Orphan, Unfinished
from tandem.sandbox.verbs import Place, Sandbox
from tandem.terminal import FAILED, FINE
from tests.command import Printed
from tests.kills.killing import advised

VPC = Managed("urn:pulumi:dev::tandem::aws:ec2/vpc:Vpc::tandem-vpc", "aws:ec2/vpc:Vpc", "vpc-1")


class Ending(Pulumi):
    """Runs nothing, and ends as it is made to."""

    def __init__(self) -> None:
        self.code = 0

    def run(self, *arguments: str) -> int:
        return self.code

    def state(self) -> dict[str, object]:
        return {}


@pytest.fixture
def pulumi() -> Ending:
    return Ending()


@pytest.fixture
def sandbox(tmp_path: Path, pulumi: Ending) -> Iterator[Sandbox]:
    place = Place("dev", tmp_path / "Pulumi.dev.yaml", tmp_path)
    place.folder.mkdir(parents=True)
    world = World()
    yield Sandbox(place, world, pulumi)
    world.close()


def status(sandbox: Sandbox, capsys: Printed) -> str:
    """What `status` prints of an empty state and cloud, which agree; 1 where the stack is incomplete."""
    capsys.readouterr()
    assert command._status(sandbox, ()) == (FAILED if sandbox.left_off else FINE)
    return capsys.readouterr().out


@pytest.mark.parametrize("verb", ["up", "destroy"])
@pytest.mark.parametrize("code", [255, -signal.SIGKILL])
def test_status_names_the_command_that_did_not_finish_until_it_succeeds(
    sandbox: Sandbox, pulumi: Ending, capsys: Printed, verb: str, code: int
) -> None:
    pulumi.code = code
    assert sandbox.run(verb) == FAILED
    said = status(sandbox, capsys)
    assert f"the last `{verb}` did not finish" in said
    assert advised(said) == [f"{verb} dev"]
    pulumi.code = 0
    sandbox.run("refresh")
    assert "did not finish" in status(sandbox, capsys)
    sandbox.run(verb)
    assert "did not finish" not in status(sandbox, capsys)


def test_a_killed_tandem_is_remembered(sandbox: Sandbox, capsys: Printed) -> None:
    def die(*arguments: str) -> int:
        raise KeyboardInterrupt

    sandbox.pulumi.run = die  # type: ignore[method-assign]
    with pytest.raises(KeyboardInterrupt):
        sandbox.run("up")
    assert "the last `up` did not finish" in status(sandbox, capsys)


def test_a_killed_pulumi_is_named_on_a_line_of_its_own(sandbox: Sandbox, pulumi: Ending, capsys: Printed) -> None:
    pulumi.code = -signal.SIGKILL
    sandbox.run("up")
    assert capsys.readouterr().out == "\nsandbox: pulumi was killed by SIGKILL\n"


@pytest.mark.parametrize(
    ("left_off", "commands"),
    [("", ["refresh dev", "up dev"]), ("up", ["refresh dev", "up dev"]), ("destroy", ["refresh dev", "destroy dev"])],
)
def test_missing_things_are_repaired_by_refresh_and_then_up(
    sandbox: Sandbox,
    monkeypatch: pytest.MonkeyPatch,
    capsys: Printed,
    left_off: str,
    commands: list[str],
) -> None:
    found = Findings((), 3, 2, (), (VPC,), (), left_off)
    monkeypatch.setattr(Sandbox, "findings", lambda *_: found)
    assert command._status(sandbox, ()) == FAILED
    assert advised(capsys.readouterr().out) == commands


def test_a_refresh_that_removes_missing_things_is_followed_by_up(
    sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch, capsys: Printed
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(Sandbox, "prepare", lambda *_, **__: None)
        patched.setattr(Sandbox, "findings", lambda *_: Findings((), 3, 2, (), (VPC,), ()))
        assert command._refresh(sandbox, ()) == FINE
    said = status(sandbox, capsys)
    assert "`refresh` removed things" in said
    assert advised(said) == ["up dev"]


def test_a_thing_whose_deletion_did_not_end_is_named_once(
    sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch, capsys: Printed
) -> None:
    deleting = Unfinished(VPC.urn, VPC.type, "deleting")
    monkeypatch.setattr(Sandbox, "findings", lambda *_: Findings((), 3, 2, (), (VPC,), (deleting,), "destroy"))
    assert command._status(sandbox, ()) == FAILED
    said = capsys.readouterr().out
    assert said.count("tandem-vpc") == 1
    assert advised(said) == ["refresh dev", "destroy dev"]


def test_destroy_counts_what_is_left_in_the_cloud_alone(
    sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch, capsys: Printed
) -> None:
    thing = Thing(type=VPC.type, id="vpc-2", name="somebodys", inputs={}, outputs={})
    orphan = Orphan(thing, f"tandem sandbox delete dev {VPC.type} vpc-2")
    monkeypatch.setattr(Sandbox, "prepare", lambda *_, **__: None)
    monkeypatch.setattr(Sandbox, "findings", lambda *_: Findings((), 0, 1, (orphan,), (), ()))
    assert command._destroy(sandbox, ()) == FAILED
    said = capsys.readouterr().out
    assert "left in the cloud, and in nobody's state: 1" in said
    assert orphan.repair in said


@pytest.mark.parametrize("verb", [command._refresh, command._destroy])
def test_a_stack_whose_file_is_broken_can_be_refreshed_and_destroyed(
    sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch, verb: Callable[[Sandbox, tuple[str, ...]], int]
) -> None:
    """What is there was planned by an earlier version of the file, whose copy the sandbox keeps."""
    given = []
    monkeypatch.setattr(Sandbox, "prepare", lambda _, anew: given.append(anew))
    assert verb(sandbox, ()) == FINE
    assert given == [False]
