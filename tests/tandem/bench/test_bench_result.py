"""The result of `tandem bench`: one writer at a time, whole files, and who was measured with which prompts."""

import asyncio
import dataclasses
import errno
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpcore
import pytest

from tandem.bench.progress import show
from tandem.bench.prompts import TASK
from tandem.bench.run import Measured
from tandem.bench.stream import Sender
from tandem.measured.result_file import NotWrittenError, read, reserve, write
from tandem.measured.summary import summary
from tandem.terminal import CallError
from tests.command import Printed
from tests.tandem.conftest import Servers
from tests.tandem.fake_ollama import loaded
from tests.tandem.results import shared

ROOT = Path(__file__).parents[3]


class NeverConnected(httpcore.AsyncNetworkBackend):
    """A server that takes no connection."""

    async def connect_tcp(self, *_: object, **__: object) -> httpcore.AsyncNetworkStream:
        await asyncio.Event().wait()
        raise AssertionError


@contextmanager
def interrupted_after(servers: Servers, runs: int) -> Iterator[None]:
    """Presses Ctrl-C while the run after so many is measured."""
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


def test_a_resumed_benchmark_notes_its_own_servers_and_uses_new_prompts(
    servers: Servers, tmp_path: Path, capsys: Printed
) -> None:
    path = tmp_path / "r.json"
    with interrupted_after(servers, 1):
        assert servers.bench(path) == 130
    servers.change(version="0.99.0", digest="another", quantization="F16")
    assert servers.bench(path, "--resume") == 0
    assert "warning" not in capsys.readouterr().out
    result = read(path)
    assert [run.session for run in result.runs] == [0, 1, 1]
    told = [[(one.ollama, one.digest, one.quantization) for one in session.servers] for session in result.sessions]
    assert told == [[("0.32.15", "d", "Q4_0")] * 2, [("0.99.0", "another", "F16")] * 2]
    assert len(servers.prompts) == len(set(servers.prompts))


def test_no_prompt_is_used_twice_however_often_a_benchmark_is_resumed(servers: Servers, tmp_path: Path) -> None:
    path = tmp_path / "r.json"
    with interrupted_after(servers, 1):
        servers.bench(path, "--repeats", "2")
    for runs in (0, 1, 0, 2):
        with interrupted_after(servers, runs):
            servers.bench(path, "--repeats", "2", "--resume")
    assert servers.bench(path, "--repeats", "2", "--resume") == 0
    assert len(read(path).runs) == 6
    texts = [prompt.removesuffix(TASK) for prompt in servers.prompts]
    assert len(set(texts)) == len(texts) > 40


def test_a_resumed_benchmark_says_that_a_server_is_another_one(
    servers: Servers, tmp_path: Path, capsys: Printed
) -> None:
    path = tmp_path / "r.json"
    with interrupted_after(servers, 1):
        servers.bench(path)
    capsys.readouterr()
    servers.change(version="0.99.0", digest="b" * 64)
    with interrupted_after(servers, 1):
        servers.bench(path, "--resume", "--json")
    [warning] = json.loads(capsys.readouterr().out)["warnings"]  # b had no run before
    change = f"Ollama 0.99.0 instead of 0.32.15, digest {'b' * 12} instead of d. "
    assert warning.startswith(f"Server a is different than in the other runs: {change}")
    servers.change(version="1.0")
    assert servers.bench(path, "--resume") == 0
    first, second = capsys.readouterr().err.split("warning: ")[1:]
    assert first.startswith("Server a is different than in the other runs: Ollama 1.0 instead of 0.32.15")
    assert second.startswith("Server b is different than in the other runs: Ollama 1.0 instead of 0.99.0.")


def test_the_warning_at_the_start_names_the_server_that_a_tie_leaves_out(
    servers: Servers, tmp_path: Path, capsys: Printed
) -> None:
    path = tmp_path / "r.json"
    with interrupted_after(servers, 3):
        servers.bench(path, "--repeats", "2")
    servers.change(digest="cd" * 32)
    capsys.readouterr()
    assert servers.bench(path, "--repeats", "2", "--resume") == 0
    out, err = capsys.readouterr()
    difference = "different than in the other runs: digest cdcdcdcdcdcd instead of d"
    assert f"tandem: warning: Server b is {difference}. " in err
    assert f"3 of 6 runs are not compared: server a was {difference}; server b was different" in out


def test_a_server_that_is_the_usual_one_again_is_no_change(servers: Servers, tmp_path: Path, capsys: Printed) -> None:
    path = tmp_path / "r.json"
    for digest in ("d", "e"):
        servers.change(digest=digest)
        with interrupted_after(servers, 3):
            servers.bench(path, "--repeats", "3", "--resume")
    servers.change(digest="d")
    capsys.readouterr()
    assert servers.bench(path, "--repeats", "3", "--resume") == 0
    out, err = capsys.readouterr()
    assert "warning" not in err
    assert "3 of 9 runs are not compared" in out


def test_a_server_at_another_address_is_the_same_server(servers: Servers, tmp_path: Path, capsys: Printed) -> None:
    path = tmp_path / "r.json"
    with interrupted_after(servers, 1):
        servers.bench(path)
    capsys.readouterr()
    result = read(path)
    result.sessions[0] = dataclasses.replace(
        result.sessions[0], servers=[dataclasses.replace(one, url="http://old") for one in result.servers]
    )
    write(result, path)
    assert servers.bench(path, "--resume") == 0
    assert "warning" not in capsys.readouterr().err


def test_the_salt_of_an_earlier_call_is_refused(servers: Servers, tmp_path: Path, capsys: Printed) -> None:
    path = tmp_path / "r.json"
    with interrupted_after(servers, 1):
        servers.bench(path, "--salt", "x")
    capsys.readouterr()
    assert servers.bench(path, "--salt", "x", "--resume") == 2
    assert "Salt x was already used" in capsys.readouterr().err
    assert servers.bench(path, "--salt", "y", "--resume") == 0
    assert [session.salt for session in read(path).sessions] == ["x", "y"]


def test_a_second_benchmark_with_the_same_file_stops_at_once(servers: Servers, tmp_path: Path, capsys: Printed) -> None:
    path, alias = tmp_path / "r.json", tmp_path / "alias.json"
    alias.symlink_to(path)
    with reserve(path):
        for name in (path, alias):
            assert servers.bench(name) == 2
            err = capsys.readouterr().err
            assert err == f"tandem: {path} is being written by another `tandem bench`. " + (
                "Wait until it ends, or name another file with -o.\n"
            )
            assert servers.bench(name, "--resume") == 2
            capsys.readouterr()
        assert servers.bench(tmp_path / "other.json") == 0
    assert servers.prompts
    assert not path.exists()
    assert servers.bench(path) == 0
    assert sorted(os.listdir(tmp_path)) == ["alias.json", "other.json", "r.json"]


def test_the_file_is_reserved_from_the_first_request_to_the_last(
    servers: Servers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, tried = tmp_path / "r.json", []

    def other(*_: object) -> None:
        with pytest.raises(CallError, match="another `tandem bench`"), reserve(path):
            pass
        tried.append(path.exists())

    monkeypatch.setattr("tandem.bench.progress.Progress.begins", other)
    monkeypatch.setattr("tandem.bench.progress.Progress.ended", other)
    assert servers.bench(path) == 0
    assert tried == [False, True, True, True, True, True]


def test_a_killed_benchmark_leaves_no_lock_and_its_rubbish_does_no_harm(servers: Servers, tmp_path: Path) -> None:
    path = tmp_path / "r.json"
    program = (
        "import os, sys; from pathlib import Path; from tandem.measured.result_file import reserve\n"
        "with reserve(Path(sys.argv[1])): os.kill(os.getpid(), 9)"
    )
    done = subprocess.run([sys.executable, "-c", program, str(path)], cwd=ROOT)
    assert done.returncode == -signal.SIGKILL
    assert os.listdir(tmp_path) == [".r.json.lock"]
    (tmp_path / ".r.json.part").write_text("half")
    assert servers.bench(path) == 0
    assert os.listdir(tmp_path) == ["r.json"]


def test_a_folder_that_is_not_there_is_one_line(servers: Servers, tmp_path: Path, capsys: Printed) -> None:
    path = tmp_path / "none" / "r.json"
    assert servers.bench(path) == 2
    told = f"tandem: {path} cannot be written: No such file or directory. Name another file with -o.\n"
    assert capsys.readouterr().err == told


def full_disk(*_: object) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_a_full_disk_keeps_every_written_run_and_shows_the_last(
    servers: Servers, tmp_path: Path, capsys: Printed, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "r.json"
    with interrupted_after(servers, 1):
        servers.bench(path)
    kept = path.read_bytes()
    capsys.readouterr()
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full_disk)
        assert servers.bench(path, "--resume") == 1
    out, err = capsys.readouterr()
    assert "b alone" in out  # the run that could not be written
    told = f"tandem: {path} cannot be written: No space left on device. 1 run is in {path}. Continue with --resume.\n"
    assert err.endswith(told)
    assert "Traceback" not in err
    assert (path.read_bytes(), os.listdir(tmp_path)) == (kept, ["r.json"])
    assert servers.bench(path, "--resume") == 0
    assert len(read(path).runs) == 3


def test_a_full_disk_at_the_first_run_is_one_line(
    servers: Servers, tmp_path: Path, capsys: Printed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "fsync", full_disk)
    assert servers.bench(tmp_path / "r.json", "--json") == 1
    told = json.loads(capsys.readouterr().out)
    assert told["error"].endswith("cannot be written: No space left on device. No run was kept.")
    assert (told["complete"], told["runs"]) == (False, 1)
    assert os.listdir(tmp_path) == []


def test_a_result_that_cannot_be_written_leaves_nothing_beside_what_was_there(tmp_path: Path) -> None:
    path = tmp_path / "r.json"
    path.mkdir()
    with pytest.raises(NotWrittenError, match="Is a directory"):
        write(shared("mps", (20.0, 40.0), (40.0, 60.0)), path)
    assert os.listdir(tmp_path) == ["r.json"]


@pytest.mark.parametrize(
    ("place", "told"),
    [
        ((2**30, 2**29), "b was partly on the CPU: 50% of its 1,024 MiB was on the GPU."),
        ((5000, 0), "b was on the CPU: 0% of its 1 MiB was on the GPU."),
        ((10**6, 10**6 - 1), "b was partly on the CPU: 99% of its 1 MiB was on the GPU."),
        (None, "the place of b is unknown: its server did not list it as loaded."),
        ((0, 0), "the place of b is unknown: its server did not list it as loaded."),
    ],
)
def test_a_model_outside_the_gpu_stops_the_benchmark_before_its_first_run(
    place: tuple[int, int] | None, told: str, servers: Servers, tmp_path: Path, capsys: Printed
) -> None:
    path = tmp_path / "r.json"
    size, size_vram = place or (0, 0)
    servers["b"].answers["/api/ps"] = {"models": [loaded("tiny:1b", size, size_vram)] if place else []}
    assert servers.bench(path) == 1
    out, err = capsys.readouterr()
    fix = "Its runs could not be compared. Give it more GPU memory, or measure anyway with --allow-cpu."
    assert (out, err) == ("", f"tandem: {told}\ntandem: {fix}\n")
    assert len(servers.prompts) == 2  # one to load each model
    assert os.listdir(tmp_path) == []
    assert servers.bench(path, "--allow-cpu") == 0
    out = capsys.readouterr().out
    assert "2 of 3 runs are not compared: " + told.removesuffix(".") in out
    assert len(read(path).runs) == 3


def test_the_version_in_a_result_is_that_of_our_distribution(
    servers: Servers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`tandem` is another author's on the package index."""
    monkeypatch.setattr("importlib.metadata.version", {"tandem-gpu": "1.2.3", "tandem": "9"}.__getitem__)
    servers.bench(tmp_path / "r.json")
    assert read(tmp_path / "r.json").sessions[0].versions["tandem"] == "1.2.3"


def test_a_resumed_benchmark_looks_again_where_the_models_are(servers: Servers, tmp_path: Path) -> None:
    path = tmp_path / "r.json"
    with interrupted_after(servers, 1):
        servers.bench(path)
    kept = path.read_bytes()
    servers["a"].size_vram = 0
    assert servers.bench(path, "--resume") == 1
    assert path.read_bytes() == kept


def test_a_complete_benchmark_that_is_resumed_asks_for_nothing(
    servers: Servers, tmp_path: Path, capsys: Printed
) -> None:
    path = tmp_path / "r.json"
    assert servers.bench(path) == 0
    asked, kept = len(servers.prompts), path.read_bytes()
    servers["a"].size_vram = 0
    assert servers.bench(path, "--resume") == 0
    assert (len(servers.prompts), path.read_bytes()) == (asked, kept)
    assert "all runs are in the result already: nothing is left to measure\n" in capsys.readouterr().err


def test_resume_without_a_result_says_that_it_begins_one(servers: Servers, tmp_path: Path, capsys: Printed) -> None:
    path = tmp_path / "r.json"
    assert servers.bench(path, "--resume") == 0
    assert f"tandem: {path} does not exist yet: a new result begins\n" in capsys.readouterr().err


def test_a_folder_as_the_result_is_refused_with_and_without_resume(
    servers: Servers, tmp_path: Path, capsys: Printed
) -> None:
    for more in ((), ("--resume",)):
        assert servers.bench(tmp_path, *more) == 2
        assert capsys.readouterr().err == f"tandem: {tmp_path} is a folder. Name a file in it with -o.\n"


def test_a_server_that_is_too_slow_for_the_timeout_names_that(
    servers: Servers, tmp_path: Path, capsys: Printed, monkeypatch: pytest.MonkeyPatch
) -> None:
    def sender(url: str, **options: Any) -> Sender:
        return Sender(url, **options, network=NeverConnected())

    monkeypatch.setattr("tandem.bench.run.Sender", sender)
    assert servers.bench(tmp_path / "r.json", "--timeout", "0.001", names="a") == 1
    why = "a did not answer its first request (not complete within 0.001 s)"
    assert (
        capsys.readouterr().err == f"tandem: {why}. Raise --timeout, or repair that server, and repeat the command.\n"
    )


def test_a_server_that_refuses_its_first_request_stops_the_benchmark(
    servers: Servers, tmp_path: Path, capsys: Printed
) -> None:
    servers["a"].fault = "busy"
    assert servers.bench(tmp_path / "r.json", "--allow-cpu") == 1
    told = "tandem: a did not answer its first request (503: server busy). Repair that server and repeat the command.\n"
    assert capsys.readouterr().err == told
    assert os.listdir(tmp_path) == []


def test_the_last_line_says_how_fast_the_models_ran_together(capsys: Printed) -> None:
    show(summary(shared("mps", (20.0, 40.0), (40.0, 60.0))))
    # Paces of 20/40 and 40/60: the geometric mean is 0.577.
    line = capsys.readouterr().out.splitlines()[-1]
    assert line.startswith("64 words, 4 at a time: together, each ran at 0.58 of its speed alone; ")


def test_a_clock_that_was_set_makes_no_result_that_cannot_be_read(servers: Servers, tmp_path: Path) -> None:
    servers.late_ns = -1_000_000_000
    assert servers.bench(tmp_path / "r.json", names="a") == 0
    assert read(tmp_path / "r.json").runs[0].rows[0].arrivals_us == [0] * 4
