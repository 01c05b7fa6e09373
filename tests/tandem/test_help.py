"""`--help` of every command."""

import subprocess
import sys

import pytest

from tandem.command import COMMANDS
from tandem.extras import EXTRAS

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
