"""What `tandem plan --json` prints: the shape that `docs/plan.schema.json` describes, field by field."""

from dataclasses import asdict, dataclass, field, fields
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from sharing.assessment import Fit
from sharing.cost import Cost
from sharing.quotas import Need, needs
from sharing.setup import Pool
from stacks.stack_file.judge import Judged

# What only an accepted stack needs is imported where it is used.
if TYPE_CHECKING:
    from _typeshed import DataclassInstance

    from sandbox.graph import Resource
    from tandem.planned.first_token import FirstToken
    from tandem.planned.plan import Planned

SCHEMA_VERSION = 1
Shape = TypeVar("Shape", bound="DataclassInstance")


@dataclass(frozen=True, slots=True, kw_only=True)
class ProblemReport:
    """A mistake, or a warning."""

    path: str
    found: str
    rule: str
    fix: str
    judged: bool = True
    """False where the data for a verdict is missing; `--strict` refuses that."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuReport:
    """A card: memory as NVML and as CUDA count it, in MiB."""

    name: str
    memory_mib: int
    cuda_mib: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SharesReport:
    """The shares of a pool, of one kind."""

    resource: str
    profile: str
    """MIG profile of a slice; empty for shares of a whole card."""
    per_gpu: int
    total: int
    memory_mib: int | None
    enforced: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolReport:
    """A pool of GPU nodes."""

    name: str
    gpu: GpuReport
    instance_types: list[str]
    nodes: int
    shares: list[SharesReport]
    capacity: str
    mode: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelReport:
    """A model: what it needs, what it gets, in MiB."""

    id: str
    name: str
    pool: str
    context: int
    slots: int
    weights_mib: int
    kv_mib: int
    buffers_mib: int
    needs_mib: int
    """The prediction."""
    margin_mib: int
    """How far the prediction may be too low; it must fit as well."""
    resource: str
    """Extended resource that its pod requests."""
    share_mib: int | None
    fits: bool
    advice: list[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class LineReport:
    """A line of the bill."""

    item: str
    usd_per_hour: float = field(metadata={"digits": 5})
    note: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CostReport:
    """The bill."""

    usd_per_hour: float = field(metadata={"digits": 4})
    cheapest_usd_per_hour: float = field(metadata={"digits": 4})
    """With the cheapest instance type of each pool."""
    usd_per_month: float = field(metadata={"digits": 2})
    replacing_usd_per_hour: float = field(metadata={"digits": 4})
    """At most, while nodes are updated or replaced."""
    lines: list[LineReport]
    per_model_hour: float = field(metadata={"digits": 4})
    dedicated_usd_per_hour: float = field(metadata={"digits": 4})
    first_start_usd: float = field(metadata={"digits": 2})
    price_region: str
    price_date: str
    price_source: Literal["tables", "aws"]
    price_age_days: int
    unpriced: list[str]
    """GPU instance types whose price in the stack's region is unknown: the bill has another price."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaReport:
    """What the stack takes of a quota of AWS."""

    quota: str
    code: str
    unit: str
    needed: int
    needed_at_max: int
    needed_while_replacing: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StepReport:
    """A resource on the longest path."""

    urn: str
    minutes: float = field(metadata={"digits": 2})


@dataclass(frozen=True, slots=True, kw_only=True)
class FirstTokenReport:
    """How long it takes from `pulumi up` to the first token."""

    minutes: float = field(metadata={"digits": 1})
    plus_minus: float = field(metadata={"digits": 1})
    path: list[StepReport]


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceReport:
    """A resource that would be created; secrets are masked."""

    urn: str
    type: str
    name: str
    parent: str
    inputs: dict[str, Any]
    depends_on: list[str]
    provider: str
    options: dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class SwitchStepReport:
    """Something that `up` does on the way, in its order."""

    kind: Literal["stop", "nodes", "plugin", "proof", "start"]
    what: str
    minutes: float = field(metadata={"digits": 2})
    plus_minus: float = field(metadata={"digits": 2})
    away: bool
    """Whether the models do not answer meanwhile."""
    model: str
    """The one that it is about; empty for all of the pool."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DowntimeReport:
    """How long a model that is stopped does not answer."""

    model: str
    minutes: float = field(metadata={"digits": 1})
    plus_minus: float = field(metadata={"digits": 1})


@dataclass(frozen=True, slots=True, kw_only=True)
class SwitchVcpuReport:
    """What the GPU nodes of a pool need of one quota while the pool changes."""

    quota: str
    code: str
    vcpus: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolSwitchReport:
    """A pool whose sharing becomes another."""

    pool: str
    before: str
    after: str
    stops: list[str]
    """Models that run there and are stopped."""
    parks: bool
    """Whether no node is left, so that they stay away."""
    steps: list[SwitchStepReport]
    replaced: list[str]
    """Types of what is deleted and created again."""
    downtime: list[DowntimeReport]
    vcpus: list[SwitchVcpuReport]
    """Empty where the outputs do not say enough."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SwitchReport:
    """What becomes of the running stack."""

    pools: list[PoolSwitchReport]
    new_pools: list[str]
    gone_pools: list[str]
    gone_models: list[str]
    """Models that run and are no longer asked for."""
    untold: list[str]
    """What the outputs of an older program do not tell, so that it is taken to stay."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanReport:
    """A whole plan; what a refused file leaves open is empty or null."""

    schema_version: int = SCHEMA_VERSION
    stack: str
    mode: str | None
    verdict: Literal["ok", "refused"]
    problems: list[ProblemReport] = field(default_factory=list)
    warnings: list[ProblemReport] = field(default_factory=list)
    pools: list[PoolReport] = field(default_factory=list)
    models: list[ModelReport] = field(default_factory=list)
    cost: CostReport | None = None
    quotas: list[QuotaReport] = field(default_factory=list)
    time_to_first_token: FirstTokenReport | None = None
    resources: list[ResourceReport] = field(default_factory=list)
    switch: SwitchReport | None = None
    """Null where the running stack was not asked for, or is not touched since the file is refused."""

    def as_dict(self) -> dict[str, Any]:
        """The report as JSON takes it."""
        return asdict(self)


def fill(shape: type[Shape], source: object, **own: Any) -> Shape:
    """A report with what `source` has under the same names, and `own`; a figure has the digits that its field says."""
    values = {one.name: own[one.name] if one.name in own else getattr(source, one.name) for one in fields(shape)}
    for one in fields(shape):
        if "digits" in one.metadata:
            values[one.name] = round(values[one.name], one.metadata["digits"])
        elif isinstance(values[one.name], tuple):
            values[one.name] = list(values[one.name])
    return shape(**values)


def report(judged: Judged, planned: "Planned | None", switch: SwitchReport | None = None) -> PlanReport:
    """The plan as data; `planned` is None for a refused stack, `switch` where no running one is looked at."""
    assessment = judged.assessment
    # Of a refused stack those that models were judged on, of an accepted one also those without models.
    judged_on = {fit.pool.name: fit.pool for fit in assessment.fits}.values()
    pools = judged_on if judged.refused else judged.setup.pools
    mode_known = not any(problem.path in ("sharing", "sharing.mode") for problem in judged.problems)
    return PlanReport(
        stack=judged.stack,
        mode=judged.config.mode if mode_known else None,
        verdict="refused" if judged.refused else "ok",
        problems=[fill(ProblemReport, problem) for problem in judged.problems],
        warnings=[fill(ProblemReport, warning) for warning in assessment.warnings],
        pools=[_pool(pool, judged.setup.nodes_of(pool)) for pool in pools],
        models=[_model(fit) for fit in assessment.fits],
        cost=_cost(assessment.cost) if assessment.cost else None,
        quotas=[_quota(need) for need in needs(judged.setup)] if assessment.cost else [],
        time_to_first_token=_first_token(planned.first_token) if planned and not planned.is_parked else None,
        resources=[_resource(resource) for resource in planned.graph] if planned else [],
        switch=switch,
    )


def _pool(pool: Pool, nodes: int) -> PoolReport:
    """A pool of known types, with so many nodes."""
    gpu = pool.smallest.gpu
    shares = [fill(SharesReport, shares, total=pool.planned_gpus * shares.per_gpu) for shares in pool.offers]
    own = GpuReport(name=gpu.name, memory_mib=gpu.nvml_mib, cuda_mib=gpu.cuda_mib)
    return fill(PoolReport, pool, gpu=own, nodes=nodes, shares=shares, mode=pool.sharing.mode)


def _model(fit: Fit) -> ModelReport:
    served, need = fit.tenant.served, fit.verdict.need
    return ModelReport(
        id=served.id,
        name=served.model.name,
        pool=fit.pool.name,
        context=served.effective_context,
        slots=served.effective_slots,
        weights_mib=round(need.weights),
        kv_mib=round(need.kv),
        buffers_mib=round(need.buffers),
        needs_mib=round(need.total),
        margin_mib=round(need.margin),
        resource=fit.verdict.shares.resource,
        share_mib=fit.verdict.share_mib,
        fits=fit.verdict.fits,
        advice=list(fit.advice),
    )


def _cost(bill: Cost) -> CostReport:
    return fill(CostReport, bill, lines=[fill(LineReport, line) for line in bill.lines])


def _quota(need: Need) -> QuotaReport:
    quota = need.quota
    counts = {"needed": need.now, "needed_at_max": need.most, "needed_while_replacing": need.replacing}
    return QuotaReport(quota=quota.title, code=quota.code, unit=quota.unit, **counts)


def _first_token(estimate: "FirstToken") -> FirstTokenReport:
    return fill(FirstTokenReport, estimate, path=[fill(StepReport, step) for step in estimate.path])


def _resource(resource: "Resource") -> ResourceReport:
    from sandbox.graph import masked

    inputs, options = masked(resource.inputs), masked(resource.options)
    return fill(ResourceReport, resource, inputs=inputs, depends_on=list(resource.dependencies), options=options)
