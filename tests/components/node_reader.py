"""The reader of the node, with the environment of its pod."""

import json
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import asdict
from io import StringIO
from pathlib import Path

from components.share_proof.in_pod.node import NodeExpectation, main


def read_node(
    folder: Path, server: str, node: str, expected: NodeExpectation, *, token: str, limit: str
) -> tuple[int, str]:
    """Runs the reader with `token` in `folder`. Returns its exit status and its output.

    `limit` is its timeout in seconds. The certificate of an https server is in `folder`.
    """
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "token").write_text(token, encoding="utf-8")
    proof, reason = StringIO(), StringIO()
    with redirect_stdout(proof), redirect_stderr(reason):
        status = main(environment_of(folder, server, node, expected, limit))
    return status, (reason if status else proof).getvalue().strip()


def environment_of(folder: Path, server: str, node: str, expected: NodeExpectation, limit: str) -> dict[str, str]:
    """The variables of the pod."""
    return {
        "EXPECTATION": json.dumps(asdict(expected)),
        "NODE": node,
        "LIMIT_SECONDS": limit,
        "PAUSE_SECONDS": "0.01",
        "API_SERVER": server,
        "CREDENTIALS": str(folder),
        "PLUGIN_NAMESPACE": "nvidia-device-plugin",
        "PLUGIN_SELECTOR": "app.kubernetes.io/name=nvidia-device-plugin",
    }
