"""A result's entry for one call of `tandem bench`: its servers, the client, and the prompts' salt."""

import datetime
import os
import platform
from collections.abc import Sequence
from pathlib import Path

import httpcore

from tandem.bench_results.result import Machine, Result, Server, Session, difference, identity
from tandem.bench_results.summary import usual_servers
from tandem.deployed.ollama import Ollama
from tandem.deployed.ollama_replies import Details
from tandem.installation import version


def now() -> str:
    """The current time in the format of results."""
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")


def open_session(given: Sequence[str], salt: str, servers: Sequence[Ollama]) -> Session:
    """Describes the servers and the client."""
    return Session(
        begun=now(),
        command=["tandem", *given],
        versions={"tandem": version(), "httpcore": httpcore.__version__},
        machine=_machine(),
        salt=salt,
        servers=[_server(server) for server in servers],
    )


def server_changes(result: Result) -> list[str]:
    """A warning for each server that differs from the server of earlier runs."""
    usual = usual_servers(result)
    return [
        f"Server {now.id} differs from the other runs: {difference(usual[now.id], now)}. "
        "A report compares runs of one server only. To measure all runs on this one, write a new result with -o."
        for now in result.servers
        if now.id in usual and identity(usual[now.id]) != identity(now)
    ]


def _server(asked: Ollama) -> Server:
    endpoint = asked.endpoint
    found = next(model for model in asked.models() if model.name == endpoint.model)
    details = found.details or Details()
    return Server(
        id=endpoint.id,
        url=endpoint.url,
        model=endpoint.model,
        ollama=asked.version(),
        digest=found.digest or "",
        family=details.family or "",
        parameter_size=details.parameter_size or "",
        quantization=details.quantization_level or "",
    )


def _machine() -> Machine:
    return Machine(
        system=f"{platform.system()} {platform.release()}",
        processor=_processor(),
        cpus=os.cpu_count() or 0,
        python=platform.python_version(),
    )


def _processor() -> str:
    try:
        listed = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        listed = []
    names = [line.partition(":")[2].strip() for line in listed if line.startswith("model name")]
    return names[0] if names else platform.machine()
