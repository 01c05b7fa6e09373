"""The program of the guide to batch jobs, as a real process: interrupted, it has the result of an uninterrupted run."""

import json
import signal
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from botocore.model import OperationModel
from moto import mock_aws

from tests.pages import ROOT, blocks, environment

GUIDE = ROOT / "docs" / "how-to" / "run-a-batch-job-on-spot.md"
[LOOP] = [block.text for block in blocks(GUIDE) if 'title="train.py"' in block.head]
IN_BUCKET, ON_VOLUME = [block.text for block in blocks(GUIDE) if 'title="store.py"' in block.head]
INTERRUPTED = 128 + signal.SIGTERM
"""The exit code of a program that SIGTERM ended, as a shell reports it."""


@dataclass
class Program:
    """The program in a folder, as one pod after another runs it."""

    folder: Path
    steps: list[int] = field(default_factory=list)
    """The steps that it has printed."""

    def __post_init__(self) -> None:
        (self.folder / "train.py").write_text(LOOP, encoding="utf-8")
        (self.folder / "store.py").write_text(ON_VOLUME, encoding="utf-8")

    @property
    def saved(self) -> dict[str, Any]:
        """Its last checkpoint."""
        state: dict[str, Any] = json.loads((self.folder / "state.json").read_text(encoding="utf-8"))
        return state

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
        env = {**environment(), "CHECKPOINT_DIRECTORY": str(self.folder)}
        return subprocess.Popen(command, cwd=self.folder, env=env, stdout=subprocess.PIPE, text=True)


@pytest.mark.slow
def test_six_interruptions_do_not_change_the_result(tmp_path: Path) -> None:
    (tmp_path / "whole").mkdir()
    whole, run = Program(tmp_path / "whole"), Program(tmp_path)
    words = whole.finish().split()
    # Its points lie around 3x - 1.
    assert float(words[1]) == pytest.approx(3, abs=0.05)
    assert float(words[3]) == pytest.approx(-1, abs=0.05)
    ended = [run.interrupt(signal.SIGTERM) for _ in range(3)]
    # The node is lost without notice, between two checkpoints.
    assert run.interrupt(signal.SIGKILL) == -signal.SIGKILL
    ended += [run.interrupt(signal.SIGTERM) for _ in range(2)]
    assert ended == [INTERRUPTED] * 5
    # Each run continues where the last one saved.
    assert run.steps == sorted(set(run.steps))
    assert (run.finish().split(), run.saved) == (words, whole.saved)


def test_a_checkpoint_that_was_cut_off_while_it_was_written_is_not_read(tmp_path: Path) -> None:
    run = Program(tmp_path)
    run.interrupt(signal.SIGTERM)
    saved = run.saved["step"]
    (tmp_path / "state.new").write_text('{"step": 1', encoding="utf-8")
    run.interrupt(signal.SIGTERM)
    assert run.steps[-1] > saved - saved % 5_000


@pytest.mark.slow
def test_checkpoints_in_a_bucket_need_no_more_than_the_role_of_the_job(monkeypatch: pytest.MonkeyPatch) -> None:
    """It may use the objects below the prefix, and list those (`tests/components/test_spot_job.py`)."""
    asked: list[tuple[str, str]] = []

    def note(params: dict[str, str], model: OperationModel, **_: object) -> None:
        asked.append((model.name, params["Prefix"] if "Prefix" in params else params["Key"]))

    monkeypatch.setenv("CHECKPOINT_URI", "s3://mine/train/")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    with mock_aws():
        store: dict[str, Any] = {}
        exec(IN_BUCKET, store)
        store["S3"].create_bucket(Bucket="mine")
        store["S3"].meta.events.register("provide-client-params.s3", note)
        assert store["load"]() is None
        # https://docs.aws.amazon.com/AmazonS3/latest/API/API_GetObject.html: 403 for a missing object, unless the
        # program may list the entire bucket.
        assert [name for name, _ in asked] == ["ListObjectsV2"]
        store["save"]({"step": 7})
        assert store["load"]() == {"step": 7}
    assert {name for name, _ in asked} == {"ListObjectsV2", "GetObject", "PutObject"}
    assert all(place.startswith("train/") for _, place in asked)
