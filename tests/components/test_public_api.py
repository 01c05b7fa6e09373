"""What users import from `tandem`: its names, the examples in its docstrings, and the errors for wrong values."""

import inspect
import re
from collections.abc import Callable
from typing import Any

import pulumi
import pytest

import tandem
from components.charts import merge_values
from components.ollama_pair.placement import place_unjudged
from components.ollama_pair.values import choose_nodes
from sandbox.preview.program import run
from sharing.names import stack_tags
from tandem import (
    BucketCheckpoints,
    CostAlertArgs,
    DevicePluginSharingArgs,
    ExistingClusterArgs,
    ExistingVpc,
    GpuClusterArgs,
    KarpenterGpuPoolArgs,
    KarpenterPool,
    KvType,
    MonitoringArgs,
    Mps,
    OllamaModel,
    OllamaPair,
    OllamaPairArgs,
    OpenWebUIArgs,
    ParkedNodeGroup,
    PoolSharing,
    ScaleToZeroArgs,
    ScheduledParkingArgs,
    Share,
    ShareProofArgs,
    SpotGpuNodeGroupArgs,
    SpotJobArgs,
    TimeSlicing,
    VolumeCheckpoints,
)
from tests.components.conftest import BUILDERS, Mocks

OTHERS = (
    "BucketCheckpoints",
    "Exclusive",
    "ExistingVpc",
    "KarpenterPool",
    "KvType",
    "Mig",
    "Model",
    "ModelClients",
    "ModelMemory",
    "MonitoredPool",
    "Mps",
    "OllamaModel",
    "ParkedNodeGroup",
    "PoolSharing",
    "Scaling",
    "Share",
    "Slices",
    "TimeSlicing",
    "Verdict",
    "VolumeCheckpoints",
    "check",
    "find_model",
)
PUBLIC = {*BUILDERS, *(f"{name}Args" for name in BUILDERS), *OTHERS, "pull_from"}
"""To remove a name breaks users' programs and needs a line in the changelog."""
TURNS = TimeSlicing(replicas=2)
PER_MODEL = Mps(limits="per-model")


def test_the_public_names_are_these() -> None:
    assert tandem.__all__ == sorted(PUBLIC)


@pytest.mark.parametrize("name", sorted(BUILDERS))
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


def test_every_args_class_documents_its_errors() -> None:
    for name in PUBLIC - BUILDERS.keys():
        kind = getattr(tandem, name)
        if hasattr(kind, "__post_init__"):
            assert "Raises `ValueError`" in (inspect.getdoc(kind) or ""), name


MAIL = "ops@example.com"
SPOT = KarpenterPool(name="spot", sharing=TURNS)
T4 = PoolSharing(sharing=TURNS, gpu="t4")
LLAMA = OllamaModel("llama2:7b")
THEIRS = ExistingVpc(id="vpc-0a1b2c3d", subnet_ids=["subnet-1", "subnet-2"])
GROUP = ParkedNodeGroup(cluster_name="c", node_group_name="g")
REQUIRED: dict[Callable[..., Any], dict[str, Any]] = {
    BucketCheckpoints: {"cluster_name": "c", "bucket": "b"},
    CostAlertArgs: {"max_usd": 100, "emails": [MAIL]},
    ExistingVpc: {"id": "vpc-0a1b2c3d", "subnet_ids": ["subnet-1", "subnet-2"]},
    GpuClusterArgs: {"cluster_name": "c"},
    KarpenterGpuPoolArgs: {"cluster_name": "c", "node_subnet_ids": ["s"], "security_group_id": "sg", "pools": [SPOT]},
    KarpenterPool: {"name": "a", "sharing": TURNS},
    OllamaModel: {"model": "llama2:7b"},
    OllamaPairArgs: {"models": [LLAMA]},
    OpenWebUIArgs: {"model_urls": ["http://a.b:11434"], "admin_email": MAIL},
    ParkedNodeGroup: {"cluster_name": "c", "node_group_name": "g"},
    PoolSharing: {"sharing": TURNS},
    ScaleToZeroArgs: {"models": ["a"]},
    ScheduledParkingArgs: {"schedule": "0 20 * * *", "wake": "0 8 * * *", "node_groups": {"gpu": GROUP}},
    ShareProofArgs: {"sharing": TURNS, "gpu": "t4"},
    SpotGpuNodeGroupArgs: {"cluster_name": "c", "subnet_ids": ["s"], "sharing": TURNS},
    SpotJobArgs: {"image": "i", "command": ["train"]},
    VolumeCheckpoints: {"zone": "z"},
}
"""Arguments without a default."""


def build(kind: Callable[..., Any], **changed: Any) -> Any:
    return kind(**{**REQUIRED.get(kind, {}), **changed})


REFUSED: list[tuple[Callable[..., Any], dict[str, Any], str]] = [
    # One row for each kind of type.
    (GpuClusterArgs, {"nat": "nonee"}, ".nat must be one of none, single, per-zone, not 'nonee'. Did you mean none"),
    (GpuClusterArgs, {"zones": "2"}, ".zones must be a whole number, not '2'. Pass a whole number."),
    (GpuClusterArgs, {"zones": True}, ".zones must be a whole number, not True. Pass a whole number."),
    (GpuClusterArgs, {"logs": "yes"}, ".logs must be True or False, not 'yes'. Pass True or False."),
    (GpuClusterArgs, {"admins": "me"}, ".admins must be a list of text, not 'me'. Pass [\"me\"]."),
    (GpuClusterArgs, {"tags": {"a": 1}}, ".tags must be a mapping of text to text, not {'a': 1}. Pass a mapping of"),
    (GpuClusterArgs, {"tags": {1: "a"}}, ".tags must be a mapping of text to text, not {1: 'a'}. Pass a mapping of"),
    (GpuClusterArgs, {"profile": 1}, ".profile must be text or None, not 1. Pass text or None."),
    (CostAlertArgs, {"max_usd": True}, ".max_usd must be a number, not True. Pass a number."),
    (SpotGpuNodeGroupArgs, {"sharing": "mps"}, ".sharing must be Exclusive or TimeSlicing or Mig or Mps, not 'mps'."),
    (OllamaModel, {"kv_type": "q5"}, ".kv_type must be KvType or one of f16, q8_0, q4_0, not 'q5'."),
    (MonitoringArgs, {"pools": ["gpu"]}, ".pools[0] must be MonitoredPool, not 'gpu'. Pass {"),
    (ScheduledParkingArgs, {"node_groups": {"gpu": "gpu"}}, ".node_groups must be a mapping, not {'gpu'"),
    # Text or an output.
    (
        SpotGpuNodeGroupArgs,
        {"cluster_name": 5},
        ".cluster_name must be text, or an output, not 5. Pass text, or an out",
    ),
    (
        SpotGpuNodeGroupArgs,
        {"subnet_ids": "s"},
        ".subnet_ids must be a list of text, or an output, not 's'. Pass [\"s\"]",
    ),
    (SpotGpuNodeGroupArgs, {"subnet_ids": [5]}, ".subnet_ids[0] must be text, or an output, not 5. Pass text, or an o"),
    (SpotGpuNodeGroupArgs, {"zones": "us-east-1a"}, ".zones must be a list of text, or an output, not 'us-east-1a'. "),
    (SpotGpuNodeGroupArgs, {"mode_taint": 5}, ".mode_taint must be text or None, or an output, not 5. Pass text or No"),
    (
        SpotGpuNodeGroupArgs,
        {"security_group_ids": "sg-1"},
        ".security_group_ids must be a list of text, not 'sg-1'. Pass",
    ),
    (ExistingVpc, {"id": 5}, ".id must be text, or an output, not 5. Pass text, or an output."),
    # What a stack file refuses, too.
    (SpotGpuNodeGroupArgs, {"cluster_name": ""}, ".cluster_name must be 1 to 100 letters, digits, dashes or underscor"),
    (SpotGpuNodeGroupArgs, {"subnet_ids": []}, ".subnet_ids is empty. Pass at least one."),
    (KarpenterGpuPoolArgs, {"node_subnet_ids": []}, ".node_subnet_ids is empty. Pass at least one."),
    (ExistingClusterArgs, {"cluster_name": "x y"}, ".cluster_name must be 1 to 100 letters, digits, dashes or unders"),
    (ExistingVpc, {"id": "vpc-xyz"}, ".id must be `vpc-` and 8 or 17 hexadecimal digits, not 'vpc-xyz'. Pass the id t"),
    (TimeSlicing, {"replicas": "2"}, ".replicas must be a whole number, not '2'. Pass a whole number."),
    # The rules of each component.
    (GpuClusterArgs, {"kubernetes": "1.63"}, ".kubernetes is '1.63', which has no pinned add-ons. Did you mean 1.36"),
    (GpuClusterArgs, {"zone_names": ["a"]}, ".zone_names has 1 names, but `zones` is 2. Name"),
    (GpuClusterArgs, {"cidr": "10.0.0.1/16"}, ".cidr must be an IPv4 network from /16 to /22 without host "),
    (GpuClusterArgs, {"vpc": "vpc-1"}, '.vpc must be ExistingVpc or None, not \'vpc-1\'. Pass {"id": "vpc-1"}.'),
    *(
        (
            GpuClusterArgs,
            {"vpc": THEIRS, name: value},
            f".{name} has no effect beside `vpc`, which exists. Leave it out.",
        )
        for name, value in {"nat": "none", "zones": 3, "zone_names": ["a", "b"], "cidr": "10.1.0.0/16"}.items()
    ),
    (
        ExistingVpc,
        {"subnet_ids": ["subnet-1"]},
        ".subnet_ids must have at least two subnets, in two zones. Pass ",
    ),
    (SpotGpuNodeGroupArgs, {"min": 2}, ".desired is 1, but min is 2 and max is 1. Pass the three"),
    (
        SpotGpuNodeGroupArgs,
        {"sharing": Mps(replicas=17), "instance_types": ["p3.2xlarge"]},
        ".sharing.replicas: must be at most 16 for MPS on one V100",
    ),
    (SpotGpuNodeGroupArgs, {"instance_types": ["g4dn.xlrage"]}, ".instance_types[0]: unknown GPU instance type 'g4dn"),
    (SpotGpuNodeGroupArgs, {"instance_types": ["g4dn.xlarge", "g6.xlarge"]}, ".instance_types must have the same GPU;"),
    (KarpenterPool, {"instance_types": ["x"]}, ".instance_types[0]: unknown GPU instance type 'x'."),
    (KarpenterGpuPoolArgs, {"pools": []}, ".pools is empty. Pass at least one."),
    (KarpenterGpuPoolArgs, {"pools": [SPOT, SPOT]}, ".pools has duplicate names: ['spot', 'spot']. Pass each pool its"),
    (PoolSharing, {"sharing": Mps(replicas=17), "gpu": "v100-16gb"}, ".sharing.replicas: must be at most 16 for MPS"),
    (ShareProofArgs, {"sharing": Mps(replicas=17), "gpu": "v100-16gb"}, ".sharing.replicas: must be at most 16 for"),
    (PoolSharing, {"gpu": "t44"}, "unknown GPU 't44'. Did you mean t4"),
    (ShareProofArgs, {"gpu": "l44"}, "unknown GPU 'l44'. Did you mean l4"),
    (DevicePluginSharingArgs, {"pools": []}, ".pools is empty. Pass at least one."),
    (
        DevicePluginSharingArgs,
        {"pools": [T4, T4]},
        ".pools has duplicate names: ['gpu', 'gpu']. Pass each its own `pool`.",
    ),
    (DevicePluginSharingArgs, {"pools": [T4], "values": {"gpu-operater": {}}}, ".values has an unknown chart 'gpu-op"),
    (OllamaModel, {"model": "llama2:70bb"}, "unknown model 'llama2:70bb'. Did you mean llama2:"),
    (OllamaModel, {"cache": "volume"}, '.zone of llama2:7b is missing, but cache="volume" needs it. Pass the zone.'),
    (OllamaModel, {"volume_gib": 1}, ".volume_gib is 1, which is too small for llama2:7b. Pass"),
    # llama2:7b has 3.8 GB of weights (ollama.com/library/llama2), which is 3.55 GiB, and 2 GiB of KV cache.
    (
        OllamaPairArgs,
        {"models": [OllamaModel("llama2:7b", share=Share())]},
        "OllamaModel.share of llama2:7b has no memory_gib, and the GPU, which decides what it needs, is unknown here.",
    ),
    (
        OllamaModel,
        {"share": Share(memory_gib=5.5)},
        ".share of llama2:7b has a memory_gib of 5.5, which is too small for it",
    ),
    (
        OllamaModel,
        {"share": Share(memory_gib=9), "spill_pools": ["rest"]},
        ".share of llama2:7b holds only on the nodes of `pool`. Remove `spill_pools`.",
    ),
    # Limits per model need nodes with one entire GPU.
    (
        SpotGpuNodeGroupArgs,
        {"sharing": PER_MODEL, "instance_types": ["g4dn.xlarge", "g4dn.12xlarge"]},
        ".sharing.limits: per-model needs one GPU per node, not 4",
    ),
    (
        SpotGpuNodeGroupArgs,
        {"sharing": PER_MODEL, "instance_types": ["g6f.xlarge"]},
        ".sharing.limits: per-model needs an entire GPU, not a part of one.",
    ),
    (
        KarpenterGpuPoolArgs,
        {"pools": [KarpenterPool(name="spot", sharing=PER_MODEL, instance_types=["g4dn.12xlarge"])]},
        "pool 'spot': sharing.limits: per-model needs one GPU per node, not 4",
    ),
    (
        KarpenterGpuPoolArgs,
        {"pools": [KarpenterPool(name="spot", sharing=PER_MODEL, instance_types=["g6f.xlarge"])]},
        "pool 'spot': sharing.limits: per-model needs an entire GPU, not a part of one.",
    ),
    (
        ShareProofArgs,
        {"sharing": PER_MODEL, "gpus_per_node": 2},
        ".sharing.limits: per-model needs one GPU per node, not 2",
    ),
    (PoolSharing, {"sharing": TimeSlicing(limits="per-model"), "gpu": "t4"}, ".sharing.limits: per-model is not poss"),
    (ShareProofArgs, {"limits_mib": [9000]}, '.limits_mib needs `sharing=Mps(limits="per-model")`. Remove it.'),
    (
        ShareProofArgs,
        {"sharing": PER_MODEL, "limits_mib": [5000, 4000, 3000]},
        ".limits_mib has 3 limits for 2 shares. Pass at most 2.",
    ),
    (ShareProofArgs, {"sharing": PER_MODEL, "limits_mib": [5000, 0]}, ".limits_mib has a limit of 0. Pass 1 or more."),
    (
        ShareProofArgs,
        {"sharing": PER_MODEL, "limits_mib": [9000, 5847]},
        # The 14,912 MiB that CUDA shows on a T4, less 66.
        ".limits_mib is 14,847 in total, but one T4 has 14,846. Pass smaller limits.",
    ),
    (OllamaPairArgs, {"models": []}, ".models is empty. Pass at least one."),
    (OllamaPairArgs, {"models": [LLAMA, LLAMA]}, ".models has duplicate ids: ['llama2-7b', 'llama2-7b']. Pass each mo"),
    (SpotJobArgs, {"command": []}, ".command is empty. Pass the program and its arguments."),
    (SpotJobArgs, {"stop_seconds": 121}, ".stop_seconds is 121, but a spot instance ends 120 seconds after"),
    (SpotJobArgs, {"wait": True}, ".wait is True, but `deadline_seconds` is missing. Pass the longest time"),
    (OpenWebUIArgs, {"model_urls": []}, ".model_urls must have at least one URL. Pass those of `OllamaPair.urls`."),
    (OpenWebUIArgs, {"storage_gib": 4}, ".zone is missing, but a volume needs it. Pass the zone of a node."),
    (OpenWebUIArgs, {"storage_gib": -1}, ".storage_gib is -1, but the minimum is 0. Pass 0 or more."),
    (OpenWebUIArgs, {"storage_gib": 16385, "zone": "us-east-1a"}, ".storage_gib is 16385. Pass 16384 or less."),
    (OpenWebUIArgs, {"chunk_characters": 100}, ".chunk_characters is 100, but the minimum is 101. Pass 101 or more."),
    (
        OpenWebUIArgs,
        {"embedding_url": "http://e:1"},
        ".embedding_model is missing. Pass the embedding model's name and",
    ),
    (
        OpenWebUIArgs,
        {"embedding_model": "e"},
        ".embedding_url is missing. Pass the embedding model's name and its URL.",
    ),
    (OpenWebUIArgs, {"admin_email": "ops"}, ".admin_email is not an e-mail address. Pass ops@example.com, for"),
    (MonitoringArgs, {"store": "none"}, '.store is "none", and service_monitors is False. Pass store='),
    (MonitoringArgs, {"values": {"grafanna": {}}}, ".values has an unknown chart 'grafanna'. Did you mean grafana"),
    (ScaleToZeroArgs, {"models": []}, ".models must have at least one id. Pass those of the"),
    (ScaleToZeroArgs, {"values": {"kedaa": {}}}, ".values has an unknown chart 'kedaa'. Did you mean keda"),
    (CostAlertArgs, {"max_usd": 0}, ".max_usd is 0, but the minimum is 0.01. Pass 0.01 or more."),
    (CostAlertArgs, {"max_usd": float("nan")}, ".max_usd is nan, but the minimum is 0.01. Pass 0.01 or more."),
    (CostAlertArgs, {"emails": [MAIL] * 11}, ".emails must have 1 to 10 addresses, not 11. Use a mailing list"),
    (CostAlertArgs, {"emails": [MAIL, "ops"]}, ".emails[1] is not an e-mail address. Pass ops@example.com, say."),
    (CostAlertArgs, {"only_tagged": {"a": "b", "c": "d"}}, ".only_tagged must have at most one tag, not 2. Pass"),
    (ScheduledParkingArgs, {"schedule": "0 20 * *"}, ".schedule has 4 fields, but cron text has five"),
    (ScheduledParkingArgs, {"wake": "0 8 * *"}, ".wake has 4 fields, but cron text has five"),
    (ScheduledParkingArgs, {"node_groups": {}}, " has nothing to park. Pass `node_groups`, `deployments` or both of"),
]
"""Arguments of a class, and the message, without the name of the class in front of it."""


@pytest.mark.parametrize(("kind", "changed", "message"), REFUSED)
def test_a_wrong_value_is_refused_at_construction_with_its_fix(
    kind: type, changed: dict[str, Any], message: str
) -> None:
    name = kind.__name__ if message[0] in ". " else ""
    with pytest.raises(ValueError, match=re.escape(f"{name}{message}")) as caught:
        build(kind, **changed)
    if name:
        assert re.search(r"\. [A-Z][^.]* .*[.?]$", str(caught.value)), "the last sentence is a fix"


MOST_TAGS: dict[Callable[..., Any], int] = {
    # AWS allows 50. A node gets `Name` and five tags of EKS or Karpenter, a volume `Name` and that of the driver.
    GpuClusterArgs: 44,
    SpotGpuNodeGroupArgs: 44,
    KarpenterGpuPoolArgs: 44,
    OllamaPairArgs: 48,
    SpotJobArgs: 48,
    OpenWebUIArgs: 48,
    ScheduledParkingArgs: 50,
    CostAlertArgs: 50,
}


def many(count: int) -> dict[str, str]:
    return {f"key-{number}": "v" for number in range(count)}


@pytest.mark.parametrize(("kind", "most"), MOST_TAGS.items())
def test_every_component_with_tags_refuses_those_that_aws_refuses(kind: Callable[..., object], most: int) -> None:
    for tags in ({"AWS:x": "v"}, many(most + 1)):
        with pytest.raises(ValueError, match=r"^\w+Args\.tags"):
            build(kind, tags=tags)
    build(kind, tags={**many(most - 1), "empty": ""})
    # The program's own tags, of which it makes two.
    build(kind, tags=stack_tags("dev", many(most - 2)))
    with pytest.raises(ValueError, match="Remove 1"):
        build(kind, tags=stack_tags("dev", many(most - 1)))


def test_all_components_with_tags_are_in_the_table() -> None:
    arguments = [getattr(tandem, name) for name in PUBLIC if name.endswith("Args")]
    assert {kind for kind in arguments if "tags" in kind.__dataclass_fields__} == MOST_TAGS.keys()


def test_a_model_has_the_settings_of_a_stack_file_and_a_volume_of_its_size() -> None:
    served = OllamaModel("qwen2.5:0.5b", context=2048, slots=2, kv_type="q8_0", batch=512, prompt_cache_mib=0).served
    assert (served.id, served.model.name, served.context, served.slots) == ("qwen2-5-0-5b", "qwen2.5:0.5b", 2048, 2)
    assert (served.kv_type, served.batch, served.prompt_cache_mib) == (KvType.Q8_0, 512, 0)
    on_disk = OllamaModel("llama2:7b", cache="volume", zone="us-east-1a")
    args = OllamaPairArgs(models=[on_disk, OllamaModel(served.model, id="mine")])
    graph = run(lambda: OllamaPair("pair", args), project="test", stack="test")
    [volume] = graph.of_type("aws:ebs/volume:Volume")
    # llama2:7b is 3.8 GB (ollama.com/library/llama2), 3.6 GiB; the headroom is 4 GiB.
    assert volume.inputs["size"] == 4 + 4


def test_a_packed_model_prefers_a_node_that_has_one_already() -> None:
    model = OllamaModel("llama2:7b", pool="big", packed=True)
    place = place_unjudged(model)
    found = choose_nodes(model, place)
    [preferred] = found["affinity"]["podAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"]
    # Kubernetes accepts weights from 1 to 100. Its own labels are those that the next packed model looks for.
    assert 1 <= preferred["weight"] <= 100
    assert preferred["podAffinityTerm"] == {
        "labelSelector": {"matchLabels": found["podLabels"]},
        "topologyKey": "kubernetes.io/hostname",
    }
    assert found["podLabels"] == {"tandem/pool": "big"}
    alone = choose_nodes(OllamaModel("llama2:7b", pool="big"), place)
    assert alone == {key: found[key] for key in ("nodeSelector", "tolerations")}


def test_the_callers_values_override_ours() -> None:
    assert merge_values({"a": {"b": 1, "c": [1]}, "d": 1}, {"a": {"c": [2]}, "e": {}, "d": None}) == {
        "a": {"b": 1, "c": [2]},
        "d": None,
        "e": {},
    }
