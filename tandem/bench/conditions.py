"""The conditions of a benchmark, which its result records: the servers, the client and the prompts' salt."""

import datetime
import os
import platform
from collections.abc import Sequence
from pathlib import Path

import httpx

from tandem.bench_results.result import Machine, Server, Session
from tandem.deployed.ollama import Ollama
from tandem.deployed.ollama_replies import Details
from tandem.installation import version


def now() -> str:
    """The current time in the format of results."""
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")


def describe(command: Sequence[str], salt: str, servers: Sequence[Ollama]) -> Session:
    """Describes this call of `tandem bench`, its client and the servers."""
    return Session(
        begun=now(),
        command=["tandem", *command],
        versions={"tandem": version(), "httpx": httpx.__version__},
        machine=_client(),
        salt=salt,
        servers=[_server(server) for server in servers],
    )


def _server(asked: Ollama) -> Server:
    endpoint = asked.endpoint
    model = next(model for model in asked.models() if model.name == endpoint.model)
    details = model.details or Details()
    return Server(
        id=endpoint.id,
        url=endpoint.url,
        model=endpoint.model,
        ollama=asked.version(),
        digest=model.digest or "",
        family=details.family or "",
        parameter_size=details.parameter_size or "",
        quantization=details.quantization_level or "",
    )


def _client() -> Machine:
    return Machine(
        system=f"{platform.system()} {platform.release()}",
        processor=_processor(),
        cpus=os.cpu_count() or 0,
        python=platform.python_version(),
    )


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:  # not Linux
        lines = []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()
