"""What users import from `tandem`: its names, the examples in its docstrings, and the errors for wrong values."""

import inspect
import re
from collections.abc import Callable
from dataclasses import fields
from functools import partial
from typing import Any

import pulumi
import pytest

import tandem
from components.charts import merge_values
from sandbox.graph import plain
from sandbox.preview.program import run
from sharing.models.served import ServedModel
from sharing.names import stack_tags
from tandem import (
    BucketCheckpoints,
    CostAlertArgs,
    DevicePluginSharing,
    DevicePluginSharingArgs,
    GpuClusterArgs,
    KarpenterGpuPool,
    KarpenterGpuPoolArgs,
    KarpenterPool,
    KvType,
    ModelClients,
    MonitoringArgs,
    Mps,
    OllamaModel,
    OllamaPair,
    OllamaPairArgs,
    OpenWebUIArgs,
    ParkedNodeGroup,
    PoolSharing,
    ScaleToZeroArgs,
    Scaling,
    ScheduledParkingArgs,
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
    "KarpenterPool",
    "KvType",
    "Mig",
    "Model",
    "ModelClients",
    "MonitoredPool",
    "Mps",
    "OllamaModel",
    "ParkedNodeGroup",
    "PoolSharing",
    "Scaling",
    "Slices",
    "SpillPool",
    "TimeSlicing",
    "VolumeCheckpoints",
)
PUBLIC = {*BUILDERS, *(f"{name}Args" for name in BUILDERS), *OTHERS}
"""To remove a name breaks users' programs and needs a line in the changelog."""
RELEASE = "kubernetes:helm.sh/v3:Release"
TURNS = TimeSlicing(replicas=2)


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


def parking(**changed: Any) -> ScheduledParkingArgs:
    groups = {"gpu": ParkedNodeGroup(cluster_name="c", node_group_name="g")}
    times = {"schedule": "0 20 * * *", "wake": "0 8 * * *", "node_groups": groups}
    return ScheduledParkingArgs(**times | changed)


def proof(**changed: Any) -> ShareProofArgs:
    return ShareProofArgs(**{"sharing": TURNS, "gpu": "t4", **changed})


def spot_job(**changed: Any) -> SpotJobArgs:
    return SpotJobArgs(**{"image": "i", "command": ["train"], **changed})


def alert(**changed: Any) -> CostAlertArgs:
    return CostAlertArgs(**{"max_usd": 100, "emails": [MAIL], **changed})


def ui(**changed: Any) -> OpenWebUIArgs:
    return OpenWebUIArgs(**{"model_urls": ["http://a.b:11434"], "admin_email": MAIL, **changed})


MAIL = "ops@example.com"
SPOT = KarpenterPool(name="spot", sharing=TURNS)
T4 = PoolSharing(sharing=TURNS, gpu="t4")
REFUSED: list[tuple[Callable[..., object], str, object, str]] = [
    (cluster, "nat", "nonee", " must be one of none, single, per-zone, not 'nonee'. Did you "),
    (cluster, "zones", "2", " must be a whole number, not '2'. Pass a whole number."),
    (cluster, "zones", True, " must be a whole number, not True. Pass a whole number."),
    (cluster, "logs", "yes", " must be True or False, not 'yes'. Pass True or False."),
    (cluster, "kubernetes", "1.63", " is '1.63', which has no pinned add-ons. Did you mean 1.36"),
    (cluster, "zone_names", ["a"], " has 1 names, but `zones` is 2. Name"),
    (cluster, "admins", "me", " must be a list of text, not 'me'. Pass a list of text."),
    (cluster, "cidr", "10.0.0.0/8", " must be an IPv4 network from /16 to /22 without host "),
    (cluster, "cidr", "10.0.0.1/16", " must be an IPv4 network from /16 to /22 without host "),
    (cluster, "tags", ["a"], " must be a mapping of text to text, not ['a']. Pass a mapping of"),
    (cluster, "tags", {"a": 1}, " must be a mapping of text to text, not {'a': 1}. Pass a mapping of"),
    (cluster, "tags", {1: "a"}, " must be a mapping of text to text, not {1: 'a'}. Pass a mapping of"),
    (cluster, "profile", 1, " must be text or None, not 1. Pass text or None."),
    (nodes, "capacity", "sport", " must be one of spot, on-demand, not 'sport'. Did"),
    (nodes, "sharing", "mps", " must be Exclusive or TimeSlicing or Mig or Mps, not 'm"),
    (model, "context", "2k", " must be a whole number, not '2k'. Pass a whole number."),
    (model, "kv_type", "q5", " must be KvType or one of f16, q8_0, q4_0, not 'q5'."),
    (model, "importance", "hihg", " must be one of high, normal, low or None, not 'hihg'."),
    (spot_job, "command", "train", " must be a list of text, not 'train'. Pass a list of text."),
    (spot_job, "command", [], " is empty. Pass the program and its arguments."),
    (spot_job, "stop_seconds", 121, " is 121, but a spot instance ends 120 seconds after"),
    (spot_job, "wait", True, " is True, but `deadline_seconds` is missing. Pass the longest time"),
    (
        spot_job,
        "checkpoints",
        "s3://mine",
        " must be BucketCheckpoints or VolumeCheckpoints or None, not 's3://mine'. Pass",
    ),
    (ui, "model_urls", "http://a", " must be a list of "),
    (ui, "model_urls", [], " must have at least one URL. Pass those of `OllamaPair.urls`."),
    (ui, "admin_email", "ops", " is not an e-mail address. Pass ops@example.com, for"),
    (MonitoringArgs, "store", "builtni", " must be one of none, builtin, not 'builtni'. Did you"),
    (MonitoringArgs, "pools", ["gpu"], " must be a list of "),
    (MonitoringArgs, "store", "none", ' is "none", and service_monitors is False. Pass store='),
    (MonitoringArgs, "values", {"grafanna": {}}, " has an unknown chart 'grafanna'. Did you mean grafana"),
    (ScaleToZeroArgs, "models", [], " must have at least one id. Pass those of the"),
    (Scaling, "cold_requests", "hold", " must be one of wait, refuse, not 'hold'. "),
    (alert, "max_usd", "1", " must be a number, not '1'. Pass a number."),
    (alert, "max_usd", True, " must be a number, not True. Pass a number."),
    (alert, "max_usd", 0, " is 0, but the minimum is 0.01. Pass 0.01 or more."),
    (alert, "max_usd", float("nan"), " is nan, but the minimum is 0.01. Pass 0.01 or more."),
    (alert, "emails", [], " must have 1 to 10 addresses, not 0. Use a mailing list for more."),
    (alert, "emails", [MAIL] * 11, " must have 1 to 10 addresses, not 11. Use a mailing list"),
    (alert, "emails", [MAIL, "ops"], "[1] is not an e-mail address. Pass ops@example.com, say."),
    (alert, "period", "weekly", " must be one of monthly, daily, not 'weekly'."),
    (alert, "only_tagged", {"a": "b", "c": "d"}, " must have at most one tag, not 2. Pass"),
    (parking, "schedule", "0 20 * *", " has 4 fields, but cron text has five"),
    (parking, "wake", "0 25 * * *", " "),
    (parking, "node_groups", {"gpu": "gpu"}, " must be a mapping, not {'gpu'"),
    (ModelClients, "namespaces", "chat", " must be a list of text, not 'chat'."),
]
"""What builds the arguments, one of them with a wrong value, and the message after the name of the argument."""
WRONG: list[tuple[Callable[[], object], str]] = [
    (
        lambda: nodes(instance_types=["g4dn.xlrage"]),
        "unknown GPU instance type 'g4dn.xlrage'. Did you mean g4dn.xlarge",
    ),
    (lambda: nodes(min=2), "SpotGpuNodeGroupArgs.desired is 1, but min is 2 and max is 1. Pass the three"),
    (
        lambda: nodes(sharing=Mps(replicas=17), instance_types=["p3.2xlarge"]),
        "SpotGpuNodeGroupArgs.sharing.replicas: must be at most 16 for MPS on one V100",
    ),
    (lambda: KarpenterPool(name="a", sharing=TURNS, instance_types=["x"]), "unknown GPU instance type 'x'."),
    (
        lambda: nodes(instance_types=["g4dn.xlarge", "g6.xlarge"]),
        "instance types must have the same GPU; found g4dn.xl",
    ),
    (
        lambda: karpenter(),
        "KarpenterGpuPoolArgs.pools must have at least one pool and no duplicate names, not []. Pass",
    ),
    (
        lambda: karpenter(SPOT, SPOT),
        "KarpenterGpuPoolArgs.pools must have at least one pool and no duplicate names, not ['spot', 'spot']. Pass",
    ),
    (lambda: karpenter(SPOT, controller_replicas=0), "KarpenterGpuPoolArgs.controller_replicas is 0, but"),
    (lambda: PoolSharing(sharing=TURNS, gpu="t44"), "unknown GPU 't44'. Did you mean t4"),
    (lambda: proof(gpu="l44"), "unknown GPU 'l44'. Did you mean l4"),
    (lambda: sharing(), "DevicePluginSharingArgs.pools must have at least one pool and no duplicate names, not []."),
    (
        lambda: sharing(T4, T4),
        "DevicePluginSharingArgs.pools must have at least one pool and no duplicate names, not ['gpu', 'g",
    ),
    (
        lambda: sharing(T4, values={"gpu-operater": {}}),
        "DevicePluginSharingArgs.values has an unknown chart 'gpu-operater'. Did you mean gpu-operator",
    ),
    (lambda: OllamaModel("llama2:70bb"), "unknown model 'llama2:70bb'. Did you mean llama2:"),
    (
        lambda: model(cache="volume"),
        'OllamaModel.zone of llama2:7b is missing, but cache="volume" needs it. Pass the zone.',
    ),
    (
        lambda: model(cache="volume", zone="z", volume_gib=1),
        "OllamaModel.volume_gib is 1, which is too small for llama2:7b. Pass",
    ),
    (
        lambda: OllamaPairArgs(models=[]),
        "OllamaPairArgs.models must have at least one model and no duplicate ids, not [].",
    ),
    (
        lambda: OllamaPairArgs(models=[model(), model()]),
        "OllamaPairArgs.models must have at least one model and no duplicate ids, not ['llam",
    ),
    (
        lambda: BucketCheckpoints(cluster_name="c", bucket="b", prefix="/a"),
        "BucketCheckpoints.prefix is '/a'. Pass letters, digits and `._=-`, with `/` only between them.",
    ),
    (
        lambda: ScaleToZeroArgs(models=["a"], values={"kedaa": {}}),
        "ScaleToZeroArgs.values has an unknown chart 'kedaa'. Did you mean keda",
    ),
    (
        lambda: parking(node_groups={}),
        "ScheduledParkingArgs has nothing to park. Pass `node_groups`, `deployments` or both of them.",
    ),
]


@pytest.mark.parametrize(("build", "argument", "value", "message"), REFUSED)
def test_a_wrong_value_of_an_argument_is_refused_at_construction_with_its_fix(
    build: Callable[..., object], argument: str, value: object, message: str
) -> None:
    kind = build if isinstance(build, type) else build.__annotations__["return"]
    with pytest.raises(ValueError, match=re.escape(f"{kind.__name__}.{argument}{message}")) as caught:
        build(**{argument: value})
    assert re.search(r"\. [A-Z][^.]* .*[.?]$", str(caught.value)), "the last sentence is a fix"


@pytest.mark.parametrize(("build", "message"), WRONG, ids=[message[:50] for _, message in WRONG])
def test_a_wrong_value_is_refused_at_construction_with_its_fix(build: Callable[[], object], message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        build()


MOST_TAGS = (
    # AWS allows 50. A node gets `Name` and five tags of EKS or Karpenter, a volume `Name` and that of the driver.
    (cluster, 44),
    (nodes, 44),
    (partial(karpenter, SPOT), 44),
    (partial(OllamaPairArgs, models=[model()]), 48),
    (spot_job, 48),
    (parking, 50),
    (alert, 50),
)


def many(count: int) -> dict[str, str]:
    return {f"key-{number}": "v" for number in range(count)}


@pytest.mark.parametrize(("build", "most"), MOST_TAGS)
def test_every_component_with_tags_refuses_those_that_aws_refuses(build: Callable[..., object], most: int) -> None:
    wrong = [{key: "v"} for key in ("tandem:stack", "Tandem:Zones", "AWS:x", "kubernetes.io/x", "name", "a!")]
    for tags in (*wrong, {"team": "a", "Team": "b"}, {"team": "aws:x"}, many(most + 1)):
        with pytest.raises(ValueError, match=r"^\w+Args\.tags"):
            build(tags=tags)
    build(tags={**many(most - 1), "empty": ""})
    # The program's own tags, of which it makes two.
    build(tags=stack_tags("dev", many(most - 2)))
    with pytest.raises(ValueError, match="Remove 1"):
        build(tags=stack_tags("dev", many(most - 1)))


def test_all_components_with_tags_are_in_the_table() -> None:
    tagged = {name for name in PUBLIC if name.endswith("Args") and "tags" in getattr(tandem, name).__dataclass_fields__}
    assert {type(build()).__name__ for build, _ in MOST_TAGS} == tagged


@pytest.mark.parametrize(
    ("build", "name", "minimum"),
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
        (Scaling, "idle_minutes", 1),
        (spot_job, "cpu_millis", 1),
        (spot_job, "memory_mib", 1),
        (spot_job, "user", 0),
        (spot_job, "retries", 0),
        (spot_job, "stop_seconds", 1),
        (spot_job, "deadline_seconds", 1),
        (spot_job, "keep_seconds", 1),
        (partial(VolumeCheckpoints, zone="z"), "size_gib", 1),
        (partial(ParkedNodeGroup, cluster_name="c", node_group_name="g"), "nodes", 1),
    ],
)
def test_the_minimum_of_a_number_is_accepted_and_one_less_is_not(
    build: Callable[..., object], name: str, minimum: int
) -> None:
    with pytest.raises(ValueError, match=rf"\.{name} is {minimum - 1}, but the minimum is {minimum}\. "):
        build(**{name: minimum - 1})
    build(**{name: minimum, **({"desired": 1} if name == "max" else {})})


def test_a_field_with_an_input_type_accepts_outputs() -> None:
    later: pulumi.Output[str] = pulumi.Output.from_input("later")
    assert nodes(cluster_name=later, mode_taint=later).mode_taint is later
    assert model(zone=later, cache="volume").zone is later
    assert spot_job(image=later, namespace=later).namespace is later


def test_a_model_has_the_settings_of_a_stack_file_and_a_volume_of_its_size() -> None:
    served = OllamaModel("qwen2.5:0.5b", context=2048, slots=2, kv_type="q8_0", batch=512, prompt_cache_mib=0).served
    assert (served.id, served.model.name, served.context, served.slots) == ("qwen2-5-0-5b", "qwen2.5:0.5b", 2048, 2)
    assert (served.kv_type, served.batch, served.prompt_cache_mib) == (KvType.Q8_0, 512, 0)
    args = OllamaPairArgs(models=[model(cache="volume", zone="us-east-1a"), OllamaModel(served.model, id="mine")])
    graph = run(lambda: OllamaPair("pair", args), project="test", stack="test")
    [volume] = graph.of_type("aws:ebs/volume:Volume")
    # llama2:7b is 3.8 GB (ollama.com/library/llama2), 3.6 GiB; the headroom is 4 GiB.
    assert volume.inputs["size"] == 4 + 4


def test_a_model_has_the_defaults_of_a_stack_file() -> None:
    own, of_a_file = model(), ServedModel(name="llama2:7b")
    shared = {one.name for one in fields(own)} & (set(ServedModel.model_fields) - {"id", "name", "pool"})
    assert {"context", "slots", "kv_type", "batch", "cache"} <= shared
    assert {name: getattr(own, name) for name in shared} == {name: getattr(of_a_file, name) for name in shared}
    # OLLAMA_CONTEXT_LENGTH and OLLAMA_NUM_PARALLEL (ollama v0.32.15, envconfig/config.go and server/sched.go).
    assert (own.context, own.slots) == (4096, 1)


def test_the_callers_values_override_ours() -> None:
    assert merge_values({"a": {"b": 1, "c": [1]}, "d": 1}, {"a": {"c": [2]}, "e": {}, "d": None}) == {
        "a": {"b": 1, "c": [2]},
        "d": None,
        "e": {},
    }


def test_every_component_with_charts_accepts_extra_values() -> None:
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
