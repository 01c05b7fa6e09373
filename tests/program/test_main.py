"""`__main__.py`, the program that Pulumi runs."""

import signal
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import grpc  # type: ignore[import-untyped]
import pytest
from pulumi.runtime.proto.engine_pb2 import RequirePulumiVersionRequest
from pulumi.runtime.proto.engine_pb2_grpc import EngineStub
from pulumi.runtime.settings import SETTINGS

from stacks import program

MAIN = Path(__file__).parents[2] / "__main__.py"
INTERRUPTED = f"""
import os, runpy, signal, sys, types

sys.modules["stacks.program"] = types.SimpleNamespace(run=lambda: os.kill(os.getpid(), signal.SIGINT))
runpy.run_path({str(MAIN)!r}, run_name="__main__")
"""


def test_a_canceled_update_ends_the_program_without_a_traceback() -> None:
    done = subprocess.run([sys.executable, "-c", INTERRUPTED], capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (-signal.SIGINT, "", "")


def test_a_real_engine_must_be_new_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only mocks lack the RPC: the stub of the SDK, by which the program calls a real engine, has it."""

    def refuse(request: RequirePulumiVersionRequest) -> None:
        raise RuntimeError(f"not {request.pulumi_version_range}")

    with grpc.insecure_channel("127.0.0.1:1") as channel:
        assert callable(EngineStub(channel).RequirePulumiVersion)
    monkeypatch.setattr(SETTINGS, "engine", SimpleNamespace(RequirePulumiVersion=refuse))
    with pytest.raises(RuntimeError, match=r"not >=3\.217\.0"):
        program.run()
