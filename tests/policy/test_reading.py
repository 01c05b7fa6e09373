"""The policy pack finds in a program what was put there, and survives what nobody put there on purpose."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from policy.program import GROUP, UNKNOWN, Resource, plain, read_program
from policy.rules import POLICY_RULES, find_violations, share_groups
from sandbox import graph
from sharing.modes.modes import TimeSlicing
from stacks.stack_file.judge import judge_file
from tandem.dry_run.program import program_graph
from tests.policy.declared import (
    config_map,
    daemon_set,
    deployment,
    group,
    node_pool,
    ollama,
    operator,
    plugin,
    sharing,
)
from tests.shipped import FILES, STACKS


class NotYetKnownError(Exception):
    """As pulumi-policy raises it."""


class Guarded(Mapping[str, Any]):
    """As pulumi-policy hands over a mapping: a value that is not yet known raises an error when it is read."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        self._values = values

    def __getitem__(self, key: str) -> Any:
        if self._values[key] is None:
            raise NotYetKnownError
        return self._values[key]

    def __iter__(self) -> Any:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)


def test_properties_become_plain_values() -> None:
    """Numbers are floats on Pulumi's wire."""
    given = Guarded({"size": 2.0, "price": 0.5, "text": "a", "off": False, "new": None, "in": [Guarded({"id": None})]})
    expected = {"size": 2, "price": 0.5, "text": "a", "off": False, "new": UNKNOWN, "in": [{"id": UNKNOWN}]}
    read = plain(given, NotYetKnownError)
    assert read == expected
    assert isinstance(read["size"], int)


def declared(stack: str) -> list[Resource]:
    """The resources of a shipped stack."""
    file = FILES[STACKS.index(stack)]
    return [
        Resource(
            urn=one.urn,
            type=one.type,
            name=one.name,
            props=graph.plain(one.inputs),
            needs=one.property_dependencies,
            region="us-east-1",
            cluster="" if one.type == GROUP else one.provider,
        )
        for one in program_graph(judge_file(file).plan()).resources.values()
    ]


@pytest.mark.slow
@pytest.mark.parametrize("stack", STACKS)
def test_a_shipped_stack_is_read_as_its_file_says_and_breaks_no_rule(stack: str) -> None:
    config = judge_file(FILES[STACKS.index(stack)]).plan().config
    [pool] = config.pools
    resources = declared(stack)
    [shared] = share_groups(read_program(resources))
    # A limit for each model is no property of the plugin, which counts pods as for time-slicing.
    planned = TimeSlicing(replicas=pool.sharing.replicas or 0) if pool.sharing.needs_node_daemon else pool.sharing
    gpu = pool.smallest.gpu
    assert {*shared.group.types} == {*pool.instance_types}
    assert shared.group.most_nodes == pool.max
    assert shared.sharing.offers(gpu) == planned.offers(gpu)
    read, _ = shared.stack()
    found = [(one.model.name, one.context, one.slots, one.kv_type) for one in read.models]
    assert sorted(found) == sorted((one.model.name, one.context, one.slots, one.kv_type) for one in config.models)
    assert [each for rule in POLICY_RULES for each in find_violations(rule, resources)] == []


PROGRAM = (
    group("p4d.24xlarge", labels={"nvidia.com/mig.config": "all-1g.5gb"}, taints=[{"key": "nvidia.com/gpu"}]),
    group("g4dn.xlarge", "t3.large", name="others", labels={"nvidia.com/device-plugin.config": "any"}),
    node_pool(instance_family=["g5"], instance_gpu_count=["1"]),
    plugin("mps", 3),
    operator(
        devicePlugin={"config": {"name": "gpus", "default": "any"}},
        migManager={"config": {"data": {"config.yaml": "mig-configs: {all-1g.5gb: [{mig-devices: {1g.5gb: 7}}]}"}}},
    ),
    config_map("gpus", any=sharing("timeSlicing", 4)),
    daemon_set("gpus", default="any"),
    ollama("llama2:70b", "mistral:7b", env={"OLLAMA_KV_CACHE_TYPE": "q8_0"}, nodeSelector={"a": "b"}),
    deployment("gemma3:1b", {"nvidia.com/gpu": "1"}),
)
"""Everything that the pack reads."""
Path = tuple[str | int, ...]


def paths(value: Any) -> Iterator[Path]:
    """The places of all values inside a value."""
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, each in inside:
        yield (key,)
        yield from ((key, *path) for path in paths(each))


def replace(value: Any, path: Path, other: Any) -> Any:
    """The value with another one at a path; in place of a text that holds YAML, another text."""
    if not path:
        return json.dumps(other, default=str) if isinstance(value, str) and "{" in value else other
    copied = value.copy()
    copied[path[0]] = replace(value[path[0]], path[1:], other)
    return copied


CONFIGS: tuple[Any, ...] = (
    {"sharing": []},
    {"sharing": {"mps": {"resources": [{"replicas": {}}, 1, {"replicas": 10**12}]}}},
    {"sharing": {"timeSlicing": {"resources": {"a": 1}}}},
    {"mig-configs": []},
    {"mig-configs": {"all-1g.5gb": {}}},
    {"mig-configs": {"all-1g.5gb": [{"mig-devices": []}]}},
    {"mig-configs": {"all-1g.5gb": [{"mig-devices": {1: "many", "1g.5gb": -1}}]}},
)
VALUES = st.recursive(
    st.sampled_from([None, True, 0, -1, 7, 10**12, 2.5, "", "x", "all-1g.5gb", "llama2:7b", UNKNOWN, *CONFIGS]),
    lambda inner: (
        st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(["a", "name", "key"]), inner, max_size=2)
    ),
    max_leaves=4,
)
PLACES = [(index, path) for index, resource in enumerate(PROGRAM) for path in paths(resource.props)]


@pytest.mark.slow
@settings(max_examples=200)
@given(st.lists(st.tuples(st.sampled_from(PLACES), VALUES), min_size=1, max_size=2, unique_by=lambda pair: pair[0][0]))
def test_no_value_in_a_program_breaks_the_pack(changes: list[tuple[tuple[int, Path], Any]]) -> None:
    """The engine would report the traceback of a policy instead of what is wrong."""
    program = [*PROGRAM]
    for (index, path), value in changes:
        props = replace(program[index].props, path, value)
        program[index] = Resource(**{**vars(program[index]), "props": props})
    for rule in POLICY_RULES:
        for found in find_violations(rule, program):
            assert found.message.endswith(".")
