"""When a stack is parked: from two schedules, the hours of a week without GPU nodes.

Schedules are in local time. A week has 168 hours here. The two weeks a year in which clocks change have an hour more or
less, which no schedule of a working day notices.
"""

import datetime
import zoneinfo
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

from sharing import tables
from sharing.printable import counted
from sharing.problems import did_you_mean, near
from sharing.schedule.cron import Cron

EXAMPLES = {"schedule": "0 20 * * MON-FRI", "wake": "0 8 * * MON-FRI"}
"""No GPU nodes at night and at weekends."""
HOURS_PER_WEEK = 168
SHORTEST_MINUTES = 30
"""A GPU node takes about ten minutes to start with its images and models (`data/durations.csv`), and some to stop. So a
stack gains nothing if it never parks, or never runs, for longer than this."""
MONDAY = datetime.date(2024, 1, 1)
"""The first day of a week, of four years, and of a leap year."""
FOUR_YEARS = 4 * 365 + 1
MINUTES_PER_HOUR, MINUTES_PER_DAY = 60, 24 * 60
DAYS_PER_WEEK = 7
ONE_DAY = datetime.timedelta(days=1)
DAYS_PER_YEAR = 366
UNKNOWN_ZONE = "unknown time zone"
NOT_EVERYWHERE = frozenset({"Factory", "build/etc/localtime", "localtime"})
"""Files that some machines have among the time zones of the IANA database, without being names of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Timetable:
    """When a stack has no GPU nodes. Raises ValueError if its schedules never park it, or never wake it."""

    schedule: Cron
    """When it parks."""
    wake: Cron
    timezone: str
    """An IANA name, e.g. `Europe/Paris`."""

    def __post_init__(self) -> None:
        for key, rule in find_conflicts(self.schedule, self.wake):
            raise ValueError(f"Timetable.{key} {rule}.")

    @property
    def parked_hours(self) -> float:
        """The hours of an average week during which it is parked."""
        parked = sum(_lengths(self.schedule, self.wake, parked=True))
        return parked / _cycle_days(self.schedule, self.wake) * DAYS_PER_WEEK / MINUTES_PER_HOUR

    @property
    def running_hours(self) -> float:
        """The other hours of an average week."""
        return HOURS_PER_WEEK - self.parked_hours

    @property
    def busiest_day_hours(self) -> float:
        """The hours that it runs on the day on which it runs longest."""
        return _busiest_day_minutes(self.schedule, self.wake) / MINUTES_PER_HOUR


def find_conflicts(schedule: Cron, wake: Cron) -> Iterator[tuple[str, str]]:
    """Finds schedules that never park a stack, or never wake it: the key, and the rule that it breaks."""
    if at := _find_clash(schedule, wake):
        yield "wake", f"has a time that `schedule` has, too: {at}"
        return
    parked, running = (max(_lengths(schedule, wake, parked=parked)) for parked in (True, False))
    if parked < SHORTEST_MINUTES:
        yield "wake", f"lets the stack park for at most {counted(parked, 'minute')}; the minimum is {SHORTEST_MINUTES}"
    if running < SHORTEST_MINUTES:
        yield (
            "schedule",
            f"lets the stack run for at most {counted(running, 'minute')}; the minimum is {SHORTEST_MINUTES}",
        )


def _find_clash(schedule: Cron, wake: Cron) -> str:
    """A time at which both come, e.g. `Monday 08:00`; empty if there is none."""
    for date in _dates(schedule, wake):
        for minute in sorted({*schedule.times_on(date)} & {*wake.times_on(date)}):
            return f"{date:%A} {minute // MINUTES_PER_HOUR:02}:{minute % MINUTES_PER_HOUR:02}"
    return ""


@cache
def _stretches(schedule: Cron, wake: Cron) -> tuple[tuple[int, int, bool], ...]:
    """Start and end of each stretch, in minutes since the cycle began, and whether the stack is parked then."""
    changes: list[tuple[int, bool]] = []
    for day, date in enumerate(_dates(schedule, wake)):
        calls = [(minute, parks) for cron, parks in ((schedule, True), (wake, False)) for minute in cron.times_on(date)]
        for minute, parks in sorted(calls):
            if not changes or changes[-1][1] != parks:
                changes.append((day * MINUTES_PER_DAY + minute, parks))
    if changes[0][1] == changes[-1][1]:
        del changes[0]  # The end of the cycle before it is in this state already.
    starts = [start for start, _ in changes]
    ends = [*starts[1:], starts[0] + _cycle_days(schedule, wake) * MINUTES_PER_DAY]
    return tuple((start, end, parks) for (start, parks), end in zip(changes, ends, strict=True))


def _lengths(schedule: Cron, wake: Cron, *, parked: bool) -> list[int]:
    """The minutes of each stretch of a cycle during which the stack is parked, or runs."""
    return [end - start for start, end, is_parked in _stretches(schedule, wake) if is_parked == parked]


@cache
def _busiest_day_minutes(schedule: Cron, wake: Cron) -> int:
    """The most minutes that the stack runs on one day of a cycle."""
    running: Counter[int] = Counter()
    for start, end, parked in _stretches(schedule, wake):
        while start < end and not parked:
            day, begun = divmod(start, MINUTES_PER_DAY)
            minutes = min(MINUTES_PER_DAY - begun, end - start)
            running[day % _cycle_days(schedule, wake)] += minutes
            start += minutes
    return max(running.values())


def _cycle_days(schedule: Cron, wake: Cron) -> int:
    """The days after which the schedules repeat: a week, or four years, in which each date has come."""
    return DAYS_PER_WEEK if schedule.is_weekly and wake.is_weekly else FOUR_YEARS


def _dates(schedule: Cron, wake: Cron) -> Iterator[datetime.date]:
    return (MONDAY + datetime.timedelta(days) for days in range(_cycle_days(schedule, wake)))


def find_skipped(cron: Cron, timezone: str, today: datetime.date) -> datetime.datetime | None:
    """The next local time of a schedule, within a year, that does not exist because clocks go forward over it.

    EventBridge Scheduler and Kubernetes both skip it:
    https://docs.aws.amazon.com/scheduler/latest/UserGuide/schedule-types.html, and github.com/robfig/cron v3.0.1
    `doc.go`.
    """
    zone = zoneinfo.ZoneInfo(timezone)
    for days in range(DAYS_PER_YEAR):
        midnight = datetime.datetime.combine(today + datetime.timedelta(days), datetime.time())
        for minute in cron.times_on(midnight) if _clocks_go_forward(midnight, zone) else ():
            local = midnight + datetime.timedelta(minutes=minute)
            if local.replace(tzinfo=zone).astimezone(datetime.UTC).astimezone(zone).replace(tzinfo=None) != local:
                return local
    return None


def _clocks_go_forward(midnight: datetime.datetime, zone: zoneinfo.ZoneInfo) -> bool:
    """Whether the day that begins then is shorter than 24 hours."""
    ends = [each.replace(tzinfo=zone).astimezone(datetime.UTC) for each in (midnight, midnight + ONE_DAY)]
    return ends[1] - ends[0] < ONE_DAY


def timezone_of(region: str) -> str:
    """The time zone of the place of an AWS region, by its IANA name; UTC where the place is not public."""
    zones = {row["region"]: row["timezone"] for row in tables.read("regions").rows}
    return zones.get(region) or "UTC"


def judge_timezone(name: str) -> tuple[str, str] | None:
    """The rule and the fix for a name that is not a time zone; None if it is one."""
    zones = zoneinfo.available_timezones() - NOT_EVERYWHERE
    if name in zones:
        return None
    cities = [
        zone for zone in sorted(zones) if zone.rpartition("/")[2].lower() == name.strip().lower().replace(" ", "_")
    ]
    if cities:
        return UNKNOWN_ZONE, f"Did you mean {cities[0]}?"
    return UNKNOWN_ZONE, did_you_mean(name, sorted(zones)) if near(name, zones) else "Write Europe/Paris, for example."
