"""Connects to a stack: through the outputs in Pulumi, or through the user's kubeconfig."""

import argparse
import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from sharing.names import INTERCEPTOR_LABELS, INTERCEPTOR_PORT, KEDA_NAMESPACE, OLLAMA_NAMESPACE, OLLAMA_PORT
from tandem.deployed import kubeconfig
from tandem.deployed.endpoints import Endpoint, NotConnectedError, named
from tandem.deployed.kubeconfig import Chosen
from tandem.deployed.objects import INSTANCE_LABEL
from tandem.deployed.outputs import not_deployed, project_of, stack_outputs
from tandem.deployed.patience import Patience
from tandem.lookup import accepted, stack_file

if TYPE_CHECKING:
    from sharing.models.served import ServedModel
    from stacks.stack_file.judge import Plan
    from tandem.deployed.forwarding import Forward
    from tandem.deployed.kubernetes import Cluster

NO_SERVERS = "No servers given. Pass --url NAME=URL, or a stack, whose ports tandem then forwards."


@dataclass(frozen=True, slots=True)
class Way:
    """How to reach a stack's cluster."""

    chosen: Chosen
    outputs: Mapping[str, Any] | None = None
    """The stack's outputs without secrets; None if Pulumi was not asked."""


@dataclass(frozen=True, slots=True)
class Connected:
    """A deployed stack: its cluster, its accepted stack file, and Pulumi's outputs."""

    cluster: "Cluster"
    plan: "Plan"
    outputs: Mapping[str, Any] | None = None


@contextmanager
def connect(plan: "Plan", way: Way, patience: Patience | None = None) -> Iterator[Connected]:
    """The stack while the block runs; raises `NotConnectedError` if its cluster does not answer.

    Waits while patience lasts for one that may answer soon.
    """
    from tandem.deployed.kubernetes import cluster

    with cluster(way.chosen, patience) as reached:
        yield Connected(reached, plan, way.outputs)


@contextmanager
def forwards(connected: Connected, port: int | None = None) -> Iterator[dict[str, "Forward"]]:
    """A forwarded port for each model, by id: to this port of its pod, or else to the server's.

    Each finds its model's pod again at every connection.
    """
    with ExitStack() as stack:
        yield {
            served.id: stack.enter_context(
                connected.cluster.forward(served.id, OLLAMA_NAMESPACE, {INSTANCE_LABEL: served.id}, port or OLLAMA_PORT)
            )
            for served in connected.plan.config.models
        }


def forward_for_clients(
    connected: Connected, served: "ServedModel", local: int = 0
) -> "AbstractContextManager[Forward]":
    """A forwarded port that counts as a client: its requests wake a model that scales to zero, and keep it awake.

    They pass the interceptor, which knows a model by the host of a request (`components.scaling`).
    """
    if connected.plan.config.scale_to_zero.enabled:
        host = f"{served.id}.{KEDA_NAMESPACE}"
        return connected.cluster.forward(
            served.id, KEDA_NAMESPACE, INTERCEPTOR_LABELS, INTERCEPTOR_PORT, host=host, local=local
        )
    labels = {INSTANCE_LABEL: served.id}
    return connected.cluster.forward(served.id, OLLAMA_NAMESPACE, labels, OLLAMA_PORT, local=local)


@contextmanager
def endpoints(connected: Connected) -> Iterator[list[Endpoint]]:
    """The local address of each model of the stack while the block runs."""
    with forwards(connected) as open_:
        yield [Endpoint(each.id, open_[each.id].url, each.model.name) for each in connected.plan.config.models]


def by_kubeconfig(path: Path, context: str | None) -> Way:
    """The cluster that a kubeconfig names, without Pulumi; raises `NotConnectedError`."""
    return Way(kubeconfig.read(path, context))


def by_pulumi(stack: str, file: Path) -> Way:
    """The cluster that the outputs of `stack` name; its project is the folder of the stack file, or above.

    Raises `NotConnectedError` if Pulumi is missing, or the stack does not exist or is not deployed.
    """
    outputs = stack_outputs(stack, project_of(file))
    text = outputs.pop("kubeconfig", None)
    if not text:
        raise not_deployed(stack)
    text = text if isinstance(text, str) else json.dumps(text)
    return Way(kubeconfig.parse(text, f"the kubeconfig in the outputs of stack {stack}"), outputs)


class Reached(Protocol):
    """A server's local address, and why its last connection failed."""

    url: str
    trouble: str


Reach = Callable[[Connected], AbstractContextManager[Mapping[str, Reached]]]


def trouble_of(way: Reached) -> Callable[[], str]:
    """Returns why the last connection of a forwarded port failed."""
    return lambda: way.trouble


@contextmanager
def reached(parsed: argparse.Namespace, patience: "Patience | None" = None) -> "Iterator[Connected]":
    """The stack that the arguments mean; raises what `tandem.lookup.accepted` raises, and `NotConnectedError`."""
    if parsed.context and parsed.kubeconfig is None:
        raise NotConnectedError("--context selects from a kubeconfig. Pass --kubeconfig FILE, too.")
    plan = accepted(parsed.stack)
    if parsed.kubeconfig is not None:
        way = by_kubeconfig(Path(parsed.kubeconfig), parsed.context)
    else:
        way = by_pulumi(plan.stack, stack_file(parsed.stack))
    with connect(plan, way, patience) as connected:
        yield connected


@contextmanager
def connected(parsed: argparse.Namespace) -> Iterator[list[Endpoint]]:
    """The endpoints in the arguments of `add_servers`, while the block runs.

    Raises `NotConnectedError` if they are missing or wrong.
    """
    if parsed.url:
        yield named(parsed.url, parsed.model)
    elif parsed.stack:
        # Through ports forwarded while the block runs.
        with reached(parsed) as cluster, endpoints(cluster) as forwarded:
            yield forwarded
    else:
        raise NotConnectedError(NO_SERVERS)
