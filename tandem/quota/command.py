"""The command `quota`: arguments and handler. Cheap to import."""

import argparse

from tandem.arguments import Commands, add_command, add_profile, add_region, add_stack
from tandem.lookup import accepted
from tandem.terminal import FAILED, FINE, USAGE, print_json, status


def add(commands: Commands) -> None:
    """Adds the command to the parser of `tandem`."""
    quota = add_command(
        commands,
        "quota",
        _quota,
        description="Compare your AWS quotas with what the stack needs at its desired and maximum size. If a quota is "
        "too low, print the command that requests an increase.",
        exit_codes={
            0: "all quotas suffice",
            1: "a quota is too low, or the stack is refused",
            2: "usage error, unreadable input, or a quota is unknown",
        },
    )
    add_stack(quota)
    add_profile(quota)
    add_region(quota)


def _quota(parsed: argparse.Namespace) -> int:
    from tandem.aws.stack_account import account_in, stack_and_region

    stack, region = stack_and_region(parsed.stack, parsed.region)
    plan = accepted(parsed.stack)
    account = account_in(region, parsed.stack, parsed.profile)

    from tandem.aws import quota
    from tandem.quota import screen

    with status("Reading quotas from AWS"):
        answer = quota.answer(account, stack, plan.config)
    if parsed.json:
        print_json(quota.as_dict(answer, stack, account))
    else:
        screen.show(answer, stack, account)
    return FAILED if answer.short else USAGE if answer.unknown else FINE
