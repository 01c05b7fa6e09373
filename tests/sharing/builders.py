"""Builders of valid `sharing` objects with overrides, so that a test names only what it is about."""

import dataclasses
import datetime
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeVar, cast

import yaml
from pydantic import TypeAdapter

from sharing.fit.memory import need
from sharing.hardware.gpus import InstanceType, instance_types
from sharing.models.catalogue import MIB, KvType, Model, models
from sharing.models.served import Cache, ServedModel
from sharing.models.share import Share
from sharing.modes.modes import MPS_PER_MODEL, Mps, Sharing, TimeSlicing, switched
from sharing.sections.cluster import ClusterSettings
from sharing.sections.config import Circumstances, StackConfig
from sharing.sections.pools import GpuPool
from tests.rows import read_rows, read_yaml

TODAY = datetime.date(2026, 11, 21)
"""A day when Kubernetes 1.36 and 1.35 have standard support, 1.34 soon leaves it, and 1.33 has extended support."""
SMALL = "llama3.2:1b"


def read_figures(name: str) -> list[dict[str, str]]:
    """Reads the rows of a table in `figures`: what others measured or published."""
    return read_rows(Path(__file__).parent / "figures" / f"{name}.csv")


def read_cases(name: str) -> dict[str, Any]:
    """Reads the cases of a YAML table beside the tests, by the sentence that names each."""
    cases: dict[str, Any] = read_yaml(Path(__file__).parent / f"{name}.yaml")
    return cases


def served(
    name: str = "llama2:7b", *, context: int = 2048, slots: int = 1, kv_type: KvType = KvType.F16
) -> ServedModel:
    return ServedModel.of(models()[name], context=context, slots=slots, kv_type=kv_type)


def pair(slots: int = 1) -> tuple[ServedModel, ServedModel]:
    """The pair of the issue: llama2:7b and mistral:7b at context 2048."""
    return served("llama2:7b", slots=slots), served("mistral:7b", slots=slots)


def weighing(mib: float, slots: int = 1, on: str = "g4dn.xlarge") -> ServedModel:
    """A model that needs exactly `mib` on one type, with its margin: no layers, and weights that make up the rest."""
    model = Model(
        name="own",
        weights_bytes=0,
        layers=0,
        kv_heads=1,
        head_dim=64,
        max_context=0,
        width=1,
        feed_forward=1,
        vocabulary=1024,
        source="test",
    )
    gpu, weights_bytes = instance_types()[on].gpu, 0
    found = ServedModel.of(model, context=2048, slots=slots)
    while (less := mib - need(found, gpu).bound) > 0.001:
        weights_bytes += int(less * MIB * 0.98)
        found = found.with_model(replace(model, weights_bytes=weights_bytes))
    assert mib - 0.001 <= need(found, gpu).bound <= mib
    return found


def keeping(mib: int, cache: int = 0) -> ServedModel:
    """A model whose pod keeps `mib` of RAM, `cache` of it for prompts; processes, sidecar and buffers take 321 MiB."""
    model = Model(
        name="own",
        weights_bytes=MIB,
        embedding_bytes=(mib - cache - 321) * MIB,
        layers=0,
        kv_heads=1,
        head_dim=64,
        max_context=0,
        width=1,
        vocabulary=1,
        source="test",
    )
    return ServedModel.of(model, context=256, prompt_cache_mib=cache)


def instance(name: str = "g4dn.xlarge") -> InstanceType:
    return instance_types()[name]


def pool(types: Sequence[str] | str = "g4dn.xlarge", sharing: Sharing | None = None, **overrides: Any) -> GpuPool:
    """One node of these types with time-slicing by two; `types` is one name or several."""
    names = [types] if isinstance(types, str) else [*types]
    standard = GpuPool(name="gpu", instance_types=names).placed("gpu-nodes", sharing or TimeSlicing(replicas=2))
    return replace(standard, **overrides)


def listed(index: int, name: str, one: GpuPool, sharing_path: str = "sharing") -> GpuPool:
    """The pool as one of several; it uses the stack's sharing unless `sharing_path` names its own."""
    return replace(one, name=name, path=f"gpu-nodes[{index}]", sharing_path=sharing_path)


def tenants(*them: ServedModel | str, cache: Cache = "node", pool: str = "gpu") -> list[ServedModel]:
    every = [served(one) if isinstance(one, str) else one for one in them]
    return [one.changed(cache=cache).placed(index, one.id, pool) for index, one in enumerate(every)]


def setup(**overrides: Any) -> StackConfig:
    """Two small models on one g4dn.xlarge: no rule is broken, and there is nothing to warn about."""
    standard = StackConfig.model_validate(
        {
            "aws:region": "us-east-1",
            "sharing": {"mode": "timeslice", "replicas": 2},
            "cluster": {"kubernetes": "1.36", "nat": "none", "public-access-cidrs": ["192.0.2.1/32"]},
            "models": [{"name": SMALL}],
        }
    )
    small = replace(standard, pools=[pool()], models=tenants(SMALL, "llama3.2:3b"), today=TODAY)
    return replace(small, **overrides)


def stack(types: str, sharing: Sharing, *them: ServedModel, **overrides: Any) -> StackConfig:
    """A stack whose disk holds every model, so that only the GPUs or the RAM can be too small."""
    return setup(pools=(pool(types, sharing, volume_gib=2000, **overrides),), models=tenants(*them))


IN_CLUSTER = ("kubernetes", "support", "nat", "public_access_cidrs", "zones", "zone_names", "vpc")
IN_BUDGET = ("max_usd_per_hour", "max_usd_per_month", "alert")


Subject = TypeVar("Subject")


def replace(subject: Subject, **values: Any) -> Subject:
    """`dataclasses.replace`, and the same for sections of a stack file, whose keys may be those of a section in it."""
    values = {key: [*value] if isinstance(value, tuple) else value for key, value in values.items()}
    changed: Any
    match subject:
        case GpuPool():
            changed = _changed_pool(subject, values)
        case ServedModel():
            changed = _changed_model(subject, values)
        case StackConfig():
            changed = _changed_stack(subject, values)
        case _:
            changed = dataclasses.replace(cast(Any, subject), **values)
    return cast(Subject, changed)


def _changed_pool(old: GpuPool, values: dict[str, Any]) -> GpuPool:
    path, sharing = values.pop("path", old.path), values.pop("sharing", old.sharing)
    own = values.pop("sharing_path", old.sharing_path) != "sharing"
    return old.changed(**values, own_sharing=sharing if own else None).placed(path, sharing)


def _changed_model(old: ServedModel, values: dict[str, Any]) -> ServedModel:
    index, id, pool = values.pop("index", old.index), values.pop("id", old.id), values.pop("pool", old.pool)
    new = old.with_model(values.pop("model", old.model))
    return new.changed(**values).placed(index, id, pool)


def _changed_stack(old: StackConfig, values: dict[str, Any]) -> StackConfig:
    around = {key: values.pop(key, getattr(old, key)) for key in ("today", "book", "compared_modes")}
    cluster, budget = old.cluster, old.budget
    cluster = cluster.changed(**{key: values.pop(key) for key in IN_CLUSTER if key in values})
    flags = {"nat": "nat_is_written", "public_access_cidrs": "public_access_is_written"}
    unwritten = {key for key, name in flags.items() if not values.pop(name, True)}
    if unwritten:
        written = {key: getattr(cluster, key) for key in cluster.model_fields_set - unwritten}
        cluster = ClusterSettings.model_construct(**written).changed(**dict(cluster))
    nodes = cluster.system_nodes
    types, count = values.pop("system_types", nodes.instance_types), values.pop("system_nodes", nodes.count)
    cluster = cluster.changed(system_nodes=nodes.changed(instance_types=types, count=count))
    budget = budget.changed(**{key: values.pop(key) for key in IN_BUDGET if key in values})
    monitoring = old.monitoring
    if values.pop("metrics", False):
        monitoring = monitoring.changed(service_monitors=True)
    if values.pop("metrics_store", False):
        monitoring = monitoring.changed(store="builtin")
    if values.pop("ui", False):
        values["ui"] = old.ui.changed(enabled=True, storage_gib=values.pop("ui_storage_gib", old.ui.storage_gib))
    new = old.changed(cluster=cluster, budget=budget, monitoring=monitoring, **values)
    return new.under(Circumstances(**around))


def mode(name: str, replicas: int = 2) -> Sharing:
    """The mode of that name in the matrix: `mps-per-model` is MPS with limits per model."""
    if name == MPS_PER_MODEL:
        return Mps(replicas=replicas, limits="per-model")
    return switched(TimeSlicing(replicas=replicas), name)


def changed(whole: StackConfig, settings: str | Sequence[str]) -> StackConfig:
    """`whole` with the settings applied; if they are a text, those in its backquotes."""
    if isinstance(settings, str):
        assert re.sub(r"`[^`]+`|with|and| ", "", settings) == "", settings
        settings = re.findall(r"`([^`]+)`", settings)
    assert settings
    sections: dict[str, dict[str, Any]] = {}
    for setting in settings:
        path, _, value = setting.partition(": ")
        place, _, key = path.rpartition(".")
        sections.setdefault(place, {})[key] = yaml.safe_load(value)
    for place, values in sections.items():
        whole = _written(whole, place, values)
    return whole


def written_of(sharing: Sharing) -> dict[str, Any]:
    """The settings as a stack file has them."""
    return sharing.model_dump(exclude_unset=True, by_alias=True) | {"mode": sharing.mode}


def _written(whole: StackConfig, place: str, values: dict[str, Any]) -> StackConfig:
    fields: Any = {key.replace("-", "_"): value for key, value in values.items()}
    if place.startswith("models"):
        if "kv_type" in fields:
            fields["kv_type"] = KvType(fields["kv_type"])
        if place.endswith(".share"):
            place, fields = place.removesuffix(".share"), {"share": Share(**fields)}
        return whole.changed(models=[one.changed(**fields) if one.path == place else one for one in whole.models])
    old = next(one for one in whole.pools if place in (one.path, one.sharing_path, one.own_sharing_path))
    if place in (old.sharing_path, old.own_sharing_path):
        assert place == old.sharing_path or "mode" in values, "a pool's own sharing needs a mode"
        sharing: Sharing = TypeAdapter(Sharing).validate_python({**written_of(old.sharing), **values})
        new = replace(old, sharing=sharing, sharing_path=place)
    else:
        if "sharing" in fields:
            fields["sharing"] = TypeAdapter(Sharing).validate_python(fields["sharing"])
            fields["sharing_path"] = f"{place}.sharing"
        new = replace(old, **fields)
    return whole.changed(pools=[new if one is old else one for one in whole.pools])


HERE, THERE = listed(0, "here", pool()), listed(1, "there", pool())


def two_pools(*them: ServedModel, here: GpuPool = HERE, there: GpuPool = THERE) -> StackConfig:
    return setup(pools=(here, there), models=them)
