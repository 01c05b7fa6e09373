"""Reads the metrics of several models: from their exporters, or else from their servers."""

import argparse
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import partial
from math import isfinite
from typing import TYPE_CHECKING

from pydantic import TypeAdapter, ValidationError

from components.ollama_pair.model_metrics import FAMILIES, Sample, Source, collect, printable
from sharing.names import METRICS_PORT
from tandem.deployed import connection
from tandem.deployed.connection import NO_SERVERS, Connected, Reached, trouble_of
from tandem.deployed.endpoints import Endpoint, NotConnectedError, named
from tandem.deployed.wire import ERROR, Wire, WireError

if TYPE_CHECKING:
    from sharing.models.served import ServedModel

EXPORTER_SECONDS = 10.0
"""Prometheus' default time limit of a scrape."""
UP = "tandem_ollama_up"
SAMPLES = TypeAdapter(list[Sample])


@dataclass(frozen=True)
class Server:
    """A model's server."""

    id: str
    read: Callable[[], list[Sample]]
    """Reads its metrics; raises `WireError` if its exporter fails."""
    trouble: Callable[[], str]
    """Why its port does not lead to it; empty if it does."""


@contextmanager
def servers(parsed: argparse.Namespace) -> Iterator[list[Server]]:
    """The servers in the arguments of `add_servers` while the block runs. Raises `NotConnectedError`."""
    if parsed.url:
        yield [_by_url(endpoint) for endpoint in named(parsed.url, parsed.model)]
    elif parsed.stack:
        with connection.reached(parsed) as connected, _of_stack(connected) as servers:
            yield servers
    else:
        raise NotConnectedError(NO_SERVERS)


def read(servers: Sequence[Server]) -> tuple[list[Sample], list[str]]:
    """The metrics of all servers, and the reasons why some are missing."""
    samples: list[Sample] = []
    troubles: list[str] = []
    for server in servers:
        try:
            own = server.read()
        except WireError as error:
            own = []
            troubles.append(f"the exporter of {server.id} does not answer: {server.trouble() or error}")
        if any(sample.name == UP and not sample.value for sample in own):
            troubles.append(f"{server.id} does not answer{f': {why}' if (why := server.trouble()) else ''}")
        samples += own
    return samples, troubles


def _by_url(endpoint: Endpoint) -> Server:
    source = Source(id=endpoint.id, model=endpoint.model, server=endpoint.url)
    return Server(endpoint.id, lambda: collect(source), str)


@contextmanager
def _of_stack(connected: Connected) -> Iterator[list[Server]]:
    """Only the exporter in the pod reaches the engine. A stack without metrics has none."""
    has_exporters = connected.plan.config.monitoring.has_metrics
    with connection.forwards(connected, METRICS_PORT if has_exporters else None) as ports:
        yield [_by_port(served, ports[served.id], has_exporters) for served in connected.plan.config.models]


def _by_port(served: "ServedModel", forward: Reached, has_exporter: bool) -> Server:
    server = _by_url(Endpoint(served.id, forward.url, served.model.name))
    read = partial(from_exporter, served.id, forward.url) if has_exporter else server.read
    return Server(served.id, read, trouble_of(forward))


def from_exporter(id: str, url: str) -> list[Sample]:
    """The metrics that the exporter at this address serves, made safe to print. Raises `WireError`."""
    with closing(Wire(url)) as exporter:
        status, body = exporter.get("/metrics.json", EXPORTER_SECONDS)
    if status >= ERROR:
        raise WireError(f"it answered with {status}")
    try:
        samples = SAMPLES.validate_json(body)
    except ValidationError:
        raise WireError("it does not answer as the exporter of this version does") from None
    return [
        Sample(sample.name, {"id": id, "model": printable(sample.labels.get("model", ""))}, sample.value)
        for sample in samples
        if sample.name in FAMILIES and isfinite(sample.value)
    ]
