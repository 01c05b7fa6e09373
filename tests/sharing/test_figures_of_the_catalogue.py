"""Every figure that the rules derive from the catalogue: a change in any of them appears here as a diff.

This file does not check that the figures are right: readings and NVIDIA's tables do, in other tests.
`--regen` writes `tests/golden/figures-*.csv`.
"""

import csv
import io
from collections.abc import Callable, Iterator
from dataclasses import asdict
from typing import Any

import pytest

from sharing.fit.host import host_need
from sharing.fit.memory import need
from sharing.hardware import mig
from sharing.hardware.gpus import gpus, instance_types
from sharing.models.catalogue import KvType, models
from sharing.models.served import ServedModel
from tests.conftest import Golden

SETTINGS = (
    {"context": 2048, "slots": 1},
    {"context": 30_000, "slots": 3, "kv_type": KvType.Q8_0},
    {"context": 8192, "slots": 8, "kv_type": KvType.Q4_0, "batch": 1024, "prompt_cache_mib": 0},
)
Row = dict[str, object]


def memory() -> Iterator[Row]:
    """The model with settings that a stack file may have, and a KV type if the model supports it."""
    for name, model in models().items():
        for asked in SETTINGS:
            settings: Any = asked if model.can_quantize_kv else {**asked, "kv_type": KvType.F16}
            served = ServedModel.of(model, **settings)
            found, host = need(served, gpus()["l4"]), host_need(served)
            yield {
                **{"model": name, "context": served.effective_context, "slots": served.effective_slots},
                **{"batch": served.effective_batch, "volume_gib": model.volume_gib, "flash": model.has_flash_attention},
                **{f"gpu_{key}": round(value, 1) for key, value in asdict(found).items()},
                **{f"host_{key}": round(value, 1) for key, value in asdict(host).items()},
                "host_total": host.total,
            }


def hardware() -> Iterator[Row]:
    for gpu in gpus().values():
        yield asdict(gpu)


def slices() -> Iterator[Row]:
    for gpu in gpus().values():
        layouts, presets = mig.layouts(gpu), mig.presets(gpu)
        for profile in mig.profiles(gpu).values():
            counts = [dict(layout).get(profile, 0) for layout in layouts]
            preset = {name: count for name, layout in presets.items() if (count := dict(layout).get(profile, 0))}
            yield {
                **{"gpu": gpu.name, "resource": profile.resource, "is_plain": profile.is_plain},
                **asdict(profile),
                **{
                    "layouts": len(counts),
                    "of_them": sum(map(bool, counts)),
                    "in_total": sum(counts),
                    "presets": preset,
                },
            }


def types() -> Iterator[Row]:
    for kind in instance_types().values():
        yield {**asdict(kind), "gpu": kind.gpu.name}


@pytest.mark.parametrize("rows", [memory, hardware, slices, types])
def test_the_figures_match_the_golden(rows: Callable[[], Iterator[Row]], golden: Golden) -> None:
    text = io.StringIO()
    found = [*rows()]
    table = csv.DictWriter(text, fieldnames=[*found[0]], lineterminator="\n")
    table.writeheader()
    table.writerows(found)
    golden(f"figures-{rows.__name__}.csv", text.getvalue())
