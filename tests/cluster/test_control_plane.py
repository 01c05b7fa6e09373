"""The control plane itself: it behaves like EKS where that matters, and always ends with its holder."""

import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.cluster.deployment import Deployment
from tests.cluster.test_placement import pod
from tests.control_plane.running import ControlPlane

ROOT = Path(__file__).resolve().parent.parent.parent
PROCESSES = Path("/proc")


def processes_in(folder: str) -> list[str]:
    """Processes with this working directory: every process of a control plane has its folder."""
    found = []
    for process in PROCESSES.iterdir():
        if process.name.isdigit():
            try:
                if str((process / "cwd").readlink()).startswith(folder):
                    found.append(process.name)
            except OSError:  # ended meanwhile, or of another user
                continue
    return found


@pytest.mark.skipif(not PROCESSES.is_dir(), reason="there is no /proc to look for processes in")
@pytest.mark.parametrize("end", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_no_process_is_left_however_its_holder_ends(plane: ControlPlane, end: signal.Signals) -> None:
    with subprocess.Popen(
        [sys.executable, "-m", "tests.control_plane"], cwd=ROOT, stdout=subprocess.PIPE, text=True
    ) as holder:
        assert holder.stdout
        line = holder.stdout.readline()
        shown = re.search(r"--kubeconfig (\S+)/kubeconfig\.json", line)
        assert shown, line
        folder = shown[1]
        # Each of the five parts has a keeper.
        assert len(processes_in(folder)) == 10
        holder.send_signal(end)
    while processes_in(folder):
        time.sleep(0.1)
    if end is signal.SIGINT:
        assert holder.returncode == 0
        assert not Path(folder).exists()
    else:
        shutil.rmtree(folder)


def test_privileged_pods_are_admitted_as_on_eks(cluster: Deployment) -> None:
    wanted = pod("privileged")
    wanted["spec"]["containers"][0]["securityContext"] = {"privileged": True}
    cluster.api.apply(wanted, dry_run=True)


def test_keys_and_tokens_are_for_nobody_else(plane: ControlPlane) -> None:
    for name in ("kubeconfig.json", "tokens.csv", "key.pem"):
        assert (plane.folder / name).stat().st_mode & 0o077 == 0
