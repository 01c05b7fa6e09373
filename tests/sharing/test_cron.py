"""Cron text: typed tables, and cronsim, the library of Healthchecks and Home Assistant, as a second opinion."""

import datetime
from itertools import islice

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from sharing.schedule.cron import CronError, read_cron
from tests.sharing.builders import read_cases

TABLE = read_cases("cron")
START = datetime.datetime(2026, 11, 21, 23, 59)


@pytest.mark.real_world(
    behaviour="In EventBridge Scheduler, one of day-of-month and weekday is `?`; weekdays have no steps.",
    source="EventBridge Scheduler User Guide, Schedule types, Cron-based schedules",
)
@pytest.mark.parametrize("row", TABLE["schedules"], ids=lambda row: row["cron"])
def test_a_schedule_is_written_for_eventbridge_and_for_a_cron_job(row: dict[str, str]) -> None:
    cron = read_cron(row["cron"])
    assert cron.for_eventbridge() == row["eventbridge"]
    assert cron.for_cron_job() == row["job"]


@pytest.mark.parametrize("row", TABLE["refused"], ids=lambda row: row["cron"] or "nothing")
def test_other_text_is_refused_with_a_rule_and_a_fix(row: dict[str, str]) -> None:
    with pytest.raises(CronError) as refused:
        read_cron(row["cron"])
    assert refused.value.rule.startswith(row["rule"])
    assert refused.value.fix("0 20 * * MON-FRI").startswith(row["fix"])


def field(least: int, most: int) -> st.SearchStrategy[str]:
    """Values, ranges and steps of one field."""
    value = st.integers(least, most)
    # cronsim 2.8 takes 1-1/2 as 1/2, which crontab(5) does not have.
    ends = st.tuples(value, value).filter(lambda ends: ends[0] != ends[1])
    span = ends.map(lambda ends: f"{min(ends)}-{max(ends)}")
    step = st.tuples(st.one_of(st.just("*"), span), st.integers(1, 20)).map(lambda pair: f"{pair[0]}/{pair[1]}")
    return st.lists(st.one_of(value.map(str), span, step), min_size=1, max_size=3).map(",".join)


@given(field(0, 59), field(0, 23), field(1, 31), st.one_of(st.just("*"), field(1, 12)), field(0, 7), st.booleans())
def test_cronsim_finds_the_same_times(
    minute: str, hour: str, day: str, month: str, weekday: str, by_weekday: bool
) -> None:
    import cronsim

    text = f"{minute} {hour} * {month} {weekday}" if by_weekday else f"{minute} {hour} {day} {month} *"
    try:
        cron = read_cron(text)
    except CronError:
        with pytest.raises(cronsim.CronSimError):
            cronsim.CronSim(text, START)
        return
    times = list(islice(cronsim.CronSim(text, START), 40))
    assume(times)
    dates = [START.date() + datetime.timedelta(days) for days in range((times[-1] - START).days + 2)]
    found = [
        datetime.datetime.combine(date, datetime.time()) + datetime.timedelta(minutes=minute)
        for date in dates
        for minute in cron.times_on(date)
    ]
    assert [time for time in found if time > START][: len(times)] == times
    assert read_cron(cron.for_cron_job()) == cron
