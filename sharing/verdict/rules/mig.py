"""Rules about MIG: its requirements for driver and GPU, its known risks, and how to get more shares."""

from collections.abc import Collection, Iterator

from sharing import versions
from sharing.fit.shares import place_models
from sharing.hardware import mig
from sharing.hardware.gpus import Gpu
from sharing.hardware.offerings import examples
from sharing.modes.base import MOST_TIME_SLICES
from sharing.problems import LIMIT, Problem
from sharing.sections.config import StackConfig
from sharing.sections.pools import GpuPool

HOPPER = (9, 0)
"""Since Hopper, MIG is enabled without a GPU reset. Before, a GPU in a cloud can be reset only by a reboot."""


def _partitioned(config: StackConfig) -> Iterator[GpuPool]:
    """The pools whose GPUs are partitioned into slices."""
    return (pool for pool in config.pools if pool.sharing.needs_mig_manager)


def driver_partitions(config: StackConfig) -> Iterator[Problem]:
    """The pinned driver is new enough for MIG on the GPU."""
    for pool in _partitioned(config):
        for path, kind in pool.placed_types:
            if kind.gpu.mig_min_driver > versions.NVIDIA_DRIVER:
                rule = f"needs NVIDIA driver {kind.gpu.mig_min_driver} or newer for MIG on its {kind.gpu.title}"
                others = examples(("g7e.2xlarge", "p5.4xlarge"), config.region, config.book)
                fix = f"Use another GPU with MIG, {others}, or another mode." if others else "Use another mode."
                yield Problem(path, kind.name, f"{rule}; the pinned AMI has {versions.NVIDIA_DRIVER}", fix)


def one_configuration(config: StackConfig) -> Iterator[Problem]:
    """A cluster has one GPU Operator, and so one default configuration for all pools with MIG.

    The plugin starts every node with the default and fails when it is switched to another (docs/decisions/0001).
    """
    pools = [*_partitioned(config)]
    for pool in pools[1:]:
        first = pools[0]
        if pool.sharing.config_name != first.sharing.config_name:
            both = f"{pool.sharing.config_name} here and {first.sharing.config_name} in {first.name}"
            rule = "must have the same `strategy`, `replicas` and `allocation-policy` in all pools with MIG"
            fix = f"Copy the `sharing` of pool `{first.name}` here, with a `layout` of its own, or use a second stack."
            yield Problem(f"{pool.own_sharing_path}.mode", both, rule, fix, LIMIT)


def ollama_on_slices(config: StackConfig) -> Iterator[Problem]:
    """Ollama since 0.13.2 has been seen to miss slices and to serve from the CPU."""
    for pool in _partitioned(config):
        rule = (
            f"is unverified with Ollama {versions.OLLAMA}; releases since 0.13.2 may miss slices (ollama#13800, #14031)"
        )
        fix = "After `up`, check that every pod becomes ready: a pod whose model fell back to the CPU never does."
        yield Problem(f"{pool.sharing_path}.mode", "mig", rule, fix)


def reboots(config: StackConfig) -> Iterator[Problem]:
    """Partitioning an A100 in a cloud takes a reboot."""
    for pool in _partitioned(config):
        for gpu in dict.fromkeys(kind.gpu for kind in pool.known_types if kind.gpu.mig_min_driver):
            if gpu.compute_capability < HOPPER:
                rule = f"needs a reboot to partition {gpu.title}, which adds some minutes to the first start"
                fix = "Allow for the automatic reboot, or use a GPU since Hopper, which needs none."
                yield Problem(f"{pool.sharing_path}.mode", "mig", rule, fix)


def turns(config: StackConfig) -> Iterator[Problem]:
    """Pods that take turns on a slice are not isolated from each other."""
    for pool in _partitioned(config):
        if pool.sharing.replicas:
            rule = "lets pods take turns on a slice, whose memory is not divided between them"
            fix = "Remove `replicas` to give each pod a slice of its own."
            yield Problem(f"{pool.sharing_path}.replicas", str(pool.sharing.replicas), rule, fix)


def idle_slices(config: StackConfig) -> Iterator[Problem]:
    """A slice without a model costs money for nothing."""
    for pool in _partitioned(config):
        if len(pool.offers) > 1:
            used = {placement.shares.profile for placement in place_models(config, pool)}
            for shares in pool.offers:
                if shares.profile not in used:
                    rule = "has no model"
                    fix = "Remove these slices, or give their room to another profile."
                    idle = f"{shares.per_gpu} × {shares.profile} per GPU"
                    yield Problem(f"{pool.sharing_path}.layout", idle, rule, fix)


def more_shares(pool: GpuPool, wanted: int, compared_modes: Collection[str]) -> str:
    """Settings for more shares on the same GPUs, in a mode that is not compared yet; empty if there are none."""
    path = pool.own_sharing_path
    units = sum(shares.per_gpu // shares.sharers for shares in pool.offers)
    each = -(-wanted // (pool.planned_gpus * units))
    gpu, has_slices = pool.smallest.gpu, pool.sharing.needs_mig_manager
    if (
        has_slices
        and (finest := _finest(gpu))
        and wanted <= pool.planned_gpus * (pool.sharing.replicas or 1) * finest[1]
    ):
        return f"`{path}.layout: {finest[0]}` for smaller slices"
    if not has_slices and pool.offers[0].per_gpu == 1:
        shared = f"`{path}.mode: timeslice` with `{path}.replicas: {each}` to share the GPU"
        return "" if "timeslice" in compared_modes else shared
    too_many = pool.sharing.model_copy(update={"replicas": each}).check(gpu) or each > MOST_TIME_SLICES
    mode = f"`{path}.mode: {pool.sharing.mode}` with " if pool.listed else ""
    return "" if too_many else f"{mode}`{path}.replicas: {each}`"


def _finest(gpu: Gpu) -> tuple[str, int]:
    """The preset with the most slices of one kind for `gpu`, and their number."""
    alike = {name: layout[0][1] for name, layout in mig.presets(gpu).items() if len(layout) == 1}
    return max(alike.items(), key=lambda pair: pair[1])
