"""Limits that differ between the models of a GPU: given, derived, and left over."""

from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sharing.fit.own_limits import judge_limit, with_needed_limit
from sharing.fit.shares import limits_on_one_gpu, place_on
from sharing.hardware.gpus import instance_types
from sharing.models.served import ServedModel
from sharing.models.share import Share
from sharing.modes.modes import Mps, TimeSlicing
from sharing.modes.mps_clients import client_environment
from tests.sharing.builders import instance, pair, pool, served, setup, tenants, weighing

OWN = Mps(limits="per-model")
T4_MIB = 14_846
"""What a T4 leaves: 14,912 MiB for CUDA (its row in gpu_memory.csv) without the most that an MPS server took, 66."""
Asked = tuple[int, float | None]
"""What a model needs in MiB, and `memory-gib`."""


def models(*asked: Asked, on: str = "g4dn.xlarge") -> list[ServedModel]:
    return [weighing(mib, on=on).changed(share=Share(memory_gib=gib) if gib else None) for mib, gib in asked]


def limits(sharing: Mps, *asked: Asked, nodes: int = 1) -> list[int | None]:
    return [placement.share_mib for placement in place_on(models(*asked), sharing, instance(), nodes)]


@pytest.mark.parametrize(
    ("asked", "replicas", "expected"),
    [
        # 14,846 - 9,000 - 2,000 = 3,846 are left, half for each.
        ([(9_000, None), (2_000, None)], 2, [10_923, 3_923]),
        # A limit of the file stays; 9.5 GiB are 9,728 MiB, and the other one gets all the rest.
        ([(9_000, 9.5), (2_000, None)], 2, [9_728, 5_118]),
        ([(9_000, 9.5), (2_000, 3.0)], 2, [9_728, 3_072]),
        # A single model has the entire GPU.
        ([(9_000, None)], 2, [T4_MIB]),
        # Three models on one GPU: 14,846 - 9,000 = 5,846, a third for each.
        ([(4_000, None), (3_000, None), (2_000, None)], 3, [5_948, 4_948, 3_948]),
        # Of three models, the two largest may meet: 14,846 - 9,000 = 5,846 are left for two.
        ([(5_000, None), (4_000, None), (3_000, None)], 2, [7_923, 6_923, 5_923]),
        # Nothing is left where the needs alone exceed the GPU.
        ([(9_000, None), (7_000, None)], 2, [9_000, 7_000]),
    ],
)
def test_a_limit_is_that_of_the_file_or_the_need_with_a_part_of_what_is_left(
    asked: list[Asked], replicas: int, expected: list[int]
) -> None:
    assert limits(Mps(limits="per-model", replicas=replicas), *asked, nodes=2) == expected


def test_the_room_of_a_model_is_that_under_its_own_limit() -> None:
    """14,846 - 9,000 - 2,000 = 3,846 are left, half for each: the limits add up to the entire GPU."""
    found = place_on(models((9_000, None), (2_000, None)), Mps(limits="per-model"), instance(), 1)
    assert [round(placement.room) for placement in found] == [1_923, 1_923]


def test_no_gpu_of_another_vendor_holds_a_model_under_its_limit() -> None:
    """What needs 4,000 MiB on a T4 needs no less on any NVIDIA GPU; only CUDA takes memory for its processes."""
    assert "too small" in judge_limit(Share(memory_gib=3_990 / 1024), weighing(4_000))


@pytest.mark.slow
@given(
    asked=st.lists(st.tuples(st.integers(400, 12_000), st.none() | st.integers(1, 14)), min_size=1, max_size=6),
    replicas=st.integers(2, 4),
    kind=st.sampled_from(["g4dn.xlarge", "g6.xlarge", "g5g.xlarge"]),
)
def test_no_models_that_may_meet_have_more_than_the_gpu_unless_they_are_refused(
    asked: list[tuple[int, int | None]], replicas: int, kind: str
) -> None:
    sharing = Mps(limits="per-model", replicas=replicas)
    them = models(*asked, on=kind)
    found = place_on(them, sharing, instance(kind), 3)
    sizes = [placement.share_mib or 0 for placement in found]
    largest = max(sum(some) for some in combinations(sizes, min(replicas, len(sizes))))
    usable = instance_types()[kind].gpu.cuda_mib - 66
    assert all(placement.fits for placement in found) == (
        largest <= usable and all(size >= need for size, (need, _) in zip(sizes, asked, strict=True))
    )
    for size, (_, gib) in zip(sizes, asked, strict=True):
        assert gib is None or size == gib * 1024


def test_the_proof_gets_the_largest_limits_that_may_meet() -> None:
    here = pool(sharing=OWN, desired=2, max=2)
    whole = setup(pools=(here,), models=tenants(*models((5_000, None), (4_000, None), (3_000, None))))
    assert limits_on_one_gpu(whole, here) == [7_923, 6_923]
    turns = pool(sharing=TimeSlicing())
    assert limits_on_one_gpu(setup(pools=(turns,)), turns) == []


def test_models_of_equal_size_get_about_what_equal_shares_give() -> None:
    """The pair of the issue: one half of the GPU each, but for the difference of their sizes."""
    one, other = (placement.share_mib or 0 for placement in place_on(pair(), OWN, instance(), 1))
    assert one + other == pytest.approx(T4_MIB, abs=1)
    assert one - other == pytest.approx(
        place_on(pair(), OWN, instance(), 1)[0].need.bound - place_on(pair(), OWN, instance(), 1)[1].need.bound, abs=2
    )


def test_a_client_may_use_all_threads_unless_it_has_a_limit_of_them() -> None:
    assert [shares.threads_percent for shares in Mps(limits="per-model").offers(instance().gpu)] == [100]


@pytest.mark.parametrize(
    ("threads", "expected"),
    [
        (1.0, {}),
        (0.6, {"CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": "60"}),
        (0.29, {"CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": "29"}),
    ],
)
def test_a_client_has_the_variables_of_nvidia(threads: float, expected: dict[str, str]) -> None:
    """Names and form: amazon-ecs-agent, ecs-agent/utils/mps/mps.go, which limits containers in the same way."""
    assert client_environment(9_216, threads) == {
        "CUDA_MPS_PIPE_DIRECTORY": "/run/tandem-mps",
        "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT": "0=9216M",
        **expected,
    }


@pytest.mark.parametrize(
    ("share", "says"),
    [
        (Share(compute_percent=50), "has no memory_gib"),
        # Weights of 3.56 GiB (its page in Ollama's library).
        (Share(memory_gib=3.5), "has a memory_gib of 3.5, which is too small"),
        (Share(memory_gib=9), ""),
    ],
)
def test_a_model_of_no_stack_needs_a_limit_that_holds_its_weights(share: Share, says: str) -> None:
    said = judge_limit(share, served("llama2:7b"))
    assert said.startswith(says)
    assert bool(said) == bool(says)


@pytest.mark.slow
@given(bound=st.floats(400, 80_000))
def test_the_limit_that_advice_writes_holds_the_model_in_the_plan_and_in_its_component(bound: float) -> None:
    """A limit counts whole MiB: 3.2 GiB are 3,276 of them, not 3,276.8."""
    model = weighing(int(bound))
    needed = with_needed_limit(model, bound)
    assert needed.given_limit_mib is not None
    assert bound <= needed.given_limit_mib < bound + 104


@pytest.mark.slow
def test_every_limit_that_a_plan_sets_is_accepted_by_the_component() -> None:
    """A tenth of a GiB is 102.4 MiB, so 103 sizes in a row meet every rounding. T4_MIB of need leave nothing over."""
    for mib in range(3_100, 3_203):
        both = [weighing(mib), weighing(T4_MIB - mib - 1)]
        for model, placement in zip(both, place_on(both, OWN, instance(), 1), strict=True):
            assert placement.fits
            assert placement.share_mib is not None
            assert judge_limit(Share(memory_gib=placement.share_mib / 1024), model) == ""
