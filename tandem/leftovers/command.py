"""The command `leftovers`: arguments and handler. Cheap to import."""

import argparse
import sys
from contextlib import suppress

from tandem.arguments import Commands, add_command, add_profile, add_region, add_stack
from tandem.terminal import FAILED, FINE, USAGE, CallError, print_json, status


def add(commands: Commands) -> None:
    """Adds the command to the parser of `tandem`."""
    leftovers = add_command(
        commands,
        "leftovers",
        _leftovers,
        description="Find all resources in the AWS account that have the stack's tags or that controllers of its "
        "cluster created. With --delete, delete them in dependency order.",
        exit_codes={
            0: "nothing is left",
            1: "resources are left",
            2: "usage error, unreadable input, or AWS did not answer every request",
        },
    )
    add_stack(leftovers)
    add_profile(leftovers)
    leftovers.add_argument("--delete", action="store_true", help="delete leftovers, with a prompt per resource type")
    leftovers.add_argument("--yes", action="store_true", help="with --delete: skip the prompts, for scripts")
    add_region(leftovers)


def _leftovers(parsed: argparse.Namespace) -> int:
    from tandem.aws.session import explained
    from tandem.aws.stack_account import account_in, stack_and_region

    if parsed.delete and not parsed.yes and not sys.stdin.isatty():
        raise CallError("--delete needs a terminal for confirmation. Pass --yes to skip the prompts.")
    if parsed.yes and not parsed.delete:
        raise CallError("--yes has no effect without --delete. Pass both.")
    stack, region = stack_and_region(parsed.stack, parsed.region)
    account = account_in(region, parsed.stack, parsed.profile)

    from tandem.leftovers import inventory, screen

    with explained(region), status("Searching the AWS account"):
        left = inventory.take_inventory(account, stack)
    # A reader that closes the pipe hides neither what is left nor what was deleted: the exit code says so.
    if not parsed.json:
        with suppress(BrokenPipeError):
            screen.show(left, account, deleting=parsed.delete)
    done = None
    if parsed.delete and left.resources:
        from tandem.leftovers import clean_up

        done = clean_up.run(account, left, yes=parsed.yes, to_stderr=parsed.json)
    if parsed.json:
        with suppress(BrokenPipeError):
            print_json({**inventory.as_dict(left, account), **(done.as_dict() if done else {})})
    if [outcome for outcome in done.outcomes if outcome.left] if done else left.resources:
        return FAILED
    # Kinds that could not be searched may have leftovers.
    return USAGE if left.may_have_unseen_costs else FINE
