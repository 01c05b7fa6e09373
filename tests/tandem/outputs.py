"""Outputs of a deployed stack, as `pulumi stack output --json` prints them."""

from typing import Any

from sharing.sections.config import StackConfig
from stacks.outputs import StackOutputs, describe_pool


def outputs(setup: StackConfig) -> dict[str, Any]:
    """The outputs of `setup`."""
    return {
        "pools": {pool.name: describe_pool(pool).model_dump(mode="json") for pool in setup.pools},
        "endpoints": {served.id: f"http://{served.id}.ollama:11434" for served in setup.models},
        "kubeconfig": "[secret]",
        "cluster_name": "tandem-test",
    }


def running(setup: StackConfig) -> StackOutputs:
    """The deployed stack of `setup`."""
    return StackOutputs.model_validate(outputs(setup))
