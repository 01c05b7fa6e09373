"""Outputs of a stack that is up, as `pulumi stack output --json` prints them."""

from typing import Any

from sharing.setup import Pool, Setup
from tandem.deployed.outputs import Running


def outputs(setup: Setup, *, older: bool = False) -> dict[str, Any]:
    """Those of `setup`; `older` leaves out what they did not always tell."""
    return {
        "pools": {pool.name: _pool(pool, older) for pool in setup.pools},
        "endpoints": {tenant.served.id: f"http://{tenant.served.id}.ollama:11434" for tenant in setup.tenants},
        "kubeconfig": "[secret]",
        "cluster_name": "tandem-test",
    }


def _pool(pool: Pool, older: bool) -> dict[str, Any]:
    told = {
        "config": pool.sharing.config_name,
        "gpu": pool.smallest.gpu.name,
        "provisioner": pool.provisioner,
        "instance_types": list(pool.instance_types),
        "capacity": pool.capacity,
    }
    return {
        "mode": pool.sharing.mode,
        "nodes": pool.desired,
        "shares": [
            {"resource": shares.resource, "total": 1, "per_gpu": shares.per_gpu, "memory_mib": shares.memory_mib}
            for shares in pool.offers
        ],
        **({} if older else told),
    }


def running(setup: Setup, *, older: bool = False) -> Running:
    """The stack of `setup`, up."""
    return Running.model_validate(outputs(setup, older=older))
