"""The program of the guide to batch jobs, as a real process: interrupted, it has the result of an uninterrupted run."""

import json
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.parse import parse_qs, urlparse

import pytest

from tests.pages import ROOT, blocks, environment

GUIDE = ROOT / "docs" / "how-to" / "run-a-batch-job-on-spot.md"
[LOOP] = [block.text for block in blocks(GUIDE) if 'title="train.py"' in block.head]
IN_BUCKET, ON_VOLUME = [block.text for block in blocks(GUIDE) if 'title="store.py"' in block.head]
INTERRUPTED = 128 + signal.SIGTERM
"""The exit code of a program that SIGTERM ended, as a shell reports it."""
BUCKET, PREFIX = "mine", "train/"


@dataclass
class Program:
    """The program in a folder, as one pod after another runs it."""

    folder: Path
    environment: Mapping[str, str]
    steps: list[int] = field(default_factory=list)
    """The steps that it has printed."""

    def interrupt(self, number: signal.Signals) -> int:
        """Starts it, sends a signal after its first checkpoint, and returns its exit code."""
        running = self._start()
        assert running.stdout is not None
        self.steps.append(int(running.stdout.readline().split()[1]))
        running.send_signal(number)
        running.communicate()
        return running.returncode

    def finish(self) -> str:
        """Runs it to its end, and returns the result that it prints."""
        running = self._start()
        text, _ = running.communicate()
        assert running.returncode == 0
        return str(text.splitlines()[-1])

    def _start(self) -> subprocess.Popen[str]:
        command = [sys.executable, "-u", "train.py"]
        return subprocess.Popen(command, cwd=self.folder, env=dict(self.environment), stdout=subprocess.PIPE, text=True)


def program(folder: Path, store: str, **variables: str) -> Program:
    folder.mkdir(exist_ok=True)
    (folder / "train.py").write_text(LOOP, encoding="utf-8")
    (folder / "store.py").write_text(store, encoding="utf-8")
    return Program(folder, {**environment(), **variables})


def on_volume(folder: Path) -> Program:
    return program(folder, ON_VOLUME, CHECKPOINT_DIRECTORY=str(folder))


class Bucket(ThreadingHTTPServer):
    """Objects of one bucket: what the guide's program needs of S3."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Requests)
        self.objects: dict[str, bytes] = {}


class Requests(BaseHTTPRequestHandler):
    server: Bucket
    protocol_version = "HTTP/1.1"

    def do_PUT(self) -> None:
        self.server.objects[self._key()] = self.rfile.read(int(self.headers["Content-Length"]))
        self._answer(200)

    def do_GET(self) -> None:
        asked = parse_qs(urlparse(self.path).query)
        if "list-type" in asked:
            # The role's condition `s3:prefix`.
            allowed = asked.get("prefix", [""])[0].startswith(PREFIX)
            count = sum(key.startswith(asked["prefix"][0]) for key in self.server.objects) if allowed else 0
            self._answer(200 if allowed else 403, f"<R><KeyCount>{count}</KeyCount></R>".encode())
        else:
            found = self.server.objects.get(self._key())
            self._answer(403 if found is None else 200, found or b"")

    def _key(self) -> str:
        return urlparse(self.path).path.removeprefix(f"/{BUCKET}/")

    def _answer(self, code: int, body: bytes = b"") -> None:
        self.send_response(code)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        del format, args


@contextmanager
def bucket() -> Iterator[Bucket]:
    server = Bucket()
    serving = Thread(target=server.serve_forever)
    serving.start()
    try:
        yield server
    finally:
        server.shutdown()
        serving.join()
        server.server_close()


def in_bucket(folder: Path, server: Bucket) -> Program:
    return program(
        folder,
        IN_BUCKET,
        CHECKPOINT_URI=f"s3://{BUCKET}/{PREFIX}",
        AWS_ENDPOINT_URL_S3=f"http://127.0.0.1:{server.server_port}",
        AWS_ACCESS_KEY_ID="key",
        AWS_SECRET_ACCESS_KEY="secret",
        AWS_REGION="us-east-1",
        # Otherwise the SDK sends the body in chunks with a checksum, which the server above does not read.
        AWS_REQUEST_CHECKSUM_CALCULATION="when_required",
    )


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, dict[str, Any]]:
    """The result and the last checkpoint of a run that nobody interrupts."""
    folder = tmp_path_factory.mktemp("whole")
    return on_volume(folder).finish(), json.loads((folder / "state.json").read_text(encoding="utf-8"))


@pytest.mark.slow
def test_the_loop_fits_the_line_whose_points_it_gets(uninterrupted: tuple[str, dict[str, Any]]) -> None:
    words = uninterrupted[0].split()
    # Its points lie around 3x - 1.
    assert float(words[1]) == pytest.approx(3, abs=0.05)
    assert float(words[3]) == pytest.approx(-1, abs=0.05)


@pytest.mark.slow
def test_six_interruptions_do_not_change_the_result(tmp_path: Path, uninterrupted: tuple[str, dict[str, Any]]) -> None:
    run = on_volume(tmp_path)
    ended = [run.interrupt(signal.SIGTERM) for _ in range(3)]
    # The node is lost without notice, between two checkpoints.
    assert run.interrupt(signal.SIGKILL) == -signal.SIGKILL
    ended += [run.interrupt(signal.SIGTERM) for _ in range(2)]
    assert ended == [INTERRUPTED] * 5
    # Each run continues where the last one saved.
    assert run.steps == sorted(set(run.steps))
    assert (run.finish(), json.loads((tmp_path / "state.json").read_text(encoding="utf-8"))) == uninterrupted


def test_a_checkpoint_that_was_cut_off_while_it_was_written_is_not_read(tmp_path: Path) -> None:
    run = on_volume(tmp_path)
    run.interrupt(signal.SIGTERM)
    saved = json.loads((tmp_path / "state.json").read_text(encoding="utf-8"))["step"]
    (tmp_path / "state.new").write_text('{"step": 1', encoding="utf-8")
    run.interrupt(signal.SIGTERM)
    assert run.steps[-1] > saved - saved % 5_000


@pytest.mark.slow
def test_a_bucket_keeps_the_checkpoints_as_well(tmp_path: Path, uninterrupted: tuple[str, dict[str, Any]]) -> None:
    with bucket() as server:
        run = in_bucket(tmp_path, server)
        assert [run.interrupt(number) for number in (signal.SIGTERM, signal.SIGKILL)] == [INTERRUPTED, -signal.SIGKILL]
        assert run.steps == sorted(set(run.steps))
        assert (run.finish(), json.loads(server.objects[f"{PREFIX}state.json"])) == uninterrupted
        assert list(server.objects) == [f"{PREFIX}state.json"]
