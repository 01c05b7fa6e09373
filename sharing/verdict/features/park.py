"""Times without GPU nodes: the schedules of `park`."""

from collections.abc import Iterator

from sharing.cost.bill import Cost
from sharing.problems import OBJECT, Problem
from sharing.schedule.cron import Cron, CronError, read_cron
from sharing.schedule.week import (
    EXAMPLES,
    HOURS_PER_WEEK,
    SHORTEST_MINUTES,
    find_conflicts,
    find_skipped,
    judge_timezone,
)
from sharing.sections.config import StackConfig
from sharing.sections.park import ParkSettings
from sharing.verdict.features.feature import CheaperHours, Feature
from sharing.verdict.rules.rule import Rule

FIXES = {
    "schedule": f"Leave at least {SHORTEST_MINUTES} minutes between `wake` and `schedule`.",
    "wake": f"Leave at least {SHORTEST_MINUTES} minutes between `schedule` and `wake`.",
}


def _find_contradictions(config: StackConfig) -> Iterator[Problem]:
    """Finds counts of nodes that the schedule sets, and schedules that cannot work."""
    for pool in config.pools:
        for key in ("min", "desired"):
            if key in pool.model_fields_set:
                fix = "Remove it: while the stack runs, the pool has `max` nodes."
                yield Problem(f"{pool.path}.{key}", "", "is set by the schedule of `park`", fix)
    assert config.park, "the stack has the feature"
    yield from _find_wrong_schedules(config.park)


def _find_wrong_schedules(park: ParkSettings) -> Iterator[Problem]:
    """Finds cron text and time zones that do not exist, and schedules that never park or never wake the stack."""
    read: dict[str, Cron] = {}
    for key, text in (("schedule", park.schedule), ("wake", park.wake)):
        try:
            read[key] = read_cron(text)
        except CronError as error:
            yield Problem(f"park.{key}", f"'{text}'", error.rule, error.fix(EXAMPLES[key]))
    if wrong := judge_timezone(park.timezone):
        yield Problem("park.timezone", f"'{park.timezone}'", *wrong, OBJECT)
    if len(read) == 2:
        for key, rule in find_conflicts(read["schedule"], read["wake"]):
            yield Problem(f"park.{key}", f"'{getattr(park, key)}'", rule, FIXES[key])


def _skipped_times(config: StackConfig) -> Iterator[Problem]:
    """Warns about times that clocks skip once a year."""
    park = config.park
    if park is None:
        return
    for key, text, cron in (("schedule", park.schedule, park.times.schedule), ("wake", park.wake, park.times.wake)):
        if skipped := find_skipped(cron, park.timezone, config.today):
            rule = f"is skipped on {skipped:%Y-%m-%d}: clocks go forward over {skipped:%H:%M} in {park.timezone}"
            yield Problem(f"park.{key}", f"'{text}'", rule, "Write another time.")


def _find_cheaper_hours(bill: Cost) -> Iterator[CheaperHours]:
    assert bill.week, "the stack has the feature"
    hours = f"{bill.week.parked_hours:.4g} of {HOURS_PER_WEEK} hours per week"
    yield CheaperHours(name="while parked", usd_per_hour=bill.week.parked_usd_per_hour, remark=hours)


PARK = Feature(
    key="park",
    is_on=lambda config: config.park is not None,
    contradictions=_find_contradictions,
    rules=(Rule("clocks skip no time of the schedule", False, _skipped_times),),
    system_pods=lambda config: ["park"] if config.karpenter_pools else [],
    cheaper_hours=_find_cheaper_hours,
)
