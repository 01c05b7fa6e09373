"""Outputs of a deployed stack, as `pulumi stack output --json` prints them."""

from typing import Any

from sharing.stack.config import StackConfig
from sharing.stack.pools import GpuPool
from stacks.outputs import StackOutputs, describe_pool


def outputs(setup: StackConfig, *, older: bool = False) -> dict[str, Any]:
    """The outputs of `setup`; `older` omits those that earlier versions did not have."""
    return {
        "pools": {pool.name: _pool(pool, older) for pool in setup.pools},
        "endpoints": {served.id: f"http://{served.id}.ollama:11434" for served in setup.models},
        "kubeconfig": "[secret]",
        "cluster_name": "tandem-test",
    }


def _pool(pool: GpuPool, older: bool) -> dict[str, Any]:
    return describe_pool(pool).model_dump(mode="json", include={"mode", "nodes", "shares"} if older else None)


def running(setup: StackConfig, *, older: bool = False) -> StackOutputs:
    """The deployed stack of `setup`."""
    return StackOutputs.model_validate(outputs(setup, older=older))
