"""What a result says of the servers and of the client."""

import datetime
import os
import re
import sys
from pathlib import Path

import pytest

from tandem.bench import conditions
from tandem.bench_results.result import Server
from tandem.deployed.endpoints import Endpoint
from tandem.deployed.ollama import Ollama
from tests.tandem.fake_network import Network, transport
from tests.tandem.fake_ollama import FakeOllama


def test_a_session_has_the_call_the_servers_and_the_client() -> None:
    network = Network(FakeOllama(["other:1", "x:1"], version="0.40", digest="e"))
    asked = Ollama(Endpoint("a", "http://h", "x:1"), transport=transport(network))
    found = conditions.describe(["bench", "dev"], "salt", [asked])
    assert (found.command, found.salt) == (["tandem", "bench", "dev"], "salt")
    assert datetime.datetime.fromisoformat(found.begun).utcoffset() == datetime.timedelta()
    # The details are those of `tests/tandem/fake_ollama.py`.
    details = {"family": "llama", "parameter_size": "1B", "quantization": "Q4_0"}
    assert found.servers == [Server(id="a", url="http://h", model="x:1", ollama="0.40", digest="e", **details)]
    machine, here = found.machine, os.uname()
    assert (machine.system, machine.cpus) == (f"{here.sysname} {here.release}", os.cpu_count())
    assert machine.python == sys.version.split()[0]


def test_the_processor_is_that_of_the_kernel_or_its_kind_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """proc(5): a field for each processor."""
    said = "processor\t: 0\nmodel name\t: Xeon: 2.5 GHz\nflags\t: fpu\nmodel name\t: other\n"
    monkeypatch.setattr(Path, "read_text", lambda *_, **__: said)
    assert conditions._processor() == "Xeon: 2.5 GHz"
    monkeypatch.setattr(Path, "read_text", lambda *_, **__: re.sub("model name.*", "", said))
    assert conditions._processor() == os.uname().machine
