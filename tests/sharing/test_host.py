"""RAM of a node against published measurements: what a model's pod keeps, and what is left for the page cache."""

from pathlib import Path
from typing import Any

import pytest

from components.share_proof.expectation import MOST_PODS
from sharing import tables
from sharing.fit.host import (
    LEAST_PAGE_CACHE_MIB,
    SERVER_MIB,
    crowd,
    host_need,
    page_cache_mib,
    room_mib,
)
from sharing.fit.node_pods import NodePod, on_each_system_node, on_gpu_node, on_system_nodes
from sharing.hardware.gpus import instance_types
from sharing.hardware.system_instances import system_types
from sharing.models.catalogue import MIB, KvType, Model, find
from sharing.models.ollama import checkpoint_bytes, checkpoints, has_checkpoints
from sharing.models.served import ServedModel
from sharing.modes.modes import Exclusive, Mig, Mps, Sharing, TimeSlicing
from sharing.sections.park import ParkSettings
from sharing.sections.scale_to_zero import ScaleToZeroSettings
from sharing.verdict.features import find_system_pods
from sharing.verdict.rules.hosts import _unplaced
from tests.sharing.builders import keeping, pool, read_figures, replace, setup, tenants

PAGE = Path(__file__).parents[2] / "docs" / "explanation" / "host-memory.md"
GEMMA4_12B: dict[str, Any] = {
    "layers": 48,
    "width": 3840,
    "vocabulary": 262_144,
    "swa_layers": 40,
    "swa_window": 1024,
    "kv_heads": 1,
    "swa_kv_heads": 8,
    "head_dim": 512,
    "swa_head_dim": 256,
}


def of(
    context: int = 4096, slots: int = 1, cache: int = 512, kv_type: KvType = KvType.F16, **shape: Any
) -> ServedModel:
    plain = {"weights_bytes": MIB, "layers": 1, "kv_heads": 1, "head_dim": 64, "max_context": 0, "vocabulary": 1}
    model = Model(name="own", source="test", **{"width": 1, **plain, **shape})
    return ServedModel.of(model, context=context, slots=slots, kv_type=kv_type, prompt_cache_mib=cache)


@pytest.mark.parametrize("row", read_figures("host_buffers"), ids=lambda row: "-".join(row.values()))
@pytest.mark.real_world(
    behaviour="llama-server pins two hidden states and the attention masks of one batch in RAM",
    source="philpax/ananke, ananke/src/estimator: `CUDA_Host compute buffer size` as logged on RTX 3090",
)
def test_the_inputs_of_a_batch_are_in_ram(row: dict[str, str]) -> None:
    width, window, context, slots, batch = (int(row[key]) for key in ("width", "window", "context", "slots", "batch"))
    shape: dict[str, Any] = {"swa_layers": 1, "swa_window": window} if window else {}
    served = replace(of(context // slots, slots, width=width, **shape), batch=batch)
    assert host_need(served).buffers == pytest.approx(float(row["mib"]), abs=0.1)


def test_a_model_of_unknown_width_counts_as_one_with_70_billion_weights() -> None:
    large = find("llama3.1:70b")
    assert large is not None
    known, unknown = (ServedModel.of(model, context=4096, slots=1) for model in (large, replace(large, width=0)))
    assert host_need(unknown).buffers == host_need(known).buffers


@pytest.mark.parametrize(
    ("layers", "experts", "measured"), [(36, 0, 233), (41, 256, 503), (43, 256, 546), (48, 256, 400)]
)
@pytest.mark.real_world(
    behaviour="The process of llama-server keeps 233 MiB with 36 layers, and up to 288 MiB more with experts",
    source="philpax/ananke, ananke/src/estimator: RssAnon and RssShmem of serving processes on RTX 3090",
)
def test_processes_take_the_measured_memory_besides_the_servers(layers: int, experts: int, measured: int) -> None:
    need = host_need(of(layers=layers, experts=experts))
    assert measured - 16 <= need.server - SERVER_MIB <= measured + 192


@pytest.mark.real_world(
    behaviour="With a prompt cache of 1,024 MiB, the runner of gemma4:12b keeps 1.6 GB, 787 MiB of it embeddings",
    source="ollama/ollama#18264 and #18265 (2026-09-05)",
)
def test_a_pod_keeps_at_least_the_memory_in_the_report_about_the_prompt_cache() -> None:
    need = host_need(of(8192, cache=1024, **GEMMA4_12B))
    assert need.embeddings == pytest.approx(787, abs=1)
    assert need.prompt_cache == 1024
    assert need.total >= 1.6e9 / MIB


def test_the_worked_example_of_the_documentation_is_right() -> None:
    model = find("llama2:7b")
    assert model is not None
    assert host_need(ServedModel.of(model, context=2048, slots=1)).total == 518
    assert "they take about 520 MiB" in " ".join(PAGE.read_text().split())


@pytest.mark.real_world(
    behaviour="One checkpoint of gemma4:26b-a4b-it-qat takes about 200 MB, one of Qwen3.6-27B 149.6 MiB",
    source="pull request ollama/ollama#16744 (2026-06-15); logs of llama-server, `created context checkpoint`",
)
def test_a_checkpoint_holds_the_sliding_window_and_the_recurrent_state() -> None:
    gemma4_26b: dict[str, Any] = {
        "swa_layers": 25,
        "swa_window": 1024,
        "kv_heads": 2,
        "swa_kv_heads": 8,
        "swa_head_dim": 256,
    }
    assert checkpoint_bytes(of(layers=30, **gemma4_26b)) == 200 * MIB
    recurrent: dict[str, Any] = {"recurrent_layers": 48, "recurrent_state_bytes": round(149.6 * MIB)}
    assert host_need(of(layers=64, **recurrent)).checkpoints == pytest.approx(3 * 149.6)


@pytest.mark.parametrize(
    ("window", "slots", "kv_type", "number"),
    [
        (1024, 1, KvType.F16, 4),
        (1024, 4, KvType.F16, 1),
        (1024, 5, KvType.F16, 0),
        (1025, 1, KvType.F16, 3),
        (1024, 1, KvType.Q8_0, 7),
        (1, 1, KvType.F16, 32),
    ],
)
@pytest.mark.parametrize("cache", [0, 8192])
def test_checkpoints_of_all_slots_take_at_most_512_mib_whatever_the_prompt_cache(
    cache: int, window: int, slots: int, kv_type: KvType, number: int
) -> None:
    # 32 layers x 1,024 cells x 2 x 8 heads x 128 values: 128 MiB as f16, 68 MiB as q8_0.
    found = of(slots=slots, cache=cache, kv_type=kv_type, swa_layers=32, swa_window=window, kv_heads=8, head_dim=128)
    assert has_checkpoints(found)
    assert checkpoints(found) == number
    assert host_need(found).checkpoints <= 512


def test_only_models_that_cannot_be_rolled_back_have_checkpoints() -> None:
    assert not has_checkpoints(of())
    assert checkpoints(of()) == 0
    assert not has_checkpoints(of(encoder=True, swa_layers=1, swa_window=512))


@pytest.mark.real_world(
    behaviour="An embedding server fills the prompt cache with prompts that are never repeated",
    source="Tanguille/cluster#4341 (2026-08-04): 0.08 GiB when loaded, 8.06 GiB after 200 requests",
)
def test_an_embedding_model_has_no_prompt_cache() -> None:
    assert host_need(of(cache=512, encoder=True)).prompt_cache == 0
    assert host_need(of(cache=512)).prompt_cache == 512


@pytest.mark.parametrize(
    ("sharing", "mib"),
    # 128 + 64 + 120 + 32 + 64 for every node, 128 + 128 for plugin and discovery, plus the pods of the mode.
    [(TimeSlicing(), 664), (Exclusive(), 664), (Mps(), 664 + 512), (Mig(), 664 + 512 + 128 + 64)],
)
def test_the_stacks_own_pods_use_memory_of_a_gpu_node(sharing: Sharing, mib: int) -> None:
    node, whole = instance_types()["g7e.2xlarge"], setup(pools=(pool("g7e.2xlarge", sharing),))
    assert node.allocatable_mib - room_mib(whole, whole.pools[0], node) == mib
    # The GPU Operator has the exporter anyway.
    more = 0 if sharing.needs_mig_manager else 512
    assert node.allocatable_mib - room_mib(replace(whole, metrics=True), whole.pools[0], node) == mib + more


@pytest.mark.real_world(
    behaviour="g6.4xlarge leaves 58,981 MiB for pods; the catalogue has a little less",
    source="pytorch/ci-infra#1082 (2026-09-16): the lower figure of two regions",
)
def test_the_ram_for_pods_is_no_more_than_on_a_measured_node() -> None:
    assert 0.97 * 58_981 < instance_types()["g6.4xlarge"].allocatable_mib < 58_981


@pytest.mark.real_world(
    behaviour="kubelet on AL2023 reserves 11 MiB for each pod it allows plus 255 MiB, and evicts below 100 MiB",
    source="awslabs/amazon-eks-ami v20260714, nodeadm/internal/kubelet/config.go, getMemoryMebibytesToReserve",
)
def test_the_ram_for_pods_excludes_what_the_hypervisor_and_kubelet_reserve() -> None:
    for node in instance_types().values():
        left = node.memory_mib * 0.925 - (11 * node.max_pods + 255) - 100
        # Graviton's contiguous allocator takes 64 MiB more; a kubelet with a pod limit reserves less.
        assert left - 65 <= node.allocatable_mib <= left + 11 * node.max_pods, node.name


def test_every_gpu_node_has_room_for_the_pods_of_a_proof() -> None:
    shared, whole = pool(sharing=Mps()), setup()
    for node in instance_types().values():
        if node.gpu.vendor == "nvidia":
            pods = len(on_gpu_node(whole, shared)) + MOST_PODS + 1
            assert pods <= node.max_pods or node.max_pods < 29, node.name
            assert room_mib(whole, shared, node) >= MOST_PODS * 256, node.name


def test_the_pods_of_system_nodes_are_those_of_the_stacks_components() -> None:
    def names(**overrides: Any) -> dict[str, int]:
        stack = setup(**overrides)
        return {pod.name: pod.count for pod in on_system_nodes(stack, find_system_pods(stack))}

    always = {"coredns": 2, "ebs-csi-controller": 2, "nfd-master": 1, "nfd-gc": 1}
    assert names() == always
    assert names(pools=(pool("g7e.2xlarge", Mig()),)) == {**always, "gpu-operator": 1}
    brought = pool(provisioner="karpenter")
    assert names(pools=(brought,)) == {**always, "karpenter": 2}
    assert names(pools=(brought,), system_nodes=1) == {**always, "karpenter": 1}
    assert names(ui=True) == {**always, "open-webui": 1}
    assert names(metrics=True) == always
    assert names(metrics=True, metrics_store=True) == {**always, "victoria-metrics": 1, "grafana": 1}
    keda = {"keda-operator": 1, "keda-add-ons-http-interceptor": 1, "keda-add-ons-http-external-scaler": 1}
    assert names(scale_to_zero=ScaleToZeroSettings(enabled=True, idle_minutes=15, cold_requests="wait")) == {
        **always,
        **keda,
    }
    nights = ParkSettings(schedule="0 20 * * *", wake="0 8 * * *", timezone="UTC")
    # Schedules of AWS park node groups: only Karpenter's pools need a Job.
    assert names(park=nights) == always
    assert names(park=nights, pools=(brought,)) == {**always, "karpenter": 2, "tandem-parking": 1}
    assert [pod.name for pod in on_each_system_node()] == [
        "aws-node",
        "kube-proxy",
        "ebs-csi-node",
        "eks-pod-identity-agent",
        "nfd-worker",
    ]


def test_one_system_node_has_the_cpu_for_all_pods_that_a_stack_may_have() -> None:
    """So no rule counts it. EKS's AMI reserves 6 % of the first CPU, and 1 % of the second one for kubelet.

    awslabs/amazon-eks-ami nodeadm/internal/kubelet/config.go, getCPUMillicoresToReserve.
    """
    rows = [row for row in tables.read("node_pods").rows if row["nodes"] in ("every", "system")]
    needed = sum(int(row["cpu_millis"]) * int(row["count"] or 1) for row in rows)
    assert min(one.vcpu for one in system_types().values()) == 2
    assert needed <= 2000 - 60 - 10


def test_limits_of_the_pods_on_one_node_never_add_up_to_more_than_the_node_has() -> None:
    two, small = pool(("g4dn.2xlarge", "g4dn.xlarge"), TimeSlicing(replicas=2)), keeping(1000)
    whole = setup(pools=(two,), models=tenants(small, keeping(3000), keeping(2000)))
    # The two largest of three may share a g4dn.xlarge, which leaves 14,481 - 664 MiB.
    node = instance_types()["g4dn.xlarge"]
    assert crowd(whole, two, node) == [3000, 2000]
    assert page_cache_mib(whole, two) == (14_481 - 664 - 5000) // 2
    # With metrics, each pod has one more sidecar of 64 MiB.
    assert crowd(replace(whole, metrics=True), two, node) == [3064, 2064]
    assert sum(crowd(whole, two, node)) + 2 * page_cache_mib(whole, two) <= room_mib(whole, two, node)
    assert page_cache_mib(replace(whole, models=()), two) == 14_481 - 664
    full = replace(whole, models=tenants(keeping(9000), keeping(9000)))
    assert page_cache_mib(full, two) == LEAST_PAGE_CACHE_MIB


@pytest.mark.parametrize(("room", "placed"), [(150, True), (149, False)])
def test_the_last_pod_may_fill_its_node(room: int, placed: bool) -> None:
    pods = [NodePod(name=name, count=1, cpu_millis=0, memory_mib=mib) for name, mib in (("large", 100), ("small", 50))]
    assert (_unplaced(pods, nodes=1, room=room, bound="", zones=1) == "") is placed
