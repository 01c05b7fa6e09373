"""KarpenterGpuPool: installs Karpenter, which launches GPU nodes for waiting pods and counts GPU shares."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pulumi
import pulumi_aws as aws
import pulumi_kubernetes as k8s

from components.arguments import (
    Given,
    Options,
    check_arguments,
    check_filled,
    check_least,
    check_tags,
    read_arguments,
)
from components.charts import merge_values
from components.iam import EC2, POD_IDENTITY, document, managed_policy, trust
from components.karpenter_gpu_pool import manifests, permissions
from components.karpenter_gpu_pool.manifests import KarpenterPool, Manifest
from components.node_group import NODE_POLICIES
from sharing import versions
from sharing.aws.tags import NODE
from sharing.names import TOKEN, ZONE_LABEL

__all__ = ["KarpenterGpuPool", "KarpenterGpuPoolArgs", "KarpenterPool"]

NAMESPACE = "kube-system"
SERVICE_ACCOUNT = "karpenter"
TIMEOUT_SECONDS = 600
MESSAGE_SECONDS = 300
"""How long the queue keeps an interruption message. Same value as in Karpenter's CloudFormation template."""
DELETE_TIMEOUT = "30m"
"""A pool is deleted once its last node is: `manifests.TERMINATION_GRACE_PERIOD` plus EC2's own time."""
EVENTS = {
    "health": ("aws.health", "AWS Health Event"),
    "spot": ("aws.ec2", "EC2 Spot Instance Interruption Warning"),
    "rebalance": ("aws.ec2", "EC2 Instance Rebalance Recommendation"),
    "state": ("aws.ec2", "EC2 Instance State-change Notification"),
    "reservation": ("aws.ec2", "EC2 Capacity Reservation Instance Interruption Warning"),
}
"""Events that Karpenter handles: source and detail type. Source: cloudformation.yaml of Karpenter v1.14.1."""


@check_arguments
@dataclass(frozen=True, kw_only=True)
class KarpenterGpuPoolArgs:
    """Inputs of KarpenterGpuPool.

    Raises `ValueError` for a value of the wrong type, an empty list of pools, two pools with the same name, tags that
    AWS or Karpenter refuses, and a sharing mode that the GPU or Karpenter does not support.
    """

    cluster_name: pulumi.Input[str]
    """Name of the EKS cluster that the nodes join. It must use access entries. Pass an output of the cluster, so that
    the nodes are deleted before it.
    """
    node_subnet_ids: pulumi.Input[Sequence[pulumi.Input[str]]]
    """IDs of the subnets in which nodes can run."""
    security_group_id: pulumi.Input[str]
    """ID of the nodes' security group: the one that EKS created for the cluster."""
    more_security_group_ids: Sequence[pulumi.Input[str]] = ()
    """IDs of further security groups of the nodes."""
    pools: Sequence[KarpenterPool]
    """The pools of nodes: at least one, each with its own name."""
    controller_replicas: int = 2
    """Number of controller pods. Use at most one per system node: two on the only node would block every upgrade."""
    controller_depends_on: Sequence[pulumi.Resource] = ()
    """Resources of the same program that the controller needs: system nodes, Pod Identity agent, DNS, storage driver.
    During `destroy` they stay until Karpenter has terminated its instances.
    """
    tags: Mapping[str, str] = field(default_factory=dict)
    """Tags on every resource that supports tags, including those that Karpenter creates."""
    values: Mapping[str, Any] = field(default_factory=dict)
    """Extra values for the controller's Helm chart, merged last."""

    def __post_init__(self) -> None:
        check_tags(self, NODE)
        check_filled(self, "node_subnet_ids")
        check_filled(self, "pools")
        check_least(self, controller_replicas=1)
        manifests.check(self.pools)


class KarpenterGpuPool(pulumi.ComponentResource):
    """Installs Karpenter, and pools of GPU nodes that it launches and terminates. Use one per cluster.

    It is deleted in this order: pools with their nodes, node classes, controller, its permissions, the nodes' role.

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
    """Names of the NodePools, e.g. `["gpu"]`. They resolve once the NodePools are ready."""
    node_role_arn: pulumi.Output[str]
    """ARN of the nodes' IAM role."""

    def __init__(self, name: str, args: Given[KarpenterGpuPoolArgs] = None, opts: Options = None, **more: Any) -> None:
        args = read_arguments(KarpenterGpuPoolArgs, args, more)
        super().__init__(TOKEN.format("KarpenterGpuPool"), name, None, opts)
        self._name, self._args, self._tags = name, args, dict(args.tags)
        self._child = pulumi.ResourceOptions(parent=self)
        self.planned_pools = [planned for pool in args.pools for planned in pool.planned_pools]

        node_role, joining = self._node_role()
        queue = self._queue()
        identity = self._identity(node_role, queue)
        crds = self._release("crds", versions.KARPENTER_CRD_REPOSITORY, needs=[])
        controller = self._release(
            "controller",
            versions.KARPENTER_REPOSITORY,
            values=pulumi.Output.all(args.cluster_name, queue.name, _arn_of(queue)).apply(self._values),
            # The CRDs must outlive the controller: uninstalling their release deletes every NodePool at once. So must
            # its identity: a pod gets credentials only if the association exists when it starts, and it needs them to
            # terminate nodes.
            needs=[crds, *identity, *args.controller_depends_on],
        )
        pools = self._pools(node_role, [controller, *joining])

        names = [pool.name for pool in args.pools]
        self.node_pool_names = pulumi.Output.all(*(pool.id for pool in pools)).apply(lambda _: names)
        self.node_role_arn = node_role.arn
        self.register_outputs({"nodePoolNames": self.node_pool_names, "nodeRoleArn": self.node_role_arn})

    def _node_role(self) -> tuple[aws.iam.Role, list[pulumi.Resource]]:
        """The nodes' role, and the policies and access entry that let nodes with this role join.

        A node group's role would not do: EKS creates its access entry itself, and rejects a second one.
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

    def _queue(self) -> "aws.sqs.Queue":
        """The queue to which EventBridge sends warnings about instances. Without it, spot nodes stop without notice."""
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
                lambda arns: document(permissions.queue_statements(arns[0], arns[1:]))
            ),
            opts=self._child,
        )
        return queue

    def _identity(self, node_role: aws.iam.Role, queue: "aws.sqs.Queue") -> list[pulumi.Resource]:
        """The controller's role with its policies, and the association that gives the role to the controller's pods."""
        name = f"{self._name}-controller"
        role = self._role(f"{name}-role", trust(POD_IDENTITY, self._child, tags_sessions=True))
        scope = pulumi.Output.all(self._args.cluster_name, node_role.arn, _arn_of(queue)).apply(
            lambda known: permissions.Scope(*known)
        )
        attached: list[pulumi.Resource] = []
        for part, statements in permissions.PARTS.items():
            text = scope.apply(statements).apply(document)
            policy = aws.iam.Policy(f"{name}-{part}", policy=text, tags=self._tags, opts=self._child)
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
            # Helm would never upgrade the copy of the CRDs in the controller's chart.
            skip_crds=True,
            atomic=True,
            timeout=TIMEOUT_SECONDS,
            opts=pulumi.ResourceOptions(parent=self, depends_on=[*needs]),
        )

    def _values(self, known: Sequence[str]) -> dict[str, Any]:
        cluster, queue_name, queue_arn = known
        region = queue_arn.split(":")[3]
        ours = values(cluster, queue_name, region, self._args.controller_replicas)
        return merge_values(ours, self._args.values)

    def _pools(
        self, node_role: aws.iam.Role, needs: Sequence[pulumi.Resource]
    ) -> list[k8s.apiextensions.CustomResource]:
        """For each pool a node class, overlays and a NodePool. Each depends on the ones before it.

        The class needs the controller and its dependencies, which drop the class's finalizers only after cleaning up:
        they terminate the instances and delete the instance profile with the nodes' role. Without policies and access
        entry, nodes never register and their pods cannot be drained. The overlays exist before the pool and until it is
        deleted: without them, even for a second, every pod gets a node of its own.
        """
        pools, weight = [], 1
        for pool in self._args.pools:
            node_class = self._object(
                f"{pool.name}-class",
                manifests.node_class(
                    pool,
                    role=node_role.name,
                    subnet_ids=self._args.node_subnet_ids,
                    security_group_ids=[self._args.security_group_id, *self._args.more_security_group_ids],
                    tags=self._tags,
                ),
                needs,
            )
            overlays = [
                self._object(overlay["metadata"]["name"], overlay, [node_class])
                for overlay in manifests.node_overlays(pool, weight)
            ]
            weight += len(overlays)
            mode = pool.mode_taint or pool.sharing.config_name
            pools.append(self._object(f"{pool.name}-pool", manifests.node_pool(pool), overlays, mode))
        return pools

    def _object(
        self,
        part: str,
        manifest: Manifest,
        needs: Sequence[pulumi.Resource],
        replaced_with: pulumi.Input[str] | None = None,
    ) -> k8s.apiextensions.CustomResource:
        """Registers an object. If `replaced_with` changes, it is deleted with its nodes before a new one is created."""
        return k8s.apiextensions.CustomResource(
            f"{self._name}-{part}",
            api_version=manifest["apiVersion"],
            kind=manifest["kind"],
            metadata=k8s.meta.v1.ObjectMetaArgs(**manifest["metadata"]),
            spec=manifest["spec"],
            opts=pulumi.ResourceOptions(
                parent=self,
                depends_on=[*needs],
                custom_timeouts=pulumi.CustomTimeouts(delete=DELETE_TIMEOUT),
                replacement_trigger=replaced_with,
                delete_before_replace=replaced_with is not None,
            ),
        )


def values(cluster: str, queue: str, region: str, replicas: int) -> dict[str, Any]:
    """Values of the chart `karpenter`. It has no schema and ignores a misspelt path, so a test checks every path."""
    return {
        "replicas": replicas,
        "serviceAccount": {"create": True, "name": SERVICE_ACCOUNT},
        "settings": {
            "clusterName": cluster,
            "interruptionQueue": queue,
            # Without it, Karpenter counts GPUs and launches a node for every pod.
            "featureGates": {"nodeOverlay": True},
        },
        "controller": {
            # Otherwise it asks the instance metadata service, which pods cannot reach with a hop limit of one.
            "env": [{"name": "AWS_REGION", "value": region}],
            "resources": {"requests": {"cpu": "250m", "memory": "512Mi"}, "limits": {"memory": "1Gi"}},
        },
        # The chart's default requires an even spread over zones, including those of tainted GPU nodes. The second
        # controller would stay Pending.
        "topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": ZONE_LABEL, "whenUnsatisfiable": "ScheduleAnyway"}],
    }


def _arn_of(queue: "aws.sqs.Queue") -> pulumi.Output[str]:
    """ARN of the queue; a placeholder under Pulumi's mocks, which have no ARN."""
    return queue.arn.apply(lambda arn: arn or "arn:aws:sqs:region:account:queue")
