"""The file that `tandem bench` writes and `tandem report` reads: everything needed to judge a run, and to repeat it."""

from dataclasses import dataclass, field
from typing import Annotated, Literal

from pydantic import ConfigDict, Field, FiniteFloat
from typing_extensions import TypedDict  # pydantic does not take typing's before Python 3.12

SCHEMA_VERSION = 2
Count = Annotated[int, Field(ge=0, lt=2**63)]
Positive = Annotated[int, Field(ge=1, lt=2**63)]
Amount = Annotated[FiniteFloat, Field(ge=0, le=1e12)]
IDENTITY = {"ollama": "Ollama", "digest": "digest", "quantization": "quantization"}
"""What makes a server of the same name and model another one, and what people call that. Its address does not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """What every target is asked to do. Figures of different loads are never compared."""

    prompt_words: list[Positive]
    output_tokens: Positive
    """At most so many; a model may end earlier."""
    concurrency: list[Positive]
    """Closed loop: requests under way at any time, for each model."""
    rates: list[Amount]
    """Open loop: requests a second, for each model, at random moments (Poisson)."""
    requests: Positive
    """Counted requests of a run, for each model."""
    warmup: Count
    """Requests before each run, for each model, that are not counted."""
    repeats: Positive
    seed: Annotated[int, Field(gt=-(2**63), lt=2**63)]
    """Decides when requests of the open loop are sent, and what the models are seeded with."""
    temperature: FiniteFloat
    timeout_s: Amount


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
    cpus: Count
    python: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """One call of `tandem bench`: the first one, or one that resumed the result."""

    begun: str
    """ISO 8601, UTC."""
    command: list[str]
    versions: dict[str, str]
    machine: Machine
    salt: str
    """Decides the words of the prompts; another one for each call, so that no server has seen them."""
    servers: Annotated[list[Server], Field(min_length=1)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """A model's memory, as `/api/ps` tells: bytes, and bytes of them on the GPU."""

    size: Count
    size_vram: Count
    context_length: Count


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerTimes:
    """What the server says about a request, in nanoseconds; 0 where it says nothing."""

    total_ns: Count
    load_ns: Count
    prompt_eval_ns: Count
    eval_ns: Count


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One request."""

    endpoint: str
    counted: bool
    """False: it only kept the load up until the other requests were done."""
    scheduled_us: Count | None
    """Open loop: when it was due, after the run's begin."""
    sent_us: Count
    """When its first byte was given to the socket, after the run's begin."""
    arrivals_us: list[Count]
    """When each piece of text or thinking came, after `sent_us`."""
    tokens: Count
    """Output tokens, as the server counts them (`eval_count`)."""
    prompt_tokens: Count
    done_reason: str
    server: ServerTimes
    error: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """The same load, once."""

    session: Count
    """Number of the call that measured it, from 0: says which servers, client and prompts it had."""
    repeat: Positive
    """From 1."""
    endpoints: Annotated[list[str], Field(min_length=1)]
    """Who was asked: one = alone, while the others idle; several = all at once."""
    prompt_words: Positive
    loop: Literal["closed", "open"]
    level: Amount
    """Requests at a time (closed), or a second (open), for each model."""
    seconds: Amount
    memory_start: dict[str, Memory | None]
    """After warming up. None: not loaded, or the server did not say."""
    memory_end: dict[str, Memory | None]
    client_cpu_s: Amount
    """Processor time that the client took."""
    rows: list[Row]

    @property
    def key(self) -> tuple[int, tuple[str, ...], int, str, float]:
        """What tells runs of one result apart."""
        return (self.repeat, tuple(self.endpoints), self.prompt_words, self.loop, self.level)


class PlannedGpu(TypedDict):
    """A GPU of the plan."""

    __pydantic_config__ = ConfigDict(extra="allow")  # type: ignore[misc]
    name: str


class PlannedPool(TypedDict):
    """A pool of nodes of the plan."""

    __pydantic_config__ = ConfigDict(extra="allow")  # type: ignore[misc]
    nodes: Count
    gpu: PlannedGpu


class PlannedModel(TypedDict):
    """A model of the plan, in MiB."""

    __pydantic_config__ = ConfigDict(extra="allow")  # type: ignore[misc]
    id: str
    needs_mib: Count
    share_mib: Count | None


class Plan(TypedDict):
    """What a report reads of a plan; the file has all of it (docs/plan.schema.json)."""

    __pydantic_config__ = ConfigDict(extra="allow")  # type: ignore[misc]
    pools: list[PlannedPool]
    models: list[PlannedModel]


@dataclass(slots=True, kw_only=True)
class Result:
    """A whole file."""

    kind: Literal["tandem bench"] = "tandem bench"
    schema_version: int = SCHEMA_VERSION
    label: str
    """What the target is called in reports, usually the mode."""
    complete: bool
    """False: stopped before the last run."""
    ended: str
    """ISO 8601, UTC."""
    load: Load
    sessions: Annotated[list[Session], Field(min_length=1)]
    """In order of time; all of the same models."""
    usd_per_hour: Amount | None
    """Of everything that the target needs."""
    plan: Plan | None = None
    """What `tandem plan STACK --json` says of the stack, without its resources."""
    runs: list[Run] = field(default_factory=list)

    @property
    def servers(self) -> list[Server]:
        """The servers as the latest call found them; their names and models are those of every call."""
        return self.sessions[-1].servers


def identity(server: Server) -> tuple[str, ...]:
    """Equal for servers whose figures may be compared."""
    return tuple(getattr(server, field) for field in IDENTITY)


def difference(before: Server, now: Server) -> str:
    """What became of a server, in words."""
    return ", ".join(
        f"{name} {_short(getattr(now, field))} instead of {_short(getattr(before, field))}"
        for field, name in IDENTITY.items()
        if getattr(now, field) != getattr(before, field)
    )


def _short(text: str) -> str:
    """A digest as Ollama lists it."""
    return text[:12] if text else "unknown"
