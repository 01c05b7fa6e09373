"""How `tandem doctor` answers."""

import argparse
import datetime
from pathlib import Path

from tandem.account.command import known_region
from tandem.calling import accepted, print_json, stack_file
from tandem.cluster.connection import project_of
from tandem.doctor import screen
from tandem.doctor.case import Case, Stack
from tandem.doctor.checks import examine
from tandem.doctor.finding import exit_code


def answer(parsed: argparse.Namespace) -> int:
    """Examines what the arguments name, prints it, and returns the exit code."""
    with screen.progress("checking this machine, the account and the stack …"):
        case = _case(parsed)
        answers = examine(case)
    if parsed.json:
        print_json(screen.as_dict(case, answers))
    else:
        screen.show(case, answers)
    return exit_code(answered.finding for answered in answers)


def _case(parsed: argparse.Namespace) -> Case:
    if parsed.region:
        known_region(parsed.region)
    now = datetime.datetime.now(datetime.UTC)
    if parsed.stack is None:
        region = parsed.region or _ambient_region(parsed.profile)
        return Case(project=project_of(Path("Pulumi.yaml")), region=region, profile=parsed.profile, now=now)

    from tandem import plan

    judged = accepted(parsed.stack)
    return Case(
        project=project_of(stack_file(parsed.stack)),
        region=parsed.region or judged.setup.region,
        profile=parsed.profile or judged.config.profile,
        now=now,
        stack=Stack(judged, plan.run(judged)),
    )


def _ambient_region(profile: str | None) -> str:
    """The region that the AWS SDKs would take; empty where nothing says one."""
    try:
        import boto3
        from botocore.exceptions import BotoCoreError
    except ModuleNotFoundError:
        return ""
    try:
        return boto3.Session(profile_name=profile).region_name or ""
    except BotoCoreError:
        return ""
