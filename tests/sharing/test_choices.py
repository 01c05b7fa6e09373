"""The cheapest setups, ranked by price: none that fits is left out, and if none fits, the nearest miss is shown."""

from collections.abc import Iterator, Sequence
from functools import cache
from itertools import islice, pairwise

import pytest

from sharing import tables
from sharing.hardware.gpus import instance_types
from sharing.hardware.offerings import family, regions_beside
from sharing.models.share import Share
from sharing.modes.modes import TimeSlicing
from sharing.sections.config import StackConfig
from sharing.sections.park import ParkSettings
from sharing.sections.pools import Capacity
from sharing.verdict import choices
from sharing.verdict.choices import Choice, Choices, choose
from sharing.verdict.matrix import trials
from tandem.search import base_stack
from tests.conftest import Golden
from tests.sharing.builders import TODAY, instance, replace, served, setup, tenants, weighing

PRICES = ("gpu_prices", "regional_prices")
ANY: tuple[Capacity, ...] = ("spot", "on-demand")
TWO = setup(models=tenants(weighing(6_000), weighing(5_000)))


PARIS = replace(TWO, region="eu-west-3")
"""A region for which the tables have no spot price and no price of G5."""
WANTED: dict[str, tuple[StackConfig, Sequence[Capacity]]] = {
    "two-models": (TWO, ANY),
    "as-spot": (TWO, ["spot"]),
    "on-demand-in-zurich": (replace(TWO, region="eu-central-2"), ["on-demand"]),
    "in-paris": (PARIS, ANY),
    "in-paris-as-spot": (PARIS, ["spot"]),
    "in-paris-under-a-budget": (replace(PARIS, max_usd_per_hour=2.0), ANY),
    "in-paris-under-a-small-budget": (replace(PARIS, max_usd_per_hour=0.41), ANY),
    "too-large": (setup(models=tenants(weighing(400_000), weighing(1_000))), ANY),
    "both-too-large": (setup(models=tenants(weighing(400_000), weighing(500_000))), ["spot"]),
    "not-loaded": (setup(models=tenants("llama3.2-vision:11b")), ["spot"]),
    "unknown-version": (replace(TWO, kubernetes="1.2"), ["spot"]),
}
FIRST, LAST = 8, 2
SOME = (
    *("g4dn.xlarge", "g4dn.12xlarge", "g5.xlarge", "g6.xlarge", "g6.12xlarge", "g6e.xlarge", "g6f.large"),
    *("g7e.2xlarge", "p4d.24xlarge"),
)


@pytest.fixture(autouse=True)
def fewer_types(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """One type of most kinds is enough for the quick tests, and takes a fifth of the time."""
    if not request.node.get_closest_marker("slow"):
        monkeypatch.setattr(choices, "instance_types", lambda: {name: instance(name) for name in SOME})


def shown(found: Choices) -> Iterator[str]:
    """The first and the last of the setups found, and their number."""
    for kind in ("fitting", "over_budget", "not_judged"):
        setups: tuple[Choice, ...] = getattr(found, kind)
        yield f"{kind}: {len(setups)}"
        for choice in (*setups[:FIRST], *setups[FIRST:][-LAST:]):
            nodes, *words = row(choice)
            facts = [choice.isolation, f"${choice.bill.usd_per_hour:.4f}", f"{choice.tightest.room:,.0f} MiB left"]
            yield f"  {nodes} × {' '.join(words)}: {', '.join([*facts, *choice.doubts])}"
    yield f"refused: {len(found.refused)}"
    yield f"everywhere: {found.refusal}"
    yield f"nearest: {found.nearest_miss}"


@pytest.mark.slow
@pytest.mark.parametrize("name", WANTED)
def test_choices_match_the_golden(name: str, golden: Golden) -> None:
    """`--regen` writes `tests/golden/choices`."""
    golden(f"choices/{name}.txt", "\n".join(shown(choose(*WANTED[name]))) + "\n")


def row(choice: Choice) -> tuple[int, str, str, str]:
    cell = choice.cell
    return cell.nodes, cell.instance.name, cell.way, cell.pool.capacity


@cache
def of_two_on_spot() -> Choices:
    return choose(TWO, ["spot"])


@cache
def of_sizes_on_spot() -> Choices:
    return choose(SIZES, ["spot"])


def test_no_type_that_holds_both_models_is_missing() -> None:
    """By hand: time-slicing needs both on one GPU; `exclusive` needs a GPU that holds the larger one."""
    found = {row(choice)[1:3] for choice in choose(TWO, ["on-demand"]).fitting}
    for known in instance_types().values():
        usable = known.gpu.vendor == "nvidia" and not known.gpu.min_driver
        if usable and known.name in {"g4dn.xlarge", "g5.xlarge", "g6.xlarge", "g6e.xlarge", "p4d.24xlarge"}:
            assert ((known.name, "timeslice") in found) == (known.gpu.cuda_mib >= 11_000)
            assert ((known.name, "exclusive") in found) == (known.gpu.cuda_mib >= 6_000)


def test_models_are_tried_on_several_nodes_with_fewer_shares_each() -> None:
    """Four models of 7,000 MiB: four on an L40S (45,460), two on a T4 (15,110)."""
    four = setup(models=tenants(*[weighing(7_000)] * 4))
    rows = {row(choice)[:3] for choice in choose(four, ["on-demand"]).fitting}
    assert {(1, "g6e.xlarge", "timeslice"), (2, "g4dn.xlarge", "timeslice"), (4, "g4dn.xlarge", "exclusive")} <= rows
    assert not {(1, "g4dn.xlarge", "timeslice"), (3, "g4dn.xlarge", "timeslice")} & rows
    [one] = [tried.pools[0] for tried in islice(trials(four, instance("g6e.xlarge"), "timeslice", "node-group"), 1)]
    assert one.sharing == TimeSlicing(replicas=4)


@pytest.mark.parametrize(("capacities", "offered"), [(ANY, {"on-demand"}), (["spot"], {"spot"})])
def test_without_a_spot_price_a_setup_is_offered_once(capacities: Sequence[Capacity], offered: set[str]) -> None:
    found = choose(PARIS, capacities, every=False).fitting
    assert {row(choice)[3] for choice in found} == offered
    said = "No spot price is known: the price is on-demand"
    assert all((said in choice.doubts) is (offered == {"spot"}) for choice in found)


def test_many_models_get_no_more_shares_than_mps_has() -> None:
    """48 clients of one GPU (k8s-device-plugin, mps/device.go)."""
    many = setup(models=tenants(*[weighing(500)] * 60))
    for tried in trials(many, instance("g6e.xlarge"), "mps", "node-group"):
        [here] = tried.pools
        assert (here.sharing.replicas or 0) <= 48
        assert here.total_shares >= 60


def test_setups_below_the_least_speed_are_kept_apart_the_fastest_first() -> None:
    found = choose(TWO, ["spot"], "per-token", 40.0)
    slow, fast = ([choice.cell.tokens_per_s for choice in some] for some in (found.too_slow, found.fitting))
    assert min(fast) >= 40 > max(slow)
    assert slow == sorted(slow, reverse=True)
    prices = [usd.value for choice in found.fitting if (usd := choice.usd_per_million_tokens())]
    assert len(prices) == len(fast)
    assert prices == sorted(prices)


def test_types_that_only_the_region_lacks_are_offered_elsewhere() -> None:
    """Calgary has no type of the catalogue (AWS, EC2 instance types by region), and a T4 holds both models."""
    found = choose(replace(TWO, region="ca-west-1"), ["on-demand"])
    assert not found.fitting
    assert "g4dn.xlarge" in found.offered_elsewhere
    assert "g4dn.xlarge" not in of_two_on_spot().offered_elsewhere


def test_of_two_at_the_same_price_the_faster_is_first_and_the_one_without_a_warning_proposed() -> None:
    """MPS is faster than time-slicing, and not officially supported (ollama#9765)."""
    found = of_two_on_spot()
    assert [choice.cell.way for choice in found.fitting[:2]] == ["mps", "timeslice"]
    assert found.fitting[found.proposed].cell.way == "timeslice"
    # At the same price, MPS has a limit for each model.
    assert found.limited is found.fitting[0]
    assert choose(TWO, ["spot"], "tokens").limited is None
    assert choose(TWO, ["spot"], isolated=("memory",)).limited is None
    assert found.nearest is None
    poor = choose(replace(TWO, max_usd_per_hour=0.2), ["spot"])
    assert poor.nearest
    assert (row(poor.over_budget[0])[2], row(poor.nearest)[2], poor.limited) == ("mps", "timeslice", None)
    assert [*map(row, poor.holding)] == [*map(row, found.holding)]
    whole, nodes = found.fitting[0].usd_per_million_tokens(), found.fitting[0].cell.usd_per_million_tokens()
    assert whole
    assert nodes
    # Both have the tokens of the same GPU.
    hour = found.fitting[0].bill.usd_per_hour / found.fitting[0].cell.usd_per_hour
    assert whole.value / nodes.value == pytest.approx(hour)


def test_where_every_setup_has_a_warning_the_one_with_the_fewest_is_proposed() -> None:
    """No table has the price of sa-east-1, so each setup has a warning about its price."""
    found = choose(TWO.changed(region="sa-east-1"), ["on-demand"])
    first, second = found.fitting[:2]
    assert (first.cell.way, second.cell.way) == ("mps", "timeslice")
    assert len(first.doubts) > len(second.doubts) > 0
    assert found.proposed == 1


# qwen2.5:14b has 8.4 GiB (its page in Ollama's library) and a share of a T4 by two 7.5; an L4 has 11.2.
SIZES = setup(models=tenants(served("qwen2.5:14b", context=4096), served("qwen2.5:3b", context=4096)))


def test_a_large_and_a_small_model_have_limits_of_their_own_on_the_cheapest_gpu() -> None:
    found = of_sizes_on_spot()
    assert [row(choice) for choice in found.fitting[:2]] == [
        (1, "g4dn.xlarge", "mps-per-model", "spot"),
        (1, "g4dn.xlarge", "timeslice", "spot"),
    ]
    isolated = choose(SIZES, ["spot"], isolated=("memory", "hardware", "own GPU"))
    assert row(isolated.fitting[isolated.proposed]) == (1, "g4dn.xlarge", "mps-per-model", "spot")
    assert {choice.isolation for choice in isolated.fitting} == {"memory", "hardware", "own GPU"}
    alone = choose(SIZES, ["spot"], isolated=("hardware", "own GPU"))
    assert row(alone.fitting[0]) == (2, "g4dn.xlarge", "exclusive", "spot")


def test_limits_per_model_are_a_setup_only_where_equal_ones_do_not_hold_the_models() -> None:
    rows = {row(choice)[:3] for choice in of_sizes_on_spot().fitting}
    assert (1, "g6.xlarge", "mps") in rows
    assert (1, "g6.xlarge", "mps-per-model") not in rows
    with_limits = replace(SIZES, models=[SIZES.models[0].changed(share=Share(memory_gib=10)), SIZES.models[1]])
    limited = choose(with_limits, ["spot"]).fitting
    rows = {row(choice)[:3] for choice in limited}
    assert (1, "g6.xlarge", "mps-per-model") in rows
    # Modes without such limits are tried without `share`.
    assert all(bool(choice.config.models[0].share) is (row(choice)[2] == "mps-per-model") for choice in limited)
    assert {(1, "g6.xlarge", "mps"), (1, "g4dn.xlarge", "timeslice"), (2, "g4dn.xlarge", "exclusive")} <= rows


def test_setups_that_generate_no_tokens_are_ranked_by_price_whatever_is_asked_for() -> None:
    embedding = setup(models=tenants("nomic-embed-text:latest", "nomic-embed-text:latest"))
    by_price, by_token = choose(embedding, ["spot"]), choose(embedding, ["spot"], "per-token")
    assert [*map(row, by_price.fitting)] == [*map(row, by_token.fitting)]
    # Neither is faster, and one has limits.
    assert by_price.limited
    assert row(by_price.limited)[1:3] == (row(by_price.fitting[by_price.proposed])[1], "mps")


COMMERCIAL = regions_beside("us-east-1")


@pytest.mark.slow
@pytest.mark.parametrize("capacities", [ANY, ["spot"]])
def test_each_region_has_its_best_setup_of_known_offers_at_a_price_of_its_own(capacities: Sequence[Capacity]) -> None:
    found = choose(TWO, capacities, regions=COMMERCIAL).fitting
    places = [choice.config.region for choice in found]
    assert len(places) == len(set(places)) > 3
    families = {row["region"]: row["families"].split() for row in tables.read("offerings").rows}
    on_demand = {(row["region"], family(row["instance_type"])) for name in PRICES for row in tables.read(name).rows}
    spot = {(row["region"], row["instance_type"]) for row in tables.read("spot_prices").rows}
    for choice in found:
        name, place = choice.cell.instance.name, choice.config.region
        assert family(name) in families[place]
        assert (place, family(name)) in on_demand
        if choice.cell.pool.capacity == "spot":
            assert (place, name) in spot
    # By price, but for those that are close to each other.
    usd = [choice.bill.usd_per_month for choice in found]
    assert all(later >= earlier / 1.05 for earlier, later in pairwise(usd))
    # The cheapest of a region is the one that it has alone.
    alone = choose(replace(TWO, region=places[-1]), capacities).fitting[0]
    assert found[-1].bill.usd_per_month <= alone.bill.usd_per_month * 1.05


@pytest.mark.slow
def test_of_prices_that_are_close_the_one_with_less_risk_comes_first() -> None:
    """Ohio: g4dn.xlarge on spot is $0.356 with its stack, with 5–10 % reclaimed; g6f.large on demand is $0.367."""
    small = base_stack.of_models([{"name": "llama3.2:1b"}], "us-east-2", {}, TODAY).config
    cheapest = choose(small, ANY).fitting[0]
    assert row(cheapest)[1:] == ("g4dn.xlarge", "exclusive", "spot")
    assert (cheapest.spot_risk and cheapest.spot_risk.least_percent, cheapest.risk) == (5, 5)
    [steady] = choose(small, ANY, regions=["us-east-2"]).fitting
    assert row(steady)[1:] == ("g6f.large", "exclusive", "on-demand")
    assert steady.bill.usd_per_month <= cheapest.bill.usd_per_month * 1.05
    # More than 5 % cheaper: the risk does not count.
    [risky] = choose(TWO, ANY, regions=["us-east-2"]).fitting
    assert risky.cell.pool.capacity == "spot"


def test_regions_without_any_price_of_their_own_have_no_setup() -> None:
    # China: no price in dollars is known.
    found = choose(replace(TWO, region="cn-north-1"), ANY, regions=regions_beside("cn-north-1"))
    assert (found.fitting, found.over_budget, found.refusal, found.nearest_miss) == ((), (), None, None)


LARGER = (setup(models=tenants(weighing(10_000), weighing(10_000))), ANY)
"""One GPU of 24 GiB costs less than two of the cheapest type, which hold them, too."""


@pytest.mark.slow
@pytest.mark.parametrize("name", [*WANTED, "larger"])
@pytest.mark.parametrize("parked", [False, True])
def test_a_search_for_the_cheapest_finds_what_the_whole_search_finds(name: str, parked: bool) -> None:
    config, capacities = WANTED.get(name, LARGER)
    if parked:
        park = {"schedule": "0 20 * * MON-FRI", "wake": "0 8 * * MON-FRI", "timezone": "UTC"}
        config = replace(config, park=ParkSettings.model_validate(park))
    whole, quick = choose(config, capacities), choose(config, capacities, every=False)
    assert bool(whole.fitting) is bool(quick.fitting)
    if not whole.fitting:
        assert [*map(row, quick.over_budget)] == [*map(row, whole.over_budget)]
        if not whole.over_budget:
            assert (quick.refusal, quick.nearest_miss) == (whole.refusal, whole.nearest_miss)
    else:
        assert row(quick.fitting[quick.proposed]) == row(whole.fitting[whole.proposed])
        priced = not whole.fitting[0].bill.unpriced
        assert (len(quick.refused) < len(whole.refused)) is priced
