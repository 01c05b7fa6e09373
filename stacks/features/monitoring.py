"""The metrics of a stack, if its file has the section `monitoring`."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from sharing.cost.bill import node_usd, pool_usd
from sharing.names import PROJECT
from sharing.sections.pools import GpuPool
from stacks.base import Serving
from stacks.stack_file.judge import Plan

if TYPE_CHECKING:
    from components import MonitoredPool


def watch_metrics(stack: Serving) -> Mapping[str, Any]:
    """The exporters, and what reads them, after the models: monitors are in their namespace.

    Returns the outputs of the store; none without one.
    """
    from components import Monitoring, MonitoringArgs

    base, plan = stack.base, stack.base.plan
    settings, bill = plan.config.monitoring, plan.verdict.cost
    assert bill, "an accepted stack has a bill"
    pools = plan.config.pools
    monitoring = Monitoring(
        f"{PROJECT}-monitoring",
        MonitoringArgs(
            store=settings.store,
            service_monitors=settings.service_monitors,
            parks=plan.config.park is not None,
            gpu_exporter=not all(pool.sharing.needs_mig_manager for pool in pools),
            karpenter=bool(plan.config.karpenter_pools),
            pools=[_monitored(pool, plan) for pool in pools],
            other_usd_per_hour=round(bill.usd_per_hour - sum(pool_usd(pool, plan.config) for pool in pools), 4),
        ),
        base.inside(*base.parts("system_nodes"), stack.models),
    )
    if settings.store == "none":
        return {}
    return {"grafana_url": monitoring.url, "grafana_admin_password": monitoring.admin_password}


def _monitored(pool: GpuPool, plan: Plan) -> "MonitoredPool":
    """The numbers of a pool that the dashboard shows. With MIG, the exporter reports the size of each slice."""
    from components import MonitoredPool

    limits = [shares.memory_mib for shares in pool.offers if shares.enforced and shares.sharers > 1]
    return MonitoredPool(
        name=pool.name,
        node_usd_per_hour=round(node_usd(pool, plan.config), 4),
        share_mib=limits[0] if limits and not pool.sharing.needs_mig_manager else None,
        # A model that scales to zero has no pod most of the time.
        models=[] if plan.config.scale_to_zero.enabled else [served.id for served in plan.config.models_of(pool)],
    )
