"""Which pools the schedule of `park` keeps without nodes now, and how the last `up` deployed them (decision 0135).

It asks AWS, because the state does not know: EventBridge Scheduler resizes the node groups behind Pulumi's back. Pools
with `desired: 0` are parked by the stack file, and are none of these.
"""

import hashlib
import json
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Any

import pulumi
import pulumi_aws as aws

from sharing import versions
from sharing.names import OLLAMA_NAMESPACE, POOL_LABEL, PROJECT
from sharing.sections.config import StackConfig
from stacks.outputs import ParkingOutputs
from stacks.stack_file.judge import Plan

OUTPUT = "parking"
LAUNCHED_BY = "karpenter.sh/nodepool"
"""Karpenter's tag on the instances of a pool (karpenter-provider-aws v1.14.1 pkg/apis/v1/labels.go)."""
READ_OUTPUTS = "pulumi:pulumi:readStackOutputs"
"""The engine's own function behind `StackReference`, which has no plain result (pulumi
pkg/resource/deploy/builtins.go). Which resources exist depends on it, so it cannot be an output."""


@dataclass(frozen=True, kw_only=True)
class Parking:
    """How to deploy the pools of a stack with the section `park`."""

    asleep: frozenset[str] = frozenset()
    """Pools to deploy without nodes: nothing waits for one."""
    unchanged: bool = False
    """Whether the last `up` deployed the same, so that this one changes nothing, whatever size the pools have now."""


def find_parking(plan: Plan, provider: aws.Provider) -> Parking:
    """Asks AWS which pools are asleep. Raises what the provider raises if AWS does not answer.

    A stack that was deployed awake and has not changed is deployed as awake: the same resources, so nothing waits. As
    soon as a pool that was deployed as asleep has nodes, everything is deployed as awake, and its shares are checked.
    """
    last = _read_last(is_scheduled=plan.config.park is not None)
    options = pulumi.InvokeOptions(provider=provider)
    cluster = plan.cluster_name
    # A list, because describing a missing cluster fails.
    if last is None or cluster not in (aws.eks.get_clusters(opts=options).names or ()):
        return Parking()
    now = frozenset({*_find_empty_groups(cluster, options), *_find_empty_pools(plan, cluster, options)})
    before = frozenset(last.parked)
    if plan.config.park is None:
        # A pool that was deployed as asleep has no nodes in the state, so this `up` starts them.
        _warn_of_removed_schedule(plan.config, now - before)
        return Parking()
    if last.plan == digest(plan) and before <= now:
        return Parking(asleep=before, unchanged=True)
    return Parking(asleep=now)


def _warn_of_removed_schedule(config: StackConfig, asleep: Collection[str]) -> None:
    """Perhaps nothing wakes these pools: if the state has the wanted nodes and replicas, `up` sees no difference."""
    left = [pool for pool in config.active_pools if pool.name in asleep and not config.scale_to_zero.enabled]
    if any(pool.provisioner == "node-group" for pool in left):
        pulumi.log.warn(
            "the stack is parked, and no schedule wakes it any more: if its nodes do not start with this `up`, run "
            "`pulumi up --refresh`"
        )
    karpenter = [pool for pool in left if pool.provisioner == "karpenter"]
    if names := " ".join(served.id for pool in karpenter for served in config.models_of(pool)):
        pulumi.log.warn(
            "models are parked, and no schedule starts them any more: if they do not start with this `up`, run "
            f"`kubectl --namespace {OLLAMA_NAMESPACE} scale deployment {names} --replicas=1`"
        )


def record(plan: Plan, parking: Parking) -> dict[str, Any]:
    """The output that the next `up` reads."""
    return ParkingOutputs(plan=digest(plan), parked=tuple(sorted(parking.asleep))).model_dump()


def digest(plan: Plan) -> str:
    """Changes with the stack file and with the versions that this program deploys."""
    pins = {name: value for name, value in vars(versions).items() if isinstance(value, str | dict) and name.isupper()}
    text = json.dumps([plan.config.model_dump(mode="json"), pins])
    return hashlib.sha256(text.encode()).hexdigest()


def _find_empty_groups(cluster: str, options: pulumi.InvokeOptions) -> Iterator[str]:
    """Pools of which every node group has no nodes. After a failed replacement, a pool has two groups."""
    sizes: dict[str, int] = {}
    for name in aws.eks.get_node_groups(cluster_name=cluster, opts=options).names or ():
        group = aws.eks.get_node_group(cluster_name=cluster, node_group_name=name, opts=options)
        if pool := (group.labels or {}).get(POOL_LABEL):
            sizes[pool] = sizes.get(pool, 0) + sum(sizing.desired_size for sizing in group.scaling_configs or ())
    return (pool for pool, size in sizes.items() if size == 0)


def _find_empty_pools(plan: Plan, cluster: str, options: pulumi.InvokeOptions) -> Iterator[str]:
    """Pools of Karpenter without an instance."""
    for pool in plan.config.karpenter_pools:
        answer = aws.ec2.get_instances(
            instance_tags={LAUNCHED_BY: pool.name, f"kubernetes.io/cluster/{cluster}": "owned"},
            instance_state_names=["pending", "running"],
            opts=options,
        )
        if not answer.ids:
            yield pool.name


def _read_last(*, is_scheduled: bool) -> ParkingOutputs | None:
    """What the last successful `up` recorded; None unless it had the section `park`.

    A running `up` keeps these outputs until it ends (pulumi pkg/resource/deploy/step.go, SameStep.Apply).
    """
    name = f"{pulumi.get_organization()}/{PROJECT}/{pulumi.get_stack()}"
    try:
        answer = pulumi.runtime.invoke(READ_OUTPUTS, {"name": name}).value
    except Exception as error:  # the SDK raises no narrower one for a function that fails
        if not is_scheduled:
            return None
        # As if something had changed: then a pool that is asleep is deployed as such.
        pulumi.log.warn(f"the outputs of the last `up` are unknown: {error}")
        return ParkingOutputs(plan="", parked=())
    outputs = ((answer or {}).get("outputs") or {}).get(OUTPUT)
    return ParkingOutputs.model_validate(outputs) if outputs else None
