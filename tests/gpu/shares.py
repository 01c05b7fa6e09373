"""The share prober as it runs in pods, with a process for each share: under time-slicing and both kinds of MPS."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.gpu.engine import free_port
from tests.gpu.machine import Machine
from tests.gpu.mps import mps_daemon
from tests.gpu.node_daemon import node_daemon
from tests.gpu.progress import FailedError, Result

IN_POD = Path(__file__).resolve().parents[2] / "components" / "share_proof" / "in_pod"
SHIPPED = ("cuda.py", "shares.py", "verdict.py")
"""The prober, without what looks at a node: the files that components/share_proof/jobs.py ships to the cluster."""
SHARES = 2
OWN_LIMITS = (0.6, 0.3)
"""Parts of the GPU's memory for the processes with limits of their own."""
TOLERANCE = 0.1
"""As in components/share_proof/expectation.py."""
LIMIT_SECONDS = 60


def prove_shares(mode: str, machine: Machine, folder: Path, total_mib: int) -> Result:
    """Two processes without limits, which see the entire GPU; or two clients of MPS, each with its part."""
    if mode == "time-slicing":
        words = f"{SHARES} shares of one GPU: {SHARES} per GPU, all of its memory visible to each"
        return prove(expectation(words, total_mib), folder, {})
    if mode == "per-model":
        limits = [int(total_mib * part) for part in OWN_LIMITS]
        words = f"{SHARES} shares of one GPU: limits of {' and '.join(f'{limit:,}' for limit in limits)} MiB, enforced"
        with node_daemon() as daemon:
            return prove(expectation(words, total_mib, limits, own=True), folder, daemon.variables)
    limit = total_mib // SHARES
    words = f"{SHARES} shares of one GPU: {SHARES} per GPU, {limit:,} MiB each, enforced"
    with mps_daemon(total_mib, SHARES) as clients:
        found = prove(expectation(words, total_mib, [limit] * SHARES), folder, clients)
        servers = [one["mib"] for one in machine.processes() if "mps-server" in one["program"]]
    return {**found, "mps_server_mib": servers[0] if servers else None}


def expectation(words: str, total_mib: int, limits_mib: Sequence[int] = (), *, own: bool = False) -> Result:
    """The values that the processes must find; components/share_proof/expectation.py makes the same for pods.

    A `PodExpectation` as JSON: importing the class would import Pulumi, and this tier needs no package.
    """
    least = min(limits_mib, default=total_mib)
    return {
        "summary": words,
        "shares": SHARES,
        "pods": SHARES,
        "per_device": SHARES,
        "sees_mib": [int(least * (1 - TOLERANCE)), int(total_mib * (1 + TOLERANCE))],
        "limits_mib": list(limits_mib),
        "own_limits": own,
    }


def prove(expected: Result, folder: Path, environment: Mapping[str, str]) -> Result:
    """Runs the shipped files; raises `FailedError` with the prober's words when the shares are not as expected."""
    shipped = folder / "in_pod"
    shipped.mkdir(parents=True, exist_ok=True)
    for name in SHIPPED:
        shutil.copy(IN_POD / name, shipped)
    common = {
        **os.environ,
        "EXPECTATION": json.dumps(expected),
        "JUDGE": "127.0.0.1",
        "SERVICE": "localhost",
        "PORT": str(free_port()),
        "EXCLUSIVE_SECONDS": "0",
        **dict.fromkeys(("LIMIT_SECONDS", "BACK_SECONDS", "STEP_SECONDS"), str(LIMIT_SECONDS)),
        **environment,
    }
    pods = [
        subprocess.Popen(
            [sys.executable, "-B", "-m", "in_pod.shares"],
            cwd=folder,
            env={**common, "JOB_COMPLETION_INDEX": str(index)},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for index in range(SHARES)
    ]
    try:
        said = [pod.communicate(timeout=5 * LIMIT_SECONDS)[0].strip() for pod in pods]
    except subprocess.TimeoutExpired:
        raise FailedError(f"the share prober gave no verdict within {5 * LIMIT_SECONDS} s") from None
    finally:
        for pod in pods:
            pod.kill()
    if any(pod.returncode for pod in pods):
        raise FailedError("\n".join(dict.fromkeys(said)))
    verdict = json.loads(said[0])
    # The identity of a GPU stays private.
    verdict["devices"] = len(verdict["devices"])
    return {"expected": expected, "verdict": verdict}
