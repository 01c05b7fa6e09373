"""The reference of the command line has an example of each command, which the command would accept."""

import importlib
import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import yaml

from tandem.arguments import all_parsers
from tandem.main import COMMANDS, parser

ROOT = Path(__file__).resolve().parent.parent
PAGE = (ROOT / "docs" / "reference" / "cli.md").read_text(encoding="utf-8")
EXAMPLES: dict[str, dict[str, str]] = yaml.safe_load((ROOT / "docs" / "cli.yaml").read_text(encoding="utf-8"))
TYPED = {name: example["run" if "run" in example else "command"] for name, example in EXAMPLES.items()}
SECTIONS = dict(re.findall(r"^###? (tandem .+)\n\n((?:(?!^##).*\n)*)", PAGE, flags=re.MULTILINE))
MOST_LINES = 40


def test_every_command_has_a_section_and_an_example_or_a_reason() -> None:
    every = {each.prog for name in COMMANDS for each in all_parsers(parser(name))} - {"tandem"}
    assert set(EXAMPLES) == set(SECTIONS) == every
    kinds = [{"run", "golden", "none"} & set(example) for example in EXAMPLES.values()]
    assert all(len(kind) == 1 for kind in kinds)


def test_the_page_has_the_usage_arguments_and_exit_codes_of_every_parser(monkeypatch: pytest.MonkeyPatch) -> None:
    """`docs/generate.py` writes it, and runs the examples as well, which takes longer."""
    monkeypatch.syspath_prepend(ROOT / "docs")
    generator: Any = importlib.import_module("cli")
    monkeypatch.setattr(generator, "_example", lambda *_: "")
    kinds = ("Usage: ", "| <code>", "Exit codes: ")
    said, printed = (
        [line for line in text.splitlines() if line.startswith(kinds)] for text in (PAGE, generator.document())
    )
    assert said == printed
    codes = (ROOT / "docs" / "reference" / "exit-codes.md").read_text(encoding="utf-8")
    assert re.findall(r"^\| (`tandem .+) \|$", codes, re.MULTILINE) == [
        " | ".join(row) for row in generator.exit_codes_table()[1:]
    ]


@pytest.mark.parametrize("command", TYPED)
def test_an_example_is_of_its_command_and_has_output_or_a_reason(command: str) -> None:
    typed, *passed_on = TYPED[command].split(" -- ")
    assert f"tandem {typed} ".startswith(f"{command} ")
    parser(shlex.split(typed)[0]).parse_args(shlex.split(typed))
    [(shown, output)] = re.findall(
        r"^```text\n\$ (.+)\n((?s:.*?))^```$", SECTIONS[command].replace(" \\\n    ", " "), flags=re.MULTILINE
    )
    assert shown == " -- ".join([f"tandem {typed}", *passed_on])
    has_reason = "*No output here. " in SECTIONS[command]
    assert has_reason == ("none" in EXAMPLES[command]) == (not output)
    assert len(output.splitlines()) <= MOST_LINES
    assert not {"\x1b", "␛"} & {*output}
    assert "Traceback" not in output
