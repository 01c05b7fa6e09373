"""Ctrl-C before a command has started its work: during imports, or while it connects."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.tandem.deployed.fake_kubernetes import FakeKubernetes

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
PROGRAM = """
import os, runpy, signal, sys

awaited = sys.argv.pop(1)

class Interrupts:
    \"\"\"Sends this process what Ctrl-C sends, just as the module is looked for.\"\"\"

    def find_spec(self, name, path=None, target=None):
        if name == awaited:
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Interrupts())
runpy.run_module("tandem", run_name="__main__")
"""


@pytest.mark.parametrize(
    "module",
    ["stacks.stack_file.judge", "tandem.deployed.endpoints", "tandem.watch.watch"],
)
def test_ctrl_c_while_watch_begins_ends_without_a_traceback(module: str, tmp_path: Path) -> None:
    call = [module, "watch", str(ROOT / "Pulumi.dev.yaml"), "--kubeconfig", str(FakeKubernetes().kubeconfig(tmp_path))]
    done = subprocess.run([sys.executable, "-c", PROGRAM, *call], cwd=ROOT, capture_output=True, text=True, timeout=900)
    assert (done.stdout, done.stderr) == ("", "Interrupted.\n")
    assert done.returncode == 130
