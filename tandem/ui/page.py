"""Forwards a port to the web page, waits until it answers, and opens it."""

import argparse
import sys
import webbrowser
from contextlib import closing, suppress
from time import sleep
from typing import TYPE_CHECKING

from sharing.names import UI_LABELS, UI_NAMESPACE, UI_PORT
from tandem.deployed.connection import reached
from tandem.deployed.endpoints import NotConnectedError
from tandem.deployed.patience import Patience
from tandem.deployed.wire import Wire, WireError
from tandem.lookup import accepted
from tandem.terminal import CallError, print_json, print_line, progress

if TYPE_CHECKING:
    from tandem.deployed.connection import Reached

START_SECONDS = 330.0
"""How long to wait for the page: its startup probe gives it 300 s (`components.open_webui`)."""
ANSWER_SECONDS = 10.0
HEALTH, FINE_STATUS = "/health", 200
"""The answer is `{"status": true}` (Open WebUI 0.11.4, main.py)."""
SCHEMA_VERSION = 1
API = "/api"
"""Below it are `/models` and `/chat/completions`, as in OpenAI's API (Open WebUI 0.11.4, main.py)."""
CHECK_SECONDS = 1.0


def show(parsed: argparse.Namespace) -> None:
    """Opens the page, and keeps its port until Ctrl-C.

    Raises `CallError` for a stack without a page or a port in use, and `NotConnectedError`.
    """
    plan = accepted(parsed.stack)
    if not plan.config.ui.enabled:
        raise CallError(
            f"stack {plan.stack} has no web page. Add `tandem:ui: {{enabled: true, admin-email: you@example.com}}` to "
            f"its file, and run `pulumi up --stack {plan.stack}`."
        )
    with (
        reached(parsed) as connected,
        connected.cluster.forward("the web page", UI_NAMESPACE, UI_LABELS, UI_PORT, local=parsed.port) as forward,
    ):
        with progress(quiet=parsed.json) as tell:
            wait_for_page(forward, Patience(START_SECONDS, tell=tell))
        _present(plan.stack, forward.url, parsed)
        with suppress(KeyboardInterrupt):
            report_troubles(forward)


def wait_for_page(forward: "Reached", patience: Patience) -> None:
    """Returns when the page answers; raises `NotConnectedError` when patience ends."""
    with closing(Wire(forward.url)) as wire:
        while True:
            try:
                code, _ = wire.get(HEALTH, ANSWER_SECONDS)
                why = "" if code == FINE_STATUS else f"it answers {HEALTH} with {code}"
            except WireError as error:
                why = forward.trouble or str(error)
            if not why:
                return
            if not patience.lasts(f"Waiting for the page: {why}"):
                raise NotConnectedError(
                    f"the web page does not answer: {why}. See why with "
                    f"`kubectl --namespace {UI_NAMESPACE} describe pods`."
                )


def _present(stack: str, url: str, parsed: argparse.Namespace) -> None:
    """Prints the addresses, and opens the first one in the browser."""
    api = f"{url}{API}"
    if parsed.json:
        print_json({"schema_version": SCHEMA_VERSION, "stack": stack, "url": url, "openai_url": api}, compact=True)
        return
    for line in (
        f"Page      {url}",
        f"Password  pulumi stack output ui_admin_password --show-secrets --stack {stack}",
        f"OpenAI    {api} (base URL for programs; keys: Settings > Account)",
        "Press Ctrl-C to close the port.",
    ):
        print_line(line, sys.stdout)
    sys.stdout.flush()
    if not parsed.no_browser and not webbrowser.open(url):
        print_line("No browser found. Open the address yourself.", sys.stderr)


def report_troubles(forward: "Reached") -> None:
    """Says on stderr why the page cannot be reached, once for each reason, until Ctrl-C."""
    last = ""
    while True:
        sleep(CHECK_SECONDS)
        if forward.trouble != last:
            last = forward.trouble
            print_line(last or "The page answers again.", sys.stderr)
