"""The meaning of a stack file: defaults, ids, own models, and the same config from a file and from Pulumi."""

import contextvars
import datetime
import inspect
import json
import re
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pulumi
import pulumi_aws as aws
import pytest
import yaml
from pydantic.alias_generators import to_camel

from sharing import versions
from sharing.fit.memory import need
from sharing.hardware.gpus import gpus
from sharing.models.catalogue import KvType, largest_vocabulary
from sharing.stack.config import SECTIONS, StackConfig
from stacks.program import load_plan
from stacks.stack_file.judge import Judged, RefusedError, judge, judge_file
from stacks.stack_file.provider_keys import HONOURED, REFUSED, refuse_keys
from stacks.stack_file.yaml import Source
from tests.conftest import Golden
from tests.shipped import FILES

ROOT = Path(__file__).parents[2]
TODAY = datetime.date(2026, 11, 21)
LEAST: dict[str, Any] = {"sharing": {"mode": "timeslice"}, "models": [{"name": "qwen2.5:0.5b"}]}
ARABIC_ONE = "\u0661"
OWN = {"name": "mine", "weights-gib": 2.5, "layers": 32, "kv-heads": 8, "head-dim": 128}


def judged(**sections: Any) -> Judged:
    return judge(Source({**LEAST, **sections}, {"aws:region": "us-east-1"}), "Pulumi.test.yaml", today=TODAY)


def config(**sections: Any) -> StackConfig:
    return judged(**sections).plan().config


def named(*names: str) -> list[dict[str, Any]]:
    return [{"name": name} for name in names]


def refusal(**sections: Any) -> str:
    with pytest.raises(RefusedError) as refused:
        config(**sections)
    return str(refused.value)


@pytest.mark.parametrize("name", ["dev", "exclusive", "karpenter", "mig", "mig-mixed", "mps", "timeslice"])
def test_the_limits_of_a_shipped_stack_are_a_little_above_its_price(name: str) -> None:
    """15 to 25 %, or enough for the two nodes of `exclusive`; new prices may use up part of it."""
    found = judge_file(ROOT / f"Pulumi.{name}.yaml", today=TODAY)
    room_for = "exclusive" if name in ("karpenter", "mps", "timeslice") else name
    whole = judge_file(ROOT / f"Pulumi.{room_for}.yaml", today=TODAY).verdict.cost
    assert whole is not None
    assert [one for one in (*found.problems, *found.verdict.warnings) if one.path.startswith("budget")] == []
    hour, month = found.config.budget.max_usd_per_hour, found.config.budget.max_usd_per_month
    assert (hour or 0) < 1.35 * whole.replacing_usd_per_hour
    assert (month or 0) < 1.35 * whole.usd_per_month
    assert hour
    assert month


@pytest.mark.parametrize("name", ["karpenter", "mps", "timeslice"])
def test_the_limits_that_a_file_names_for_one_node_are_enough(name: str, tmp_path: Path) -> None:
    text = (ROOT / f"Pulumi.{name}.yaml").read_text(encoding="utf-8")
    [(hour, month)] = re.findall(r"# Room for .* (\d\.\d\d) and (\d+)", text)
    file = tmp_path / f"Pulumi.{name}.yaml"
    file.write_text(
        re.sub(
            r"(?m)^  tandem:budget: .*",
            f"  tandem:budget: {{max-usd-per-hour: {hour}, max-usd-per-month: {month}}}",
            text,
        )
    )
    found = judge_file(file, today=TODAY)
    assert found.problems == ()
    two = judge_file(ROOT / "Pulumi.exclusive.yaml", today=TODAY).verdict.cost
    assert two is not None
    assert two.replacing_usd_per_hour > float(hour)
    assert two.usd_per_month > float(month)


def test_the_smallest_file_has_a_region_a_mode_and_a_model() -> None:
    least = config()
    nodes, cluster, model = least.pools[0], least.cluster, least.models[0]
    assert (nodes.instance_types, nodes.capacity) == (["g4dn.xlarge"], "spot")
    assert (nodes.min, nodes.desired, nodes.max) == (0, 1, 1)
    assert (cluster.kubernetes, cluster.cidr) == (versions.KUBERNETES, "10.0.0.0/16")
    assert (cluster.zones, cluster.nat) == (2, "single")
    assert (cluster.system_nodes.instance_types, cluster.system_nodes.count) == (["t3.medium"], 2)
    assert least.sharing is not None
    assert (least.sharing.mode, least.sharing.replicas) == ("timeslice", 2)
    assert (least.budget.max_usd_per_hour, least.tags) == (None, {})
    assert (least.models_clients.namespaces, least.models_clients.labels) == ([], {})
    assert (model.context, model.slots, model.kv_type, model.cache) == (4096, 1, KvType.F16, "node")


def test_an_empty_section_has_its_defaults() -> None:
    assert config(cluster=None, budget={}, **{"gpu-nodes": None}) == config()


def test_the_defaults_are_allowed_values() -> None:
    defaults = {"cluster": config().cluster, "budget": config().budget}
    written = {key: section.model_dump(by_alias=True) for key, section in defaults.items()}
    assert config(**written) == config()


def test_a_config_cannot_be_changed() -> None:
    with pytest.raises(ValueError, match="frozen"):
        config().region = "eu-west-1"


def test_every_key_of_the_file_is_described() -> None:
    def fields(model: Any) -> list[tuple[str, Any]]:
        return [pair for field in model.model_fields.items() for pair in (field, *below(field[1].annotation))]

    def below(annotation: Any) -> list[tuple[str, Any]]:
        inner = [annotation, *getattr(annotation, "__args__", ())]
        return [pair for each in inner if hasattr(each, "model_fields") for pair in fields(each)]

    undescribed = {name for name, field in fields(StackConfig) if not field.description} - {"mode"}
    assert not undescribed


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        (named("llama2:7b"), ["llama2-7b"]),
        (named("llama2:7b", "llama2:7b"), ["llama2-7b", "llama2-7b-2"]),
        (named("llama2:7b", "llama2:7b", "llama2:7b"), ["llama2-7b", "llama2-7b-2", "llama2-7b-3"]),
        (named("qwen2.5:0.5b"), ["qwen2-5-0-5b"]),
        ([{"name": "llama2:7b", "id": "first"}, {"name": "llama2:7b"}], ["first", "llama2-7b"]),
        ([{"name": "llama2:7b"}, {"name": "mistral:7b", "id": "llama2-7b"}], ["llama2-7b-2", "llama2-7b"]),
        ([{"name": "llama2:7b"}, {"name": "llama2:7b", "id": "llama2-7b-2"}], ["llama2-7b", "llama2-7b-2"]),
        (
            [*named("llama2:7b", "llama2:7b"), {"name": "x", "id": "llama2-7b-2"}],
            ["llama2-7b", "llama2-7b-3", "llama2-7b-2"],
        ),
    ],
)
def test_each_model_has_its_own_id(written: list[dict[str, Any]], expected: list[str]) -> None:
    document = json.dumps({"aws:region": "us-east-1", "sharing": {"mode": "timeslice"}, "models": written})
    assert [served.id for served in StackConfig.model_validate_json(document).models] == expected


def test_an_own_model_has_the_numbers_in_the_file() -> None:
    served = config(models=[OWN]).models[0]
    model = served.model
    assert (model.name, served.id) == ("mine", "mine")
    assert (model.weights_bytes, model.layers, model.kv_heads, model.head_dim) == (2684354560, 32, 8, 128)
    assert model.vocabulary == largest_vocabulary()
    assert model.max_context == 0, "unknown"


WHOLE = {
    **OWN,
    "architecture": "gemma4",
    "embedding-bytes": 1,
    "heads": 16,
    "value-dim": 96,
    "max-context": 131072,
    "swa-layers": 12,
    "swa-window": 512,
    "swa-kv-heads": 2,
    "swa-head-dim": 256,
    "shared-kv-layers": 10,
    "recurrent-layers": 4,
    "recurrent-state-bytes": 5,
    "mla-rank": 576,
    "width": 2560,
    "feed-forward": 10240,
    "vocabulary": 262144,
    "experts": 8,
    "experts-used": 2,
    "projector-bytes": 7,
    "encoder": True,
}
"""Every own-model key, each with a different value."""


def test_the_own_model_keys_express_every_field_of_a_model() -> None:
    model = config(models=[WHOLE]).models[0].model
    shown = {key.replace("-", "_"): value for key, value in WHOLE.items()}
    shown["weights_bytes"] = 2684354560
    del shown["weights_gib"]
    assert asdict(model) == {**shown, "weights_spread": 0, "source": "the stack file"}


def test_an_own_model_with_windows_and_shared_heads_needs_as_much_as_its_engine_used() -> None:
    """gemma4:12b at 65536 tokens in four slots: 4096 MiB in 8 full layers, 3840 in 40 windowed ones (public log).

    With only the four required numbers it needed 108,079 MiB, and the advice was a p5e.48xlarge.
    """
    windows = {"swa-layers": 40, "swa-window": 1024, "swa-kv-heads": 8, "swa-head-dim": 256}
    numbers = {"weights-gib": 7.1, "layers": 48, "heads": 16, "kv-heads": 1, "head-dim": 512, "vocabulary": 262144}
    gemma = {"name": "gemma4-own", **numbers, **windows, "context": 65536, "slots": 4}
    on_an_l4 = {"gpu-nodes": {"instance-types": ["g6.xlarge"]}}
    [served] = config(models=[gemma], **on_an_l4).models
    assert need(served, gpus()["l4"]).kv == 4096 + 3840
    with pytest.raises(RefusedError, match="cannot fit one GPU"):
        config(models=[{key: value for key, value in gemma.items() if key not in windows}], **on_an_l4)


def test_weights_in_gib_are_exact_to_the_byte() -> None:
    written = round(13793441244 / 2**30, 10)
    assert config(models=[{**OWN, "weights-gib": written}]).models[0].model.weights_bytes == 13793441244


def test_own_numbers_win_over_the_catalogue() -> None:
    model = config(models=[{**OWN, "name": "llama2:7b", "layers": 7}]).models[0].model
    assert (model.layers, model.max_context) == (7, 0)


# `pulumi config set --path` writes true, false and integers without a leading 0 as such, and everything else as text,
# even 1.5 (coerce() in pulumi's sdk/go/common/resource/config/object.go), unless `--type float` is given.
@pytest.mark.parametrize("written", ["1.5", "1", "12.75"])
def test_a_budget_may_be_text_as_pulumi_config_set_writes_it(written: str) -> None:
    assert config(budget={"max-usd-per-hour": written}).budget.max_usd_per_hour == float(written)


@pytest.mark.parametrize(
    "written", ["", " 0.5", "0.5 ", "1e3", "0,5", "-1", "+1", "inf", "nan", "0x1", "1" * 7, ARABIC_ONE]
)
def test_no_other_text_is_a_budget(written: str) -> None:
    assert "budget.max-usd-per-hour: must be a number" in refusal(budget={"max-usd-per-hour": written})


@pytest.mark.parametrize(("key", "example"), [("max-usd-per-hour", "1.50"), ("max-usd-per-month", "400")])
@pytest.mark.parametrize("wrong", ["420/month", [1], {"usd": 1}, float("nan"), float("inf"), True])
def test_a_wrong_limit_gets_an_example_of_its_own_unit(key: str, example: str, wrong: object) -> None:
    assert f" Write a number such as {example}, or remove the key." in refusal(budget={key: wrong})


@pytest.mark.parametrize(
    ("name", "is_valid"),
    [
        ("registry.example.com:5000/me/model:q4", True),
        ("host:port/namespace/model", True),
        ("hf.co/me/Model-GGUF:Q4_K_M", True),
        ("_why/_the/_lucky:_stiff", True),
        ("namespace/model", True),
        (f"{'a' * 350}/{'a' * 80}/{'a' * 80}:{'a' * 80}", True),
        (f"{'a' * 351}/{'a' * 80}/{'a' * 80}:{'a' * 80}", False),
        (f"{'a' * 81}:b", False),
        ("host/name:space/model:tag", False),
        ("name.space/model:tag", False),
        ("-hh/nn/mm:tt", False),
        ("hh/-nn/mm:tt", False),
        ("hh/nn/-mm:tt", False),
        ("hh/nn/mm:-tt", False),
        ("/nn/mm", False),
        ("hh//mm", False),
        ("mm:", False),
        ("a/b/c/d", False),
        ("mm:t\n", False),
    ],
)
@pytest.mark.real_world(
    behaviour="A model's name may begin with the registry's host and port, and each part allows its own characters",
    source="ollama/ollama v0.32.15, types/model/name.go (ParseName, isValidPart) and name_test.go",
)
def test_names_are_valid_if_ollama_accepts_them(name: str, is_valid: bool) -> None:
    problems = judged(models=[{**OWN, "name": name}]).problems
    assert ("models[0].name" not in [problem.path for problem in problems]) is is_valid


def test_pools_and_models_know_their_places_in_the_file_and_their_shares() -> None:
    models = [{"name": "llama2:7b", "context": 1024, "kv-type": "q8_0"}, {**OWN, "cache": "volume"}]
    nodes = {"instance-types": ["g6.xlarge"], "desired": 2, "max": 3}
    whole = config(**{"sharing": {"mode": "mps", "replicas": 3}, "gpu-nodes": nodes, "models": models})
    (pool,) = whole.pools
    assert (whole.region, whole.today) == ("us-east-1", TODAY)
    assert (pool.path, pool.instance_types, pool.sharing.mode, pool.total_shares) == (
        "gpu-nodes",
        ["g6.xlarge"],
        "mps",
        6,
    )
    assert [(served.path, served.id, served.cache, served.kv_type) for served in whole.models_of(pool)] == [
        ("models[0]", "llama2-7b", "node", KvType.Q8_0),
        ("models[1]", "mine", "volume", KvType.F16),
    ]


def test_zone_names_determine_the_number_of_zones() -> None:
    setup = config(cluster={"zone-names": ["us-east-1d", "us-east-1a", "us-east-1f"]})
    assert (setup.cluster.zone_count, setup.cluster.zone_names) == (3, ["us-east-1d", "us-east-1a", "us-east-1f"])
    assert config(cluster={"zones": 2, "zone-names": ["us-east-1d", "us-east-1a"]}).cluster.zone_count == 2


def test_a_batch_in_the_file_replaces_ollamas_choice() -> None:
    """Ollama v0.32.15, server/sched.go: 1,024 tokens per step between 4,096 and 32,768 tokens of context."""
    chosen, own = config(
        models=[{"name": "llama3.2:1b", "context": 8192}, {"name": "llama3.2:1b", "batch": 256}]
    ).models
    assert (chosen.effective_batch, own.effective_batch) == (1024, 256)
    whole_context = config(models=[{"name": "nomic-embed-text:latest", "context": 2048, "batch": 2048}]).models
    assert [served.effective_batch for served in whole_context] == [2048]


SEVERAL: dict[str, Any] = {
    "gpu-nodes": [
        {"name": "steady", "instance-types": ["g6.xlarge"], "capacity": "on-demand", "sharing": {"mode": "exclusive"}},
        {"name": "rest", "desired": 2, "max": 3},
    ],
    "models": [{"name": "llama2:7b", "pool": "rest"}, {"name": "mistral:7b", "pool": "steady"}],
}


def test_each_of_several_pools_has_its_own_nodes_and_its_own_or_the_stacks_sharing() -> None:
    setup = config(**SEVERAL)
    assert [(pool.name, pool.path, pool.capacity, pool.desired, pool.max, pool.listed) for pool in setup.pools] == [
        ("steady", "gpu-nodes[0]", "on-demand", 1, 1, True),
        ("rest", "gpu-nodes[1]", "spot", 2, 3, True),
    ]
    assert [(pool.instance_types, pool.sharing.mode, pool.sharing_path) for pool in setup.pools] == [
        (["g6.xlarge"], "exclusive", "gpu-nodes[0].sharing"),
        (["g4dn.xlarge"], "timeslice", "sharing"),
    ]
    assert [(served.path, served.pool) for served in setup.models] == [("models[0]", "rest"), ("models[1]", "steady")]


def test_the_stack_needs_no_sharing_if_every_pool_has_its_own() -> None:
    own = [{"name": "a", "sharing": {"mode": "mps"}}, {"name": "b", "sharing": {"mode": "exclusive"}}]
    found = config(**{"sharing": None, "gpu-nodes": own, "models": [{"name": "qwen2.5:0.5b", "pool": "b"}]})
    assert [(pool.sharing.mode, pool.sharing_path) for pool in found.pools] == [
        ("mps", "gpu-nodes[0].sharing"),
        ("exclusive", "gpu-nodes[1].sharing"),
    ]
    assert found.pools[0].sharing.mode == "mps"
    assert config(**SEVERAL).pools[0].sharing.mode == "exclusive"


def test_models_need_not_name_the_only_pool_which_is_called_gpu_by_default() -> None:
    assert [served.pool for served in config().models] == ["gpu"]
    named = [{"name": "qwen2.5:0.5b", "pool": "gpu"}]
    assert [served.pool for served in config(models=named).models] == ["gpu"]
    alone = config(**{"gpu-nodes": [{"name": "one"}]})
    assert [served.pool for served in alone.models] == ["one"]


def test_pool_names_may_be_as_long_as_node_labels_and_role_names_allow() -> None:
    for name in ("a", "a-1", "a" * 20):
        assert config(**{"gpu-nodes": [{"name": name}]}).pools[0].name == name


def test_several_pools_are_the_same_from_a_file_and_from_pulumi() -> None:
    values = {"aws:region": "us-east-1"} | {
        f"tandem:{key}": json.dumps(value) for key, value in {**LEAST, **SEVERAL}.items()
    }
    assert under_pulumi(values).model_dump() == config(**SEVERAL).model_dump()


@pytest.mark.real_world(
    behaviour="EKS's rules contain the node's address for a peer with `hostNetwork`, and so admit that whole node.",
    source="aws/amazon-network-policy-controller-k8s v1.1.7 pkg/resolvers/endpoints.go, computeIngressEndpoints",
)
def test_clients_in_kube_system_or_beside_the_models_are_warnings() -> None:
    reading = judged(**{"models-clients": {"namespaces": ["chat", "kube-system", "ollama"]}})
    assert reading.problems == ()
    shown = [str(one) for one in reading.verdict.warnings if one.path.startswith("models-clients")]
    assert [line.split(":")[0] for line in shown] == ["models-clients.namespaces[1]", "models-clients.namespaces[2]"]
    assert "`hostNetwork`" in shown[0]
    assert "use the node's address" in shown[0]
    assert shown[1].endswith("Remove it.")


PARK = {"schedule": "0 20 * * MON-FRI", "wake": "0 8 * * MON-FRI"}


@pytest.mark.parametrize("provisioner", ["node-group", "karpenter"])
def test_the_schedule_owns_min_and_desired_and_a_running_pool_has_its_maximum(provisioner: str) -> None:
    [pool] = judged(**{"gpu-nodes": {"provisioner": provisioner, "max": 3}, "park": PARK}).config.pools
    assert (pool.min, pool.desired, pool.max) == (0, 3, 3)


def test_without_park_min_and_desired_keep_their_meaning() -> None:
    found = judged(**{"gpu-nodes": {"min": 1, "desired": 2, "max": 3}}).config
    [pool] = found.pools
    assert (pool.min, pool.desired, pool.max, found.nodes_of(pool)) == (1, 2, 3, 2)
    assert found.park is None
    [pool] = judged(**{"gpu-nodes": {"desired": 0, "max": 3}}).config.pools
    assert pool.desired == 0


def test_a_time_zone_is_utc_unless_the_file_names_another() -> None:
    found = [judged(park=each).config.park for each in (PARK, {**PARK, "timezone": "Asia/Kolkata"})]
    assert [park and park.timezone for park in found] == ["UTC", "Asia/Kolkata"]


def under_pulumi(values: dict[str, str], project: str = "tandem") -> StackConfig:
    """The config that `load_plan` reads if Pulumi passes these values to the program."""

    def read() -> StackConfig:
        pulumi.runtime.set_all_config(values)
        pulumi.runtime.settings.configure(pulumi.runtime.settings.Settings(project=project, stack="test"))
        return load_plan().config

    return contextvars.copy_context().run(read)


def as_pulumi_passes_it(file: Path) -> dict[str, str]:
    """The program's config as the engine writes it: objects as JSON, everything else as text."""
    written = yaml.safe_load(file.read_text(encoding="utf-8"))["config"]
    return {key: value if isinstance(value, str) else json.dumps(value) for key, value in written.items()}


@pytest.mark.parametrize("name", [path.name for path in FILES])
def test_the_config_is_the_same_from_pulumi_and_from_the_file(name: str) -> None:
    from_file = judge_file(ROOT / name, today=TODAY).plan().config
    assert under_pulumi(as_pulumi_passes_it(ROOT / name)).model_dump() == from_file.model_dump()


def test_errors_of_the_file_are_also_refused_under_pulumi() -> None:
    with pytest.raises(RefusedError) as refused:
        under_pulumi({"tandem:sharing": '{"mode": "mps", "replicas": 1}', "tandem:models": '[{"name": "llama2:7b"}]'})
    assert [problem.path for problem in refused.value.judged.problems] == ["aws:region", "sharing.replicas"]
    assert str(refused.value).startswith("error: Pulumi.test.yaml has 2 errors")
    assert str(refused.value).endswith("\nhint: memory, GPUs and cost are checked once these are fixed.")
    assert "hint: " not in refusal(models=named("qwen2.5:14b", "phi4:14b"))


def test_sections_are_the_keys_of_the_file() -> None:
    assert SECTIONS == (
        "sharing",
        "gpu-nodes",
        "models",
        "models-clients",
        "ui",
        "monitoring",
        "proof",
        "cluster",
        "park",
        "scale-to-zero",
        "tags",
        "budget",
    )


CI = "arn:aws:iam::111122223333:role/ci"


def test_provider_keys_are_read_from_the_file_and_from_pulumi(tmp_path: Path) -> None:
    least = {"tandem:sharing": {"mode": "timeslice"}, "tandem:models": [{"name": "llama3.2:1b"}]}
    written: dict[str, Any] = {
        "aws:region": "us-east-1",
        "aws:profile": "work",
        "aws:assumeRoles": [{"roleArn": CI, "sessionName": "up"}],
        "aws:allowedAccountIds": [111122223333, 12345, "000000000007"],
        "aws:defaultTags": {"tags": {"team": "ml"}},
        **least,
    }
    file = tmp_path / "Pulumi.work.yaml"
    file.write_text(yaml.safe_dump({"config": written}), encoding="utf-8")
    found = judge_file(file, today=TODAY).plan().config
    assert (found.profile, found.assume_roles[0].role_arn, found.assume_roles[0].session_name) == ("work", CI, "up")
    assert found.allowed_account_ids == ["111122223333", "000000012345", "000000000007"]
    assert found.default_tags.tags == {"team": "ml"}
    assert under_pulumi(as_pulumi_passes_it(file)).model_dump() == found.model_dump()


def test_unsupported_provider_keys_are_refused_under_pulumi_without_showing_values() -> None:
    values = {
        "aws:region": "us-east-1",
        "tandem:sharing": '{"mode": "timeslice"}',
        "tandem:models": '[{"name": "llama3.2:1b"}]',
    }
    with pytest.raises(RefusedError) as refused:
        under_pulumi({**values, "aws:secretKey": "hunter2", "aws:proifle": "work"})
    assert [problem.path for problem in refused.value.judged.problems] == ["aws:secretKey", "aws:proifle"]
    assert "hunter2" not in str(refused.value)


def test_every_provider_key_is_honoured_or_refused_with_a_reason() -> None:
    keys = [name for name in inspect.signature(aws.ProviderArgs.__init__).parameters if "self" not in name]
    known = {*HONOURED, *(f"aws:{key}" for key in REFUSED)}
    assert {f"aws:{to_camel(key)}" for key in keys} <= known


def test_the_message_about_every_provider_key(golden: Golden) -> None:
    keys = [*inspect.signature(aws.ProviderArgs.__init__).parameters, "asumeRole"]
    problems = refuse_keys(f"aws:{to_camel(key)}" for key in keys if "self" not in key)
    golden("provider-keys.txt", "".join(f"{problem}\n" for problem in problems))


def test_the_default_context_is_no_more_than_the_model_supports() -> None:
    """nomic-embed-text supports 2,048 tokens (`max_context` of its GGUF header)."""
    [served] = config(models=named("nomic-embed-text:latest")).models
    assert served.context == 2048

    def fixes(**more: int) -> list[str]:
        found = judged(models=[{"name": "nomic-embed-text:latest", **more}]).verdict.warnings
        return [one.fix for one in found if one.path == "models[0].context"]

    assert (fixes(), fixes(context=4096)) == ([], ["Write `context: 2048`."])
