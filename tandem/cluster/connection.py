"""The way to a stack: through the outputs that Pulumi keeps, or through a kubeconfig of one's own."""

import json
import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sharing.printable import one_line
from tandem.cluster import kubeconfig
from tandem.cluster.kubeconfig import Chosen
from tandem.cluster.objects import INSTANCE_LABEL
from tandem.cluster.patience import Patience
from tandem.cluster.promise import Promise
from tandem.connection import Endpoint, NotConnectedError

if TYPE_CHECKING:
    from tandem.cluster.forwarding import Forward
    from tandem.cluster.kubernetes import Cluster

PULUMI_SECONDS = 120
WITHOUT_PULUMI = "or name the cluster: --kubeconfig FILE (`aws eks update-kubeconfig` writes one)"


@dataclass(frozen=True, slots=True)
class Way:
    """How to reach a stack's cluster."""

    chosen: Chosen
    outputs: Mapping[str, Any] | None = None
    """The stack's outputs without its secrets; None where Pulumi was not asked."""


@dataclass(frozen=True, slots=True)
class Connected:
    """A stack that is up: its cluster, what it promises, and what Pulumi says it deployed."""

    cluster: "Cluster"
    promise: Promise
    outputs: Mapping[str, Any] | None = None


@contextmanager
def connect(promise: Promise, way: Way, patience: Patience | None = None) -> Iterator[Connected]:
    """The stack while the block runs; raises `NotConnectedError` where its cluster does not answer.

    One that may answer in a minute is waited for while patience lasts.
    """
    from tandem.cluster.kubernetes import cluster

    with cluster(way.chosen, patience) as reached:
        yield Connected(reached, promise, way.outputs)


@contextmanager
def forwards(connected: Connected) -> Iterator[dict[str, "Forward"]]:
    """A forwarded port for each model, by id. Each finds its model's pod anew at every connection."""
    with ExitStack() as stack:
        yield {
            model.id: stack.enter_context(
                connected.cluster.forward(model.id, model.namespace, {INSTANCE_LABEL: model.id}, model.port)
            )
            for model in connected.promise.models
        }


@contextmanager
def endpoints(connected: Connected) -> Iterator[list[Endpoint]]:
    """Where each model of the stack answers on this machine while the block runs."""
    with forwards(connected) as open_:
        yield [Endpoint(model.id, open_[model.id].url, model.tag) for model in connected.promise.models]


def by_kubeconfig(path: Path, context: str | None) -> Way:
    """The cluster that a kubeconfig names, without Pulumi; raises `NotConnectedError`."""
    return Way(kubeconfig.read(path, context))


def by_pulumi(stack: str, file: Path) -> Way:
    """The cluster that the outputs of `stack` name; its project is the folder of the stack file, or above.

    Raises `NotConnectedError` where there is no Pulumi, no such stack, or where it is not up.
    """
    outputs = stack_outputs(stack, project_of(file))
    text = outputs.pop("kubeconfig", None)
    if not text:
        raise NotConnectedError(f"stack {stack} is not up: it has no outputs. `pulumi up --stack {stack}` first.")
    text = text if isinstance(text, str) else json.dumps(text)
    return Way(kubeconfig.parse(text, f"the kubeconfig in the outputs of stack {stack}"), outputs)


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
    command = [program, "stack", "output", "--json", *shown, "--stack", stack, "--non-interactive"]
    environment = {**os.environ, "PULUMI_SKIP_UPDATE_CHECK": "true"}
    try:
        done = subprocess.run(
            command,
            cwd=project,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=PULUMI_SECONDS,
        )
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


def _told_by_pulumi(stack: str, project: Path, said: str, otherwise: str) -> NotConnectedError:
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    why = next((line for line in lines if line.startswith("error:")), lines[-1] if lines else "it gave no reason")
    why = one_line(why.removeprefix("error:")).rstrip(".")
    if "no stack named" in why:
        return NotConnectedError(
            f"there is no stack {stack} in the backend that you are logged in to (`pulumi stack ls` in {project} "
            f"lists them). `pulumi up --stack {stack}` makes it, {otherwise}."
        )
    return NotConnectedError(f"cannot read the outputs of stack {stack}: {why}. Run `pulumi login`, {otherwise}.")
