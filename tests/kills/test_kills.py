"""The plan, the advice and the results of `make test-kills`; the suite itself kills nothing."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.engine.emulated import Stack
from tests.kills import __main__ as kills
from tests.kills import attempt
from tests.kills.bases import Bases
from tests.kills.killing import advised, steps
from tests.kills.results import summary
from tests.kills.trials import Trial, planned

STATUS = """sandbox: timeslice: 7 resources in Pulumi's state, 9 in the emulated cloud
sandbox: unfinished: creating aws:ec2/vpc:Vpc tandem-vpc
sandbox: orphan: aws:ec2/vpc:Vpc tandem-vpc (vpc-1), created by pulumi
sandbox: orphan: aws:ec2/eip:Eip tandem-eip (eip-1), created by pulumi
sandbox: the stack is incomplete: the last `up` did not finish
sandbox: hint: to continue, run in this order:
sandbox:   tandem sandbox refresh timeslice
sandbox:   tandem sandbox delete timeslice aws:ec2/eip:Eip eip-1
sandbox:   tandem sandbox up timeslice
"""
VPC, EIP = ("aws:ec2/vpc:Vpc", "tandem-vpc"), ("aws:ec2/eip:Eip", "tandem-eip")


def kept(number: int, **other: Any) -> dict[str, Any]:
    trial = planned(7)[number]
    made = {"number": number, "kind": trial.kind, "operation": trial.operation, "what": str(trial), "killed": True}
    return {**made, "followed": [], "failed": 0, "faults": [], "commit": "abc", "date": "2026-11-22", **other}


def test_a_seed_gives_the_same_trials_twenty_of_each_kind_over_every_operation() -> None:
    trials = planned(7)
    assert trials == planned(7) != planned(8)
    assert set(Counter(trial.kind for trial in trials).values()) == {20}
    tried = {(trial.kind, trial.operation) for trial in trials}
    kinds, operations = ("pulumi", "providers", "everything"), ("up", "switch", "destroy")
    assert tried == {*((kind, one) for kind in kinds for one in operations), ("hosts", "up"), ("hosts", "switch")}
    assert {(trial.kind, trial.operation) for trial in trials if trial.moment == 0} == tried


def test_the_commands_that_status_names_are_read_in_order() -> None:
    assert advised(STATUS) == ["refresh timeslice", "delete timeslice aws:ec2/eip:Eip eip-1", "up timeslice"]


def test_moments_are_counted_in_steps_of_the_engine_and_not_in_lines() -> None:
    said = b"""Updating (dev):
 +  aws:ec2/vpc:Vpc tandem-vpc creating (0s)
@ updating....
 +  aws:ec2/vpc:Vpc tandem-vpc created (0.30s)
Outputs:
    cost : {
Duration: 12s
"""
    assert steps(said) == 2


@pytest.mark.parametrize(
    ("made", "faults"),
    [
        ([VPC, EIP], []),
        ([VPC], ["lost: aws:ec2/eip:Eip tandem-eip"]),
        ([VPC, EIP, EIP], ["duplicated or left: aws:ec2/eip:Eip tandem-eip"]),
    ],
)
def test_what_is_lost_or_there_twice_is_a_fault(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, made: list[tuple[str, str]], faults: list[str]
) -> None:
    monkeypatch.setattr(attempt, "call", lambda *_: (0, "fine"))
    monkeypatch.setattr(attempt, "made_in", lambda _: Counter(made))
    record = attempt.Record()
    attempt.comes_back(Counter([VPC, EIP]), Stack(tmp_path, "timeslice"), record)
    assert record.faults == faults


def test_advice_that_fails_and_a_status_without_advice_are_faults(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    answers = iter([(1, STATUS), (1, "sandbox: unfinished: updating x\n")])
    monkeypatch.setattr(attempt, "call", lambda *_: next(answers))
    monkeypatch.setattr(attempt, "follow", lambda _, command: (int("delete" in command), "said"))
    record = attempt.Record()
    attempt.agree(Stack(tmp_path, "timeslice"), record)
    assert record.faults == [
        "`delete timeslice aws:ec2/eip:Eip eip-1` ends with exit code 1",
        "`status` names nothing that makes state and cloud agree",
    ]


def test_an_interrupted_run_continues_with_the_same_seed_and_keeps_what_has_ended(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    done: list[int] = []

    def do(trial: Trial, _: object, folder: Path) -> dict[str, Any]:
        if len(done) == 3:
            raise KeyboardInterrupt
        done.append(trial.number)
        (folder / f"{trial.number}.json").write_text(json.dumps(kept(trial.number)))
        return kept(trial.number)

    monkeypatch.setattr(kills, "HOME", tmp_path)
    monkeypatch.setattr(kills, "RESULTS", tmp_path / "results.md")
    monkeypatch.setattr(kills, "executable", lambda: "pulumi")
    monkeypatch.setattr(kills, "commit", lambda: "abc")
    monkeypatch.setattr(Bases, "of", lambda *_: None)
    monkeypatch.setattr(kills, "do", do)
    with pytest.raises(KeyboardInterrupt):
        kills.main(["--jobs", "1"])
    first = done.copy()
    assert not (tmp_path / "results.md").exists()
    done.insert(0, -1)
    assert kills.main(["--jobs", "1"]) == 0
    assert sorted(done[1:]) == list(range(80))
    assert done[1:4] == first
    [folder] = [one for one in tmp_path.iterdir() if one.is_dir()]
    assert f"Seed {folder.name}; 80 of 80 trials" in (tmp_path / "results.md").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("commit", "complete", "left"),
    [("abc", False, [0, 1]), ("abc", True, []), ("later", False, []), ("later", True, [])],
)
def test_only_unfinished_trials_of_the_same_code_are_kept(
    commit: str, complete: bool, left: list[int], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(kills, "commit", lambda: commit)
    for number in (0, 1):
        (tmp_path / f"{number}.json").write_text(json.dumps(kept(number)))
    if complete:
        (tmp_path / "complete").touch()
    kills.forget_other_code(tmp_path)
    assert sorted(kills.read(tmp_path)) == left
    assert not (tmp_path / "complete").exists()


def test_the_page_counts_what_recovered_and_names_every_fault() -> None:
    text = summary(7, [kept(0), kept(12, faults=["lost: x"]), kept(24, killed=False)], total=80)
    assert "3 of 80 trials; 2026-11-22; commit abc" in text
    assert "| `pulumi` alone | 1 of 2 (1 ended before) | – | – |" in text
    assert f"- {planned(7)[12]}: lost: x" in text
