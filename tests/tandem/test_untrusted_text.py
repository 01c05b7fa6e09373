"""No text from outside controls the terminal: every command gets escapes through every input."""

import argparse
import io
import json
import re
import unicodedata
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, redirect_stderr, redirect_stdout
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from xml.etree import ElementTree

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from moto.eks.models import eks_backends

from tandem.bench_results.result_file import write
from tandem.main import main, parser
from tandem.terminal import open_console
from tandem.verify import screen
from tandem.verify import verify as verification
from tests.tandem.aws.conftest import cleaning, creation, emulated
from tests.tandem.aws.creation import Creation
from tests.tandem.aws.emulated import ACCOUNT, CLUSTER, OURS, REGION, Emulated
from tests.tandem.deployed.pretended import Cluster, connected, well
from tests.tandem.fake_ollama import FakeOllama, ollama
from tests.tandem.models import gguf_files
from tests.tandem.parking.test_parking import PARK, schedules, written
from tests.tandem.results import row, run, server, shared
from tests.tandem.seen import checks, facts, pending, restarting

pytestmark = pytest.mark.slow

__all__ = ["cleaning", "creation", "emulated"]
ROOT = Path(__file__).parents[2]
BIDI = "\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
"""Unicode UAX #9, section 2."""
WORST = "a\x1b[2J\x1b]0;owned\x07\x9b1mb\x7f\u202ec\u2028d\x85e\rf\x00g"
"""Clears a screen, sets a title, colours with C1, hides, turns text round, ends lines."""
ASKS_WITH = {
    "init", "plan", "choose", "doctor", "sandbox", "modes", "models", "gpus", "leftovers", "quota", "prices", "verify",
    "watch", "chat", "bench", "report", "completion", "park", "wake", "open", "metrics",
}  # fmt: skip
EVIL = st.text(alphabet=st.sampled_from([*"ab:|<#`[]$\n\t", *WORST, *BIDI, "\u2029"]), min_size=1, max_size=12).map(
    lambda text: f"x{text}\x1b[31m"
)
NEWER: dict[str, dict[str, Any]] = {
    "park.schedule": {"wake": "0 8 * * *"},
    "park.timezone": {"schedule": "0 20 * * *", "wake": "0 8 * * *"},
    "ui.admin-email": {"enabled": True},
    "monitoring.store": {},
    "budget.alert": {},
}
"""Keys of optional sections, and the rest of the section."""
FILE_NAMES = EVIL.map(lambda text: re.sub(r"[/\x00]", "", text))


def steering(text: str) -> set[str]:
    """The characters that steer what shows them, by Unicode's database; line ends and tabs are the command's own."""
    kinds = ("Cc", "Cs", "Zl", "Zp")
    return {char for char in text if char not in "\n\t" and (unicodedata.category(char) in kinds or char in BIDI)}


def said(*call: str) -> str:
    """The output of a command on both streams. It may fail, but never with a traceback."""
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        try:
            code = main(call)
        except SystemExit as left:
            code = int(left.code or 0)
    assert code in (0, 1, 2)
    text = out.getvalue() + err.getvalue()
    assert text.strip()
    assert steering(text) == set(), ascii(text)
    text.encode()
    return text


def test_every_command_is_here() -> None:
    [commands] = [one for one in parser()._actions if isinstance(one, argparse._SubParsersAction)]
    assert set(commands.choices) == ASKS_WITH


@settings(max_examples=30)
@given(EVIL, FILE_NAMES, st.sampled_from(["key", "section", "value", "model", "tag", *NEWER]))
@pytest.mark.parametrize(
    "call", [("plan",), ("plan", "--json"), ("choose", "--stack"), ("modes", "--stack"), ("quota",)]
)
def test_stack_files(
    tmp_path_factory: pytest.TempPathFactory, call: tuple[str, ...], text: str, name: str, where: str
) -> None:
    document = yaml.safe_load((ROOT / "Pulumi.timeslice.yaml").read_text())
    config = document["config"]
    if where == "key":
        config["tandem:sharing"][text] = 1
    elif where == "section":
        config[f"tandem:{text}"] = text
    elif where == "value":
        config["tandem:sharing"]["mode"] = text
    elif where in NEWER:
        section, _, key = where.partition(".")
        config[f"tandem:{section}"] = {**NEWER[where], key: text}
    elif where == "model":
        config["tandem:models"][0]["name"] = text
    else:
        config["tandem:tags"] = {text: text}
    path = tmp_path_factory.mktemp("s") / f"Pulumi.{name}.yaml"
    path.write_text(yaml.safe_dump(document), encoding="utf-8")
    said(*call, str(path))


@settings(max_examples=30)
@given(FILE_NAMES)
@pytest.mark.parametrize(
    "call",
    [
        ("plan",), ("plan", "--json"), ("doctor",), ("sandbox", "status"), ("modes", "--type"), ("modes", "--stack"),
        ("choose",), ("models", "--filter"), ("models", "inspect"), ("gpus", "--filter"), ("gpus", "--region"),
        ("leftovers",), ("quota",),
        ("completion",), ("init", "--region"), ("init", "--model"), ("init", "--budget"), ("init", "--allow-cidr"),
        ("prices", "--region"), ("verify",), ("verify", "dev", "--kubeconfig"), ("watch",),
        ("park",), ("wake",), ("open",), ("open", "dev", "--port"),
        ("metrics",), ("metrics", "--url"), ("metrics", "--listen"),
        ("chat",), ("bench",), ("report",), ("chat", "--url"), ("bench", "--url"), (),
    ],
)  # fmt: skip
def test_arguments(call: tuple[str, ...], text: str) -> None:
    said(*call, text)


@pytest.fixture(scope="module")
def evil() -> Iterator[FakeOllama]:
    with ollama() as server:
        yield server


@settings(max_examples=15)
@given(EVIL, st.sampled_from(["", "says", "refuses"]), st.integers(0, 2), st.booleans())
@pytest.mark.parametrize("name", ["chat", "bench", "metrics"])
def test_servers(
    tmp_path_factory: pytest.TempPathFactory,
    evil: FakeOllama,
    name: str,
    text: str,
    fault: str,
    models: int,
    as_json: bool,
) -> None:
    evil.version = evil.digest = evil.error = text
    evil.models, evil.pieces, evil.fault = [f"{text}{number}" for number in range(models)], [text, text], fault
    folder = tmp_path_factory.mktemp("t")
    once = ["--requests", "1", "--warmup", "0", "--repeats", "1", "--concurrency", "1"]
    more = {
        "chat": ["--transcript", str(folder / "t.md"), "--turns", "2"],
        "bench": ["-o", str(folder / "r.json"), *once],
        "metrics": [],
    }[name]
    said(name, "--url", f"a={evil.url}", "--url", f"b={evil.url}", *more, *["--json"] * as_json)
    for path in folder.iterdir():
        assert steering(path.read_text(encoding="utf-8")) == set()


@settings(max_examples=30)
@given(EVIL, st.booleans())
def test_clusters(text: str, as_json: bool) -> None:
    seen = replace(facts(), pods=[pending("llama2-7b", text), restarting("mistral-7b", text)])
    verdict = verification.Verdict(stack=text, cluster=text, checks=list(checks(seen).values()), waited_s=0)
    cluster = well()
    cluster.facts, cluster.gpu = seen, f"GPU-1, {text}, 9300, 15360, 37\n"

    @contextmanager
    def reached(*_: object) -> Iterator[Any]:
        yield connected(cluster)

    with pytest.MonkeyPatch.context() as patch:
        port = SimpleNamespace(url="http://127.0.0.1:1", trouble=text)
        patch.setattr(Cluster, "forward", lambda *_: nullcontext(port), raising=False)
        patch.setattr("tandem.deployed.connection.reached", reached)
        patch.setattr(verification, "verify", lambda *_, patience, **__: (patience.tell(text), verdict)[1])
        said("verify", "dev", *["--json"] * as_json)
        said("watch", "dev", "--once", *["--json"] * as_json)
        said("metrics", "dev", *["--json"] * as_json)


def test_a_terminal_gets_only_colours_and_moves_of_richs_own() -> None:
    seen = replace(facts(), pods=[pending("llama2-7b", WORST), restarting("mistral-7b", WORST)])
    verdict = verification.Verdict(stack=WORST, cluster=WORST, checks=list(checks(seen).values()), waited_s=0)
    out = io.StringIO()
    console = open_console(file=out, force_terminal=True, width=100)
    screen.verdict(verdict, console)
    with console.status(WORST):
        pass
    assert "\x1b[1;31m" in out.getvalue()
    own = re.sub(r"\x1b\[(\d+(;\d+)*m|\?25[lh]|\d*[AK])", "", out.getvalue())
    assert steering(own) <= {"\r"}
    assert "owned" in own


@settings(max_examples=8)
@given(EVIL)
def test_results(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    folder = tmp_path_factory.mktemp("r")
    for number in (1, 2):
        one = shared(f"{text}{number}", (20.0, 40.0), (40.0, 60.0), usd_per_hour=0.5)
        spoiled = run(["a"], [row([], error=text)], repeat=4)
        servers = [replace(server(id, text), quantization=text, parameter_size=text, ollama=text) for id in "ab"]
        call = replace(one.sessions[0], servers=servers, command=[text], begun=text)
        whole = replace(one, runs=[*one.runs, spoiled], sessions=[call], ended=text)
        write(whole, folder / f"{number}.json")
    results = [str(folder / f"{number}.json") for number in (1, 2)]
    said("report", *results, "-o", str(folder / "out"))
    said("report", *results, "--json")
    for path in (folder / "out").iterdir():
        assert steering(path.read_text(encoding="utf-8")) == set()
        if path.suffix == ".svg":
            ElementTree.parse(path)


@settings(max_examples=10)
@given(FILE_NAMES, st.sampled_from([(), ("--yes",), ("--yes", "--json")]))
def test_new_stack_files(tmp_path_factory: pytest.TempPathFactory, name: str, more: tuple[str, ...]) -> None:
    folder = tmp_path_factory.mktemp("n")
    said("init", str(folder / f"Pulumi.{name}.yaml"), *more)


@settings(max_examples=10)
@given(EVIL, st.booleans())
def test_gguf_metadata(tmp_path_factory: pytest.TempPathFactory, text: str, as_json: bool) -> None:
    values: dict[str, Any] = {text: 1}
    model = gguf_files.write(tmp_path_factory.mktemp("g") / "m.gguf", text, **values)
    said("models", "inspect", str(model), *["--json"] * as_json)


@pytest.mark.parametrize("more", [(), ("--json",)])
def test_names_and_errors_of_aws(emulated: Emulated, creation: Creation, more: tuple[str, ...]) -> None:
    named = WORST.translate(dict.fromkeys(range(0x20)))  # EC2 answers in XML, which has no C0
    creation.volumes({**OURS, "Name": named, named: named})
    creation.VPCs({**OURS, "Name": named})
    assert "vol-" in said("leftovers", "timeslice", "--region", "us-east-1", *more)
    emulated.denied = dict.fromkeys(("DescribeVolumes", "GetServiceQuota", "GetAWSDefaultServiceQuota"), WORST)
    file = str(ROOT / "Pulumi.timeslice.yaml")
    for call in (("leftovers", "timeslice", "--region", "us-east-1"), ("quota", file), ("doctor", file)):
        assert "owned" in said(*call, *more)


@pytest.mark.parametrize("more", [(), ("--json",)])
def test_a_parked_stack(
    emulated: Emulated,
    creation: Creation,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    more: tuple[str, ...],
) -> None:
    """What EKS says about a node group, and what EventBridge Scheduler wrote into the dead-letter queue."""
    creation.EKS_clusters(OURS, name=CLUSTER)
    pool = {"labels": {"tandem/pool": "gpu"}, "scalingConfig": {"minSize": 0, "desiredSize": 1, "maxSize": 2}}
    group = creation.node_groups(OURS, cluster=CLUSTER, **pool).partition("/")[2]
    path = written(tmp_path, park=PARK)
    queue = schedules(creation, group)
    call = {"NodegroupName": WORST, "ScalingConfig": {"DesiredSize": 0}}
    named = WORST.translate(dict.fromkeys(range(0x20)))  # SQS refuses C0
    attributes = {
        name: {"DataType": "String", "StringValue": f"{named} owned"} for name in ("ERROR_CODE", "ERROR_MESSAGE")
    }
    creation.sqs.send_message(QueueUrl=queue, MessageBody=json.dumps(call), MessageAttributes=attributes)
    assert "owned" in said("doctor", path, *more)
    there = eks_backends[ACCOUNT][REGION].clusters[CLUSTER].nodegroups[group]
    monkeypatch.setattr(there, "status", "DEGRADED")
    monkeypatch.setattr(there, "health", {"issues": [{"code": WORST, "message": WORST, "resourceIds": [WORST]}]})
    for name in ("park", "wake"):
        assert "owned" in said(name, path, *more)
    emulated.denied = {"DescribeNodegroup": WORST}
    for name in ("park", "wake"):
        assert "owned" in said(name, path, *more)
