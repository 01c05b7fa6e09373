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
WITHOUT_PULUMI = "or pass --kubeconfig FILE (`aws eks update-kubeconfig` writes one)"
OUTPUTS_FILE = "or pass --outputs FILE"


def of_stack(stack: str, file: Path) -> StackOutputs:
    """Pulumi's outputs of `stack`, whose file is `file`, without secrets.

    Raises `NotConnectedError` if Pulumi is missing, or the stack does not exist or is not deployed.
    """
    values = stack_outputs(stack, project_of(file), secrets=False, otherwise=OUTPUTS_FILE)
    return read_outputs(values, f"the outputs of stack {stack}", stack)


def of_file(path: Path, stack: str) -> StackOutputs:
    """The output of `pulumi stack output --json` of `stack` in the file at `path`; raises `NotConnectedError`."""
    again = f"Write it with `pulumi stack output --json --stack {stack} > {path}`."
    try:
        # Some shells write a byte order mark first.
        values = json.loads(path.read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise NotConnectedError(f"cannot read the outputs in {path}: {error.strerror}. {again}") from None
    except (ValueError, RecursionError):
        raise NotConnectedError(f"{path} is not valid JSON. {again}") from None
    if not isinstance(values, dict):
        raise NotConnectedError(f"{path} does not contain a JSON object. {again}")
    return read_outputs(values, str(path), stack)


def read_outputs(values: Mapping[str, Any], name: str, stack: str) -> StackOutputs:
    """The stack that these outputs describe; raises `NotConnectedError` if they are empty or of another program."""
    if not values:
        raise not_deployed(stack)
    try:
        return StackOutputs.model_validate(values)
    except ValidationError as error:
        first, *others = error.errors()
        where = ".".join(map(str, first["loc"]))
        wrong = "is missing" if first["type"] == "missing" else f"is not as expected ({first['msg']})"
        more = f", and {len(others)} more" if others else ""
        raise NotConnectedError(
            f"{name}: {where} {wrong}{more}. They are incomplete, or from another program. To update them, run "
            f"`pulumi up --stack {stack}` with the deployed file."
        ) from None


def not_deployed(stack: str) -> NotConnectedError:
    """The error of a stack without outputs."""
    return NotConnectedError(
        f"Stack {stack} has no outputs: it is not deployed. Run `pulumi up --stack {stack}` first."
    )


def project_of(file: Path) -> Path:
    """The folder of the stack file's project: its own, or the nearest above that has a Pulumi.yaml."""
    home = file.absolute().parent
    return next((folder for folder in (home, *home.parents) if (folder / "Pulumi.yaml").is_file()), home)


def stack_outputs(
    stack: str, project: Path, *, secrets: bool = True, otherwise: str = WITHOUT_PULUMI
) -> dict[str, Any]:
    """The output of `pulumi stack output`, with `secrets` or `[secret]` in their place.

    Raises `NotConnectedError`, which shows no secret and ends with `otherwise`, the fix without Pulumi.
    """
    program = shutil.which("pulumi")
    if program is None:
        raise NotConnectedError(
            "`pulumi` is not on the PATH, so the stack's outputs cannot be read. Install it from "
            f"https://www.pulumi.com/docs/install/, {otherwise}."
        )
    shown = ["--show-secrets"] if secrets else []
    try:
        done = run_pulumi([program, "stack", "output", "--json", *shown], stack, project)
    except OSError as error:
        raise NotConnectedError(f"`pulumi` cannot run ({error.strerror}). Reinstall it, {otherwise}.") from None
    except subprocess.TimeoutExpired:
        raise NotConnectedError(f"`pulumi stack output` did not answer within {PULUMI_SECONDS} s. Try again.") from None
    if done.returncode:
        raise _failed(stack, project, done.stderr, otherwise)
    try:
        outputs = json.loads(done.stdout)
    except (ValueError, RecursionError):
        outputs = None
    if not isinstance(outputs, dict):
        raise NotConnectedError(f"`pulumi stack output` of stack {stack} printed no JSON object. Run it to see why.")
    return outputs


def run_pulumi(command: list[str], stack: str, project: Path) -> "subprocess.CompletedProcess[str]":
    """Runs a non-interactive command of Pulumi; raises `OSError` and `subprocess.TimeoutExpired`."""
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
    """Why a command of Pulumi failed, in one line, from its stderr."""
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    why = next((line for line in lines if line.startswith("error:")), lines[-1] if lines else "it gave no reason")
    return one_line(why.removeprefix("error:")).rstrip(".")


NO_STACK = "no stack named"
LOGGED_OUT = "PULUMI_ACCESS_TOKEN must be set"
"""Pulumi's error without a terminal and without a login (pulumi 3.260, run)."""
LOG_IN = "Run `pulumi login`, or `pulumi login --local` to keep the state on this machine"
NO_PASSPHRASE = "passphrase"
"""In Pulumi's errors for a missing and for a wrong passphrase (pulumi 3.260, run)."""
SET_PASSPHRASE = "Set PULUMI_CONFIG_PASSPHRASE or PULUMI_CONFIG_PASSPHRASE_FILE"


def _failed(stack: str, project: Path, said: str, otherwise: str) -> NotConnectedError:
    why = reason_of(said)
    if NO_STACK in why:
        return NotConnectedError(
            f"Stack {stack} does not exist in your Pulumi backend (check `pulumi stack ls` in {project}). Run `pulumi "
            f"up --stack {stack}`, {otherwise}."
        )
    if LOGGED_OUT in why:
        return NotConnectedError(f"You are not logged in to a Pulumi backend. {LOG_IN}, {otherwise}.")
    fix = SET_PASSPHRASE if NO_PASSPHRASE in why else "Run `pulumi stack ls` to check the login"
    return NotConnectedError(f"cannot read the outputs of stack {stack}: {why}. {fix}, {otherwise}.")
