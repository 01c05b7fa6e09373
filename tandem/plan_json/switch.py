"""The part of `tandem plan --json` about the running stack: what `tandem.plan.switch` has found."""

from typing import Literal

from tandem.plan_json.parts import Cents, Report, Tenths, at


class SwitchStepReport(Report):
    """A step of `up`, in its order."""

    kind: Literal["stop", "nodes", "plugin", "proof", "start"]
    what: str
    minutes: Cents
    plus_minus: Cents
    away: bool
    """Whether the models do not answer meanwhile."""
    model: str
    """The model of the step; empty for all models of the pool."""


class DowntimeReport(Report):
    """The time in which a stopped model does not answer."""

    model: str
    minutes: Tenths
    plus_minus: Tenths


class SwitchVcpuReport(Report):
    """The vCPUs of one quota that the GPU nodes of a pool need while the pool changes."""

    quota: str = at("quota.title")
    code: str = at("quota.code")
    vcpus: int = at("most")


class PoolSwitchReport(Report):
    """A pool whose sharing changes."""

    pool: str
    before: str
    after: str
    stops: list[str]
    """Running models that are stopped."""
    parks: bool
    """Whether no node is left, so that they stay stopped."""
    steps: list[SwitchStepReport]
    replaced: list[str]
    """Types of the resources that are deleted and created again."""
    downtime: list[DowntimeReport] = at("downtimes")
    vcpus: list[SwitchVcpuReport]
    """Empty if the outputs lack the data."""


class RestartReport(Report):
    """A running model whose limit changes, in a pool whose sharing does not."""

    model: str = at("downtime.model")
    before_mib: int
    after_mib: int
    minutes: Tenths = at("downtime.minutes")
    plus_minus: Tenths = at("downtime.plus_minus")


class SwitchReport(Report):
    """The changes to the running stack."""

    pools: list[PoolSwitchReport]
    restarts: list[RestartReport]
    """Those that the outputs tell: another context restarts a model, too."""
    new_pools: list[str] = at("new")
    gone_pools: list[str] = at("gone")
    gone_models: list[str]
    """Running models that the file no longer has."""
