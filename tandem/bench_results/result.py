"""The file that `tandem bench` writes and `tandem report` reads: everything needed to judge a run and to repeat it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, NotRequired

from pydantic import ConfigDict, Field, FiniteFloat
from typing_extensions import TypedDict  # pydantic does not take typing's before Python 3.12

from sharing.modes.modes import MPS_PER_MODEL

SCHEMA_VERSION = 2
Count = Annotated[int, Field(ge=0, lt=2**63)]
Positive = Annotated[Count, Field(ge=1)]
Amount = Annotated[FiniteFloat, Field(ge=0, le=1e12)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """The workload of every target. Figures of different workloads are never compared."""

    prompt_words: list[Positive]
    output_tokens: Positive
    """The maximum per reply; a model may end earlier."""
    concurrency: list[Positive]
    """Closed loop: concurrent requests per model."""
    rates: list[Amount]
    """Open loop: requests per second and model, at random times (Poisson)."""
    requests: Positive
    """Counted requests per run and model."""
    warmup: Count
    """Uncounted requests before each run, per model."""
    repeats: Positive
    seed: int
    """Sets the times of the open loop's requests, and the models' seed."""
    temperature: FiniteFloat
    timeout_s: Amount


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """A server as the benchmark found it."""

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
    """The machine of the client."""

    system: str
    processor: str
    cpus: Count
    python: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """The call of `tandem bench`."""

    begun: str
    """ISO 8601, UTC."""
    command: list[str]
    versions: dict[str, str]
    machine: Machine
    salt: str
    """Decides the words of the prompts; a new one for each call, so that no server has seen them."""
    servers: Annotated[list[Server], Field(min_length=1)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """A model's memory from `/api/ps`: its bytes, and the part of them on the GPU."""

    size: Count
    size_vram: Count
    context_length: Count


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerTimes:
    """The server's times for a request, in nanoseconds; 0 if it reports none."""

    total_ns: Count
    load_ns: Count
    prompt_eval_ns: Count
    eval_ns: Count


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One request."""

    endpoint: str
    counted: bool
    """False: it only maintained the load until the other requests were done."""
    scheduled_us: Count | None
    """Open loop: when it was due, after the start of the run."""
    sent_us: Count
    """When the socket got its first byte, after the start of the run."""
    arrivals_us: list[Count]
    """When each piece of text or thinking arrived, after `sent_us`."""
    tokens: Count
    """Output tokens, as the server counts them (`eval_count`)."""
    prompt_tokens: Count
    done_reason: str
    server: ServerTimes
    error: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One run of the load."""

    repeat: Positive
    """From 1."""
    endpoints: Annotated[list[str], Field(min_length=1)]
    """The models: one = alone, while the others are idle; several = all at once."""
    prompt_words: Positive
    loop: Literal["closed", "open"]
    level: Amount
    """Requests at a time (closed) or per second (open), for each model."""
    seconds: Amount
    memory_start: dict[str, Memory | None]
    """After the warm-up. None: not loaded, or not reported by the server."""
    memory_end: dict[str, Memory | None]
    client_cpu_s: Amount
    """Processor time of the client."""
    rows: list[Row]

    @property
    def key(self) -> tuple[int, tuple[str, ...], int, str, float]:
        """Identifies a run within a result."""
        return (self.repeat, tuple(self.endpoints), self.prompt_words, self.loop, self.level)


class PlannedGpu(TypedDict):
    """A GPU of the plan."""

    name: str


class PlannedShares(TypedDict):
    """Equal shares of a pool of the plan."""

    __pydantic_config__ = ConfigDict(extra="allow")  # type: ignore[misc]
    total: Count
    per_gpu: Positive


class PlannedPool(TypedDict):
    """A pool of nodes of the plan."""

    __pydantic_config__ = ConfigDict(extra="allow")  # type: ignore[misc]
    nodes: Count
    gpu: PlannedGpu
    shares: NotRequired[list[PlannedShares]]
    mode: NotRequired[str]


def mode_of(pool: Mapping[str, Any]) -> str:
    """The mode of a pool of the plan. Limits per model are one of their own: equal ones include the threads."""
    has_own = any(shares.get("own_limits") for shares in pool.get("shares", ()))
    return MPS_PER_MODEL if has_own else str(pool["mode"])


class PlannedModel(TypedDict):
    """A model of the plan, in MiB."""

    __pydantic_config__ = ConfigDict(extra="allow")  # type: ignore[misc]
    id: str
    needs_mib: Count
    share_mib: Count | None
    slots: NotRequired[Positive]
    """Requests that the server works on at one time."""


class Plan(TypedDict):
    """The parts of a plan that a report reads; the file has the whole plan (docs/plan.schema.json)."""

    pools: list[PlannedPool]
    models: list[PlannedModel]


@dataclass(slots=True, kw_only=True)
class Result:
    """A whole file."""

    kind: Literal["tandem bench"] = "tandem bench"
    schema_version: int = SCHEMA_VERSION
    label: str
    """The target's name in reports, usually the mode."""
    complete: bool
    """False: stopped before the last run."""
    ended: str
    """ISO 8601, UTC."""
    load: Load
    sessions: Annotated[list[Session], Field(min_length=1, max_length=1)]
    """One: a list since the time when a benchmark could be resumed."""
    usd_per_hour: Amount | None
    """Price of the whole target per hour."""
    plan: Plan | None = None
    """The output of `tandem plan STACK --json`, without its resources."""
    runs: list[Run] = field(default_factory=list)

    @property
    def session(self) -> Session:
        """The call that measured it."""
        return self.sessions[0]

    @property
    def servers(self) -> list[Server]:
        """The measured servers."""
        return self.session.servers
