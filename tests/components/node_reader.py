"""The reader of the node as it runs in its pod."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from components.share_proof import script_texts


def read_node(
    folder: Path, server: str, node: str, promise: Mapping[str, Any], *, token: str, limit: str
) -> tuple[int, str]:
    """Runs the reader to its end in `folder`, where its scripts and `token` are put; its status and what it printed.

    `limit` is how long it waits for the promise, in seconds. The certificate of an https server lies in `folder`.
    """
    (folder / "components").mkdir(parents=True)
    for name, text in script_texts().items():
        (folder / "components" / name).write_text(text, encoding="utf-8")
    (folder / "token").write_text(token, encoding="utf-8")
    environment = {
        "PROMISE": json.dumps(promise),
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
        [sys.executable, "-B", "-m", "components.node_prober"],
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    return done.returncode, done.stdout.strip()
