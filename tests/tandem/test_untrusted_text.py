"""No text from outside controls the terminal: not a stack file's, an argument's, a server's, a cluster's or AWS's."""

import io
import re
import unicodedata
from collections.abc import Iterator
from dataclasses import replace

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from tandem.terminal import open_console
from tandem.verify import screen
from tandem.verify.verify import Verdict
from tests.command import ROOT, call
from tests.tandem.aws.conftest import cleaning, creation, emulated
from tests.tandem.aws.creation import Creation
from tests.tandem.aws.emulated import OURS, Emulated
from tests.tandem.fake_ollama import FakeOllama, ollama
from tests.tandem.seen import checks, facts, pending, restarting

pytestmark = pytest.mark.slow

__all__ = ["cleaning", "creation", "emulated"]
BIDI = "\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
"""Unicode UAX #9, section 2."""
WORST = "a\x1b[2J\x1b]0;owned\x07\x9b1mb\x7f\u202ec\u2028d\x85e\rf\x00g"
"""Clears a screen, sets a title, colours with C1, hides, turns text round, ends lines."""
EVIL = st.text(alphabet=st.sampled_from([*"ab:|<#`[]$\n\t", *WORST, *BIDI, "\u2029"]), min_size=1, max_size=12).map(
    lambda text: f"x{text}\x1b[31m"
)
FILE_NAMES = EVIL.map(lambda text: re.sub(r"[/\x00]", "", text))


def steering(text: str) -> set[str]:
    """The characters that steer what shows them, by Unicode's database; line ends and tabs are the command's own."""
    kinds = ("Cc", "Cs", "Zl", "Zp")
    return {char for char in text if char not in "\n\t" and (unicodedata.category(char) in kinds or char in BIDI)}


def said(*words: str) -> str:
    """The output of a command on both streams. It may fail, but never with a traceback."""
    ended = call(*words)
    text = ended.stdout + ended.stderr
    assert ended.returncode in (0, 1, 2)
    assert text.strip()
    assert steering(text) == set(), ascii(text)
    return text


@settings(max_examples=20)
@given(EVIL, FILE_NAMES, st.sampled_from(["key", "value", "model", "tag"]))
@pytest.mark.parametrize("words", [("plan",), ("plan", "--json"), ("choose", "--stack")])
def test_stack_files(
    tmp_path_factory: pytest.TempPathFactory, words: tuple[str, ...], text: str, name: str, where: str
) -> None:
    document = yaml.safe_load((ROOT / "Pulumi.timeslice.yaml").read_text())
    config = document["config"]
    if where == "key":
        config["tandem:sharing"][text] = 1
    elif where == "value":
        config["tandem:sharing"]["mode"] = text
    elif where == "model":
        config["tandem:models"][0]["name"] = text
    else:
        config["tandem:tags"] = {text: text}
    path = tmp_path_factory.mktemp("s") / f"Pulumi.{name}.yaml"
    path.write_text(yaml.safe_dump(document), encoding="utf-8")
    said(*words, str(path))


@settings(max_examples=10)
@given(FILE_NAMES)
@pytest.mark.parametrize("words", [(), ("models", "inspect"), ("chat", "--url"), ("report",)])
def test_arguments(words: tuple[str, ...], text: str) -> None:
    said(*words, text)


@pytest.fixture(scope="module")
def evil() -> Iterator[FakeOllama]:
    with ollama() as server:
        yield server


@settings(max_examples=10)
@given(EVIL, st.sampled_from(["", "says", "refuses"]))
def test_servers(tmp_path_factory: pytest.TempPathFactory, evil: FakeOllama, text: str, fault: str) -> None:
    evil.version = evil.digest = evil.error = text
    evil.models, evil.pieces, evil.fault = [f"{text}1"], [text, text], fault
    transcript = tmp_path_factory.mktemp("t") / "t.md"
    said("chat", "--url", f"a={evil.url}", "--url", f"b={evil.url}", "--transcript", str(transcript), "--turns", "2")
    assert not transcript.exists() or steering(transcript.read_text(encoding="utf-8")) == set()


def test_a_terminal_gets_only_colours_and_moves_of_richs_own() -> None:
    seen = replace(facts(), pods=[pending("llama2-7b", WORST), restarting("mistral-7b", WORST)])
    verdict = Verdict(stack=WORST, cluster=WORST, checks=list(checks(seen).values()), waited_s=0)
    out = io.StringIO()
    console = open_console(file=out, force_terminal=True, width=100)
    screen.verdict(verdict, console)
    with console.status(WORST):
        pass
    assert "\x1b[1;31m" in out.getvalue()
    own = re.sub(r"\x1b\[(\d+(;\d+)*m|\?25[lh]|\d*[AK])", "", out.getvalue())
    assert steering(own) <= {"\r"}
    assert "owned" in own


def test_names_and_errors_of_aws(emulated: Emulated, creation: Creation) -> None:
    named = WORST.translate(dict.fromkeys(range(0x20)))  # EC2 answers in XML, which has no C0
    creation.volumes({**OURS, "Name": named, named: named})
    leftovers = ("leftovers", "timeslice", "--region", "us-east-1")
    assert "vol-" in said(*leftovers)
    emulated.denied = {"DescribeVolumes": WORST}
    assert "owned" in said(*leftovers)
