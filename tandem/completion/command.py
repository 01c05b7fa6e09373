"""`tandem completion`: prints the code that connects a shell with the parsers."""

import argparse
import sys

from tandem.arguments import Commands, add_command
from tandem.terminal import FINE, print_line

SHELLS = ("bash", "zsh", "fish")


def add(commands: Commands) -> None:
    """Adds the command to those of `tandem`."""
    parser = add_command(
        commands,
        "completion",
        _run,
        description="Print shell code that completes commands, options, stacks, instance types, models and regions. "
        'For bash, add `eval "$(tandem completion bash)"` to ~/.bashrc. For zsh, add `eval "$(tandem completion zsh)"` '
        "to ~/.zshrc, after `compinit`. For fish, add `tandem completion fish | source` to "
        "~/.config/fish/config.fish.",
        exit_codes={1: ""},
        json="",
    )
    parser.add_argument("shell", choices=SHELLS, metavar="SHELL", help=f"your shell: {', '.join(SHELLS)}")


def _run(parsed: argparse.Namespace) -> int:
    from argcomplete.shell_integration import shellcode

    for line in shellcode(["tandem"], shell=parsed.shell).splitlines():
        print_line(line, sys.stdout)
    return FINE
