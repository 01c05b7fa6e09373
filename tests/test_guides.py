"""The commands in the guides about `up`: our commands and those of AWS exist, with the options of the guides."""

import re
import shlex
import shutil
import tomllib
from pathlib import Path

import botocore.session
import pytest
from botocore import xform_name

from tandem.aws.quota import SPOT_ROLE_COMMAND
from tandem.main import parser
from tests import pages
from tests.shipped import STACKS
from tests.tandem.aws.emulated import LOADER

ROOT = Path(__file__).resolve().parent.parent
HOW_TO = ROOT / "docs" / "how-to"
GUIDES = (
    "before-your-first-up.md",
    "connect-to-the-models.md",
    "delete-what-is-left.md",
    "repair-a-stack.md",
    "troubleshoot.md",
    "upgrade.md",
    "use-a-model-of-your-own.md",
    "use-the-sandbox.md",
)
OF_THE_AWS_CLI = {
    ("eks", "update-kubeconfig"): {"region", "name"},
    ("eks", "wait"): {"region", "cluster-name", "nodegroup-name"},
    ("sso", "login"): {"profile"},
}
"""Commands that the AWS CLI adds to the API's (awscli/customizations), with their options."""
GLOBAL = {"region", "query", "profile", "output"}
OTHERS = {
    "pulumi": {"up", "destroy", "refresh", "cancel", "import", "stack", "login", "config"},
    "helm": {"list", "history", "rollback", "uninstall", "registry"},
    "kubectl": {"delete", "describe", "get", "port-forward"},
    "docker": {"logout"},
    "git": {"pull"},
    "curl": {"https://checkip.amazonaws.com", "localhost:11434/api/generate"},
}
"""Subcommands of programs that these tests cannot run. The engine tier runs the real `pulumi`, with flags."""


DELETES = (
    ("pulumi", "destroy"),
    ("kubectl", "delete"),
    ("helm", "uninstall"),
    ("helm", "rollback"),
    ("tandem", "leftovers", "--delete"),
)


def blocks(guide: str) -> list[list[list[str]]]:
    """The commands of each code block, as words."""
    text = (HOW_TO / guide).read_text(encoding="utf-8").replace("\\\n", "")
    found = re.findall(r"^```(\w*)\n(.*?)^```$", text, flags=re.MULTILINE | re.DOTALL)
    plain = [block for language, block in found if not language]
    return [[words for line in block.splitlines() if (words := shlex.split(line, comments=True))] for block in plain]


def commands(guide: str) -> list[list[str]]:
    return [words for block in blocks(guide) for words in block]


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
        case "python":
            extras = set(re.findall(r"[a-z]+", arguments[-1]))
            assert extras <= set(
                tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
            )
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
