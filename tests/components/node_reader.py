"""The reader of the node as it runs in its pod."""

import json
import os
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path

from components.share_proof.in_pod.node import NodeExpectation
from components.share_proof.jobs import script_texts


def read_node(
    folder: Path, server: str, node: str, expected: NodeExpectation, *, token: str, limit: str
) -> tuple[int, str]:
    """Runs the reader in `folder`, with its scripts and `token`. Returns its exit status and its output.

    `limit` is its timeout in seconds. The certificate of an https server is in `folder`.
    """
    (folder / "in_pod").mkdir(parents=True)
    for name, text in script_texts().items():
        (folder / "in_pod" / name).write_text(text, encoding="utf-8")
    (folder / "token").write_text(token, encoding="utf-8")
    environment = {
        "EXPECTATION": json.dumps(asdict(expected)),
        "NODE": node,
        "LIMIT_SECONDS": limit,
        "PAUSE_SECONDS": "0.01",
        "API_SERVER": server,
        "CREDENTIALS": str(folder),
        "PLUGIN_NAMESPACE": "nvidia-device-plugin",
        "PLUGIN_SELECTOR": "app.kubernetes.io/name=nvidia-device-plugin",
        "PATH": os.environ["PATH"],
    }
    done = subprocess.run(
        [sys.executable, "-B", "-m", "in_pod.node"],
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    return done.returncode, done.stdout.strip()
