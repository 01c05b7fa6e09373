"""The hours of a week without GPU nodes, worked out by hand, and the schedules that cannot work."""

import datetime
import zoneinfo

import pytest

from sharing import tables
from sharing.schedule.cron import read_cron
from sharing.schedule.week import Timetable, find_conflicts, find_skipped, judge_timezone, timezone_of

NIGHTS = "0 20 * * MON-FRI", "0 8 * * MON-FRI"
MONTHS_OF_FOUR_YEARS, WEEKS_OF_FOUR_YEARS = 48, 1461 / 7


def park(schedule: str, wake: str, timezone: str = "UTC") -> Timetable:
    return Timetable(schedule=read_cron(schedule), wake=read_cron(wake), timezone=timezone)


@pytest.mark.parametrize(
    ("schedule", "wake", "hours"),
    [
        (*NIGHTS, 4 * 12 + 60),  # four nights, and from Friday 20:00 to Monday 08:00
        ("0 20 * * *", "0 8 * * *", 7 * 12),
        ("0 20 * * *", "0 8 * * MON-FRI", 5 * 12 + 2 * 24),  # Saturday and Sunday have no morning
        ("0 8 * * MON-FRI", "0 20 * * MON-FRI", 5 * 12),  # parked by day
        ("0 20 * * FRI", "0 8 * * *", 12),  # mornings of a stack that runs change nothing
        ("0 18-23 * * *", "0 6 * * *", 7 * 12),  # nor do evenings of a parked one
        ("0 20 * * SUN", "30 7 * * MON", 11.5),  # over the end of the week
        ("0 8,12 * * *", "0 10,13 * * *", 7 * 3),  # twice a day
        ("0 20 1 * *", "0 8 2 * *", 12 * MONTHS_OF_FOUR_YEARS / WEEKS_OF_FOUR_YEARS),
        ("0 0 1 8 *", "0 0 1 9 *", 31 * 24 * 4 / WEEKS_OF_FOUR_YEARS),
        ("0 0 29 2 *", "0 0 1 3 *", 24 / WEEKS_OF_FOUR_YEARS),  # once in four years
        ("0 0 1 12 *", "0 0 1 2 *", 62 * 24 * 4 / WEEKS_OF_FOUR_YEARS),  # over the end of the year
    ],
)
def test_the_parked_hours_of_a_week(schedule: str, wake: str, hours: float) -> None:
    found = park(schedule, wake)
    assert found.parked_hours == pytest.approx(hours)
    assert found.running_hours == pytest.approx(168 - hours)


@pytest.mark.parametrize(
    ("schedule", "wake", "conflicts"),
    [
        (*NIGHTS, []),
        ("0 8 * * *", "0 8 * * *", [("wake", "has a time that `schedule` has, too: Monday 08:00")]),
        ("0 8 * * *", "0 8 * * SUN", [("wake", "has a time that `schedule` has, too: Sunday 08:00")]),
        ("5 9 31 * *", "5 9 1-31 12 *", [("wake", "has a time that `schedule` has, too: Tuesday 09:05")]),
        (
            "0 20 * * *",
            "29 20 * * *",
            [("wake", "lets the stack park for at most 29 minutes; the minimum is 30")],
        ),
        ("0 20 * * *", "30 20 * * *", []),
        ("0 20,22 * * *", "5 20,23 * * *", []),  # parks for five minutes, but also for an hour
        (
            "0 20 * * *",
            "59 19 * * *",
            [("schedule", "lets the stack run for at most 1 minute; the minimum is 30")],
        ),
        (
            "*/2 * * * *",
            "1-59/2 * * * *",
            [
                ("wake", "lets the stack park for at most 1 minute; the minimum is 30"),
                ("schedule", "lets the stack run for at most 1 minute; the minimum is 30"),
            ],
        ),
    ],
)
def test_schedules_need_time_to_park_and_to_run(schedule: str, wake: str, conflicts: list[tuple[str, str]]) -> None:
    assert list(find_conflicts(read_cron(schedule), read_cron(wake))) == conflicts


def test_a_park_that_never_runs_cannot_be_made() -> None:
    with pytest.raises(
        ValueError, match=r"^Timetable\.schedule lets the stack run for at most 10 minutes; the minimum is 30\.$"
    ):
        park("10 8 * * *", "0 8 * * *")


@pytest.mark.parametrize(
    ("name", "fix"),
    [
        ("Europe/Pari", "Did you mean Europe/Paris"),
        ("europe/paris", "Did you mean Europe/Paris?"),
        ("paris", "Did you mean Europe/Paris?"),
        (" New York ", "Did you mean America/New_York?"),
        ("Mars", "Write Europe/Paris, for example."),
        ("../etc/passwd", "Write Europe/Paris, for example."),
    ],
)
def test_a_wrong_time_zone_is_answered_with_one_that_may_be_meant(name: str, fix: str) -> None:
    wrong = judge_timezone(name)
    assert wrong is not None
    assert wrong[0] == "unknown time zone"
    assert wrong[1].startswith(fix)


@pytest.mark.parametrize("name", ["Factory", "build/etc/localtime", "localtime"])
def test_a_file_beside_the_time_zones_is_none_of_them(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(zoneinfo, "available_timezones", lambda: {name, "UTC"})
    assert judge_timezone(name) == ("unknown time zone", "Write Europe/Paris, for example.")
    assert judge_timezone("UTC") is None


@pytest.mark.real_world(
    behaviour="A time that does not exist because clocks go forward is skipped. One that comes twice counts once in "
    "EventBridge Scheduler, and twice in a CronJob, where the second scaling changes nothing",
    source="EventBridge Scheduler User Guide, Schedule types, Daylight savings time; robfig/cron v3, spec_test.go",
)
@pytest.mark.parametrize(
    ("schedule", "timezone", "skipped"),
    [
        # In 2027, clocks go forward on 28 March in the EU and on 14 March in the USA, at 02:00; in Chile at midnight
        # on 5 September.
        ("30 2 * * *", "Europe/Paris", datetime.datetime(2027, 3, 28, 2, 30)),
        ("0 2 * * SUN", "America/New_York", datetime.datetime(2027, 3, 14, 2, 0)),
        ("15 0 * * *", "America/Santiago", datetime.datetime(2027, 9, 5, 0, 15)),
        ("59 1 * * *", "Europe/Paris", None),
        ("0 3 * * *", "Europe/Paris", None),
        ("30 2 * * MON-SAT", "Europe/Paris", None),
        ("30 2 * * *", "UTC", None),
        ("0 1-4 * * *", "Europe/Paris", datetime.datetime(2027, 3, 28, 2, 0)),
    ],
)
def test_a_time_that_clocks_skip_within_a_year_is_found(
    schedule: str, timezone: str, skipped: datetime.datetime | None
) -> None:
    assert find_skipped(read_cron(schedule), timezone, datetime.date(2026, 11, 21)) == skipped


@pytest.mark.parametrize(("today", "year"), [((2026, 3, 28), 2026), ((2026, 3, 29), 2026), ((2026, 3, 30), 2027)])
def test_the_search_for_a_skipped_time_covers_a_year_from_today(today: tuple[int, int, int], year: int) -> None:
    found = find_skipped(read_cron("30 2 * * *"), "Europe/Paris", datetime.date(*today))
    assert found is not None
    assert found.year == year


@pytest.mark.parametrize(
    ("schedule", "wake", "hours"),
    [
        (*NIGHTS, 12),
        ("0 2 * * *", "0 8 * * *", 18),
        ("30 12,20 * * *", "0 8,14 * * *", 4.5 + 6.5),
        ("0 22 1 * *", "0 21 1 * *", 1),
    ],
)
def test_the_hours_of_the_day_on_which_it_runs_longest(schedule: str, wake: str, hours: float) -> None:
    assert park(schedule, wake).busiest_day_hours == hours


@pytest.mark.parametrize(
    ("region", "winter", "summer"),
    [("eu-central-1", 1, 2), ("us-east-1", -5, -4), ("ap-south-1", 5.5, 5.5), ("us-iso-east-1", 0, 0), ("none", 0, 0)],
)
def test_a_region_has_the_time_of_its_place(region: str, winter: float, summer: float) -> None:
    """Frankfurt, Virginia, Mumbai; of a place that is not public, and of no region, UTC."""
    zone = zoneinfo.ZoneInfo(timezone_of(region))
    offsets = [datetime.datetime(2026, month, 15, tzinfo=zone).utcoffset() for month in (1, 7)]
    assert offsets == [datetime.timedelta(hours=hours) for hours in (winter, summer)]


def test_every_place_has_a_time_near_that_of_its_sun() -> None:
    """The sun is in the south four minutes later for each degree to the west. No clock of a region is off by three
    hours; China's farthest place is off by one.
    """
    for row in tables.read("regions").rows:
        assert bool(row["timezone"]) is bool(row["longitude"]), row
        if row["longitude"]:
            offset = datetime.datetime(2026, 1, 15, tzinfo=zoneinfo.ZoneInfo(row["timezone"])).utcoffset()
            assert offset is not None
            assert abs(offset.total_seconds() / 3600 - float(row["longitude"]) / 15) < 2.5, row
