"""GpuCluster: network, EKS control plane, system nodes and add-ons."""

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pulumi
import pulumi_aws as aws
import pulumi_eks as eks
import pulumi_kubernetes as k8s

from components.arguments import Given, Options, read_arguments
from components.gpu_cluster.inputs import ExistingVpc, GpuClusterArgs
from components.gpu_cluster.network import Network, existing_network, network
from components.gpu_cluster.zones import ask, zones_of_pool
from components.iam import EKS, POD_IDENTITY, managed_policy, trust, with_trust
from components.node_group import FAILED, NodeShape, managed_node_group
from sharing import versions
from sharing.existing.vpc import MORE_SUBNETS
from sharing.names import TOKEN
from sharing.sections.cluster import SYSTEM_VOLUME_GIB
from sharing.sections.zones import MORE_ZONES, Demand, system_demand

__all__ = ["ExistingVpc", "GpuCluster", "GpuClusterArgs"]

LOG_DAYS = 7
CONTROL_PLANE_LOGS = ["api", "audit", "authenticator"]
EBS_CSI_ACCOUNT = "ebs-csi-controller-sa"
"""ServiceAccount of the driver's controller; the add-on fixes the name."""


def _replace_failed_addons(child: pulumi.ResourceTransformArgs) -> pulumi.ResourceTransformResult | None:
    """Gives kube-proxy and vpc-cni, which `eks.Cluster` creates, the options of the add-ons created here."""
    if child.type_ != "aws:eks/addon:Addon":
        return None
    child.opts.replace_on_changes = [FAILED]
    child.opts.delete_before_replace = True
    return pulumi.ResourceTransformResult(child.props, child.opts)


class GpuCluster(pulumi.ComponentResource):
    """An EKS cluster with everything that GPU nodes and models need, but without GPU nodes.

    It raises `pulumi.RunError` during the deployment if AWS does not offer enough zones.

    ```python
    from tandem import GpuCluster, GpuClusterArgs

    cluster = GpuCluster("demo", GpuClusterArgs(cluster_name="demo", nat="none"))
    ```
    """

    cluster_name: pulumi.Output[str]
    """Name of the EKS cluster. It resolves once the control plane and its network add-ons are ready."""
    kubeconfig: pulumi.Output[str]
    """The kubeconfig as JSON text (secret). It calls `aws eks get-token`, so it needs the AWS CLI."""
    node_subnet_ids: pulumi.Output[list[str]]
    """IDs of the subnets for nodes. They resolve once the internet routes of new subnets exist."""
    zone_names: pulumi.Output[list[str]]
    """Availability zones of `node_subnet_ids`, in the same order, e.g. `["us-east-1a", "us-east-1b"]`."""

    security_group_id: pulumi.Output[str]
    """ID of the security group that EKS creates for control plane and nodes."""

    kubernetes_provider: k8s.Provider
    """Provider for Kubernetes resources in this cluster."""
    system_nodes: aws.eks.NodeGroup
    """Untainted nodes. Depend on them if your pods need to run on untainted nodes."""
    dns: aws.eks.Addon
    """The coredns add-on. Depend on it if your pods look up names."""
    pod_identity_agent: aws.eks.Addon
    """The agent that gives pods the IAM roles of their ServiceAccounts. Depend on it if your pods use such a role, so
    that they start after the agent and are deleted before it.
    """
    storage_driver: aws.eks.Addon
    """The EBS CSI driver. Depend on it if your pods mount EBS volumes."""
    control_plane: eks.Cluster
    """The underlying `pulumi_eks.Cluster`."""

    def __init__(self, name: str, args: Given[GpuClusterArgs] = None, opts: Options = None, **more: Any) -> None:
        args = read_arguments(GpuClusterArgs, args, more)
        super().__init__(TOKEN.format("GpuCluster"), name, None, opts)
        self._name, self._args, self._tags = name, args, dict(args.tags)
        self._child = pulumi.ResourceOptions(parent=self)

        wanted = [system_demand(args.system_types), *args.demands]
        advice = MORE_SUBNETS.format(path="cluster.vpc") if args.vpc else MORE_ZONES
        self._market = ask(args.cluster_name, wanted, self._child, advice)
        net = existing_network(args.vpc, self._child) if args.vpc else self._network()
        self._node_subnet_ids = net.node_subnet_ids
        self.control_plane = self._control_plane(net)
        self.cluster_name = self._from_control_plane(lambda inner: inner.name, args.cluster_name)
        self.kubeconfig = pulumi.Output.secret(self._kubeconfig())
        self.node_subnet_ids = pulumi.Output.all(*net.node_subnet_ids)
        self.zone_names = net.zone_names
        self.security_group_id = self._from_control_plane(
            lambda inner: inner.vpc_config.cluster_security_group_id, "security-group"
        )

        self.kubernetes_provider = self._kubernetes_provider()
        self.system_nodes = self._system_nodes()
        # A DaemonSet, so it does not have to wait for nodes: its pods start when nodes join.
        self.pod_identity_agent = self._addon("eks-pod-identity-agent", versions.POD_IDENTITY_AGENT)
        self.dns = self._addon("coredns", versions.COREDNS, needs=[self.system_nodes])
        self.storage_driver = self._storage_driver()
        self._default_storage_class()
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
        """The cluster's zones in which a pool's nodes can run, because AWS offers its instance types there.

        With `volume_zone`, only that zone counts. A node group keeps its zones as long as one of them offers its types.
        Raises `pulumi.RunError` during the deployment if no zone offers them.
        """
        return zones_of_pool(self._market, pool, demand, self.zone_names, volume_zone)

    def system_zones(self) -> pulumi.Output[list[str]]:
        """The zones of the system nodes. A volume for pods on them must be in one of these."""
        if self._args.vpc is None:
            return self.zone_names.apply(lambda names: names[: self._args.system_zones])
        zones = self.zones_of_pool("", system_demand(self._args.system_types))
        return zones.apply(lambda found: found[: self._args.system_zones])

    def subnets_in(self, zones: pulumi.Output[list[str]]) -> pulumi.Output[list[str]]:
        """IDs of the node subnets in these zones. A preview knows them even while a subnet is added in another zone.

        Raises `pulumi.RunError` during the deployment for a zone without a subnet.
        """

        def pick(known: Sequence[list[str]]) -> pulumi.Output[list[str]]:
            wanted, here = known
            if missing := [zone for zone in wanted if zone not in here]:
                setting = "cluster.vpc.node-subnets" if self._args.vpc else "cluster.zones"
                raise pulumi.RunError(
                    f"{setting}: {', '.join(missing)} has a volume with model files, but no subnet any more. "
                    "Keep that zone, or set `cache: node` and run `pulumi up` first."
                )
            return pulumi.Output.all(
                *(id for id, zone in zip(self._node_subnet_ids, here, strict=True) if zone in wanted)
            )

        return pulumi.Output.all(zones, self.zone_names).apply(pick)

    def _network(self) -> Network:
        args = self._args
        return network(
            self._name, args.cidr, args.zones, args.zone_names, self._market, args.nat, self._tags, self._child
        )

    def _control_plane(self, net: Network) -> eks.Cluster:
        """The control plane, with arguments that were tested against the real `pulumi-eks` provider.

        No default security groups: control plane and nodes use the one that EKS creates. No self-managed add-ons: they
        would conflict with ours. coredns is created later: here it would wait 20 minutes for nodes (pulumi-eks#1819).
        """
        args = self._args
        public = bool(args.public_access_cidrs)
        return eks.Cluster(
            # Do not rename: eks.Cluster does not pass aliases to its children, so all of them would be replaced.
            f"{self._name}-cluster",
            name=args.cluster_name,
            version=args.kubernetes,
            vpc_id=net.vpc_id,
            subnet_ids=net.subnet_ids,
            skip_default_node_group=True,
            skip_default_security_groups=True,
            authentication_mode=eks.AuthenticationMode.API,
            access_entries={_entry_name(arn): _admin_entry(arn, self._tags) for arn in args.admins},
            create_oidc_provider=False,
            bootstrap_self_managed_addons=False,
            vpc_cni_options=eks.VpcCniOptionsArgs(
                addon_version=versions.VPC_CNI[args.kubernetes],
                # Without it, the cluster accepts NetworkPolicies but does not enforce them.
                enable_network_policy=True,
                configuration_values={
                    "env": {
                        "ADDITIONAL_ENI_TAGS": json.dumps(self._tags),
                        # `strict` blocks every connection of a pod without a policy, including those of coredns
                        # (amazon-vpc-cni-k8s v1.22.4 README).
                        "NETWORK_POLICY_ENFORCING_MODE": "standard",
                    }
                },
            ),
            kube_proxy_addon_options=eks.KubeProxyAddonOptionsArgs(version=versions.KUBE_PROXY[args.kubernetes]),
            coredns_addon_options=eks.CoreDnsAddonOptionsArgs(enabled=False),
            endpoint_private_access=True,
            endpoint_public_access=public,
            public_access_cidrs=list(args.public_access_cidrs) if public else None,
            enabled_cluster_log_types=CONTROL_PLANE_LOGS if args.logs else None,
            upgrade_policy=aws.eks.ClusterUpgradePolicyArgs(support_type=args.support.upper()),
            tags=self._tags,
            opts=pulumi.ResourceOptions(
                parent=self,
                # Without a log group of that name, EKS creates one that nothing ever deletes.
                depends_on=[self._log_group()] if args.logs else None,
                transforms=[
                    _replace_failed_addons,
                    with_trust(trust(EKS, self._child, tags_sessions=True)),
                    *([_admit_by_entries_alone] if args.admins else []),
                ],
            ),
        )

    def _log_group(self) -> "aws.cloudwatch.LogGroup":
        return aws.cloudwatch.LogGroup(
            f"{self._name}-logs",
            name=f"/aws/eks/{self._args.cluster_name}/cluster",
            retention_in_days=LOG_DAYS,
            tags=self._tags,
            opts=self._child,
        )

    def _kubeconfig(self) -> pulumi.Output[str]:
        """The kubeconfig, with the profile and role of the AWS provider.

        `provider_credential_opts` cannot do this: `eks.Cluster` returns a kubeconfig without the profile (pulumi-eks,
        nodejs/eks/cluster/cluster.ts, `kubeconfigWithoutProfile`). And `get_kubeconfig` fails under Pulumi's mocks.
        """
        options = {"--role-arn": self._args.role_arn, "--profile": self._args.profile}
        words = [word for option, value in options.items() if value for word in (option, value)]
        text = self.control_plane.kubeconfig_json
        return text.apply(lambda known: _with_arguments(known, words)) if words else text

    def _from_control_plane(self, read: Callable[[Any], str], placeholder: str) -> pulumi.Output[str]:
        """What `read` finds in the EKS cluster inside `eks.Cluster`; the placeholder under mocks, which have none.

        A plain string would not tell node groups and add-ons that the control plane is replaced.
        """
        return self.control_plane.eks_cluster.apply(lambda inner: placeholder if inner is None else read(inner))

    def _kubernetes_provider(self) -> k8s.Provider:
        return k8s.Provider(
            f"{self._name}-kubernetes",
            kubeconfig=self.kubeconfig,
            # A new control plane has a new endpoint, so Pulumi recreates every object. A constant would prevent that.
            cluster_identifier=self._from_control_plane(lambda inner: inner.endpoint, self._args.cluster_name),
            opts=self._child,
        )

    def _system_nodes(self) -> aws.eks.NodeGroup:
        args = self._args
        extra = args.vpc.security_group_ids if args.vpc else ()
        return managed_node_group(
            f"{self._name}-system",
            cluster_name=self.cluster_name,
            subnet_ids=self._system_subnet_ids(),
            shape=NodeShape(
                ami_type=versions.SYSTEM_AMI_TYPES[args.system_arch],
                kubernetes=args.kubernetes,
                instance_types=args.system_types,
                capacity_type="ON_DEMAND",
                volume_gib=SYSTEM_VOLUME_GIB,
                min=args.system_nodes,
                desired=args.system_nodes,
                max=args.system_nodes + 1,
                security_group_ids=[self.security_group_id, *extra] if extra else (),
            ),
            tags=self._tags,
            child=self._child,
        )

    def _system_subnet_ids(self) -> pulumi.Input[Sequence[pulumi.Input[str]]]:
        """Subnets in one or two zones: if it were all, a zone that you add later would replace the group."""
        if self._args.vpc is None:
            return self._node_subnet_ids[: self._args.system_zones]
        return self.subnets_in(self.system_zones())

    def _addon(
        self,
        addon: str,
        pins: Mapping[str, str],
        *,
        values: Mapping[str, object] | None = None,
        identity: aws.eks.AddonPodIdentityAssociationArgs | None = None,
        needs: Sequence[pulumi.Resource] = (),
    ) -> aws.eks.Addon:
        """An EKS add-on. If it has a Deployment, it needs the system nodes: else it waits 20 minutes and becomes
        degraded.
        """
        return aws.eks.Addon(
            f"{self._name}-{addon}",
            addon_name=addon,
            addon_version=pins[self._args.kubernetes],
            cluster_name=self.cluster_name,
            configuration_values=json.dumps(values) if values else None,
            pod_identity_associations=[identity] if identity else None,
            resolve_conflicts_on_create="OVERWRITE",
            resolve_conflicts_on_update="OVERWRITE",
            tags=self._tags,
            # Deleted before its replacement is created, because an add-on's name is fixed.
            opts=pulumi.ResourceOptions(
                parent=self, depends_on=[*needs], replace_on_changes=[FAILED], delete_before_replace=True
            ),
        )

    def _storage_driver(self) -> aws.eks.Addon:
        name = f"{self._name}-ebs-csi"
        role = aws.iam.Role(
            f"{name}-role",
            assume_role_policy=trust(POD_IDENTITY, self._child, tags_sessions=True),
            tags=self._tags,
            opts=self._child,
        )
        policy = aws.iam.RolePolicyAttachment(
            f"{name}-role-policy",
            role=role.name,
            policy_arn=managed_policy("AmazonEBSCSIDriverPolicyV2", self._child),
            opts=self._child,
        )
        return self._addon(
            "aws-ebs-csi-driver",
            versions.EBS_CSI_DRIVER,
            values={"controller": {"extraVolumeTags": self._tags}},
            identity=aws.eks.AddonPodIdentityAssociationArgs(role_arn=role.arn, service_account=EBS_CSI_ACCOUNT),
            # During destroy, the driver still has to detach volumes. For that it needs a node, its policy, and the
            # agent that gives it the role. Otherwise pod, node and volume wait for each other forever.
            needs=[self.system_nodes, policy, self.pod_identity_agent],
        )

    def _default_storage_class(self) -> k8s.storage.v1.StorageClass:
        """The default storage class. Since Kubernetes 1.30, EKS marks none as default."""
        return k8s.storage.v1.StorageClass(
            f"{self._name}-gp3",
            metadata=k8s.meta.v1.ObjectMetaArgs(
                name="gp3", annotations={"storageclass.kubernetes.io/is-default-class": "true"}
            ),
            provisioner="ebs.csi.aws.com",
            parameters={"type": "gp3", "encrypted": "true"},
            reclaim_policy="Delete",
            volume_binding_mode="WaitForFirstConsumer",
            allow_volume_expansion=True,
            opts=pulumi.ResourceOptions(parent=self, provider=self.kubernetes_provider),
        )


def _with_arguments(kubeconfig: str, words: Sequence[str]) -> str:
    """The kubeconfig with extra arguments for `aws eks get-token`. Under mocks it is empty and stays so."""
    if not kubeconfig:
        return kubeconfig
    config = json.loads(kubeconfig)
    config["users"][0]["user"]["exec"]["args"] += words
    return json.dumps(config, separators=(",", ":"))


def _entry_name(arn: str) -> str:
    """Name of an admin's access entry, derived from its ARN: so changes to other admins do not affect it."""
    return f"admin-{hashlib.sha256(arn.encode()).hexdigest()[:8]}"


def _admin_entry(arn: str, tags: dict[str, str]) -> eks.AccessEntryArgs:
    partition = arn.split(":")[1]
    policy = eks.AccessPolicyAssociationArgs(
        policy_arn=f"arn:{partition}:eks::aws:cluster-access-policy/AmazonEKSClusterAdminPolicy",
        access_scope=aws.eks.AccessPolicyAssociationAccessScopeArgs(type="cluster"),
    )
    return eks.AccessEntryArgs(principal_arn=arn, access_policies={"admin": policy}, tags=tags)


def _admit_by_entries_alone(child: pulumi.ResourceTransformArgs) -> pulumi.ResourceTransformResult | None:
    """Stops EKS from creating an access entry for the creator.

    No Pulumi state would contain that entry, and our own for the same ARN would fail. It has to be a transform because
    `eks.Cluster` always sends true (pulumi-eks 4.4, nodejs/eks/cluster/cluster.ts).
    """
    if child.type_ != "aws:eks/cluster:Cluster":
        return None
    given: dict[str, Any] = dict(child.props)
    access = {**given["accessConfig"], "bootstrapClusterCreatorAdminPermissions": False}
    return pulumi.ResourceTransformResult({**given, "accessConfig": access}, child.opts)
