"""Every key of a stack file has an effect: another value changes the right resources, and no key lacks a row."""

import json
import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import pytest

from sandbox.graph import Graph, plain
from sharing.modes.modes import mode_names
from stacks.stack_file.form_errors import fields
from stacks.stack_file.judge import Judged, judge
from stacks.stack_file.yaml import Source
from tandem.dry_run.program import program_graph
from tests.rows import read_yaml
from tests.sharing.builders import TODAY

Sections = Mapping[str, Any]
LEAST: Sections = {"aws:region": "us-east-1", "sharing": {"mode": "timeslice"}, "models": [{"name": "qwen2.5:0.5b"}]}


class Row(NamedTuple):
    """Another value for a key of a stack, and the resources that must change, by the last word of their type."""

    key: str
    value: object
    follow: tuple[str, ...] = ()
    on: Sections = MappingProxyType({})


TABLE: dict[str, Any] = read_yaml(Path(__file__).parent / "keys.yaml")


def rows(part: str) -> list[Row]:
    """A part of `keys.yaml`."""
    return [
        Row(
            row["key"],
            row["value"],
            tuple(row.get("follow", ())),
            TABLE["stacks"][stack] if isinstance(stack := row.get("stack", {}), str) else stack,
        )
        for row in TABLE[part]
    ]


NODES, SHARING, JUDGING = (rows(part) for part in ("nodes", "sharing", "judging"))
ROWS = [*NODES, *SHARING, *rows("others")]


def in_a_list(row: Row) -> Row:
    """The same key with `gpu-nodes` as a list whose one pool has its own sharing."""
    stack = {**LEAST, **row.on}
    pool = {"name": "a", **stack.get("gpu-nodes", {}), "sharing": stack["sharing"]}
    key = row.key.replace("gpu-nodes.", "gpu-nodes[].") if row in (*NODES, *JUDGING) else f"gpu-nodes[].{row.key}"
    return Row(key, row.value, row.follow, {**row.on, "gpu-nodes": [pool]})


LISTED = [in_a_list(row) for row in (*NODES, *SHARING)]
LISTED_JUDGING = [in_a_list(row) for row in JUDGING if row.key.startswith("gpu-nodes.")]


def text(stack: Sections) -> str:
    return json.dumps(stack, sort_keys=True)


def before(row: Row) -> str:
    return text({**LEAST, **row.on})


def after(row: Row) -> str:
    """The stack with the row's value for the key, and no other change."""
    stack: Any = json.loads(before(row))
    *above, last = row.key.split(".")
    place = stack
    for part in above:
        name = part.removesuffix("[]")
        place = place.setdefault(name, [{}] if part.endswith("[]") else {})
        place = place[0] if part.endswith("[]") else place
    place[last] = row.value
    return text(stack)


@cache
def graph(stack: str) -> Graph:
    return program_graph(judged(stack).plan())


def judged(stack: str) -> Judged:
    values = json.loads(stack)
    provider = {key: values.pop(key) for key in [*values] if key.startswith("aws:")}
    return judge(Source(values, provider, folder=Path(__file__).parent), "Pulumi.dev.yaml", today=TODAY)


def resources(stack: str) -> dict[str, object]:
    """The resources that Pulumi compares, without the stack's outputs, which may repeat a key without any effect."""
    return {
        resource.urn: (resource.type, plain(resource.inputs), resource.options, resource.provider)
        for resource in graph(stack)
    }


def verdict(stack: str) -> object:
    """All errors of form, or else the result of the rules; without the settings that they repeat."""
    result = judged(stack)
    if result.decided is None:
        return [problem.rule for problem in result.problems]
    return result.verdict.problems, [fit.placement.need for fit in result.verdict.fits]


def named(row: Row) -> str:
    return f"{row.key}-{'-'.join(map(str, row.on))}" if row.on else row.key


@pytest.mark.slow
@pytest.mark.parametrize("row", [*ROWS, *LISTED], ids=named)
def test_another_value_of_a_key_changes_the_resources_of_its_row(row: Row) -> None:
    was, now = resources(before(row)), resources(after(row))
    changed = {urn for urn in {*was, *now} if was.get(urn) != now.get(urn)}
    kinds = {urn.rsplit("::", 2)[1].rsplit("$")[-1].rsplit(":")[-1] for urn in changed}
    assert set(row.follow) <= kinds, sorted(kinds)


def test_system_nodes_and_gpu_nodes_both_follow_the_cluster() -> None:
    """Rows require only one changed node group. AMI types are those of the EKS API reference, `CreateNodegroup`."""
    cluster = {"kubernetes": "1.35", "system-nodes": {"instance-types": ["t4g.medium"]}}
    groups = graph(text({**LEAST, "cluster": cluster})).of_type("aws:eks/nodeGroup:NodeGroup")
    assert {group.name: (group.inputs["version"], group.inputs["amiType"]) for group in groups} == {
        "tandem-system": ("1.35", "AL2023_ARM_64_STANDARD"),
        "tandem-gpu-group": ("1.35", "AL2023_x86_64_NVIDIA"),
    }
    assert [group.inputs["instanceTypes"] for group in groups if group.name == "tandem-system"] == [["t4g.medium"]]


@pytest.mark.parametrize("row", [*JUDGING, *LISTED_JUDGING], ids=named)
def test_another_value_of_a_key_that_only_judges_changes_the_judgement(row: Row) -> None:
    assert verdict(before(row)) != verdict(after(row))


def test_every_key_has_a_row_and_every_row_has_a_key() -> None:
    """Keys that contain no others, of any sharing mode; a layout may also be one word."""
    paths = {re.sub(rf"\bsharing\.({'|'.join(mode_names())})\.", "sharing.", path) for path in fields()}
    sections = {path for path in paths if any(other.startswith((f"{path}.", f"{path}[].")) for other in paths)}
    keys = {path for path in paths if path not in sections or path.endswith(".layout")}
    assert {row.key for row in (*ROWS, *LISTED, *JUDGING, *LISTED_JUDGING)} == keys
