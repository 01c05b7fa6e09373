"""Runs in one pod on a GPU node, and checks that the node offers the expected shares. It only uses the Kubernetes API.

It runs in the cluster and uses only Python's standard library. After a change of mode, the device plugin and feature
discovery need time. So it checks until all is as expected twice in a row, or the time is up.

Environment: EXPECTATION (JSON, see `NodeExpectation`), NODE (name of the pod's node), LIMIT_SECONDS, PAUSE_SECONDS,
API_SERVER, CREDENTIALS (folder with `token` and `ca.crt`), PLUGIN_NAMESPACE and PLUGIN_SELECTOR (the plugin's pods).
"""

import http.client
import json
import os
import ssl
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ANSWER_SECONDS = 10
LOOKS = 2
"""Number of consecutive checks that must succeed, because the plugin restarts after its labels change."""
PROBED = "nvidia.com/"


@dataclass(frozen=True)
class NodeExpectation:
    """The shares and labels that the node is expected to have."""

    summary: str
    """One line for logs and errors."""
    allocatable: Mapping[str, int]
    """Shares by resource."""
    labels: Mapping[str, str]
    """Labels that feature discovery and the MIG manager set."""


@dataclass(frozen=True)
class Plugin:
    """How to find the device plugin's pods."""

    namespace: str
    selector: str


def differences(expected: NodeExpectation, node: Mapping[str, Any]) -> list[str]:
    """Findings: each resource and label of the node that is not as expected."""
    offered, labels = node.get("status", {}).get("allocatable", {}), node["metadata"].get("labels", {})
    return [
        *(
            f"it advertises {offered.get(resource, 'no')} {resource}, expected {shares}"
            for resource, shares in expected.allocatable.items()
            if offered.get(resource) != str(shares)
        ),
        *(
            f"its label {label} is {labels.get(label, 'missing')}, expected {value}"
            for label, value in expected.labels.items()
            if labels.get(label) != value
        ),
    ]


def seen(expected: NodeExpectation, node: Mapping[str, Any]) -> str:
    """The proof as one line of JSON: the node's shares and labels."""
    offered, labels = node["status"]["allocatable"], node["metadata"]["labels"]
    return json.dumps(
        {
            "proved": expected.summary,
            "node": node["metadata"]["name"],
            "allocatable": {name: count for name, count in offered.items() if name.startswith(PROBED)},
            "labels": {label: labels[label] for label in expected.labels},
        }
    )


def prove(
    expected: NodeExpectation, node: str, look: Callable[[], Any], limit: float, pause: float, plugin: Plugin
) -> tuple[bool, str]:
    """Checks the node until all is as expected or the time is up. Returns whether it succeeded, and what to print."""
    until, good, found = time.monotonic() + limit, 0, ["the node was never read"]
    last: dict[str, Any] | None = None
    while True:
        try:
            last = dict(look())
            found = differences(expected, last)
        except (OSError, ValueError, http.client.HTTPException) as error:
            found = [f"cannot read the node from the API server: {error}"]
        good = 0 if found else good + 1
        if last is not None and good == LOOKS:
            return True, seen(expected, last)
        if time.monotonic() > until:
            break
        time.sleep(pause)
    lines = [
        f"expected: {expected.summary}",
        f"found: node {node}, for {limit:g} s",
        *(f"- {one}" for one in found or ["all as expected, but only in the last check"]),
        *remedy(expected, node, last, plugin),
        "Then run `pulumi up` again to repeat the proof.",
    ]
    return False, "\n".join(lines)


def remedy(expected: NodeExpectation, node: str, seen: Mapping[str, Any] | None, plugin: Plugin) -> list[str]:
    """The remedy, as lines of text.

    A plugin that advertises 0 of a resource has lost its registration and never registers again. Only a new pod helps
    (NVIDIA/k8s-device-plugin issue 1645).
    """
    if seen is None:
        return ["Check the API server with `kubectl get nodes`."]
    offered = seen.get("status", {}).get("allocatable", {})
    pods = f"-n {plugin.namespace} {{}} -l {plugin.selector} --field-selector spec.nodeName={node}"
    if any(offered.get(resource) in (None, "0") for resource in expected.allocatable):
        return [
            "The NVIDIA device plugin on this node advertises no share. Replace its pod:",
            f"`kubectl {pods.format('delete pod')}`",
        ]
    return [
        "The device plugin and feature discovery set these values. Find their pods and read their logs:",
        f"`kubectl {pods.format('get pod')}`",
    ]


def reader(server: str, credentials: Path, node: str) -> Callable[[], Any]:
    """A function that reads the node with the pod's token. It rereads the token, because Kubernetes renews it."""
    tls = ssl.create_default_context(cafile=str(credentials / "ca.crt")) if server.startswith("https:") else None
    if tls is not None:
        # Python 3.13 sets it, and then refuses the authority of a cluster that EKS created before Kubernetes 1.17
        # (aws/containers-roadmap#2638).
        tls.verify_flags &= ~ssl.VERIFY_X509_STRICT

    def look() -> Any:
        token = (credentials / "token").read_text(encoding="utf-8").strip()
        request = urllib.request.Request(
            f"{server}/api/v1/nodes/{node}", headers={"Authorization": f"Bearer {token}", "Accept": "application/json"}
        )
        try:
            with urllib.request.urlopen(request, timeout=ANSWER_SECONDS, context=tls) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as error:
            raise OSError(f"{error.code} {_message(error.read())}") from None

    return look


def _message(body: bytes) -> str:
    try:
        return str(json.loads(body)["message"])
    except (ValueError, KeyError, TypeError):
        return body[:200].decode(errors="replace")


def main(environment: Mapping[str, str]) -> int:
    """Returns 0 if the node is as expected, else 1. The last output is the proof or the reason."""
    expected = NodeExpectation(**json.loads(environment["EXPECTATION"]))
    node = environment["NODE"]
    look = reader(environment["API_SERVER"], Path(environment["CREDENTIALS"]), node)
    limit, pause = float(environment["LIMIT_SECONDS"]), float(environment["PAUSE_SECONDS"])
    plugin = Plugin(environment["PLUGIN_NAMESPACE"], environment["PLUGIN_SELECTOR"])
    kept, text = prove(expected, node, look, limit, pause, plugin)
    print(text, file=sys.stdout if kept else sys.stderr, flush=True)
    return 0 if kept else 1


if __name__ == "__main__":
    sys.exit(main(os.environ))
