"""Keeps the ports of a stack open in this process."""

import argparse
import datetime
import os
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, ExitStack, suppress
from pathlib import Path

from sharing.files import lock
from sharing.models.served import ServedModel
from tandem.deployed.connection import Connected, Reached, forward_for_clients, reached
from tandem.deployed.endpoints import NotConnectedError
from tandem.env.record import Place, Port, Record
from tandem.terminal import CallError, print_line

CHECK_SECONDS = 5.0
CHECKS_PER_QUESTION = 12
"""The cluster is asked for its version once a minute."""
MOST_UNANSWERED = 30
"""Questions without an answer after which the cluster counts as gone: 30 minutes in which the machine was awake."""
LOCK_ATTEMPTS, LOCK_PAUSE_SECONDS = 20, 0.1
"""Another call has the lock for a moment when it asks whether there is a process."""


def keep_open(parsed: argparse.Namespace, opened: Callable[[Record], None]) -> None:
    """Opens a port for each model, calls `opened`, and returns at Ctrl-C.

    Raises `CallError` if another process has the ports, and `NotConnectedError`, also for a cluster that has not
    answered for long.
    """
    place = Place(parsed.stack)
    with _lock(place), ExitStack() as stack:
        before = place.read()
        kubeconfig = str(Path(parsed.kubeconfig).absolute()) if parsed.kubeconfig else None
        record = Record(
            stack=place.stack,
            pid=os.getpid(),
            kubeconfig=kubeconfig,
            context=parsed.context,
            log=str(place.log),
            ports=(),
        )
        place.write(record)
        connected = stack.enter_context(reached(parsed))
        models = connected.plan.config.models
        forwards = {served.id: _open(stack, connected, served, before) for served in models}
        ports = tuple(Port(id=one.id, model=one.model.name, url=forwards[one.id].url) for one in models)
        record = record.model_copy(update={"ports": ports})
        place.write(record)
        opened(record)
        try:
            watch(connected, forwards)
        except KeyboardInterrupt:
            return


def _lock(place: Place) -> AbstractContextManager[object]:
    for _ in range(LOCK_ATTEMPTS):
        try:
            return lock(place.lock_path, mode=0o600)
        except BlockingIOError:
            time.sleep(LOCK_PAUSE_SECONDS)
    raise CallError(
        f"another process has the ports of stack {place.stack}. Run `tandem env {place.stack}` to use them, or "
        f"`tandem env {place.stack} --stop` first."
    )


def _open(stack: ExitStack, connected: Connected, served: ServedModel, before: Record | None) -> Reached:
    """The port that the model had before, so that shells with its variables still find it; or else a free one."""
    wanted = [port.number for port in before.ports if port.id == served.id] if before else []
    for local in wanted:
        with suppress(CallError):  # in use
            return stack.enter_context(forward_for_clients(connected, served, local))
    return stack.enter_context(forward_for_clients(connected, served))


def watch(
    connected: Connected, forwards: Mapping[str, Reached], *, sleep: Callable[[float], None] = time.sleep
) -> None:
    """Writes to the log why a model cannot be reached, once for each reason.

    Raises `NotConnectedError` when the cluster has not answered for long.
    """
    last: dict[str, str] = {}
    unanswered = 0
    while True:
        for _ in range(CHECKS_PER_QUESTION):
            sleep(CHECK_SECONDS)
            for id, forward in forwards.items():
                if forward.trouble != last.get(id, ""):
                    last[id] = forward.trouble
                    _log(forward.trouble or f"{id} answers again")
        try:
            connected.cluster.read("/version")
            unanswered = 0
        except NotConnectedError as error:
            unanswered += 1
            _log(str(error))
            if unanswered == MOST_UNANSWERED:
                raise NotConnectedError(
                    f"the cluster has not answered for {MOST_UNANSWERED} minutes, so its ports are closed. Run "
                    f"`tandem env {connected.plan.stack}` to open them again."
                ) from None


def _log(text: str) -> None:
    print_line(f"{datetime.datetime.now():%Y-%m-%d %H:%M:%S} {text}", sys.stderr)
