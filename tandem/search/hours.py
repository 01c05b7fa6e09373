"""Hours in which GPU nodes run, as users write them: `8-20 Europe/Paris`, from Monday to Friday."""

import argparse
import re
from typing import Any

from sharing.schedule.week import judge_timezone, timezone_of
from sharing.sections.park import ParkSettings
from tandem.terminal import CallError, short

DAYTIME = "8-20"
"""The hours that stay when the nights are off."""
ALWAYS = "always"
HOURS_PER_DAY = 24
HOURS = re.compile(r"(\d{1,2})-(\d{1,2})(?:[ ,]+(\S+))?")


def names_timezone(text: str) -> bool:
    """Whether hours of that form have a time zone of their own."""
    given = HOURS.fullmatch(text.strip())
    return bool(given and given[3])


def hours_of(parsed: argparse.Namespace) -> str | None:
    """What `--hours` or `--nights-off` says; None without either."""
    return parsed.hours or (DAYTIME if parsed.nights_off else None)


def describe_hours(park: ParkSettings) -> str:
    """The hours that `read_hours` wrote, in words."""
    begin, end = (cron.split()[1] for cron in (park.wake, park.schedule))
    return f"{begin}:00 to {end}:00, Monday to Friday ({park.timezone})"


def read_hours(text: str, region: str) -> dict[str, dict[str, Any]]:
    """The section `park` of a stack that runs in these hours of working days; empty for one that always runs.

    Without a time zone, they are those of the place of the region. Raises `CallError`.
    """
    if text == ALWAYS:
        return {}
    given = HOURS.fullmatch(text.strip())
    if not given or max(int(given[1]), int(given[2])) >= HOURS_PER_DAY:
        raise CallError(f"the hours must be like 8-20 Europe/Paris, or {ALWAYS}, not '{short(text)}'.")
    begin, end = int(given[1]), int(given[2])
    if end <= begin:
        raise CallError(f"the hours {begin}-{end} must end later than they start. Make the second number larger.")
    timezone = given[3] or timezone_of(region)
    if wrong := judge_timezone(timezone):
        raise CallError(f"{wrong[0]} '{timezone}'. {wrong[1]}")
    return {"park": {"schedule": f"0 {end} * * MON-FRI", "wake": f"0 {begin} * * MON-FRI", "timezone": timezone}}
