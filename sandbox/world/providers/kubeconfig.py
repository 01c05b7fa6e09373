"""The API server that a Kubernetes provider uses, and its credentials."""

import json
from itertools import pairwise
from typing import Any

import yaml

from sandbox.world.entities import value_at, values_at


def api_server(provider: dict[str, Any]) -> str:
    """URL of the server in the current context of the provider's kubeconfig; "" if there is none."""
    return str(value_at(_named(provider, "cluster"), "cluster.server") or "")


def aws_options(provider: dict[str, Any]) -> dict[str, str]:
    """Options of the `aws eks get-token` in the provider's kubeconfig, without dashes, e.g. `profile`."""
    words = [str(word) for word in values_at(_named(provider, "user"), "user.exec.args")]
    return {word.removeprefix("--"): after for word, after in pairwise(words) if word[:2] == "--"}


def _named(provider: dict[str, Any], kind: str) -> Any:
    """The cluster or user of the current context."""
    config = _read(provider)
    contexts = {one.get("name"): one.get("context") or {} for one in config.get("contexts") or ()}
    wanted = contexts.get(provider.get("context") or config.get("current-context"), {}).get(kind)
    return {one.get("name"): one for one in config.get(f"{kind}s") or ()}.get(wanted)


def _read(provider: dict[str, Any]) -> dict[str, Any]:
    config = provider.get("kubeconfig")
    if isinstance(config, str):
        try:
            config = json.loads(config)
        except json.JSONDecodeError:
            try:
                config = yaml.safe_load(config)
            except yaml.YAMLError:
                return {}
    return config if isinstance(config, dict) else {}
