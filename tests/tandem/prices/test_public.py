"""`tandem prices` without AWS credentials, and `make prices`: AWS's public price files, as recorded."""

import datetime
import functools
import gzip
import itertools
import json
import socket
import ssl
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import pytest

from sharing import tables
from tandem import price_cache
from tandem.prices import public, weekly
from tandem.terminal import CallError
from tests.rows import read_rows
from tests.tandem.aws.conftest import Run
from tests.tandem.aws.emulated import Emulated
from tests.tandem.prices.public_answers import OHIO, STOCKHOLM, Pages, page

EC2 = "/Linux/index.json"


@pytest.fixture
def pages(monkeypatch: pytest.MonkeyPatch) -> Pages:
    made = Pages()
    monkeypatch.setattr(public, "Files", functools.partial(public.Files, httpx.MockTransport(made)))
    return made


@pytest.fixture
def stranger(emulated: Emulated, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody has credentials here."""
    for key in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"):
        monkeypatch.delenv(key, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")


def ohio(tmp_path: Path) -> str:
    path = tmp_path / "Pulumi.ohio.yaml"
    text = Path("Pulumi.dev.yaml").read_text(encoding="utf-8")
    path.write_text(text.replace("aws:region: us-east-1", "aws:region: us-east-2"), encoding="utf-8")
    return str(path)


@pytest.mark.slow
def test_without_credentials_the_public_files_are_read(
    pages: Pages, stranger: None, tandem: Run, tmp_path: Path
) -> None:
    code, out, err = tandem("prices", "--region", "us-east-2")
    assert (code, err) == (0, "")
    assert "us-east-2: $ per hour, AWS's public files just now" in out
    # 64 % and the range 1 in the Spot Advisor's file; a g4dn.2xlarge is not in the cut of it.
    (line,) = [line for line in out.splitlines() if "g4dn.xlarge" in line]
    assert line.split() == ["g4dn.xlarge", "1", "×", "T4", "0.5260", "64", "%", "0.1894"]
    kept = json.loads((price_cache.home() / "us-east-2.json").read_text(encoding="utf-8"))
    assert kept["on_demand"] == {name: float(usd) for name, usd in OHIO.items()}
    assert kept["advice"]["g4dn.xlarge"] == {"range": 1, "savings_percent": 64}
    assert (kept["spot"], kept["offered"], kept["advised"]) == ({}, None, "2026-08-10")
    code, out, _ = tandem("plan", ohio(tmp_path), "--json", "--live-prices")
    lines = {line["item"]: line for line in json.loads(out)["cost"]["lines"]}
    assert lines["system nodes 1 × t3.medium"]["note"] == "on-demand"
    # The more expensive type of the pool has no advice, so the table's price counts.
    gpus = lines["GPU nodes 1 × g4dn.2xlarge"]
    assert (gpus["usd_per_hour"], gpus["note"]) == (0.2397, "spot; most expensive type; seen 2026-06-18")


@pytest.mark.slow
def test_with_credentials_no_public_file_is_read(pages: Pages, emulated: Emulated, tandem: Run) -> None:
    tandem("prices")
    assert pages.asked == []


def packed(whole: bytes) -> httpx.Response:
    """A file as the price pages send it: packed, without a header that says so."""
    return httpx.Response(200, stream=httpx.ByteStream(gzip.compress(whole)))


WHOLE = json.dumps(page("US East (Ohio)", OHIO)).encode()


def test_a_packed_file_is_read() -> None:
    pages = Pages()
    others = {"c5.large": "0.0850000000", "g5.xlarge": "0.0000000000"}
    pages.replies[EC2] = packed(json.dumps(page("US East (Ohio)", {**OHIO, **others})).encode())
    found, _ = public.Files(httpx.MockTransport(pages)).on_demand("us-east-2")
    assert found == {name: float(usd) for name, usd in OHIO.items()}, "of types that we use, and have a price"


def test_a_file_is_asked_for_as_it_is_with_the_certificates_of_the_system(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without an argument, httpx has a file of its own, and takes answers in compressions that we do not unpack."""
    of_the_system, opened = ssl.create_default_context(), httpx.Client
    monkeypatch.setattr(ssl, "create_default_context", lambda: of_the_system)
    options: dict[str, Any] = {}
    monkeypatch.setattr(httpx, "Client", lambda **given: options.update(given) or opened(**given))
    encodings, pages = [], Pages()

    def answer(request: httpx.Request) -> httpx.Response:
        encodings.append(request.headers["accept-encoding"])
        return pages(request)

    public.Files(httpx.MockTransport(answer)).advice()
    assert (options["verify"], options["timeout"], encodings) == (of_the_system, 60, ["identity"])


BAD: dict[str, tuple[httpx.Response | Exception, str]] = {
    "no network": (
        httpx.ConnectError("[Errno -2] Name or service not known"),
        "files: no network, or the host b0.p.awsstatic.com cannot be reached. Plan",
    ),
    "another certificate": (
        httpx.ConnectError("[SSL: CERTIFICATE_VERIFY_FAILED] self-signed"),
        "cannot be read ([SSL: ",
    ),
    "missing": (httpx.Response(404), "answered with 404 Not Found"),
    "elsewhere": (httpx.Response(302, headers={"location": "https://portal.example"}), "answered with 302 Found"),
    "cut": (httpx.Response(200, stream=httpx.ByteStream(gzip.compress(WHOLE)[:-30])), "cannot be read ("),
    "closed early": (httpx.RemoteProtocolError("peer closed connection"), "cannot be read (peer closed"),
    "not packed right": (httpx.Response(200, content=b"\x1f\x8bnothing"), "cannot be read ("),
    "silent": (httpx.ReadTimeout("read"), "did not arrive within 60 s"),
    "huge": (httpx.Response(200, content=b" " * 5000), "has more than"),
    "huge when unpacked": (packed(b" " * 5000), "has more than"),
    "a web page": (httpx.Response(200, text="<html>Log in</html>"), "is not JSON"),
    "half of JSON": (httpx.Response(200, content=WHOLE[:100]), "is not JSON"),
    "another form": (httpx.Response(200, json={"manifest": {}, "regions": []}), "has another format ("),
    "without prices": (httpx.Response(200, json=STOCKHOLM), "has no prices of us-east-2"),
}


@pytest.mark.slow
@pytest.mark.parametrize("what", BAD)
def test_a_bad_file_is_one_line_and_the_kept_prices_stay(
    pages: Pages, stranger: None, tandem: Run, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    assert tandem("prices", "--region", "us-east-2")[0] == 0
    before = (price_cache.home() / "us-east-2.json").read_bytes()
    monkeypatch.setattr(public, "MOST_BYTES", 4000)
    pages.replies[EC2], words = BAD[what]
    code, out, err = tandem("prices", "--region", "us-east-2")
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert words in err
    assert err.startswith("error: No AWS credentials were found, so tandem tried AWS's public price files: ")
    assert err.endswith(" Plan without `--live-prices`: the built-in prices stay in use.\n")
    assert (price_cache.home() / "us-east-2.json").read_bytes() == before


@pytest.mark.parametrize("spare", [0, -1])
def test_a_file_has_at_most_as_many_bytes_as_the_limit(monkeypatch: pytest.MonkeyPatch, spare: int) -> None:
    monkeypatch.setattr(public, "MOST_BYTES", len(WHOLE) + spare)
    files = public.Files(httpx.MockTransport(lambda _: httpx.Response(200, stream=httpx.ByteStream(WHOLE))))
    with pytest.raises(CallError, match="has more than") if spare else nullcontext():
        files.on_demand("us-east-2")


def test_a_trickle_ends_at_the_time_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    seconds = itertools.count(step=25)
    monkeypatch.setattr(public, "time", SimpleNamespace(monotonic=lambda: next(seconds)))
    with pytest.raises(CallError, match="did not arrive within 60 s"):
        public.Files(httpx.MockTransport(lambda _: httpx.Response(200, stream=Trickle()))).advice()


class Trickle(httpx.SyncByteStream):
    def __iter__(self) -> Any:
        while True:
            yield b" "


@pytest.mark.slow
def test_a_region_without_a_public_file_is_named(pages: Pages, stranger: None, tandem: Run) -> None:
    code, _, err = tandem("prices", "--region", "cn-north-1")
    assert (code, err.count("\n"), pages.asked) == (2, 1, [])
    assert "files: cn-north-1 has no public price file in US dollars." in err


@pytest.mark.parametrize(
    "ranges",
    [[], [{"index": 0, "label": "<3%"}], [{"index": at, "label": f"{at}"} for at in range(5)]],
)
def test_other_ranges_of_the_spot_advisor_are_not_taken_for_ours(ranges: Any) -> None:
    pages = Pages()
    pages.advisor = {**pages.advisor, "ranges": ranges}
    with pytest.raises(CallError, match="has other ranges than before"):
        public.Files(httpx.MockTransport(pages)).advice()


@pytest.mark.parametrize("advice", [{"s": 50, "r": 5}, {"s": 50, "r": -1}, {"s": 100, "r": 0}])
def test_advice_outside_the_ranges_is_not_taken(advice: dict[str, int]) -> None:
    """There are five ranges, and nothing is saved in full."""
    pages = Pages()
    pages.advisor = {**pages.advisor, "spot_advisor": {"us-east-1": {"Linux": {"m5.large": advice}}}}
    with pytest.raises(CallError, match="has another format"):
        public.Files(httpx.MockTransport(pages)).advice()


def test_every_price_of_the_table_is_read() -> None:
    """But for that of CloudWatch's logs, which no page has."""
    items = {row["item"] for row in tables.read("service_prices").rows}
    assert items - {"log-storage"} == {*public.SERVICES, "eks-standard", "eks-extended"}


def test_every_commercial_region_has_the_name_that_the_files_use() -> None:
    known = public.locations()
    commercial = [row["region"] for row in tables.read("offerings").rows if row["region"].count("-") == 2]
    assert [one for one in commercial if one not in known and not one.startswith(("cn-", "eusc-"))] == []
    assert known["eu-central-2"] == "EU (Zurich)", "the files answer 404 to Europe (Zurich)"
    assert len({*known.values()}) == len(known)


def test_the_weekly_run_writes_what_it_can_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pages = Pages()
    pages.ec2["US East (N. Virginia)"] = {**OHIO, "t3.small": "0.0208000000", "m5.large": "0.0960000000"}
    ohio = {**OHIO, "g4dn.2xlarge": "0.9", "p3.2xlarge": "3.06", "t3.small": "0.0208", "m5.large": "0.0960"}
    pages.ec2["US East (Ohio)"] = ohio
    pages.extended_support = "0.6000000000"
    assert weekly.main(tmp_path, public.Files(httpx.MockTransport(pages))) == 1
    said = capsys.readouterr()
    assert "eu-west-1: https://b0.p.awsstatic.com" in said.err
    assert "spot-advisor-data.json has fewer than 25 regions. The table stays as it is." in said.err
    assert [Path(line.split()[1]).name for line in said.out.splitlines()] == [
        "gpu_prices.csv",
        "regional_prices.csv",
        "system_prices.csv",
        "service_prices.csv",
    ]
    there = [row for row in read_rows(tmp_path / "regional_prices.csv") if row["region"] == "us-east-2"]
    prices = {row["instance_type"]: row["usd_per_hour"] for row in there}
    assert prices == {"g4dn.2xlarge": "0.9", "g4dn.xlarge": "0.526"}, "out of proportion: a row each; P3 is retired"
    nodes = [row for row in read_rows(tmp_path / "system_prices.csv") if row["region"] == "us-east-2"]
    assert {row["instance_type"] for row in nodes} == {"m5.large", "t3.medium"}
    before = {(row["region"], row["item"]): row for row in tables.read("service_prices").rows}
    after = {(row["region"], row["item"]): row for row in read_rows(tmp_path / "service_prices.csv")}
    changed = {key: (after[key]["usd"], after[key]["date"]) for key in after if after[key] != before.get(key)}
    assert changed == {
        ("us-east-2", "nat-gateway-gb"): ("0.046", "2026-11-20"),
        ("us-east-2", "eks-extended"): ("0.7", "2026-11-18"),
    }, "0.10 of a cluster is as before, and extended support is on top of it"
    content = (tmp_path / "regional_prices.csv").read_bytes()
    head = content.decode()
    assert b"\r" not in content, "as Git has them"
    assert head.startswith("# source: AWS's public price files, read with `make prices`; older rows: skypilot-org")


def test_the_weekly_run_replaces_the_table_of_reclaims(tmp_path: Path) -> None:
    pages = Pages()
    regions = {f"xx-north-{number}": {"Linux": {"m5.large": {"s": 50, "r": 0}}} for number in range(23)}
    pages.advisor = {**pages.advisor, "spot_advisor": {**pages.advisor["spot_advisor"], **regions}}
    weekly.main(tmp_path, public.Files(httpx.MockTransport(pages)))
    rows = read_rows(tmp_path / "spot_risk.csv")
    assert [[*row.values()] for row in rows][:2] == [
        ["eu-central-1", "g4dn.xlarge", "2", "62"],
        ["eu-central-1", "g5.xlarge", "4", "59"],
    ]
    assert len(rows) == 8
    head = (tmp_path / "spot_risk.csv").read_text(encoding="utf-8").splitlines()[:3]
    assert head[1:] == ["# date: 2026-08-10", "region,instance_type,range,savings_percent"]


def test_aws_answers_in_this_form() -> None:
    try:
        socket.create_connection(("b0.p.awsstatic.com", 443), 5).close()
    except OSError as error:
        pytest.skip(f"needs the network: b0.p.awsstatic.com cannot be reached ({error})")
    files = public.Files()
    on_demand, day = files.on_demand("us-east-1")
    assert 0.4 < on_demand["g4dn.xlarge"] < 0.7
    assert day > datetime.date(2026, 1, 1)
    items = {item: usd for item, usd, _ in files.services("us-east-1")}
    assert {*public.SERVICES, "eks-standard", "eks-extended"} == set(items)
    assert len(files.advice()[0]) >= weekly.LEAST_REGIONS
