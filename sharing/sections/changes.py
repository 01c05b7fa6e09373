"""Changes of a stack: the nodes and the disk that a change needs, and how a stack file and advice write it."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from sharing.models.served import ServedModel
from sharing.modes.base import PER_MODEL
from sharing.modes.modes import Sharing
from sharing.problems import abbreviate
from sharing.section import kebab
from sharing.sections.config import StackConfig
from sharing.sections.pools import GpuPool

DEFAULTS = (("allocation-policy", "packed"), ("limits", "equal"))
"""Settings that a file need not have."""
MOST_SINGLE = 3
"""How many models of a pool are changed one by one, the largest first, before all get the same change. Advice that
changes more of them abbreviates their paths."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Advice:
    """A change after which nothing refuses the pool or its models."""

    settings: tuple[str, ...]
    """The settings to write, e.g. `gpu-nodes.desired: 2`."""
    usd_per_hour: float | None
    """The cost of the entire stack after the change; None if it is unknown."""
    usd_per_month: float | None
    is_priced: bool
    """Whether GPU prices of this region are known; otherwise they are those of another region, or estimates."""

    loses_limits: bool
    """Whether nothing limits the memory of a model after it, although the file asks for limits that fit each model."""

    @property
    def change(self) -> str:
        """The settings in one line; a setting that many models share appears once."""
        first, *more = (f"`{setting}`" for setting in _abbreviate(self.settings))
        return f"{first} with {' and '.join(more)}" if more else first

    def __str__(self) -> str:
        if self.usd_per_hour is None:
            return self.change
        origin = "" if self.is_priced else " with GPU prices of another region"
        lost = ", without memory limits" * self.loses_limits
        return f"{self.change} (${self.usd_per_hour:.3f} per hour{origin}{lost})"


def with_room(pool: GpuPool, config: StackConfig, *, exact: bool = True) -> GpuPool:
    """`pool` with the disk and the nodes that its models need; `exact` also removes nodes."""
    per_node = pool.shares_per_node
    nodes = max(-(-len(config.models_of(pool)) // per_node), 1) if per_node else 1
    desired = max(pool.max, nodes) if config.park else pool.desired
    if pool.provisioner == "node-group" and desired and not config.park:
        desired = nodes if exact else max(nodes, desired)
    return pool.changed(
        min=min(pool.min, desired),
        desired=desired,
        max=max(pool.max, nodes),
        volume_gib=max(pool.volume_gib, config.disk_gib(pool)),
    )


def changed_settings(old: StackConfig, new: StackConfig) -> tuple[str, ...]:
    """The settings of pools and models that differ, as a stack file has them, e.g. `gpu-nodes.desired: 2`."""
    settings: list[str] = []
    for before, after in zip(old.pools, new.pools, strict=True):
        settings += _sharing(before, after)
        settings += _nodes(before, after, is_counted=new.park is None)
    for was, now in zip(old.models, new.models, strict=True):
        settings += _model(was, now)
    return tuple(settings)


def _sharing(old: GpuPool, new: GpuPool) -> Iterator[str]:
    if old.sharing == new.sharing:
        return
    if old.listed:
        yield f"{new.sharing_path}: {written(new.sharing)}"
        return
    before, after = (sharing.model_dump(mode="json", by_alias=True) for sharing in (old.sharing, new.sharing))
    unset = {key for key, value in _explicit(old.sharing).items() if value is None}
    for key in ("mode", *_explicit(new.sharing)):
        # An explicit `null` must become a number if the new mode needs one; an absent key needs no line.
        if before[key] != after[key]:
            yield f"{new.sharing_path}.{key}: {in_one_line(after[key])}"
            unset.discard(key)
    yield from (
        f"{new.sharing_path}.{key}: {in_one_line(after[key])}" for key in sorted(unset) if after[key] is not None
    )
    if before["limits"] == PER_MODEL and after["limits"] is None:
        # No other mode has them.
        yield f"{new.sharing_path}.limits: null"


def _explicit(sharing: Sharing) -> dict[str, object]:
    """The settings that the file has, including those set to `null`."""
    said = sharing.model_dump(by_alias=True, exclude_unset=True)
    return {key: value for key, value in said.items() if key != "mode"}


def _nodes(old: GpuPool, new: GpuPool, *, is_counted: bool) -> Iterator[str]:
    """`is_counted`: whether the file has the number of nodes. With `park`, the schedule sets it."""
    if old.instance_types != new.instance_types:
        yield f"{old.path}.instance-types: [{', '.join(new.instance_types)}]"
    counts = ("min", "desired") if is_counted else ()
    for key in ("capacity", "on_demand_fallback", *counts, "max", "volume_gib"):
        if getattr(old, key) != getattr(new, key):
            yield f"{old.path}.{kebab(key)}: {in_one_line(getattr(new, key))}"


def _model(old: ServedModel, new: ServedModel) -> Iterator[str]:
    for field in ("prompt_cache_mib", "slots", "context", "batch", "kv_type"):
        if getattr(old, field) != getattr(new, field):
            yield f"{old.path}.{kebab(field)}: {getattr(new, field)}"
    if old.share != new.share and new.share:
        yield f"{old.path}.share.memory-gib: {new.share.memory_gib:g}"


def written(sharing: Sharing) -> str:
    """The sharing as a stack file has it in one line, e.g. `{mode: mps, replicas: 4}`."""
    settings = sharing.model_dump(by_alias=True, exclude_none=True)
    return in_one_line({key: value for key, value in settings.items() if (key, value) not in DEFAULTS})


def in_one_line(value: Any) -> str:
    """A value as a stack file has it in one line."""
    if isinstance(value, dict):
        return f"{{{', '.join(f'{key}: {in_one_line(each)}' for key, each in value.items())}}}"
    if isinstance(value, list):
        return f"[{', '.join(map(in_one_line, value))}]"
    if isinstance(value, bool):
        return str(value).lower()
    return "null" if value is None else str(value)


def _abbreviate(settings: Iterable[str]) -> Iterator[str]:
    """The settings; the same value for many models appears once, e.g. `models[0-47].slots: 1`."""
    alike: dict[tuple[str, str], list[str]] = {}
    for setting in settings:
        path, _, value = setting.partition(": ")
        model, _, key = path.rpartition(".")
        alike.setdefault((key if model.startswith("models[") else path, value), []).append(path)
    for (_, value), paths in alike.items():
        yield from (f"{path}: {value}" for path in (paths if len(paths) <= MOST_SINGLE else [abbreviate(paths)]))
