"""What every command prints before it starts: its help, and whether it is a copy."""

import argparse
import re
import subprocess
import sys
import tomllib
from functools import cache
from pathlib import Path

import pytest

from tandem.arguments import Parser, all_parsers
from tandem.installation import OPTIONAL
from tandem.main import COMMANDS, parser
from tests.command import ROOT, Ended, call

# One process for all, because its imports are slow.
PROGRAM = """
import sys
sys.modules.update(dict.fromkeys({packages!r}))
from tandem.main import main
for command in {commands!r}:
    try:
        main([command, "--help"])
    except SystemExit as ended:
        print(command, ended.code)
"""


@pytest.mark.slow
def test_help_of_every_command_needs_no_extra() -> None:
    program = PROGRAM.format(packages=OPTIONAL, commands=[*COMMANDS])
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert [command for command in COMMANDS if f"\n{command} 0\n" not in done.stdout] == []
    assert done.stdout.count("usage: tandem ") == len(COMMANDS)


@cache
def parsers() -> dict[str, Parser]:
    """All parsers of `tandem` and its verbs, by the typed words."""
    found = [each for name in COMMANDS for each in all_parsers(parser(name))]
    return {each.prog: each for each in (parser(), *found)}


def test_every_command_and_verb_has_a_parser() -> None:
    assert {"tandem", "tandem plan", "tandem models inspect", "tandem sandbox delete"} <= parsers().keys()


def test_help_of_every_parser_fits_the_terminal_and_names_the_exit_codes() -> None:
    for name in parsers():
        ended = call(*name.split()[1:], "--help", columns=80)
        assert (ended.returncode, ended.stderr, ended.stdout.isascii()) == (0, "", True), name
        assert max(map(len, ended.stdout.splitlines())) <= 80, name
        assert not re.search(r"\w-$", ended.stdout, flags=re.MULTILINE), name  # such as `us-` and `east-1`
        assert ended.stdout.startswith(f"usage: {name}")
        if name not in ("tandem", "tandem sandbox"):
            codes = ended.stdout.partition("\nexit codes:\n")[2]
            assert re.findall(r"^  (\d+) +\w", codes, flags=re.MULTILINE)[-2:] == ["2", "130"], name


@pytest.mark.parametrize(
    ("words", "sections"),
    [
        ((), ["options", "Plan", "Use", "Operate", "Measure", "Try", "Shell"]),
        (("models",), ["options", "commands", "exit codes"]),
        (("modes",), ["arguments", "options", "exit codes"]),
    ],
)
def test_help_has_a_section_for_each_kind_of_word(words: tuple[str, ...], sections: list[str]) -> None:
    shown = call(*words, "--help").stdout
    assert re.findall(r"^(\w[\w ]*):$", shown, flags=re.MULTILINE) == sections


@pytest.mark.parametrize("command", ["verify", "watch"])
def test_help_says_when_a_model_outside_mps_is_reported(command: str) -> None:
    shown = " ".join(call(command, "--help").stdout.split())
    assert "Under MPS with equal limits, report each model that runs outside it. With limits per model," in shown
    assert "is only not ready." in shown


def test_every_option_has_a_help_in_words() -> None:
    for name, each in parsers().items():
        for action in each._actions:
            if not isinstance(action, argparse._SubParsersAction):
                assert len((action.help or "").split()) > 1, (name, action.dest)


NUMBERS = ("N", "N,N", "R,R", "T", "MS", "SECONDS", "USD", "PORT")
"""What the help calls the value of an option that takes numbers."""
LATER = ("region", "slots", "context")
"""Options whose default a command adds later, because it depends on whether the user gave one."""


def test_the_default_of_every_option_is_that_of_its_help_and_words_are_no_numbers() -> None:
    for name, each in parsers().items():
        formatter = each._get_formatter()
        for action in (one for one in each._actions if not isinstance(one, argparse._SubParsersAction)):
            what, default, shown = (name, action.dest), action.default, formatter._expand_help(action)
            [said] = re.findall(r"\(default: ([^)]+)\)", shown) or [""]
            if default == []:
                assert not said or said.startswith("no "), what
            elif said and default is not None:
                values = default if isinstance(default, list) else [default]
                words = ",".join(f"{value:g}" if isinstance(value, float) else str(value) for value in values)
                assert said.strip("'").startswith(words.strip("'")), what
            elif action.nargs != "?":
                assert action.dest in LATER or not re.fullmatch(r"[\d.,]+", said), what
            if action.metavar in NUMBERS and name != "tandem init":  # which asks for a number until it is one
                assert callable(action.type), what
                with pytest.raises(argparse.ArgumentTypeError):
                    action.type("x")


def test_help_is_shown_without_arguments_by_its_option_and_by_its_command() -> None:
    shown = call()
    assert shown.stdout.startswith("usage: tandem COMMAND [OPTIONS]\n\nRun two LLMs on one affordable GPU")
    assert [call(*given) for given in (("--help",), ("-h",), ("help",), ("help", "help"))] == [shown] * 4
    for words in ("plan", "models inspect", "sandbox", "sandbox up"):
        asked = call("help", *words.split())
        assert asked == call(*words.split(), "--help")
        assert (asked.returncode, asked.stdout.startswith(f"usage: tandem {words} ")) == (0, True)
    assert call("sandbox") == call("sandbox", "--help")


def test_help_groups_the_commands() -> None:
    shown = call(columns=80).stdout
    groups = re.split(r"^([A-Z]\w+):\n", shown, flags=re.MULTILINE)[1:]
    named = {
        title: re.findall(r"^  (\w+) ", body, re.MULTILINE)
        for title, body in zip(groups[::2], groups[1::2], strict=True)
    }
    assert [*named] == ["Plan", "Use", "Operate", "Measure", "Try", "Shell"]
    assert named["Use"] == ["run", "env", "open", "chat"]
    assert named["Operate"] == ["verify", "park", "wake", "watch", "metrics", "leftovers"]
    assert named["Measure"] == ["bench", "report"]
    assert {name for names in named.values() for name in names} == COMMANDS.keys()


def test_the_version_is_that_of_the_project() -> None:
    """Even in a checkout with outdated installed metadata."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    for option in ("--version", "-V"):
        for more in ((), ("plan",)):
            assert call(option, *more) == Ended(0, f"tandem {project['version']}\n", "")


def test_a_copy_says_so_in_a_checkout(tmp_path: Path) -> None:
    """`pip install .` without `-e` copies the rules, and `pulumi up` runs those of the checkout."""
    assert call("gpus", "--filter", "g4dn.xlarge").stderr == ""
    for name in ("distribution/layout.py", "tandem/main.py"):
        # A project that has the first of them alone is somebody else's.
        assert call("gpus", "--filter", "g4dn.xlarge", cwd=tmp_path).stderr == ""
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).touch()
    ended = call("gpus", "--filter", "g4dn.xlarge", "--json", cwd=tmp_path)
    assert (ended.returncode, ended.stderr) == (
        0,
        f"warning: this is the copy in {ROOT / 'tandem'}: what you change in this checkout has no effect on "
        "it. Run `pip install -e .` here.\n",
    )
    assert ended.json["schema_version"] == 1
