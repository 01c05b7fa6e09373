"""`tandem prices` and `tandem plan --live-prices`."""

import datetime
import json
import socket
from pathlib import Path
from typing import Any

import pytest
import yaml

from sharing.hardware.gpus import instance_types
from tandem import price_cache
from tests.tandem.aws.conftest import Run
from tests.tandem.aws.emulated import Emulated

pytestmark = pytest.mark.slow

NOW = datetime.datetime.now(datetime.UTC)


def product(name: str, *usd: str) -> dict[str, Any]:
    """An item as in the AWS Price List API reference, GetProducts."""
    dimensions = {str(number): {"pricePerUnit": {"USD": price}} for number, price in enumerate(usd)}
    terms = {"OnDemand": {"a": {"priceDimensions": dimensions}}}
    return {"product": {"attributes": {"instanceType": name}}, "terms": terms}


def seen(name: str, zone: str, usd: str, minutes: int = 0) -> dict[str, Any]:
    at = NOW - datetime.timedelta(minutes=minutes)
    return {"InstanceType": name, "AvailabilityZone": zone, "SpotPrice": usd, "Timestamp": at}


@pytest.fixture
def market(emulated: Emulated) -> Emulated:
    emulated.products = [
        product("g4dn.xlarge", "0.0000000000", "0.5500000000"),
        product("t3.medium", "0.0500000000"),
        product("c5.large", "0.0850000000"),
        product("g5.xlarge", "no number"),
        product("g6.xlarge", "-1"),
    ]
    emulated.spot = [
        seen("g4dn.xlarge", "us-east-1a", "0.300000"),
        seen("g4dn.xlarge", "us-east-1b", "0.200000", minutes=5),
        seen("g4dn.xlarge", "us-east-1b", "0.900000", minutes=60),
        seen("g4dn.xlarge", "us-east-1c", "0"),
        seen("g4dn.xlarge", "us-east-1d", "inf"),
        seen("c5.large", "us-east-1a", "0.01"),
    ]
    return emulated


def file(region: str = "us-east-1") -> Path:
    return price_cache.home() / f"{region}.json"


def test_prices_of_the_catalogue_are_saved(market: Emulated, tandem: Run) -> None:
    code, out, err = tandem("prices")
    assert (code, err) == (0, "")
    [asked] = [asked for call, asked in market.asked if call == "GetProducts"]
    # Together they leave one price for each type (aws/karpenter-provider-aws, pkg/providers/pricing).
    assert {one["Field"]: one["Value"] for one in asked["Filters"]} == {
        "serviceCode": "AmazonEC2",
        "regionCode": "us-east-1",
        "productFamily": "Compute Instance",
        "operatingSystem": "Linux",
        "preInstalledSw": "NA",
        "tenancy": "Shared",
        "capacitystatus": "Used",
        "marketoption": "OnDemand",
    }
    [asked] = [asked for call, asked in market.asked if call == "DescribeSpotPriceHistory"]
    # Amazon EC2 API reference, DescribeSpotPriceHistory: Windows and SUSE have prices of their own.
    linux = {value for key, value in asked.items() if key.startswith("ProductDescription")}
    assert linux == {"Linux/UNIX", "Linux/UNIX (Amazon VPC)"}
    # Without a start, AWS sends 90 days; without a filter, all types.
    assert asked["StartTime"].startswith(f"{NOW:%Y-%m-%d}")
    assert (asked["Filter.1.Name"], asked["Filter.1.Value.1"] in instance_types()) == ("instance-type", True)
    kept = json.loads(file().read_text(encoding="utf-8"))
    assert kept["on_demand"] == {"g4dn.xlarge": 0.55, "t3.medium": 0.05}
    assert kept["spot"] == {"g4dn.xlarge": {"us-east-1a": 0.3, "us-east-1b": 0.2}}
    assert (kept["schema_version"], kept["region"]) == (1, "us-east-1")
    # EC2's answer as moto recorded it: P3 is retired, P5e is elsewhere.
    assert {"g4dn.xlarge", "g7e.2xlarge", "p3dn.24xlarge"} <= {*kept["offered"]}
    assert not {"p3.2xlarge", "p5e.48xlarge", "t3.medium"} & {*kept["offered"]}
    assert [path.name for path in price_cache.home().iterdir()] == ["us-east-1.json"]
    assert "us-east-1: $ per hour, read from AWS just now" in out
    (line,) = [line for line in out.splitlines() if "g4dn.xlarge" in line]
    assert line.split() == ["g4dn.xlarge", "1", "×", "T4", "0.5500", "0.2000", "b", "0.3000", "a"]


def test_several_regions_are_read_and_a_failing_one_does_not_stop_the_others(market: Emulated, tandem: Run) -> None:
    code, _, err = tandem("prices", "--region", "us-gov-west-1", "eu-west-1", "--region", "us-east-1")
    assert code == 2
    assert "error: us-gov-west-1 has no API for price lists" in err
    assert file("eu-west-1").is_file()
    assert file("us-east-1").is_file()
    assert tandem("prices", "--region", "cn-north-1")[2].startswith(
        "error: cn-north-1 is not supported: its prices are in yuan"
    )


def test_a_failed_request_leaves_the_saved_prices(market: Emulated, tandem: Run) -> None:
    tandem("prices")
    before = file().read_bytes()
    market.products = []
    code, _, err = tandem("prices")
    assert (code, file().read_bytes()) == (2, before)
    assert "AWS's price list has no entry for us-east-1" in err
    market.denied["GetProducts"] = "AccessDeniedException"
    assert "may not call GetProducts" in tandem("prices")[2]
    assert file().read_bytes() == before


def test_a_folder_that_cannot_be_written_is_named(
    market: Emulated, tandem: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    code, _, err = tandem("prices")
    assert (code, f"cannot write {price_cache.home()}: Not a directory" in err) == (2, True)


def test_saved_prices_are_shown_without_a_request(market: Emulated, tandem: Run) -> None:
    code, _, err = tandem("prices", "--kept")
    assert code == 2
    assert "there are no prices of us-east-1" in err
    keep(days=3)
    code, out, _ = tandem("prices", "--kept")
    assert code == 0
    assert "us-east-1: $ per hour, read from AWS 3 days ago" in out
    code, out, _ = tandem("prices", "--kept", "--json", "--region", "us-east-1", "eu-west-1")
    shown = json.loads(out)
    assert (code, [one["region"] for one in shown["regions"]]) == (2, ["us-east-1"])
    assert shown["regions"][0]["on_demand"] == {"g4dn.xlarge": 0.55, "t3.medium": 0.05}
    assert shown["error"].startswith("there are no prices of eu-west-1")
    # docs/reference/exit-codes.md, "Errors with `--json`".
    assert (shown["schema_version"], shown["problems"]) == (2, [])
    assert market.calls == []


def keep(*, days: int = 0, **changed: Any) -> Path:
    # Within the budget of Pulumi.dev.yaml, which also counts a second GPU node while the first is replaced.
    on_demand = {"g4dn.xlarge": 0.55, "t3.medium": 0.05}
    spot = {
        "g4dn.xlarge": {"us-east-1a": 0.24, "us-east-1b": 0.2},
        "g4dn.2xlarge": {"us-east-1a": 0.35, "us-east-1b": 0.3},
    }
    values = {"on_demand": on_demand, "spot": spot, **changed}
    return price_cache.keep(price_cache.Kept(region="us-east-1", read_at=NOW - datetime.timedelta(days=days), **values))


def planned(tandem: Run, *more: str) -> dict[str, Any]:
    code, out, _ = tandem("plan", "dev", "--json", *more)
    assert code == 0
    return dict(json.loads(out))


@pytest.fixture
def offline(emulated: Emulated, monkeypatch: pytest.MonkeyPatch) -> Emulated:
    def refuse(*_: object) -> None:
        raise AssertionError("the network was asked")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    return emulated


def test_a_plan_uses_saved_prices_only_with_the_option(offline: Emulated, tandem: Run) -> None:
    without = planned(tandem)
    keep(days=2)
    assert planned(tandem) == without
    live = planned(tandem, "--live-prices")
    lines = {line["item"]: (line["usd_per_hour"], line["note"]) for line in live["cost"]["lines"]}
    day = str((NOW - datetime.timedelta(days=2)).date())
    assert lines["GPU nodes 1 × g4dn.2xlarge"] == (0.35, f"spot; most expensive type; seen {day}")
    assert lines["system nodes 1 × t3.medium"] == (0.05, "on-demand")
    assert (live["cost"]["price_source"], live["cost"]["price_date"]) == ("aws", day)
    assert without["cost"]["price_source"] == "tables"
    assert offline.calls == []
    _, out, _ = tandem("plan", "dev", "--live-prices")
    assert f"read from AWS on {day}, 2 days ago" in " ".join(out.split())


def test_a_budget_between_live_and_table_price_is_checked_once(offline: Emulated, tandem: Run, tmp_path: Path) -> None:
    """The program deploys the plan as checked. Checked again with table prices, it would exceed the budget."""
    keep(spot={"g4dn.xlarge": {"us-east-1a": 0.01}, "g4dn.2xlarge": {"us-east-1a": 0.01}})
    plans = [planned(tandem), planned(tandem, "--live-prices")]
    tables, live = (plan["cost"]["replacing_usd_per_hour"] for plan in plans)
    values = yaml.safe_load(Path("Pulumi.dev.yaml").read_text(encoding="utf-8"))
    values["config"]["tandem:budget"] = {"max-usd-per-hour": round((live + tables) / 2, 4)}
    path = tmp_path / "Pulumi.dev.yaml"
    path.write_text(yaml.safe_dump(values), encoding="utf-8")
    assert tandem("plan", str(path), "--json")[0] == 1
    code, out, err = tandem("plan", str(path), "--json", "--live-prices")
    report = json.loads(out)
    assert (code, err, report["verdict"], report["cost"]["replacing_usd_per_hour"]) == (0, "", "ok", live)
    assert report["resources"]


def test_choose_takes_the_kept_prices(offline: Emulated, tandem: Run) -> None:
    keep(days=2)
    first = json.loads(tandem("choose", "llama2:7b", "--live-prices", "--json", "--capacity", "spot")[1])["setups"][0]
    day = (NOW - datetime.timedelta(days=2)).date()
    assert (first["instance_type"], first["price_note"]) == ("g4dn.xlarge", f"spot; seen {day}")


def test_with_live_prices_the_offers_of_aws_decide(offline: Emulated, tandem: Run) -> None:
    keep(offered=["g4dn.2xlarge"])
    code, out, _ = tandem("plan", "dev", "--json", "--live-prices")
    assert code == 1
    (problem,) = json.loads(out)["problems"]
    assert problem["path"] == "gpu-nodes.instance-types[0]"
    assert problem["rule"] == f"is not available in us-east-1 as of {NOW.date()}"
    assert problem["fix"].startswith("Write `g4dn.2xlarge` (T4), or use us-east-2, the nearest region")
    keep(offered=["g4dn.2xlarge", "g4dn.xlarge"])
    assert planned(tandem, "--live-prices")["verdict"] == "ok"


def test_missing_and_future_prices_are_errors(offline: Emulated, tandem: Run) -> None:
    code, _, err = tandem("plan", "dev", "--live-prices")
    assert (code, err.startswith("error: there are no prices of us-east-1 in ")) == (2, True)
    keep(days=-3)
    assert "after today" in tandem("plan", "dev", "--live-prices")[2]
    file().unlink()
    file().mkdir()
    assert "cannot be read: Is a directory" in tandem("plan", "dev", "--live-prices")[2]


def test_a_file_without_a_region_is_the_only_error_with_live_prices(
    offline: Emulated, tmp_path: Path, tandem: Run
) -> None:
    path = tmp_path / "Pulumi.x.yaml"
    path.write_text("config:\n  aws:region: nowhere-9\n", encoding="utf-8")
    code, out, err = tandem("plan", str(path), "--live-prices")
    assert (code, err) == (1, "")
    assert "aws:region" in out
