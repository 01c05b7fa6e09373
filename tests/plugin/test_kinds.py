"""What a type hint means in other languages."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import pulumi
import pytest

from components import BucketCheckpoints, OllamaModel, PoolSharing, VolumeCheckpoints
from plugin.arguments import read_kind
from sharing.hardware.gpus import Gpu
from sharing.models.catalogue import KvType
from sharing.modes.modes import Exclusive, Mig, Mps, Sharing, TimeSlicing

MODES = (Exclusive, TimeSlicing, Mig, Mps)
INPUT: Any = pulumi.Input
HINTS: list[tuple[Any, str, tuple[Any, ...]]] = [
    (int | None, "integer", ()),
    (INPUT[str] | None, "text", ()),
    (Sequence[OllamaModel | Mapping[str, Any]], "list", (OllamaModel | Mapping[str, Any],)),
    (OllamaModel | Mapping[str, Any], "object", (OllamaModel,)),
    (Sharing, "mode", MODES),
    (Sharing | Mapping[str, Any], "mode", MODES),
    (KvType | Literal["f16", "q8_0"], "choice", ("f16", "q8_0", "q4_0")),
    (BucketCheckpoints | VolumeCheckpoints | None, "either", (BucketCheckpoints, VolumeCheckpoints)),
    (Gpu | str, "text", ()),
    # A resource exists only in its own program.
    (PoolSharing | pulumi.Resource | None, "object", (PoolSharing,)),
    (pulumi.ComponentResource | None, "none", ()),
    (Sequence[pulumi.Resource], "none", ()),
]


@pytest.mark.parametrize(("hint", "name", "parts"), HINTS)
def test_a_hint_has_a_kind(hint: Any, name: str, parts: tuple[Any, ...]) -> None:
    kind = read_kind(hint)
    assert (kind.name, kind.parts) == (name, parts)


def test_an_input_can_be_an_output() -> None:
    assert [read_kind(hint).is_input for hint in (INPUT[str], INPUT[Sequence[str]], str)] == [1, 1, 0]


def test_a_type_that_other_languages_lack_stops_the_schema() -> None:
    with pytest.raises(TypeError, match="Add it to `read_kind`"):
        read_kind(bytes)
