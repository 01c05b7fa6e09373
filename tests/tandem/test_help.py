"""What every command says before it begins: its help, and that it is a copy."""

import argparse
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tandem.command import COMMANDS, _parser
from tandem.extras import EXTRAS
from tests.command import ROOT, call
from tests.conftest import Golden

# One process for all: what it imports is what makes it slow.
PROGRAM = """
import sys
sys.modules.update(dict.fromkeys({packages!r}))
from tandem.command import main
for command in {commands!r}:
    try:
        main([command, "--help"])
    except SystemExit as ended:
        print(command, ended.code)
"""


@pytest.mark.slow
def test_help_of_every_command_needs_no_extra() -> None:
    packages = sorted({package for extra in EXTRAS.values() for package in extra})
    program = PROGRAM.format(packages=packages, commands=[*COMMANDS])
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert [command for command in COMMANDS if f"\n{command} 0\n" not in done.stdout] == []
    assert done.stdout.count("usage: tandem ") == len(COMMANDS)


def test_every_argument_is_as_in_the_golden(golden: Golden) -> None:
    """With defaults, which help does not show; and not as help, which each version of Python lays out differently."""
    said = [list(_described(_parser(name))) for name in {room: name for name, (room, _) in COMMANDS.items()}.values()]
    golden("arguments.txt", "\n".join([said[0][0], *(line for lines in said for line in lines[1:])]) + "\n")


def _described(parser: argparse.ArgumentParser) -> Iterator[str]:
    """Of a command and those below it: the arguments, in the order of its help."""
    defaults = {name: getattr(value, "__name__", value) for name, value in parser._defaults.items()}
    yield f"\n{parser.prog}: {parser.description} {defaults} {parser.epilog}"
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            yield from (f"  {verb.dest}: {verb.help}" for verb in action._choices_actions)
            for below in action.choices.values():
                yield from _described(below)
        elif "--help" not in action.option_strings:
            known = vars(action) | {"type": getattr(action.type, "__name__", None), "container": None}
            if not action.option_strings:
                del known["required"]  # versions of Python differ for `nargs="*"`
            known = {name: value for name, value in sorted(known.items()) if value not in (None, False, [])}
            yield f"  {type(action).__name__} {known}"


def test_a_copy_says_so_in_a_checkout(tmp_path: Path) -> None:
    """`pip install .` without `-e` copies the rules, and `pulumi up` runs those of the checkout."""
    assert call("gpus", "--filter", "g4dn.xlarge").stderr == ""
    for name in ("distribution/layout.py", "tandem/command.py"):
        # A project that has the first of them alone is somebody else's.
        assert call("gpus", "--filter", "g4dn.xlarge", cwd=tmp_path).stderr == ""
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).touch()
    ended = call("gpus", "--filter", "g4dn.xlarge", "--json", cwd=tmp_path)
    assert (ended.returncode, ended.stderr) == (
        0,
        f"tandem: warning: this is the copy in {ROOT / 'tandem'}: what you change in this checkout has no effect on "
        "it. Run `python -m pip install --no-build-isolation -e .` here.\n",
    )
    assert ended.json["schema_version"] == 1
