"""What the plan expects Kubernetes to show of a deployed stack: `verify` and `watch` compare the cluster with it."""

from bisect import bisect_left
from dataclasses import dataclass, replace
from math import ceil
from typing import TYPE_CHECKING

from sharing.fit.memory import need
from sharing.models.catalogue import MIB
from sharing.models.ollama import server_environment
from sharing.models.served import ServedModel
from sharing.modes.mps_clients import client_environment
from sharing.names import DEVICE_PLUGIN_NAMESPACE, OPERATOR_NAMESPACE, plugin_release
from sharing.sections.pools import GpuPool
from sharing.verdict.advice import advise
from sharing.verdict.quick import Fit, judge_quickly

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


def daemons_of(pool: GpuPool) -> tuple[Daemon, ...]:
    """The DaemonSets of a pool: those of the GPU Operator, or of its own release of the plugin's chart."""
    if pool.sharing.needs_mig_manager:
        return OPERATOR_DAEMONS
    release = plugin_release(pool.name)
    plugin = Daemon(release, DEVICE_PLUGIN_NAMESPACE, "device plugin")
    discovery = Daemon(f"{release}-gpu-feature-discovery", DEVICE_PLUGIN_NAMESPACE, "feature discovery")
    return (plugin, discovery, *([mps_daemon(pool)] if pool.sharing.needs_mps_daemon else []))


def mps_daemon(pool: GpuPool) -> Daemon:
    """The DaemonSet of a pool's release that runs an MPS daemon on each node."""
    needs = "It runs where feature discovery has set nvidia.com/mps.capable, which takes it a minute."
    return Daemon(f"{plugin_release(pool.name)}-mps-control-daemon", DEVICE_PLUGIN_NAMESPACE, "MPS daemon", needs)


def labels_of(pool: GpuPool) -> dict[str, str]:
    """Labels of every node: ours, and those that feature discovery sets if the plugin follows its config."""
    sharing, gpu = pool.sharing, pool.smallest.gpu
    return {**sharing.node_labels(gpu), **sharing.discovered_labels(gpu), **sharing.ready_labels}


def shares_of(pool: GpuPool, instance_type: str) -> dict[str, int]:
    """Shares of each resource that a node of the type must offer; of another type, at least that many."""
    gpus = {each.name: each.gpus for each in pool.known_types}
    count = gpus.get(instance_type, min(gpus.values()))
    return {kind.resource: count * kind.per_gpu for kind in pool.offers}


def pools_of(plan: "Plan", fit: Fit) -> list[GpuPool]:
    """The pools on which a model may run: its own, and those to which it may spill."""
    return [fit.pool, *(pool for pool in plan.config.pools if pool.name in fit.served.spill)]


def mps_daemons(plan: "Plan", fit: Fit) -> dict[str, Daemon]:
    """By pool, the MPS daemon whose client a model's process must be there."""
    return {pool.name: mps_daemon(pool) for pool in pools_of(plan, fit) if pool.sharing.needs_mps_daemon}


def limits_of(fit: Fit) -> dict[str, str]:
    """The environment of a model with limits of its own, as `tandem.deployed.objects.settings` reads it; else empty."""
    shares = fit.placement.shares
    if not shares.own_limits or shares.memory_mib is None:
        return {}
    return {**client_environment(shares.memory_mib, shares.threads)}


def settings_of(served: ServedModel) -> dict[str, str]:
    """The settings of a model's server, as `tandem.deployed.objects.settings` reads them."""
    return {**server_environment(served), BATCH: str(served.effective_batch)}


def what_would_fit(plan: "Plan", fit: Fit, missing_bytes: int) -> list[str]:
    """Changes after which the model would fit although the GPU had this much less for it than planned.

    The plan's slack was missing, too, so the model counts as larger by both, and `sharing.verdict.advice`
    tries changes.
    """
    more = ceil(missing_bytes / MIB + max(fit.placement.room, 0)) + 1
    served = _larger(fit, more)
    # The file on the disk is no larger, and a change that helps may cost more than the budget.
    pool = fit.pool.changed(volume_gib=ROOMY_GIB)
    models = [served if each.index == served.index else each for each in plan.config.models]
    config = plan.config.changed(models=models).with_pool(pool).without_limits()
    return [advice.change for advice in advise(config, judge_quickly(config), pool)]


def _larger(fit: Fit, mib: int) -> ServedModel:
    """The model with larger weights, so that it needs this much more memory. Its margin grows with them."""
    served, gpu = fit.served, fit.pool.smallest.gpu

    def grown(by: int) -> ServedModel:
        weights = served.model.weights_bytes + by * MIB
        return served.with_model(replace(served.model, weights_bytes=weights))

    before = need(served, gpu).bound
    return grown(bisect_left(range(mib), True, key=lambda by: need(grown(by), gpu).bound - before >= mib))
