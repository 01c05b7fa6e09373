"""Builders of valid `sharing` objects with overrides, so that a test names only what it is about."""

import datetime
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import yaml
from pydantic import TypeAdapter

from sharing.fit.memory import need
from sharing.hardware.gpus import InstanceType, instance_types
from sharing.models.catalogue import MIB, KvType, Model, Served, models
from sharing.models.served import Cache
from sharing.modes.modes import Sharing, TimeSlicing, switched
from sharing.stack.setup import Pool, Setup, Tenant
from tests.rows import read_rows

TODAY = datetime.date(2026, 11, 21)
"""A day when Kubernetes 1.36 and 1.35 have standard support, 1.34 soon leaves it, and 1.33 has extended support."""
SMALL = "llama3.2:1b"


def read_figures(name: str) -> list[dict[str, str]]:
    """Reads the rows of a table in `figures`: what others measured or published."""
    return read_rows(Path(__file__).parent / "figures" / f"{name}.csv")


def read_cases(name: str) -> dict[str, Any]:
    """Reads the cases of a YAML table beside the tests, by the sentence that names each."""
    cases: dict[str, Any] = yaml.safe_load((Path(__file__).parent / f"{name}.yaml").read_text(encoding="utf-8"))
    return cases


def served(name: str = "llama2:7b", *, context: int = 2048, slots: int = 1, kv_type: KvType = KvType.F16) -> Served:
    return Served(id=name.replace(":", "-"), model=models()[name], context=context, slots=slots, kv_type=kv_type)


def pair(slots: int = 1) -> tuple[Served, Served]:
    """The pair of the issue: llama2:7b and mistral:7b at context 2048."""
    return served("llama2:7b", slots=slots), served("mistral:7b", slots=slots)


def weighing(mib: float, slots: int = 1, on: str = "g4dn.xlarge") -> Served:
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
    found = Served(id="own", model=model, context=2048, slots=slots)
    while (less := mib - need(found, gpu).bound) > 0.001:
        weights_bytes += int(less * MIB * 0.98)
        found = replace(found, model=replace(model, weights_bytes=weights_bytes))
    assert mib - 0.001 <= need(found, gpu).bound <= mib
    return found


def keeping(mib: int, cache: int = 0) -> Served:
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
    return Served(id="own", model=model, context=256, slots=1, prompt_cache_mib=cache)


def instance(name: str = "g4dn.xlarge") -> InstanceType:
    return instance_types()[name]


def pool(types: Sequence[str] | str = "g4dn.xlarge", sharing: Sharing | None = None, **overrides: Any) -> Pool:
    """One node of these types with time-slicing by two; `types` is one name or several."""
    standard = Pool(
        name="gpu",
        path="gpu-nodes",
        instance_types=(types,) if isinstance(types, str) else tuple(types),
        capacity="spot",
        min=0,
        desired=1,
        max=1,
        volume_gib=100,
        sharing=sharing or TimeSlicing(replicas=2),
    )
    return replace(standard, **overrides)


def listed(index: int, name: str, one: Pool, sharing_path: str = "sharing") -> Pool:
    """The pool as one of several; it uses the stack's sharing unless `sharing_path` names its own."""
    return replace(one, name=name, path=f"gpu-nodes[{index}]", sharing_path=sharing_path)


def tenants(*them: Served | str, cache: Cache = "node", pool: str = "gpu") -> tuple[Tenant, ...]:
    return tuple(
        Tenant(served=served(one) if isinstance(one, str) else one, path=f"models[{index}]", pool=pool, cache=cache)
        for index, one in enumerate(them)
    )


def setup(**overrides: Any) -> Setup:
    """Two small models on one g4dn.xlarge: no rule is broken, and there is nothing to warn about."""
    standard = Setup(
        region="us-east-1",
        kubernetes="1.36",
        support="standard",
        zones=2,
        nat="none",
        public_access_cidrs=("192.0.2.1/32",),
        system_types=("t3.medium",),
        system_nodes=2,
        pools=(pool(),),
        tenants=tenants(SMALL, "llama3.2:3b"),
        max_usd_per_hour=None,
        today=TODAY,
    )
    return replace(standard, **overrides)


def mode(name: str, replicas: int = 2) -> Sharing:
    return switched(TimeSlicing(replicas=replicas), name)


def changed(whole: Setup, settings: str | Sequence[str]) -> Setup:
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


def _written(whole: Setup, place: str, values: dict[str, Any]) -> Setup:
    fields: Any = {
        key.replace("-", "_"): tuple(value) if key == "instance-types" else value for key, value in values.items()
    }
    if place.startswith("models"):
        if "batch" in fields:
            fields["num_batch"] = fields.pop("batch")
        if "kv_type" in fields:
            fields["kv_type"] = KvType(fields["kv_type"])
        asked = next(tenant for tenant in whole.tenants if tenant.path == place)
        tenant = replace(asked, served=replace(asked.served, **fields))
        return replace(whole, tenants=tuple(tenant if one is asked else one for one in whole.tenants))
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
    return replace(whole, pools=tuple(new if one is old else one for one in whole.pools))
