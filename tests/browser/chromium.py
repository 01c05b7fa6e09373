"""A headless Chromium, by the pipe of its DevTools protocol (chromedevtools.github.io/devtools-protocol)."""

import base64
import itertools
import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

VARIABLE = "TANDEM_BROWSER"
NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
OPTIONS = ("--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--remote-debugging-pipe")
WAITS, PAUSE_MS = 600, 50
"""How often to look whether a page has changed, and how long to wait between."""
FINDINGS = """({
  width: document.documentElement.scrollWidth,
  broken: [...document.images].filter(one => !one.complete || !one.naturalWidth).map(one => one.src),
})"""


def find_browser() -> str | None:
    """The browser that the variable names, or else one of the PATH."""
    found = (shutil.which(name) for name in (os.environ.get(VARIABLE), *NAMES) if name)
    return next((path for path in found if path), None)


@dataclass
class Visit:
    """What became of a page."""

    width: int = 0
    """Of its content; more than the window's width means that it scrolls sideways."""
    broken: list[str] = field(default_factory=list)
    """Images that did not load."""
    errors: list[str] = field(default_factory=list)
    """Of the console, of scripts and of requests."""
    requested: list[str] = field(default_factory=list)
    """Every address."""


class Browser:
    """One tab. Use `opened_browser`."""

    def __init__(self, to_browser: int, from_browser: int) -> None:
        self._writer = open(to_browser, "wb", buffering=0)  # noqa: SIM115
        self._reader = open(from_browser, "rb")  # noqa: SIM115
        self._numbers = itertools.count(1)
        self._session = ""
        self._events: list[dict[str, Any]] = []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        """Calls a method of the protocol and returns its result."""
        number = next(self._numbers)
        message = {"id": number, "method": method, "params": params}
        if self._session:
            message["sessionId"] = self._session
        self._writer.write(json.dumps(message).encode() + b"\0")
        while (received := self._receive()).get("id") != number:
            pass
        if "error" in received:
            raise RuntimeError(f"{method}: {received['error']['message']}")
        result: dict[str, Any] = received["result"]
        return result

    def visit(self, url: str, *, width: int, height: int = 900, dark: bool = False) -> Visit:
        """Opens a page in a window of that size, and waits until it and its images are there."""
        self.call(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 600
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])
        self._events.clear()
        self.call("Page.navigate", url=url)
        while not any(event["method"] == "Page.loadEventFired" for event in self._events):
            self._receive()
        found = self.call("Runtime.evaluate", expression=FINDINGS, returnByValue=True)["result"]["value"]
        visit = Visit(**found)
        for event in self._events:
            _note(visit, event["method"], event["params"])
        return visit

    def evaluate(self, expression: str) -> Any:
        """The value of a JavaScript expression in the page; raises `RuntimeError` if it throws."""
        done = self.call("Runtime.evaluate", expression=expression)
        if "exceptionDetails" in done:
            raise RuntimeError(done["result"].get("description", done["exceptionDetails"]["text"]))
        return done["result"].get("value")

    def wait_for(self, condition: str) -> None:
        """Waits until a JavaScript expression is true; raises `TimeoutError` after half a minute."""
        pause = f"new Promise(done => setTimeout(done, {PAUSE_MS}))"
        for _ in range(WAITS):
            if self.evaluate(f"!!({condition})"):
                return
            self.call("Runtime.evaluate", expression=pause, awaitPromise=True)
        raise TimeoutError(f"{condition}, in a page with: {self.evaluate('document.body.innerText')}")

    def type(self, selector: str, text: str) -> None:
        """Types into an element as a user does."""
        self.evaluate(f"document.querySelector({json.dumps(selector)}).focus()")
        self.call("Input.insertText", text=text)

    def screenshot(self, form: str = "webp") -> bytes:
        """The window as WebP or PNG."""
        quality = {"quality": 70} if form == "webp" else {}
        return base64.b64decode(self.call("Page.captureScreenshot", format=form, **quality)["data"])

    def _receive(self) -> dict[str, Any]:
        letters = iter(lambda: self._reader.read(1), b"\0")
        message: dict[str, Any] = json.loads(b"".join(letter or _ended() for letter in letters))
        if "method" in message:
            self._events.append(message)
        return message


def _ended() -> bytes:
    raise EOFError("the browser ended")


def _note(visit: Visit, method: str, params: dict[str, Any]) -> None:
    match method:
        case "Runtime.consoleAPICalled" if params["type"] in ("error", "warning"):
            visit.errors.append(str([arg.get("value") for arg in params["args"]]))
        case "Runtime.exceptionThrown":
            visit.errors.append(params["exceptionDetails"]["text"])
        case "Log.entryAdded" if params["entry"]["level"] == "error":
            visit.errors.append(params["entry"]["text"])
        case "Network.requestWillBeSent":
            visit.requested.append(params["request"]["url"])


@contextmanager
def opened_browser(program: str, profile: Path) -> Iterator[Browser]:
    """Starts the browser with an empty profile, and ends it."""
    # The browser reads from 3 and writes to 4.
    theirs_in, ours_out = os.pipe()
    ours_in, theirs_out = os.pipe()
    shell = f'exec "$@" 3<&{theirs_in} 4>&{theirs_out}'
    command = ["bash", "-c", shell, "bash", program, *OPTIONS, f"--user-data-dir={profile}"]
    process = subprocess.Popen(command, pass_fds=(theirs_in, theirs_out), stderr=subprocess.DEVNULL)
    os.close(theirs_in)
    os.close(theirs_out)
    try:
        yield Browser(ours_out, ours_in)
    finally:
        process.terminate()
        process.wait()
