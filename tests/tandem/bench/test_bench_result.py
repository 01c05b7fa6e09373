"""The result of `tandem bench`: one writer at a time, complete files, and which prompts went to which server."""

import asyncio
import dataclasses
import errno
import os
import signal
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpcore
import pytest

from tandem.bench.prompts import TASK
from tandem.bench.run import Measured
from tandem.bench.stream import Sender
from tandem.bench_results.result_file import NotWrittenError, read, reserve, write
from tandem.terminal import CallError
from tests.command import Ended
from tests.tandem.conftest import Servers
from tests.tandem.fake_ollama import loaded
from tests.tandem.results import shared

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[3]


class NeverConnected(httpcore.AsyncNetworkBackend):
    """A server that accepts no connection."""

    async def connect_tcp(self, *_: object, **__: object) -> httpcore.AsyncNetworkStream:
        await asyncio.Event().wait()
        raise AssertionError


@contextmanager
def interrupted_after(servers: Servers, runs: int) -> Iterator[None]:
    """Presses Ctrl-C during the measurement after this many runs."""
    from tandem.bench.run import Bench

    measure, done = Bench.measure, 0

    async def counted(self: Bench, case: object) -> Measured:
        nonlocal done
        done += 1
        if done > runs:
            signal.raise_signal(signal.SIGINT)
        return await measure(self, case)  # type: ignore[arg-type]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Bench, "measure", counted)
        yield


def test_a_resumed_benchmark_notes_its_own_servers_and_uses_new_prompts(servers: Servers) -> None:
    with interrupted_after(servers, 1):
        assert servers.bench().returncode == 130
    servers.change(version="0.99.0", digest="another", quantization="F16")
    ended = servers.bench("--resume")
    assert ended.returncode == 0
    assert "Server a" not in ended.stdout
    result = read(servers.path)
    assert [run.session for run in result.runs] == [0, 1, 1]
    shown = [[(one.ollama, one.digest, one.quantization) for one in session.servers] for session in result.sessions]
    assert shown == [[("0.32.15", "d", "Q4_0")] * 2, [("0.99.0", "another", "F16")] * 2]
    assert len(servers.prompts) == len(set(servers.prompts))


def test_no_prompt_is_used_twice_however_often_a_benchmark_is_resumed(servers: Servers) -> None:
    with interrupted_after(servers, 1):
        servers.bench("--repeats", "2")
    for runs in (0, 1, 0, 2):
        with interrupted_after(servers, runs):
            servers.bench("--repeats", "2", "--resume")
    assert servers.bench("--repeats", "2", "--resume").returncode == 0
    assert len(read(servers.path).runs) == 6
    texts = [prompt.removesuffix(TASK) for prompt in servers.prompts]
    assert len(set(texts)) == len(texts) > 40


def test_a_resumed_benchmark_reports_that_a_server_is_another_one(servers: Servers) -> None:
    with interrupted_after(servers, 1):
        servers.bench()
    servers.change(version="0.99.0", digest="b" * 64)
    with interrupted_after(servers, 1):
        ended = servers.bench("--resume", "--json")
    [warning] = ended.json["warnings"]  # b had no earlier run
    change = f"Ollama 0.99.0 instead of 0.32.15, digest {'b' * 12} instead of d. "
    assert warning.startswith(f"Server a differs from the other runs: {change}")
    servers.change(version="1.0")
    ended = servers.bench("--resume")
    assert ended.returncode == 0
    first, second = ended.stderr.split("warning: ")[1:]
    assert first.startswith("Server a differs from the other runs: Ollama 1.0 instead of 0.32.15")
    assert second.startswith("Server b differs from the other runs: Ollama 1.0 instead of 0.99.0.")


def test_the_warning_at_the_start_names_the_server_that_a_tie_excludes(servers: Servers) -> None:
    with interrupted_after(servers, 3):
        servers.bench("--repeats", "2")
    servers.change(digest="cd" * 32)
    ended = servers.bench("--repeats", "2", "--resume")
    assert ended.returncode == 0
    difference = "from the other runs: digest cdcdcdcdcdcd instead of d"
    assert f"warning: Server b differs {difference}. " in ended.stderr
    left_out = f"3 of 6 runs are excluded: server a differed {difference}; server b differed"
    assert left_out in ended.stdout


def test_a_return_to_the_usual_server_is_no_change(servers: Servers) -> None:
    for digest in ("d", "e"):
        servers.change(digest=digest)
        with interrupted_after(servers, 3):
            servers.bench("--repeats", "3", "--resume")
    servers.change(digest="d")
    ended = servers.bench("--repeats", "3", "--resume")
    assert ended.returncode == 0
    assert "warning" not in ended.stderr
    assert "3 of 9 runs are excluded" in ended.stdout


def test_a_server_at_another_address_is_the_same_server(servers: Servers) -> None:
    with interrupted_after(servers, 1):
        servers.bench()
    result = read(servers.path)
    moved = [dataclasses.replace(one, url="http://old") for one in result.servers]
    result.sessions[0] = dataclasses.replace(result.sessions[0], servers=moved)
    write(result, servers.path)
    ended = servers.bench("--resume")
    assert ended.returncode == 0
    assert "warning" not in ended.stderr


def test_the_salt_of_an_earlier_call_is_refused(servers: Servers) -> None:
    with interrupted_after(servers, 1):
        servers.bench("--salt", "x")
    ended = servers.bench("--salt", "x", "--resume")
    assert ended.returncode == 2
    assert "Salt x was already used" in ended.stderr
    assert servers.bench("--salt", "y", "--resume").returncode == 0
    assert [session.salt for session in read(servers.path).sessions] == ["x", "y"]


def test_a_second_benchmark_with_the_same_file_stops_at_once(servers: Servers, tmp_path: Path) -> None:
    alias = tmp_path / "alias.json"
    alias.symlink_to(servers.path)
    shown = f"error: {servers.path} is in use by another `tandem bench`. " + (
        "Wait until it ends, or choose another file with -o.\n"
    )
    with reserve(servers.path):
        for name in (servers.path, alias):
            assert servers.bench(path=name) == servers.bench("--resume", path=name) == Ended(2, "", shown)
        assert servers.bench(path=tmp_path / "other.json").returncode == 0
    assert servers.prompts
    assert not servers.path.exists()
    assert servers.bench().returncode == 0
    assert sorted(os.listdir(tmp_path)) == ["alias.json", "other.json", "r.json"]


def test_the_file_is_reserved_from_the_first_request_to_the_last(
    servers: Servers, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried = []

    def other(*_: object) -> None:
        with pytest.raises(CallError, match="another `tandem bench`"), reserve(servers.path):
            pass
        tried.append(servers.path.exists())

    monkeypatch.setattr("tandem.bench.progress.Progress.begins", other)
    monkeypatch.setattr("tandem.bench.progress.Progress.ended", other)
    assert servers.bench().returncode == 0
    assert tried == [False, True, True, True, True, True]


def test_a_killed_benchmark_leaves_no_lock_and_its_remains_do_no_harm(servers: Servers, tmp_path: Path) -> None:
    program = (
        "import os, sys; from pathlib import Path; from tandem.bench_results.result_file import reserve\n"
        "with reserve(Path(sys.argv[1])): os.kill(os.getpid(), 9)"
    )
    done = subprocess.run([sys.executable, "-c", program, str(servers.path)], cwd=ROOT)
    assert done.returncode == -signal.SIGKILL
    assert os.listdir(tmp_path) == [".r.json.lock"]
    (tmp_path / ".r.json.part").write_text("half")
    assert servers.bench().returncode == 0
    assert os.listdir(tmp_path) == ["r.json"]


def test_a_lock_that_somebody_deletes_is_no_error(tmp_path: Path) -> None:
    with reserve(tmp_path / "r.json"):
        (tmp_path / ".r.json.lock").unlink()
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("more", [(), ("--resume",)])
def test_an_unusable_path_is_one_line(servers: Servers, tmp_path: Path, more: tuple[str, ...]) -> None:
    absent = tmp_path / "none" / "r.json"
    shown = f"error: {absent} cannot be written: No such file or directory. Choose another file with -o.\n"
    assert servers.bench(*more, path=absent) == Ended(2, "", shown)
    shown = f"error: {tmp_path} is a folder. Choose a file with -o.\n"
    assert servers.bench(*more, path=tmp_path) == Ended(2, "", shown)


def full_disk(*_: object) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_a_full_disk_keeps_every_written_run_and_shows_the_last(
    servers: Servers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with interrupted_after(servers, 1):
        servers.bench()
    kept = servers.path.read_bytes()
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full_disk)
        ended = servers.bench("--resume")
    assert ended.returncode == 1
    assert "b alone" in ended.stdout  # the run that could not be written
    why = f"{servers.path} cannot be written: No space left on device."
    assert ended.stderr.endswith(f"error: {why} 1 run is in {servers.path}. Continue with --resume.\n")
    assert "Traceback" not in ended.stderr
    assert (servers.path.read_bytes(), os.listdir(tmp_path)) == (kept, ["r.json"])
    assert servers.bench("--resume").returncode == 0
    assert len(read(servers.path).runs) == 3


def test_a_full_disk_at_the_first_run_is_one_line(
    servers: Servers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "fsync", full_disk)
    ended = servers.bench("--json")
    assert ended.json["error"].endswith("cannot be written: No space left on device. No run was kept.")
    assert (ended.returncode, ended.json["complete"], ended.json["runs"]) == (1, False, 1)
    assert os.listdir(tmp_path) == []


def test_a_result_that_cannot_be_written_leaves_the_folder_unchanged(tmp_path: Path) -> None:
    path = tmp_path / "r.json"
    path.mkdir()
    with pytest.raises(NotWrittenError, match="Is a directory"):
        write(shared("mps", (20.0, 40.0), (40.0, 60.0)), path)
    assert os.listdir(tmp_path) == ["r.json"]


@pytest.mark.parametrize(
    ("place", "shown"),
    [
        ((2**30, 2**29), "b was partly on the CPU: 50% of its 1,024 MiB was on the GPU."),
        ((5000, 0), "b was on the CPU: 0% of its 1 MiB was on the GPU."),
        ((10**6, 10**6 - 1), "b was partly on the CPU: 99% of its 1 MiB was on the GPU."),
        (None, "the memory of b is unknown: its server did not list it as loaded."),
        ((0, 0), "the memory of b is unknown: its server did not list it as loaded."),
    ],
)
def test_a_model_outside_the_gpu_stops_the_benchmark_before_its_first_run(
    place: tuple[int, int] | None, shown: str, servers: Servers, tmp_path: Path
) -> None:
    size, size_vram = place or (0, 0)
    servers["b"].answers["/api/ps"] = {"models": [loaded("tiny:1b", size, size_vram)] if place else []}
    fix = "Results would not be comparable. Give it more GPU memory, or pass --allow-cpu to measure anyway."
    assert servers.bench() == Ended(1, "", f"error: {shown}\nerror: {fix}\n")
    assert len(servers.prompts) == 2  # one to load each model
    assert os.listdir(tmp_path) == []
    ended = servers.bench("--allow-cpu")
    assert ended.returncode == 0
    assert "2 of 3 runs are excluded: " + shown.removesuffix(".") in ended.stdout
    assert len(read(servers.path).runs) == 3


def test_the_version_in_a_result_is_that_of_our_distribution(servers: Servers, monkeypatch: pytest.MonkeyPatch) -> None:
    """`tandem` belongs to another author on the package index, and the metadata of a checkout may be outdated."""
    servers.bench(path=servers.path.with_name("of-the-checkout.json"))
    of_the_checkout = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
    [session] = read(servers.path.with_name("of-the-checkout.json")).sessions
    assert session.versions["tandem"] == of_the_checkout
    monkeypatch.setattr("tandem.installation.is_checkout", lambda: False)
    monkeypatch.setattr("importlib.metadata.version", {"tandem-gpu": "1.2.3", "tandem": "9"}.__getitem__)
    servers.bench()
    assert read(servers.path).sessions[0].versions["tandem"] == "1.2.3"


def test_a_resumed_benchmark_checks_again_where_the_models_are(servers: Servers) -> None:
    with interrupted_after(servers, 1):
        servers.bench()
    kept = servers.path.read_bytes()
    servers["a"].size_vram = 0
    assert servers.bench("--resume").returncode == 1
    assert servers.path.read_bytes() == kept


def test_a_complete_benchmark_that_is_resumed_makes_no_request(servers: Servers) -> None:
    ended = servers.bench("--resume")
    assert ended.returncode == 0
    assert f"warning: {servers.path} does not exist; starting a new result\n" in ended.stderr
    asked, kept = len(servers.prompts), servers.path.read_bytes()
    servers["a"].size_vram = 0
    ended = servers.bench("--resume")
    assert ended.returncode == 0
    assert (len(servers.prompts), servers.path.read_bytes()) == (asked, kept)
    assert "the result already has all runs; nothing to measure\n" in ended.stderr


def test_a_server_that_is_too_slow_is_reported_with_the_timeout(
    servers: Servers, monkeypatch: pytest.MonkeyPatch
) -> None:
    def sender(url: str, **options: Any) -> Sender:
        return Sender(url, **options, network=NeverConnected())

    monkeypatch.setattr("tandem.bench.run.Sender", sender)
    why = "a did not answer its first request (not complete within 0.001 s)"
    shown = f"error: {why}. Raise --timeout or repair that server, then repeat the command.\n"
    assert servers.bench("--timeout", "0.001", names="a") == Ended(1, "", shown)


def test_a_server_that_refuses_its_first_request_stops_the_benchmark(servers: Servers, tmp_path: Path) -> None:
    servers["a"].fault = "busy"
    why = "a did not answer its first request (503: server busy)"
    assert servers.bench("--allow-cpu") == Ended(1, "", f"error: {why}. Repair that server, then repeat the command.\n")
    assert os.listdir(tmp_path) == []


def test_the_result_is_readable_even_if_the_clock_was_set(servers: Servers) -> None:
    servers.late_ns = -1_000_000_000
    assert servers.bench(names="a").returncode == 0
    assert read(servers.path).runs[0].rows[0].arrivals_us == [0] * 4
