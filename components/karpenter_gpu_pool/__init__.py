"""KarpenterGpuPool: GPU nodes that come when pods wait, counted by shares, and all that Karpenter needs for it."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pulumi
import pulumi_aws as aws
import pulumi_kubernetes as k8s

from components.arguments import check_arguments, check_least
from components.charts import merge_values
from components.iam import EC2, POD_IDENTITY, managed_policy, trust
from components.karpenter_gpu_pool import manifests, permissions
from components.karpenter_gpu_pool.manifests import KarpenterPool, Manifest
from components.node_group import NODE_POLICIES
from sharing import versions
from sharing.names import TOKEN, ZONE_LABEL

__all__ = ["KarpenterGpuPool", "KarpenterGpuPoolArgs", "KarpenterPool"]

NAMESPACE = "kube-system"
SERVICE_ACCOUNT = "karpenter"
TIMEOUT_SECONDS = 600
MESSAGE_SECONDS = 300
"""How long an interruption is worth knowing; as in Karpenter's own documents."""
DELETE_TIMEOUT = "30m"
"""A pool goes when its last node has: `manifests.TERMINATION_GRACE_PERIOD`, and EC2's own time."""
EVENTS = {
    "health": ("aws.health", "AWS Health Event"),
    "spot": ("aws.ec2", "EC2 Spot Instance Interruption Warning"),
    "rebalance": ("aws.ec2", "EC2 Instance Rebalance Recommendation"),
    "state": ("aws.ec2", "EC2 Instance State-change Notification"),
    "reservation": ("aws.ec2", "EC2 Capacity Reservation Instance Interruption Warning"),
}
"""What Karpenter wants to hear of, by source and kind. Source: cloudformation.yaml of v1.14.1."""


@dataclass(frozen=True, kw_only=True)
class KarpenterGpuPoolArgs:
    """Inputs of KarpenterGpuPool.

    Raises `ValueError` for a value that no field takes, pools of one name or none, a tag that is Karpenter's own, and a
    sharing mode that the GPU or Karpenter does not support.
    """

    cluster_name: pulumi.Input[str]
    """EKS cluster that the nodes join, one with access entries. An Output of the cluster, so that they go first."""
    node_subnet_ids: pulumi.Input[Sequence[pulumi.Input[str]]]
    """Subnets that the nodes may run in."""
    security_group_id: pulumi.Input[str]
    """Security group of the nodes: EKS's own of the cluster."""
    pools: Sequence[KarpenterPool]
    """The kinds of node, one at least; their names must differ."""
    controller_replicas: int = 2
    """Controllers. No more than there are system nodes: a second one on the only node would block every upgrade."""
    controller_depends_on: Sequence[pulumi.Resource] = ()
    """What the controller cannot work without, where it is of the same program: system nodes, Pod Identity agent, DNS,
    storage driver. On destroy they stay until Karpenter has terminated its instances.
    """
    tags: Mapping[str, str] = field(default_factory=dict)
    """Tags on everything that can carry tags, also on what Karpenter makes."""
    values: Mapping[str, Any] = field(default_factory=dict)
    """More values for the controller's chart, merged last."""

    def __post_init__(self) -> None:
        check_arguments(self)
        check_least(self, controller_replicas=1)
        manifests.check(self.pools, self.tags)


class KarpenterGpuPool(pulumi.ComponentResource):
    """Karpenter, and pools of GPU nodes that it brings and takes away. One for a cluster: it installs the controller.

    Goes in this order: pools with their nodes, node classes, controller, its permissions, the nodes' role.

    ```python
    from tandem import KarpenterGpuPool, KarpenterGpuPoolArgs, KarpenterPool, TimeSlicing

    args = KarpenterGpuPoolArgs(
        cluster_name="demo",
        node_subnet_ids=["subnet-1"],
        security_group_id="sg-1",
        pools=[KarpenterPool(name="gpu", sharing=TimeSlicing(replicas=2), instance_types=["g4dn.xlarge"])],
    )
    karpenter = KarpenterGpuPool("karpenter", args)
    ```
    """

    node_pool_names: pulumi.Output[list[str]]
    """Names of the NodePools, known once they are ready."""
    node_role_arn: pulumi.Output[str]
    """ARN of the nodes' role."""

    def __init__(self, name: str, args: KarpenterGpuPoolArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__(TOKEN.format("KarpenterGpuPool"), name, None, opts)
        self._name, self._args, self._tags = name, args, dict(args.tags)
        self._child = pulumi.ResourceOptions(parent=self)

        node_role, joining = self._node_role()
        queue = self._queue()
        identity = self._identity(node_role, queue)
        crds = self._release("crds", versions.KARPENTER_CRD_REPOSITORY, needs=[])
        controller = self._release(
            "controller",
            versions.KARPENTER_REPOSITORY,
            values=pulumi.Output.all(args.cluster_name, queue.name, _arn_of(queue)).apply(self._values),
            # The CRDs outlive it: their own release, uninstalled, deletes every NodePool at once. Its identity too: a
            # pod gets credentials only if the association is there when it starts, and needs them to terminate nodes.
            needs=[crds, *identity, *args.controller_depends_on],
        )
        pools = self._pools(node_role, [controller, *joining])

        names = [pool.name for pool in args.pools]
        self.node_pool_names = pulumi.Output.all(*(pool.id for pool in pools)).apply(lambda _: names)
        self.node_role_arn = node_role.arn
        self.register_outputs({"nodePoolNames": self.node_pool_names, "nodeRoleArn": self.node_role_arn})

    def _node_role(self) -> tuple[aws.iam.Role, list[pulumi.Resource]]:
        """The nodes' role, and what lets nodes with it join. Not a node group's: EKS makes the entry for those itself,
        and a second one is refused.
        """
        name = f"{self._name}-nodes"
        role = self._role(name, trust(EC2, self._child))
        joining: list[pulumi.Resource] = [
            aws.iam.RolePolicyAttachment(
                f"{name}-{policy}", role=role.name, policy_arn=managed_policy(policy, self._child), opts=self._child
            )
            for policy in NODE_POLICIES
        ]
        entry = aws.eks.AccessEntry(
            f"{name}-entry",
            cluster_name=self._args.cluster_name,
            principal_arn=role.arn,
            type="EC2_LINUX",
            tags=self._tags,
            opts=self._child,
        )
        return role, [*joining, entry]

    def _queue(self) -> aws.sqs.Queue:
        """Where EventBridge writes what is about to happen to instances; without it a spot node goes unannounced."""
        name = f"{self._name}-interruptions"
        queue = aws.sqs.Queue(
            name,
            message_retention_seconds=MESSAGE_SECONDS,
            sqs_managed_sse_enabled=True,
            tags=self._tags,
            opts=self._child,
        )
        rules = []
        for event, (source, kind) in EVENTS.items():
            rule = aws.cloudwatch.EventRule(
                f"{name}-{event}",
                event_pattern=json.dumps({"source": [source], "detail-type": [kind]}),
                tags=self._tags,
                opts=self._child,
            )
            aws.cloudwatch.EventTarget(f"{name}-{event}-target", rule=rule.name, arn=queue.arn, opts=self._child)
            rules.append(rule.arn)
        aws.sqs.QueuePolicy(
            f"{name}-policy",
            queue_url=queue.id,
            policy=pulumi.Output.all(_arn_of(queue), *rules).apply(
                lambda arns: permissions.document(permissions.queue_statements(arns[0], arns[1:]))
            ),
            opts=self._child,
        )
        return queue

    def _identity(self, node_role: aws.iam.Role, queue: aws.sqs.Queue) -> list[pulumi.Resource]:
        """The controller's role with its policies, and what hands it to the controller's pods."""
        name = f"{self._name}-controller"
        role = self._role(f"{name}-role", trust(POD_IDENTITY, self._child, tags_sessions=True))
        scope = pulumi.Output.all(self._args.cluster_name, node_role.arn, _arn_of(queue)).apply(_scope)
        attached: list[pulumi.Resource] = []
        for part, statements in permissions.PARTS.items():
            policy = aws.iam.Policy(
                f"{name}-{part}",
                policy=scope.apply(statements).apply(permissions.document),
                tags=self._tags,
                opts=self._child,
            )
            attached.append(
                aws.iam.RolePolicyAttachment(
                    f"{name}-{part}-attached", role=role.name, policy_arn=policy.arn, opts=self._child
                )
            )
        association = aws.eks.PodIdentityAssociation(
            f"{name}-identity",
            cluster_name=self._args.cluster_name,
            namespace=NAMESPACE,
            service_account=SERVICE_ACCOUNT,
            role_arn=role.arn,
            tags=self._tags,
            opts=self._child,
        )
        return [*attached, association]

    def _role(self, name: str, trusted: str) -> aws.iam.Role:
        return aws.iam.Role(name, assume_role_policy=trusted, tags=self._tags, opts=self._child)

    def _release(
        self, part: str, chart: str, *, needs: Sequence[pulumi.Resource], values: pulumi.Input[Any] = None
    ) -> k8s.helm.v3.Release:
        return k8s.helm.v3.Release(
            f"{self._name}-{part}",
            name=chart.rpartition("/")[2],
            namespace=NAMESPACE,
            chart=chart,
            version=versions.KARPENTER_CHART,
            values=values,
            # The controller's own copy of the CRDs would never be upgraded.
            skip_crds=True,
            atomic=True,
            timeout=TIMEOUT_SECONDS,
            opts=pulumi.ResourceOptions.merge(self._child, pulumi.ResourceOptions(depends_on=[*needs])),
        )

    def _values(self, known: Sequence[str]) -> dict[str, Any]:
        cluster, queue_name, queue_arn = known
        ours = values(cluster, queue_name, _region(queue_arn), self._args.controller_replicas)
        return merge_values(ours, self._args.values)

    def _pools(
        self, node_role: aws.iam.Role, needs: Sequence[pulumi.Resource]
    ) -> list[k8s.apiextensions.CustomResource]:
        """For each pool node class, overlays, NodePool: each needs what comes before it, for as long as it lives.

        The class needs the controller, and with it all that it needs: it terminates the instances, deletes the instance
        profile that holds the nodes' role, and only then drops the finalizers. Without policies and access entry nodes
        never register, and what runs on them cannot be drained. The overlays are there before the pool and stay until
        it has gone: a second without one, and every pod gets a node of its own.
        """
        pools, weight = [], 1
        for pool in self._args.pools:
            node_class = self._object(
                f"{pool.name}-class",
                manifests.node_class(
                    pool,
                    role=node_role.name,
                    subnet_ids=self._args.node_subnet_ids,
                    security_group_id=self._args.security_group_id,
                    tags=self._tags,
                ),
                needs,
            )
            overlays = [
                self._object(overlay["metadata"]["name"], overlay, [node_class])
                for overlay in manifests.node_overlays(pool, weight)
            ]
            weight += len(overlays)
            anew = pool.mode_taint or pool.sharing.config_name
            pools.append(self._object(f"{pool.name}-pool", manifests.node_pool(pool), overlays, anew))
        return pools

    def _object(
        self,
        part: str,
        manifest: Manifest,
        needs: Sequence[pulumi.Resource],
        replaced_with: pulumi.Input[str] | None = None,
    ) -> k8s.apiextensions.CustomResource:
        """Registers an object; it is deleted, with all that it brought, before a new one comes for `replaced_with`."""
        return k8s.apiextensions.CustomResource(
            f"{self._name}-{part}",
            api_version=manifest["apiVersion"],
            kind=manifest["kind"],
            metadata=k8s.meta.v1.ObjectMetaArgs(**manifest["metadata"]),
            spec=manifest["spec"],
            opts=pulumi.ResourceOptions.merge(
                self._child,
                pulumi.ResourceOptions(
                    depends_on=[*needs],
                    custom_timeouts=pulumi.CustomTimeouts(delete=DELETE_TIMEOUT),
                    replacement_trigger=replaced_with,
                    delete_before_replace=replaced_with is not None,
                ),
            ),
        )


def values(cluster: str, queue: str, region: str, replicas: int) -> dict[str, Any]:
    """Values of the chart `karpenter`. It has no schema: a misspelt path does nothing, so a test knows them all."""
    return {
        "replicas": replicas,
        "serviceAccount": {"create": True, "name": SERVICE_ACCOUNT},
        "settings": {
            "clusterName": cluster,
            "interruptionQueue": queue,
            # Without it Karpenter counts cards, and brings a node for every pod.
            "featureGates": {"nodeOverlay": True},
        },
        "controller": {
            # It would ask the metadata service, which one hop does not reach.
            "env": [{"name": "AWS_REGION", "value": region}],
            "resources": {"requests": {"cpu": "250m", "memory": "512Mi"}, "limits": {"memory": "1Gi"}},
        },
        # The chart insists on zones, and counts those of tainted GPU nodes: the second controller would be Pending.
        "topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": ZONE_LABEL, "whenUnsatisfiable": "ScheduleAnyway"}],
    }


def _arn_of(queue: aws.sqs.Queue) -> pulumi.Output[str]:
    """Stock mocks know no ARN."""
    return queue.arn.apply(lambda arn: arn or "arn:aws:sqs:region:account:queue")


def _scope(known: Sequence[str]) -> permissions.Scope:
    cluster, node_role_arn, queue_arn = known
    return permissions.Scope(cluster=cluster, node_role_arn=node_role_arn, queue_arn=queue_arn)


def _region(arn: str) -> str:
    return arn.split(":")[3]
