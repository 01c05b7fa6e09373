"""The file that `tandem bench` writes and `tandem report` reads: everything needed to judge a run, and to repeat it."""

import json
import os
import re
import tempfile
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

from pydantic import TypeAdapter, ValidationError

from sharing.printable import as_json
from tandem.calling import CallError

SCHEMA_VERSION = 1
NUMBERS = re.compile(r"\[\s+([-\d.,\s]+?)\s+\]")


class ResultError(CallError):
    """A file that is no result, or not a whole one; the text names it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """What every target is asked to do. Figures of different loads are never compared."""

    prompt_words: list[int]
    output_tokens: int
    """At most so many; a model may end earlier."""
    concurrency: list[int]
    """Closed loop: requests under way at any time, for each model."""
    rates: list[float]
    """Open loop: requests a second, for each model, at random moments (Poisson)."""
    requests: int
    """Counted requests of a run, for each model."""
    warmup: int
    """Requests before each run, for each model, that are not counted."""
    repeats: int
    seed: int
    """Decides when requests of the open loop are sent, and what the models are seeded with."""
    temperature: float
    timeout_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """An endpoint as it was found."""

    id: str
    url: str
    model: str
    ollama: str
    digest: str
    family: str
    parameter_size: str
    quantization: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """Where the client ran."""

    system: str
    processor: str
    cpus: int
    python: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """A model's memory, as `/api/ps` tells: bytes, and bytes of them on the GPU."""

    size: int
    size_vram: int
    context_length: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerTimes:
    """What the server says about a request, in nanoseconds; 0 where it says nothing."""

    total_ns: int
    load_ns: int
    prompt_eval_ns: int
    eval_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One request."""

    endpoint: str
    counted: bool
    """False: it only kept the load up until the other requests were done."""
    scheduled_us: int | None
    """Open loop: when it was due, after the run's begin."""
    sent_us: int
    """When its first byte was given to the socket, after the run's begin."""
    arrivals_us: list[int]
    """When each piece of text or thinking came, after `sent_us`."""
    tokens: int
    """Output tokens, as the server counts them (`eval_count`)."""
    prompt_tokens: int
    done_reason: str
    server: ServerTimes
    error: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """The same load, once."""

    repeat: int
    """From 1."""
    endpoints: list[str]
    """Who was asked: one = alone, while the others idle; several = all at once."""
    prompt_words: int
    loop: Literal["closed", "open"]
    level: float
    """Requests at a time (closed), or a second (open), for each model."""
    seconds: float
    memory_start: dict[str, Memory | None]
    """After warming up. None: not loaded, or the server did not say."""
    memory_end: dict[str, Memory | None]
    client_cpu_s: float
    """Processor time that the client took."""
    rows: list[Row]

    @property
    def key(self) -> tuple[int, tuple[str, ...], int, str, float]:
        """What tells runs of one result apart."""
        return (self.repeat, tuple(self.endpoints), self.prompt_words, self.loop, self.level)


@dataclass(slots=True, kw_only=True)
class Result:
    """A whole file."""

    kind: Literal["tandem bench"] = "tandem bench"
    schema_version: int = SCHEMA_VERSION
    label: str
    """What the target is called in reports, usually the mode."""
    complete: bool
    """False: stopped before the last run."""
    command: list[str]
    begun: str
    ended: str
    """ISO 8601, UTC."""
    versions: dict[str, str]
    machine: Machine
    load: Load
    salt: str
    """Decides the words of the prompts; another one each time, so that no server has seen them."""
    servers: list[Server]
    usd_per_hour: float | None
    """Of everything that the target needs."""
    plan: dict[str, Any] | None = None
    """What `tandem plan STACK --json` says of the stack, without its resources."""
    runs: list[Run] = field(default_factory=list)


def write(result: Result, path: Path) -> None:
    """Puts the result at `path`, whole: a reader, or a crash, meets the old file or the new one."""
    text = NUMBERS.sub(_in_one_line, as_json(asdict(result), indent=1)) + "\n"
    folder = path.parent
    handle, name = tempfile.mkstemp(dir=folder, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
        os.chmod(name, 0o644)
        os.replace(name, path)
    except BaseException:
        os.unlink(name)
        raise


def read(path: Path) -> Result:
    """The result at `path`; raises `ResultError`."""
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ResultError(f"{path}: cannot be read ({error.strerror})") from error
    except UnicodeDecodeError as error:
        raise ResultError(f"{path}: is no text") from error
    except json.JSONDecodeError as error:
        raise ResultError(
            f"{path}: is no whole JSON (line {error.lineno}: {error.msg}). Was it cut off on the way? Copy it again."
        ) from error
    if not isinstance(document, dict) or document.get("kind") != "tandem bench":
        raise ResultError(f"{path}: is no result of `tandem bench`")
    version = document.get("schema_version")
    if version != SCHEMA_VERSION:
        raise ResultError(
            f"{path}: has schema version {version}, this tandem reads {SCHEMA_VERSION}. "
            "Read it with the tandem that wrote it, or measure again."
        )
    try:
        return TypeAdapter(Result).validate_python(document)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        raise ResultError(
            f"{path}: has {error.error_count()} fields that are missing or wrong, first {where}: {first['msg']}"
        ) from error


def _in_one_line(found: re.Match[str]) -> str:
    return "[" + re.sub(r"\s+", " ", found[1]) + "]"
