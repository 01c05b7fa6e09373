"""The program of the guide to batch jobs, as a real process: interrupted, it has the result of an uninterrupted run."""

import json
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.parse import parse_qs, unquote, urlparse

import boto3
import pytest
from moto import mock_aws
from moto.moto_proxy.proxy3 import MotoRequestHandler

from components.spot_job.checkpoints import access
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


class S3(ThreadingHTTPServer):
    """moto's S3 with one bucket. Programs have the role of the Job, whose condition moto would ignore."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Requests)
        self.backend = MotoRequestHandler(self.server_port)
        self.store = boto3.client("s3", region_name="us-east-1")
        self.store.create_bucket(Bucket=BUCKET)
        self.statements = access(f"arn:aws:s3:::{BUCKET}", PREFIX.removesuffix("/"))["Statement"]
        self.asked: set[str] = set()
        """The actions that requests needed."""

    def allows(self, action: str, resource: str, prefix: str = "") -> bool:
        self.asked.add(action)
        arn = f"arn:aws:s3:::{resource}"
        return any(
            action in statement["Action"]
            and fnmatchcase(arn, statement["Resource"])
            and fnmatchcase(prefix, statement.get("Condition", {}).get("StringLike", {}).get("s3:prefix", "*"))
            for statement in self.statements
        )

    def objects(self) -> dict[str, bytes]:
        keys = [content["Key"] for content in self.store.list_objects_v2(Bucket=BUCKET).get("Contents", [])]
        return {key: self.store.get_object(Bucket=BUCKET, Key=key)["Body"].read() for key in keys}


class Requests(BaseHTTPRequestHandler):
    server: S3
    protocol_version = "HTTP/1.1"

    def do_PUT(self) -> None:
        self._ask("s3:PutObject", self._path)

    def do_GET(self) -> None:
        asked = parse_qs(urlparse(self.path).query)
        if "list-type" in asked:
            self._ask("s3:ListBucket", self._path, *asked.get("prefix", []))
        elif self._path.partition("/")[2] in self.server.objects():
            self._ask("s3:GetObject", self._path)
        else:
            # https://docs.aws.amazon.com/AmazonS3/latest/API/API_GetObject.html: 404 only for those who may list.
            self._ask("s3:ListBucket", self._path.partition("/")[0])

    @property
    def _path(self) -> str:
        return unquote(urlparse(self.path).path.removeprefix("/"))

    def _ask(self, action: str, resource: str, prefix: str = "") -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        status, headers, answer = 403, {}, b""
        if self.server.allows(action, resource, prefix):
            host = "http://s3.amazonaws.com"
            status, headers, answer = self.server.backend.parse_request(
                self.command, host, self.path, self.headers, body
            )
        text = answer.encode() if isinstance(answer, str) else answer
        self.send_response(status)
        for name, value in headers.items():
            if name.lower() != "content-length":
                self.send_header(name, value)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, format: str, *args: Any) -> None:
        del format, args


@pytest.fixture
def s3() -> Iterator[S3]:
    with mock_aws():
        server = S3()
        serving = Thread(target=server.serve_forever)
        serving.start()
        yield server
        server.shutdown()
        serving.join()
        server.server_close()


def in_bucket(folder: Path, server: S3) -> Program:
    return program(
        folder,
        IN_BUCKET,
        CHECKPOINT_URI=f"s3://{BUCKET}/{PREFIX}",
        AWS_ENDPOINT_URL_S3=f"http://127.0.0.1:{server.server_port}",
        AWS_ACCESS_KEY_ID="key",
        AWS_SECRET_ACCESS_KEY="secret",
        AWS_DEFAULT_REGION="us-east-1",
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


def interrupt_six_times(run: Program) -> None:
    ended = [run.interrupt(signal.SIGTERM) for _ in range(3)]
    # The node is lost without notice, between two checkpoints.
    assert run.interrupt(signal.SIGKILL) == -signal.SIGKILL
    ended += [run.interrupt(signal.SIGTERM) for _ in range(2)]
    assert ended == [INTERRUPTED] * 5
    # Each run continues where the last one saved.
    assert run.steps == sorted(set(run.steps))


@pytest.mark.slow
def test_six_interruptions_do_not_change_the_result(tmp_path: Path, uninterrupted: tuple[str, dict[str, Any]]) -> None:
    run = on_volume(tmp_path)
    interrupt_six_times(run)
    assert (run.finish(), json.loads((tmp_path / "state.json").read_text(encoding="utf-8"))) == uninterrupted


@pytest.mark.slow
def test_nor_do_they_with_checkpoints_in_a_bucket_under_the_role_of_the_job(
    tmp_path: Path, s3: S3, uninterrupted: tuple[str, dict[str, Any]]
) -> None:
    run = in_bucket(tmp_path, s3)
    interrupt_six_times(run)
    result = run.finish()
    [(key, last)] = s3.objects().items()
    assert (key, result, json.loads(last)) == (f"{PREFIX}state.json", *uninterrupted)
    assert s3.asked == {"s3:ListBucket", "s3:GetObject", "s3:PutObject"}


def test_a_checkpoint_that_was_cut_off_while_it_was_written_is_not_read(tmp_path: Path) -> None:
    run = on_volume(tmp_path)
    run.interrupt(signal.SIGTERM)
    saved = json.loads((tmp_path / "state.json").read_text(encoding="utf-8"))["step"]
    (tmp_path / "state.new").write_text('{"step": 1', encoding="utf-8")
    run.interrupt(signal.SIGTERM)
    assert run.steps[-1] > saved - saved % 5_000
