"""The command `doctor`: its arguments, and who answers. Cheap to import."""

import argparse

from tandem.calling import Commands

EXIT_CODES = (
    "Exit codes: 0 nothing would stop `pulumi up`, 1 something would, 2 wrong call, or something could not be checked. "
    "1 beats 2."
)


def add(commands: Commands) -> None:
    """Adds the command to those of `tandem`."""
    parser = commands.add_parser(
        "doctor",
        help="before up: check what would stop it on this machine, in the account and in the cluster",
        description="Checks what would stop `pulumi up`, and prints the fix beside it. Nothing is changed. Without a "
        "stack it checks this machine and the account alone.",
        epilog=EXIT_CODES,
    )
    parser.add_argument(
        "stack", nargs="?", metavar="STACK|FILE", help="a stack (its file is Pulumi.STACK.yaml) or a file"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object instead")
    parser.add_argument(
        "--profile", metavar="NAME", help="AWS profile (default: the stack file's, or the usual credentials)"
    )
    parser.add_argument("--region", metavar="R", help="AWS region (default: the stack file's)")
    parser.set_defaults(run=_run)


def _run(parsed: argparse.Namespace) -> int:
    from tandem.doctor import command

    return command.answer(parsed)
