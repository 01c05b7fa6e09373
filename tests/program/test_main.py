"""`__main__.py`, the program that Pulumi runs."""

import signal
import subprocess
import sys
from pathlib import Path

MAIN = Path(__file__).parents[2] / "__main__.py"
INTERRUPTED = f"""
import os, runpy, signal, sys, types

sys.modules["stacks.program"] = types.SimpleNamespace(run=lambda: os.kill(os.getpid(), signal.SIGINT))
runpy.run_path({str(MAIN)!r}, run_name="__main__")
"""


def test_a_canceled_update_ends_the_program_without_a_traceback() -> None:
    done = subprocess.run([sys.executable, "-c", INTERRUPTED], capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (-signal.SIGINT, "", "")
