"""Numbers of the components: their bounds, and the defaults of a model."""

from collections.abc import Callable
from dataclasses import fields
from typing import Any

import pytest

from sharing.models.served import ServedModel
from tandem import (
    CostAlertArgs,
    GpuClusterArgs,
    KarpenterGpuPoolArgs,
    KarpenterPool,
    Mps,
    OllamaModel,
    OpenWebUIArgs,
    ParkedNodeGroup,
    PoolSharing,
    Scaling,
    ShareProofArgs,
    SpotGpuNodeGroupArgs,
    SpotJobArgs,
    VolumeCheckpoints,
)
from tests.components.test_public_api import MAIL, THEIRS, build

MINIMA = [
    (GpuClusterArgs, "zones", 2),
    (GpuClusterArgs, "system_nodes", 1),
    (GpuClusterArgs, "system_zones", 1),
    (SpotGpuNodeGroupArgs, "min", 0),
    (SpotGpuNodeGroupArgs, "max", 1),
    (SpotGpuNodeGroupArgs, "volume_gib", 45),
    (KarpenterPool, "max_nodes", 1),
    (KarpenterPool, "volume_gib", 45),
    (KarpenterGpuPoolArgs, "controller_replicas", 1),
    (PoolSharing, "max_nodes", 1),
    (OllamaModel, "context", 1),
    (OllamaModel, "slots", 1),
    (OllamaModel, "prompt_cache_mib", 0),
    (OpenWebUIArgs, "storage_gib", 0),
    # More than the 100 characters that two passages share.
    (OpenWebUIArgs, "chunk_characters", 101),
    (ShareProofArgs, "gpus_per_node", 1),
    (Scaling, "idle_minutes", 1),
    (Scaling, "longest_wait_minutes", 1),
    (SpotJobArgs, "cpu_millis", 1),
    (SpotJobArgs, "memory_mib", 1),
    (SpotJobArgs, "user", 0),
    (SpotJobArgs, "retries", 0),
    (SpotJobArgs, "stop_seconds", 1),
    (SpotJobArgs, "deadline_seconds", 1),
    (SpotJobArgs, "keep_seconds", 1),
    (VolumeCheckpoints, "size_gib", 1),
    (ParkedNodeGroup, "nodes", 1),
]
JUDGED_OTHERWISE = {
    # Between `min` and `max`; by the size of the model; by the rules of a stack file.
    (SpotGpuNodeGroupArgs, "desired"),
    (OllamaModel, "volume_gib"),
    (OllamaModel, "batch"),
}


@pytest.mark.parametrize(("kind", "name", "minimum"), MINIMA)
def test_the_minimum_of_a_number_is_accepted_and_one_less_is_not(
    kind: Callable[..., object], name: str, minimum: int
) -> None:
    more = {"gpu": "t4"} if kind is PoolSharing else {}
    with pytest.raises(ValueError, match=rf"\.{name} is {minimum - 1}, but the minimum is {minimum}\. "):
        build(kind, **{name: minimum - 1}, **more)
    build(kind, **{name: minimum}, **more)


def test_every_number_has_a_minimum() -> None:
    kinds = {kind for kind, _, _ in MINIMA}
    numbers = {(kind, one.name) for kind in kinds for one in fields(kind) if one.type in (int, int | None)}
    assert numbers == {(kind, name) for kind, name, _ in MINIMA} | JUDGED_OTHERWISE


PER_MODEL = Mps(limits="per-model", replicas=2)


@pytest.mark.parametrize(
    ("kind", "given"),
    [
        (SpotGpuNodeGroupArgs, {"min": 2, "desired": 2, "max": 2}),
        # AWS Budgets API reference, NotificationWithSubscribers: up to 10 addresses.
        (CostAlertArgs, {"emails": [MAIL] * 10}),
        (CostAlertArgs, {"max_usd": 0.01}),
        # As good as left out.
        (GpuClusterArgs, {"vpc": THEIRS, "zone_names": []}),
        # The largest and the smallest VPC of four zones.
        (GpuClusterArgs, {"cidr": "10.0.0.0/16"}),
        (GpuClusterArgs, {"cidr": "10.0.0.0/22"}),
        (OpenWebUIArgs, {"storage_gib": 16384, "zone": "us-east-1a"}),
        # A spot instance ends two minutes after its notice.
        (SpotJobArgs, {"stop_seconds": 120}),
        # One for each share; 1 MiB; and in total the 14,912 MiB that CUDA shows on a T4, less 66 of the MPS server.
        (ShareProofArgs, {"sharing": PER_MODEL, "limits_mib": [14845, 1]}),
    ],
)
def test_a_value_at_its_bound_is_accepted(kind: Callable[..., object], given: dict[str, Any]) -> None:
    build(kind, **given)


def test_a_model_has_the_defaults_of_a_stack_file() -> None:
    of_a_file, llama = ServedModel(name="llama2:7b"), OllamaModel("llama2:7b")
    shared = {one.name for one in fields(llama)} & (set(ServedModel.model_fields) - {"id", "name", "pool", "context"})
    assert {"slots", "kv_type", "batch", "cache"} <= shared
    assert {name: getattr(llama, name) for name in shared} == {name: getattr(of_a_file, name) for name in shared}
    # OLLAMA_CONTEXT_LENGTH and OLLAMA_NUM_PARALLEL (ollama v0.32.15, envconfig/config.go and server/sched.go).
    assert (llama.served.effective_context, llama.slots) == (4096, 1)
    # nomic-embed-text has a context of 2048 tokens (ollama.com/library/nomic-embed-text).
    assert OllamaModel("nomic-embed-text").served.effective_context == 2048
