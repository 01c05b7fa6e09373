"""The speed of each model of a stack, and what a million tokens cost."""

from collections.abc import Iterable

from sharing.cost.bill import Cost
from sharing.models.catalogue import full_name
from sharing.models.served import ServedModel
from sharing.modes.base import Shares
from sharing.sections.config import StackConfig
from sharing.sections.pools import GpuPool
from sharing.speed.estimate import Estimate
from sharing.speed.forecast import Speed, forecast
from sharing.speed.measured import find


def speed_of(config: StackConfig, pool: GpuPool, served: ServedModel, shares: Shares) -> Speed | None:
    """The speed of one model: measured, or a forecast; None for an embedding model and for an unknown GPU.

    Its neighbours are as many as may meet on one GPU or slice.
    """
    speed = forecast(served, pool.smallest.gpu, shares, _busy(config, pool, shares))
    if speed is None or not config.circumstances.measured:
        return speed
    measurement = find(config.circumstances.measured, key_of(config, pool, served, shares))
    return measurement.correct(speed) if measurement else speed


def slowest_busy(speeds: Iterable[Speed | None]) -> Estimate | None:
    """Tokens per second of the slowest model, while each model works on one request; None if none generates tokens."""
    busy = [speed.busy_tokens_per_s for speed in speeds if speed]
    return min(busy, key=lambda each: each.value, default=None)


def key_of(config: StackConfig, pool: GpuPool, served: ServedModel, shares: Shares) -> tuple[object, ...]:
    """The key of a measurement that replaces the forecast of this model."""
    mode = pool.sharing.way if shares.own_limits else pool.sharing.mode
    neighbours = shares.sharers, shares.profile, _busy(config, pool, shares), shares.threads_percent
    return full_name(served.model.name), pool.smallest.gpu.name, mode, *neighbours, served.effective_slots


def _busy(config: StackConfig, pool: GpuPool, shares: Shares) -> int:
    generating = sum(not each.model.encoder for each in config.models_of(pool))
    return min(generating, shares.sharers)


def usd_per_million_tokens(speeds: Iterable[Speed | None], bill: Cost | None, load: float = 1.0) -> Estimate | None:
    """The price of the whole stack for a million tokens, at a part of its full load.

    None if no model generates tokens, or the bill is unknown.
    At full load all slots of all models are in use, on the nodes that run when no pool is parked.
    """
    return price_of_million(speeds, bill.awake_usd_per_hour, load) if bill else None


def price_of_million(speeds: Iterable[Speed | None], usd_per_hour: float, load: float) -> Estimate | None:
    """The price of a million tokens on nodes of that price, at a part of their full load."""
    known = [speed.full_tokens_per_s for speed in speeds if speed]
    if not known:
        return None
    value, low, high = (sum(numbers) for numbers in zip(*((e.value, e.low, e.high) for e in known), strict=True))
    million_per_hour = Estimate(value, low, high).times(load * 3600 / 1e6)
    return million_per_hour.inverse().times(usd_per_hour)
