"""Runs in a pod, and sets the number of replicas of Deployments in its namespace.

It uses only the Kubernetes API and Python's standard library.

Environment: DEPLOYMENTS (JSON, list of names), REPLICAS, NAMESPACE, API_SERVER, CREDENTIALS (folder with `token` and
`ca.crt`). With UNTIL, a time in ISO 8601, nothing changes after that time: a CronJob cannot run once only.
"""

import datetime
import json
import os
import ssl
import sys
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

ANSWER_SECONDS = 30
Call = Callable[..., Any]
"""Calls the API with a path, and with an object to patch if there is one."""


def scale(call: Call, namespace: str, deployment: str, replicas: int) -> str:
    """Sets the replicas of a Deployment. Returns what it did."""
    path = f"/apis/apps/v1/namespaces/{namespace}/deployments/{deployment}/scale"
    before = int(call(path)["spec"].get("replicas", 0))
    if before == replicas:
        return f"{deployment} has {replicas} already"
    call(path, {"spec": {"replicas": replicas}})
    return f"{deployment} had {before}, has {replicas}"


def caller(server: str, credentials: Path) -> Call:
    """A function that calls the API with the pod's token."""
    tls = ssl.create_default_context(cafile=str(credentials / "ca.crt")) if server.startswith("https:") else None
    if tls is not None:
        # Python 3.13 sets it, and then refuses the authority of a cluster that EKS created before Kubernetes 1.17
        # (aws/containers-roadmap#2638).
        tls.verify_flags &= ~ssl.VERIFY_X509_STRICT
    token = (credentials / "token").read_text(encoding="utf-8").strip()

    def call(path: str, patch: Mapping[str, Any] | None = None) -> Any:
        request = urllib.request.Request(
            server + path,
            data=None if patch is None else json.dumps(patch).encode(),
            headers={
                "Authorization": f"Bearer {token}",
                "Accept": "application/json",
                "Content-Type": "application/merge-patch+json",
            },
            method="GET" if patch is None else "PATCH",
        )
        try:
            with urllib.request.urlopen(request, timeout=ANSWER_SECONDS, context=tls) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as error:
            raise OSError(f"{error.code} {error.read()[:500].decode(errors='replace')}") from None

    return call


def main(environment: Mapping[str, str]) -> int:
    """Scales every Deployment. Returns 1 if one of them failed: then the Job tries again."""
    until = environment.get("UNTIL")
    if until and datetime.datetime.now(datetime.UTC) > datetime.datetime.fromisoformat(until):
        print(f"nothing to do: this was for a time before {until}", flush=True)
        return 0
    call = caller(environment["API_SERVER"], Path(environment["CREDENTIALS"]))
    failed = 0
    for deployment in json.loads(environment["DEPLOYMENTS"]):
        try:
            print(scale(call, environment["NAMESPACE"], deployment, int(environment["REPLICAS"])), flush=True)
        except (OSError, ValueError) as error:
            print(f"{deployment}: {error}", file=sys.stderr, flush=True)
            failed = 1
    return failed


if __name__ == "__main__":
    sys.exit(main(os.environ))
