"""Nodes with a mode in the emulated cloud, by taint and plugin release, and the proof of their shares."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from components.device_plugin_sharing import plugin_chart
from components.mps_daemon import CLAIM, user_data
from components.share_proof.expectation import ShareExpectation, expectations
from components.share_proof.jobs import ShareProofArgs, node_job, shares_job
from sandbox.world import tokens
from sharing.hardware.gpus import gpus
from sharing.modes.modes import Exclusive, Mps, Sharing, TimeSlicing
from sharing.modes.mps_clients import PIPE_DIRECTORY
from tests.sandbox.outside import Outside
from tests.sandbox.world_pieces import TAINT, Account, meta

T4 = gpus()["t4"]
TURNS, MPS, WHOLE = TimeSlicing(replicas=2), Mps(replicas=2), Exclusive()
MODES: tuple[Sharing, ...] = (TURNS, MPS, WHOLE)
OWN = Mps(replicas=2, limits="per-model")
"""Not among `MODES`: no node switches to it, because its daemon comes with the node."""
PROOF = "proof"


def mode_taint(sharing: Sharing) -> dict[str, str]:
    return {"key": "tandem/mode", "value": sharing.config_name, "effect": "NO_EXECUTE"}


def tolerations(sharing: Sharing) -> list[dict[str, str]]:
    """Tolerations of a pod for one mode."""
    mode = {"key": "tandem/mode", "operator": "Equal", "value": sharing.config_name}
    return [{"key": "nvidia.com/gpu", "operator": "Exists"}, mode]


def described(sharing: Sharing) -> dict[str, Any]:
    """Labels and taints of a node group."""
    labels = {"tandem/pool": "gpu", "nvidia.com/gpu.present": "true", **sharing.node_labels(T4)}
    return {"labels": labels, "taints": [TAINT, mode_taint(sharing)]}


PLUGIN = "kube-system/plugin"


class Switching(Account):
    """A cluster with a system node and GPU nodes in one mode, and all requirements of their proof.

    `text` is the nodes' user data. By default it is what the mode needs.
    """

    def __init__(
        self, sharing: Sharing = TURNS, world: Outside | None = None, *, count: int = 1, text: str | None = None
    ) -> None:
        super().__init__(world)
        self.cluster()
        self.nodes()
        self.device_plugin(**plugin_chart.values("gpu", sharing))
        self.gpu_nodes(count=count, **described(sharing), **self._start(sharing, text))
        self.make(tokens.NAMESPACE, metadata=meta(PROOF))
        self.make(tokens.CONFIG_MAP, metadata=meta("scripts", namespace=PROOF), data={})
        for name in ("node-prober", "share-prober"):
            self.make(tokens.SERVICE_ACCOUNT, name, metadata=meta(name, namespace=PROOF))

        if sharing.needs_node_daemon:
            directory = {"path": PIPE_DIRECTORY, "type": "Directory"}
            self.make(tokens.PERSISTENT_VOLUME, metadata=meta(CLAIM), spec={"hostPath": directory})
            bound = {"storageClassName": "", "volumeName": CLAIM}
            self.make(tokens.CLAIM, metadata=meta(CLAIM, namespace=PROOF), spec=bound)

    def _start(self, sharing: Sharing, text: str | None) -> dict[str, Any]:
        if text is None:
            text = user_data() if sharing.needs_node_daemon else ""
        return self.started_with(text)

    def switch(self, sharing: Sharing) -> None:
        """Changes first the taint, then the plugin's release."""
        self.change(tokens.NODE_GROUP, "c:gpu", **described(sharing))
        self.reconfigure(sharing)

    def reconfigure(self, sharing: Sharing) -> None:
        """Changes only the plugin's release, so no pod is evicted."""
        self.change(tokens.RELEASE, PLUGIN, values=plugin_chart.values("gpu", sharing))

    def serve(self, name: str, *tolerated: Sharing) -> str:
        """A model's release that tolerates these modes."""
        return self.model(name, tolerations=[one for sharing in tolerated for one in tolerations(sharing)])


def expected(sharing: Sharing) -> ShareExpectation:
    """The expected shares of a node with one T4."""
    [one] = expectations(sharing, T4, 1)
    return one


def node_spec(sharing: Sharing, tolerated: Sequence[Sharing] = ()) -> dict[str, Any]:
    """Spec of the Job that reads the node."""
    return node_job([expected(sharing)], proof_args(sharing, tolerated), "scripts", "node-prober")


def shares_spec(sharing: Sharing, tolerated: Sequence[Sharing] = ()) -> dict[str, Any]:
    """Spec of the Job that holds all shares."""
    args, claim = proof_args(sharing, tolerated), CLAIM if sharing.needs_node_daemon else None
    return shares_job(expected(sharing), args, "shares-job", "shares", "shares", "scripts", "share-prober", claim)


def proof_args(sharing: Sharing, tolerated: Sequence[Sharing] = ()) -> ShareProofArgs:
    modes = [one for mode in (tolerated or [sharing]) for one in tolerations(mode)]
    return ShareProofArgs(sharing=sharing, gpu=T4, namespace=PROOF, tolerations=modes)


def job(spec: Mapping[str, Any], name: str = "job", **annotations: str) -> dict[str, Any]:
    """Inputs of a Job, as they come over the wire."""
    plain: dict[str, Any] = json.loads(json.dumps(spec))
    return {"metadata": meta(name, namespace=PROOF, annotations=annotations), "spec": plain}


def prove(account: Account, sharing: Sharing) -> list[str]:
    """Runs both Jobs, one after the other."""
    specs = {"node": node_spec(sharing), "shares": shares_spec(sharing)}
    mode = sharing.config_name
    return [account.make(tokens.JOB, name, **job(spec, f"{name}-{mode}")) for name, spec in specs.items()]
