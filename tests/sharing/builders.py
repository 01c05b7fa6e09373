"""Valid things of `sharing`, each with overrides: a test names only what it is about."""

import datetime
import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import yaml
from pydantic import TypeAdapter

from components import versions
from sharing.gpus import InstanceType, instance_types
from sharing.memory import need
from sharing.models import MIB, KvType, Model, Served, models
from sharing.modes import Sharing, TimeSlicing, switched
from sharing.setup import Cache, Pins, Pool, Setup, Tenant

TODAY = datetime.date(2026, 11, 21)
"""A day on which 1.36 and 1.35 are in standard support, 1.34 is about to leave it, 1.33 is in extended support."""
SMALL = "llama3.2:1b"


def served(name: str = "llama2:7b", *, context: int = 2048, slots: int = 1, kv_type: KvType = KvType.F16) -> Served:
    return Served(id=name.replace(":", "-"), model=models()[name], context=context, slots=slots, kv_type=kv_type)


def pair(slots: int = 1) -> tuple[Served, Served]:
    """The pair of the issue: llama2:7b and mistral:7b at context 2048."""
    return served("llama2:7b", slots=slots), served("mistral:7b", slots=slots)


def weighing(mib: float, slots: int = 1) -> Served:
    """A model that needs exactly so much: no layers, and a process and a batch that are counted in."""
    model = Model(
        name="own",
        weights_bytes=round((mib - 459) * MIB),
        layers=0,
        kv_heads=1,
        head_dim=1,
        max_context=0,
        vocabulary=1024,
        source="test",
    )
    found = Served(id="own", model=model, context=2048, slots=slots)
    assert need(found, instance().gpu).bound == mib
    return found


def instance(name: str = "g4dn.xlarge") -> InstanceType:
    return instance_types()[name]


def pool(types: Sequence[str] | str = "g4dn.xlarge", sharing: Sharing | None = None, **overrides: Any) -> Pool:
    """One node of the types under time-slicing by two; `types` is one name or several."""
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
    """The pool as one of several; it takes the stack's sharing unless it is told where its own stands."""
    return replace(one, name=name, path=f"gpu-nodes[{index}]", sharing_path=sharing_path)


def tenants(*them: Served | str, cache: Cache = "node", pool: str = "gpu") -> tuple[Tenant, ...]:
    return tuple(
        Tenant(served=served(one) if isinstance(one, str) else one, path=f"models[{index}]", pool=pool, cache=cache)
        for index, one in enumerate(them)
    )


def setup(**overrides: Any) -> Setup:
    """Two small models on one g4dn.xlarge: no rule is broken and nothing is doubtful."""
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
        pins=versions.pins(),
        today=TODAY,
    )
    return replace(standard, **overrides)


def pins(**overrides: Any) -> Pins:
    return replace(versions.pins(), **overrides)


def mode(name: str, replicas: int = 2) -> Sharing:
    return switched(TimeSlicing(replicas=replicas), name)


def changed(whole: Setup, index: int, text: str) -> Setup:
    """`whole` after what `text` tells to write has been written for model `index`; fails on words it cannot read."""
    settings = re.findall(r"`([^`]+)`", text)
    assert settings, text
    assert re.sub(r"`[^`]+`|with|and| ", "", text) == "", text
    settings.sort(key=lambda setting: setting.startswith("sharing"))  # the card first, then what is cut of it
    for setting in settings:
        whole = _written(whole, index, *setting.split(": ", 1))
    return whole


def written_of(sharing: Sharing) -> dict[str, Any]:
    """The settings as they stand in a file."""
    return sharing.model_dump(exclude_unset=True) | {"mode": sharing.mode}


def _written(whole: Setup, index: int, key: str, value: str) -> Setup:
    old = next((one for one in whole.pools if key.startswith(f"{one.path}.")), whole.pools[0])
    if key == f"{old.path}.sharing":
        new = replace(old, sharing=TypeAdapter(Sharing).validate_python(yaml.safe_load(value)))
    elif key in ("sharing.replicas", "sharing.layout", "sharing.strategy"):
        update = {key.partition(".")[2]: yaml.safe_load(value)}
        new = replace(old, sharing=TypeAdapter(Sharing).validate_python({**written_of(old.sharing), **update}))
    elif key == "sharing.mode":
        new = replace(old, sharing=switched(old.sharing, value))
    elif key == f"{old.path}.instance-types":
        new = replace(old, instance_types=tuple(value.strip("[]").split(", ")))
    else:
        tenant = whole.tenants[index]
        served = tenant.served
        options = {
            "slots": lambda: replace(served, slots=int(value)),
            "context": lambda: replace(served, context=int(value)),
            "kv-type": lambda: replace(served, kv_type=KvType(value)),
        }
        written = replace(tenant, served=options[key]())
        return replace(whole, tenants=(*whole.tenants[:index], written, *whole.tenants[index + 1 :]))
    return replace(whole, pools=tuple(new if one is old else one for one in whole.pools))
