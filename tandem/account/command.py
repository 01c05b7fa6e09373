"""The commands `leftovers`, `quota` and `prices`: arguments and handlers. Cheap to import."""

import argparse
import sys
from typing import TYPE_CHECKING

from tandem.arguments import Commands, add_command, add_profile, add_region, add_stack
from tandem.lookup import accepted, existing, require_region, stack_file
from tandem.terminal import FAILED, FINE, USAGE, CallError, complain, print_json, status

if TYPE_CHECKING:
    from tandem.aws.session import Account

UNANSWERED = "usage error, unreadable input, or AWS did not answer every request"


def add(commands: Commands) -> None:
    """Adds the three commands to the parser of `tandem`."""
    left = add_command(
        commands,
        "leftovers",
        _leftovers,
        description="Find all resources in the AWS account that have the stack's tags or that controllers of its "
        "cluster created. With --delete, delete them in dependency order.",
        exit_codes={0: "nothing is left", 1: "resources are left", 2: UNANSWERED},
    )
    add_stack(left)
    add_profile(left)
    left.add_argument("--delete", action="store_true", help="delete leftovers, with a prompt per resource type")
    left.add_argument("--yes", action="store_true", help="with --delete: skip the prompts, for scripts")
    add_region(left)
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
    prices = add_command(
        commands,
        "prices",
        _prices,
        description="Read on-demand and spot prices from AWS and cache them for `tandem plan --live-prices`.",
        exit_codes={0: "prices were read", 1: "", 2: UNANSWERED},
    )
    add_stack(prices)
    add_profile(prices)
    prices.add_argument("--kept", action="store_true", help="show cached prices only; make no network requests")
    prices.add_argument(
        "--region", nargs="+", action="extend", metavar="REGION", help="AWS regions (default: the stack file's)"
    )


def _leftovers(parsed: argparse.Namespace) -> int:
    from tandem.aws.session import explained

    if parsed.delete and not parsed.yes and not sys.stdin.isatty():
        raise CallError("--delete needs a terminal for confirmation. Pass --yes to skip the prompts.")
    if parsed.yes and not parsed.delete:
        raise CallError("--yes has no effect without --delete. Pass both.")
    stack, region = _stack_and_region(parsed)
    account = _account(parsed, region)

    from tandem.account import screen as show
    from tandem.aws import leftovers

    with explained(region), status("Searching the AWS account"):
        found = leftovers.inventory(account, stack)
    if not parsed.json:
        show.inventory(found, account, deleting=parsed.delete)
    done = None
    if parsed.delete and found.resources:
        from tandem.account import clean_up

        done = clean_up.run(account, found, yes=parsed.yes, to_stderr=parsed.json)
    if parsed.json:
        print_json({**leftovers.as_dict(found, account), **(done.as_dict() if done else {})})
    left = [outcome for outcome in done.outcomes if outcome.left] if done else found.resources
    # Kinds that could not be searched may have leftovers.
    return FAILED if left else USAGE if found.may_have_unseen_costs else FINE


def _quota(parsed: argparse.Namespace) -> int:
    from dataclasses import replace

    stack, region = _stack_and_region(parsed)
    judged = accepted(parsed.stack)
    account = _account(parsed, region)

    from tandem.account import screen as show
    from tandem.aws import quota

    with status("Reading quotas from AWS"):
        found = quota.answer(account, stack, replace(judged.setup, region=region))
    if parsed.json:
        print_json(quota.as_dict(found, stack, account))
    else:
        show.quotas(found, stack, account)
    return FAILED if found.short else USAGE if found.unknown else FINE


def _prices(parsed: argparse.Namespace) -> int:
    import datetime

    from stacks.stack_file.errors import UnreadableError
    from tandem import price_cache
    from tandem.account import prices
    from tandem.account.prices_screen import show
    from tandem.aws.session import AccountError

    now = datetime.datetime.now(datetime.UTC)
    regions = list(dict.fromkeys(parsed.region or [_stack_and_region(parsed)[1]]))
    for region in regions:
        require_region(region)
    kept, failures = [], []
    for region in regions:
        try:
            if parsed.kept:
                kept.append((price_cache.load(region, now.date()), price_cache.home() / f"{region}.json"))
                continue
            with status(f"Reading prices of {region} from AWS"):
                read = prices.read(_account(parsed, region), now)
            kept.append((read, price_cache.keep(read)))
        except (AccountError, UnreadableError) as error:
            failures.append(f"{region}: {error}" if len(regions) > 1 else str(error))
        except OSError as error:
            failures.append(
                f"cannot write {price_cache.home()}: {error.strerror}. Set XDG_CACHE_HOME to another directory."
            )
    if parsed.json:
        regions_read = [read.model_dump(mode="json") for read, _ in kept]
        failed = {"error": "\n".join(failures), "problems": []} if failures else {}
        print_json({"schema_version": 2, "regions": regions_read, **failed})
    else:
        for read, path in kept:
            show(read, path, now)
        for failure in failures:
            complain(failure)
    return USAGE if failures else FINE


def _stack_and_region(parsed: argparse.Namespace) -> tuple[str, str]:
    """Name of the stack and its region. With --region the file may be missing, or wrong elsewhere."""
    from sharing.stack.config import SECTIONS
    from stacks.stack_file.errors import UnreadableError
    from stacks.stack_file.judge import stack_name
    from stacks.stack_file.yaml import read

    stack = stack_name(stack_file(parsed.stack))
    if given := parsed.region:
        region = given if isinstance(given, str) else given[0]
    else:
        path = existing(parsed.stack)
        found = read(path, SECTIONS).region
        if not isinstance(found, str):
            raise UnreadableError(f"{path} has no `aws:region`. Set it there, or pass --region.")
        region = found
    require_region(region)
    return stack, region


def _account(parsed: argparse.Namespace, region: str) -> "Account":
    """The account that Pulumi works in: from --profile or the file's profile, and the file's roles."""
    from tandem.aws.stack_account import identity

    path = stack_file(parsed.stack) if parsed.stack else None
    return identity(path, parsed.profile or None).connect(region)
