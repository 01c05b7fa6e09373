"""Prices read from AWS override the tables, and are marked as such."""

import datetime

import pytest

from sharing.cost.bill import cost
from sharing.hardware import prices
from sharing.hardware.prices import FRESH_DAYS, Advice, Book, Price
from sharing.verdict.full import judge_fully
from tests.sharing.builders import TODAY, pool, replace, setup

BOOK = Book(
    region="us-east-1",
    date=TODAY - datetime.timedelta(days=3),
    on_demand={"g4dn.xlarge": 0.6, "t3.medium": 0.05},
    spot={"g4dn.xlarge": {"us-east-1a": 0.1, "us-east-1b": 0.3, "us-east-1c": 0.2}},
)


def test_a_price_book_overrides_the_tables() -> None:
    exact = Price(usd_per_hour=0.6, region="us-east-1", date="2026-11-18", note="", source="aws")
    assert prices.on_demand("g4dn.xlarge", "us-east-1", BOOK) == exact
    assert prices.system_node("t3.medium", "us-east-1", BOOK) == replace(exact, usd_per_hour=0.05)
    assert prices.spot("g4dn.xlarge", "us-east-1", BOOK) == replace(exact, usd_per_hour=0.3), "the most expensive zone"


def test_a_type_that_aws_does_not_list_has_the_tables_price_with_a_note() -> None:
    found = prices.on_demand("g5.xlarge", "us-east-1", BOOK)
    assert found == replace(prices.on_demand("g5.xlarge", "us-east-1"), note="not in AWS's list of the region")
    elsewhere = prices.on_demand("g5.xlarge", "eu-north-1", replace(BOOK, region="eu-north-1"))
    assert elsewhere.note == "not in AWS's list of the region; computed from the price of g5.12xlarge"
    assert prices.system_node("t3.large", "us-east-1", BOOK).note == "not in AWS's list of the region"
    assert prices.spot("g5.xlarge", "us-east-1", BOOK) is None, "AWS has no spot price, so it is not available as spot"
    empty = replace(BOOK, spot={"g4dn.xlarge": {}})
    assert prices.spot("g4dn.xlarge", "us-east-1", empty) is None


@pytest.mark.parametrize(
    ("name", "day", "found"),
    [
        # 64 % less than 0.6; the tables' price is of 2026-06-18
        ("g4dn.xlarge", "2026-08-10", (0.216, "2026-08-10", "estimate: the Spot Advisor's mean saving of 64 %", "aws")),
        ("g4dn.xlarge", "2026-06-17", (0.2158, "2026-06-18", "", "tables")),
        # Not in the advice; with advice, but no on-demand price; -62 % is no saving, and no table has a price.
        ("g4dn.2xlarge", "2026-08-10", (0.3269, "2026-06-18", "", "tables")),
        ("g6.xlarge", "2026-08-10", (0.4011, "2026-06-18", "", "tables")),
        ("p5.48xlarge", "2026-08-10", None),
        # On-demand prices without advice, with savings of 0 and of 1 %: 0.99 × 63.296; and one of 47 %: 0.53 × 0.9776.
        ("t3.medium", "2026-08-10", None),
        ("p5e.48xlarge", "2026-08-10", None),
        (
            "p5en.48xlarge",
            "2026-08-10",
            (62.66304, "2026-08-10", "estimate: the Spot Advisor's mean saving of 1 %", "aws"),
        ),
        (
            "g6.2xlarge",
            "2026-08-10",
            (0.51813, "2026-08-10", "estimate: the Spot Advisor's mean saving of 47 %", "aws"),
        ),
    ],
)
def test_without_the_prices_of_zones_the_newer_of_advice_and_table_counts(
    name: str, day: str, found: tuple[float, str, str, str] | None
) -> None:
    advice = {"g4dn.xlarge": Advice(1, 64), "p5.48xlarge": Advice(4, -62), "g6.xlarge": Advice(0, 50)}
    advice |= {"p5e.48xlarge": Advice(0, 0), "p5en.48xlarge": Advice(0, 1), "g6.2xlarge": Advice(0, 47)}
    on_demand = {**BOOK.on_demand, "p5.48xlarge": 55.04, "g6.2xlarge": 0.9776}
    on_demand |= {"p5e.48xlarge": 63.296, "p5en.48xlarge": 63.296}
    date = datetime.date.fromisoformat(day)
    book = replace(BOOK, on_demand=on_demand, spot={}, advice=advice, advised=date)
    seen = prices.spot(name, "us-east-1", book)
    assert (seen and (seen.usd_per_hour, seen.date, seen.note, seen.source)) == found


def test_the_bill_uses_the_price_book_and_shows_its_age() -> None:
    bill = cost(setup(book=BOOK))
    lines = {line.item: (line.usd_per_hour, line.note) for line in bill.lines}
    assert lines["GPU nodes 1 × g4dn.xlarge"] == (0.3, "spot; seen 2026-11-18")
    assert lines["system nodes 2 × t3.medium"] == (0.1, "on-demand")
    assert (bill.price_source, bill.price_date, bill.price_age_days) == ("aws", "2026-11-18", 3)
    assert bill.price_origin == "GPU prices of us-east-1, read from AWS on 2026-11-18, 3 days ago"
    on_demand = cost(setup(book=BOOK, pools=(pool(capacity="on-demand"),)))
    assert on_demand.lines[2].usd_per_hour == 0.6


@pytest.mark.parametrize(("days", "words"), [(0, "today"), (1, "yesterday"), (2, "2 days ago"), (-1, "today")])
def test_the_age_is_in_words(days: int, words: str) -> None:
    book = replace(BOOK, date=TODAY - datetime.timedelta(days=days))
    assert cost(setup(book=book)).price_origin.endswith(f", {words}")


@pytest.mark.parametrize(("days", "warned"), [(-1, False), (0, False), (FRESH_DAYS, False), (FRESH_DAYS + 1, True)])
def test_old_prices_get_a_warning(days: int, warned: bool) -> None:
    book = replace(BOOK, date=TODAY - datetime.timedelta(days=days))
    found = [str(one) for one in judge_fully(setup(book=book)).warnings]
    said = "--live-prices: 8 days is older than 7 days. Run `tandem prices --region us-east-1` again."
    assert (said in found) is warned
    assert bool(found) is warned


def test_a_budget_is_compared_with_the_price_book() -> None:
    # While nodes are replaced, six system nodes (two zones add two each) and two GPU nodes run. They have
    # 6 × 20 + 2 × 100 GiB at $0.08 per month (730 hours), which is $0.0351 per hour, and eight addresses at $0.005.
    # The control plane costs $0.10.
    # At the prices of the tables: 0.10 + 6 × 0.0416 + 2 × 0.2158 + 0.0351 + 0.04 = 0.8563.
    # At those of the book: 0.10 + 6 × 0.05 + 2 × 0.3 + 0.0351 + 0.04 = 1.0751.
    budget = setup(max_usd_per_hour=0.95)
    assert judge_fully(budget).problems == ()
    (problem,) = judge_fully(replace(budget, book=BOOK)).problems
    assert problem.path == "budget.max-usd-per-hour"
    assert "$1.0751 per hour" in problem.rule
