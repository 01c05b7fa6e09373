"""The file of kept prices: which are taken, and which are an error with its fix."""

import datetime
import json
from pathlib import Path

import pytest

from stacks.stack_file.errors import UnreadableError
from tandem import price_cache

DAY = datetime.date(2026, 11, 20)
GOOD = {"schema_version": 1, "region": "us-east-1", "read_at": f"{DAY}T00:00:00Z", "on_demand": {}, "spot": {}}
BROKEN = {
    "half": '{"schema_version": 1, "region": "us-ea',
    "another version": json.dumps({**GOOD, "schema_version": 2}),
    "another key": json.dumps({**GOOD, "more": 1}),
    "a price of 0": json.dumps({**GOOD, "on_demand": {"g4dn.xlarge": 0}}),
    "an endless price": json.dumps({**GOOD, "on_demand": {"g4dn.xlarge": float("inf")}}),
}


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    path = price_cache.home() / "us-east-1.json"
    path.parent.mkdir(parents=True)
    return path


@pytest.mark.parametrize("what", BROKEN)
def test_broken_prices_are_an_error_with_the_fix(file: Path, what: str) -> None:
    file.write_text(BROKEN[what], encoding="utf-8")
    with pytest.raises(UnreadableError) as raised:
        price_cache.load("us-east-1", DAY)
    said = str(raised.value)
    assert said.startswith(f"{file} is broken (")
    assert said.endswith("). `tandem prices --region us-east-1` reads them from AWS.")
    assert "\n" not in said


def test_prices_may_be_dated_tomorrow_but_not_later(file: Path) -> None:
    """In UTC it may be tomorrow already."""
    file.write_text(json.dumps(GOOD), encoding="utf-8")
    yesterday = DAY - datetime.timedelta(days=1)
    assert price_cache.load("us-east-1", yesterday).schema_version == 1
    with pytest.raises(UnreadableError, match="after today"):
        price_cache.load("us-east-1", yesterday - datetime.timedelta(days=1))
