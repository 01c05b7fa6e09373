"""The command `prices`: arguments and handler. Cheap to import."""

import argparse
import datetime
from typing import TYPE_CHECKING

from tandem.arguments import Commands, add_command, add_profile, add_stack
from tandem.lookup import require_region
from tandem.terminal import FINE, USAGE, CallError, complain, print_json, status

if TYPE_CHECKING:
    from tandem.price_cache import Kept


def add(commands: Commands) -> None:
    """Adds the command to the parser of `tandem`."""
    prices = add_command(
        commands,
        "prices",
        _prices,
        description="Read on-demand and spot prices from AWS and cache them for `tandem plan --live-prices`. "
        "Without AWS credentials, it reads AWS's public price files and the Spot Advisor.",
        exit_codes={
            0: "prices were read",
            1: "",
            2: "usage error, unreadable input, or AWS did not answer every request",
        },
    )
    add_stack(prices)
    add_profile(prices)
    prices.add_argument("--kept", action="store_true", help="show cached prices only; make no network requests")
    prices.add_argument(
        "--region", nargs="+", action="extend", metavar="REGION", help="AWS regions (default: the stack file's)"
    )


def _public(region: str, now: datetime.datetime) -> "Kept":
    from tandem.prices import public

    try:
        return public.read(region, now)
    except CallError as error:
        raise CallError(f"No AWS credentials were found, so tandem tried AWS's public price files: {error}") from error


def _prices(parsed: argparse.Namespace) -> int:
    from stacks.stack_file.errors import UnreadableError
    from tandem import price_cache
    from tandem.aws.session import NoKeysError
    from tandem.aws.stack_account import account_in, stack_and_region
    from tandem.prices import reading
    from tandem.prices.screen import show

    now = datetime.datetime.now(datetime.UTC)
    regions = list(dict.fromkeys(parsed.region or [stack_and_region(parsed.stack)[1]]))
    for region in regions:
        require_region(region)
    kept, failures = [], []
    for region in regions:
        try:
            if parsed.kept:
                kept.append((price_cache.load(region, now.date()), price_cache.home() / f"{region}.json"))
                continue
            with status(f"Reading prices of {region} from AWS"):
                try:
                    read = reading.read(account_in(region, parsed.stack, parsed.profile), now)
                except NoKeysError:
                    read = _public(region, now)
            kept.append((read, price_cache.keep(read)))
        except (CallError, UnreadableError) as error:
            is_named = len(regions) == 1 or region in str(error)
            failures.append(str(error) if is_named else f"{region}: {error}")
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
