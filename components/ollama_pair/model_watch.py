"""Runs next to an Ollama server, as a native sidecar, and checks whether the model still has its GPU.

It runs in the cluster and uses only Python's standard library. A model counts as lost only if the server reports an
error for it. A timeout, a 503, a refused connection or a wait in the queue means that the server is busy.

Sidecar and server share a folder with four files:

- `started`: `model_start.sh` writes it once the model is loaded.
- `ready`: the sidecar's readiness probe checks for it.
- `lost`: asks `model_start.sh` to stop the server.
- `mps`: only under MPS. `model_start.sh` touches it every two seconds while the MPS daemon is the one under which the
  model was loaded. The sidecar does not look itself, because the device plugin mounts the directory of its daemon only
  into the container with the share (docs/decisions/0153). If the file becomes old, the sidecar unloads the model.

Environment: MODEL (name), CONTEXT (its context length), SERVER (URL), DIRECTORY (the shared folder), PERIOD_SECONDS,
RETRY_SECONDS (after an error), LOAD_SECONDS and TOKEN_SECONDS (for a reply), IDLE_SECONDS (see `Watch.look`).
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
"""Number of consecutive errors after which the server is restarted."""
STILL_BUSY = ("no slots available", "not responding", "timed out")
"""Parts of errors which mean that the runner is alive or unknown (ollama v0.32.15 llm/llama_server.go)."""
MPS_SECONDS = 60
"""Age of the file `mps` from which on the model may be outside MPS. Questions to a slow daemon take 40 seconds."""
SETTLE_SECONDS = 1
"""Time in which the server registers the end of a request."""


class ModelError(Exception):
    """The server reports an error for the model."""


class BusyError(Exception):
    """The server gives no usable reply now. That says nothing about the model."""


class Server:
    """A client of the Ollama server."""

    def __init__(self, url: str, model: str) -> None:
        self._url, self._model = url, model

    def loaded(self) -> list[dict[str, Any]]:
        """The models in memory, as `/api/ps` lists them. Raises `BusyError` or `ModelError`."""
        models: list[dict[str, Any]] = self._ask("/api/ps", None, 10).get("models") or []
        return models

    def load(self, seconds: float) -> None:
        """Checks that the model's runner is alive, and starts one if it is not. It uses no slot and no cache.

        It sends a generate request without a prompt, for which the scheduler first pings the runner (ollama v0.32.15
        server/sched.go, needsReload). The request leaves options and keep_alive unchanged, because it has neither.
        """
        self._ask("/api/generate", {"model": self._model, "stream": False}, seconds)

    def say_a_token(self, seconds: float) -> None:
        """Generates one token on the GPU. It waits for a slot, and its prompt replaces the slot's cached prompt."""
        request = {"model": self._model, "prompt": "a", "raw": True, "stream": False, "options": {"num_predict": 1}}
        self._ask("/api/generate", request, seconds)

    def unload(self) -> None:
        """Ends the model's process (ollama v0.32.15 server/routes.go: an empty prompt and a keep_alive of 0)."""
        self._ask("/api/generate", {"model": self._model, "stream": False, "keep_alive": 0}, 10)

    def _ask(self, path: str, body: Mapping[str, Any] | None, seconds: float) -> dict[str, Any]:
        data = None if body is None else json.dumps(body).encode()
        try:
            with urllib.request.urlopen(self._url + path, data, seconds) as answer:
                found = json.load(answer)
        except urllib.error.HTTPError as error:
            # Scheduler and runner report errors as 500. Others mean a full queue (503), a missing model (404) or a
            # disconnected client (499); see server/routes.go, handleScheduleError.
            message = reported(error)
            if error.code == 500 and message and not any(words in message for words in STILL_BUSY):
                raise ModelError(message) from None
            raise BusyError(f"HTTP {error.code}") from None
        except (OSError, HTTPException, ValueError) as error:
            raise BusyError(str(error)) from None
        return found if isinstance(found, dict) else {}


def reported(answer: urllib.error.HTTPError) -> str:
    """The error message in a reply, printable and at most 500 characters; empty if there is none."""
    try:
        message = str(json.load(answer)["error"])
    except (OSError, HTTPException, ValueError, KeyError, TypeError):
        return ""
    return "".join(one if one.isprintable() else " " for one in message)[:500]


class Watch:
    """Checks the model periodically, and updates the files in the shared folder."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._server = Server(environment["SERVER"], environment["MODEL"])
        self._context, self._model = int(environment["CONTEXT"]), environment["MODEL"]
        self._folder = Path(environment["DIRECTORY"])
        self._load, self._token = float(environment["LOAD_SECONDS"]), float(environment["TOKEN_SECONDS"])
        self._idle = float(environment["IDLE_SECONDS"])
        self._errors = 0
        self._expires: Any = None
        """The model's expiry that `/api/ps` reported after our last request. A client's request changes it."""
        self._used_at = time.monotonic()

    @property
    def has_errors(self) -> bool:
        """Whether the last check found an error."""
        return self._errors > 0

    def look(self) -> None:
        """Checks the model once.

        It uses the GPU only after an error, or if no client has used the model for IDLE_SECONDS. While a client is
        active, its own replies prove that the GPU works, and its prompt must stay in the cache.
        """
        if not (self._folder / "started").exists():
            self._errors = 0
            self._set_ready(False)
            return
        if self._may_be_outside_mps():
            self._set_ready(False)
            self._unload()
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
            print(f"{self._model} is busy: {busy}", flush=True)
            self._set_ready(not self._errors)
        except ModelError as error:
            self._lost(str(error))

    def settle(self) -> None:
        """Records the model's expiry after our own request."""
        try:
            self._expires = self._entry(self._server.loaded()).get("expires_at")
        except BusyError:
            self._expires = None

    def _may_be_outside_mps(self) -> bool:
        """Whether the process that looks for the MPS daemon has stopped doing so."""
        try:
            checked_at = (self._folder / "mps").stat().st_mtime
        except FileNotFoundError:
            return False
        return time.time() - checked_at > MPS_SECONDS

    def _unload(self) -> None:
        """Ends a process that could be outside MPS. Only a new pod gets another process that looks for the daemon."""
        try:
            self._server.unload()
            done = "was unloaded"
        except (BusyError, ModelError) as error:
            done = f"must be unloaded, which failed ({error})"
        why = f"the MPS daemon was not checked for {MPS_SECONDS} s"
        print(f"{self._model} may be outside MPS: {why}, so {self._model} {done}. Delete this pod.", flush=True)

    def _is_someone_elses(self) -> bool:
        """Whether our request would unload another model, or this model with a client's settings."""
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
        # A reply can arrive after `model_start.sh` has removed `started`.
        if is_ready and (self._folder / "started").exists():
            (self._folder / "ready").touch()
        else:
            (self._folder / "ready").unlink(missing_ok=True)


def main(environment: Mapping[str, str]) -> None:
    """Checks the model until the pod stops."""
    # Process 1 ignores SIGTERM by default, which would delay the end of the pod.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    watch, settle = Watch(environment), min(SETTLE_SECONDS, float(environment["RETRY_SECONDS"]))
    while True:
        watch.look()
        time.sleep(settle)
        watch.settle()
        time.sleep(float(environment["RETRY_SECONDS" if watch.has_errors else "PERIOD_SECONDS"]))


if __name__ == "__main__":
    main(os.environ)
