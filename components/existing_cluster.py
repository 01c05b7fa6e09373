"""ExistingCluster: an EKS cluster that already exists, to which other components add GPU nodes and models."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pulumi
import pulumi_aws as aws
import pulumi_kubernetes as k8s

from components.arguments import Given, Options, check_arguments, read_arguments
from components.gpu_cluster.zones import ask, zones_of_pool
from sharing.existing.vpc import MORE_SUBNETS
from sharing.names import TOKEN
from sharing.sections.zones import Demand

PATH = "cluster.existing"
"""Section of a stack file with the same settings."""


@check_arguments
@dataclass(frozen=True, kw_only=True)
class ExistingClusterArgs:
    """Inputs of ExistingCluster.

    Raises `ValueError` for a value of the wrong type.
    """

    cluster_name: str
    """Name of the EKS cluster."""
    node_subnet_ids: Sequence[str] = ()
    """IDs of the subnets for nodes, in the cluster's VPC. If empty, the cluster's own subnets."""
    demands: Sequence[Demand] = ()
    """Instance types of the GPU nodes, for `zones_of_pool`."""
    profile: str | None = None
    """AWS CLI profile that the kubeconfig uses. Pass the AWS provider's profile."""
    role_arn: str | None = None
    """ARN of the IAM role that the kubeconfig assumes. Pass the AWS provider's role."""


class ExistingCluster(pulumi.ComponentResource):
    """An EKS cluster that already exists. It creates nothing in AWS, and changes, tags and deletes nothing there.

    It has the outputs of `GpuCluster` that nodes and models need. The cluster must have a network plugin, DNS and an
    untainted node; for model files on volumes, the EBS CSI driver; and for Karpenter, the Pod Identity agent.

    ```python
    from tandem import ExistingCluster, ExistingClusterArgs

    cluster = ExistingCluster("platform", ExistingClusterArgs(cluster_name="platform"))
    ```
    """

    cluster_name: pulumi.Output[str]
    """Name of the EKS cluster."""
    kubeconfig: pulumi.Output[str]
    """The kubeconfig as JSON text (secret). It calls `aws eks get-token`, so it needs the AWS CLI."""
    node_subnet_ids: pulumi.Output[list[str]]
    """IDs of the subnets for nodes."""
    zone_names: pulumi.Output[list[str]]
    """Availability zone of each of `node_subnet_ids`, in the same order."""
    security_group_id: pulumi.Output[str]
    """ID of the security group that EKS created for control plane and nodes."""
    kubernetes_provider: k8s.Provider
    """Provider for Kubernetes resources in this cluster."""

    def __init__(self, name: str, args: Given[ExistingClusterArgs] = None, opts: Options = None, **more: Any) -> None:
        args = read_arguments(ExistingClusterArgs, args, more)
        super().__init__(TOKEN.format("ExistingCluster"), name, None, opts)
        look_up = pulumi.InvokeOptions(parent=self)
        self._market = ask(
            args.cluster_name, args.demands, pulumi.ResourceOptions(parent=self), MORE_SUBNETS.format(path=PATH)
        )
        found = aws.eks.get_cluster_output(name=args.cluster_name, opts=look_up)
        self.cluster_name = found.apply(lambda cluster: cluster.name or args.cluster_name)
        self.kubeconfig = pulumi.Output.secret(found.apply(lambda cluster: _kubeconfig(cluster, args)))
        self.node_subnet_ids = found.apply(
            lambda cluster: list(args.node_subnet_ids) or _network(cluster, "subnet_ids")
        )
        self.zone_names = self.node_subnet_ids.apply(lambda ids: pulumi.Output.all(*(_zone(id, look_up) for id in ids)))
        self.security_group_id = found.apply(lambda cluster: _network(cluster, "cluster_security_group_id"))
        self.kubernetes_provider = k8s.Provider(
            f"{name}-kubernetes",
            kubeconfig=self.kubeconfig,
            # If its owner replaces the cluster, it has a new endpoint, and Pulumi recreates every object.
            cluster_identifier=found.apply(lambda cluster: cluster.endpoint or ""),
            opts=pulumi.ResourceOptions(parent=self),
        )
        self.register_outputs(
            {
                "clusterName": self.cluster_name,
                "kubeconfig": self.kubeconfig,
                "nodeSubnetIds": self.node_subnet_ids,
                "zoneNames": self.zone_names,
                "securityGroupId": self.security_group_id,
            }
        )

    def zones_of_pool(
        self, pool: str, demand: Demand, volume_zone: pulumi.Output[str] | None = None
    ) -> pulumi.Output[list[str]]:
        """The zones of the nodes' subnets in which a pool's nodes can run, because AWS offers its instance types there.

        With `volume_zone`, only that zone counts. A node group keeps its zones as long as one of them offers its types.
        Raises `pulumi.RunError` during the deployment if no zone offers them.
        """
        return zones_of_pool(self._market, pool, demand, self.zone_names, volume_zone)

    def subnets_in(self, zones: pulumi.Output[list[str]]) -> pulumi.Output[list[str]]:
        """IDs of the nodes' subnets in these zones.

        Raises `pulumi.RunError` during the deployment for a zone without a subnet.
        """

        def pick(known: Sequence[list[str]]) -> list[str]:
            wanted, ids, here = known
            if missing := [zone for zone in wanted if zone not in here]:
                raise pulumi.RunError(
                    f"{PATH}.node-subnets: no subnet is in {', '.join(missing)}, which has a volume with "
                    "model files. Add one, or set `cache: node` and run `pulumi up` first."
                )
            return [id for id, zone in zip(ids, here, strict=True) if zone in wanted]

        return pulumi.Output.all(zones, self.node_subnet_ids, self.zone_names).apply(pick)


def _network(cluster: Any, attribute: str) -> Any:
    """An attribute of the cluster's network; a placeholder under Pulumi's mocks, which report none."""
    placeholder = ["subnet"] if attribute == "subnet_ids" else "security-group"
    return getattr(cluster.vpc_config, attribute, None) or placeholder


def _zone(subnet: str, opts: pulumi.InvokeOptions) -> pulumi.Output[str]:
    """The zone of a subnet; a placeholder under Pulumi's mocks."""
    return aws.ec2.get_subnet_output(id=subnet, opts=opts).apply(
        lambda answer: answer.availability_zone or f"zone of {subnet}"
    )


def _kubeconfig(cluster: Any, args: ExistingClusterArgs) -> str:
    """The kubeconfig of the cluster, as `eks.Cluster` writes it; empty under Pulumi's mocks.

    A token of `aws.eks.get_cluster_auth` would be in the state, and expires after 15 minutes.
    """
    if not cluster.endpoint:
        return ""
    region = cluster.arn.split(":")[3]
    options = {"--region": region, "--role-arn": args.role_arn, "--profile": args.profile}
    words = [word for option, value in options.items() if value for word in (option, value)]
    login = {
        "apiVersion": "client.authentication.k8s.io/v1beta1",
        "command": "aws",
        "args": ["eks", "get-token", "--cluster-name", args.cluster_name, "--output", "json", *words],
    }
    server = {
        "server": cluster.endpoint,
        "certificate-authority-data": cluster.certificate_authorities[0].data,
    }
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "kubernetes", "cluster": server}],
        "contexts": [{"name": "aws", "context": {"cluster": "kubernetes", "user": "aws"}}],
        "current-context": "aws",
        "users": [{"name": "aws", "user": {"exec": login}}],
    }
    return json.dumps(config, separators=(",", ":"))
