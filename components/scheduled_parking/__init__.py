"""ScheduledParking: removes GPU nodes at set times, and brings them back."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import pulumi
import pulumi_aws as aws
import pulumi_kubernetes as k8s

from components.arguments import Given, Options, check_arguments, check_least, check_tags, read_arguments
from components.iam import document
from components.scheduled_parking import permissions
from components.scheduled_parking.cron_jobs import LATE_SECONDS, SCRIPT, cron_job, script_text
from components.scheduled_parking.permissions import Scope
from sharing.names import OLLAMA_NAMESPACE, TOKEN, filled
from sharing.schedule.cron import CronError, read_cron
from sharing.schedule.week import EXAMPLES

__all__ = ["ParkedNodeGroup", "ScheduledParking", "ScheduledParkingArgs"]

RETRY_SECONDS = LATE_SECONDS
"""How long EventBridge Scheduler may repeat a call that EKS refuses, e.g. while another update of the group runs.
AWS does not document which refusals it repeats."""
KEPT_SECONDS = 14 * 24 * 3600
"""How long the dead-letter queue keeps a failure: SQS's maximum."""


@check_arguments
@dataclass(frozen=True, kw_only=True)
class ParkedNodeGroup:
    """A node group to park.

    Raises `ValueError` for a value of the wrong type, and a number of nodes below one.
    """

    cluster_name: pulumi.Input[str]
    """Name of the EKS cluster."""
    node_group_name: pulumi.Input[str]
    """Name of the node group, e.g. `SpotGpuNodeGroup.node_group_name`."""
    nodes: int = 1
    """Number of nodes after waking. It must not exceed the group's maximum."""

    def __post_init__(self) -> None:
        check_least(self, nodes=1)


@check_arguments
@dataclass(frozen=True, kw_only=True)
class ScheduledParkingArgs:
    """Inputs of ScheduledParking.

    Raises `ValueError` for a value of the wrong type, invalid cron text, tags that AWS refuses, and if there is nothing
    to park.
    """

    schedule: str
    """When to park: cron text with five fields, e.g. `"0 20 * * MON-FRI"`."""
    wake: str
    """When to wake: cron text with five fields, e.g. `"0 8 * * MON-FRI"`."""
    timezone: str = "UTC"
    """Time zone of both, e.g. `"Europe/Paris"`."""
    node_groups: Mapping[str, ParkedNodeGroup] = field(default_factory=dict)
    """Node groups to park, by a name of your choice, which becomes part of the schedules' names."""
    deployments: Sequence[str] = ()
    """Deployments to park, each with one replica: the models of Karpenter's pools. Karpenter terminates the nodes."""
    namespace: pulumi.Input[str] = OLLAMA_NAMESPACE
    """Namespace of these Deployments. It must exist."""
    tags: Mapping[str, str] = field(default_factory=dict)
    """Tags on every AWS resource that supports tags. The schedule group gets none with an empty value: EventBridge
    Scheduler refuses them."""

    def __post_init__(self) -> None:
        check_tags(self)
        for name in ("schedule", "wake"):
            try:
                read_cron(getattr(self, name))
            except CronError as error:
                raise ValueError(f"ScheduledParkingArgs.{name} {error.rule}. {error.fix(EXAMPLES[name])}") from None
        if not self.node_groups and not self.deployments:
            raise ValueError(
                "ScheduledParkingArgs has nothing to park. Pass `node_groups`, `deployments` or both of them."
            )


class ScheduledParking(pulumi.ComponentResource):
    """Parks GPU nodes at set times and wakes them again, so that they cost nothing at night.

    EventBridge Scheduler resizes node groups. It writes no log, so calls that EKS refuses go to a dead-letter queue. A
    CronJob in the cluster scales Deployments. Let Pulumi ignore the group's size: `SpotGpuNodeGroupArgs.autoscaled`.

    ```python
    from tandem import ParkedNodeGroup, ScheduledParking, ScheduledParkingArgs

    args = ScheduledParkingArgs(
        schedule="0 20 * * MON-FRI",
        wake="0 8 * * MON-FRI",
        timezone="Europe/Paris",
        node_groups={"gpu": ParkedNodeGroup(cluster_name="demo", node_group_name="gpu-nodes")},
    )
    parking = ScheduledParking("parking", args)
    ```
    """

    schedule_group_name: pulumi.Output[str | None]
    """Name of the schedule group; None without node groups."""
    dead_letter_queue_url: pulumi.Output[str | None]
    """URL of the queue with calls that EKS refused; None without node groups."""

    def __init__(self, name: str, args: Given[ScheduledParkingArgs] = None, opts: Options = None, **more: Any) -> None:
        args = read_arguments(ScheduledParkingArgs, args, more)
        super().__init__(TOKEN.format("ScheduledParking"), name, None, opts)
        self._name, self._args, self._tags = name, args, dict(args.tags)
        self._child = pulumi.ResourceOptions(parent=self)
        self.schedule_group_name = self.dead_letter_queue_url = pulumi.Output.from_input(None)
        if args.node_groups:
            self._park_node_groups()
        if args.deployments:
            self._park_deployments()
        self.register_outputs(
            {"scheduleGroupName": self.schedule_group_name, "deadLetterQueueUrl": self.dead_letter_queue_url}
        )

    def _park_node_groups(self) -> None:
        """Schedules for each node group: one that removes its nodes and one that brings them back."""
        # Schedules have no tags: only a group of their own shows who owns them, and deletes them with it.
        group = aws.scheduler.ScheduleGroup(f"{self._name}-schedules", tags=filled(self._tags), opts=self._child)
        queue = aws.sqs.Queue(
            f"{self._name}-failures",
            message_retention_seconds=KEPT_SECONDS,
            sqs_managed_sse_enabled=True,
            tags=self._tags,
            opts=self._child,
        )
        scope = pulumi.Output.all(group.arn, queue.arn).apply(_scope)
        role, policies = self._role(scope, queue)
        for pool, parked in self._args.node_groups.items():
            sizes = {
                "park": (self._args.schedule, {"MinSize": 0, "DesiredSize": 0}),
                "wake": (self._args.wake, {"MinSize": 0, "DesiredSize": parked.nodes}),
            }
            for verb, (cron, size) in sizes.items():
                target = aws.scheduler.ScheduleTargetArgs(
                    arn=scope.apply(lambda scope: scope.update_node_group),
                    role_arn=role.arn,
                    input=_call(parked, size),
                    dead_letter_config=aws.scheduler.ScheduleTargetDeadLetterConfigArgs(arn=queue.arn),
                    retry_policy=aws.scheduler.ScheduleTargetRetryPolicyArgs(
                        maximum_event_age_in_seconds=RETRY_SECONDS
                    ),
                )
                aws.scheduler.Schedule(
                    f"{self._name}-{pool}-{verb}",
                    group_name=group.name,
                    description=f"{verb}s the nodes of {pool}",
                    schedule_expression=read_cron(cron).for_eventbridge(),
                    schedule_expression_timezone=self._args.timezone,
                    flexible_time_window=aws.scheduler.ScheduleFlexibleTimeWindowArgs(mode="OFF"),
                    target=target,
                    # Without its policies, the role cannot even report that a call failed.
                    opts=pulumi.ResourceOptions(parent=self, depends_on=policies),
                )
        self.schedule_group_name = group.name
        self.dead_letter_queue_url = queue.url

    def _role(self, scope: pulumi.Output[Scope], queue: "aws.sqs.Queue") -> tuple[aws.iam.Role, list[pulumi.Resource]]:
        """The schedules' role, and the policies of role and queue."""
        name = f"{self._name}-scheduler"
        trusted = scope.apply(lambda scope: document(permissions.trust_statements(scope)))
        role = aws.iam.Role(f"{name}-role", assume_role_policy=trusted, tags=self._tags, opts=self._child)
        groups = pulumi.Output.all(
            *(pulumi.Output.all(group.cluster_name, group.node_group_name) for group in self._args.node_groups.values())
        )
        policy = aws.iam.Policy(
            f"{name}-policy",
            policy=pulumi.Output.all(scope, groups).apply(lambda both: document(permissions.role_statements(*both))),
            tags=self._tags,
            opts=self._child,
        )
        attached = aws.iam.RolePolicyAttachment(
            f"{name}-policy-attached", role=role.name, policy_arn=policy.arn, opts=self._child
        )
        received = aws.sqs.QueuePolicy(
            f"{self._name}-failures-policy",
            queue_url=queue.id,
            policy=pulumi.Output.all(scope, role.arn).apply(lambda both: document(permissions.queue_statements(*both))),
            opts=self._child,
        )
        return role, [attached, received]

    def _park_deployments(self) -> None:
        """CronJobs that scale the Deployments, and an account that can do nothing else."""
        meta, namespace = k8s.meta.v1.ObjectMetaArgs, self._args.namespace
        account = k8s.core.v1.ServiceAccount(
            f"{self._name}-account",
            metadata=meta(name=self._name, namespace=namespace),
            automount_service_account_token=False,
            opts=self._child,
        ).metadata.name
        allowed = self._allow_scaling(cast(pulumi.Output[str], account))
        script = k8s.core.v1.ConfigMap(
            f"{self._name}-script",
            metadata=meta(name=self._name, namespace=namespace),
            data={SCRIPT: script_text()},
            opts=self._child,
        ).metadata.name
        for verb, cron, replicas in (("park", self._args.schedule, 0), ("wake", self._args.wake, 1)):
            spec = cron_job(
                read_cron(cron),
                self._args.timezone,
                self._args.deployments,
                replicas,
                namespace=namespace,
                account=account,
                script=script,
            )
            k8s.batch.v1.CronJob(
                f"{self._name}-{verb}",
                metadata=meta(name=f"{self._name}-{verb}", namespace=namespace),
                spec=cast(Any, spec),
                opts=pulumi.ResourceOptions(parent=self, depends_on=[allowed]),
            )

    def _allow_scaling(self, account: pulumi.Output[str]) -> pulumi.Resource:
        """Lets the account read and change the number of replicas of these Deployments only."""
        meta = k8s.meta.v1.ObjectMetaArgs(name=self._name, namespace=self._args.namespace)
        role = k8s.rbac.v1.Role(
            f"{self._name}-role",
            metadata=meta,
            rules=[
                k8s.rbac.v1.PolicyRuleArgs(
                    api_groups=["apps"],
                    resources=["deployments/scale"],
                    resource_names=[*self._args.deployments],
                    verbs=["get", "patch"],
                )
            ],
            opts=self._child,
        )
        return k8s.rbac.v1.RoleBinding(
            f"{self._name}-binding",
            metadata=meta,
            role_ref=k8s.rbac.v1.RoleRefArgs(
                api_group="rbac.authorization.k8s.io", kind="Role", name=role.metadata.name
            ),
            subjects=[k8s.rbac.v1.SubjectArgs(kind="ServiceAccount", name=account, namespace=self._args.namespace)],
            opts=self._child,
        )


def _call(parked: ParkedNodeGroup, size: Mapping[str, int]) -> pulumi.Output[str]:
    """EKS's call in PascalCase: EventBridge Scheduler refuses other spellings. The maximum stays as it is."""
    return pulumi.Output.all(parked.cluster_name, parked.node_group_name).apply(
        lambda names: json.dumps({"ClusterName": names[0], "NodegroupName": names[1], "ScalingConfig": {**size}})
    )


def _scope(arns: Sequence[str]) -> Scope:
    """The scope; with placeholders under Pulumi's mocks, which have no ARNs."""
    group, queue = arns
    return Scope(
        group_arn=group or "arn:aws:scheduler:region:account:schedule-group/name",
        queue_arn=queue or "arn:aws:sqs:region:account:name",
    )
