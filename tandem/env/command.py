"""`tandem env`: its arguments, and what it prints."""

import argparse
import shlex
import sys
from typing import TYPE_CHECKING

from tandem.arguments import Commands, add_cluster, add_command, add_stack
from tandem.terminal import FINE, complain, print_json, print_line

if TYPE_CHECKING:
    from tandem.env.record import Port, Record

SCHEMA_VERSION = 1
SHELLS = ("sh", "fish")
"""`sh`: also bash and zsh."""
KEY = "ollama"
"""Clients of OpenAI's API need one. Ollama ignores it (ollama v0.32.15, docs/api/openai-compatibility.mdx)."""


def add(commands: Commands) -> None:
    """Registers `env`."""
    parser = add_command(
        commands,
        "env",
        _run,
        description="Forward a local port to each model of a stack in the background, and print the variables with "
        "which `ollama` and clients of OpenAI's API find a model. Use it as "
        '`eval "$(tandem env STACK)"`, or in fish as '
        "`tandem env STACK --shell fish | source`. The ports stay until `--stop`, or until the cluster has not "
        "answered for 30 minutes.",
        exit_codes={
            0: "the ports are open; with --stop, they are closed",
            1: "the stack is refused",
            2: "usage error, unreadable input, or the cluster cannot be reached",
        },
        json="print the address of each model as one JSON object",
    )
    add_stack(parser, default=False)
    parser.add_argument(
        "model",
        nargs="?",
        metavar="MODEL|ID",
        help="the model of the variables, by its tag or `id` (default: the first that generates text)",
    )
    parser.add_argument(
        "--shell", choices=SHELLS, default=SHELLS[0], help="your shell (default: sh, also bash and zsh)"
    )
    way = parser.add_mutually_exclusive_group()
    way.add_argument("--stop", action="store_true", help="close the ports")
    way.add_argument("--foreground", action="store_true", help="keep the ports open in this process, until Ctrl-C")
    add_cluster(parser)


def _run(parsed: argparse.Namespace) -> int:
    # Here, so that --help works without the extra.
    from tandem.env import background, foreground

    if parsed.stop:
        _print_end(parsed, background.stop(parsed))
    elif parsed.foreground:
        foreground.keep_open(parsed, lambda record: _print_start(parsed, record))
    else:
        record = background.start(parsed)
        _print_start(parsed, record)
        _warn(parsed, record)
    return FINE


def _print_start(parsed: argparse.Namespace, record: "Record") -> None:
    port = record.port_of(parsed)
    if parsed.json:
        print_json(record.as_dict(), compact=True)
        return
    for line in (*_set(parsed.shell, port.url), *_comments(parsed, record, port)):
        print_line(line, sys.stdout, fold=False)


def _set(shell: str, url: str) -> list[str]:
    values = {"OLLAMA_HOST": url, "OPENAI_BASE_URL": f"{url}/v1", "OPENAI_API_KEY": KEY}
    form = "set -gx {} {}" if shell == "fish" else "export {}={}"
    return [form.format(name, value) for name, value in values.items()]


def _comments(parsed: argparse.Namespace, record: "Record", port: "Port") -> list[str]:
    """What a shell ignores. At the end: without quotes around `$(…)`, the rest of its only line is a comment."""
    stack = shlex.quote(parsed.stack)
    others = [f"# {each.model}: {each.url} (tandem env {stack} {each.id})" for each in record.ports if each != port]
    call = f"tandem env {stack} --shell fish | source" if parsed.shell == "fish" else f'eval "$(tandem env {stack})"'
    end = "Ctrl-C" if parsed.foreground else f"tandem env {stack} --stop"
    return [f"# {port.model}: {port.url}", *others, f"# Use: {call}   End: {end}"]


def _print_end(parsed: argparse.Namespace, was: bool) -> None:
    if parsed.json:
        print_json({"schema_version": SCHEMA_VERSION, "stopped": was})
        return
    names = ("OLLAMA_HOST", "OPENAI_BASE_URL", "OPENAI_API_KEY")
    for name in names:
        print_line(f"set -e {name}" if parsed.shell == "fish" else f"unset {name}", sys.stdout)
    closed = f"The ports of stack {parsed.stack} are closed."
    print_line(closed if was else f"No ports of stack {parsed.stack} were open.", sys.stderr)


def _warn(parsed: argparse.Namespace, record: "Record") -> None:
    """Says if the model does not answer now: its port stays and finds it later."""
    from tandem.env.background import answers

    port = record.port_of(parsed)
    if not answers(port.url):
        complain(
            f"warning: {port.model} does not answer now. Run `tandem run {parsed.stack} {port.id}`: it wakes a parked "
            f"model, or says what is missing. The log is {record.log}."
        )
