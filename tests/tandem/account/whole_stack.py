"""A stack as `up` leaves it in an account, with every edge that AWS knows between its things."""

from __future__ import annotations

from tests.tandem.account.creation import POLICY, TRUST, Creation
from tests.tandem.account.emulated import CLUSTER, CLUSTER_LOGS, OURS, REGION, pairs, spec

GROUP = {"eks:cluster-name": CLUSTER, "eks:nodegroup-name": "system"}
KARPENTER = {"eks:eks-cluster-name": CLUSTER, "karpenter.sh/nodepool": "gpu"}
ANYWHERE = "0.0.0.0/0"


def make(creation: Creation) -> None:
    """Every kind of thing, in use as it is while the stack is up."""
    ec2, iam = creation.ec2, creation.iam
    vpc = creation.VPCs(OURS)
    private, public = (_subnet(creation, vpc, cidr) for cidr in ("10.1.0.0/24", "10.1.1.0/24"))
    gateway = creation.internet_gateways(OURS)
    ec2.attach_internet_gateway(InternetGatewayId=gateway, VpcId=vpc)
    nat = ec2.create_nat_gateway(
        SubnetId=public, AllocationId=creation.elastic_IPs(OURS), TagSpecifications=spec("natgateway", OURS)
    )["NatGateway"]["NatGatewayId"]
    for subnet, way in ((private, {"NatGatewayId": nat}), (public, {"GatewayId": gateway})):
        table = ec2.create_route_table(VpcId=vpc, TagSpecifications=spec("route-table", OURS))["RouteTable"]
        ec2.associate_route_table(RouteTableId=table["RouteTableId"], SubnetId=subnet)
        ec2.create_route(RouteTableId=table["RouteTableId"], DestinationCidrBlock=ANYWHERE, **way)
    group = ec2.create_security_group(
        GroupName="nodes", Description="nodes", VpcId=vpc, TagSpecifications=spec("security-group", OURS)
    )["GroupId"]
    ec2.create_vpc_endpoint(
        VpcId=vpc,
        VpcEndpointType="Interface",
        ServiceName=f"com.amazonaws.{REGION}.sts",
        SubnetIds=[private],
        SecurityGroupIds=[group],
        TagSpecifications=spec("vpc-endpoint", OURS),
    )

    policy = creation.IAM_policies(OURS)
    for role in ("cluster", "nodes"):
        iam.create_role(RoleName=role, AssumeRolePolicyDocument=TRUST, Tags=pairs(OURS))
        iam.attach_role_policy(RoleName=role, PolicyArn=policy)
        iam.put_role_policy(RoleName=role, PolicyName="inline", PolicyDocument=POLICY)
    iam.create_instance_profile(InstanceProfileName="karpenter", Tags=pairs(KARPENTER))
    iam.add_role_to_instance_profile(InstanceProfileName="karpenter", RoleName="nodes")

    creation.eks.create_cluster(
        name=CLUSTER,
        version="1.36",
        roleArn="arn:aws:iam::123456789012:role/cluster",
        resourcesVpcConfig={"subnetIds": [private]},
        tags=OURS,
    )
    ec2.create_network_interface(SubnetId=private, Groups=[group], Description=f"Amazon EKS {CLUSTER}")
    creation.add_ons(OURS, cluster=CLUSTER)
    creation.log_groups(OURS, name=CLUSTER_LOGS.format(CLUSTER))
    creation.eks.create_nodegroup(
        clusterName=CLUSTER,
        nodegroupName="system",
        subnets=[private, public],
        nodeRole="arn:aws:iam::123456789012:role/nodes",
        launchTemplate={"id": creation.launch_templates(OURS), "version": "1"},
        tags=OURS,
    )
    _instance(creation, private, group, {**OURS, **GROUP})
    node = _instance(creation, public, group, KARPENTER, IamInstanceProfile={"Name": "karpenter"})
    # For the node's pods, by the VPC CNI; it stays when the node goes before the CNI has tidied up.
    tags = {"cluster.k8s.amazonaws.com/name": CLUSTER, "node.k8s.amazonaws.com/instance_id": node}
    made = ec2.create_network_interface(
        SubnetId=public, Groups=[group], TagSpecifications=spec("network-interface", tags)
    )
    interface = made["NetworkInterface"]["NetworkInterfaceId"]
    ec2.attach_network_interface(NetworkInterfaceId=interface, InstanceId=node, DeviceIndex=1)
    models = creation.volumes(OURS, size=100)
    ec2.attach_volume(VolumeId=models, InstanceId=node, Device="/dev/sdf")
    snapshot = ec2.create_snapshot(VolumeId=models)["SnapshotId"]
    ec2.create_tags(Resources=[snapshot], Tags=pairs(OURS))
    creation.EventBridge_rules(OURS)
    creation.SQS_queues(OURS)


def _subnet(creation: Creation, vpc: str, cidr: str) -> str:
    made = creation.ec2.create_subnet(VpcId=vpc, CidrBlock=cidr, TagSpecifications=spec("subnet", OURS))
    id = str(made["Subnet"]["SubnetId"])
    creation.ec2.modify_subnet_attribute(SubnetId=id, MapPublicIpOnLaunch={"Value": True})
    return id


def _instance(creation: Creation, subnet: str, group: str, tags: dict[str, str], **more: object) -> str:
    made = creation.ec2.run_instances(
        ImageId=creation.image,
        MinCount=1,
        MaxCount=1,
        InstanceType="g4dn.xlarge",
        SubnetId=subnet,
        SecurityGroupIds=[group],
        TagSpecifications=spec("instance", tags),
        **more,
    )
    return str(made["Instances"][0]["InstanceId"])
