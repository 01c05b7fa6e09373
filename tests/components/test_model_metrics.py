"""The exporter of metrics: what it makes of each reply. tests/ollama uses the real server."""

import json
import signal
import socket
import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, suppress
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from components.ollama_pair import model_metrics
from components.ollama_pair.model_metrics import Exporter, Sample, Source, collect, render

pytestmark = pytest.mark.slow

TAG = "llama2:7b"
ENTRY = {
    "name": TAG,
    "model": TAG,
    "size": 5_137_025_024,
    "digest": "2ae6f6dd7a3dd734790bbbf58b8909a606e0e7e97e94b7604e0aa7ae4490e6d8",
    "details": {"format": "gguf"},
    "expires_at": "2024-06-04T14:38:31.83753-07:00",
    "size_vram": 5_137_025_024,
    "context_length": 4096,
}
"""The example of Ollama's own documentation (ollama v0.32.15 docs/api.md), with the name of a model of ours."""
EXPIRES = 1_717_537_111.83753
"""That time in seconds since 1970: `date -d 2024-06-04T14:38:31.83753-07:00 +%s.%N`."""
ENGINE = """# HELP llamacpp:prompt_tokens_total Number of prompt tokens processed, excluding cached tokens
# TYPE llamacpp:prompt_tokens_total counter
llamacpp:prompt_tokens_total 301
# HELP llamacpp:prompt_tokens_cached_total Number of prompt tokens reused from the cache
# TYPE llamacpp:prompt_tokens_cached_total counter
llamacpp:prompt_tokens_cached_total 12
# HELP llamacpp:prompt_seconds_total Total time spent processing prompts
# TYPE llamacpp:prompt_seconds_total counter
llamacpp:prompt_seconds_total 0.25
# HELP llamacpp:tokens_predicted_total Number of generation tokens processed
# TYPE llamacpp:tokens_predicted_total counter
llamacpp:tokens_predicted_total 1.23457e+06
# HELP llamacpp:tokens_predicted_seconds_total Total time spent generating tokens
# TYPE llamacpp:tokens_predicted_seconds_total counter
llamacpp:tokens_predicted_seconds_total 61.5
# HELP llamacpp:predicted_tokens_seconds Average generation throughput in tokens/s
# TYPE llamacpp:predicted_tokens_seconds gauge
llamacpp:predicted_tokens_seconds nan
# HELP llamacpp:requests_processing Number of requests processing
# TYPE llamacpp:requests_processing gauge
llamacpp:requests_processing 1
# HELP llamacpp:requests_deferred Number of requests deferred
# TYPE llamacpp:requests_deferred gauge
llamacpp:requests_deferred 2
"""
"""In the form of llama.cpp 0c1e57098, tools/server/server-task.cpp, to_metrics: numbers have six digits."""
Say = Callable[[socket.socket], None]


def reply(body: bytes, status: str = "200 OK", *headers: str) -> Say:
    """A server that gives this reply."""
    head = "\r\n".join([f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", *headers, "", ""])
    return lambda client: client.sendall(head.encode() + body)


def listing(*entries: object) -> Say:
    return reply(json.dumps({"models": entries}).encode())


class Servers:
    """Servers on 127.0.0.1, each with its own behaviour, and the kernel's tables that list them."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self.net, self._stack, self._lines = folder, stack, {"tcp": [" sl head"], "tcp6": [" sl head"]}
        self._write()

    def start(self, say: Say) -> int:
        """Returns its port."""
        server = self._stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        threading.Thread(target=self._serve, args=(server, say), daemon=True).start()
        return int(server.getsockname()[1])

    def list_socket(self, local: str, port: int, remote: str, state: str, table: str = "tcp") -> None:
        """Adds a line as proc_pid_net(5) describes it. Addresses are hexadecimal."""
        rest = "00000000:00000000 00:00000000 00000000     0        0 1 1 0000000000000000 100 0 0 10 0"
        self._lines[table].append(f"   0: {local}:{port:04X} {remote}:0000 {state} {rest}")
        self._write()

    def start_engine(self, say: Say) -> None:
        self.list_socket("0100007F", self.start(say), "00000000", "0A")

    def _write(self) -> None:
        for table, lines in self._lines.items():
            (self.net / table).write_text("\n".join([*lines, ""]))

    def _serve(self, server: socket.socket, say: Say) -> None:
        with suppress(OSError):
            while True:
                client, _ = server.accept()
                threading.Thread(target=self._answer, args=(client, say), daemon=True).start()

    def _answer(self, client: socket.socket, say: Say) -> None:
        with closing(client), suppress(OSError):
            client.recv(65536)
            say(client)


@pytest.fixture
def servers(tmp_path: Path) -> Iterator[Servers]:
    with ExitStack() as stack:
        yield Servers(tmp_path, stack)


def read(servers: Servers, say: Say, model: str = TAG, id: str = "llama2-7b") -> list[Sample]:
    url = f"http://127.0.0.1:{servers.start(say)}"
    return collect(Source(id=id, model=model, server=url, sockets=servers.net))


def parsed(samples: list[Sample]) -> dict[str, dict[str, float]]:
    """The values by model and name, as Prometheus' own library reads the text."""
    found: dict[str, dict[str, float]] = {}
    for family in text_string_to_metric_families(render(samples)):
        for sample in family.samples:
            assert (sample.name.endswith("_total")) == (family.type == "counter")
            values = found.setdefault(sample.labels["model"], {})
            assert sample.name not in values
            values[sample.name] = sample.value
    return found


def test_a_loaded_model_is_described_with_its_engines_counters(servers: Servers) -> None:
    servers.start_engine(reply(ENGINE.encode()))
    samples = read(servers, listing(ENTRY))
    assert {sample.labels["id"] for sample in samples} == {"llama2-7b"}
    assert parsed(samples) == {
        TAG: {
            "tandem_ollama_up": 1,
            "tandem_client_connections": 0,
            "tandem_model_loaded": 1,
            "tandem_model_size_bytes": 5_137_025_024,
            "tandem_model_size_vram_bytes": 5_137_025_024,
            "tandem_model_context_tokens": 4096,
            "tandem_model_expires_timestamp_seconds": EXPIRES,
            "tandem_prompt_tokens_total": 301,
            "tandem_prompt_seconds_total": 0.25,
            "tandem_tokens_predicted_total": 1_234_570,
            "tandem_tokens_predicted_seconds_total": 61.5,
            "tandem_requests_processing": 1,
            "tandem_requests_deferred": 2,
        }
    }


@pytest.mark.parametrize("body", [b'{"models": []}', b'{"models": null}'])
def test_a_server_without_a_loaded_model_has_no_size(servers: Servers, body: bytes) -> None:
    servers.start_engine(reply(ENGINE.encode()))
    expected = {"tandem_ollama_up": 1, "tandem_model_loaded": 0, "tandem_client_connections": 0}
    assert parsed(read(servers, reply(body))) == {TAG: expected}


def test_a_name_without_a_tag_is_the_latest_one(servers: Servers) -> None:
    entry = {**ENTRY, "name": "mine:latest"}
    assert parsed(read(servers, listing(entry), model="mine"))["mine"]["tandem_model_loaded"] == 1


def test_another_model_than_the_planned_one_has_its_own_series(servers: Servers) -> None:
    servers.start_engine(reply(ENGINE.encode()))
    found = parsed(read(servers, listing({**ENTRY, "name": "other:1b"})))
    assert (found[TAG]["tandem_model_loaded"], found["other:1b"]["tandem_model_loaded"]) == (0, 1)
    assert found["other:1b"]["tandem_tokens_predicted_total"] == 1_234_570
    assert "tandem_tokens_predicted_total" not in found[TAG]


def test_of_two_loaded_models_nobody_knows_which_one_an_engine_serves(servers: Servers) -> None:
    servers.start_engine(reply(ENGINE.encode()))
    found = parsed(read(servers, listing(ENTRY, {**ENTRY, "name": "other:1b"})))
    assert found[TAG]["tandem_model_loaded"] == found["other:1b"]["tandem_model_loaded"] == 1
    assert "tandem_tokens_predicted_total" not in found[TAG] | found["other:1b"]


def test_the_same_model_twice_is_one_series(servers: Servers) -> None:
    found = parsed(read(servers, listing(ENTRY, {**ENTRY, "size": 1})))
    assert found[TAG]["tandem_model_size_bytes"] == 5_137_025_024


def test_a_server_with_many_models_is_cut_short(servers: Servers) -> None:
    entries = [{**ENTRY, "name": f"m{number}"} for number in range(1000)]
    assert len(parsed(read(servers, listing(*entries)))) == 16 + 1


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ('a"b\\c', 'a"b\\c'),
        ("a\\nb", "a\\nb"),
        ('a"} 1\ntandem_ollama_up{model="x', 'a"} 1?tandem_ollama_up{model="x'),
        ("\x1b[31mred\u202e", "?[31mred?"),
        ("\ud800", "?"),
        ("Ü 模型", "Ü 模型"),
        ("n" * 100_000, "n" * 200),
        ("", ""),
    ],
)
def test_a_hostile_name_is_one_printable_label(servers: Servers, name: str, shown: str) -> None:
    samples = read(servers, listing({**ENTRY, "name": name}), model="", id=name)
    text = render(samples)
    assert text.replace("\n", "").isprintable()
    text.encode()
    assert parsed(samples)[shown]["tandem_model_size_bytes"] == 5_137_025_024
    assert {sample.labels["id"] for sample in samples} == {shown}


@pytest.mark.parametrize("wrong", [None, -1, 2**64, 1.5, True, "1", "9999-99-99T00:00:00Z"])
@pytest.mark.parametrize("key", ["size", "size_vram", "context_length", "expires_at"])
def test_a_malformed_field_is_left_out(servers: Servers, key: str, wrong: object) -> None:
    whole, part = parsed(read(servers, listing(ENTRY)))[TAG], parsed(read(servers, listing({**ENTRY, key: wrong})))[TAG]
    assert len(whole.keys() - part.keys()) == 1
    assert part.keys() < whole.keys()


def test_a_model_that_never_expires_does_so_in_the_far_future(servers: Servers) -> None:
    """Ollama writes "never" as 2318-... with nine digits of a second."""
    entry = {**ENTRY, "expires_at": "2318-03-01T12:00:00.123456789Z"}
    # `date -d 2318-03-01T12:00:00Z +%s`
    expires = parsed(read(servers, listing(entry)))[TAG]["tandem_model_expires_timestamp_seconds"]
    assert expires == pytest.approx(10_986_926_400.123456, abs=1e-5)


def drip_headers(client: socket.socket) -> None:
    client.sendall(b"HTTP/1.1 200 OK\r\n")
    while True:
        client.sendall(b"X")
        threading.Event().wait(0.05)


def drip_after_a_whole_list(client: socket.socket) -> None:
    """Cut off at the time limit, it looks complete."""
    client.sendall(b'HTTP/1.1 200 OK\r\n\r\n{"models": []}')
    while True:
        client.sendall(b" ")
        threading.Event().wait(0.05)


def never_end(client: socket.socket) -> None:
    client.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
    while True:
        client.sendall(b" " * 65536)


def say_nothing(client: socket.socket) -> None:
    client.recv(1)


WRONG: dict[str, Say] = {
    "nothing": say_nothing,
    "empty": reply(b""),
    "no object": reply(b"[]"),
    "no models": reply(b"{}"),
    "models are a number": reply(b'{"models": 1}'),
    "a model is a number": reply(b'{"models": [1]}'),
    "deeply nested": reply(b"[" * 500_000),
    "a number of a million digits": reply(b'{"models": ' + b"9" * 1_000_000 + b"}"),
    "no text": reply(b"\xff\xfe\x00"),
    "packed by its own account": reply(b'{"models": []}', "200 OK", "Content-Encoding: gzip"),
    "an error": reply(b'{"models": []}', "500 Internal Server Error"),
    "cut off": lambda client: client.sendall(b'HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n{"models": []}'),
    "no HTTP": lambda client: client.sendall(b"SSH-2.0-OpenSSH_9.2\r\n"),
    "too large": reply(b'{"models": []}' + b" " * 2**20),
    "without end": never_end,
    "a byte now and then after a whole list": drip_after_a_whole_list,
    "a header now and then": drip_headers,
}


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model_metrics, "SECONDS", 0.4)


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("wrong", WRONG)
def test_a_server_that_answers_like_no_ollama_is_down_and_its_model_unknown(servers: Servers, wrong: str) -> None:
    assert parsed(read(servers, WRONG[wrong])) == {TAG: {"tandem_ollama_up": 0, "tandem_client_connections": 0}}


def test_a_closed_port_is_a_server_that_is_down() -> None:
    found = collect(Source(id="a", model=TAG, server="http://127.0.0.1:1"))
    assert parsed(found) == {TAG: {"tandem_ollama_up": 0}}


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("wrong", ["nothing", "no text", "an error", "no HTTP", "without end", "a header now and then"])
def test_an_engine_that_answers_nonsense_is_left_out(servers: Servers, wrong: str) -> None:
    servers.start_engine(WRONG[wrong])
    found = parsed(read(servers, listing(ENTRY)))[TAG]
    assert found["tandem_model_loaded"] == 1
    assert "tandem_tokens_predicted_total" not in found


@pytest.mark.parametrize("value", ["nan", "-1", "1e999"])
def test_a_counter_that_cannot_be_is_left_out(servers: Servers, value: str) -> None:
    text = f"llamacpp:tokens_predicted_total {value}\nllamacpp:prompt_tokens_total 5\nllamacpp:requests_deferred 0\n"
    servers.start_engine(reply(text.encode()))
    found = parsed(read(servers, listing(ENTRY)))[TAG]
    assert (found["tandem_prompt_tokens_total"], found["tandem_requests_deferred"]) == (5, 0)
    assert "tandem_tokens_predicted_total" not in found


def test_the_engine_is_found_among_other_listeners(servers: Servers) -> None:
    servers.start_engine(reply(b"404 page not found", "404 Not Found"))
    servers.start_engine(reply(ENGINE.encode()))
    # Other addresses are not the engine's, and a connection is not a listener.
    elsewhere = servers.start(reply(b"llamacpp:tokens_predicted_total 7\n"))
    servers.list_socket("00000000", elsewhere, "00000000", "0A")
    servers.list_socket("0100007F", elsewhere, "0100007F", "01")
    assert parsed(read(servers, listing(ENTRY)))[TAG]["tandem_tokens_predicted_total"] == 1_234_570


def test_connections_from_outside_the_pod_are_counted(servers: Servers) -> None:
    mapped, pod = "0000000000000000FFFF0000{}", "0A00000A"
    for table, local, remote, state, port in (
        ("tcp6", mapped.format(pod), mapped.format("0500000A"), "01", 11434),
        ("tcp6", mapped.format(pod), mapped.format("0600000A"), "01", 11434),
        ("tcp", pod, "0700000A", "01", 11434),
        # The sidecars of the pod, a finished connection, the server's own socket, and another port.
        ("tcp6", mapped.format("0100007F"), mapped.format("0100007F"), "01", 11434),
        ("tcp6", "0" * 24 + "01000000", "0" * 24 + "01000000", "01", 11434),
        ("tcp", "0100007F", "0100007F", "01", 11434),
        ("tcp6", mapped.format(pod), mapped.format("0500000A"), "06", 11434),
        ("tcp6", "0" * 32, "0" * 32, "0A", 11434),
        ("tcp", pod, "0500000A", "01", 9410),
    ):
        servers.list_socket(local, port, remote, state, table)
    source = Source(id="a", model=TAG, server="http://127.0.0.1:11434", sockets=servers.net)
    assert model_metrics.count_clients(servers.net, source.server) == 3


def test_the_real_table_lists_a_listener_of_this_machine() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        assert ("0100007F", server.getsockname()[1], "00000000", "0A") in model_metrics.connections(Path("/proc/net"))


@pytest.mark.parametrize("is_ready", [True, False])
def test_the_readiness_is_that_of_the_watching_sidecar(servers: Servers, tmp_path: Path, is_ready: bool) -> None:
    if is_ready:
        (tmp_path / "ready").touch()
    url = f"http://127.0.0.1:{servers.start(listing())}"
    found = parsed(collect(Source(id="a", model=TAG, server=url, ready=tmp_path / "ready")))
    assert found[TAG]["tandem_model_ready"] == is_ready


def test_the_exporter_serves_text_and_json_and_nothing_else() -> None:
    sample = Sample("tandem_ollama_up", {"id": "a", "model": 'Ü"'}, 1.0)
    with Exporter(("127.0.0.1", 0), lambda: [sample]) as exporter:
        threading.Thread(target=exporter.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{exporter.server_port}"
        with urllib.request.urlopen(f"{url}/metrics", timeout=60) as answer:
            assert answer.headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
            [family] = text_string_to_metric_families(answer.read().decode())
        assert family.samples[0].labels == sample.labels
        with urllib.request.urlopen(f"{url}/metrics.json", timeout=60) as answer:
            assert json.load(answer) == [{"name": sample.name, "labels": sample.labels, "value": 1.0}]
        with pytest.raises(urllib.error.HTTPError, match="404"):
            urllib.request.urlopen(f"{url}/ready", timeout=60)
        exporter.shutdown()


def test_a_client_that_hangs_up_is_no_error_and_everything_else_is(capsys: pytest.CaptureFixture[str]) -> None:
    with Exporter(("127.0.0.1", 0), list) as exporter:
        for error in (ConnectionResetError("hung up"), ValueError("ours")):
            try:
                raise error
            except (OSError, ValueError):
                exporter.handle_error(None, ("127.0.0.1", 1))
    said = capsys.readouterr().err
    assert ("hung up" in said, "ours" in said) == (False, True)


def test_the_sidecar_reads_its_model_and_ends_with_its_pod(monkeypatch: pytest.MonkeyPatch) -> None:
    served: list[Exporter] = []
    sources: list[Source] = []
    handlers: dict[int, Any] = {}
    monkeypatch.setattr(Exporter, "serve_forever", lambda exporter: served.append(exporter))
    monkeypatch.setattr(model_metrics, "collect", sources.append)
    monkeypatch.setattr(signal, "signal", handlers.__setitem__)
    model_metrics.main({"ID": "a", "MODEL": TAG, "SERVER": "http://s", "PORT": "0", "READY": "/watch/ready"})
    served[0].samples()
    ready = Path("/watch/ready")
    assert sources == [Source(id="a", model=TAG, server="http://s", sockets=Path("/proc/net"), ready=ready)]
    # The network policy restricts who may connect, so it listens on every address of the pod.
    assert served[0].server_address[0] == "0.0.0.0"
    with pytest.raises(SystemExit) as ended:
        handlers[signal.SIGTERM]()
    assert ended.value.code == 0


def test_every_metric_is_described_and_none_is_without_a_unit() -> None:
    every: list[Any] = [Sample(name, {"id": "a", "model": "m"}, 1.0) for name in model_metrics.FAMILIES]
    families = {family.name: family for family in text_string_to_metric_families(render(every))}
    assert len(families) == len(model_metrics.FAMILIES)
    assert all(family.documentation.endswith(".") for family in families.values())
    assert set(model_metrics.ENGINE.values()) <= set(model_metrics.FAMILIES)
