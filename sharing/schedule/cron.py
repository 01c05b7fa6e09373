"""Cron text with five fields: what it means, and the same schedule for EventBridge Scheduler and for a CronJob.

It accepts what cron(5), Kubernetes and EventBridge all understand in the same way. The three differ in the number of
Sunday, in steps and in what two restricted days mean, so that values are written again for each, weekdays as names:
https://docs.aws.amazon.com/scheduler/latest/UserGuide/schedule-types.html and github.com/robfig/cron v3.0.1, which
Kubernetes uses, `parser.go`.
"""

import datetime
import re
from dataclasses import dataclass

from sharing.printable import counted
from sharing.problems import runs

WEEKDAYS = ("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT")
MONTHS = ("JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC")
SHORT_MONTHS = {2: 29, 4: 30, 6: 30, 9: 30, 11: 30}
"""The days of the months that have no day 31, in a leap year."""
MINUTES_PER_HOUR = 60


class CronError(ValueError):
    """Text that is not a schedule: the rule that it breaks, and perhaps a fix."""

    def __init__(self, rule: str, fix: str = "") -> None:
        super().__init__(rule, fix)
        self.rule = rule
        self._fix = fix

    def fix(self, example: str) -> str:
        """What to write: an example of this schedule if the text has no closer fix."""
        return self._fix or f'Write "{example}", for example.'


@dataclass(frozen=True, slots=True)
class Field:
    """One of the five fields."""

    name: str
    least: int
    most: int
    names: tuple[str, ...] = ()
    """Names of the values, from `least` on."""

    @property
    def every(self) -> frozenset[int]:
        """What `*` means."""
        return frozenset(range(self.least, self.most + 1))

    @property
    def values(self) -> str:
        """The values that it takes, as messages name them."""
        named = f" or {self.names[0]} to {self.names[-1]}" if self.names else ""
        return f"{self.least} to {self.most}{named}"


MINUTE = Field("minute", 0, 59)
HOUR = Field("hour", 0, 23)
DAY = Field("day of month", 1, 31)
MONTH = Field("month", 1, 12, MONTHS)
WEEKDAY = Field("weekday", 0, 7, WEEKDAYS)
FIELDS = (MINUTE, HOUR, DAY, MONTH, WEEKDAY)
EVERY_WEEKDAY = frozenset(range(len(WEEKDAYS)))
"""Sunday is 0 here; cron text may also call it 7."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cron:
    """A schedule: its values of each field."""

    minutes: frozenset[int]
    hours: frozenset[int]
    days: frozenset[int]
    months: frozenset[int]
    weekdays: frozenset[int]
    """0 is Sunday, and 7 does not occur."""

    @property
    def is_weekly(self) -> bool:
        """Whether all weeks are alike."""
        return self.days == DAY.every and self.months == MONTH.every

    def times_on(self, date: datetime.date) -> list[int]:
        """The times at which it comes on a day, in minutes after midnight."""
        weekday = date.isoweekday() % len(WEEKDAYS)
        if not (date.day in self.days and date.month in self.months and weekday in self.weekdays):
            return []
        return sorted(hour * MINUTES_PER_HOUR + minute for hour in self.hours for minute in self.minutes)

    def for_eventbridge(self) -> str:
        """The same for EventBridge Scheduler: six fields, of which one of the two for days must be `?`."""
        minute, hour, day, month, weekday = self._written()
        day, weekday = (day, "?") if weekday == "*" else ("?", weekday)
        return f"cron({minute} {hour} {day} {month} {weekday} *)"

    def for_cron_job(self) -> str:
        """The same for a Kubernetes CronJob, to which Sunday is 0 and never 7."""
        return " ".join(self._written())

    def _written(self) -> list[str]:
        """The fields as lists without steps: EventBridge takes none for weekdays."""
        numbers = ((self.minutes, MINUTE), (self.hours, HOUR), (self.days, DAY), (self.months, MONTH))
        weekday = "*" if self.weekdays == EVERY_WEEKDAY else runs(self.weekdays, WEEKDAYS)
        return [*("*" if values == field.every else runs(values) for values, field in numbers), weekday]


def read_cron(text: str) -> Cron:
    """The schedule that cron text means. Raises `CronError`."""
    parts = text.split()
    if len(parts) != len(FIELDS):
        names = ", ".join(field.name for field in FIELDS)
        raise CronError(f"has {counted(len(parts), 'field')}, but cron text has five: {names}")
    minutes, hours, days, months, weekdays = (_read(part, field) for part, field in zip(parts, FIELDS, strict=True))
    if days != DAY.every and weekdays != EVERY_WEEKDAY:
        # crontab(5): the command runs when either matches. EventBridge takes only one of the two.
        rule = (
            "has a day of month and a weekday: cron takes days that match either, and EventBridge only one of the two"
        )
        raise CronError(rule, "Write `*` for one of them.")
    if min(days) > max(SHORT_MONTHS.get(month, DAY.most) for month in months):
        raise CronError("is never due: no such month has such a day", "Write another day or month.")
    return Cron(minutes=minutes, hours=hours, days=days, months=months, weekdays=weekdays)


def _read(part: str, field: Field) -> frozenset[int]:
    """The values of a field: a list of values, ranges and steps."""
    values = frozenset(value for item in part.split(",") for value in _read_item(item, field))
    return frozenset(value % len(WEEKDAYS) for value in values) if field is WEEKDAY else values


def _read_item(item: str, field: Field) -> range:
    parts = re.fullmatch(r"(?:\*|([0-9A-Za-z]+)(?:-([0-9A-Za-z]+))?)(?:/([0-9]{1,2}))?", item)
    if parts is None:
        raise _unknown(item, field)
    first, last, step = parts[1], parts[2], int(parts[3] or 1)
    if not step:
        raise CronError(f"has a step of 0 in its {field.name}", "Write a step of at least 1, or none.")
    if first is None:
        return range(field.least, field.most + 1, step)
    low = _read_value(first, field)
    if last is None:
        if parts[3]:
            # Kubernetes takes 5/15 as 5-59/15; cron(5) has no such step.
            raise CronError(f"has a step after a single {field.name}", f"Write `{first}-{field.most}/{step}`.")
        return range(low, low + 1)
    high = _read_value(last, field)
    if field is WEEKDAY and high == field.least < low:
        high = field.most  # FRI-SUN
    if high < low:
        most, least = (field.names[-1], field.names[0]) if last.isalpha() else (field.most, field.least)
        fix = f"Write `{first}-{most},{least}-{last}`."
        raise CronError(f"has the range {item} in its {field.name}, which goes down", fix)
    return range(low, high + 1, step)


def _read_value(text: str, field: Field) -> int:
    """A number or a name."""
    if text.upper() in field.names:
        return field.names.index(text.upper()) + field.least
    if not re.fullmatch("[0-9]{1,2}", text) or int(text) not in field.every:
        raise _unknown(text, field)
    return int(text)


def _unknown(text: str, field: Field) -> CronError:
    rule = f"has '{text}' as its {field.name}, which takes {field.values}"
    return CronError(rule, "Write `*` for any." if text == "?" else "")
