"""Errors and warnings about `park`: schedules that cannot work, and counts of nodes that the schedules set."""

from collections.abc import Iterator

from sharing.problems import Problem
from sharing.schedule.cron import Cron, CronError, read_cron
from sharing.schedule.week import EXAMPLES, SHORTEST_MINUTES, find_conflicts, find_skipped, judge_timezone
from sharing.stack.config import StackConfig
from sharing.stack.park import ParkSettings
from sharing.stack.pools import GpuPool

FIXES = {
    "schedule": f"Leave at least {SHORTEST_MINUTES} minutes between `wake` and `schedule`.",
    "wake": f"Leave at least {SHORTEST_MINUTES} minutes between `schedule` and `wake`.",
}


def find_wrong_schedules(park: ParkSettings | None) -> Iterator[Problem]:
    """Finds cron text and time zones that do not exist, and schedules that never park or never wake the stack."""
    if park is None:
        return
    read: dict[str, Cron] = {}
    for key, text in (("schedule", park.schedule), ("wake", park.wake)):
        try:
            read[key] = read_cron(text)
        except CronError as error:
            yield Problem(f"park.{key}", f"'{text}'", error.rule, error.fix(EXAMPLES[key]))
    if wrong := judge_timezone(park.timezone):
        yield Problem("park.timezone", f"'{park.timezone}'", *wrong)
    if len(read) == 2:
        for key, rule in find_conflicts(read["schedule"], read["wake"]):
            yield Problem(f"park.{key}", f"'{getattr(park, key)}'", rule, FIXES[key])


def find_counts_of_schedule(pool: GpuPool) -> Iterator[Problem]:
    """Finds counts of nodes that the schedule of `park` sets."""
    for key in ("min", "desired"):
        if key in pool.model_fields_set:
            fix = "Remove it: while the stack runs, the pool has `max` nodes."
            yield Problem(f"{pool.path}.{key}", "", "is set by the schedule of `park`", fix)


def warn_of_park(config: StackConfig) -> Iterator[Problem]:
    """Warns about times that clocks skip once a year."""
    park = config.park
    if park is None:
        return
    for key, text, cron in (("schedule", park.schedule, park.times.schedule), ("wake", park.wake, park.times.wake)):
        if skipped := find_skipped(cron, park.timezone, config.today):
            rule = f"is skipped on {skipped:%Y-%m-%d}: clocks go forward over {skipped:%H:%M} in {park.timezone}"
            yield Problem(f"park.{key}", f"'{text}'", rule, "Write another time.")
