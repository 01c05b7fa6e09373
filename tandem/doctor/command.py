"""`tandem doctor`: its arguments, and how it answers."""

import argparse
import datetime
from pathlib import Path

from tandem.arguments import Commands, add_command, add_profile, add_region
from tandem.deployed.outputs import project_of
from tandem.doctor import screen
from tandem.doctor.case import Case, Stack
from tandem.doctor.checks import examine
from tandem.doctor.finding import exit_code
from tandem.lookup import accepted, require_region, stack_file
from tandem.terminal import print_json, status


def add(commands: Commands) -> None:
    """Adds the command to those of `tandem`."""
    parser = add_command(
        commands,
        "doctor",
        _run,
        description="Check what would stop `pulumi up`, and print the fix next to each finding. Changes nothing. "
        "Without a stack, check only this machine and the account.",
        exit_codes={
            0: "nothing would stop `pulumi up`",
            1: "something would, or the stack is refused",
            2: "usage error, unreadable input, or a check could not run (1 takes precedence)",
        },
    )
    parser.add_argument(
        "stack", nargs="?", metavar="STACK|FILE", help="the stack (its file is Pulumi.STACK.yaml) or a stack file"
    )
    add_profile(parser)
    add_region(parser)


def _run(parsed: argparse.Namespace) -> int:
    """Runs the checks, prints the findings, and returns the exit code."""
    with status("Checking this machine, the account and the stack"):
        case = _case(parsed)
        answers = examine(case)
    if parsed.json:
        print_json(screen.as_dict(case, answers))
    else:
        screen.show(case, answers)
    return exit_code(answered.finding for answered in answers)


def _case(parsed: argparse.Namespace) -> Case:
    if parsed.region:
        require_region(parsed.region)
    now = datetime.datetime.now(datetime.UTC)
    if parsed.stack is None:
        region = parsed.region or _ambient_region(parsed.profile)
        return Case(project=project_of(Path("Pulumi.yaml")), region=region, profile=parsed.profile, now=now)

    from tandem.dry_run import program

    judged = accepted(parsed.stack)
    return Case(
        project=project_of(stack_file(parsed.stack)),
        region=parsed.region or judged.config.region,
        profile=parsed.profile or judged.config.profile,
        now=now,
        stack=Stack(judged, program.run(judged)),
    )


def _ambient_region(profile: str | None) -> str:
    """The default region of the AWS SDKs; empty if there is none."""
    try:
        import boto3
        from botocore.exceptions import BotoCoreError
    except ModuleNotFoundError:
        return ""
    try:
        return boto3.Session(profile_name=profile).region_name or ""
    except BotoCoreError:
        return ""
