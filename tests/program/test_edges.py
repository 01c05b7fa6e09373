"""Every explicit `depends_on` prevents a failure: without one, the most unlucky order of the rest meets it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from sandbox.graph import Graph, Resource
from sandbox.world import CloudError, World
from sharing.names import TOKEN
from tests.program.unlucky import again, all_needed, cloud_resources, down, up

pytestmark = pytest.mark.slow

VARIANTS = ("everything", "karpenter-volumes")
NODE_POLICIES = ("AmazonEC2ContainerRegistryPullOnly", "AmazonEKSWorkerNodePolicy", "AmazonEKS_CNI_Policy")
PREVENTED = {
    "tandem-cluster after tandem-logs": "ResourceAlreadyExistsException",
    "tandem-coredns after tandem-system": "InsufficientNumberOfReplicas",
    "tandem-aws-ebs-csi-driver after tandem-system": "InsufficientNumberOfReplicas",
    "tandem-aws-ebs-csi-driver after tandem-ebs-csi-role-policy": "VolumeInUse",
    "tandem-aws-ebs-csi-driver after tandem-eks-pod-identity-agent": "VolumeInUse",
    "tandem-ollama after tandem-aws-ebs-csi-driver": "VolumeInUse",
    "tandem-sharing-gpu-plugin after tandem-gpu": "JobFailed",
    "tandem-sharing-gpu-plugin after tandem-karpenter": "JobFailed",
    "tandem-gpu-proof after tandem-sharing": "JobFailed",
    "tandem-ollama after tandem-gpu-proof": "JobFailed",
    "tandem-karpenter-controller after tandem-coredns": "Timeout",
    "tandem-karpenter-controller after tandem-karpenter-controller-identity": "Timeout",
    "tandem-karpenter-controller after tandem-karpenter-controller-account-attached": "Timeout",
    "tandem-karpenter-controller after tandem-karpenter-controller-nodes-attached": "Timeout",
    "tandem-karpenter-controller after tandem-karpenter-crds": "NotFound",
    "tandem-karpenter-gpu-class after tandem-karpenter-controller": "Timeout",
    "tandem-karpenter-gpu-1-gpu after tandem-karpenter-gpu-class": "Timeout",
    "tandem-karpenter-gpu-pool after tandem-karpenter-gpu-1-gpu": "Timeout",
    **{
        f"{group} after {group}-role-{policy}": "NodeCreationFailure"
        for group in ("tandem-system", "tandem-gpu-group")
        for policy in NODE_POLICIES
    },
}
"""The failure that each edge prevents: the code of the first that is met without it, on `destroy` before `up`."""
HARMLESS = {
    "tandem-sharing after tandem-system": "the release waits for a node ten minutes, longer than nodes take; the edge "
    "makes `up` fail early where system nodes cannot come, and keeps a node for the GPU Operator's delete hook",
    "tandem-system after tandem-system-role-AmazonSSMManagedInstanceCore": "nodes join without; only a shell is late",
    "tandem-gpu-group after tandem-gpu-group-role-AmazonSSMManagedInstanceCore": "the same",
    "tandem-ollama after tandem-sharing": "pods wait for shares; on a switch without a proof the edge keeps them away "
    "until the node has the new mode",
    "tandem-sharing-gpu-plugin after tandem-sharing-discovery": "GPU feature discovery crashes and restarts until the "
    "custom resources are there that it writes",
    "tandem-gpu-proof-shares-gpu-job after tandem-gpu-proof-node-job": "the emulated plugin has a new mode at once; a "
    "real one starts anew, and pods that come earlier would prove shares of the old mode",
    "tandem-karpenter-controller after tandem-system": "the CSI driver and DNS, for which it waits, have pods there",
    "tandem-karpenter-controller after tandem-eks-pod-identity-agent": "the CSI driver needs it as well",
    "tandem-karpenter-controller after tandem-aws-ebs-csi-driver": "models with volumes wait for the driver, too; "
    "for volumes that other pods have on Karpenter's nodes",
    "tandem-gpu-proof-node-job after tandem-gpu-proof-incoming": "the proof works without its network policy; a pod "
    "that starts before it listens to the whole cluster",
    **{
        f"tandem-ollama-{model} after tandem-ollama-incoming": "a model answers without its network policy, and "
        "until it is there to every pod of the cluster"
        for model in ("llama2-7b", "mistral-7b")
    },
    **{
        f"tandem-karpenter-gpu-class after tandem-karpenter-nodes-{part}": "the kubelet tries again until it may join; "
        "on destroy, a node that lives without it cannot be drained, which the emulated cloud does not know"
        for part in ("entry", *NODE_POLICIES, "AmazonSSMManagedInstanceCore")
    },
}
"""Edges without which nothing fails, by dependent and what it waits for, with why they are there."""

Edge = tuple[Resource, str, frozenset[str]]
"""What waits, for what (a name), and that as URNs: a component stands for all that it has."""


def explicit(graph: Graph) -> Iterator[Edge]:
    """The edges that the data does not show, of what the program itself registers."""
    for one in graph:
        if one.constructed:
            continue
        shown = {urn for urns in one.property_dependencies.values() for urn in urns}
        left = set(one.dependencies) - shown
        while left:
            target = graph[min(left)]
            component = graph[target.parent]
            whole = {child.urn for child in graph.children(component.urn) if child.custom}
            own = component.type.startswith(TOKEN.format("")) and component not in graph.ancestors(one.urn)
            urns = whole if own and whole <= left else {target.urn}
            yield one, component.name if urns is whole else target.name, frozenset(urns)
            left -= urns


def failures(graph: Graph, edge: Edge, made: World) -> list[str]:
    """What goes wrong without the edge: on `destroy` with its target going first, on `up` with it coming last."""
    dependent, _, urns = edge
    kept = tuple(urn for urn in dependent.dependencies if urn not in urns)
    needs = all_needed(Graph({**graph.resources, dependent.urn: replace(dependent, dependencies=kept)}))
    ids = {one.urn: one.id for one in cloud_resources(graph)}
    found = []
    for urn in urns & set(ids):
        before = {urn}
        while more := {one for one in needs if before & needs[one]} - before:
            before |= more
        world = made.copied()
        try:
            down(graph, world, needs, ids, before)
            found += [f"left over: {one.key}" for one in world.leftovers([])]
        except CloudError as error:
            found.append(str(error))
        try:
            again(graph, World(patience=0.0), needs, urn)
        except CloudError as error:
            found.append(str(error))
    return found


def test_without_an_explicit_dependency_something_fails() -> None:
    prevented: dict[str, str] = {}
    harmless = set()
    for variant in VARIANTS:
        made = World(patience=0.0)
        graph = up(variant, made)
        for edge in explicit(graph):
            name, met = f"{edge[0].name} after {edge[1]}", failures(graph, edge, made)
            if met:
                prevented.setdefault(name, met[0].partition(":")[0])
            else:
                harmless.add(name)
    assert prevented == PREVENTED
    assert harmless - set(prevented) == set(HARMLESS)
