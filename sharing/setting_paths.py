"""Paths of settings in a stack file: which lie in each other, and where a pool of several has its own."""

from collections.abc import Collection

from sharing.setup import ONE_POOL, Pool


def touches(paths: Collection[str], others: Collection[str]) -> bool:
    """Whether one of `paths` lies in, or around, one of `others`: `sharing` touches `sharing.mode`."""
    return any(_within(a, b) or _within(b, a) for a in paths for b in others)


def rests_on(reads: Collection[str], pool: Pool) -> list[str]:
    """Where `pool` has the settings `reads`, which are in the words of a file with one pool.

    `gpu-nodes.max` may be `gpu-nodes[1].max` there, and `sharing.mode` be `gpu-nodes[1].sharing.mode`.
    """
    found = []
    for path in reads:
        if _within(path, "sharing"):
            # Of a pool whose own cannot be read, the stack's stands in for it.
            found += [path.replace("sharing", place, 1) for place in (pool.sharing_path, pool.own_sharing_path)]
        else:
            found.append(path.replace(ONE_POOL, pool.path, 1) if _within(path, ONE_POOL) else path)
    return found


def _within(inner: str, outer: str) -> bool:
    return inner == outer or inner.startswith((f"{outer}.", f"{outer}["))
