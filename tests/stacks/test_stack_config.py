"""The meaning of a stack file: ids, own models, several pools, and the same config from a file and from Pulumi."""

import contextvars
import datetime
import inspect
import json
import re
from pathlib import Path
from typing import Any

import pulumi
import pulumi_aws as aws
import pytest
import yaml
from pydantic.alias_generators import to_camel

from sharing.fit.memory import need
from sharing.hardware.gpus import gpus
from sharing.sections.config import StackConfig
from stacks.program import load_plan
from stacks.stack_file.form_errors import UNSUPPORTED, fields
from stacks.stack_file.judge import Judged, RefusedError, judge, judge_file
from stacks.stack_file.provider_keys import HONOURED, REFUSED, refuse_keys
from stacks.stack_file.yaml import Source
from tests import several_pools
from tests.conftest import Golden
from tests.descriptions import OWN_FILE, write_description
from tests.shipped import FILES

ROOT = Path(__file__).parents[2]
TODAY = datetime.date(2026, 11, 21)
LEAST: dict[str, Any] = {"sharing": {"mode": "timeslice"}, "models": [{"name": "qwen2.5:0.5b"}]}
ARABIC_ONE = "\u0661"
OWN = {"name": "mine", "gguf": OWN_FILE}


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


@pytest.mark.parametrize("name", ["dev", "exclusive", "karpenter", "mig", "mig-mixed", "mps", "per-model", "timeslice"])
def test_the_limits_of_a_shipped_stack_are_a_little_above_its_price(name: str) -> None:
    """15 to 25 %, or enough for the two nodes of `exclusive`; new prices may use up part of it."""
    found = judge_file(ROOT / f"Pulumi.{name}.yaml", today=TODAY)
    room_for = "exclusive" if name in ("karpenter", "mps", "per-model", "timeslice") else name
    whole = judge_file(ROOT / f"Pulumi.{room_for}.yaml", today=TODAY).verdict.cost
    assert whole is not None
    assert [one for one in (*found.problems, *found.verdict.warnings) if one.path.startswith("budget")] == []
    assert 0 < (found.config.budget.max_usd_per_hour or 0) < 1.35 * whole.replacing_usd_per_hour
    assert 0 < (found.config.budget.max_usd_per_month or 0) < 1.35 * whole.usd_per_month


@pytest.mark.parametrize("name", ["karpenter", "mps", "per-model", "timeslice"])
def test_the_limits_that_a_file_names_for_one_node_are_enough(name: str, tmp_path: Path) -> None:
    text = (ROOT / f"Pulumi.{name}.yaml").read_text(encoding="utf-8")
    [(hour, month)] = re.findall(r"# Room for (?s:.*?) (\d\.\d\d) and (\d+)", text)
    limits = f"  tandem:budget: {{max-usd-per-hour: {hour}, max-usd-per-month: {month}}}"
    file = tmp_path / f"Pulumi.{name}.yaml"
    file.write_text(re.sub(r"(?m)^  tandem:budget: .*", limits, text))
    assert judge_file(file, today=TODAY).problems == ()


def test_an_empty_section_has_its_defaults() -> None:
    assert config(cluster=None, budget={}, **{"gpu-nodes": None}) == config()


def test_the_defaults_are_allowed_values() -> None:
    defaults = {"cluster": config().cluster, "budget": config().budget}
    written = {key: section.model_dump(by_alias=True) for key, section in defaults.items()}
    assert config(**written) == config()


def test_every_key_of_the_file_is_described() -> None:
    assert [path for path, field in fields().items() if not field.description] == []


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


def test_an_own_model_with_windows_and_shared_heads_needs_as_much_as_its_engine_used(tmp_path: Path) -> None:
    """gemma4:12b at 65536 tokens in four slots: 4096 MiB in 8 full layers, 3840 in 40 windowed ones (public log).

    With only the four required numbers it needed 108,079 MiB, and the advice was a p5e.48xlarge.
    """
    windows = {"swa_layers": 40, "swa_window": 1024, "swa_kv_heads": 8, "swa_head_dim": 256}
    numbers = {"weights_bytes": 7_623_566_950, "layers": 48, "heads": 16, "kv_heads": 1, "head_dim": 512}
    file = tmp_path / write_description(tmp_path, **numbers, **windows, vocabulary=262144)
    gemma = {"name": "gemma4-own", "gguf": str(file), "context": 65536, "slots": 4}
    on_an_l4 = {"gpu-nodes": {"instance-types": ["g6.xlarge"]}}
    [served] = config(models=[gemma], **on_an_l4).models
    assert need(served, gpus()["l4"]).kv == 4096 + 3840
    write_description(tmp_path, **numbers, vocabulary=262144)
    with pytest.raises(RefusedError, match="cannot fit one GPU"):
        config(models=[gemma], **on_an_l4)


def test_a_description_wins_over_the_catalogue() -> None:
    model = config(models=[{**OWN, "name": "llama2:7b"}]).models[0].model
    assert (model.name, model.kv_heads, model.max_context) == ("llama2:7b", 8, 0)


def test_a_description_is_relative_to_the_stack_file(tmp_path: Path) -> None:
    file = tmp_path / "Pulumi.x.yaml"
    models = [{"name": "mine", "gguf": write_description(tmp_path, layers=7)}]
    file.write_text(yaml.safe_dump({"config": {"aws:region": "us-east-1", "tandem:models": models}}))
    unfinished = judge_file(file)
    assert [problem.path for problem in unfinished.problems] == ["sharing"]
    with pytest.raises(RefusedError, match="sharing: is missing"):
        assert unfinished.config
    text = file.read_text().replace("config:", "config:\n  tandem:sharing: {mode: exclusive}")
    file.write_text(text)
    assert judge_file(file, today=TODAY).config.models[0].model.layers == 7


def test_a_model_with_less_context_than_the_default_has_its_maximum(tmp_path: Path) -> None:
    file = str(tmp_path / write_description(tmp_path, max_context=2048))
    given = config(models=[{"name": "mine", "gguf": file}, {"name": "mine", "gguf": file, "context": 1024}])
    assert [served.context for served in given.models] == [2048, 1024]


@pytest.mark.parametrize("written", ["1.5", "1", "12.75"])
def test_a_budget_may_be_text_as_pulumi_config_set_writes_it(written: str) -> None:
    assert config(budget={"max-usd-per-hour": written}).budget.max_usd_per_hour == float(written)


def test_a_whole_section_may_be_text_as_pulumi_config_set_writes_it(tmp_path: Path) -> None:
    """`pulumi config set tandem:proof false`, without `--path` (pulumi 3.260, sdk/go/common/resource/config)."""
    written = {f"tandem:{key}": json.dumps(value) for key, value in {**LEAST, "proof": False}.items()}
    file = tmp_path / "Pulumi.x.yaml"
    file.write_text(yaml.safe_dump({"config": {"aws:region": "us-east-1", **written}}))
    assert judge_file(file).plan().config.proof is False


@pytest.mark.parametrize(
    "written", ["", " 0.5", "0.5 ", "1e3", "0,5", "-1", "+1", "inf", "nan", "0x1", "1" * 7, ARABIC_ONE]
)
def test_no_other_text_is_a_budget(written: str) -> None:
    assert "budget.max-usd-per-hour: must be a number" in refusal(budget={"max-usd-per-hour": written})


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


def test_zone_names_determine_the_number_of_zones() -> None:
    setup = config(cluster={"zone-names": ["us-east-1d", "us-east-1a", "us-east-1f"]})
    assert (setup.cluster.zone_count, setup.cluster.zone_names) == (3, ["us-east-1d", "us-east-1a", "us-east-1f"])


LONGEST = "a" * 20
"""As long a name of a pool as labels of nodes and names of roles allow."""


def test_each_of_several_pools_has_its_own_nodes_and_its_own_or_the_stacks_sharing() -> None:
    own = {"instance-types": ["g6.xlarge"], "capacity": "on-demand", "sharing": {"mode": "exclusive"}}
    pools = [{"name": LONGEST, **own}, {"name": "rest", "min": 2, "desired": 2, "max": 3}]
    setup = config(**{"gpu-nodes": pools, "models": [{"name": "llama2:7b", "pool": "rest"}]})
    assert [(pool.name, pool.capacity, pool.desired, pool.max, pool.instance_types) for pool in setup.pools] == [
        (LONGEST, "on-demand", 1, 1, ["g6.xlarge"]),
        ("rest", "spot", 2, 3, ["g4dn.xlarge"]),
    ]
    assert [(pool.path, pool.sharing.mode, pool.sharing_path) for pool in setup.pools] == [
        ("gpu-nodes[0]", "exclusive", "gpu-nodes[0].sharing"),
        ("gpu-nodes[1]", "timeslice", "sharing"),
    ]
    assert [served.pool for served in setup.models] == ["rest"]


def test_the_stack_needs_no_sharing_if_every_pool_has_its_own() -> None:
    own = [{"name": "a", "sharing": {"mode": "mps"}}, {"name": "b", "sharing": {"mode": "exclusive"}}]
    found = config(**{"sharing": None, "gpu-nodes": own, "models": [{"name": "qwen2.5:0.5b", "pool": "b"}]})
    assert [pool.sharing.mode for pool in found.pools] == ["mps", "exclusive"]


def test_models_need_not_name_the_only_pool_which_is_called_gpu_by_default() -> None:
    assert [served.pool for served in config().models] == ["gpu"]
    assert [served.pool for served in config(models=[{"name": "qwen2.5:0.5b", "pool": "gpu"}]).models] == ["gpu"]
    assert [served.pool for served in config(**{"gpu-nodes": [{"name": "one"}]}).models] == ["one"]


@pytest.mark.real_world(
    behaviour="EKS's rules contain the node's address for a peer with `hostNetwork`, and so admit that whole node.",
    source="aws/amazon-network-policy-controller-k8s v1.1.7 pkg/resolvers/endpoints.go, computeIngressEndpoints",
)
def test_clients_in_kube_system_or_beside_the_models_are_warnings() -> None:
    reading = judged(**{"models-clients": {"namespaces": ["chat", "kube-system", "ollama"]}})
    assert reading.problems == ()
    host, own = (str(one) for one in reading.verdict.warnings if one.path.startswith("models-clients"))
    assert host.startswith("models-clients.namespaces[1]: ")
    assert "`hostNetwork` on every node; these use the node's address" in host
    assert own.startswith("models-clients.namespaces[2]: ")
    assert own.endswith("Remove it.")


def test_what_nobody_can_judge_and_many_tags_stop_no_stack() -> None:
    tags = {f"key-{number}": "v" for number in range(40)}
    sections: dict[str, Any] = {**LEAST, "tags": tags, "gpu-nodes": {"check-offers": False}}

    def paths(*, strict: bool, **more: Any) -> tuple[set[str], set[str]]:
        source = Source({**sections, **more}, {"aws:region": "us-east-9"})
        found = judge(source, "Pulumi.test.yaml", today=TODAY, strict=strict)
        return {each.path for each in found.problems}, {each.path for each in found.warnings}

    errors, warnings = paths(strict=False)
    assert (errors, {"aws:region", "tags"} <= warnings) == (set(), True)
    errors, warnings = paths(strict=True, sharing={"mode": "mps", "limits": "equal", "replicas": 48})
    assert (errors, {"aws:region", "tags"} & warnings) == ({"aws:region", "models[0]"}, {"tags"})


@pytest.mark.parametrize("provisioner", ["node-group", "karpenter"])
def test_the_schedule_owns_min_and_desired_and_a_running_pool_has_its_maximum(provisioner: str) -> None:
    park = {"schedule": "0 20 * * MON-FRI", "wake": "0 8 * * MON-FRI"}
    [pool] = judged(**{"gpu-nodes": {"provisioner": provisioner, "max": 3}, "park": park}).config.pools
    assert (pool.min, pool.desired, pool.max) == (0, 3, 3)


def under_pulumi(values: dict[str, str]) -> StackConfig:
    """The config that `load_plan` reads if Pulumi passes these values to the program."""

    def read() -> StackConfig:
        pulumi.runtime.set_all_config(values)
        pulumi.runtime.settings.configure(pulumi.runtime.settings.Settings(project="tandem", stack="test"))
        return load_plan().config

    return contextvars.copy_context().run(read)


def test_under_the_sandbox_a_description_is_relative_to_the_users_stack_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    models = [{"name": "mine", "gguf": write_description(tmp_path, layers=7)}]
    values = {"tandem:sharing": json.dumps({"mode": "timeslice"}), "tandem:models": json.dumps(models)}
    with pytest.raises(RefusedError, match=r"own\.json cannot be read"):
        under_pulumi({"aws:region": "us-east-1", **values})
    monkeypatch.setenv("TANDEM_STACK_FOLDER", str(tmp_path))
    assert under_pulumi({"aws:region": "us-east-1", **values}).models[0].model.layers == 7


@pytest.mark.parametrize("text", [*(path.read_text(encoding="utf-8") for path in FILES), several_pools.stack_file()])
def test_the_config_is_the_same_from_pulumi_and_from_the_file(text: str, tmp_path: Path) -> None:
    file = tmp_path / "Pulumi.x.yaml"
    file.write_text(text, encoding="utf-8")
    assert under_pulumi(as_pulumi_passes_it(text)).model_dump() == judge_file(file).plan().config.model_dump()


def as_pulumi_passes_it(text: str) -> dict[str, str]:
    """The program's config as the engine writes it: objects as JSON, everything else as text."""
    written = yaml.safe_load(text)["config"]
    return {key: value if isinstance(value, str) else json.dumps(value) for key, value in written.items()}


def test_errors_of_the_file_are_also_refused_under_pulumi() -> None:
    with pytest.raises(RefusedError) as refused:
        under_pulumi({"tandem:sharing": '{"mode": "mps", "replicas": 1}', "tandem:models": '[{"name": "llama2:7b"}]'})
    assert [problem.path for problem in refused.value.judged.problems] == ["aws:region", "sharing.replicas"]
    assert str(refused.value).startswith("error: Pulumi.test.yaml has 2 errors")
    assert str(refused.value).endswith("\nhint: memory, GPUs and cost are checked once these are fixed.")
    assert "hint: " not in refusal(models=named("qwen2.5:14b", "phi4:14b"))


CI = "arn:aws:iam::111122223333:role/ci"


def test_provider_keys_are_read_from_the_file_and_from_pulumi(tmp_path: Path) -> None:
    written: dict[str, Any] = {
        "aws:region": "us-east-1",
        "aws:profile": "work",
        "aws:assumeRoles": [{"roleArn": CI, "sessionName": "up"}],
        "aws:allowedAccountIds": [111122223333, 12345, "000000000007"],
        "aws:defaultTags": {"tags": {"team": "ml"}},
        **{f"tandem:{key}": value for key, value in LEAST.items()},
    }
    file = tmp_path / "Pulumi.work.yaml"
    file.write_text(yaml.safe_dump({"config": written}), encoding="utf-8")
    found = judge_file(file).plan().config
    assert (found.profile, found.assume_roles[0].role_arn, found.assume_roles[0].session_name) == ("work", CI, "up")
    assert found.allowed_account_ids == ["111122223333", "000000012345", "000000000007"]
    assert found.merged_tags() == {"team": "ml"}
    assert under_pulumi(as_pulumi_passes_it(file.read_text())).model_dump() == found.model_dump()


def test_unsupported_provider_keys_are_refused_under_pulumi_without_showing_values() -> None:
    values = {f"tandem:{key}": json.dumps(value) for key, value in LEAST.items()}
    with pytest.raises(RefusedError) as refused:
        under_pulumi({**values, "aws:region": "us-east-1", "aws:secretKey": "hunter2", "aws:proifle": "work"})
    assert [problem.path for problem in refused.value.judged.problems] == ["aws:secretKey", "aws:proifle"]
    assert "hunter2" not in str(refused.value)


def test_every_provider_key_is_honoured_or_refused_with_a_reason(golden: Golden) -> None:
    parameters = [name for name in inspect.signature(aws.ProviderArgs.__init__).parameters if "self" not in name]
    keys = [f"aws:{to_camel(name)}" for name in parameters]
    assert {*keys} <= {*HONOURED, *(f"aws:{key}" for key in REFUSED)}
    of_a_role = inspect.signature(aws.ProviderAssumeRoleArgs.__init__).parameters
    in_a_role = {f"aws:assumeRoles[].{to_camel(name)}" for name in of_a_role if "self" not in name}
    assert in_a_role <= {*fields(), *UNSUPPORTED}
    golden("provider-keys.txt", "".join(f"{problem}\n" for problem in refuse_keys([*keys, "aws:asumeRole"])))


def test_the_default_context_is_no_more_than_the_model_supports() -> None:
    """nomic-embed-text supports 2,048 tokens (`max_context` of its GGUF header)."""
    [served] = config(models=named("nomic-embed-text:latest")).models
    assert served.context == 2048

    def fixes(**more: int) -> list[str]:
        found = judged(models=[{"name": "nomic-embed-text:latest", **more}]).verdict.warnings
        return [one.fix for one in found if one.path == "models[0].context"]

    assert (fixes(), fixes(context=4096)) == ([], ["Write `context: 2048`."])
