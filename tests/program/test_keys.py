"""Every key of a stack file does something: another value changes what the key is for, and no key lacks a row."""

import json
import typing
from collections.abc import Iterator, Mapping
from functools import cache
from types import MappingProxyType
from typing import Any, NamedTuple

import pytest
from pydantic import BaseModel

from sandbox.graph import Graph, plain
from stacks.stack_file.judge import Judged, judge
from stacks.stack_file.shape import StackConfig
from stacks.stack_file.yaml import Source
from tandem.planned.plan import program_graph
from tests.sharing.builders import TODAY

Sections = Mapping[str, Any]
TAG = "qwen2.5:0.5b"
ROLE = "arn:aws:iam::111122223333:role/ci"
LEAST: Sections = {"aws:region": "us-east-1", "sharing": {"mode": "timeslice"}, "models": [{"name": TAG}]}
KARPENTER: Sections = {"gpu-nodes": {"provisioner": "karpenter"}}
A100: Sections = {"gpu-nodes": {"instance-types": ["p4d.24xlarge"]}}
MIG: Sections = {**A100, "sharing": {"mode": "mig"}}
ASSUMED: Sections = {"aws:assumeRoles": [{"roleArn": ROLE}]}
OWN: Sections = {
    "sharing": {"mode": "exclusive"},
    "models": [
        {"name": "mine", "weights-gib": 2.5, "layers": 32, "kv-heads": 8, "head-dim": 128, "heads": 32}
        | {"swa-layers": 8, "swa-window": 1024, "shared-kv-layers": 2, "experts": 8, "experts-used": 2}
        | {"recurrent-layers": 4, "recurrent-state-bytes": 2**27, "max-context": 32768, "context": 16384}
    ],
}
EMBEDS: Sections = {
    "models": [
        {"name": "mine", "weights-gib": 2.5, "layers": 32, "kv-heads": 8, "head-dim": 128}
        | {"encoder": True, "architecture": "qwen3"}
    ],
}


class Row(NamedTuple):
    """Another value for a key of a stack, and the resources that have to follow it, by the last word of their type."""

    key: str
    value: object
    follow: tuple[str, ...] = ()
    on: Sections = MappingProxyType({})


NODES = [
    Row("gpu-nodes.provisioner", "karpenter", ("NodePool", "EC2NodeClass")),
    Row("gpu-nodes.instance-types", ["g6.xlarge"], ("NodeGroup",)),
    Row("gpu-nodes.instance-types", ["g6.xlarge"], ("NodePool",), KARPENTER),
    Row("gpu-nodes.capacity", "on-demand", ("NodeGroup",)),
    Row("gpu-nodes.capacity", "on-demand", ("NodePool",), KARPENTER),
    Row("gpu-nodes.min", 1, ("NodeGroup",)),
    Row("gpu-nodes.desired", 0, ("NodeGroup", "Release")),
    Row("gpu-nodes.max", 2, ("NodeGroup",)),
    Row("gpu-nodes.max", 2, ("NodePool",), KARPENTER),
    Row("gpu-nodes.volume-gib", 130, ("LaunchTemplate",)),
    Row("gpu-nodes.volume-gib", 130, ("EC2NodeClass",), KARPENTER),
    Row("gpu-nodes.on-demand-fallback", True, ("NodePool",), KARPENTER),
    Row("gpu-nodes.replacement", "delete-first", ("NodeGroup",)),
]
SHARING = [
    Row("sharing.mode", "mps", ("Release", "NodeGroup")),
    Row("sharing.replicas", 3, ("Release", "NodeGroup")),
    Row("sharing.replicas", 3, ("Release", "NodeGroup"), {"sharing": {"mode": "mps"}}),
    Row("sharing.replicas", 3, ("Release", "NodeGroup"), MIG),
    Row("sharing.allocation-policy", "distributed", ("Release", "NodeGroup")),
    Row("sharing.strategy", "mixed", ("Release", "NodeGroup"), MIG),
    Row("sharing.layout", "all-2g.10gb", ("NodeGroup",), MIG),
    *(
        Row(f"sharing.layout[].{key}", value, ("NodeGroup",), {**A100, "sharing": {"mode": "mig", "layout": [cut]}})
        for cut in [{"profile": "1g.5gb", "count": 3}]
        for key, value in (("profile", "2g.10gb"), ("count", 4))
    ),
]
ROWS = [
    *NODES,
    *SHARING,
    Row("aws:region", "us-west-2", ("aws",)),
    Row("aws:profile", "work", ("aws", "kubernetes")),
    Row("aws:assumeRoles[].roleArn", f"{ROLE}2", ("aws", "kubernetes"), ASSUMED),
    Row("aws:assumeRoles[].sessionName", "me", ("aws",), ASSUMED),
    Row("aws:assumeRoles[].duration", "2h", ("aws",), ASSUMED),
    Row("aws:allowedAccountIds", ["111122223333"], ("aws",)),
    Row("aws:defaultTags.tags", {"team": "ml"}, ("aws", "LaunchTemplate")),
    Row("gpu-nodes[].name", "b", ("NodeGroup", "Release"), {"gpu-nodes": [{"name": "a"}]}),
    Row("models[].name", "qwen2.5:1.5b", ("Release",)),
    Row(
        "models[].name",
        "qwen2.5:32b",
        ("PersistentVolumeClaim",),
        {**A100, "models": [{"name": TAG, "id": "one", "cache": "volume"}]},
    ),
    Row("models[].id", "mine", ("Release",)),
    Row("models[].context", 8192, ("Release",)),
    Row("models[].slots", 2, ("Release",)),
    Row("models[].kv-type", "q8_0", ("Release",)),
    Row("models[].batch", 256, ("Release",)),
    Row("models[].prompt-cache-mib", 0, ("Release",)),
    Row("models[].cache", "volume", ("Release", "PersistentVolumeClaim")),
    Row(
        "models[].pool",
        "b",
        ("Release",),
        {"gpu-nodes": [{"name": "a"}, {"name": "b"}], "models": [{"name": TAG, "pool": "a"}]},
    ),
    Row("models-clients.namespaces", ["chat"], ("NetworkPolicy",)),
    Row("models-clients.labels", {"llm-client": "yes"}, ("NetworkPolicy",)),
    Row("proof", False, ("Job",)),
    Row("cluster.kubernetes", "1.35", ("Cluster", "NodeGroup")),
    Row("cluster.support", "extended", ("Cluster",)),
    Row("cluster.zones", 3, ("Subnet",)),
    Row("cluster.zone-names", ["us-east-1c", "us-east-1d"], ("Subnet",)),
    Row("cluster.cidr", "10.9.0.0/16", ("Vpc", "Subnet")),
    Row("cluster.nat", "per-zone", ("NatGateway",)),
    Row("cluster.public-access-cidrs", ["192.0.2.7/32"], ("Cluster",)),
    Row("cluster.admins", [ROLE], ("AccessEntry",)),
    Row("cluster.logs", True, ("Cluster",)),
    Row("cluster.system-nodes.instance-types", ["t4g.medium"], ("NodeGroup",)),
    Row("cluster.system-nodes.count", 1, ("NodeGroup",)),
    Row("tags", {"team": "ml"}, ("Vpc", "LaunchTemplate")),
]
OFFERED_NOWHERE: Sections = {"aws:region": "mx-central-1", "gpu-nodes": {"instance-types": ["p4d.24xlarge"]}}
JUDGING = [
    Row("budget.max-usd-per-hour", 0.01),
    Row("gpu-nodes.check-offers", False, on=OFFERED_NOWHERE),
    Row("models[].weights-gib", 3.5, on=OWN),
    Row("models[].layers", 40, on=OWN),
    Row("models[].kv-heads", 4, on=OWN),
    Row("models[].head-dim", 64, on=OWN),
    Row("models[].vocabulary", 1_000_000, on=EMBEDS),
    Row("models[].architecture", "mllama", on=OWN),
    Row("models[].max-context", 2048, on=OWN),
    Row("models[].heads", 256, on=OWN),
    Row("models[].value-dim", 256, on=OWN),
    Row("models[].swa-layers", 4, on=OWN),
    Row("models[].swa-window", 512, on=OWN),
    Row("models[].swa-kv-heads", 2, on=OWN),
    Row("models[].swa-head-dim", 64, on=OWN),
    Row("models[].shared-kv-layers", 6, on=OWN),
    Row("models[].recurrent-layers", 8, on=OWN),
    Row("models[].recurrent-state-bytes", 2**28, on=OWN),
    Row("models[].mla-rank", 512, on=OWN),
    Row("models[].width", 65536, on=OWN),
    Row("models[].feed-forward", 4_194_304, on=OWN),
    Row("models[].experts", 1, on=OWN),
    Row("models[].experts-used", 8, on=OWN),
    Row("models[].embedding-bytes", 2**28, on=OWN),
    Row("models[].projector-bytes", 2**29, on=OWN),
    Row("models[].encoder", True, on=OWN),
]
"""Keys that change no resource: a stack is accepted or refused by them, or a model needs more or less memory."""


def in_a_list(row: Row) -> Row:
    """The same key where `gpu-nodes` is a list whose one pool has a sharing of its own."""
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
    """The stack with the row's value in the key's place, everything else as it was."""
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
    return judge(Source(values, provider), "Pulumi.dev.yaml", today=TODAY)


def resources(stack: str) -> dict[str, object]:
    """What Pulumi would compare, without the stack's outputs: they may repeat a key that reaches nothing else."""
    return {one.urn: (one.type, plain(one.inputs), one.options, one.provider) for one in graph(stack)}


def judgement(stack: str) -> object:
    """What the rules say, without the settings that they repeat."""
    found = judged(stack)
    contradictions = [problem.rule for each in found.config.models for problem in each.contradictions("")]
    return found.assessment.problems, [fit.verdict.need for fit in found.assessment.fits], contradictions


def named(row: Row) -> str:
    return f"{row.key}-{'-'.join(map(str, row.on))}" if row.on else row.key


@pytest.mark.slow
@pytest.mark.parametrize("row", [*ROWS, *LISTED], ids=named)
def test_another_value_of_a_key_reaches_the_resources_that_it_is_for(row: Row) -> None:
    was, now = resources(before(row)), resources(after(row))
    changed = {urn for urn in {*was, *now} if was.get(urn) != now.get(urn)}
    kinds = {urn.rsplit("::", 2)[1].rsplit("$")[-1].rsplit(":")[-1] for urn in changed}
    assert set(row.follow) <= kinds, sorted(kinds)


def test_system_nodes_and_gpu_nodes_follow_the_cluster_each() -> None:
    """Rows ask for one node group that changes. AMI types are those of the EKS API reference, `CreateNodegroup`."""
    cluster = {"kubernetes": "1.35", "system-nodes": {"instance-types": ["t4g.medium"]}}
    groups = graph(text({**LEAST, "cluster": cluster})).of_type("aws:eks/nodeGroup:NodeGroup")
    assert {one.name: (one.inputs["version"], one.inputs["amiType"]) for one in groups} == {
        "tandem-system": ("1.35", "AL2023_ARM_64_STANDARD"),
        "tandem-gpu-group": ("1.35", "AL2023_x86_64_NVIDIA"),
    }
    assert [one.inputs["instanceTypes"] for one in groups if one.name == "tandem-system"] == [["t4g.medium"]]


@pytest.mark.parametrize("row", [*JUDGING, *LISTED_JUDGING], ids=named)
def test_another_value_of_a_key_that_only_judges_changes_the_judgement(row: Row) -> None:
    assert judgement(before(row)) != judgement(after(row))


def keys(model: type[BaseModel], above: str = "") -> Iterator[str]:
    """The keys that a section may have, with those of the sections in it, as the stack file writes them."""
    for name, field in model.model_fields.items():
        key = above + (field.alias or name)
        inner = [*sections([field.annotation, *field.metadata])]
        for section, is_list in inner:
            yield from keys(section, f"{key}{'[]' if is_list else ''}.")
        if not inner or key.endswith(".layout"):
            yield key


def sections(found: list[Any], is_list: bool = False) -> Iterator[tuple[type[BaseModel], bool]]:
    """The sections somewhere in a type, and whether they are entries of a list."""
    for each in found:
        if isinstance(each, type) and issubclass(each, BaseModel):
            yield each, is_list
        else:
            yield from sections([*typing.get_args(each)], is_list or typing.get_origin(each) is list)


def test_every_key_has_a_row_and_every_row_has_a_key() -> None:
    rows = [*ROWS, *LISTED, *JUDGING, *LISTED_JUDGING]
    assert {row.key for row in rows} == set(keys(StackConfig))


def test_a_new_key_has_no_row_and_is_noticed() -> None:
    class Newer(StackConfig):
        new_key: bool = False

    assert set(keys(Newer)) - set(keys(StackConfig)) == {"new-key"}
