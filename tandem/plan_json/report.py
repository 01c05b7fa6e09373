"""The output of `tandem plan --json`: `docs/plan.schema.json` describes its shape, field by field.

Each model is read from the object that it reports. A field has the name of an attribute there, or gives its path.
"""

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field

from sharing.cost.quotas import needs
from sharing.hardware.spot_risk import spot_risks
from sharing.sections.config import StackConfig
from sharing.sections.pools import GpuPool
from sharing.sections.startup import after_a_reclaim, cold_start
from sharing.verdict.features.scale_to_zero import sleepers
from sharing.verdict.speed import usd_per_million_tokens
from stacks.stack_file.judge import Judged, Plan
from tandem.plan_json.choice import ChoiceReport
from tandem.plan_json.parts import Cents, Price, Report, Tenths, Whole, at
from tandem.plan_json.speed import SpeedReport, TokenPriceReport
from tandem.plan_json.switch import SwitchReport

# Imports that only an accepted stack needs are where they are used.
if TYPE_CHECKING:
    from tandem.dry_run.program import Planned

SCHEMA_VERSION = 2


def _masked(value: object) -> object:
    from sandbox.graph import masked

    return masked(value)


Values = Annotated[dict[str, Any], BeforeValidator(_masked)]


class PlaceReport(Report):
    """The position of a value in a file, or else its origin."""

    file: str
    line: int
    """From 1; 0 for a value that is in no file."""
    column: int
    origin: str


class ProblemReport(Report):
    """An error, or a warning."""

    path: str
    found: str
    rule: str
    fix: str
    judged: bool
    """False if the data for a verdict is missing; `--strict` refuses that."""
    place: PlaceReport | None = None


class GpuReport(Report):
    """A GPU: memory as NVML and as CUDA count it, in MiB."""

    name: str
    memory_mib: int = at("nvml_mib")
    cuda_mib: int


class SharesReport(Report):
    """The shares of a pool, of one kind."""

    resource: str
    profile: str
    """MIG profile of a slice; empty for shares of an entire GPU."""
    per_gpu: int
    sharers: int
    """Pods that may be on the same GPU or slice."""
    total: int
    memory_mib: int | None
    """Memory of one; null if it is not partitioned, or if each model has a limit of its own: its `share_mib`."""
    enforced: bool
    own_limits: bool
    """Whether each model has limits of its own (`limits: per-model`)."""


class SpotTypeReport(Report):
    """An instance type in the Spot Advisor of AWS."""

    instance_type: str
    least_percent: int
    """AWS reclaimed at least this part of the spot instances in the month before `date`."""
    most_percent: int
    savings_percent: int
    """Of the on-demand price, on average of all zones."""
    date: str


class SpotRiskReport(Report):
    """How often AWS reclaims the nodes of a pool, and how long its models then do not answer."""

    types: list[SpotTypeReport]
    """Without those that the Spot Advisor does not have."""
    minutes_per_reclaim: Tenths
    """From the loss of a node until its models answer on a new one, if AWS has one at once."""
    plus_minus: Tenths


class PoolReport(Report):
    """A pool of GPU nodes."""

    name: str
    gpu: GpuReport
    instance_types: list[str]
    nodes: int
    shares: list[SharesReport]
    capacity: str
    spot_risk: SpotRiskReport | None
    """Null for on-demand nodes."""
    mode: str


class ModelReport(Report):
    """A model: the memory that it needs and gets, in MiB."""

    id: str = at("served.id")
    name: str = at("served.model.name")
    pool: str = at("pool.name")
    context: int = at("served.effective_context")
    slots: int = at("served.effective_slots")
    weights_mib: Whole = at("placement.need.weights")
    kv_mib: Whole = at("placement.need.kv")
    buffers_mib: Whole = at("placement.need.buffers")
    """CUDA's part and the buffers. The screen's "rest" is this and the margin."""
    needs_mib: Whole = at("placement.need.total")
    """The prediction: weights, KV cache and buffers, without the margin. The screen adds the margin."""
    margin_mib: Whole = at("placement.need.margin")
    """The most by which the prediction may be too low; it must fit as well."""
    resource: str = at("placement.shares.resource")
    """Extended resource that its pod requests."""
    share_mib: int | None = at("placement.share_mib")
    """Memory that it has to itself, or the limit of its process; null if nothing limits it."""
    threads_percent: int | None = at("placement.shares.threads_percent")
    """Part of the GPU's threads that it may use at most, with a limit of its own; null in other modes."""
    fits: bool = at("placement.fits")
    speed: SpeedReport | None
    """Null for an embedding model, and on a GPU whose speed is unknown."""
    advice: list[str]


class LineReport(Report):
    """A line of the bill."""

    item: str
    usd_per_hour: Annotated[float, AfterValidator(lambda value: round(value, 5))]
    note: str


class WeekReport(Report):
    """An average week with the schedule of `park`."""

    usd: Cents
    unparked_usd: Cents
    """Without the schedule."""
    running_hours: Cents
    parked_hours: Cents
    parked_usd_per_hour: Price
    parked_lines: list[LineReport]
    """What still costs while the stack is parked."""


class CostReport(Report):
    """The bill."""

    usd_per_hour: Price
    cheapest_usd_per_hour: Price
    """With the cheapest instance type of each pool."""
    usd_per_month: Cents
    """With the schedule of `park` and the minutes in which nodes are replaced: what `max-usd-per-month` limits."""
    usd_per_month_unparked: Cents
    """Without the schedule."""
    week: WeekReport | None
    """None without `park`."""
    replacing_usd_per_hour: Price
    """At most, while nodes are updated or replaced."""
    lines: list[LineReport]
    per_model_hour: Price
    dedicated_usd_per_hour: Price
    awake_usd_per_hour: Price
    """When no pool is parked."""
    first_start_usd: Cents
    price_region: str
    price_date: str
    price_source: Literal["tables", "aws"]
    price_age_days: int
    unpriced: list[str]
    """GPU instance types whose price in the stack's region is unknown: the bill has another price."""


class ScaleToZeroReport(Report):
    """How models stop without requests, and start with the next one."""

    idle_minutes: int
    cold_requests: Literal["wait", "refuse"]
    cold_start_minutes: Tenths
    """From a request until the slowest model answers, without a node."""
    cold_start_plus_minus: Tenths
    idle_usd_per_hour: Price
    """While no model runs."""


class QuotaReport(Report):
    """The stack's use of a quota of AWS."""

    quota: str = at("quota.title")
    code: str = at("quota.code")
    unit: str = at("quota.unit")
    needed: int = at("now")
    needed_at_max: int = at("most")
    needed_while_replacing: int = at("replacing")


class StepReport(Report):
    """A resource on the longest path."""

    urn: str
    minutes: Cents


class StartupReport(Report):
    """The time from `pulumi up` until every model answers."""

    minutes: Tenths
    plus_minus: Tenths
    path: list[StepReport]


class ResourceReport(Report):
    """A resource that would be created; secrets are masked."""

    urn: str
    type: str
    name: str
    parent: str
    inputs: Values
    depends_on: list[str] = at("dependencies")
    provider: str
    options: Values


class PlanReport(Report):
    """A whole plan. Fields that a refused file leaves unknown are empty or null."""

    schema_version: int = SCHEMA_VERSION
    stack: str
    mode: str | None
    verdict: Literal["ok", "refused"]
    problems: list[ProblemReport] = Field(default_factory=list)
    warnings: list[ProblemReport] = Field(default_factory=list)
    pools: list[PoolReport] = Field(default_factory=list)
    models: list[ModelReport] = Field(default_factory=list)
    cost: CostReport | None = None
    usd_per_million_tokens: TokenPriceReport | None = None
    """Null if no model generates tokens."""
    scale_to_zero: ScaleToZeroReport | None = None
    """Null if models run without requests."""
    quotas: list[QuotaReport] = Field(default_factory=list)
    time_to_ready: StartupReport | None = None
    resources: list[ResourceReport] = Field(default_factory=list)
    switch: SwitchReport | None = None
    """Null if the call did not ask for the running stack, or if the file is refused and nothing changes."""
    choice: ChoiceReport | None = None
    """Null for a stack file: only models without one get the cheapest setup."""


def report(judged: Judged, planned: "Planned | None", switch: object = None, choice: object = None) -> PlanReport:
    """The plan as data. `planned` is None for a refused stack; `SwitchReport` reads its fields from `switch`, and
    `ChoiceReport` from `choice`.
    """
    return PlanReport.model_validate(
        {
            "stack": judged.stack,
            "mode": None,
            "verdict": "refused" if judged.refused else "ok",
            "problems": judged.problems,
            "warnings": judged.warnings,
            **(_of_rules(judged.decided, accepted=not judged.refused) if judged.decided else {}),
            "time_to_ready": planned.startup if planned and planned.starts_models else None,
            "resources": list(planned.graph) if planned else [],
            "switch": switch,
            "choice": choice,
        }
    )


def _of_rules(plan: Plan, *, accepted: bool) -> dict[str, object]:
    """What the rules have found out about a stack."""
    # Of a refused stack those that models were judged on, of an accepted one also those without models.
    judged_on = {fit.pool.name: fit.pool for fit in plan.verdict.fits}.values()
    return {
        "mode": plan.config.pools[0].sharing.mode,
        "pools": [_pool(pool, plan.config) for pool in (plan.config.pools if accepted else judged_on)],
        "models": plan.verdict.fits,
        "cost": plan.verdict.cost,
        "usd_per_million_tokens": _token_price(plan),
        "scale_to_zero": _scaling(plan),
        "quotas": needs(plan.config) if plan.verdict.cost else [],
    }


def _token_price(plan: Plan) -> dict[str, object] | None:
    speeds = [fit.speed for fit in plan.verdict.fits]
    full, tenth = (usd_per_million_tokens(speeds, plan.verdict.cost, load) for load in (1.0, 0.1))
    return {"full_load": full, "ten_percent_load": tenth} if full else None


def _scaling(plan: Plan) -> dict[str, object] | None:
    settings, tenants, bill = plan.config.scale_to_zero, sleepers(plan.config), plan.verdict.cost
    if bill is None or not tenants:
        return None
    minutes, spread = max(map(cold_start, tenants))
    timed = {"cold_start_minutes": minutes, "cold_start_plus_minus": spread}
    return {**settings.model_dump(), **timed, "idle_usd_per_hour": bill.idle_usd_per_hour}


def _pool(pool: GpuPool, config: StackConfig) -> dict[str, object]:
    """A pool of known types."""
    shares = [
        {**asdict(shares), "enforced": shares.enforced, "total": pool.planned_gpus * shares.per_gpu}
        for shares in pool.offers
    ]
    own = {"gpu": pool.smallest.gpu, "nodes": config.nodes_of(pool), "shares": shares, "mode": pool.sharing.mode}
    return {
        **pool.model_dump(include={"name", "instance_types", "capacity"}),
        **own,
        "spot_risk": _spot_risk(pool, config) if pool.capacity == "spot" else None,
    }


def _spot_risk(pool: GpuPool, config: StackConfig) -> dict[str, object]:
    minutes, spread = after_a_reclaim(pool, config)
    types = spot_risks(pool.instance_types, config.region)
    return {"types": types, "minutes_per_reclaim": minutes, "plus_minus": spread}
