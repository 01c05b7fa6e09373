"""The live checklist, `make test-live`: docs/how-to/run-the-live-checklist.md explains it."""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Collection
from pathlib import Path

from tandem.sandbox.pulumi import NoPulumiError, executable
from tests.live.attend import GROUPS, Asker, Record, attend, from_the_account, planned_values
from tests.live.cloud import ROOT, Cloud, StepError, account, emulated
from tests.live.questions import QUESTIONS, Question
from tests.live.sessions import RETRY_HOURS, SESSIONS, RefusedError, Session, check_cap

TOOLS = ("pulumi", "aws", "kubectl", "helm", "curl")
DRY_HOURS = 2.0
SAMPLE = {"cluster": "c", "group": "g"}
"""Values that only a deployed stack has, for commands that are only checked."""


def main(arguments: list[str]) -> int:
    """Runs the checklist; 0 if every question was asked and nothing is left, 1 if not, 2 for a usage error."""
    parsed = _parser().parse_args(arguments)
    if parsed.list:
        for question in QUESTIONS:
            print(f"{question.id}: {question.text}")
            print(f"  asked: {question.session}, {question.step}; changes: {question.changes}")
            print("".join(f"  $ {command}\n" for command in question.ask), end="")
        return 0
    chosen = [SESSIONS[name] for name in parsed.sessions or SESSIONS]
    if os.environ.get("TANDEM_LIVE") != "1":
        print("TANDEM_LIVE is not 1: dry run against the emulated cloud. It costs nothing and answers no question.")
        return dry_run(chosen)
    try:
        return live(chosen, parsed.max_usd, parsed.hours, parsed.provoke)
    except RefusedError as reason:
        print(f"error: {reason}", file=sys.stderr)
        return 2


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.live", description="Runs the live checklist.")
    parser.add_argument("sessions", nargs="*", type=_session, metavar="SESSION", help=", ".join(SESSIONS))
    parser.add_argument("--max-usd", type=float, metavar="USD", help="the most that the whole run may cost; required")
    parser.add_argument("--hours", type=float, default=3.0, help="time limit of each session (default: 3)")
    parser.add_argument("--provoke", action="store_true", help="also ask the questions that disrupt the stack")
    parser.add_argument("--list", action="store_true", help="list the questions, and run nothing")
    return parser


def _session(name: str) -> str:
    if name not in SESSIONS:
        raise argparse.ArgumentTypeError(f"{name!r} is no session. Choose from {', '.join(SESSIONS)}.")
    return name


def dry_run(sessions: list[Session]) -> int:
    """Runs every session in the emulated cloud, and checks the commands of its questions without running them."""
    if shutil.which("pulumi") is None:
        print("skipped: `pulumi` is not on the PATH. Install it from https://www.pulumi.com/docs/install/.")
        return 0
    try:
        executable()
    except NoPulumiError as reason:
        print(f"skipped: {reason}")
        return 0
    records = []
    for session in sessions:
        with tempfile.TemporaryDirectory(prefix="tandem-live-") as folder:
            cloud = emulated(Path(folder), session.name)
            cloud.prepare(session.name)
            records.append(attend(session, cloud, QUESTIONS, DRY_HOURS, rehearse(cloud)))
    for record in records:
        _report(record)
    return 0 if all(one.is_deleted and not one.errors and not one.unanswered for one in records) else 1


def rehearse(cloud: Cloud) -> Asker:
    """Makes and checks a question's commands in place of running them. Raises StepError for a refused stack file."""
    values = {**SAMPLE, **planned_values(cloud)}

    def asker(question: Question, cloud: Cloud, took: float, left: float) -> str:
        commands = question.commands(values)
        for command in (GROUPS.format_map(values), *commands):
            check_command(command, cloud.tags)
        return f"{len(commands)} commands"

    return asker


def check_command(command: str, tags: Collection[str]) -> None:
    """Raises ValueError for a command that cannot work: no region, or a model that no stack file has."""
    for part in re.split(r"&&|\|\||[;|]", command):
        if re.match(r"\s*aws ", part) and " --region " not in part:
            raise ValueError(f"`{part.strip()}` has no --region. Add `--region <region>`.")
    for name in re.findall(r"\bollama (?:run|show|stop) (\S+)", command):
        if name not in tags:
            raise ValueError(f"`{name}` is no model of the stack file ({', '.join(sorted(tags))}). Use `<model>`.")


def live(sessions: list[Session], max_usd: float | None, hours: float, provoke: bool) -> int:
    """Runs the sessions in the account, one after the other. Raises RefusedError before anything is created."""
    if max_usd is None:
        raise RefusedError("--max-usd is missing. Say what the run may cost at most, e.g. `--max-usd 30`.")
    missing = [tool for tool in TOOLS if shutil.which(tool) is None]
    if missing:
        raise RefusedError(f"not on the PATH: {', '.join(missing)}. Install them first.")
    if subprocess.run(["aws", "sts", "get-caller-identity"], capture_output=True).returncode:
        raise RefusedError("AWS credentials are missing or expired. Log in, e.g. with `aws sso login`.")
    clouds = {one.name: account(ROOT / ".tandem" / "live" / one.name, one.name) for one in sessions}
    _check_costs(sessions, clouds, hours, max_usd)
    asked = [question for question in QUESTIONS if provoke or not question.provokes]
    well = True
    for session in sessions:
        cloud = clouds[session.name]
        cloud.ask(f"pulumi stack select --create {cloud.stack}", 120)
        record = attend(session, cloud, asked, hours, from_the_account)
        answers = cloud.folder / "answers"
        answers.mkdir(exist_ok=True)
        for id, answer in record.answers.items():
            (answers / f"{id}.txt").write_text(answer, encoding="utf-8")
        print(f"Wrote {len(record.answers)} answers to {answers}")
        _report(record)
        well = well and record.is_deleted and not record.errors and not record.unanswered
        if not record.is_deleted:
            print(f"error: {cloud.stack} is not destroyed. Run `{' '.join(cloud.destroy)}` in {cloud.folder}.")
            break
    return 0 if well else 1


def _check_costs(sessions: list[Session], clouds: dict[str, Cloud], hours: float, max_usd: float) -> None:
    total = 0.0
    for session in sessions:
        cloud, prices = clouds[session.name], []
        cloud.prepare(session.name)
        for step in session.steps:
            cloud.configure(step.sections)
            try:
                prices.append(cloud.highest_usd_per_hour())
            except StepError as error:
                raise RefusedError(str(error)) from error
        cloud.prepare(session.name)
        total += check_cap(max(prices), hours, max_usd - total)
    print(
        f"At most ${total:.2f} for {len(sessions)} sessions of {hours:g} h, each with {RETRY_HOURS:.1f} h of destroy "
        f"attempts; the cap is ${max_usd:.2f}."
    )


def _report(record: Record) -> None:
    print(f"{len(record.answers)} questions answered")
    for id, reason in record.unanswered.items():
        print(f"{id}: not answered, {reason}")
    for error in record.errors:
        print(f"error: {error}")
    print("nothing is left" if record.is_deleted else "error: the stack is not destroyed")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
