"""`tandem sandbox` in a process of its own, as a shell starts it."""

import json
import os
import subprocess
import sys
from contextlib import suppress

import pytest

from tests.engine.emulated import QUICK, ROOT, Stack

COMMAND = (sys.executable, "-m", "tandem", "sandbox")
PACE = "0.4"
"""Seconds for a minute of the cloud: the control plane then takes four."""
PATIENT_PACE = "3"
"""The control plane then takes half a minute. The command takes as long: the cloud finishes its operations."""
SLOW_PACE = "60"
"""The control plane then takes ten minutes, so that even a slow machine can kill all processes before that."""


def start(stack: Stack, *arguments: str) -> subprocess.Popen[str]:
    """The command in a process group of its own."""
    return subprocess.Popen(
        [*COMMAND, *arguments],
        cwd=stack.folder,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )


def environment() -> dict[str, str]:
    """The command's environment: our own quick `pip`, and the checkout."""
    return {**os.environ, "PYTHONPATH": os.pathsep.join((str(QUICK), str(ROOT)))}


def says(stack: Stack, code: int, *arguments: str) -> str:
    """The command's output; the command must end with that exit code."""
    process = start(stack, *arguments)
    said, _ = process.communicate()
    assert process.returncode == code, said
    return said


def until(process: subprocess.Popen[str], text: str) -> None:
    """Reads the command's output up to the line with `text`."""
    assert process.stdout is not None
    said = []
    for line in process.stdout:
        if text in line:
            return
        said.append(line)
    pytest.fail(f"{text!r} was never said, but: {''.join(said)}")


def until_it_creates_the_cluster(process: subprocess.Popen[str], stack: Stack) -> None:
    """Waits until Pulumi's state notes that it is creating the cluster; its output says so earlier."""
    until(process, "tandem-cluster-eksCluster creating")
    while True:
        for file in (stack.place.folder / "state").glob(f".pulumi/stacks/*/{stack.name}.json"):
            with suppress(FileNotFoundError, ValueError):
                latest = json.loads(file.read_text(encoding="utf-8"))["checkpoint"]["latest"] or {}
                if any(
                    operation["resource"]["urn"].endswith("::tandem-cluster-eksCluster")
                    for operation in latest.get("pending_operations") or ()
                ):
                    return
