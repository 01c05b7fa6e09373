"""Models that scale to zero: only Karpenter removes the node of an idle model and brings it back."""

import math
from collections.abc import Iterator

from sharing.cost.bill import Cost
from sharing.models.served import ServedModel
from sharing.printable import counted
from sharing.problems import Problem
from sharing.sections.config import StackConfig
from sharing.sections.startup import cold_start
from sharing.verdict.features.feature import CheaperHours, Feature
from sharing.verdict.rules.rule import Rule

SHORTEST_WAIT_MINUTES = 15
"""How long a request may wait at least: spot capacity can take minutes."""


def sleepers(config: StackConfig) -> list[ServedModel]:
    """The models that scale to zero: all that are not parked."""
    if not config.scale_to_zero.enabled:
        return []
    return [served for pool in config.active_pools for served in config.models_of(pool)]


def slow_start_minutes(served: ServedModel) -> int:
    """Minutes of a slow start without a node: the typical time and its uncertainty. Without spot capacity, it takes
    longer.
    """
    return math.ceil(sum(cold_start(served)))


def longest_wait_minutes(served: ServedModel) -> int:
    """After how many minutes a cold request fails: twice the typical time."""
    minutes, _ = cold_start(served)
    return max(SHORTEST_WAIT_MINUTES, math.ceil(2 * minutes))


def _find_contradictions(config: StackConfig) -> Iterator[Problem]:
    """Finds sections that cannot work while models scale to zero."""
    if config.park:
        rule = "conflicts with `scale-to-zero`: a model that `park` wakes without a request stops at once"
        yield Problem("park", "", rule, "Remove `park`: idle models have no nodes.")
    if config.ui.enabled:
        rule = "conflicts with `scale-to-zero`: the page lists only models that run, so nobody could start one there"
        yield Problem("ui.enabled", "", rule, "Write `ui.enabled: false`, or `scale-to-zero.enabled: false`.")


def _on_node_groups(config: StackConfig) -> Iterator[Problem]:
    """Rejects node groups: nothing changes the number of their nodes when models stop or requests come."""
    groups = [pool for pool in config.pools if pool not in config.karpenter_pools]
    if not config.scale_to_zero.enabled or not groups:
        return
    names = f" {' and '.join(pool.name for pool in groups)}" if groups[0].listed else ""
    keep = f"the node groups{names} keep their" if len(groups) > 1 else f"the node group{names} keeps its"
    rule = f"needs Karpenter: {keep} nodes without models, so idle models would save nothing"
    fix = " and ".join(f"`{pool.path}.provisioner: karpenter`" for pool in groups)
    yield Problem("scale-to-zero.enabled", "", rule, f"Write {fix}.")


def _shorter_than_start(config: StackConfig) -> Iterator[Problem]:
    """Rejects an idle time in which a model may not even start: a caller that gave up would never find it running."""
    if not config.scale_to_zero.enabled or not (tenants := sleepers(config)):
        return
    slowest = max(tenants, key=slow_start_minutes)
    least, given = slow_start_minutes(slowest), config.scale_to_zero.idle_minutes
    if given < least:
        rule = f"is less than the {least} minutes that {slowest.model.name} may take to start without a node"
        yield Problem("scale-to-zero.idle-minutes", str(given), rule, f"Write `idle-minutes: {least}` or more.")


def _find_cheaper_hours(bill: Cost) -> Iterator[CheaperHours]:
    assert bill.idle_usd_per_hour is not None, "the stack has the feature"
    remark = "no model runs, and no GPU node"
    yield CheaperHours(name="while idle", usd_per_hour=bill.idle_usd_per_hour, remark=remark)


def _describe(config: StackConfig) -> str:
    """When models stop, and how long the next request waits; empty while all pools are parked."""
    tenants, settings = sleepers(config), config.scale_to_zero
    if not tenants:
        return ""
    usual, slow = round(max(cold_start(tenant)[0] for tenant in tenants)), max(map(slow_start_minutes, tenants))
    wait = f"about {counted(usual, 'minute')}, sometimes {slow}"
    answer = f"waits {wait}" if settings.cold_requests == "wait" else f"gets status 503 for {wait}"
    return f"a model stops after {counted(settings.idle_minutes, 'minute')} without requests; the next request {answer}"


SCALE_TO_ZERO = Feature(
    key="scale-to-zero",
    is_on=lambda config: config.scale_to_zero.enabled,
    contradictions=_find_contradictions,
    rules=(
        Rule("scale-to-zero needs Karpenter", True, _on_node_groups),
        Rule("models start before they count as idle", True, _shorter_than_start),
    ),
    system_pods=lambda _: ["keda"],
    cheaper_hours=_find_cheaper_hours,
    word="Idle",
    line=_describe,
)
