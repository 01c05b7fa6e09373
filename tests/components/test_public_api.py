"""What users import from `tandem`: its names, the examples in its docstrings, and the errors for wrong values."""

import inspect
import re
from collections.abc import Callable
from functools import partial
from typing import Any

import pulumi
import pytest

import tandem
from components.charts import merge_values
from sandbox.graph import plain
from sandbox.preview.program import run
from tandem import (
    DevicePluginSharing,
    DevicePluginSharingArgs,
    GpuClusterArgs,
    KarpenterGpuPool,
    KarpenterGpuPoolArgs,
    KarpenterPool,
    KvType,
    ModelClients,
    Mps,
    OllamaModel,
    OllamaPair,
    OllamaPairArgs,
    PoolSharing,
    ShareProofArgs,
    SpotGpuNodeGroupArgs,
    TimeSlicing,
)
from tests.components.conftest import Mocks

COMPONENTS = {
    "DevicePluginSharing",
    "GpuCluster",
    "KarpenterGpuPool",
    "OllamaPair",
    "ShareProof",
    "SpotGpuNodeGroup",
}
PUBLIC = COMPONENTS | {
    *(f"{name}Args" for name in COMPONENTS),
    "Exclusive",
    "KarpenterPool",
    "KvType",
    "Mig",
    "Model",
    "ModelClients",
    "Mps",
    "OllamaModel",
    "PoolSharing",
    "Slices",
    "TimeSlicing",
}
"""A name that goes breaks programs of users: it needs a line in the changelog."""
RELEASE = "kubernetes:helm.sh/v3:Release"
TURNS = TimeSlicing(replicas=2)


def test_the_public_names_are_these() -> None:
    assert tandem.__all__ == sorted(PUBLIC)


@pytest.mark.parametrize("name", sorted(COMPONENTS))
def test_the_example_of_each_component_runs_under_stock_mocks(name: str) -> None:
    doc = inspect.getdoc(getattr(tandem, name)) or ""
    [example] = re.findall(r"```python\n(.*?)```", doc, flags=re.DOTALL)
    imported = re.findall(r"^(?:from|import) (\S+)", example, flags=re.MULTILINE)
    assert set(imported) == {"tandem"}
    mocks = Mocks()
    pulumi.runtime.set_mocks(mocks, project="theirs", stack="test")
    program: Callable[[], None] = pulumi.runtime.test(lambda: exec(example, {}))  # type: ignore[no-untyped-call]  # pulumi.runtime.test has none
    program()
    assert f"tandem:index:{name}" in [kind for kind, _, _ in mocks.made]


def test_the_package_says_what_each_args_class_raises() -> None:
    for name in PUBLIC - COMPONENTS:
        kind = getattr(tandem, name)
        if hasattr(kind, "__post_init__"):
            assert "Raises `ValueError`" in (inspect.getdoc(kind) or ""), name


def nodes(**changed: Any) -> SpotGpuNodeGroupArgs:
    return SpotGpuNodeGroupArgs(**{"cluster_name": "c", "subnet_ids": [], "sharing": TURNS, **changed})


def karpenter(*pools: KarpenterPool, **changed: Any) -> KarpenterGpuPoolArgs:
    return KarpenterGpuPoolArgs(cluster_name="c", node_subnet_ids=[], security_group_id="sg", pools=pools, **changed)


def cluster(**changed: Any) -> GpuClusterArgs:
    return GpuClusterArgs(cluster_name="c", **changed)


def model(**changed: Any) -> OllamaModel:
    return OllamaModel("llama2:7b", **changed)


def sharing(*pools: PoolSharing, **changed: Any) -> DevicePluginSharingArgs:
    return DevicePluginSharingArgs(pools=pools, **changed)


def proof(**changed: Any) -> ShareProofArgs:
    return ShareProofArgs(**{"sharing": TURNS, "gpu": "t4", **changed})


SPOT = KarpenterPool(name="spot", sharing=TURNS)
T4 = PoolSharing(sharing=TURNS, gpu="t4")
WRONG: list[tuple[Callable[[], object], str]] = [
    (lambda: cluster(nat="nonee"), "GpuClusterArgs.nat must be one of none, single, per-zone (got 'nonee'). Did you "),
    (lambda: cluster(zones="2"), "GpuClusterArgs.zones must be a whole number (got '2'). Pass a whole number."),
    (lambda: cluster(zones=True), "GpuClusterArgs.zones must be a whole number (got True). Pass a whole number."),
    (lambda: cluster(zones=1), "GpuClusterArgs.zones must be at least 2 (got 1). Pass 2."),
    (lambda: cluster(logs="yes"), "GpuClusterArgs.logs must be True or False (got 'yes'). Pass True or False."),
    (lambda: cluster(kubernetes="1.63"), "GpuClusterArgs.kubernetes '1.63' has no pinned add-ons. Did you mean 1.36"),
    (lambda: cluster(zone_names=["a"]), "GpuClusterArgs.zone_names must be as many as `zones` (1 names for 2 zones)."),
    (lambda: cluster(admins="me"), "GpuClusterArgs.admins must be a list of text (got 'me'). Pass a list of text."),
    (lambda: cluster(cidr="10.0.0.0/8"), "GpuClusterArgs.cidr must be an IPv4 network from /16 to /22 without host "),
    (lambda: cluster(cidr="10.0.0.1/16"), "GpuClusterArgs.cidr must be an IPv4 network from /16 to /22 without host "),
    (lambda: cluster(tags=["a"]), "GpuClusterArgs.tags must be a mapping (got ['a']). Pass a mapping."),
    (lambda: cluster(tags={"a": 1}), "GpuClusterArgs.tags must be a mapping (got {'a': 1}). Pass a mapping."),
    (lambda: cluster(profile=1), "GpuClusterArgs.profile must be text or None (got 1). Pass text or None."),
    (
        lambda: nodes(capacity="sport"),
        "SpotGpuNodeGroupArgs.capacity must be one of spot, on-demand (got 'sport'). Did",
    ),
    (
        lambda: nodes(instance_types=["g4dn.xlrage"]),
        "unknown GPU instance type 'g4dn.xlrage'. Did you mean g4dn.xlarge",
    ),
    (lambda: nodes(min=2), "SpotGpuNodeGroupArgs.desired must lie between min and max (got 2, 1, 1). Pass the three"),
    (lambda: nodes(volume_gib=8), "SpotGpuNodeGroupArgs.volume_gib must be at least 45 (got 8). Pass 45."),
    (
        lambda: nodes(sharing="mps"),
        "SpotGpuNodeGroupArgs.sharing must be Exclusive or TimeSlicing or Mig or Mps (got 'm",
    ),
    (
        lambda: nodes(sharing=Mps(replicas=17), instance_types=["p3.2xlarge"]),
        "SpotGpuNodeGroupArgs.sharing.replicas: the device plugin allows at most 16 MPS clients on one V100",
    ),
    (
        lambda: KarpenterPool(name="a", sharing=TURNS, max_nodes=0),
        "KarpenterPool.max_nodes must be at least 1 (got 0).",
    ),
    (lambda: KarpenterPool(name="a", sharing=TURNS, instance_types=["x"]), "unknown GPU instance type 'x'."),
    (lambda: nodes(instance_types=["g4dn.xlarge", "g6.xlarge"]), "instance types must have the same GPU (got g4dn.xl"),
    (lambda: karpenter(), "pools need different names, and at least one pool (got []). Name each pool once."),
    (
        lambda: karpenter(SPOT, SPOT),
        "pools need different names, and at least one pool (got ['spot', 'spot']). Name each",
    ),
    (lambda: karpenter(SPOT, controller_replicas=0), "KarpenterGpuPoolArgs.controller_replicas must be at least 1"),
    (lambda: PoolSharing(sharing=TURNS, gpu="t44"), "unknown GPU 't44'. Did you mean t4"),
    (lambda: proof(gpu="l44"), "unknown GPU 'l44'. Did you mean l4"),
    (lambda: proof(gpus_per_node=0), "ShareProofArgs.gpus_per_node must be at least 1 (got 0). Pass 1."),
    (lambda: sharing(), "pools need different names, and at least one pool (got []). Name each pool once."),
    (lambda: sharing(T4, T4), "pools need different names, and at least one pool (got ['gpu', 'gpu']). Name each pool"),
    (
        lambda: sharing(T4, values={"gpu-operater": {}}),
        "DevicePluginSharingArgs.values is for none of the charts (got 'gpu-operater'). Did you mean gpu-operator",
    ),
    (lambda: OllamaModel("llama2:70bb"), "unknown model 'llama2:70bb'. Did you mean llama2:"),
    (lambda: model(context="2k"), "OllamaModel.context must be a whole number (got '2k'). Pass a whole number."),
    (lambda: model(context=0), "OllamaModel.context must be at least 1 (got 0). Pass 1."),
    (lambda: model(kv_type="q5"), "OllamaModel.kv_type must be KvType or one of f16, q8_0, q4_0 (got 'q5')."),
    (lambda: model(cache="volume"), 'llama2:7b with cache="volume" needs the zone of its nodes. Pass `zone`.'),
    (
        lambda: model(cache="volume", zone="z", volume_gib=1),
        "llama2:7b does not fit its volume (its volume_gib is 1). P",
    ),
    (lambda: OllamaPairArgs(models=[]), "models need different ids, and at least one model (got [])."),
    (
        lambda: OllamaPairArgs(models=[model(), model()]),
        "models need different ids, and at least one model (got ['llam",
    ),
    (lambda: ModelClients(namespaces="chat"), "ModelClients.namespaces must be a list of text (got 'chat')."),
]


@pytest.mark.parametrize(("build", "message"), WRONG, ids=[message[:50] for _, message in WRONG])
def test_a_wrong_value_is_refused_at_construction_with_its_fix(build: Callable[[], object], message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        build()


@pytest.mark.parametrize(
    ("build", "name", "least"),
    [
        (cluster, "zones", 2),
        (cluster, "system_nodes", 1),
        (nodes, "min", 0),
        (nodes, "max", 1),
        (nodes, "volume_gib", 45),
        (partial(KarpenterPool, name="a", sharing=TURNS), "max_nodes", 1),
        (partial(KarpenterPool, name="a", sharing=TURNS), "volume_gib", 45),
        (partial(karpenter, SPOT), "controller_replicas", 1),
        (model, "context", 1),
        (model, "slots", 1),
        (model, "prompt_cache_mib", 0),
        (proof, "gpus_per_node", 1),
    ],
)
def test_the_least_of_a_number_is_accepted_and_one_less_is_not(
    build: Callable[..., object], name: str, least: int
) -> None:
    with pytest.raises(ValueError, match=rf"\.{name} must be at least {least} "):
        build(**{name: least - 1})
    build(**{name: least, **({"desired": 1} if name == "max" else {})})


def test_outputs_are_accepted_where_a_field_takes_one() -> None:
    later: pulumi.Output[str] = pulumi.Output.from_input("later")
    assert nodes(cluster_name=later, mode_taint=later).mode_taint is later
    assert model(zone=later, cache="volume").zone is later


def test_a_model_has_the_settings_of_a_stack_file_and_a_volume_of_its_size() -> None:
    served = OllamaModel("qwen2.5:0.5b", context=2048, slots=2, kv_type="q8_0", batch=512, prompt_cache_mib=0).served
    assert (served.id, served.model.name, served.context, served.slots) == ("qwen2-5-0-5b", "qwen2.5:0.5b", 2048, 2)
    assert (served.kv_type, served.num_batch, served.prompt_cache_mib) == (KvType.Q8_0, 512, 0)
    args = OllamaPairArgs(models=[model(cache="volume", zone="us-east-1a"), OllamaModel(served.model, id="mine")])
    graph = run(lambda: OllamaPair("pair", args), project="test", stack="test")
    [volume] = graph.of_type("aws:ebs/volume:Volume")
    # llama2:7b is 3.8 GB (ollama.com/library/llama2), 3.6 GiB; the headroom is 4 GiB.
    assert volume.inputs["size"] == 4 + 4


def test_values_of_the_caller_come_last() -> None:
    assert merge_values({"a": {"b": 1, "c": [1]}, "d": 1}, {"a": {"c": [2]}, "e": {}, "d": None}) == {
        "a": {"b": 1, "c": [2]},
        "d": None,
        "e": {},
    }


def test_every_component_with_charts_takes_more_values_for_them() -> None:
    more = {"priorityClassName": "high", "nodeSelector": {"team": "ml"}}

    def program() -> None:
        charts = {"nvidia-device-plugin": more}
        DevicePluginSharing("s", sharing(T4, values=charts))
        OllamaPair("o", OllamaPairArgs(models=[model(values=more)]))
        KarpenterGpuPool("k", karpenter(SPOT, values=more))

    graph = run(program, project="test", stack="test")
    releases = {one.name: plain(one.inputs)["values"] for one in graph.of_type(RELEASE) if "values" in one.inputs}
    for name in ("s-gpu-plugin", "o-llama2-7b", "k-controller"):
        assert releases[name]["priorityClassName"] == "high"
        assert releases[name]["nodeSelector"]["team"] == "ml"
    assert releases["o-llama2-7b"]["nodeSelector"] == {"tandem/pool": "gpu", "team": "ml"}
    assert "priorityClassName" not in releases["s-discovery"]
