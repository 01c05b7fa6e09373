"""Pools whose nodes Karpenter adds, the pods that request them, and the device plugin on the nodes."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import partial
from itertools import count
from typing import Any

from components import ShareProof, ShareProofArgs
from components.karpenter_gpu_pool import KarpenterPool
from components.karpenter_gpu_pool.manifests import node_class, node_overlays, node_pool
from sandbox.preview.program import run
from sharing.hardware.gpus import instance_types
from sharing.modes.base import GPU_RESOURCE
from sharing.modes.modes import Exclusive, Mig, Mps, Sharing, TimeSlicing
from sharing.names import tolerations
from tests.cluster.deployment import is_ready
from tests.cluster.deployment import manifests as of_graph
from tests.control_plane.api import ApiError
from tests.control_plane.karpenter import Karpenter
from tests.control_plane.karpenter_kwok import translated
from tests.control_plane.karpenter_types import CAPACITY_TYPE, INSTANCE_TYPE
from tests.control_plane.kept import StartError
from tests.control_plane.running import HELD, T

Object = dict[str, Any]
SECONDS = 180
"""Seconds within which nodes join and pods are placed, or nodes are deleted; three and thirty are usual."""
POOL = "karpenter.sh/nodepool"
JOINED = "karpenter.sh/registered=true"
"""Nodes that Karpenter knows. For a node that it added without a request for shares, it does not wait for shares."""
V1 = "karpenter.sh/v1"
ALPHA = "karpenter.sh/v1alpha1"
NUMBERS = count(1)
"""Numbers for the names of pools and pods."""
POOL_KINDS = (
    (V1, "NodePool"),
    (V1, "NodeClaim"),
    (ALPHA, "NodeOverlay"),
    ("karpenter.kwok.sh/v1alpha1", "KWOKNodeClass"),
)
CLEARED = (
    ("batch/v1", "Job"),
    ("apps/v1", "Deployment"),
    ("apps/v1", "ReplicaSet"),
    ("v1", "Pod"),
    ("v1", "PersistentVolumeClaim"),
    ("v1", "PersistentVolume"),
    *POOL_KINDS,
)


@dataclass(frozen=True, kw_only=True)
class Pool:
    """A pool of nodes, and the shares that the plugin offers on them."""

    name: str
    sharing: Sharing
    types: tuple[str, ...]
    """Instance types, all with the same number of GPUs."""
    offered: Mapping[str, int]
    """The shares that the plugin offers on a node, by resource."""

    @property
    def asked(self) -> str:
        """The resource of which each pod requests one: the first."""
        return next(iter(self.offered))

    @property
    def shares(self) -> int:
        """Pods that fit on a node, by the offered shares: a wrong expectation then gives a wrong number of nodes."""
        return self.offered[self.asked]


def pool_of(name: str, sharing: Sharing, *types: str) -> Pool:
    """A pool under a mode; the offered shares are worked out here, not taken from the mode."""
    [gpus] = {instance_types()[one].gpus for one in types}
    offered = {GPU_RESOURCE: gpus}
    for way in sharing.plugin_config().get("sharing", {}).values():
        offered = {resource["name"]: gpus * resource["replicas"] for resource in way["resources"]}
    return Pool(name=name, sharing=sharing, types=types, offered=offered)


T4, L4, BLACKWELL = ("g4dn.xlarge", "g4dn.2xlarge"), ("g6.xlarge", "g6.2xlarge"), ("g7e.2xlarge", "g7e.4xlarge")
POOLS = {
    pool.name: pool
    for pool in (
        pool_of("exclusive", Exclusive(), *T4),
        pool_of("timeslice-2", TimeSlicing(replicas=2), *T4),
        pool_of("timeslice-4", TimeSlicing(replicas=4), *T4),
        pool_of("timeslice-4-on-4-gpus", TimeSlicing(replicas=4), "g4dn.12xlarge"),
        pool_of("mps-2", Mps(replicas=2), *L4),
        pool_of("mps-4", Mps(replicas=4), *L4),
        pool_of("mps-2-per-model", Mps(replicas=2, limits="per-model"), *T4),
        # Stacks refuse slices on Karpenter's nodes, since cutting restarts the kubelet; counting them works.
        Pool(
            name="mig-single",
            sharing=Mig(layout="all-1g.24gb"),
            types=BLACKWELL,
            offered={GPU_RESOURCE: 4},
        ),
        Pool(
            name="mig-mixed",
            sharing=Mig(strategy="mixed", layout="all-balanced"),
            types=BLACKWELL,
            offered={"nvidia.com/mig-1g.24gb": 2, "nvidia.com/mig-2g.48gb": 1},
        ),
    )
}
"""Every sharing mode, by the pool's name."""


def manifests(pool: Pool, max_nodes: int = 40) -> Iterator[Object]:
    """The objects that our component makes of the pool, in the order of their creation."""
    ours = KarpenterPool(
        name=pool.name, sharing=pool.sharing, instance_types=pool.types, on_demand_fallback=True, max_nodes=max_nodes
    )
    subnets, group = ["subnet-0123456789abcdef0"], "sg-0123456789abcdef0"
    yield node_class(ours, role="nodes", subnet_ids=subnets, security_group_ids=[group], tags={"team": "ml"})
    yield from node_overlays(ours, 1)
    yield node_pool(ours)


class Pools:
    """Pools in a cluster with Karpenter, and the pods that wait for their nodes."""

    def __init__(self, karpenter: Karpenter) -> None:
        self.karpenter, self.plane, self.api = karpenter, karpenter.plane, karpenter.plane.api
        self._pools: dict[str, Pool] = {}
        self.plugin_works = True

    def make(self, pool: Pool, change: Callable[[Object], None] = lambda _: None, max_nodes: int = 40) -> Pool:
        """Applies a pool's manifests, each after a change, and waits until Karpenter has read all of them.

        Its name gets a number that no pool had before, so that no pod fits on a node of an earlier test.
        """
        pool = replace(pool, name=f"{pool.name}-{next(NUMBERS)}")
        self._pools[pool.name] = pool
        self.change(pool, change, max_nodes)
        return pool

    def change(self, pool: Pool, change: Callable[[Object], None], max_nodes: int = 40) -> None:
        """Applies a pool's manifests, each after a change."""
        for manifest in manifests(pool, max_nodes):
            change(manifest)
            made = translated(manifest)
            self.api.apply(made)
            self.wait_for(f"{made['kind']} {pool.name} was ready", partial(self._is_ready, made))

    def _is_ready(self, made: Object) -> bool:
        return is_ready(self.api.get(made["apiVersion"], made["kind"], made["metadata"]["name"]) or {})

    def ask(self, pool: Pool, pods: int) -> list[str]:
        """Adds pods that request one share each in the pool; returns their names."""
        names = [f"{pool.name}-{next(NUMBERS)}" for _ in range(pods)]
        for name in names:
            self.apply_pod(
                name,
                nodeSelector={POOL: pool.name},
                resources={"limits": {pool.asked: "1"}},
                tolerations=tolerations(pool.sharing.config_name),
            )
        return names

    def prove(self, pool: Pool) -> None:
        """Proves the shares of a pool. The pods end as in a real proof: together, once their node offers the shares."""
        known = instance_types()[pool.types[0]]
        args = ShareProofArgs(
            sharing=pool.sharing, gpu=known.gpu, gpus_per_node=known.gpus, instance_types=pool.types, pool=pool.name
        )
        made = of_graph(run(lambda: ShareProof("proof", args), project="test", stack="test"))
        jobs = {one["metadata"]["name"]: one for one in made if one["kind"] == "Job"}
        for manifest in made:
            if manifest["kind"] != "Job":
                self.api.apply(manifest)
        for name in sorted(jobs):  # the node's before those of the shares
            held = deepcopy(jobs[name])
            held["spec"]["template"]["metadata"]["annotations"] |= HELD
            self.api.apply(held)
            self.wait_for(f"{name} was done", partial(self._finish, pool, held))

    def _finish(self, pool: Pool, job: Object) -> bool:
        """Ends a Job whose pods all have a node that offers the shares; returns whether it did."""
        name, namespace = job["metadata"]["name"], job["metadata"]["namespace"]
        pods = self.api.list("v1", "Pod", namespace, labelSelector=f"job-name={name}")
        nodes = {node["metadata"]["name"]: node for node in self.api.list("v1", "Node")}
        offered = {resource: str(count) for resource, count in pool.offered.items()}.items()
        ready = {name for name, node in nodes.items() if offered <= node["status"]["allocatable"].items()}
        if len(pods) < job["spec"].get("parallelism", 1) or not {pod["spec"].get("nodeName") for pod in pods} <= ready:
            return False
        for pod in pods:
            path = f"/api/v1/namespaces/{namespace}/pods/{pod['metadata']['name']}/status"
            self.api.patch(path, {"status": {"phase": "Succeeded"}})
        return True

    def apply_pod(
        self,
        name: str,
        *,
        resources: Object | None = None,
        annotations: Object | None = None,
        labels: Object | None = None,
        **spec: Any,
    ) -> None:
        container = {"name": "main", "image": "pause", "resources": resources or {}}
        spec = {"containers": [container], "terminationGracePeriodSeconds": 0, **spec}
        metadata = {
            "name": name, "namespace": "default", "annotations": annotations or {}, "labels": labels or {}
        }  # fmt: skip
        self.api.apply({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})

    def delete_pod(self, name: str) -> None:
        self.api.call("DELETE", f"/api/v1/namespaces/default/pods/{name}", gracePeriodSeconds="0")

    def place_of(self, name: str) -> str:
        """The node of a pod that is placed."""
        pod = self.api.get("v1", "Pod", name)
        assert pod
        return str(pod["spec"]["nodeName"])

    def wait_until_placed(self) -> None:
        """Waits until every pod runs and every node that Karpenter added for them is complete."""

        def placed() -> bool:
            waiting = self.api.list("v1", "Pod", "default", fieldSelector="status.phase!=Running")
            return not waiting and all(map(is_ready, self._claims()))

        self.wait_for("every pod ran and every node was complete", placed)

    def waiting(self, names: Iterable[str]) -> list[str]:
        """The pods that have no node."""
        return [name for name in names if not (self.api.get("v1", "Pod", name) or {"spec": {}})["spec"].get("nodeName")]

    def claims(self, pool: Pool) -> list[Object]:
        """The nodes of a pool as Karpenter knows them, from its decision to add them to its decision to delete them."""
        return [one for one in self._claims() if one["metadata"]["labels"].get(POOL) == pool.name]

    def _claims(self) -> list[Object]:
        return [one for one in self.api.list(V1, "NodeClaim") if "deletionTimestamp" not in one["metadata"]]

    def nodes(self, pool: Pool) -> int:
        return len(self.claims(pool))

    def expected(self, pool: Pool) -> list[int]:
        """Shares that Karpenter expects of each node of a pool."""
        return [int(claim["status"]["allocatable"][pool.asked]) for claim in self.claims(pool)]

    def bought(self, pool: Pool) -> list[tuple[str, str]]:
        """Capacity and instance type of each node of a pool."""
        labels = [claim["metadata"]["labels"] for claim in self.claims(pool)]
        return sorted((label[CAPACITY_TYPE], label[INSTANCE_TYPE]) for label in labels)

    def wait_until_karpenter_refuses(self, pod: str) -> str:
        """Waits until Karpenter reports why it adds no node for a pod; returns the reason."""
        found = self.api.get("v1", "Pod", pod)
        assert found
        about = f"involvedObject.uid={found['metadata']['uid']},reason=FailedScheduling"

        def said() -> list[str]:
            events = self.api.list("v1", "Event", "default", fieldSelector=about)
            return [event["message"] for event in events if event["source"].get("component") == "karpenter"]

        return self.wait_for(f"Karpenter refused {pod}", said)[0]

    def wait_for(self, what: str, known: Callable[[], T]) -> T:
        """Waits while the plugins work: every plugin runs once before each look."""

        def looked() -> T:
            if self.plugin_works:
                self._plugins_turn()
            return known()

        try:
            return self.plane.wait_for(what, looked, SECONDS)
        except StartError as error:
            raise AssertionError("\n".join([str(error), *self._shown()])) from None

    def _plugins_turn(self) -> None:
        """Makes nodes that have joined offer the shares of the plugin's config, as the device plugin does."""
        for node in self.api.list("v1", "Node", labelSelector=JOINED):
            pool = self._pools.get(node["metadata"]["labels"][POOL])
            if pool is None:  # of an earlier test, being deleted
                continue
            offered = {name: str(count) for name, count in pool.offered.items()}
            if offered.items() <= node["status"]["allocatable"].items():
                continue
            status = dict.fromkeys(("capacity", "allocatable"), offered)
            path = f"/api/v1/nodes/{node['metadata']['name']}/status"
            with suppress(ApiError):  # deleted meanwhile
                self.api.patch(path, {"status": status})

    def _shown(self) -> Iterator[str]:
        """Expected and actual nodes of each pool, every pod that does not run, and Karpenter's last messages."""
        for pool in self._pools.values():
            shown = f"a node offers {dict(pool.offered)}"
            yield f"  {pool.name}: {shown}; bought: {self.bought(pool)}"
        for pod in self.api.list("v1", "Pod"):
            if not is_ready(pod):
                conditions = pod.get("status", {}).get("conditions", [])
                yield f"  {pod['metadata']['name']}: {[condition.get('message') for condition in conditions]}"
        log = (self.plane.folder / "karpenter.log").read_text(encoding="utf-8").splitlines()
        yield from (f"  {line[:300]}" for line in log[-10:])

    def clear(self, kinds: Iterable[tuple[str, str]] = CLEARED) -> None:
        """Deletes pods and pools. Karpenter deletes the nodes in the meantime; no test waits for that."""
        for namespace in self.api.list("v1", "Namespace"):
            for api_version, kind in kinds:
                path = self.api.collection(api_version, kind, namespace["metadata"]["name"])
                self.api.call("DELETE", path, gracePeriodSeconds="0", propagationPolicy="Background")
        self.wait_for("only nodes that are being deleted were left", lambda: self._is_clear(kinds))
        self._pools.clear()

    def _is_clear(self, kinds: Iterable[tuple[str, str]]) -> bool:
        return not self._claims() and not any(self.api.list(*kind) for kind in kinds if kind != (V1, "NodeClaim"))
