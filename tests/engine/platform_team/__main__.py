"""A cluster as another team makes it: a Pulumi program without any part of this project.

`platform:extras` adds what many clusters have: a list of `discovery`, `plugin`, `karpenter` and `namespace`.
"""

import json

import pulumi
import pulumi_aws as aws
import pulumi_kubernetes as k8s

config = pulumi.Config("platform")
extras = config.get_object("extras") or []
name = "platform"
tags = {"team": "platform", "Name": name}


def trust(service: str) -> str:
    statement = {"Effect": "Allow", "Principal": {"Service": service}, "Action": ["sts:AssumeRole", "sts:TagSession"]}
    return json.dumps({"Version": "2012-10-17", "Statement": [statement]})


def role(logical: str, service: str, *policies: str) -> tuple[aws.iam.Role, list[pulumi.Resource]]:
    made = aws.iam.Role(logical, assume_role_policy=trust(service), tags=tags)
    return made, [
        aws.iam.RolePolicyAttachment(
            f"{logical}-{policy}", role=made.name, policy_arn=f"arn:aws:iam::aws:policy/{policy}"
        )
        for policy in policies
    ]


# The network: two private subnets behind one NAT gateway.
vpc = aws.ec2.Vpc("vpc", cidr_block="10.50.0.0/16", enable_dns_hostnames=True, tags=tags)
gateway = aws.ec2.InternetGateway("gateway", vpc_id=vpc.id, tags=tags)
outside = aws.ec2.RouteTable("outside", vpc_id=vpc.id, tags=tags)
aws.ec2.Route("out", route_table_id=outside.id, destination_cidr_block="0.0.0.0/0", gateway_id=gateway.id)
public = aws.ec2.Subnet(
    "public", vpc_id=vpc.id, cidr_block="10.50.0.0/24", availability_zone="us-east-1a", map_public_ip_on_launch=True
)
aws.ec2.RouteTableAssociation("outside", route_table_id=outside.id, subnet_id=public.id)
address = aws.ec2.Eip("address", domain="vpc", tags=tags)
nat = aws.ec2.NatGateway("nat", subnet_id=public.id, allocation_id=address.id, tags=tags)
inside = aws.ec2.RouteTable("inside", vpc_id=vpc.id, tags=tags)
route = aws.ec2.Route(
    "through-nat", route_table_id=inside.id, destination_cidr_block="0.0.0.0/0", nat_gateway_id=nat.id
)
subnets, routed = [], [route]
for number, zone in enumerate("ab", 1):
    subnet = aws.ec2.Subnet(
        f"private-{zone}",
        vpc_id=vpc.id,
        cidr_block=f"10.50.{number}.0/24",
        availability_zone=f"us-east-1{zone}",
        tags={**tags, "kubernetes.io/role/internal-elb": "1"},
    )
    routed.append(aws.ec2.RouteTableAssociation(f"inside-{zone}", route_table_id=inside.id, subnet_id=subnet.id))
    subnets.append(subnet.id)

# The cluster, with the add-ons of EKS and two node groups. One is called as a group of this project might be.
service_role, granted = role("control-plane", "eks.amazonaws.com", "AmazonEKSClusterPolicy")
cluster = aws.eks.Cluster(
    "cluster",
    name=name,
    role_arn=service_role.arn,
    version=config.get("version") or "1.36",
    access_config={"authentication_mode": "API_AND_CONFIG_MAP", "bootstrap_cluster_creator_admin_permissions": True},
    bootstrap_self_managed_addons=False,
    vpc_config={"subnet_ids": subnets, "endpoint_private_access": True, "endpoint_public_access": True},
    tags=tags,
    opts=pulumi.ResourceOptions(depends_on=granted),
)
first = [
    aws.eks.Addon(addon, cluster_name=cluster.name, addon_name=addon, tags=tags)
    for addon in ("vpc-cni", "kube-proxy", "eks-pod-identity-agent")
]
node_role, granted = role(
    "workers",
    "ec2.amazonaws.com",
    "AmazonEKSWorkerNodePolicy",
    "AmazonEKS_CNI_Policy",
    "AmazonEC2ContainerRegistryReadOnly",
)
workers = [
    aws.eks.NodeGroup(
        group,
        cluster_name=cluster.name,
        node_group_name=group,
        node_role_arn=node_role.arn,
        subnet_ids=subnets,
        instance_types=["m7i.large"],
        scaling_config={"min_size": 1, "desired_size": 1, "max_size": 3},
        labels={"team": "platform"},
        tags=tags,
        opts=pulumi.ResourceOptions(depends_on=[*first, *routed, *granted]),
    )
    for group in ("workers", "tandem-gpu")
]
driver_role, granted = role("driver", "pods.eks.amazonaws.com", "AmazonEBSCSIDriverPolicyV2")
aws.eks.Addon(
    "coredns", cluster_name=cluster.name, addon_name="coredns", opts=pulumi.ResourceOptions(depends_on=workers)
)
aws.eks.Addon(
    "driver",
    cluster_name=cluster.name,
    addon_name="aws-ebs-csi-driver",
    pod_identity_associations=[{"role_arn": driver_role.arn, "service_account": "ebs-csi-controller-sa"}],
    opts=pulumi.ResourceOptions(depends_on=[*workers, *granted]),
)

# What runs there.


def kubeconfig(endpoint: str, authority: str) -> str:
    login = ["eks", "get-token", "--cluster-name", name, "--region", "us-east-1"]
    user = {"exec": {"apiVersion": "client.authentication.k8s.io/v1beta1", "command": "aws", "args": login}}
    where = {"server": endpoint, "certificate-authority-data": authority}
    return json.dumps(
        {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": name, "cluster": where}],
            "contexts": [{"name": name, "context": {"cluster": name, "user": name}}],
            "current-context": name,
            "users": [{"name": name, "user": user}],
        }
    )


kubernetes = k8s.Provider(
    "kubernetes",
    kubeconfig=pulumi.Output.all(cluster.endpoint, cluster.certificate_authority.data).apply(
        lambda known: kubeconfig(*known)
    ),
    opts=pulumi.ResourceOptions(depends_on=workers),
)
there = pulumi.ResourceOptions(provider=kubernetes)


def pod(app: str, image: str, *, spec: dict[str, object] | None = None) -> dict[str, object]:
    labels = {"app": app}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": app, "image": image}], **(spec or {})}}
    return {"selector": {"match_labels": labels}, "template": template}


shop = k8s.core.v1.Namespace("shop", metadata={"name": "shop"}, opts=there)
k8s.apps.v1.DaemonSet(
    "log-agent",
    metadata={"name": "log-agent", "namespace": shop.metadata.name},
    spec=pod("log-agent", "example.com/log-agent:3", spec={"tolerations": [{"operator": "Exists"}]}),
    opts=there,
)
k8s.apps.v1.Deployment(
    "shop",
    metadata={"name": "shop", "namespace": shop.metadata.name},
    spec={"replicas": 2, **pod("shop", "example.com/shop:1")},
    opts=there,
)
k8s.core.v1.ConfigMap("shop", metadata={"name": "shop", "namespace": shop.metadata.name}, data={"a": "b"}, opts=there)
if "discovery" in extras:
    k8s.helm.v3.Release(
        "discovery",
        name="nfd",
        namespace="kube-system",
        chart="node-feature-discovery",
        version="0.18.3",
        repository_opts={"repo": "https://kubernetes-sigs.github.io/node-feature-discovery/charts"},
        values={"worker": {"tolerations": [{"operator": "Exists"}]}},
        opts=there,
    )
if "plugin" in extras:
    # As NVIDIA's static manifest: on every node that has no other taint.
    sockets = {"name": "device-plugin", "hostPath": {"path": "/var/lib/kubelet/device-plugins"}}
    k8s.apps.v1.DaemonSet(
        "plugin",
        metadata={"name": "nvidia-device-plugin-daemonset", "namespace": "kube-system"},
        spec=pod(
            "nvidia-device-plugin-ds",
            "nvcr.io/nvidia/k8s-device-plugin:v0.17.1",
            spec={"tolerations": [{"operator": "Exists"}], "volumes": [sockets]},
        ),
        opts=there,
    )
if "karpenter" in extras:
    k8s.apps.v1.Deployment(
        "karpenter",
        metadata={"name": "karpenter", "namespace": "kube-system"},
        spec=pod("karpenter", "public.ecr.aws/karpenter/controller:1.8.0"),
        opts=there,
    )
if "namespace" in extras:
    k8s.core.v1.Namespace("ollama", metadata={"name": "ollama"}, opts=there)
