"""Traces of a failed or killed `up` in Pulumi's state: no call to AWS shows them."""

import json
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from tandem.deployed.outputs import (
    LOG_IN,
    LOGGED_OUT,
    NO_PASSPHRASE,
    NO_STACK,
    PULUMI_SECONDS,
    SET_PASSPHRASE,
    reason_of,
    run_pulumi,
)
from tandem.doctor.case import ADDON, NODE_GROUP, NOT_DEPLOYED, Case
from tandem.doctor.finding import Finding, ok, warning
from tandem.terminal import CallError

INSTALL = "Install Pulumi: https://www.pulumi.com/docs/install/"
SEE_LOGIN = "Run `pulumi stack ls` to check the login and the stack."
REPLACED = (NODE_GROUP, ADDON)
"""Types that the program replaces after a failure (`replace_on_changes` with `#initerror`)."""


class StateError(CallError):
    """Pulumi does not show the state; the message has the reason and the fix."""


@dataclass(frozen=True, slots=True)
class State:
    """Failures in the state."""

    deployed: bool
    failed: tuple[str, ...] = ()
    """URNs whose creation or last update failed, of types that the next `up` replaces for it."""
    unfinished: tuple[str, ...] = ()
    """Operations that a killed `up` left unfinished, e.g. `creating tandem-gpu-group`."""


def read_state(case: Case) -> State:
    """Asks Pulumi, which needs no decryption for it; raises `StateError`."""
    program = shutil.which("pulumi")
    if program is None:
        raise StateError(f"`pulumi` is not on the PATH, so the state cannot be read. {INSTALL}")
    try:
        done = run_pulumi([program, "stack", "export"], case.planned_stack.name, case.project)
    except subprocess.TimeoutExpired:
        raise StateError(f"`pulumi stack export` did not answer within {PULUMI_SECONDS} s. {SEE_LOGIN}") from None
    if done.returncode:
        why = reason_of(done.stderr)
        if NO_STACK in why:
            return State(deployed=False)
        if LOGGED_OUT in why:
            raise StateError(f"you are not logged in to a Pulumi backend. {LOG_IN}.")
        if NO_PASSPHRASE in why:
            raise StateError(f"the state's passphrase is missing or wrong. {SET_PASSPHRASE}.")
        raise StateError(f"Pulumi cannot show the state: {why}. {SEE_LOGIN}")
    try:
        return _parse(json.loads(done.stdout)["deployment"])
    except (ValueError, KeyError, TypeError, AttributeError):
        raise StateError(f"`pulumi stack export` printed no state. {SEE_LOGIN}") from None


def _parse(deployment: Any) -> State:
    """The keys are those of pulumi, sdk/go/common/apitype/core.go, DeploymentV3 and ResourceV3."""
    resources = deployment.get("resources") or []
    failed = [str(each["urn"]) for each in resources if each.get("initErrors") and each["type"] in REPLACED]
    unfinished = [
        f"{each['type']} {str(each['resource']['urn']).rpartition('::')[2]}"
        for each in deployment.get("pending_operations") or []
    ]
    return State(deployed=bool(resources), failed=tuple(failed), unfinished=tuple(unfinished))


def check_state(case: Case) -> Iterator[Finding]:
    """No node group or add-on failed in the last `up`, and no operation is unfinished."""
    state = read_state(case)
    stack = case.planned_stack.name
    for urn in state.failed:
        # The engine has the same mark after a failed creation and after a failed update.
        replaces = "reinstalls it" if ADDON in urn else "replaces it"
        yield warning(
            f"{urn.rpartition('::')[2]}: its creation or last update failed, and the next `up` {replaces}",
            f"To keep an ACTIVE one and finish the update: pulumi up --refresh --stack {stack}",
        )
    if state.unfinished:
        yield warning(
            f"an `up` was killed, or is still running: {', '.join(state.unfinished)}",
            f"pulumi refresh --stack {stack}",
        )
    if not state.failed and not state.unfinished:
        yield ok("no failed resource, no unfinished operation" if state.deployed else NOT_DEPLOYED)
