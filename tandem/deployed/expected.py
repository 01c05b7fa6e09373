"""The expected state of a deployed stack, from its file; `verify` compares the cluster with it."""

from bisect import bisect_left
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from math import ceil
from typing import TYPE_CHECKING

from sharing.fit.memory import need
from sharing.models.catalogue import MIB
from sharing.models.ollama import server_environment
from sharing.models.served import ServedModel
from sharing.names import (
    DEVICE_PLUGIN_NAMESPACE,
    OLLAMA_NAMESPACE,
    OLLAMA_PORT,
    OPERATOR_NAMESPACE,
    plugin_release,
)
from sharing.stack.config import StackConfig
from sharing.stack.pools import GpuPool
from sharing.verdict.advice import advise
from sharing.verdict.features.scale_to_zero import sleepers
from sharing.verdict.judgement import Fit, judge

if TYPE_CHECKING:
    from stacks.stack_file.judge import Plan

BATCH = "batch"
"""The setting of a server that is not an environment variable."""
ROOMY_GIB = 16384
"""A disk with enough room for any model: the largest gp3 volume."""


@dataclass(frozen=True, slots=True)
class Daemon:
    """A DaemonSet that must run on every node of a pool. By name: the chart gives three of them the same labels."""

    name: str
    namespace: str
    what: str
    """Its task, in two words."""
    needs: str = "It runs on the nodes with the pool's label tandem/pool."
    """The condition under which it runs there."""


_BY_OPERATOR = "The GPU Operator must have started it: its log says why it has not."
OPERATOR_DAEMONS = (
    Daemon("nvidia-device-plugin-daemonset", OPERATOR_NAMESPACE, "device plugin", _BY_OPERATOR),
    Daemon("gpu-feature-discovery", OPERATOR_NAMESPACE, "feature discovery", _BY_OPERATOR),
    Daemon("nvidia-mig-manager", OPERATOR_NAMESPACE, "MIG manager", _BY_OPERATOR),
)
"""The GPU Operator's DaemonSets on the nodes of pools with MIG. Source: gpu-operator v26.7.0, assets/."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpectedPool:
    """One kind of GPU node."""

    name: str
    stack: str
    others: frozenset[str]
    """Names of the stack's other pools."""
    mode: str
    config: str
    """The mode with its settings (`Sharing.config_name`), with which the taint of the nodes begins."""
    provisioner: str
    nodes: int
    """The expected number of nodes; 0 for a parked pool."""
    has_schedule: bool
    """Whether the section `park` removes its nodes at times."""
    gpus: Mapping[str, int]
    """GPUs of a node, by instance type."""
    shares: Mapping[str, int]
    """Shares of each resource per GPU."""
    labels: Mapping[str, str]
    """Labels of every node: ours, and those that feature discovery sets if the plugin follows its config."""
    daemons: tuple[Daemon, ...]

    def allocatable(self, instance_type: str) -> dict[str, int]:
        """Shares of each resource that a node of the type must offer."""
        gpus = self.gpus.get(instance_type, min(self.gpus.values()))
        return {resource: gpus * per_gpu for resource, per_gpu in self.shares.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpectedModel:
    """A model, entirely on one share of its pool."""

    id: str
    stack: str
    tag: str
    pool: str
    spill: tuple[str, ...]
    """Other pools on which it may run."""
    resource: str
    mps_daemons: Mapping[str, "Daemon"]
    """The MPS daemon of each pool on which its process must be that daemon's client."""
    settings: Mapping[str, str]
    """The settings of its server, as `tandem.deployed.objects.settings` reads them."""
    context: int
    """Tokens of each slot."""
    running: bool
    """False in a parked pool."""
    sleeps: bool
    """Whether it scales to zero without requests."""
    encoder: bool
    """An embedding model: it takes no prompt."""
    namespace: str = OLLAMA_NAMESPACE
    port: int = OLLAMA_PORT
    fit: Fit
    config: StackConfig

    def what_would_fit(self, missing_bytes: int) -> list[str]:
        """Changes after which the model would fit although the GPU had this much less for it than planned.

        The plan's slack was missing, too, so the model counts as larger by both, and `sharing.verdict.advice`
        tries changes.
        """
        more = ceil(missing_bytes / MIB + max(self.fit.verdict.room, 0)) + 1
        served = _larger(self.fit, more)
        # The file on the disk is no larger, and a change that helps may cost more than the budget.
        pool = self.fit.pool.changed(volume_gib=ROOMY_GIB)
        models = [served if each.index == served.index else each for each in self.config.models]
        config = self.config.changed(models=models).with_pool(pool).without_limits()
        return [advice.change for advice in advise(config, judge(config), pool)]


def _larger(fit: Fit, mib: int) -> ServedModel:
    """The model with larger weights, so that it needs this much more memory. Its margin grows with them."""
    served, gpu = fit.served, fit.pool.smallest.gpu

    def grown(by: int) -> ServedModel:
        weights = served.model.weights_bytes + by * MIB
        return served.with_model(replace(served.model, weights_bytes=weights))

    before = need(served, gpu).bound
    return grown(bisect_left(range(mib), True, key=lambda by: need(grown(by), gpu).bound - before >= mib))


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpectedStack:
    """A whole stack."""

    stack: str
    pools: tuple[ExpectedPool, ...]
    models: tuple[ExpectedModel, ...]
    config: StackConfig


def expect(plan: "Plan") -> ExpectedStack:
    """The expected state of an accepted stack file."""
    config = plan.config
    return ExpectedStack(
        stack=plan.stack,
        pools=tuple(_pool(pool, plan) for pool in config.pools),
        models=tuple(_model(fit, plan) for fit in plan.assessment.fits),
        config=config,
    )


def _pool(pool: GpuPool, plan: "Plan") -> ExpectedPool:
    sharing, gpu, config = pool.sharing, pool.smallest.gpu, plan.config
    shares = {kind.resource: kind.per_gpu for kind in pool.offers}
    return ExpectedPool(
        name=pool.name,
        stack=plan.stack,
        others=frozenset(other.name for other in config.pools) - {pool.name},
        mode=sharing.mode,
        config=sharing.config_name,
        provisioner=pool.provisioner,
        nodes=config.nodes_of(pool),
        has_schedule=config.park is not None,
        gpus={known.name: known.gpus for known in pool.known_types},
        shares=shares,
        labels={**sharing.node_labels(gpu), **sharing.discovered_labels(gpu), **sharing.ready_labels},
        daemons=OPERATOR_DAEMONS if sharing.needs_mig_manager else tuple(_daemons(pool)),
    )


def _daemons(pool: GpuPool) -> Iterator[Daemon]:
    """The DaemonSets of the pool's release of the plugin's chart."""
    release, namespace = plugin_release(pool.name), DEVICE_PLUGIN_NAMESPACE
    yield Daemon(release, namespace, "device plugin")
    yield Daemon(f"{release}-gpu-feature-discovery", namespace, "feature discovery")
    if pool.sharing.needs_mps_daemon:
        yield mps_daemon(pool.name)


def mps_daemon(pool: str) -> Daemon:
    """The DaemonSet of a pool's release that runs an MPS daemon on each node."""
    needs = "It runs where feature discovery has set nvidia.com/mps.capable, which takes it a minute."
    return Daemon(f"{plugin_release(pool)}-mps-control-daemon", DEVICE_PLUGIN_NAMESPACE, "MPS daemon", needs)


def _model(fit: Fit, plan: "Plan") -> ExpectedModel:
    served = fit.served
    pools = [pool for pool in plan.config.pools if pool.name in (fit.pool.name, *served.spill)]
    return ExpectedModel(
        id=served.id,
        stack=plan.stack,
        tag=served.model.name,
        pool=fit.pool.name,
        spill=tuple(served.spill),
        resource=fit.verdict.shares.resource,
        mps_daemons={pool.name: mps_daemon(pool.name) for pool in pools if pool.sharing.needs_mps_daemon},
        settings={**server_environment(served), BATCH: str(served.effective_batch)},
        context=served.effective_context,
        running=fit.pool.desired > 0,
        sleeps=served in sleepers(plan.config),
        encoder=served.model.encoder,
        fit=fit,
        config=plan.config,
    )
