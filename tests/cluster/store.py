"""The metrics store of a stack, VictoriaMetrics, as a process of this machine."""

import json
import socket
import subprocess
import time
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.cluster.metrics import SECONDS, Labels
from tests.control_plane import recipe
from tests.control_plane.kept import StartError

START_SECONDS = 60


class Store:
    """A store that runs, with one set of series at a time."""

    def __init__(self, port: int) -> None:
        self.url = f"http://127.0.0.1:{port}"

    def call(self, path: str, body: str | None = None, **query: Any) -> str:
        address = f"{self.url}{path}?{urllib.parse.urlencode(query)}"
        with urllib.request.urlopen(address, data=None if body is None else body.encode(), timeout=30) as answer:
            return str(answer.read().decode())

    def query(self, expr: str, at: float | None = None) -> list[tuple[Labels, float]]:
        moment: dict[str, Any] = {} if at is None else {"time": at}
        found = json.loads(self.call("/api/v1/query", query=expr, nocache=1, step=f"{SECONDS}s", **moment))
        series = [
            ({key: value for key, value in one["metric"].items() if key != "__name__"}, float(one["value"][1]))
            for one in found["data"]["result"]
        ]
        return sorted(series, key=str)

    def replace(self, lines: Iterable[str]) -> None:
        """Deletes all series and writes these: name and labels, a value, and milliseconds."""
        self.call("/api/v1/admin/tsdb/delete_series", "", **{"match[]": '{__name__!=""}'})
        self.call("/api/v1/import/prometheus", "\n".join(lines))
        self.call("/internal/force_flush")


@contextmanager
def running_store(tools: Path, folder: Path, *options: str) -> Iterator[Store]:
    """The store that `recipe.METRICS` builds in `tools`, with its data in `folder`."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with (folder / "store.log").open("w") as log:
        place = [f"-storageDataPath={folder / 'data'}", f"-httpListenAddr=127.0.0.1:{port}"]
        process = subprocess.Popen([tools / recipe.STORE, *place, *options], stdout=log, stderr=log)
    store = Store(port)
    try:
        wait_for(lambda: answers(store), lambda: (folder / "store.log").read_text())
        yield store
    finally:
        process.terminate()
        process.wait()


def answers(store: Store) -> bool:
    try:
        return store.call("/health") == "OK"
    except OSError:
        return False


def wait_for(known: Callable[[], Any], shown: Callable[[], str]) -> None:
    end = time.monotonic() + START_SECONDS
    while not known():
        if time.monotonic() > end:
            raise StartError(shown())
        time.sleep(0.2)
