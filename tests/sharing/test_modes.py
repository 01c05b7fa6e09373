"""Sharing modes: the plugin's configuration, the shares, and the GPUs that support each."""

import itertools
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, get_args

import pytest
import yaml
from pydantic import TypeAdapter, ValidationError

from sharing.hardware import mig
from sharing.hardware.gpus import Gpu, gpus
from sharing.modes.base import AllocationPolicy
from sharing.modes.layouts import Strategy
from sharing.modes.modes import Exclusive, Mig, Mps, Sharing, TimeSlicing, every_mode, mode_names, switched
from sharing.sections.changes import written

T4, V100 = gpus()["t4"], gpus()["v100-16gb"]
NVIDIA = [gpu for gpu in gpus().values() if gpu.vendor == "nvidia"]


RTX = gpus()["rtx-pro-server-6000"]
BALANCED = Mig(strategy="mixed", layout="all-balanced")
GPU = "nvidia.com/gpu"
SMALL, LARGE = "nvidia.com/mig-1g.24gb", "nvidia.com/mig-2g.48gb"


def plain(strategy: str) -> dict[str, Any]:
    return {"version": "v1", "flags": {"migStrategy": strategy}}


def replicated(
    key: str, replicas: int, policy: str = "packed", strategy: str = "none", resources: Sequence[str] = (GPU,)
) -> dict[str, Any]:
    """Configurations that device plugin 0.20.0 accepted when tried."""
    return {
        "version": "v1",
        "flags": {"migStrategy": strategy, "plugin": {"sharedDevicesAllocationPolicy": policy}},
        "sharing": {
            key: {
                "renameByDefault": False,
                "failRequestsGreaterThanOne": True,
                "resources": [{"name": resource, "replicas": replicas} for resource in resources],
            }
        },
    }


@pytest.mark.parametrize(
    ("mode", "config"),
    [
        (Exclusive(replicas=4), plain("none")),
        (TimeSlicing(replicas=2), replicated("timeSlicing", 2)),
        (TimeSlicing(replicas=5, allocation_policy="distributed"), replicated("timeSlicing", 5, "distributed")),
        (Mps(replicas=48), replicated("mps", 48)),
        # The plugin counts the pods; the node's own daemon limits them.
        (Mps(replicas=2, limits="per-model"), replicated("timeSlicing", 2)),
        (Mig(), plain("single")),
        (BALANCED, plain("mixed")),
        (Mig(replicas=2, allocation_policy="distributed"), replicated("timeSlicing", 2, "distributed", "single")),
        # The plugin skips resources that a node lacks.
        (
            Mig(replicas=3, strategy="mixed"),
            replicated("timeSlicing", 3, "packed", "mixed", mig.every_resource()),
        ),
    ],
)
def test_the_plugin_gets_exactly_the_configuration_that_it_accepts(mode: Sharing, config: dict[str, Any]) -> None:
    assert mode.plugin_config() == config


SHARINGS: list[Sharing] = [
    switched(TimeSlicing(replicas=replicas, allocation_policy=policy), name)
    for name in mode_names()
    for replicas in (2, 3)
    for policy in get_args(AllocationPolicy)
]
SHARINGS += [
    Mig(strategy=strategy, layout=layout) for strategy in get_args(Strategy) for layout in (None, "all-2g.48gb")
]


def test_two_configs_have_the_same_name_only_if_they_are_equal() -> None:
    for one, other in itertools.combinations(SHARINGS, 2):
        same = one.plugin_config() == other.plugin_config()
        assert (one.config_name == other.config_name) is same, (one, other)


@pytest.mark.parametrize("sharing", SHARINGS, ids=lambda sharing: sharing.config_name)
def test_a_sharing_written_to_a_stack_file_is_read_back(sharing: Sharing) -> None:
    adapter: TypeAdapter[Sharing] = TypeAdapter(Sharing)
    read = yaml.safe_load(written(sharing))
    assert adapter.validate_python(read).plugin_config() == sharing.plugin_config()


def test_a_sharing_is_written_without_what_a_file_need_not_have() -> None:
    assert written(TimeSlicing()) == "{mode: timeslice, replicas: 2}"
    assert written(Mps(allocation_policy="distributed")) == "{mode: mps, replicas: 2, allocation-policy: distributed}"


def test_a_node_with_limits_per_model_has_a_daemon_of_its_own() -> None:
    own = Mps(limits="per-model")
    assert own.node_labels(T4) == {"nvidia.com/gpu.deploy.operands": "false", "tandem/mps": "per-model"}
    assert (own.needs_mps_daemon, own.needs_node_daemon, own.needs_mps) == (False, True, True)
    # Neither value may be that of another mode: a switch needs other nodes, and evicts the pods.
    assert (own.cut(T4), own.config_name) == ("whole-mps", "mps-2-per-model")
    assert [sharing.way for sharing in (own, Mps(), TimeSlicing(), BALANCED)] == [
        "mps-per-model",
        "mps",
        "timeslice",
        "mig-mixed",
    ]


@pytest.mark.parametrize("mode", [Exclusive(), TimeSlicing(), Mps()])
def test_a_node_excludes_the_gpu_operator_and_pods_request_the_plain_resource(mode: Sharing) -> None:
    assert mode.node_labels(T4) == {"nvidia.com/gpu.deploy.operands": "false"}
    assert mode.needs_mps_daemon is (mode.mode == "mps")
    assert mode.needs_mig_manager is False
    assert mode.ready_labels == {}
    assert mode.cut(T4) == "whole"
    assert mode.layout_of(T4) == ()


@pytest.mark.real_world(
    behaviour="Feature discovery writes `replicas=1` and `sharing-strategy=none` if nothing is replicated",
    source="k8s-device-plugin v0.20.0 internal/lm/resource.go, baseLabeler and getReplicas; nvml.go, newSharingLabeler",
)
@pytest.mark.parametrize(
    ("mode", "shared", "is_mps"),
    [
        (Exclusive(), {GPU: ("none", 1)}, "false"),
        (TimeSlicing(replicas=3), {GPU: ("time-slicing", 3)}, "false"),
        (Mps(replicas=4), {GPU: ("mps", 4)}, "true"),
        (Mps(replicas=4, limits="per-model"), {GPU: ("time-slicing", 4)}, "false"),
        (Mig(), {GPU: ("none", 1)}, "false"),
        (Mig(replicas=2), {GPU: ("time-slicing", 2)}, "false"),
        (BALANCED, {SMALL: ("none", 1), LARGE: ("none", 1)}, "false"),
    ],
)
def test_feature_discovery_labels_a_node_with_its_sharing_mode(
    mode: Sharing, shared: dict[str, tuple[str, int]], is_mps: str
) -> None:
    labels = {"nvidia.com/mps.capable": is_mps}
    for resource, (strategy, replicas) in shared.items():
        labels |= {f"{resource}.sharing-strategy": strategy, f"{resource}.replicas": str(replicas)}
    assert mode.discovered_labels(RTX) == labels


@pytest.mark.parametrize(
    ("mode", "gpu", "shares"),
    # Shares, memory of one, whether it is enforced, how many pods meet on the GPU or slice, and its memory. The server
    # of MPS takes 25 to 30 MiB of a T4 (nvidia-smi), and at most 66 MiB, of an H100.
    [
        (Exclusive(replicas=4), T4, [(GPU, 1, 14_912, True, 1, 14_912)]),
        (TimeSlicing(replicas=3), T4, [(GPU, 3, None, False, 3, 14_912)]),
        # NVML's total, divided by the replicas.
        (Mps(replicas=2), T4, [(GPU, 2, 7_680, True, 2, 14_912 - 30)]),
        (Mps(replicas=7), T4, [(GPU, 7, 2_194, True, 7, 14_912 - 30)]),
        # Each pod has a limit of its own.
        (Mps(replicas=7, limits="per-model"), T4, [(GPU, 7, None, True, 7, 14_912 - 66)]),
        (Mig(layout="all-2g.48gb"), RTX, [(GPU, 2, 47_616, True, 1, 47_616)]),
        # Pods that take turns on a slice have no memory of their own.
        (Mig(layout="all-2g.48gb", replicas=3), RTX, [(GPU, 6, None, False, 3, 47_616)]),
        (BALANCED, RTX, [(SMALL, 2, 23_674, True, 1, 23_674), (LARGE, 1, 47_616, True, 1, 47_616)]),
    ],
)
def test_a_gpu_offers_the_shares_of_its_mode(mode: Sharing, gpu: Gpu, shares: list[tuple[object, ...]]) -> None:
    found = mode.offers(gpu)
    assert [
        (one.resource, one.per_gpu, one.memory_mib, one.enforced, one.sharers, one.unit_mib) for one in found
    ] == shares
    # Under equal limits, the plugin divides the threads, too.
    has_part = isinstance(mode, Mps) and mode.limits == "equal"
    assert [one.threads for one in found] == [1 / one.sharers if has_part else 1 for one in found]


@pytest.mark.parametrize(("mode", "most"), [(TimeSlicing, 64), (Mps, 48)])
def test_a_gpu_has_two_shares_to_as_many_as_its_mode_allows(mode: type[Mps], most: int) -> None:
    assert [mode(replicas=replicas).replicas for replicas in (2, most)] == [2, most]
    for replicas in (1, most + 1):
        with pytest.raises(ValueError, match=r"\.replicas must be "):
            mode(replicas=replicas)


@pytest.mark.parametrize(("gpu", "most"), [(V100, 16), (gpus()["v100-32gb"], 16), (T4, 48), (gpus()["l4"], 48)])
def test_the_plugin_allows_sixteen_mps_clients_before_turing_and_forty_eight_since(gpu: Gpu, most: int) -> None:
    assert Mps(replicas=most).check(gpu) == []
    if most < 48:
        (problem,) = Mps(replicas=most + 1).check(gpu)
        assert problem.rule == f"must be at most {most} for MPS on one {gpu.title}"


@pytest.mark.parametrize(("capability", "allowed"), [((6, 1), False), ((7, 0), True), ((7, 2), True)])
def test_mps_needs_volta(capability: tuple[int, int], allowed: bool) -> None:
    found = Mps().check(replace(T4, compute_capability=capability), path="pools[1].sharing")
    assert [str(problem) for problem in found] == (
        [] if allowed else ["pools[1].sharing.mode: mps needs Volta or newer; T4 is older. Use `timeslice`."]
    )


def test_a_comparison_that_shows_some_modes_adds_the_others_and_its_own() -> None:
    assert [one.mode for one in every_mode(Mps(), ["exclusive", "timeslice", "mps"])] == ["mps", "mig"]


@pytest.mark.parametrize("gpu", NVIDIA, ids=lambda gpu: gpu.name)
def test_every_nvidia_gpu_of_the_catalogue_can_be_shared_in_every_mode(gpu: Gpu) -> None:
    allowed = [mode.config_name for mode in every_mode(TimeSlicing()) if not mode.check(gpu)]
    whole = ["exclusive", "timeslice-2", "mps-2"]
    assert allowed == ([*whole, "mig-single"] if mig.profiles(gpu) else whole)


def test_unset_settings_stay_unset_in_another_mode() -> None:
    assert switched(TimeSlicing(), "mig") == Mig()
    assert switched(TimeSlicing(replicas=2), "mig") == Mig(replicas=2)
    # An empty key, as in `replicas:` without a value.
    assert switched(Exclusive(replicas=None), "mps") == Mps()


@pytest.mark.parametrize(("mode", "to"), [(Exclusive(replicas=1), "timeslice"), (TimeSlicing(replicas=60), "mps")])
def test_a_switch_to_a_mode_that_does_not_allow_the_settings_raises(mode: Sharing, to: str) -> None:
    with pytest.raises(ValidationError):
        switched(mode, to)
