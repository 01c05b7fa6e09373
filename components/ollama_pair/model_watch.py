"""Runs beside an Ollama server, as a native sidecar: has its model lost the GPU?

Shipped to the cluster as it is, so it needs nothing but Python's standard library. Only an error that the server
reports for the model counts as lost. A timeout, a 503, a refused connection or a wait in the queue means busy.

It shares a folder with the server's container. There `started`, which `model_start.sh` writes, says that the model was
loaded; `ready` is what the sidecar's readiness probe looks for; `lost` asks `model_start.sh` to end the server.

Environment: MODEL (name), CONTEXT (its context length), SERVER (URL), DIRECTORY (the shared folder), PERIOD_SECONDS,
RETRY_SECONDS (after an error), LOAD_SECONDS and TOKEN_SECONDS (for an answer), IDLE_SECONDS (see `Watch.look`).
"""

import json
import os
import signal
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from http.client import HTTPException
from pathlib import Path
from typing import Any

ERRORS = 3
"""Errors in a row, with no answer between them, after which the server has to start again."""
STILL_BUSY = ("no slots available", "not responding", "timed out")
"""Words of errors that say the runner is alive, or that nobody knows (ollama v0.32.15 llm/llama_server.go)."""
SETTLE_SECONDS = 1
"""Time for the server to note the end of a request."""


class ModelError(Exception):
    """The server reports an error for the model."""


class BusyError(Exception):
    """The server gives no answer now, which says nothing of the model."""


class Server:
    """The Ollama server."""

    def __init__(self, url: str, model: str) -> None:
        self._url, self._model = url, model

    def loaded(self) -> list[dict[str, Any]]:
        """The models in memory, as `/api/ps` lists them. Raises `BusyError`."""
        models: list[dict[str, Any]] = self._ask("/api/ps", None, 10).get("models") or []
        return models

    def load(self, seconds: float) -> None:
        """Checks that the model's runner is alive, and starts one if not. It takes no slot and touches no cache.

        A generate request without a prompt; the scheduler pings the runner first (ollama v0.32.15 server/sched.go,
        needsReload). Without options and keep_alive, it changes neither.
        """
        self._ask("/api/generate", {"model": self._model, "stream": False}, seconds)

    def say_a_token(self, seconds: float) -> None:
        """Uses the GPU for one token. It waits for a slot, and its prompt takes the place of the slot's cached one."""
        asked = {"model": self._model, "prompt": "a", "raw": True, "stream": False, "options": {"num_predict": 1}}
        self._ask("/api/generate", asked, seconds)

    def _ask(self, path: str, body: Mapping[str, Any] | None, seconds: float) -> dict[str, Any]:
        data = None if body is None else json.dumps(body).encode()
        try:
            with urllib.request.urlopen(self._url + path, data, seconds) as answer:
                found = json.load(answer)
        except urllib.error.HTTPError as error:
            # 500 is what the scheduler and the runner answer with; 503 a full queue, 404 a missing model, 499 a client
            # that left (server/routes.go, handleScheduleError).
            message = reported(error)
            if error.code == 500 and message and not any(words in message for words in STILL_BUSY):
                raise ModelError(message) from None
            raise BusyError(f"HTTP {error.code}") from None
        except (OSError, HTTPException, ValueError) as error:
            raise BusyError(str(error)) from None
        return found if isinstance(found, dict) else {}


def reported(answer: urllib.error.HTTPError) -> str:
    """The error that an answer names, printable and short; empty where it names none."""
    try:
        message = str(json.load(answer)["error"])
    except (OSError, HTTPException, ValueError, KeyError, TypeError):
        return ""
    return "".join(one if one.isprintable() else " " for one in message)[:500]


class Watch:
    """Looks at the model now and then, and keeps the files of the shared folder."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._server = Server(environment["SERVER"], environment["MODEL"])
        self._context, self._model = int(environment["CONTEXT"]), environment["MODEL"]
        self._folder = Path(environment["DIRECTORY"])
        self._load, self._token = float(environment["LOAD_SECONDS"]), float(environment["TOKEN_SECONDS"])
        self._idle = float(environment["IDLE_SECONDS"])
        self._errors = 0
        self._expires: Any = None
        """What `/api/ps` said after our last request: a client's request changes it."""
        self._used_at = time.monotonic()

    @property
    def has_errors(self) -> bool:
        """Whether the last answer was an error."""
        return self._errors > 0

    def look(self) -> None:
        """One look. The GPU is used only when no client has used the model for a while, or after an error: a client's
        next request finds its prompt in the cache, and its own answers show that the GPU is there.
        """
        if not (self._folder / "started").exists():
            self._errors = 0
            self._set_ready(False)
            return
        try:
            if self._is_someone_elses():
                return
            self._server.load(self._load)
            if self._errors or time.monotonic() - self._used_at >= self._idle:
                self._server.say_a_token(self._token)
            self._errors = 0
            self._set_ready(True)
        except BusyError as busy:
            print(f"no answer from {self._model}: {busy}; it counts as busy", flush=True)
            self._set_ready(not self._errors)
        except ModelError as error:
            self._lost(str(error))

    def settle(self) -> None:
        """Notes what `/api/ps` says after our own request."""
        try:
            self._expires = self._entry(self._server.loaded()).get("expires_at")
        except BusyError:
            self._expires = None

    def _is_someone_elses(self) -> bool:
        """Whether asking would put another model, or another setting of a client, out of memory."""
        loaded = self._server.loaded()
        if loaded and self._entry(loaded).get("expires_at") != self._expires:
            self._used_at = time.monotonic()
        return bool(loaded) and self._entry(loaded).get("context_length") != self._context

    def _entry(self, loaded: list[dict[str, Any]]) -> dict[str, Any]:
        return next((one for one in loaded if self._model in (one.get("name"), one.get("model"))), {})

    def _lost(self, error: str) -> None:
        self._errors += 1
        self._set_ready(False)
        print(f"{self._model} has lost its GPU ({self._errors} of {ERRORS}): {error}", flush=True)
        if self._errors >= ERRORS:
            (self._folder / "started").unlink(missing_ok=True)
            (self._folder / "lost").write_text(f"{self._model} failed {ERRORS} times in a row: {error}\n")

    def _set_ready(self, is_ready: bool) -> None:
        if is_ready:
            (self._folder / "ready").touch()
        else:
            (self._folder / "ready").unlink(missing_ok=True)


def main(environment: Mapping[str, str]) -> None:
    """Looks until the pod ends."""
    # As process 1 it would ignore the signal, and hold up the pod's end.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    watch, settle = Watch(environment), min(SETTLE_SECONDS, float(environment["RETRY_SECONDS"]))
    while True:
        watch.look()
        time.sleep(settle)
        watch.settle()
        time.sleep(float(environment["RETRY_SECONDS" if watch.has_errors else "PERIOD_SECONDS"]))


if __name__ == "__main__":
    main(os.environ)
