"""Whether a region offers a type: yes, no, or unknown. Expected values were copied by hand from AWS's pages."""

import pytest

from sharing import tables
from sharing.fit.slices import in_mig
from sharing.hardware import offerings, prices
from sharing.hardware.gpus import instance_types
from sharing.hardware.offerings import offered, sells_gpus, suggest_region
from sharing.hardware.prices import Book, Market
from sharing.modes.modes import Mig
from sharing.verdict.full import FullVerdict, judge_fully
from tests.sharing.builders import TODAY, pair, pool, read_figures, replace, setup

BOOK = Book(region="eu-west-1", date=TODAY, on_demand={}, spot={}, offered=frozenset({"g6.xlarge"}))
TYPES = [known.name for known in instance_types().values() if known.gpu.vendor == "nvidia"]
REGIONS = [row["region"] for row in tables.read("regions").rows]


def on(region: str, name: str, *, check_offers: bool = True, **more: object) -> FullVerdict:
    return judge_fully(setup(region=region, pools=(pool(name, check_offers=check_offers),), **more))


@pytest.mark.parametrize("row", read_figures("offers"), ids=lambda row: "-".join(row.values()))
def test_an_offer_is_known_or_not(row: dict[str, str]) -> None:
    assert offered(row["instance_type"], row["region"]) == row["offered"]


@pytest.mark.parametrize(
    ("word", "said"),
    [
        ("Frankfurt", "Frankfurt is eu-central-1."),
        ("frankfrut", "Frankfurt is eu-central-1."),
        ("us-esat-1", "Did you mean us-west-1, us-east-1 or us-west-2?"),
    ],
)
def test_an_unknown_region_gets_the_one_of_that_place_or_name(word: str, said: str) -> None:
    """Places: AWS, Regions and Availability Zones."""
    assert suggest_region(word) == said


def test_the_answer_of_aws_overrides_the_tables() -> None:
    assert [offered(name, "eu-west-1", BOOK) for name in ("g6.xlarge", "g4dn.xlarge")] == ["yes", "no"]
    silent = replace(BOOK, offered=None)
    assert [offered(name, "eu-west-1", silent) for name in ("g6.xlarge", "g4dn.xlarge")] == ["no", "yes"]


def test_the_answer_of_aws_is_dated() -> None:
    (problem,) = on("eu-west-1", "g4dn.xlarge", book=BOOK).problems
    assert problem.rule == "is not available in eu-west-1 as of 2026-11-21"
    assert problem.fix == "Write `g6.xlarge` (L4), or use eu-west-2, the nearest region that offers it."
    assert on("eu-west-1", "g6.xlarge", book=BOOK).problems == ()


@pytest.mark.parametrize(
    ("region", "name", "check_offers"), [("cn-north-1", "g4dn.metal", True), ("mx-central-1", "g4dn.xlarge", False)]
)
def test_an_unknown_or_unchecked_offer_refuses_nothing(region: str, name: str, check_offers: bool) -> None:
    found = on(region, name, check_offers=check_offers)
    assert found.problems == ()
    assert [warning.judged for warning in found.warnings] == [False]


def test_a_budget_is_not_compared_with_another_regions_prices() -> None:
    assert on("ca-central-1", "g4dn.xlarge", max_usd_per_hour=0.1).problems, "its own prices refuse it"
    found = on("sa-east-1", "g4dn.xlarge", max_usd_per_hour=0.1)
    assert found.problems == ()
    (warning,) = found.warnings
    assert str(warning) == (
        "budget.max-usd-per-hour: 0.1 is not checked: the price of g4dn.xlarge in sa-east-1 is unknown. "
        "Run `tandem prices --region sa-east-1`, then plan with `--live-prices`."
    )
    assert not warning.judged
    (china,) = on("cn-north-1", "g4dn.xlarge", max_usd_per_hour=9.0).warnings
    assert china.fix == "Compare it with AWS's own price list of cn-north-1."


@pytest.mark.parametrize("region", REGIONS)
def test_a_price_is_the_regions_own_or_is_marked(region: str) -> None:
    for name in TYPES:
        price = prices.on_demand(name, region)
        assert price.own == (price.region == region and not price.note.startswith("estimate")), name
        assert price.own or price.note, name
        seen = prices.spot(name, region)
        assert seen is None or seen.region == region, name


@pytest.mark.parametrize("row", read_figures("sizes"), ids=lambda row: "-".join(row.values()))
def test_prices_of_other_sizes_are_in_the_proportions_of_us_east_1(row: dict[str, str]) -> None:
    price = prices.on_demand(row["instance_type"], row["region"])
    assert price.usd_per_hour == pytest.approx(float(row["usd_per_hour"]), rel=0.0005)
    assert price.usd_per_hour == round(price.usd_per_hour, 5)
    assert price.note.startswith("computed from the price of ")


def test_the_nearest_region_belongs_to_the_same_partition() -> None:
    assert offerings.nearest("g6.xlarge", "ap-southeast-1") == "ap-southeast-5", "Singapore, Kuala Lumpur"
    assert offerings.nearest("g5.xlarge", "eu-central-2") == "eu-central-1", "Zurich, Frankfurt"
    assert offerings.nearest("p4d.24xlarge", "us-gov-east-1") == "us-gov-west-1"
    assert offerings.nearest("g6.xlarge", "cn-north-1") is None
    assert offerings.nearest("g4dn.xlarge", "us-iso-east-1") is None, "its location is unknown"


def test_the_table_names_known_regions_families_and_types() -> None:
    known = {offerings.family(name) for name in instance_types()}
    for row in tables.read("offerings").rows:
        assert row["region"] in REGIONS
        assert set(row["families"].split()) <= known
        assert set(row["lacks"].split() + row["unknown"].split()) <= set(instance_types())
    assert offerings.known_since("eu-west-1") == "2026-09-01"
    assert offerings.known_since("us-iso-east-1") == ""


def test_only_offered_types_have_a_price_in_the_region() -> None:
    for row in tables.read("regional_prices").rows:
        assert offered(row["instance_type"], row["region"]) != "no", row


def test_advice_names_no_type_that_the_region_does_not_offer() -> None:
    assert {one.instance_type for one in in_mig(pair(), "us-west-1")} == {"p5.48xlarge", "p5en.48xlarge"}
    (problem,) = Mig().check(instance_types()["g4dn.xlarge"].gpu, market=Market(region="af-south-1"))
    assert problem.fix == "Use another mode or region."
    for region in ("us-west-1", "af-south-1", "cn-north-1"):
        for name in ("g4dn.xlarge", "g4ad.xlarge", "m5.large"):
            for problem in on(region, name).problems:
                named = [known for known in TYPES if f"{known} " in f"{problem.fix.replace(',', ' ')} "]
                assert all(offered(known, region) != "no" for known in named), problem


def test_a_family_newer_than_the_table_can_be_read_from_aws(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(offerings, "_families", lambda: frozenset({"g4dn"}))
    (warning,) = on("eu-west-1", "g6.xlarge").warnings
    assert warning.fix == "Run `tandem prices --region eu-west-1`, then plan with `--live-prices`."


def test_a_region_sells_gpus_if_one_type_is_known_there() -> None:
    assert sells_gpus("af-south-1")  # g4dn alone, in EC2's answer of 2026-09-01
    assert not sells_gpus("xx-nowhere-1")
