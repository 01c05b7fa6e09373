"""The way to a stack: through the outputs that Pulumi keeps, or through a kubeconfig of one's own."""

import argparse
import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from tandem.arguments import accepted, stack_file
from tandem.deployed import kubeconfig
from tandem.deployed.endpoints import Endpoint, NotConnectedError, named
from tandem.deployed.kubeconfig import Chosen
from tandem.deployed.objects import INSTANCE_LABEL
from tandem.deployed.outputs import project_of, stack_outputs
from tandem.deployed.patience import Patience
from tandem.planned.promise import Promise

if TYPE_CHECKING:
    from tandem.deployed.forwarding import Forward
    from tandem.deployed.kubernetes import Cluster

NO_SERVERS = "name the servers with --url NAME=URL, or a stack, whose ports are then forwarded"


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
    from tandem.deployed.kubernetes import cluster

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


class Reached(Protocol):
    """A server's address here, and why it did not answer last."""

    url: str
    trouble: str


Reach = Callable[[Connected], AbstractContextManager[Mapping[str, Reached]]]


def trouble_of(way: Reached) -> Callable[[], str]:
    """Asks a forwarded port why it did not answer last."""
    return lambda: way.trouble


@contextmanager
def reached(parsed: argparse.Namespace, patience: "Patience | None" = None) -> "Iterator[Connected]":
    """The stack that the arguments mean; raises what `tandem.arguments.accepted` raises, and `NotConnectedError`."""
    if parsed.context and parsed.kubeconfig is None:
        raise NotConnectedError("--context chooses in a kubeconfig: give --kubeconfig FILE as well.")
    judged = accepted(parsed.stack)

    from tandem.planned.promise import promised

    promise = promised(judged)
    if parsed.kubeconfig is not None:
        way = by_kubeconfig(Path(parsed.kubeconfig), parsed.context)
    else:
        way = by_pulumi(judged.stack, stack_file(parsed.stack))
    with connect(promise, way, patience) as connected:
        yield connected


@contextmanager
def connected(parsed: argparse.Namespace) -> Iterator[list[Endpoint]]:
    """The endpoints that a call of `add_servers`'s arguments means, for as long as the block runs.

    Raises `NotConnectedError` where the call does not say, or says it wrongly.
    """
    if parsed.url:
        yield named(parsed.url, parsed.model)
    elif parsed.stack:
        # Through ports that are forwarded for as long as the block runs.
        with reached(parsed) as cluster, endpoints(cluster) as found:
            yield found
    else:
        raise NotConnectedError(NO_SERVERS)
