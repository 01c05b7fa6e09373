"""What a region offers: yes, no, or unknown. Expected values are those of AWS's pages, typed by hand."""

import datetime
from dataclasses import replace

import pytest

from sharing import offerings, prices, tables
from sharing.assessment import Assessment, assess
from sharing.gpus import instance_types
from sharing.matrix import cells
from sharing.modes import Mig
from sharing.offerings import Offer, offered
from sharing.prices import Book
from sharing.slices import in_mig
from tests.sharing.builders import TODAY, pair, pool, setup

BOOK = Book(region="eu-west-1", date=TODAY, on_demand={}, spot={}, offered=frozenset({"g6.xlarge"}))
TYPES = [known.name for known in instance_types().values() if known.gpu.vendor == "nvidia"]
REGIONS = [row["region"] for row in tables.read("regions").rows]


def on(region: str, name: str, *, check_offers: bool = True, **more: object) -> Assessment:
    return assess(setup(region=region, pools=(pool(name, check_offers=check_offers),), **more))


@pytest.mark.parametrize(
    ("name", "region", "expected"),
    [
        # AWS, Amazon EC2 instance types by Region: "Accelerated Computing" of each region.
        ("g4dn.xlarge", "us-east-1", "yes"),
        ("g4dn.metal", "af-south-1", "yes"),
        ("g5.xlarge", "us-gov-east-1", "no"),
        ("g5.xlarge", "ap-southeast-1", "no"),
        ("g5.2xlarge", "us-west-1", "no"),
        ("g6.xlarge", "eu-west-1", "no"),
        ("g6.xlarge", "eusc-de-east-1", "yes"),
        ("g6e.xlarge", "ap-northeast-3", "yes"),
        ("p5.4xlarge", "cn-north-1", "no"),
        ("g4dn.xlarge", "cn-northwest-1", "yes"),
        ("p4de.24xlarge", "il-central-1", "yes"),
        ("p3dn.24xlarge", "eu-west-1", "yes"),
        # AWS What's New of 2026-06-18, 2026-07-15, 2026-08-06 and 2026-08-20.
        ("g7.2xlarge", "us-east-2", "yes"),
        ("g7e.2xlarge", "eu-central-1", "yes"),
        ("g7.2xlarge", "eu-south-2", "yes"),
        ("g7.2xlarge", "eu-west-1", "no"),
        # Regions without any GPU type.
        ("g4dn.xlarge", "mx-central-1", "no"),
        ("g7e.2xlarge", "mx-central-1", "no"),
        ("p6-b300.48xlarge", "ap-northeast-2", "yes"),
        # The family is there, but not in every size: skypilot-catalog v9/aws/vms.csv.
        ("p5.48xlarge", "us-west-1", "yes"),
        ("p5.4xlarge", "us-west-1", "no"),
        ("p5.4xlarge", "us-east-1", "yes"),
        ("g5g.metal", "ap-southeast-3", "yes"),
        ("g5g.xlarge", "ap-southeast-3", "no"),
        ("g4dn.metal", "cn-north-1", "unknown"),
        # No page tells about these regions.
        ("p5e.48xlarge", "us-isof-south-1", "unknown"),
        ("g4dn.xlarge", "us-iso-east-1", "unknown"),
        # Retired: only GovCloud (US-West) still lists P3.
        ("p3.2xlarge", "us-east-1", "no"),
        ("p3.2xlarge", "us-gov-west-1", "yes"),
        ("p3.2xlarge", "us-iso-east-1", "unknown"),
    ],
)
def test_an_offer_is_known_or_not(name: str, region: str, expected: Offer) -> None:
    assert offered(name, region) == expected


def test_a_family_that_no_region_lists_may_be_newer_than_the_list() -> None:
    assert offered("g9.xlarge", "us-east-1") == "unknown"


def test_what_aws_answered_stands_before_the_tables() -> None:
    assert [offered(name, "eu-west-1", BOOK) for name in ("g6.xlarge", "g4dn.xlarge")] == ["yes", "no"]
    silent = replace(BOOK, offered=None)
    assert [offered(name, "eu-west-1", silent) for name in ("g6.xlarge", "g4dn.xlarge")] == ["no", "yes"]


def test_p3_is_retired_and_p3dn_is_not() -> None:
    assert offerings.retired("p3.16xlarge") == datetime.date(2026, 5, 25)
    assert offerings.retired("p3dn.24xlarge") is None


def test_aws_s_own_answer_is_dated() -> None:
    (problem,) = on("eu-west-1", "g4dn.xlarge", book=BOOK).problems
    assert problem.rule == "eu-west-1 does not offer it as of 2026-11-21"
    assert problem.fix == "Write `g6.xlarge` (L4), or use eu-west-2, the nearest region that offers it."
    assert on("eu-west-1", "g6.xlarge", book=BOOK).problems == ()


@pytest.mark.parametrize(
    ("region", "name", "check_offers"), [("cn-north-1", "g4dn.metal", True), ("mx-central-1", "g4dn.xlarge", False)]
)
def test_what_is_unknown_or_not_checked_judges_nothing(region: str, name: str, check_offers: bool) -> None:
    found = on(region, name, check_offers=check_offers)
    assert found.problems == ()
    assert [warning.judged for warning in found.warnings] == [False]


def test_an_unknown_region_is_one_warning() -> None:
    (warning,) = on("xx-north-9", "g4dn.xlarge").warnings
    assert (warning.path, warning.judged) == ("aws:region", False)


def test_a_budget_is_not_judged_by_another_region_s_prices() -> None:
    assert on("ca-central-1", "g4dn.xlarge", max_usd_per_hour=0.1).problems, "its own prices refuse it"
    found = on("sa-east-1", "g4dn.xlarge", max_usd_per_hour=0.1)
    assert found.problems == ()
    (warning,) = found.warnings
    assert str(warning) == (
        "budget.max-usd-per-hour: is not judged: the price of g4dn.xlarge in sa-east-1 is unknown (got 0.1). "
        "Run `tandem prices --region sa-east-1`, then plan with `--live-prices`."
    )
    assert not warning.judged
    assert on("sa-east-1", "g4dn.xlarge").warnings == (), "without a budget there is nothing to judge"
    (china,) = on("cn-north-1", "g4dn.xlarge", max_usd_per_hour=9.0).warnings
    assert china.fix == "Compare it with AWS's own price list of cn-north-1."
    read = Book(region="sa-east-1", date=TODAY, on_demand={"g4dn.xlarge": 0.894}, spot={})
    assert [problem.path for problem in on("sa-east-1", "g4dn.xlarge", max_usd_per_hour=0.1, book=read).problems] == [
        "budget.max-usd-per-hour"
    ]


@pytest.mark.parametrize("region", REGIONS)
def test_a_price_is_the_region_s_own_or_says_that_it_is_not(region: str) -> None:
    for name in TYPES:
        price = prices.on_demand(name, region)
        assert price.own == (price.region == region and not price.note.startswith("estimate")), name
        assert price.own or price.note, name
        seen = prices.spot(name, region)
        assert seen is None or seen.region == region, name


@pytest.mark.parametrize(
    ("name", "region", "usd"),
    [
        # AWS's price list, from skypilot-catalog v8/aws/vms.csv@00148f2 and v9/aws/vms.csv@3e9a175: sizes that are not
        # in `regional_prices.csv`.
        ("g4dn.xlarge", "eu-west-3", 0.615),
        ("g4dn.xlarge", "me-south-1", 0.645),
        ("g4dn.xlarge", "us-west-1", 0.631),
        ("g5g.xlarge", "ap-northeast-1", 0.5669),
        ("g6.16xlarge", "eu-central-1", 4.24769),
        ("g6.24xlarge", "ap-south-1", 8.01555),
        ("g6e.4xlarge", "eu-north-1", 3.18666),
        ("g6f.large", "eu-west-2", 0.25642),
        ("gr6.4xlarge", "eu-west-3", 1.9538),
        ("p5.4xlarge", "ap-southeast-3", 9.4944),
    ],
)
def test_other_sizes_cost_in_the_proportions_of_us_east_1(name: str, region: str, usd: float) -> None:
    price = prices.on_demand(name, region)
    assert price.usd_per_hour == pytest.approx(usd, rel=0.0005)
    assert price.note.startswith("computed from the price of ")


def test_a_size_with_a_price_of_its_own_has_that() -> None:
    price = prices.on_demand("p5.48xlarge", "us-west-1")
    assert (price.usd_per_hour, price.note, price.date) == (68.8, "", "2026-01-20")


def test_the_nearest_region_belongs_to_the_same_partition() -> None:
    assert offerings.nearest("g6.xlarge", "ap-southeast-1") == "ap-southeast-5", "Singapore, Kuala Lumpur"
    assert offerings.nearest("g5.xlarge", "eu-central-2") == "eu-central-1", "Zurich, Frankfurt"
    assert offerings.nearest("p4d.24xlarge", "us-gov-east-1") == "us-gov-west-1"
    assert offerings.nearest("g6.xlarge", "cn-north-1") is None
    assert offerings.nearest("g4dn.xlarge", "us-iso-east-1") is None, "nobody knows where it is"


def test_each_region_has_a_partition() -> None:
    found = {offerings.partition(region) for region in REGIONS}
    assert found == {"", "cn-", "us-gov-", "us-iso-", "us-isob-", "eu-isoe-", "us-isof-", "eusc-"}


def test_the_table_names_known_regions_families_and_types() -> None:
    known = {offerings.family(name) for name in instance_types()}
    for row in tables.read("offerings").rows:
        assert row["region"] in REGIONS
        assert set(row["families"].split()) <= known
        assert set(row["lacks"].split() + row["unknown"].split()) <= set(instance_types())
    assert offerings.known_since("eu-west-1") == "2026-09-01"
    assert offerings.known_since("us-iso-east-1") == ""


def test_only_offered_types_have_a_price_of_the_region() -> None:
    for row in tables.read("regional_prices").rows:
        assert offered(row["instance_type"], row["region"]) != "no", row


def test_advice_names_no_type_that_the_region_does_not_offer() -> None:
    assert {choice.instance_type for choice in in_mig(pair(), "us-west-1")} == {"p5.48xlarge", "p5en.48xlarge"}
    (problem,) = Mig().check(instance_types()["g4dn.xlarge"].gpu, region="af-south-1")
    assert problem.fix == "af-south-1 has no such type: use another mode."
    for region in ("us-west-1", "af-south-1", "cn-north-1"):
        for name in ("g4dn.xlarge", "g4ad.xlarge", "m5.large"):
            for problem in on(region, name).problems:
                named = [known for known in TYPES if f"{known} " in f"{problem.fix.replace(',', ' ')} "]
                assert all(offered(known, region) != "no" for known in named), problem


def test_the_matrix_refuses_what_the_region_does_not_offer() -> None:
    [cell] = cells(setup(region="eu-west-1"), types=["g6.xlarge"], ways=["timeslice"], provisioners=["node-group"])
    assert cell.broken == "the region offers the types"
    planned = cells(setup(region="af-south-1"), ways=["timeslice"], provisioners=["node-group"])
    assert {cell.instance.name.partition(".")[0] for cell in planned if cell.plans} == {"g4dn"}


def test_a_family_newer_than_the_table_can_be_read_from_aws(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(offerings, "_families", lambda: frozenset({"g4dn"}))
    (warning,) = on("eu-west-1", "g6.xlarge").warnings
    assert warning.fix == "Run `tandem prices --region eu-west-1`, then plan with `--live-prices`."
