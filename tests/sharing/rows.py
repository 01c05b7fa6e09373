"""Setups from rows of a table: each row has what differs from `builders.config`, with the keys of a stack file."""

from typing import Any

from pydantic import TypeAdapter

from sharing.models.catalogue import KvType
from sharing.models.served import ServedModel
from sharing.models.share import Share
from sharing.modes.modes import Sharing
from sharing.sections.config import StackConfig
from sharing.sections.existing import ExistingVpc
from sharing.sections.park import ParkSettings
from sharing.sections.pools import GpuPool
from sharing.sections.scale_to_zero import ScaleToZeroSettings
from tests.sharing.builders import keeping, listed, pool, replace, served, setup, weighing


def read_setup(row: dict[str, Any]) -> StackConfig:
    """`gpu-nodes`, `sharing` and `models` are those of a stack file; other keys are fields of `StackConfig`."""
    values = {key.replace("-", "_"): value for key, value in row.items()}
    nodes, stacks = values.pop("gpu_nodes", {}), values.pop("sharing", {"mode": "timeslice", "replicas": 2})
    if isinstance(nodes, list):
        values["pools"] = [
            listed(
                index,
                each["name"],
                read_pool(each, stacks),
                f"gpu-nodes[{index}].sharing" if "sharing" in each else "sharing",
            )
            for index, each in enumerate(nodes)
        ]
    else:
        values["pools"] = [read_pool(nodes, stacks)]
    if idles := values.pop("scale_to_zero", None):
        values["scale_to_zero"] = ScaleToZeroSettings(
            enabled=True, idle_minutes=idles["idle-minutes"], cold_requests="wait"
        )
    if "park" in values:
        values["park"] = ParkSettings(**values["park"])
    if "vpc" in values:
        values["vpc"] = ExistingVpc.model_validate(values["vpc"])
    if "models" in values:
        values["models"] = read_models(values.pop("models"))
    return setup(**values)


def read_pool(row: dict[str, Any], stacks: dict[str, Any]) -> GpuPool:
    values = {key.replace("-", "_"): value for key, value in row.items()}
    sharing: Sharing = TypeAdapter(Sharing).validate_python(values.pop("sharing", stacks))
    return pool(values.pop("instance_types", "g4dn.xlarge"), sharing, **values)


def read_models(rows: list[Any]) -> list[ServedModel]:
    """Each row is a tag, the settings of a model, or the arguments of a builder; `times` repeats it."""
    found: list[ServedModel] = []
    for row in rows:
        values: dict[str, Any] = {"name": row} if isinstance(row, str) else dict(row)
        where: dict[str, Any] = {"pool": values.pop("pool", "gpu"), "cache": values.pop("cache", "node")}
        where |= {"spill": values.pop("spill", []), "importance": values.pop("importance", None)}
        where |= {"share": Share.model_validate(values.pop("share")) if "share" in values else None}
        times = values.pop("times", 1)
        match values:
            case {"keeping": arguments}:
                model = keeping(**arguments)
            case {"weighing": arguments}:
                model = weighing(**arguments)
            case {"describing": arguments}:
                model = describing(**arguments)
            case _:
                kept, kv_type = values.pop("prompt-cache-mib", 0), KvType(values.pop("kv-type", "f16"))
                model = replace(served(kv_type=kv_type, **values), prompt_cache_mib=kept)
        found += [replace(model, **where)] * times
    return [replace(each, index=index) for index, each in enumerate(found)]


def describing(*, slots: int = 1, context: int = 2048, **shape: Any) -> ServedModel:
    """A small model with a shape that matters to Ollama."""
    small = weighing(1_000)
    return small.with_model(replace(small.model, **shape)).changed(slots=slots, context=context)
