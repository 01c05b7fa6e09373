"""A stack as `up` creates it in an account, with every dependency that AWS knows between its resources."""

from tests.tandem.aws.creation import Creation
from tests.tandem.aws.emulated import CLUSTER, CLUSTER_LOGS, OURS

GROUP = {"eks:cluster-name": CLUSTER, "eks:nodegroup-name": "system"}
KARPENTER = {"eks:eks-cluster-name": CLUSTER, "karpenter.sh/nodepool": "gpu"}
ROLE = "arn:aws:iam::123456789012:role/{}"
QUEUE = "arn:aws:sqs:us-east-1:123456789012:{}"


def make(creation: Creation) -> None:
    """Creates every kind of resource, used as in a running stack."""
    ec2 = creation.ec2
    vpc = creation.VPCs(OURS)
    private, public = (creation.subnets(OURS, VpcId=vpc, CidrBlock=f"10.1.{net}.0/24") for net in (0, 1))
    for subnet in (private, public):
        ec2.modify_subnet_attribute(SubnetId=subnet, MapPublicIpOnLaunch={"Value": True})
    gateway = creation.internet_gateways(OURS)
    ec2.attach_internet_gateway(InternetGatewayId=gateway, VpcId=vpc)
    nat = creation.NAT_gateways(OURS, public, creation.elastic_IPs(OURS))
    for subnet, way in ((private, {"NatGatewayId": nat}), (public, {"GatewayId": gateway})):
        table = creation.route_tables(OURS, vpc)
        ec2.associate_route_table(RouteTableId=table, SubnetId=subnet)
        ec2.create_route(RouteTableId=table, DestinationCidrBlock="0.0.0.0/0", **way)
    group = creation.security_groups(OURS, vpc)
    creation.VPC_endpoints(OURS, "sts", "Interface", VpcId=vpc, SubnetIds=[private], SecurityGroupIds=[group])

    policy = creation.IAM_policies(OURS)
    for role in ("cluster", "nodes"):
        creation.IAM_roles(OURS, role, policy)
    profile = creation.instance_profiles(KARPENTER, "nodes")

    place = {"subnetIds": [private]}
    creation.EKS_clusters(OURS, CLUSTER, roleArn=ROLE.format("cluster"), resourcesVpcConfig=place)
    creation.network_interfaces({}, SubnetId=private, Groups=[group], Description=f"Amazon EKS {CLUSTER}")
    creation.add_ons(OURS, CLUSTER)
    creation.log_groups(OURS, CLUSTER_LOGS.format(CLUSTER))
    creation.node_groups(
        OURS,
        CLUSTER,
        nodegroupName="system",
        subnets=[private, public],
        nodeRole=ROLE.format("nodes"),
        launchTemplate={"id": creation.launch_templates(OURS), "version": "1"},
    )
    creation.instances({**OURS, **GROUP}, SubnetId=private, SecurityGroupIds=[group])
    node = creation.instances(
        KARPENTER, SubnetId=public, SecurityGroupIds=[group], IamInstanceProfile={"Name": profile}
    )
    # The VPC CNI makes it for the node's pods. It stays if the node is deleted before the CNI has cleaned up.
    tags = {"cluster.k8s.amazonaws.com/name": CLUSTER, "node.k8s.amazonaws.com/instance_id": node}
    interface = creation.network_interfaces(tags, SubnetId=public, Groups=[group])
    ec2.attach_network_interface(NetworkInterfaceId=interface, InstanceId=node, DeviceIndex=1)
    models = creation.volumes(OURS, size=100)
    ec2.attach_volume(VolumeId=models, InstanceId=node, Device="/dev/sdf")
    creation.snapshots(OURS, models)
    queue = QUEUE.format(creation.SQS_queues(OURS).rpartition("/")[2])
    creation.EventBridge_rules(OURS, queue)
    creation.schedule_groups(OURS, ROLE.format(creation.IAM_roles(OURS, "scheduler", policy)), queue)
    creation.budgets(OURS)
