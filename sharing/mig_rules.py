"""Rules about slices: what MIG needs of driver and card, what is doubtful about it, and how to get more shares."""

from collections.abc import Iterator

from sharing import mig, versions
from sharing.fit import judge_models
from sharing.gpus import Gpu
from sharing.modes import MOST_TIME_SLICES
from sharing.offerings import examples
from sharing.problems import Problem
from sharing.setup import Pool, Setup

HOPPER = (9, 0)
"""Since then MIG is switched on without a reset of the card. Before, a cloud's card can only be reset by a reboot."""


def _cut(setup: Setup) -> Iterator[Pool]:
    """The pools whose cards are cut into slices."""
    return (pool for pool in setup.pools if pool.sharing.needs_mig_manager)


def driver_cuts(setup: Setup) -> Iterator[Problem]:
    """The pinned driver is new enough for MIG on the card."""
    for pool in _cut(setup):
        for path, known in pool.placed_types:
            if known.gpu.mig_min_driver > versions.NVIDIA_DRIVER:
                rule = f"MIG on {known.gpu.title} needs NVIDIA driver {known.gpu.mig_min_driver} or newer"
                others = examples(("g7e.2xlarge", "p5.4xlarge", "p4d.24xlarge"), setup.region, setup.book)
                fix = f"Take another GPU with MIG, {others}, or another mode." if others else "Use another mode."
                yield Problem(path, known.name, f"{rule}; the pinned AMI has {versions.NVIDIA_DRIVER}", fix)


def one_configuration(setup: Setup) -> Iterator[Problem]:
    """All pools with MIG share the GPU Operator, of which a cluster has one, and its one default configuration.

    The plugin starts every node with the default and does not survive a switch to another (docs/decisions/0001).
    """
    pools = [*_cut(setup)]
    for pool in pools[1:]:
        first = pools[0]
        if pool.sharing.config_name != first.sharing.config_name:
            found = f"{pool.sharing.config_name} here, {first.sharing.config_name} in {first.name}"
            rule = "pools with MIG must have the same `strategy`, `replicas` and `allocation-policy`"
            fix = f"Copy the `sharing` of pool `{first.name}` here, with a `layout` of its own, or use a second stack."
            yield Problem(f"{pool.own_sharing_path}.mode", found, rule, fix)


def ollama_on_slices(setup: Setup) -> Iterator[Problem]:
    """Since 0.13.2 Ollama was seen to overlook slices and to serve from the CPU."""
    for pool in _cut(setup):
        rule = (
            f"Ollama {versions.OLLAMA} is unverified on MIG; since 0.13.2 it overlooked slices (ollama#13800, #14031)"
        )
        fix = (
            "After `up`, each pod must get ready: one whose model is on the CPU never does, `kubectl describe` says so."
        )
        yield Problem(f"{pool.sharing_path}.mode", "mig", rule, fix)


def reboots(setup: Setup) -> Iterator[Problem]:
    """An A100 in a cloud is cut by way of a reboot."""
    for pool in _cut(setup):
        for gpu in dict.fromkeys(known.gpu for known in pool.known_types if known.gpu.mig_min_driver):
            if gpu.compute_capability < HOPPER:
                rule = f"{gpu.title} can be cut only by a reboot of its node, some minutes more before the first token"
                yield Problem(f"{pool.sharing_path}.mode", "mig", rule, "It happens by itself; later cards need none.")


def turns(setup: Setup) -> Iterator[Problem]:
    """Slices that pods share in time have no wall between these."""
    for pool in _cut(setup):
        if pool.sharing.replicas:
            rule = f"{pool.sharing.replicas} pods take turns on a slice, and nothing divides its memory between them"
            fix = "Leave `replicas` out for a slice each."
            yield Problem(f"{pool.sharing_path}.replicas", str(pool.sharing.replicas), rule, fix)


def idle_slices(setup: Setup) -> Iterator[Problem]:
    """A kind of slice that no model gets is paid for nothing."""
    for pool in _cut(setup):
        if pool.known_types and len(pool.offers) > 1:
            used = {verdict.shares.profile for verdict in judge_models(setup, pool)}
            for shares in pool.offers:
                if shares.profile not in used:
                    rule = f"no model gets a slice {shares.profile}"
                    fix = "Leave it out, or give its room to another profile."
                    yield Problem(f"{pool.sharing_path}.layout", f"{shares.per_gpu} a card", rule, fix)


def more_shares(pool: Pool, wanted: int) -> str:
    """What to write for more shares on the same GPUs; empty where they have no more."""
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
        return f"`{path}.mode: timeslice` with `{path}.replicas: {each}` to share the GPU"
    too_many = pool.sharing.model_copy(update={"replicas": each}).check(gpu) or each > MOST_TIME_SLICES
    mode = f"`{path}.mode: {pool.sharing.mode}` with " if pool.listed else ""
    return "" if too_many else f"{mode}`{path}.replicas: {each}`"


def _finest(gpu: Gpu) -> tuple[str, int]:
    """The preset that cuts `gpu` into the most alike slices, and how many they are."""
    alike = {name: layout[0][1] for name, layout in mig.presets(gpu).items() if len(layout) == 1}
    return max(alike.items(), key=lambda pair: pair[1])
