"""How long parts of a stack take to start, in typical times: `data/durations.csv`, and downloads."""

import math
from collections.abc import Mapping
from functools import cache

from sharing import tables
from sharing.artifacts import images_mib
from sharing.models.served import ServedModel
from sharing.sections.config import StackConfig
from sharing.sections.pools import GpuPool

NODE_CLAIM = "kubernetes:karpenter.sh/v1:NodeClaim"
"""A node of Karpenter. It is no resource of the program: it starts while a model waits."""
DAEMON_SET = "kubernetes:apps/v1:DaemonSet"
"""The device plugin on a new node, without which no share is free."""
DOWNLOAD_MIB_PER_SECOND = 50.0
"""Assumed for registries of images and models together; sightings lie between 23 and 100 MB/s, none of them on EC2."""
DISK_MIB_PER_SECOND = 125.0
"""Read speed of a gp3 volume without extra throughput: the GPU loads a model from there."""
DOWNLOAD_UNCERTAINTY = 0.6
"""Fraction by which the download time may be shorter or longer."""
COMPILE_MINUTES, COMPILE_UNCERTAINTY = 1.0, 0.8
"""The driver compiles the engine's kernels when a model first runs with an empty disk (docs/decisions/0158). The same
kernels took 57 s on a Quadro RTX 8000, which is as old as a T4 (audio.cpp#559); for other GPUs no time was found."""


@cache
def known_times() -> Mapping[str, tuple[float, float]]:
    """Typical minutes and their uncertainty, by a resource's type, or by a change to it."""
    return {row["type"]: (float(row["minutes"]), float(row["plus_minus"])) for row in tables.read("durations").rows}


def weights_mib(served: ServedModel) -> float:
    """Size of the files that a model downloads and loads onto its GPU."""
    return served.model.file_bytes / 2**20


def download_minutes(mib: float) -> tuple[float, float]:
    """Minutes to download this from registries, and their uncertainty."""
    minutes = mib / DOWNLOAD_MIB_PER_SECOND / 60
    return minutes, minutes * DOWNLOAD_UNCERTAINTY


def load_minutes(mib: float) -> float:
    """Minutes to load this from a disk onto the GPU."""
    return mib / DISK_MIB_PER_SECOND / 60


def cold_start(*models: ServedModel) -> tuple[float, float]:
    """Minutes until these models answer that start on a new node at the same time, and their uncertainty.

    A new node has no image. Its disk has neither the model files nor compiled kernels; a volume has both.
    """
    new = [served for served in models if served.cache == "node"]
    pulled = images_mib() + sum(map(weights_mib, new))
    compiled = [(COMPILE_MINUTES, COMPILE_UNCERTAINTY)] if new else []
    parts = [known_times()[NODE_CLAIM], known_times()[DAEMON_SET], download_minutes(pulled), *compiled]
    minutes = sum(part for part, _ in parts) + load_minutes(max(map(weights_mib, models), default=0.0))
    return minutes, math.sqrt(sum(spread**2 for _, spread in parts))


def after_a_reclaim(pool: GpuPool, config: StackConfig) -> tuple[float, float]:
    """Minutes until the models of a lost node answer on a new one, and their uncertainty: the largest it may have.

    Without models, until the node can take one.
    """
    largest = sorted(config.models_of(pool), key=weights_mib, reverse=True)
    return cold_start(*largest[: pool.shares_per_node])
