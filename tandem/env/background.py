"""Starts, finds and ends the process that keeps the ports of a stack open."""

import argparse
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path

from tandem.deployed.wire import Wire, WireError
from tandem.env.record import Place, Record
from tandem.lookup import accepted, existing, find_served_model
from tandem.terminal import USAGE, CallError, status

WAIT_SECONDS, PAUSE_SECONDS = 180.0, 0.2
"""How long another call may take to open the ports: `pulumi stack output` alone has two minutes."""
END_SECONDS = 10.0
"""How long the process may take to end, before it is killed."""
ANSWER_SECONDS = 30.0
"""A forwarded port looks for its pod for up to 20 s."""


class NotStartedError(CallError):
    """The process ended before its ports were open; the text has its reason."""

    def __init__(self, text: str, code: int) -> None:
        super().__init__(text)
        self.exit_code = code  # type: ignore[misc]  # that of the process


def start(parsed: argparse.Namespace) -> Record:
    """The open ports: of the process that runs already, if it serves the stack file as it is now, or else of a new one.

    Raises `NotStartedError`, and what `accepted` and `find_served_model` raise.
    """
    plan = accepted(parsed.stack)
    find_served_model(plan, parsed.model)
    place = Place(parsed.stack)
    kubeconfig = str(Path(parsed.kubeconfig).absolute()) if parsed.kubeconfig else None
    running = _running(place)
    if running and running.serves(plan.config.models, kubeconfig, parsed.context):
        return running
    if running:
        _end(place, running)
    with status(f"Opening the ports of stack {plan.stack}"):
        try:
            return _spawn(parsed, place)
        except NotStartedError:
            # Another call may have been faster.
            if found := _running(place):
                return found
            raise


def stop(parsed: argparse.Namespace) -> bool:
    """Closes the ports; returns whether they were open. Raises `CallError` if their process is not known."""
    place = Place(parsed.stack)
    running = _running(place)
    if running:
        _end(place, running)
    return running is not None


def answers(url: str) -> bool:
    """Whether a server answers behind a port, whatever it says."""
    with closing(Wire(url)) as wire, suppress(WireError):
        wire.get("/api/version", ANSWER_SECONDS)
        return True
    return False


def _running(place: Place, sleep: Callable[[float], None] = time.sleep) -> Record | None:
    """The record of the process that runs, with its ports; None if none runs. Waits for one that still connects."""
    record = None
    for _ in range(round(WAIT_SECONDS / PAUSE_SECONDS)):
        if not place.is_held():
            return None
        record = place.read()
        if record and record.ports:
            return record
        sleep(PAUSE_SECONDS)
    who = f"Process {record.pid}" if record else f"The process that has {place.lock_path} open"
    raise CallError(f"{who} opens no ports for stack {place.stack}. End it, and run the command again.")


def _spawn(parsed: argparse.Namespace, place: Place) -> Record:
    """Starts the process; returns when its ports are open."""
    words = [str(existing(parsed.stack).absolute()), "--foreground", "--json"]
    for option in ("kubeconfig", "context"):
        if (value := getattr(parsed, option)) is not None:
            words += [f"--{option}", str(Path(value).absolute()) if option == "kubeconfig" else value]
    with place.log.open("wb") as log:
        os.fchmod(log.fileno(), 0o600)
        # A session of its own: neither Ctrl-C nor the end of the terminal reaches it.
        process = subprocess.Popen(
            [sys.executable, "-m", "tandem", "env", *words],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=log,
            start_new_session=True,
        )
    assert process.stdout
    try:
        # One line: the open ports, or an error.
        line = process.stdout.readline()
    except BaseException:
        process.terminate()
        raise
    process.stdout.close()
    record, said = place.read(), _error_in(line)
    if line and not said and record and record.pid == process.pid:
        process.returncode = 0  # it outlives this command
        return record
    code = process.wait()
    # An exit code below 0 is the signal that ended it.
    raise NotStartedError(said or f"the ports were not opened. See why in {place.log}.", code if code > 0 else USAGE)


def _error_in(line: bytes) -> str:
    try:
        return str(json.loads(line).get("error", ""))
    except ValueError:
        return ""


def _end(place: Place, running: Record) -> None:
    """Ends the process, which has the lock: so its number is still its own."""
    for number, seconds in ((signal.SIGTERM, END_SECONDS), (signal.SIGKILL, END_SECONDS)):
        with suppress(ProcessLookupError):
            os.kill(running.pid, number)
        for _ in range(round(seconds / PAUSE_SECONDS)):
            if not place.is_held():
                return
            time.sleep(PAUSE_SECONDS)
    raise CallError(f"process {running.pid} does not end. End it yourself, for example with `kill {running.pid}`.")
