"""GpuCluster: network, EKS control plane, system nodes and add-ons, ready for GPU nodes."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any

import pulumi
import pulumi_aws as aws
import pulumi_eks as eks
import pulumi_kubernetes as k8s

from components.gpu_cluster.inputs import GpuClusterArgs
from components.gpu_cluster.network import Network, network
from components.gpu_cluster.zones import ask, zones_of_pool
from components.iam import EKS, POD_IDENTITY, managed_policy, trust, with_trust
from components.node_group import FAILED, NodeShape, managed_node_group
from sharing import versions
from sharing.names import TOKEN
from sharing.setup import SYSTEM_VOLUME_GIB
from sharing.zones import CONTROL_PLANE_ZONES, Demand, system_demand

__all__ = ["GpuCluster", "GpuClusterArgs"]

LOG_DAYS = 7
CONTROL_PLANE_LOGS = ["api", "audit", "authenticator"]
EBS_CSI_ACCOUNT = "ebs-csi-controller-sa"
"""ServiceAccount of the driver's controller, fixed by the add-on."""


def _replace_failed_addons(child: pulumi.ResourceTransformArgs) -> pulumi.ResourceTransformResult | None:
    """Gives kube-proxy and vpc-cni, which `eks.Cluster` makes, the options of the add-ons made here."""
    if child.type_ != "aws:eks/addon:Addon":
        return None
    child.opts.replace_on_changes = [FAILED]
    child.opts.delete_before_replace = True
    return pulumi.ResourceTransformResult(child.props, child.opts)


class GpuCluster(pulumi.ComponentResource):
    """An EKS cluster with everything that GPU nodes and models need, and no GPU yet.

    ```python
    from tandem import GpuCluster, GpuClusterArgs

    cluster = GpuCluster("demo", GpuClusterArgs(cluster_name="demo", nat="none"))
    ```
    """

    cluster_name: pulumi.Output[str]
    """Name of the cluster, known once the control plane and its network add-ons are there."""
    kubeconfig: pulumi.Output[str]
    """kubeconfig as JSON text; secret."""
    node_subnet_ids: pulumi.Output[list[str]]
    """Subnets for nodes, one a zone, known once their way to the internet is there."""
    zone_names: pulumi.Output[list[str]]
    """Their zones, in the same order."""

    security_group_id: pulumi.Output[str]
    """EKS's own security group, which control plane and nodes share."""

    kubernetes_provider: k8s.Provider
    """For whatever goes into the cluster."""
    system_nodes: aws.eks.NodeGroup
    """Nodes without a taint: wait for them where a pod of yours needs one."""
    dns: aws.eks.Addon
    """coredns: wait for it where pods look up names."""
    pod_identity_agent: aws.eks.Addon
    """Hands out the roles of ServiceAccounts: what uses one must come after it, and go before."""
    storage_driver: aws.eks.Addon
    """The EBS CSI driver: wait for it where pods mount volumes."""
    control_plane: eks.Cluster
    """The eks component itself."""

    def __init__(self, name: str, args: GpuClusterArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__(TOKEN.format("GpuCluster"), name, None, opts)
        self._name, self._args, self._tags = name, args, dict(args.tags)
        self._child = pulumi.ResourceOptions(parent=self)

        self._market = ask(args.cluster_name, [system_demand(args.system_types), *args.demands], self._child)
        net = network(name, args.cidr, args.zones, args.zone_names, self._market, args.nat, self._tags, self._child)
        self._node_subnet_ids = net.node_subnet_ids
        self.control_plane = self._control_plane(net)
        self.cluster_name = self._from_control_plane("name")
        self.kubeconfig = pulumi.Output.secret(self._kubeconfig())
        self.node_subnet_ids = pulumi.Output.all(*net.node_subnet_ids)
        self.zone_names = net.zone_names
        self.security_group_id = self._security_group_id()

        self.kubernetes_provider = self._kubernetes_provider()
        self.system_nodes = self._system_nodes()
        # A DaemonSet, which has nothing to wait for: nodes find it when they boot.
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
        """The zones of the cluster in which the nodes of a pool may run: they sell its instance types. Only that of its
        volumes, if it has some.

        A node group stays in its zones for as long as one of them sells its types.
        """
        if volume_zone is None:
            return zones_of_pool(self._market, pool, demand, self.zone_names)
        return zones_of_pool(self._market, pool, demand, volume_zone.apply(lambda zone: [zone]), bound=True)

    def subnets_in(self, zones: pulumi.Output[list[str]]) -> pulumi.Output[list[str]]:
        """The subnets for nodes in these zones. A preview knows them, also while a subnet is added in another zone."""

        def pick(known: Sequence[list[str]]) -> pulumi.Output[list[str]]:
            wanted, here = known
            if strange := [zone for zone in wanted if zone not in here]:
                raise pulumi.RunError(
                    f"cluster.zones: the stack has no subnet in {', '.join(strange)} any more, where model files are "
                    "on a volume. Keep that zone, or write `cache: node` first."
                )
            return pulumi.Output.all(
                *(id for id, zone in zip(self._node_subnet_ids, here, strict=True) if zone in wanted)
            )

        return pulumi.Output.all(zones, self.zone_names).apply(pick)

    def _control_plane(self, net: Network) -> eks.Cluster:
        """The control plane, with the arguments that were run against the real provider.

        No default security groups: EKS's own serves control plane and nodes. No self-managed add-ons: ours would
        conflict with them. coredns is not made in here: it would wait 20 minutes for nodes (pulumi-eks#1819).
        """
        args = self._args
        public = bool(args.public_access_cidrs)
        return eks.Cluster(
            # The name is frozen: eks.Cluster hands no alias on to its children, a rename would replace them all.
            f"{self._name}-cluster",
            name=args.cluster_name,
            version=args.kubernetes,
            vpc_id=net.vpc.id,
            # No others, ever: EKS accepts only subnets in the very zones with which a cluster was created
            # (aws/containers-roadmap#2258). Nodes may run in any zone of the VPC.
            subnet_ids=net.subnet_ids[:CONTROL_PLANE_ZONES],
            skip_default_node_group=True,
            skip_default_security_groups=True,
            authentication_mode=eks.AuthenticationMode.API,
            access_entries={_entry_name(arn): _admin_entry(arn, self._tags) for arn in args.admins},
            create_oidc_provider=False,
            bootstrap_self_managed_addons=False,
            vpc_cni_options=eks.VpcCniOptionsArgs(
                addon_version=versions.VPC_CNI[args.kubernetes],
                # Without it NetworkPolicies are accepted and do nothing.
                enable_network_policy=True,
                configuration_values={
                    "env": {
                        "ADDITIONAL_ENI_TAGS": json.dumps(self._tags),
                        # `strict` refuses every connection of a pod without a policy, also those of coredns
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
            opts=pulumi.ResourceOptions.merge(
                self._child,
                pulumi.ResourceOptions(
                    # EKS makes a log group that nobody deletes, when it finds none of that name.
                    depends_on=[self._log_group()] if args.logs else None,
                    transforms=[
                        _replace_failed_addons,
                        with_trust(trust(EKS, self._child, tags_sessions=True)),
                        *([_admit_by_entries_alone] if args.admins else []),
                    ],
                ),
            ),
        )

    def _log_group(self) -> aws.cloudwatch.LogGroup:
        return aws.cloudwatch.LogGroup(
            f"{self._name}-logs",
            name=f"/aws/eks/{self._args.cluster_name}/cluster",
            retention_in_days=LOG_DAYS,
            tags=self._tags,
            opts=self._child,
        )

    def _kubeconfig(self) -> pulumi.Output[str]:
        """The kubeconfig, with the credentials of the AWS provider.

        Not by `provider_credential_opts`: the component leaves the profile out of what it returns (pulumi-eks,
        nodejs/eks/cluster/cluster.ts, `kubeconfigWithoutProfile`), and `get_kubeconfig` fails under stock mocks.
        """
        options = {"--role-arn": self._args.role_arn, "--profile": self._args.profile}
        words = [word for option, value in options.items() if value for word in (option, value)]
        return (
            self.control_plane.kubeconfig_json.apply(lambda text: _with_arguments(text, words))
            if words
            else (self.control_plane.kubeconfig_json)
        )

    def _from_control_plane(self, attribute: str) -> pulumi.Output[str]:
        """An attribute of the EKS cluster inside the component; its name where mocks know no inner cluster.

        A plain name instead would hide a replacement of the control plane from node groups and add-ons.
        """
        fallback = self._args.cluster_name
        return self.control_plane.eks_cluster.apply(
            lambda inner: getattr(inner, attribute) if inner is not None else fallback
        )

    def _security_group_id(self) -> pulumi.Output[str]:
        return self.control_plane.eks_cluster.apply(
            lambda inner: inner.vpc_config.cluster_security_group_id if inner is not None else "security-group"
        )

    def _kubernetes_provider(self) -> k8s.Provider:
        return k8s.Provider(
            f"{self._name}-kubernetes",
            kubeconfig=self.kubeconfig,
            # The endpoint changes with the control plane: a constant would hide that every object is gone.
            cluster_identifier=self._from_control_plane("endpoint"),
            opts=self._child,
        )

    def _system_nodes(self) -> aws.eks.NodeGroup:
        args = self._args
        return managed_node_group(
            f"{self._name}-system",
            cluster_name=self.cluster_name,
            # Those of the control plane: a zone that is added later would replace the group.
            subnet_ids=self._node_subnet_ids[:CONTROL_PLANE_ZONES],
            shape=NodeShape(
                ami_type=versions.SYSTEM_AMI_TYPES[args.system_arch],
                kubernetes=args.kubernetes,
                instance_types=args.system_types,
                capacity_type="ON_DEMAND",
                volume_gib=SYSTEM_VOLUME_GIB,
                min=args.system_nodes,
                desired=args.system_nodes,
                max=args.system_nodes + 1,
            ),
            tags=self._tags,
            child=self._child,
        )

    def _addon(
        self,
        addon: str,
        pins: Mapping[str, str],
        *,
        values: Mapping[str, object] | None = None,
        identity: aws.eks.AddonPodIdentityAssociationArgs | None = None,
        needs: Sequence[pulumi.Resource] = (),
    ) -> aws.eks.Addon:
        """An EKS add-on. One with a Deployment needs the system nodes: without, it waits 20 minutes and degrades."""
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
            opts=pulumi.ResourceOptions.merge(
                self._child,
                # Deleted first: the name of an add-on is fixed.
                pulumi.ResourceOptions(depends_on=[*needs], replace_on_changes=[FAILED], delete_before_replace=True),
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
            # On destroy the driver must still detach volumes, for which it needs a node, its policy, and the agent
            # that gives it the role: else pod, node and volume wait in a circle.
            needs=[self.system_nodes, policy, self.pod_identity_agent],
        )

    def _default_storage_class(self) -> k8s.storage.v1.StorageClass:
        """EKS marks none as default since 1.30."""
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
    """The kubeconfig with more arguments for `aws eks get-token`; as it is where mocks know none."""
    if not kubeconfig:
        return kubeconfig
    config = json.loads(kubeconfig)
    config["users"][0]["user"]["exec"]["args"] += words
    return json.dumps(config, separators=(",", ":"))


def _entry_name(arn: str) -> str:
    """Name of an admin's entry, by its ARN: whatever else changes in the list, this one is left alone."""
    return f"admin-{hashlib.sha256(arn.encode()).hexdigest()[:8]}"


def _admin_entry(arn: str, tags: dict[str, str]) -> eks.AccessEntryArgs:
    partition = arn.split(":")[1]
    policy = eks.AccessPolicyAssociationArgs(
        policy_arn=f"arn:{partition}:eks::aws:cluster-access-policy/AmazonEKSClusterAdminPolicy",
        access_scope=aws.eks.AccessPolicyAssociationAccessScopeArgs(type="cluster"),
    )
    return eks.AccessEntryArgs(principal_arn=arn, access_policies={"admin": policy}, tags=tags)


def _admit_by_entries_alone(child: pulumi.ResourceTransformArgs) -> pulumi.ResourceTransformResult | None:
    """Stops EKS from making an entry for the creator: no state has that one, and ours for the same ARN would fail.

    A transform, since `eks.Cluster` always sends true (pulumi-eks 4.4, nodejs/eks/cluster/cluster.ts).
    """
    if child.type_ != "aws:eks/cluster:Cluster":
        return None
    given: dict[str, Any] = dict(child.props)
    access = {**given["accessConfig"], "bootstrapClusterCreatorAdminPermissions": False}
    return pulumi.ResourceTransformResult({**given, "accessConfig": access}, child.opts)
