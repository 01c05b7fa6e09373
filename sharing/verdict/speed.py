"""The speed of each model of a stack, and what a million tokens cost."""

from collections.abc import Iterable

from sharing.cost.bill import Cost
from sharing.models.catalogue import full_name
from sharing.speed.estimate import Estimate
from sharing.speed.forecast import Speed, forecast
from sharing.speed.measured import find
from sharing.stack.config import StackConfig
from sharing.verdict.quick import Fit


def speed_of(config: StackConfig, fit: Fit) -> Speed | None:
    """The speed of one model: measured, or a forecast; None for an embedding model and for an unknown GPU.

    Its neighbours are as many as may meet on one GPU or slice.
    """
    served, pool, shares = fit.served, fit.pool, fit.placement.shares
    gpu = pool.smallest.gpu
    generating = [each for each in config.models_of(pool) if not each.model.encoder]
    speed = forecast(served, gpu, shares, min(len(generating), shares.sharers))
    key = (
        full_name(served.model.name),
        gpu.name,
        pool.sharing.mode,
        shares.sharers,
        shares.profile,
        served.effective_slots,
    )
    measurement = find(config.circumstances.measured, key)
    return measurement.correct(speed) if speed and measurement else speed


def usd_per_million_tokens(speeds: Iterable[Speed | None], bill: Cost, load: float = 1.0) -> Estimate | None:
    """The price of the whole stack for a million tokens, at a part of its full load; None if no model generates.

    At full load all slots of all models are in use. `bill` is that of a running stack.
    """
    known = [speed.full_tokens_per_s for speed in speeds if speed]
    if not known:
        return None
    total = Estimate(
        sum(each.value for each in known), sum(each.low for each in known), sum(each.high for each in known)
    )
    return total.times(load * 3600 / 1e6).inverse().times(bill.usd_per_hour)
