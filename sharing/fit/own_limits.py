"""Memory limits that differ between the models of a GPU (`limits: per-model`)."""

from collections.abc import Sequence
from math import ceil, floor

from sharing.fit.memory import Need, need
from sharing.hardware.gpus import gpus
from sharing.models.engine import ModelInEngine
from sharing.models.served import ServedModel
from sharing.models.share import MIB_PER_GIB, Share
from sharing.modes.base import Shares


def own_limits(models: Sequence[ServedModel], needs: Sequence[Need], kind: Shares) -> list[float]:
    """The limit of each model in MiB: what its file says, else what it needs, and an equal part of what is left.

    What is left is shared out to the latter, because a limit without reserve would turn a small error of the prediction
    into a model that does not load. No combination of models exceeds the GPU, unless the file's limits do.
    """
    given, least = [served.given_limit_mib for served in models], _least(models, needs)
    left = max(kind.unit_mib - sum(sorted(least, reverse=True)[: kind.sharers]), 0)
    more = left // max(min(given.count(None), kind.sharers), 1)
    return [float(size if limit else size + more) for limit, size in zip(given, least, strict=True)]


def with_needed_limit(served: ServedModel, bound_mib: float) -> ServedModel:
    """The model with the smallest limit that holds it, in tenths of a GiB."""
    return _limited(served, _tenths(bound_mib))


def with_largest_limit(index: int, models: Sequence[ServedModel], needs: Sequence[Need], kind: Shares) -> ServedModel:
    """One of the models with the largest limit beside those that it may meet, in tenths of a GiB."""
    least = _least(models, needs)
    others = sorted([*least[:index], *least[index + 1 :]], reverse=True)
    room = kind.unit_mib - sum(others[: kind.sharers - 1])
    return _limited(models[index], max(floor(room / MIB_PER_GIB * 10), 1) / 10)


def _least(models: Sequence[ServedModel], needs: Sequence[Need]) -> list[int]:
    """The smallest limit of each model in MiB: what its file says, else what it needs."""
    return [served.given_limit_mib or ceil(each.bound) for served, each in zip(models, needs, strict=True)]


def _limited(served: ServedModel, memory_gib: float) -> ServedModel:
    return served.changed(share=(served.share or Share()).changed(memory_gib=memory_gib))


def judge_limit(share: Share, served: ModelInEngine) -> str:
    """Why no GPU can hold a model under its limit, with the fix; empty if one can."""
    least = min(need(served, gpu).bound for gpu in gpus().values() if gpu.vendor == "nvidia")
    fix = f"Pass {_tenths(least):g} or more."
    if share.memory_mib is None:
        return f"has no memory_gib, and the GPU, which decides what it needs, is unknown here. {fix}"
    if share.memory_mib < least:
        return f"has a memory_gib of {share.memory_gib:g}, which is too small for it on every GPU. {fix}"
    return ""


def _tenths(mib: float) -> float:
    """The fewest tenths of a GiB that are at least `mib` in whole MiB, as `Share.memory_mib` counts."""
    return ceil(ceil(mib) / MIB_PER_GIB * 10) / 10
