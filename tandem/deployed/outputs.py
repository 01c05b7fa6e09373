"""Reads what a deployed stack reports about itself, `stacks.outputs.StackOutputs`: from Pulumi, or from a file."""

import json
import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from sharing.printable import one_line
from stacks.outputs import StackOutputs
from tandem.deployed.endpoints import NotConnectedError

PULUMI_SECONDS = 120
WITHOUT_PULUMI = "or name the cluster: --kubeconfig FILE (`aws eks update-kubeconfig` writes one)"
OUTPUTS_FILE = "or pass --outputs FILE"


def of_stack(stack: str, file: Path) -> StackOutputs:
    """What Pulumi has of `stack`, whose file is `file`; secrets are not asked for.

    Raises `NotConnectedError` where there is no Pulumi, no such stack, or where it is not up.
    """
    told = stack_outputs(stack, project_of(file), secrets=False, otherwise=OUTPUTS_FILE)
    return read_outputs(told, f"the outputs of stack {stack}", stack)


def of_file(path: Path, stack: str) -> StackOutputs:
    """What `pulumi stack output --json` of `stack` printed into the file at `path`; raises `NotConnectedError`."""
    again = f"`pulumi stack output --json --stack {stack} > {path}` writes it."
    try:
        # Some shells put a mark in front of what they redirect.
        told = json.loads(path.read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise NotConnectedError(f"cannot read the outputs in {path}: {error.strerror}. {again}") from None
    except (ValueError, RecursionError):
        raise NotConnectedError(f"{path} is no JSON. {again}") from None
    if not isinstance(told, dict):
        raise NotConnectedError(f"{path} holds no JSON object. {again}")
    return read_outputs(told, str(path), stack)


def read_outputs(told: Mapping[str, Any], name: str, stack: str) -> StackOutputs:
    """The stack that these outputs describe; raises `NotConnectedError` for those of none, or of another program."""
    if not told:
        raise NotConnectedError(
            f"stack {stack} is not up: it has no outputs, and nothing to switch. `pulumi up --stack {stack}` first."
        )
    try:
        return StackOutputs.model_validate(told)
    except ValidationError as error:
        first, *others = error.errors()
        where = ".".join(map(str, first["loc"]))
        found = "is missing" if first["type"] == "missing" else f"is not as expected ({first['msg']})"
        more = f", and {len(others)} more" if others else ""
        raise NotConnectedError(
            f"{name}: {where} {found}{more}. They are of another program than this, or not whole: "
            f"`pulumi up --stack {stack}` with the file as it is deployed writes them anew."
        ) from None


def project_of(file: Path) -> Path:
    """The folder of the stack file's project: its own, or the nearest above that has a Pulumi.yaml."""
    home = file.absolute().parent
    return next((folder for folder in (home, *home.parents) if (folder / "Pulumi.yaml").is_file()), home)


def stack_outputs(
    stack: str, project: Path, *, secrets: bool = True, otherwise: str = WITHOUT_PULUMI
) -> dict[str, Any]:
    """What `pulumi stack output` says, with `secrets` or `[secret]` in their place.

    Raises `NotConnectedError`, which shows no secret and ends with `otherwise`, the way out without Pulumi.
    """
    program = shutil.which("pulumi")
    if program is None:
        raise NotConnectedError(
            "there is no `pulumi` on the PATH to ask for the stack's outputs. Get it from "
            f"https://www.pulumi.com/docs/install/, {otherwise}."
        )
    shown = ["--show-secrets"] if secrets else []
    try:
        done = run_pulumi([program, "stack", "output", "--json", *shown], stack, project)
    except OSError as error:
        raise NotConnectedError(f"`pulumi` cannot be run ({error.strerror}). Install it again, {otherwise}.") from None
    except subprocess.TimeoutExpired:
        raise NotConnectedError(f"`pulumi stack output` gave no answer in {PULUMI_SECONDS} s.") from None
    if done.returncode:
        raise _told_by_pulumi(stack, project, done.stderr, otherwise)
    try:
        outputs = json.loads(done.stdout)
    except (ValueError, RecursionError):
        outputs = None
    if not isinstance(outputs, dict):
        raise NotConnectedError(f"`pulumi stack output` of stack {stack} printed no JSON object.")
    return outputs


def run_pulumi(command: list[str], stack: str, project: Path) -> "subprocess.CompletedProcess[str]":
    """Runs a command of Pulumi that asks for nothing; raises `OSError` and `subprocess.TimeoutExpired`."""
    return subprocess.run(
        [*command, "--stack", stack, "--non-interactive"],
        cwd=project,
        env={**os.environ, "PULUMI_SKIP_UPDATE_CHECK": "true"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
        timeout=PULUMI_SECONDS,
    )


def reason_of(said: str) -> str:
    """Why a command of Pulumi failed, in one line, from what it wrote to stderr."""
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    why = next((line for line in lines if line.startswith("error:")), lines[-1] if lines else "it gave no reason")
    return one_line(why.removeprefix("error:")).rstrip(".")


NO_STACK = "no stack named"
LOGGED_OUT = "PULUMI_ACCESS_TOKEN must be set"
"""What Pulumi says without a terminal where nobody is logged in (pulumi 3.260, run)."""
LOG_IN = "Run `pulumi login`, or `pulumi login --local` to keep the state on this machine"


def _told_by_pulumi(stack: str, project: Path, said: str, otherwise: str) -> NotConnectedError:
    why = reason_of(said)
    if NO_STACK in why:
        return NotConnectedError(
            f"there is no stack {stack} in the backend that you are logged in to (`pulumi stack ls` in {project} "
            f"lists them). `pulumi up --stack {stack}` makes it, {otherwise}."
        )
    if LOGGED_OUT in why:
        return NotConnectedError(f"you are not logged in to a Pulumi backend. {LOG_IN}, {otherwise}.")
    return NotConnectedError(f"cannot read the outputs of stack {stack}: {why}. Run `pulumi login`, {otherwise}.")
