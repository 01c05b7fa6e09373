"""The commands in the guides about `up`: our commands and those of AWS exist, with the options of the guides."""

import itertools
import json
import re
import shlex
import shutil
import tomllib
from collections.abc import Iterator
from pathlib import Path

import botocore.session
import pytest
import yaml
from botocore import xform_name

from components.mps_daemon import UNIT
from sandbox.preview.program import run
from sharing.sections.existing import ExistingCluster
from stacks.stack_file.judge import judge_file
from tandem.aws.quota import SPOT_ROLE_COMMAND
from tandem.main import parser
from tests import pages
from tests.shipped import STACKS
from tests.tandem.aws.emulated import LOADER

ROOT = Path(__file__).resolve().parent.parent
HOW_TO = ROOT / "docs" / "how-to"
OF_THE_AWS_CLI = {
    # Its output goes to another program.
    ("ecr", "get-login-password"): {"region", "password-stdin"},
    ("eks", "update-kubeconfig"): {"region", "name"},
    ("eks", "wait"): {"region", "cluster-name", "nodegroup-name"},
    ("sso", "login"): {"profile"},
}
"""Commands that the AWS CLI adds to the API's (awscli/customizations), with their options."""
GLOBAL = {"region", "query", "profile", "output"}
OTHERS = {
    "pulumi": {
        *("up", "destroy", "refresh", "cancel", "import", "stack", "login", "config"),
        *("install", "preview", "policy", "package"),
    },
    "helm": {"list", "history", "rollback", "uninstall", "registry"},
    "kubectl": {"apply", "delete", "describe", "exec", "get", "logs", "port-forward", "rollout"},
    "crane": {"auth"},
    "docker": {"logout"},
    "git": {"diff", "pull"},
    "ollama": {"list", "run"},
    "sh": {"-c"},
    "sudo": {"journalctl", "systemctl"},
}
"""Subcommands of programs that these tests cannot run. The engine tier runs the real `pulumi`, with flags."""
REGISTRY = "use-a-private-registry.md"
SIZES = "share-a-gpu-by-size.md"
RECORDED = """
import json

found = {}


class Recorded(Mocks):
    def new_resource(self, args):
        if environment := args.inputs.get("values", {}).get("extraEnv"):
            found[args.inputs["name"]] = {one["name"]: one["value"] for one in environment}
        return super().new_resource(args)


pulumi.runtime.set_mocks(Recorded(), project="mine", stack="test")

import infra


@pulumi.runtime.test
def models_are_registered():
    return infra.models.urls


models_are_registered()
print(json.dumps(found))
"""
"""Ends the mocks of the tutorial: prints the variables of each model."""


OF_THE_SHELL = {"for", "do", "done", "cd", "mkdir"}
NO_GUIDES = {"run-the-cluster-tier.md", "work-on-the-documentation.md", "use-from-typescript-or-yaml.md"}
"""Pages for contributors, and one that the engine tier runs."""
DELETES = (
    ("pulumi", "destroy"),
    ("kubectl", "delete"),
    ("helm", "uninstall"),
    ("helm", "rollback"),
    ("tandem", "leftovers", "--delete"),
)


def blocks(guide: str) -> list[list[list[str]]]:
    """The commands of each code block, as words."""
    shown = [block for block in pages.blocks(HOW_TO / guide) if block.head in ("", "console")]
    return [[words for line in pages.lines(block) for words in one_by_one(line)] for block in shown]


def one_by_one(line: str) -> Iterator[list[str]]:
    """The commands of a line, without the shell's own words."""
    for is_between, words in itertools.groupby(shlex.split(line, comments=True), key=("&&", "|").__contains__):
        found = list(words)
        if not is_between and found[0] not in OF_THE_SHELL:
            yield found


def commands(guide: str) -> list[list[str]]:
    return [words for block in blocks(guide) for words in block]


GUIDES = tuple(
    path.name for path in sorted(HOW_TO.glob("*.md")) if any(blocks(path.name)) and path.name not in NO_GUIDES
)


@pytest.mark.parametrize("guide", GUIDES)
def test_a_command_that_deletes_is_alone_in_its_block(guide: str) -> None:
    """Readers copy whole blocks."""
    for block in blocks(guide):
        assert len(block) == 1 or not any(deletes(words) for words in block), block


def deletes(words: list[str]) -> bool:
    """Whether a command deletes without a change: one with a placeholder (`URN`) fails before it deletes."""
    return any(set(kind) <= set(words) for kind in DELETES) and not any(map(str.isupper, words))


@pytest.mark.parametrize("guide", GUIDES)
def test_every_command_of_a_guide_exists(guide: str) -> None:
    assert commands(guide)
    for words in commands(guide):
        assert_exists(*words)


def assert_exists(program: str, *given: str) -> None:
    """A command of ours or of AWS must have the options; of other programs, the subcommand is known."""
    arguments = list(given)
    match Path(program).name:
        case "tandem":
            parser(arguments[0]).parse_args(arguments)
        case "eval":
            [inner] = re.findall(r"^\$\((.+)\)$", arguments[0])
            assert_exists(*shlex.split(inner))
        case "pip":
            extras = set(re.findall(r"[a-z]+", arguments[-1]))
            assert extras <= set(
                tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
            )
        case "curl":
            assert any(re.match(r"https://|http://127\.0\.0\.1:|localhost:|\$OLLAMA_HOST/", word) for word in arguments)
        case "python":
            assert arguments[-1].endswith(".py") or arguments[:2] == ["-m", "pytest"]
        case "aws":
            assert_aws(arguments)
        case other:
            words = [word for word in arguments if not word.startswith("--")]
            assert set(words) & OTHERS[other], arguments


def assert_aws(arguments: list[str]) -> None:
    service, operation, *rest = arguments
    options = {word.removeprefix("--") for word in rest if word.startswith("--")}
    if known := OF_THE_AWS_CLI.get((service, operation)):
        assert options <= known, arguments
        return
    session = botocore.session.Session()
    session.register_component("data_loader", LOADER)
    model = session.get_service_model(service)
    named = {xform_name(name, "-"): name for name in model.operation_names}
    assert operation in named, arguments
    shape = model.operation_model(named[operation]).input_shape
    members = {xform_name(name, "-") for name in shape.members} if shape else set[str]()
    assert options <= members | GLOBAL, arguments


def test_the_guide_has_the_command_for_the_role_of_spot_that_the_doctor_prints() -> None:
    assert SPOT_ROLE_COMMAND.split() in commands("before-your-first-up.md")


@pytest.mark.slow
@pytest.mark.parametrize("stack", STACKS)
def test_the_guides_test_of_a_stack_passes_for_every_stack(stack: str, tmp_path: Path) -> None:
    """In a process of its own: with a resource as an input, mocks hang in most of them."""
    shutil.copy(ROOT / f"Pulumi.{stack}.yaml", tmp_path)
    test, command = pages.blocks(HOW_TO / "test-a-stack.md")
    assert test.head == 'python title="test_stack.py"'
    text = test.text.replace('STACK = "timeslice"', f'STACK = "{stack}"')
    (tmp_path / "test_stack.py").write_text(text, encoding="utf-8")
    assert "2 passed" in command.run(tmp_path, pages.environment()).stdout


def test_the_limits_of_the_guide_fit_its_models(tmp_path: Path) -> None:
    text = (ROOT / "Pulumi.per-model.yaml").read_text(encoding="utf-8")
    [models] = re.findall(
        r"```yaml\n(  tandem:models:\n.*?)```", (HOW_TO / SIZES).read_text(encoding="utf-8"), re.DOTALL
    )
    file = tmp_path / "Pulumi.sized.yaml"
    file.write_text(re.sub(r"  tandem:models:\n(    - .*\n)+", models, text), encoding="utf-8")
    fits = judge_file(file).plan().verdict.fits
    # 10.5 and 3.6 GiB of 1,024 MiB
    assert [(fit.placement.share_mib, fit.placement.shares.threads) for fit in fits] == [(10752, 0.6), (3686, 1.0)]


def test_the_program_of_the_guide_takes_its_models_from_the_registry() -> None:
    [program] = [block.text for block in pages.blocks(HOW_TO / REGISTRY) if block.head == "python"]
    graph = run(lambda: exec(program, {}), project="p", stack="s")
    charts = {release.inputs["chart"] for release in graph.of_type("kubernetes:helm.sh/v3:Release")}
    assert charts == {"oci://registry.example.com/tandem/charts/ollama"}


def test_the_key_of_the_guide_is_right(tmp_path: Path) -> None:
    [key] = [block.text for block in pages.blocks(HOW_TO / REGISTRY) if block.head == "yaml"]
    file = tmp_path / "Pulumi.mirrored.yaml"
    file.write_text((ROOT / "Pulumi.timeslice.yaml").read_text(encoding="utf-8") + key, encoding="utf-8")
    assert judge_file(file).plan().config.registry == "registry.example.com/tandem"


def test_the_guide_names_the_unit_of_the_daemon() -> None:
    text = (HOW_TO / SIZES).read_text(encoding="utf-8")
    assert f"`{UNIT}`" in text
    assert [words[-1] for words in commands(SIZES) if words[0] == "sudo"] == [UNIT.removesuffix(".service")] * 2


@pytest.mark.slow
def test_the_program_of_the_guide_gives_each_model_its_limit(tmp_path: Path) -> None:
    """The form of the limit: amazon-ecs-agent#5082, which sets the same variables."""
    [program] = [block.text for block in pages.blocks(HOW_TO / SIZES) if block.head == 'python title="mine/infra.py"']
    [test] = [block.text for block in pages.blocks(pages.TUTORIALS / "own-program.md") if "test_infra.py" in block.head]
    (tmp_path / "infra.py").write_text(program, encoding="utf-8")
    (tmp_path / "program.py").write_text(test.partition("pulumi.runtime.set_mocks")[0] + RECORDED, encoding="utf-8")
    printed = pages.Block("", "python program.py", None).run(tmp_path, pages.environment()).stdout
    found = {
        name: {key: env[key] for key in env if key.startswith("CUDA_MPS")} for name, env in json.loads(printed).items()
    }
    pipe = {"CUDA_MPS_PIPE_DIRECTORY": "/run/tandem-mps"}
    assert found == {
        "qwen3-14b": {
            **pipe,
            "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT": "0=10752M",
            "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": "60",
        },
        "llama3-2-3b": {**pipe, "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT": "0=3686M"},
    }


def mocks() -> str:
    """What a program needs in front of it to run without Pulumi's engine."""
    [tutorial] = [block for block in pages.blocks(pages.TUTORIALS / "own-program.md") if "test_infra.py" in block.head]
    return tutorial.text.partition("import infra")[0]


@pytest.mark.slow
def test_the_program_in_a_cluster_that_exists_runs(tmp_path: Path) -> None:
    [program] = [one.text for one in pages.blocks(HOW_TO / "use-your-cluster.md") if one.head.startswith("python")]
    [stack] = [one.text for one in pages.blocks(HOW_TO / "use-your-cluster.md") if one.head == "yaml"]
    assert ExistingCluster.model_fields.keys() == {
        key.replace("-", "_") for key in yaml.safe_load(stack)["tandem:cluster"]["existing"]
    }
    (tmp_path / "infra.py").write_text(mocks() + program, encoding="utf-8")
    pages.Block("", "python infra.py", None).run(tmp_path, pages.environment())


@pytest.mark.slow
def test_the_program_and_the_test_of_the_guide_run_and_its_errors_are_those_on_the_page(tmp_path: Path) -> None:
    program, too_large, test, command, wrong_name = pages.blocks(HOW_TO / "check-your-own-program.md")
    (tmp_path / "test_models.py").write_text(test.text, encoding="utf-8")
    assert "2 passed" in command.run(tmp_path, pages.environment()).stdout
    large = program.text.replace('"llama2:7b", "context": 2048', '"llama3.3:70b"')
    misspelt = program.text.replace('"mistral:7b", "context"', '"mistral:7b", "contxt"')
    for text, said in ((program.text, ""), (large, too_large.text), (misspelt, wrong_name.text)):
        (tmp_path / "infra.py").write_text(mocks() + text, encoding="utf-8")
        code = f"# exit code {1 if said else 0}"
        shown = pages.Block("", f"set -o pipefail\npython infra.py 2>&1 | tail -n 1 {code}", None)
        assert shown.run(tmp_path, pages.environment()).stdout == said
