"""Paths of settings in a stack file: whether one contains another, and those of one pool among several."""

from collections.abc import Collection

from sharing.stack.pools import ONE_POOL
from sharing.stack.setup import Pool


def touches(paths: Collection[str], others: Collection[str]) -> bool:
    """Whether one of `paths` contains, or is part of, one of `others`: `sharing` touches `sharing.mode`."""
    return any(_within(a, b) or _within(b, a) for a in paths for b in others)


def rests_on(reads: Collection[str], pool: Pool) -> list[str]:
    """The paths of `reads` for `pool`; `reads` are paths of a file with one pool.

    `gpu-nodes.max` may be `gpu-nodes[1].max` there, and `sharing.mode` be `gpu-nodes[1].sharing.mode`.
    """
    found = []
    for path in reads:
        if _within(path, "sharing"):
            # If the sharing of a pool is unreadable, that of the stack replaces it.
            found += [path.replace("sharing", place, 1) for place in (pool.sharing_path, pool.own_sharing_path)]
        else:
            found.append(path.replace(ONE_POOL, pool.path, 1) if _within(path, ONE_POOL) else path)
    return found


def _within(inner: str, outer: str) -> bool:
    return inner == outer or inner.startswith((f"{outer}.", f"{outer}["))
