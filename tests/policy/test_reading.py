"""The policy pack finds in a program what was put there, and survives what nobody put there on purpose."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from policy.program import GROUP, RELEASE, UNKNOWN, Resource, plain, read_program
from policy.rules import POLICY_RULES, find_violations, share_groups
from sandbox import graph
from sharing.existing.scheduling import Taint
from sharing.modes.layouts import Slices
from sharing.modes.modes import Exclusive, Mig, Mps, Sharing, TimeSlicing
from stacks.stack_file.judge import judge_file
from tandem.dry_run.program import program_graph
from tests.policy.declared import (
    config_map,
    daemon_set,
    declare,
    deployment,
    group,
    node_pool,
    ollama,
    operator,
    plugin,
    sharing,
    taints,
)
from tests.shipped import FILES, STACKS

NODE_TYPE = "node.kubernetes.io/instance-type"
EITHER = ["p3.2xlarge", "g4dn.xlarge", "g4dn.12xlarge", "g6f.xlarge", "g5g.xlarge", "g4ad.xlarge"]


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


@pytest.mark.parametrize(
    ("needs", "types"),
    [
        ({}, EITHER[:5]),
        ({"instance_category": ["p"]}, ["p3.2xlarge"]),
        ({"instance_family": ["g4dn", "g4ad"]}, ["g4dn.xlarge", "g4dn.12xlarge"]),
        ({"instance_gpu_name": ["t4"]}, ["g4dn.xlarge", "g4dn.12xlarge"]),
        ({"instance_gpu_name": ["v100"]}, ["p3.2xlarge"]),
        ({"instance_gpu_count": ["0", "4"]}, ["g4dn.12xlarge", "g6f.xlarge"]),
        ({"instance_gpu_manufacturer": ["amd"]}, []),
        ({"arch": ["arm64"]}, ["g5g.xlarge"]),
    ],
)
def test_requirements_of_a_node_pool_choose_its_types(needs: dict[str, Any], types: list[str]) -> None:
    """As https://karpenter.sh/v1.14/reference/instance-types/ lists the labels of each type."""
    groups = read_program([node_pool(instance_type=EITHER, **needs)]).groups
    assert sorted(name for each in groups for name in each.types) == sorted(types)


@pytest.mark.parametrize(
    ("pool", "most"),
    [
        (node_pool(most=8, instance_type=["g4dn.12xlarge"]), 2),
        (node_pool(most=8, instance_type=["g4dn.12xlarge", "g4dn.xlarge"]), 8),
        # Too few for one node.
        (node_pool(most=3, instance_type=["g4dn.12xlarge"]), 1),
        (group("g4dn.xlarge", most=0), 1),
        (group("g4dn.xlarge", most=7), 7),
    ],
)
def test_a_group_has_as_many_nodes_as_its_limits_allow(pool: Resource, most: int) -> None:
    assert [each.most_nodes for each in read_program([pool]).groups] == [most]


def test_a_group_has_the_labels_and_taints_of_its_nodes() -> None:
    """EKS User Guide, "Simplify node lifecycle with managed node groups"; Karpenter's documentation, "NodePools"."""
    own = {"pool": "fast", "nvidia.com/gpu.deploy.operands": "false"}
    key = {"key": "team", "value": "ml"}
    limited = [{**key, "effect": effect} for effect in ("NO_SCHEDULE", "PREFER_NO_SCHEDULE", "NO_EXECUTE")]
    nodes = group("g4dn.xlarge", labels=own, taints=limited, capacityType="SPOT", nodeGroupName="mine")
    template = {
        "metadata": {"labels": own},
        "spec": {
            "requirements": [{"key": NODE_TYPE, "operator": "In", "values": ["g4dn.xlarge", "g4dn.2xlarge"]}],
            "taints": [{**key, "effect": effect} for effect in ("NoSchedule", "PreferNoSchedule", "NoExecute")],
        },
    }
    pool = declare("kubernetes:karpenter.sh/v1:NodePool", "p", metadata={"name": "mine"}, spec={"template": template})
    found = read_program([nodes, pool]).groups
    of_eks = {"eks.amazonaws.com/nodegroup": "mine", "eks.amazonaws.com/capacityType": "SPOT"}
    assert [each.labels for each in found] == [
        {**own, **of_eks, NODE_TYPE: "g4dn.xlarge"},
        {**own, "karpenter.sh/nodepool": "mine"},
    ]
    for each in found:
        effects = ("NoSchedule", "PreferNoSchedule", "NoExecute")
        assert each.taints == tuple(Taint(key="team", value="ml", effect=effect) for effect in effects)
        assert each.most_nodes == (1 if each.of is nodes else 100)


OF_CHART = {
    "number": (2, {"nvidia.com/gpu": 2}),
    "nvidiaResource": ("nvidia.com/gpu.shared", {"nvidia.com/gpu.shared": 1}),
    "mig": ({"enabled": True, "devices": {"1g.5gb": 2}}, {"nvidia.com/mig-1g.5gb": 2}),
    "type": ("nvidia", {"nvidia.com/gpu": 1}),
}
"""Values under `ollama.gpu` of the chart ollama, and the limits of its pod: its values.yaml and deployment.yaml."""


@pytest.mark.parametrize("key", OF_CHART)
def test_a_release_of_ollama_requests_what_its_values_say(key: str) -> None:
    value, requests = OF_CHART[key]
    values = {"ollama": {"gpu": {"enabled": True, key: value}, "models": {"run": ["gemma3:1b"]}}, "replicaCount": 3}
    [server] = read_program([declare(RELEASE, "chat", chart="ollama", values=values)]).servers
    assert (server.requests, server.pods, [each.name for each in server.models]) == (requests, 3, ["gemma3:1b"])


@pytest.mark.parametrize(
    "more",
    [
        {"ollama": {"models": {"pull": ["gemma3:1b"]}}},
        {"ollama": {"models": {"run": ["gemma3:1b"]}}},
        # Before version 1 of the chart (its README, "Upgrading from 0.X.X to 1.X.X").
        {"ollama": {"models": ["gemma3:1b"]}},
        {"lifecycle": {"postStart": {"exec": {"command": ["/bin/sh", "-c", "ollama pull gemma3:1b"]}}}},
    ],
)
def test_the_models_of_a_release_are_found_where_people_list_them(more: dict[str, Any]) -> None:
    values = {**more, "ollama": {"gpu": {"enabled": True}, **more.get("ollama", {})}}
    program = read_program([declare(RELEASE, "chat", chart="ollama", values=values)])
    assert [[model.name for model in each.models] for each in program.servers] == [["gemma3:1b"]]
    assert program.unchecked == {}


@pytest.mark.parametrize(("replicas", "pods"), [(None, [1]), (0, []), (3, [3]), (1000, [64])])
def test_a_server_has_the_pods_of_its_workload(replicas: int | None, pods: list[int]) -> None:
    """Kubernetes starts one without `replicas`. Of many, only some are judged."""
    workload = deployment("gemma3:1b", {"nvidia.com/gpu": "1", "cpu": "4"})
    servers = read_program(
        [declare(workload.type, "chat", spec={**workload.props["spec"], "replicas": replicas})]
    ).servers
    assert [each.pods for each in servers] == pods
    for each in servers:
        assert (each.requests, [model.name for model in each.models]) == ({"nvidia.com/gpu": 1}, ["gemma3:1b"])
        # As the admission plugin ExtendedResourceToleration of EKS adds it.
        assert each.pod["tolerations"] == [{"key": "nvidia.com/gpu", "operator": "Exists"}]


def test_a_model_is_found_among_the_arguments_of_a_hook() -> None:
    """A command of a hook is a list, with or without a shell (Kubernetes' API, ExecAction)."""
    workload = deployment("any", {"nvidia.com/gpu": "1"})
    command = ["/bin/pull", "--from", "registry.example.com:443", "gemma3:1b"]
    [container] = workload.props["spec"]["template"]["spec"]["containers"]
    container["lifecycle"]["postStart"]["exec"]["command"] = command
    program = read_program([workload])
    assert [[model.name for model in each.models] for each in program.servers] == [["gemma3:1b"]]
    assert program.unchecked == {}


def test_the_plugins_own_manifest_is_read_with_its_environment_and_placement() -> None:
    """NVIDIA's chart 0.20.0 templates/daemonset-device-plugin.yml."""
    made = daemon_set("gpus", default="b")
    pod = made.props["spec"]["template"]["spec"]
    pod["nodeSelector"], pod["tolerations"] = {"pool": "fast"}, [{"operator": "Exists"}]
    pod["containers"][0]["env"].append({"name": "MIG_STRATEGY", "value": "mixed"})
    [found] = read_program([config_map("gpus", a="{}", b=sharing("mps", 4)), made]).plugins
    assert (found.default, found.strategy, found.is_operator, found.is_known) == ("b", "mixed", False, True)
    assert found.configs == {"a": {}, "b": json.loads(sharing("mps", 4))}
    assert (found.pod["nodeSelector"], found.pod["tolerations"]) == ({"pool": "fast"}, [{"operator": "Exists"}])


OURS = "mig-configs: {ours: [{devices: all, mig-enabled: true, mig-devices: {3g.20gb: 2}}]}"
LAYOUT = {"nvidia.com/mig.config": "ours"}
LAYOUTS = {"migManager": {"config": {"name": "layouts", "data": {"config.yaml": OURS}}}}
BOTH = json.dumps({"sharing": {way: {"resources": [{"replicas": n}]} for way, n in (("timeSlicing", 3), ("mps", 4))}})


TAINTED, RESERVED = ({"taints": taints(key)} for key in ("nvidia.com/gpu", "team"))
ANY = [{"operator": "Exists"}]
FOUR = {"devicePlugin": {"config": {"default": "a", "data": {"a": sharing("mps", 4)}}}}


@pytest.mark.parametrize(
    ("nodes", "plugins", "expected"),
    [
        ({}, [], Exclusive()),
        ({}, [plugin("timeSlicing", 2)], TimeSlicing(replicas=2)),
        ({}, [plugin("mps", 3)], Mps(replicas=3)),
        ({}, [plugin("mps", 1)], Exclusive()),
        # `ReplicatedResources` in the plugin's api/config/v1/sharing.go.
        ({}, [config_map("both", default=BOTH), daemon_set("both", default="")], Mps(replicas=4)),
        # Of several, the one called `default` counts, if nothing names another (k8s-device-plugin README).
        ({}, [config_map("two", a="{}", default=BOTH), daemon_set("two", default="")], Mps(replicas=4)),
        (
            {"labels": LAYOUT},
            [operator(**LAYOUTS)],
            Mig(strategy="single", layout=[Slices(profile="3g.20gb", count=2)]),
        ),
        (
            {"labels": LAYOUT},
            [operator(**LAYOUTS, mig={"strategy": "mixed"})],
            Mig(strategy="mixed", layout=[Slices(profile="3g.20gb", count=2)]),
        ),
        (
            {"labels": {"nvidia.com/mig.config": "all-1g.5gb"}},
            [operator(devicePlugin={"config": {"default": "a", "data": {"a": sharing("timeSlicing", 2)}}})],
            Mig(strategy="single", layout="all-1g.5gb", replicas=2),
        ),
        # Values of the two charts: `tolerations` and `daemonsets.tolerations`.
        (TAINTED, [plugin("mps", 4)], Mps(replicas=4)),
        (TAINTED, [plugin("mps", 4, tolerations=[])], Exclusive()),
        (TAINTED, [operator(**FOUR)], Mps(replicas=4)),
        (TAINTED, [operator(**FOUR, daemonsets={"tolerations": []})], Exclusive()),
        (RESERVED, [plugin("mps", 4)], Exclusive()),
        (RESERVED, [plugin("mps", 4, tolerations=ANY)], Mps(replicas=4)),
        (RESERVED, [operator(**FOUR)], Exclusive()),
        (RESERVED, [operator(**FOUR, daemonsets={"tolerations": ANY})], Mps(replicas=4)),
    ],
)
def test_a_group_is_shared_as_its_plugin_says(
    nodes: dict[str, Any], plugins: list[Resource], expected: Sharing
) -> None:
    [shared] = share_groups(read_program([group("p4d.24xlarge", **nodes), *plugins]))
    assert vars(shared.sharing) == vars(expected)


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
