"""The `monitoring` section of a stack file."""

from typing import Literal

from pydantic import Field

from sharing.section import Section


class MonitoringSettings(Section):
    """Metrics of the models and the GPUs."""

    store: Literal["none", "builtin"] = Field(
        default="none",
        examples=["builtin", "none"],
        description="`builtin` deploys a metrics store with dashboards on the system nodes. It keeps nothing after "
        "`pulumi destroy`.",
    )
    service_monitors: bool = Field(
        default=False,
        examples=[True, False],
        description="Register the metrics with the Prometheus Operator that the cluster already has.",
    )

    @property
    def has_metrics(self) -> bool:
        """Whether anything reads the models' metrics."""
        return self.store != "none" or self.service_monitors
