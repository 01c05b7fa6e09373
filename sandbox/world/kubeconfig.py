"""Which API server a Kubernetes provider talks to."""

from __future__ import annotations

import json
from typing import Any

import yaml

from sandbox.world.things import value_at


def api_server(provider: dict[str, Any]) -> str:
    """The server's URL in the provider's kubeconfig, in its current context; "" where there is none."""
    config = provider.get("kubeconfig")
    if isinstance(config, str):
        try:
            config = json.loads(config)
        except json.JSONDecodeError:
            try:
                config = yaml.safe_load(config)
            except yaml.YAMLError:
                return ""
    if not isinstance(config, dict):
        return ""
    contexts = {one.get("name"): one.get("context") or {} for one in config.get("contexts") or ()}
    wanted = contexts.get(provider.get("context") or config.get("current-context"), {}).get("cluster")
    clusters = {one.get("name"): one for one in config.get("clusters") or ()}
    return str(value_at(clusters.get(wanted), "cluster.server") or "")
