"""Every rule is broken by one setup and kept by another, and every fix works."""

import datetime
import re
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sharing import versions
from sharing.hardware.gpus import instance_types
from sharing.modes.modes import Mps, Sharing
from sharing.sections.config import StackConfig
from sharing.sections.pools import GpuPool
from sharing.verdict.rules.table import RULES, problems, warnings
from sharing.versions import Part
from tests.sharing.builders import SMALL, TODAY, changed, listed, mode, pool, read_cases, replace, setup, tenants
from tests.sharing.rows import read_setup


def on(*types: str, sharing: Sharing | None = None, **overrides: Any) -> StackConfig:
    return setup(pools=(pool(types, sharing, **overrides),))


def several(second: GpuPool, *them: str, own: str = "sharing") -> StackConfig:
    """A good pool with a model, and `second` with its models (one by default); `own` is the path of its sharing."""
    first, here = listed(0, "first", pool()), listed(1, "rest", second, own)
    here_too = tenants(*(them or (SMALL,)), pool="rest")
    moved = [replace(served, path=f"models[{index}]") for index, served in enumerate(here_too, 1)]
    return setup(pools=(first, here), models=(*tenants(SMALL, pool="first"), *moved))


# The table of `rules.yaml`.


@dataclass(frozen=True)
class Case:
    """A setup that a rule is about, and the rule's errors for it."""

    config: StackConfig
    says: list[str]
    pins: dict[str, Any] = field(default_factory=dict)
    """Values of `sharing.versions` that differ from the real ones."""


def read_case(row: dict[str, Any]) -> Case:
    says = [text.replace("{OLLAMA}", versions.OLLAMA) for text in row.get("says", [])]
    pins = row.get("pins", {})
    if "PARTS" in pins:
        pins = {"PARTS": [Part(**part) for part in pins["PARTS"]]}
    return Case(read_setup({key: row[key] for key in row if key not in ("says", "pins")}), says, pins)


TABLE = read_cases("rules")


def numbered(kind: str) -> list[Any]:
    """The rows of the table. Each test reads its own: all of them take a second."""
    return [
        pytest.param(name, row, id=f"{name} {number}")
        for name, rule in TABLE.items()
        for number, row in enumerate(rule[kind])
    ]


def found_by(name: str, whole: StackConfig) -> list[str]:
    (rule,) = [rule for rule in RULES if rule.name == name]
    return [str(problem) for problem in rule.check(whole)]


def test_every_rule_is_broken_and_kept_by_a_case() -> None:
    names = [rule.name for rule in RULES]
    assert names == list(TABLE)
    assert all(rule["broken"] and rule["kept"] for rule in TABLE.values())
    assert [rule.refuses for rule in RULES] == [True] * 28 + [False] * 24


@pytest.mark.parametrize(("name", "row"), numbered("broken"))
def test_a_broken_rule_is_reported_with_its_fix(
    name: str, row: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    case = read_case(row)
    for pin, value in case.pins.items():
        monkeypatch.setattr(versions, pin, value)
    assert found_by(name, case.config) == case.says
    assert case.says
    refused, doubted = ({str(one) for one in find(case.config)} for find in (problems, warnings))
    refuses = list(TABLE).index(name) < 28
    assert set(case.says) <= (refused if refuses else doubted)
    assert not set(case.says) & (doubted if refuses else refused)


@pytest.mark.parametrize(("name", "row"), numbered("kept"))
def test_a_kept_rule_reports_nothing(name: str, row: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    case = read_case(row)
    for pin, value in case.pins.items():
        monkeypatch.setattr(versions, pin, value)
    assert found_by(name, case.config) == case.says == []


def test_a_good_setup_has_neither_problems_nor_warnings() -> None:
    assert problems(setup()) == []
    assert warnings(setup()) == []


@pytest.mark.parametrize("name", [name for name, known in instance_types().items() if known.arch == "arm64"])
def test_the_real_pins_run_on_graviton(name: str) -> None:
    assert found_by("every part has a build for the architecture", on(name)) == []
    assert not [problem for problem in problems(on(name)) if "types" in problem.path]


# Several pools.


def test_a_rule_reports_each_pool_that_breaks_it() -> None:
    whole = several(pool(sharing=Mps()), SMALL, SMALL, SMALL, own="gpu-nodes[1].sharing")
    crowded = replace(whole, models=(*tenants(*[SMALL] * 3, pool="first"), *whole.models[1:]))
    wrong = [problem.found for problem in problems(crowded) if problem.rule == "every model needs a share"]
    assert [text.split()[3].rstrip(",") for text in wrong] == ["first", "rest"]


def test_an_error_of_the_stacks_sharing_is_reported_once_for_all_its_pools() -> None:
    whole = several(pool(sharing=Mps()))
    both = replace(whole, pools=(replace(whole.pools[0], sharing=Mps()), whole.pools[1]))
    assert [one.path for one in warnings(both)] == ["sharing.mode"]
    differ = replace(both, pools=(both.pools[0], replace(both.pools[1], sharing_path="gpu-nodes[1].sharing")))
    assert [one.path for one in warnings(differ)] == ["sharing.mode", "gpu-nodes[1].sharing.mode"]


# Fixes, applied.


def fixes(whole: StackConfig, fix: str) -> list[StackConfig]:
    """The setups that result from each of the fixes in `fix`."""
    ways = fix.removeprefix("Write ").removesuffix(".").split("; or ")
    found = [changed(whole, re.sub(" to share the GPU| for smaller slices", "", way)) for way in ways]
    here, there = whole.pools[-1], found[0].pools[-1]
    assert there == replace(here, desired=there.desired, max=there.max), "the first fix is more nodes"
    assert there.max >= max(here.max, there.desired)
    return found


@pytest.mark.slow
@given(
    kind=st.sampled_from(["g4dn.xlarge", "g4dn.12xlarge", "p3.2xlarge", "g5g.metal", "g6f.large"]),
    name=st.sampled_from(["exclusive", "timeslice", "mps"]),
    replicas=st.integers(2, 16),
    desired=st.integers(0, 3),
    more=st.integers(0, 2),
    count=st.integers(1, 64),
    alone=st.booleans(),
    provisioner=st.sampled_from(["node-group", "karpenter"]),
)
@settings(max_examples=200)
def test_each_fix_of_too_few_shares_works(
    kind: str, name: str, replicas: int, desired: int, more: int, count: int, alone: bool, provisioner: str
) -> None:
    most = max(desired + more, 1)
    here = pool(kind, mode(name, replicas), desired=desired, max=most, provisioner=provisioner)
    whole = setup(pools=(here,), models=tenants(*[SMALL] * count)) if alone else several(here, *[SMALL] * count)
    broken = [one for one in problems(whole) if one.path == "models"]
    assert bool(broken) == (count > here.total_shares)
    for problem in broken:
        outs = fixes(whole, problem.fix)
        assert 1 <= len(outs) <= 2
        for out in outs:
            assert not {"models", "sharing.replicas"} & {one.path for one in problems(out)}, problem.fix
            assert out.pools[-1].desired == 0 or desired > 0
        nodes = outs[0].pools[-1].planned_nodes
        shares = here.total_shares // here.planned_nodes
        assert nodes == max(-(-count // shares), here.max if desired == 0 or provisioner == "karpenter" else 0)


@given(count=st.integers(1, 20), volume=st.integers(1, 200))
@settings(max_examples=50)
def test_the_fix_names_the_smallest_disk_that_holds_the_models(count: int, volume: int) -> None:
    whole = setup(pools=(pool(volume_gib=volume),), models=tenants(*["llama3.1:8b"] * count))
    for problem in [one for one in problems(whole) if one.path == "gpu-nodes.volume-gib"]:
        (number,) = re.findall(r"`volume-gib: (\d+)`", problem.fix)
        for gib, enough in ((int(number), True), (int(number) - 1, False)):
            out = replace(whole, pools=(pool(volume_gib=gib),))
            assert ("gpu-nodes.volume-gib" not in {one.path for one in problems(out)}) is enough


def test_the_fix_names_a_good_kubernetes_version_other_than_the_refused_one() -> None:
    for version in ("1.30", "1.33", "1.34", "1.35", "1.36", "1.37", "odd"):
        for days in (0, 11, 200, 400, 700):
            whole = setup(kubernetes=version, today=TODAY + datetime.timedelta(days=days))
            for problem in (*problems(whole), *warnings(whole)):
                named = re.findall(r'`kubernetes: "([\d.]+)"`', problem.fix)
                assert named == ([] if version == "1.36" else ["1.36"]), problem


def test_the_newest_version_is_found_by_number_not_by_text(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(versions, "AMI_KUBERNETES", {"1.9": "1.9.0", "1.10": "1.10.0"})
    whole = setup(kubernetes="1.8")
    (problem,) = problems(whole)
    assert problem.rule == "must be one of 1.9, 1.10"
    assert problem.fix == 'Write `kubernetes: "1.10"`.'
