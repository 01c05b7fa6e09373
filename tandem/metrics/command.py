"""`tandem metrics`: its arguments, and how it answers."""

import argparse
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING

from tandem.arguments import Commands, add_command, add_servers
from tandem.terminal import FAILED, FINE, CallError, complain, print_json, print_line

if TYPE_CHECKING:
    from components.ollama_pair.model_metrics import Sample

SCHEMA_VERSION = 1
LOCAL = "127.0.0.1"
MOST_PORT = 65535


def add(commands: Commands) -> None:
    """Adds the command to those of `tandem`."""
    parser = add_command(
        commands,
        "metrics",
        _run,
        description="Export each server's metrics for Prometheus: model loaded, memory, context, expiry "
        "and, with `monitoring` in the stack file, tokens and requests.",
        exit_codes={
            0: "every server answered, or --listen was ended by Ctrl-C",
            1: "a server did not answer, or the stack is refused",
            2: "usage error, unreadable input, or the cluster cannot be reached",
        },
    )
    add_servers(parser)
    parser.add_argument(
        "--listen",
        type=_address,
        metavar="[HOST:]PORT",
        help=f"serve them at /metrics until Ctrl-C, read at each request (default host: {LOCAL})",
    )


def _address(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    if not (port.isascii() and port.isdigit() and int(port) <= MOST_PORT):
        raise argparse.ArgumentTypeError(
            f"must be a port, or a host and a port, not {text!r}. Write 9410, for example."
        )
    return host or LOCAL, int(port)


def _run(parsed: argparse.Namespace) -> int:
    if parsed.listen and parsed.json:
        raise CallError("--json prints the metrics once. Remove --json or --listen.")

    # Here, so that --help works without the extra.
    from components.ollama_pair.model_metrics import render
    from tandem.metrics.models import read, servers

    with servers(parsed) as reached:
        if parsed.listen:
            return _serve(parsed.listen, lambda: read(reached)[0])
        samples, troubles = read(reached)
    if parsed.json:
        metrics = [sample._asdict() for sample in samples]
        print_json({"schema_version": SCHEMA_VERSION, "metrics": metrics, "trouble": troubles})
    else:
        for line in render(samples).splitlines():
            print_line(line, sys.stdout, fold=False)
        for trouble in troubles:
            complain(trouble)
    return FAILED if troubles else FINE


def _serve(address: tuple[str, int], read: "Callable[[], list[Sample]]") -> int:
    from components.ollama_pair.model_metrics import Exporter

    host, port = address
    try:
        exporter = Exporter(address, read)
    except OSError as error:
        raise CallError(f"{host}:{port} cannot be used ({error.strerror or error}). Pass another port.") from None
    with exporter, suppress(KeyboardInterrupt):
        print_line(f"Serving http://{host}:{exporter.server_port}/metrics. Press Ctrl-C to end.", sys.stderr)
        exporter.serve_forever()
    return FINE
