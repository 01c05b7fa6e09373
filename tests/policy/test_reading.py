"""The policy pack finds in a program what was put there, and survives what nobody put there on purpose."""

from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policy.program import GROUP, RELEASE, UNKNOWN, Resource, plain, read_program
from policy.rules import POLICY_RULES, find_violations, share_groups
from sandbox import graph
from sharing.modes.modes import TimeSlicing
from stacks.stack_file.judge import judge_file
from tandem.dry_run.program import program_graph
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
    sharing = TimeSlicing(replicas=pool.sharing.replicas or 0) if pool.sharing.needs_node_daemon else pool.sharing
    gpu = pool.smallest.gpu
    assert {*shared.group.types} == {*pool.instance_types}
    assert shared.group.most_nodes == pool.max
    assert shared.sharing.offers(gpu) == sharing.offers(gpu)
    read, _ = shared.stack()
    found = [(one.model.name, one.context, one.slots, one.kv_type) for one in read.models]
    assert sorted(found) == sorted((one.model.name, one.context, one.slots, one.kv_type) for one in config.models)
    assert [each for rule in POLICY_RULES for each in find_violations(rule, resources)] == []


KEYS = (
    *("values", "chart", "metadata", "spec", "template", "labels", "instanceTypes", "scalingConfig", "maxSize", "name"),
    *("config", "map", "default", "data", "devicePlugin", "migManager", "config.yaml", "requirements", "limits", "key"),
    *("ollama", "gpu", "enabled", "models", "pull", "extraEnv", "value", "containers", "nodeSelector", "replicaCount"),
    *("nvidia.com/gpu", "nvidia.com/mig.config", "resources", "operator", "image", "lifecycle", "taints", "any"),
)
TEXTS = (
    *(
        "g4dn.xlarge",
        "p4d.24xlarge",
        "",
        "llama2:7b",
        "ollama",
        "gpu-operator",
        "nvidia-device-plugin",
        "In",
        "::",
        "{",
    ),
    *('{"sharing": {"mps": {"resources": [{"replicas": {}}]}}}', '{"mig-configs": {"any": [{"mig-devices": []}]}}'),
)
VALUES = st.recursive(
    st.sampled_from([*TEXTS, None, True, 0, -1, 7, 2.5, UNKNOWN]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=4),
    max_leaves=12,
)
TYPES = (
    *(GROUP, RELEASE, "kubernetes:core/v1:ConfigMap", "kubernetes:karpenter.sh/v1:NodePool"),
    *(
        "kubernetes:apps/v1:Deployment",
        "kubernetes:nvidia.com/v1:ClusterPolicy",
        "aws:ec2/launchTemplate:LaunchTemplate",
    ),
)


@pytest.mark.slow
@given(st.lists(st.tuples(st.sampled_from(TYPES), st.dictionaries(st.sampled_from(KEYS), VALUES)), max_size=4))
def test_no_program_breaks_the_pack(program: Sequence[tuple[str, Mapping[str, Any]]]) -> None:
    """The engine would report the traceback of a policy instead of what is wrong."""
    resources = [
        Resource(urn=f"urn:{index}", type=type, name=str(index), props=props)
        for index, (type, props) in enumerate(program)
    ]
    for rule in POLICY_RULES:
        for found in find_violations(rule, resources):
            assert found.message.endswith(".")
