"""The outputs of a stack: `stacks.deploy` exports `describe`, and every command reads `StackOutputs`.

Fields with a default are missing where a stack has no such part.
"""

from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from sharing.sections.pools import Capacity, GpuPool
from sharing.sections.provisioners import Provisioner
from stacks.stack_file.judge import Plan


class _Outputs(BaseModel):
    model_config = ConfigDict(frozen=True)


class SharesOutputs(_Outputs):
    """Shares of one kind."""

    resource: str
    """Extended resource that a pod requests, e.g. `nvidia.com/gpu`."""
    per_gpu: int
    """Shares of one GPU."""
    total: int | None = None
    """Number on all nodes of the pool."""
    memory_mib: int | None = None
    """Memory of one share; None if all shares use the memory of the GPU."""
    enforced: bool | None = None
    """Whether a process that takes more memory than its share is refused."""


class PoolOutputs(_Outputs):
    """A pool of GPU nodes."""

    mode: str
    """The sharing mode."""
    nodes: int
    """0 for a parked pool."""
    shares: tuple[SharesOutputs, ...]
    """One entry for each kind of share."""
    config: str
    """The mode with its settings (`Sharing.config_name`), e.g. `timeslice-2`."""
    cut: str
    """Layout of each GPU (`Sharing.cut`)."""
    gpu: str
    """Name of the GPU in `tandem gpus`."""
    instance_types: tuple[str, ...]
    """EC2 instance types that the nodes may have."""
    capacity: Capacity
    """`spot` or `on-demand`."""
    provisioner: Provisioner
    """The creator of the nodes: `node-group` or `karpenter`."""


class CostOutputs(_Outputs):
    """The bill."""

    usd_per_hour: float
    """Of the running stack."""
    dedicated_usd_per_hour: float
    """Of the same stack with a GPU for each model."""
    price_date: str
    """Date of the oldest price of a GPU node."""


class FitOutputs(_Outputs):
    """How a model fits its share."""

    needs_mib: int
    """Predicted GPU memory."""
    share_mib: int | None = None
    """Memory of its share; None if all shares use the memory of the GPU."""


class ParkingOutputs(_Outputs):
    """What the last `up` of a stack with the section `park` deployed, for the next one (`stacks.asleep_pools`)."""

    plan: str
    """Digest of the stack file, and of the versions that the program deploys."""
    parked: tuple[str, ...]
    """Pools that it deployed without nodes."""
    schedule_group: str | None = None
    """Name of the schedule group in EventBridge Scheduler; None without node groups."""


class StackOutputs(_Outputs):
    """A whole stack."""

    pools: dict[str, PoolOutputs] = Field(min_length=1)
    """By the pools' names; the only pool is called `gpu`."""
    endpoints: dict[str, Any]
    """URLs of the models' Services by the models' ids."""
    cluster_name: str | None = None
    """Name of the EKS cluster."""
    kubeconfig: Any = None
    """Secret: `pulumi stack output kubeconfig --show-secrets` prints it as JSON."""
    verified_shares: dict[str, Any] = {}
    """Results of the share check of each pool."""
    cost: CostOutputs | None = None
    """The bill of the plan."""
    fit: dict[str, FitOutputs] = {}
    """By the models' ids."""
    parking: ParkingOutputs | None = None
    """None without the section `park`."""
    ui_url: str | None = None
    """In-cluster URL of the web page; None without `ui`."""
    openai_url: str | None = None
    """In-cluster base URL for clients of OpenAI's API; None without `ui`."""
    ui_admin_password: Any = None
    """Secret: `pulumi stack output ui_admin_password --show-secrets` prints it."""
    ui_volume_id: str | None = None
    """ID of the EBS volume with the page's accounts and documents; None without one."""
    destroy_deletes: str | None = None
    """What `pulumi destroy` deletes and no `up` brings back. Its preview shows this output. None without the page's
    volume.
    """
    grafana_url: str | None = None
    """In-cluster URL of the dashboards; None without `monitoring.store`."""
    grafana_admin_password: Any = None
    """Secret: `pulumi stack output grafana_admin_password --show-secrets` prints it. The user is `admin`."""
    mode: str | None = None
    """The sharing mode of the only pool. Stacks with several pools have it in `pools` only."""
    shares: tuple[SharesOutputs, ...] | None = None
    """The shares of the only pool."""
    resource_names: tuple[str, ...] | None = None
    """Extended resources that pods may request, if there is only one pool."""


def describe(plan: Plan) -> dict[str, Any]:
    """The outputs that are known before the deployment."""
    bill, pools = plan.verdict.cost, {pool.name: describe_pool(pool) for pool in plan.config.pools}
    assert bill is not None, "an accepted stack has a bill"
    cost = CostOutputs(
        usd_per_hour=round(bill.usd_per_hour, 4),
        dedicated_usd_per_hour=round(bill.dedicated_usd_per_hour, 4),
        price_date=bill.price_date,
    )
    fit = {
        fit.served.id: FitOutputs(needs_mib=round(fit.placement.need.total), share_mib=fit.placement.share_mib)
        for fit in plan.verdict.fits
    }
    outputs: dict[str, Any] = {"pools": pools, "cost": cost, "fit": fit}
    if len(pools) == 1:
        [only] = pools.values()
        outputs |= {"mode": only.mode, "shares": only.shares}
    return StackOutputs.model_construct(**outputs).model_dump(mode="json", exclude_unset=True)


def describe_pool(pool: GpuPool) -> PoolOutputs:
    """The outputs of one pool."""
    gpu = pool.smallest.gpu
    return PoolOutputs(
        mode=pool.sharing.mode,
        nodes=pool.desired,
        shares=tuple(
            SharesOutputs(
                resource=shares.resource,
                per_gpu=shares.per_gpu,
                total=pool.planned_gpus * shares.per_gpu,
                memory_mib=shares.memory_mib,
                enforced=shares.enforced,
            )
            for shares in pool.offers
        ),
        config=pool.sharing.config_name,
        cut=pool.sharing.cut(gpu),
        gpu=gpu.name,
        instance_types=tuple(pool.instance_types),
        capacity=pool.capacity,
        provisioner=pool.provisioner,
    )
