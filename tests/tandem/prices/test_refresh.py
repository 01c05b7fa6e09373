"""The script that refreshes the tables of offers and prices, against recorded answers of AWS."""

import datetime
import json
from pathlib import Path
from typing import Any

import moto
import pytest

from sharing import tables
from tandem.aws.session import Account
from tandem.prices import refresh
from tests.rows import read_rows
from tests.tandem.aws.emulated import Emulated, answer
from tests.tandem.prices.test_prices import product

NOW = datetime.datetime(2026, 11, 22, 9, tzinfo=datetime.UTC)
RECORDED = Path(moto.__file__).parent / "ec2" / "resources" / "instance_type_offerings" / "region"
"""Answers of EC2's DescribeInstanceTypeOfferings that moto's maintainers record every month and moto returns."""
PRICES = {
    "us-east-1": {
        "g4dn.xlarge": 0.526,
        "g4dn.2xlarge": 0.752,
        "g4dn.16xlarge": 4.352,
        "g6.xlarge": 0.8048,
        "g6.12xlarge": 4.6016,
        "g6.48xlarge": 13.3504,
        "t3.medium": 0.0416,
    },
    "eu-central-1": {
        "g4dn.xlarge": 0.658,
        "g4dn.2xlarge": 0.94,
        "g4dn.16xlarge": 5.44,
        "g6.xlarge": 1.1,
        "g6.12xlarge": 5.75429,
        "g6.48xlarge": 16.6947,
        "p3.2xlarge": 3.823,
    },
}
"""AWS's price list of both regions (Karpenter 2026-07-20, skypilot-catalog v8 and v9), but g6.xlarge
in eu-central-1, which is out of proportion on purpose."""


@pytest.fixture
def price_list(emulated: Emulated, monkeypatch: pytest.MonkeyPatch) -> Emulated:
    def listed(asked: Any, path: list[str]) -> Any:
        [region] = [one["Value"] for one in asked["Filters"] if one["Field"] == "regionCode"]
        found = PRICES.get(region, {"g4dn.xlarge": 0.6})
        return answer(PriceList=[json.dumps(product(name, f"{usd:.10f}")) for name, usd in found.items()])

    monkeypatch.setattr(emulated, "_GetProducts", listed, raising=False)
    at = NOW - datetime.timedelta(minutes=1)
    emulated.spot = [
        {"InstanceType": "g4dn.xlarge", "AvailabilityZone": zone, "SpotPrice": usd, "Timestamp": at}
        for zone, usd in (("a", "0.2100"), ("b", "0.2800"))
    ]
    return emulated


@pytest.mark.slow
def test_the_table_of_offers_has_ec2s_answers(price_list: Emulated, account: Account, tmp_path: Path) -> None:
    regions = sorted(path.name.partition(".")[0] for path in RECORDED.iterdir())
    assert len(regions) == 30
    answers = refresh.read_regions(account, NOW, regions)
    assert answers.failures == []
    refresh.write_tables(answers.kept, tmp_path)
    read = {row["region"]: (row["families"], row["lacks"]) for row in read_rows(tmp_path / "offerings.csv")}
    shipped = {row["region"]: (row["families"], row["lacks"]) for row in tables.read("offerings").rows}
    assert read == shipped


def test_prices_are_written_in_the_fewest_rows(price_list: Emulated, account: Account, tmp_path: Path) -> None:
    answers = refresh.read_regions(account, NOW, ["us-east-1", "eu-central-1"])
    written = refresh.write_tables(answers.kept, tmp_path)
    assert [path.name for path in written] == [
        "offerings.csv",
        "spot_prices.csv",
        "gpu_prices.csv",
        "regional_prices.csv",
        "system_prices.csv",
    ]
    home = {
        row["instance_type"]: row["usd_per_hour"]
        for row in read_rows(tmp_path / "gpu_prices.csv")
        if row["region"] == "us-east-1"
    }
    g4dn = {"g4dn.xlarge": "0.526", "g4dn.2xlarge": "0.752", "g4dn.16xlarge": "4.352"}
    assert home == {**g4dn, "g6.xlarge": "0.8048", "g6.12xlarge": "4.6016", "g6.48xlarge": "13.3504"}
    there = [row for row in read_rows(tmp_path / "regional_prices.csv") if row["region"] == "eu-central-1"]
    assert [(row["instance_type"], row["usd_per_hour"]) for row in there] == [
        ("g4dn.16xlarge", "5.44"),
        ("g4dn.xlarge", "0.658"),
        ("g6.48xlarge", "16.6947"),
        ("g6.xlarge", "1.1"),
    ], "0.658 is 0.08 % above its proportion, 1.1 more; 0.94 and 5.75429 are in it; p3.2xlarge is priced, not offered"
    spot = [row for row in read_rows(tmp_path / "spot_prices.csv") if row["region"] == "eu-central-1"]
    assert [list(row.values()) for row in spot] == [
        ["eu-central-1", "g4dn.xlarge", "0.2800", "0.2100", "2", "2026-11-22"]
    ]
    gov = [row for row in read_rows(tmp_path / "gpu_prices.csv") if row["region"].startswith("us-gov-")]
    assert gov == [row for row in tables.read("gpu_prices").rows if row["region"].startswith("us-gov-")]
    head = (tmp_path / "gpu_prices.csv").read_text(encoding="utf-8").splitlines()[:2]
    assert head[0].startswith("# source: AWS, read with `make refresh`; older rows: aws/karpenter-provider-aws")
    assert head[1] == "# date: 2026-07-20", "GovCloud's rows stay: the table is as old as they are"


def test_a_region_that_does_not_answer_keeps_its_rows(
    price_list: Emulated,
    account: Account,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    price_list.regions, price_list.closed = ("eu-west-1", "eu-central-1"), {"eu-west-1"}
    monkeypatch.setattr(refresh.write_tables, "__defaults__", (tmp_path,))
    assert refresh.main([]) == 1
    said = capsys.readouterr()
    assert said.err.startswith("eu-west-1: ")
    assert said.out.splitlines() == [f"wrote {tmp_path / name}" for name in ("offerings.csv", "spot_prices.csv")]
    after = {row["region"]: row for row in read_rows(tmp_path / "offerings.csv")}
    before = {row["region"]: row for row in tables.read("offerings").rows}
    assert after["eu-west-1"] == before["eu-west-1"]
    assert after["eu-central-1"]["date"] > before["eu-central-1"]["date"]
    price_list.closed = set()
    assert refresh.main([]) == 0
