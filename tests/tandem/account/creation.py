"""Makes things of every kind in the account, and counts what is there without asking the code under test."""

from __future__ import annotations

import json
from itertools import count
from typing import Any

import boto3

from tests.tandem.account.emulated import REGION, Emulated, Tags, pairs, spec

TRUST = json.dumps({"Version": "2012-10-17", "Statement": []})
POLICY = json.dumps({"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": "*", "Resource": "*"}]})
ROLE = "arn:aws:iam::123456789012:role/anyone"


class Creation:
    """Makes one thing of a kind with the tags given; everything else that it needs is untagged."""

    def __init__(self, emulated: Emulated) -> None:
        self.emulated = emulated
        self.ec2, self.eks, self.iam, self.logs, self.sqs, self.events = (
            boto3.client(service, region_name=REGION) for service in ("ec2", "eks", "iam", "logs", "sqs", "events")
        )
        self.number = count(1)
        self.vpc = self.ec2.create_vpc(CidrBlock="10.0.0.0/16")["Vpc"]["VpcId"]
        self.subnet = self.ec2.create_subnet(VpcId=self.vpc, CidrBlock="10.0.0.0/24")["Subnet"]["SubnetId"]
        self.image = "ami-12345678"
        self.eks.create_cluster(name="anyones", roleArn=ROLE, resourcesVpcConfig={"subnetIds": [self.subnet]})

    def make(self, kind: str, tags: Tags) -> str:
        return str(getattr(self, kind.replace(" ", "_").replace("-", "_"))(tags))

    def node_groups(self, tags: Tags, cluster: str = "anyones") -> str:
        name = f"group-{next(self.number)}"
        self.eks.create_nodegroup(
            clusterName=cluster, nodegroupName=name, subnets=[self.subnet], nodeRole=ROLE, tags=tags
        )
        return f"{cluster}/{name}"

    def instances(self, tags: Tags, instance_type: str = "g4dn.xlarge", spot: bool = False) -> str:
        market = {"InstanceMarketOptions": {"MarketType": "spot"}} if spot else {}
        made = self.ec2.run_instances(
            ImageId=self.image,
            MinCount=1,
            MaxCount=1,
            InstanceType=instance_type,
            SubnetId=self.subnet,
            TagSpecifications=spec("instance", tags),
            **market,
        )
        return str(made["Instances"][0]["InstanceId"])

    def add_ons(self, tags: Tags, cluster: str = "anyones") -> str:
        name = f"addon-{next(self.number)}"
        self.emulated.addons[cluster, name] = tags
        return f"{cluster}/{name}"

    def EKS_clusters(self, tags: Tags, name: str = "") -> str:
        name = name or f"cluster-{next(self.number)}"
        self.eks.create_cluster(
            name=name, version="1.36", roleArn=ROLE, resourcesVpcConfig={"subnetIds": [self.subnet]}, tags=tags
        )
        return name

    def launch_templates(self, tags: Tags) -> str:
        made = self.ec2.create_launch_template(
            LaunchTemplateName=f"template-{next(self.number)}",
            LaunchTemplateData={"ImageId": self.image},
            TagSpecifications=spec("launch-template", tags),
        )
        return str(made["LaunchTemplate"]["LaunchTemplateId"])

    def VPC_endpoints(self, tags: Tags) -> str:
        made = self.ec2.create_vpc_endpoint(
            VpcId=self.vpc,
            VpcEndpointType="Gateway",
            ServiceName=f"com.amazonaws.{REGION}.s3",
            TagSpecifications=spec("vpc-endpoint", tags),
        )
        return str(made["VpcEndpoint"]["VpcEndpointId"])

    def network_interfaces(self, tags: Tags) -> str:
        made = self.ec2.create_network_interface(
            SubnetId=self.subnet, TagSpecifications=spec("network-interface", tags)
        )
        return str(made["NetworkInterface"]["NetworkInterfaceId"])

    def NAT_gateways(self, tags: Tags) -> str:
        made = self.ec2.create_nat_gateway(
            SubnetId=self.subnet, AllocationId=self.elastic_IPs({}), TagSpecifications=spec("natgateway", tags)
        )
        return str(made["NatGateway"]["NatGatewayId"])

    def elastic_IPs(self, tags: Tags) -> str:
        return str(self.ec2.allocate_address(Domain="vpc", TagSpecifications=spec("elastic-ip", tags))["AllocationId"])

    def snapshots(self, tags: Tags) -> str:
        return str(
            self.ec2.create_snapshot(VolumeId=self.volumes({}), TagSpecifications=spec("snapshot", tags))["SnapshotId"]
        )

    def volumes(self, tags: Tags, size: int = 8, kind: str = "gp3") -> str:
        made = self.ec2.create_volume(
            Size=size, VolumeType=kind, AvailabilityZone=f"{REGION}a", TagSpecifications=spec("volume", tags)
        )
        return str(made["VolumeId"])

    def security_groups(self, tags: Tags) -> str:
        made = self.ec2.create_security_group(
            GroupName=f"group-{next(self.number)}",
            Description="for a test",
            VpcId=self.vpc,
            TagSpecifications=spec("security-group", tags),
        )
        return str(made["GroupId"])

    def route_tables(self, tags: Tags) -> str:
        made = self.ec2.create_route_table(VpcId=self.vpc, TagSpecifications=spec("route-table", tags))
        return str(made["RouteTable"]["RouteTableId"])

    def subnets(self, tags: Tags) -> str:
        made = self.ec2.create_subnet(
            VpcId=self.vpc, CidrBlock=f"10.0.{next(self.number) % 250 + 1}.0/28", TagSpecifications=spec("subnet", tags)
        )
        return str(made["Subnet"]["SubnetId"])

    def internet_gateways(self, tags: Tags) -> str:
        made = self.ec2.create_internet_gateway(TagSpecifications=spec("internet-gateway", tags))
        return str(made["InternetGateway"]["InternetGatewayId"])

    def VPCs(self, tags: Tags) -> str:
        made = self.ec2.create_vpc(CidrBlock="10.1.0.0/16", TagSpecifications=spec("vpc", tags))
        return str(made["Vpc"]["VpcId"])

    def log_groups(self, tags: Tags, name: str = "") -> str:
        name = name or f"/aws/eks/cluster-{next(self.number)}/cluster"
        self.logs.create_log_group(logGroupName=name, tags=tags)
        return name

    def EventBridge_rules(self, tags: Tags) -> str:
        name = f"rule-{next(self.number)}"
        self.events.put_rule(Name=name, ScheduleExpression="rate(1 hour)", Tags=pairs(tags))
        self.events.put_targets(Rule=name, Targets=[{"Id": "1", "Arn": "arn:aws:sqs:us-east-1:123456789012:any"}])
        return name

    def SQS_queues(self, tags: Tags) -> str:
        return str(self.sqs.create_queue(QueueName=f"queue-{next(self.number)}", tags=tags)["QueueUrl"])

    def instance_profiles(self, tags: Tags) -> str:
        name = f"profile-{next(self.number)}"
        self.iam.create_instance_profile(InstanceProfileName=name, Tags=pairs(tags))
        self.iam.add_role_to_instance_profile(InstanceProfileName=name, RoleName=self.IAM_roles({}))
        return name

    def IAM_roles(self, tags: Tags) -> str:
        name = f"role-{next(self.number)}"
        self.iam.create_role(RoleName=name, AssumeRolePolicyDocument=TRUST, Tags=pairs(tags))
        self.iam.attach_role_policy(RoleName=name, PolicyArn=self.IAM_policies({}))
        self.iam.put_role_policy(RoleName=name, PolicyName="inline", PolicyDocument=POLICY)
        return name

    def IAM_policies(self, tags: Tags) -> str:
        made = self.iam.create_policy(
            PolicyName=f"policy-{next(self.number)}", PolicyDocument=POLICY, Tags=pairs(tags)
        )["Policy"]["Arn"]
        self.iam.create_policy_version(PolicyArn=made, PolicyDocument=POLICY)
        return str(made)

    def census(self) -> set[tuple[str, str]]:
        """Kind and id of everything in the account."""
        found: set[tuple[str, str]] = set()
        alive = ("pending", "running", "stopping", "stopped")
        for reservation in self._all(self.ec2, "describe_instances", "Reservations"):
            for raw in reservation["Instances"]:
                if raw["State"]["Name"] in alive:
                    found.add(("instances", raw["InstanceId"]))
        for kind, operation, key, id_key in (
            ("launch templates", "describe_launch_templates", "LaunchTemplates", "LaunchTemplateId"),
            ("VPC endpoints", "describe_vpc_endpoints", "VpcEndpoints", "VpcEndpointId"),
            ("network interfaces", "describe_network_interfaces", "NetworkInterfaces", "NetworkInterfaceId"),
            ("NAT gateways", "describe_nat_gateways", "NatGateways", "NatGatewayId"),
            ("elastic IPs", "describe_addresses", "Addresses", "AllocationId"),
            ("volumes", "describe_volumes", "Volumes", "VolumeId"),
            ("security groups", "describe_security_groups", "SecurityGroups", "GroupId"),
            ("route tables", "describe_route_tables", "RouteTables", "RouteTableId"),
            ("subnets", "describe_subnets", "Subnets", "SubnetId"),
            ("internet gateways", "describe_internet_gateways", "InternetGateways", "InternetGatewayId"),
            ("VPCs", "describe_vpcs", "Vpcs", "VpcId"),
        ):
            for raw in self._all(self.ec2, operation, key):
                if raw.get("State") not in ("deleted", "deleting"):
                    found.add((kind, raw[id_key]))
        for raw in self.ec2.describe_snapshots(OwnerIds=["self"])["Snapshots"]:
            found.add(("snapshots", raw["SnapshotId"]))
        for cluster in self._all(self.eks, "list_clusters", "clusters"):
            found.add(("EKS clusters", cluster))
            groups = self._all(self.eks, "list_nodegroups", "nodegroups", clusterName=cluster)
            found |= {("node groups", f"{cluster}/{name}") for name in groups}
        found |= {("add-ons", f"{cluster}/{name}") for cluster, name in self.emulated.addons}
        found |= {
            ("log groups", raw["logGroupName"]) for raw in self._all(self.logs, "describe_log_groups", "logGroups")
        }
        found |= {("EventBridge rules", raw["Name"]) for raw in self.events.list_rules()["Rules"]}
        found |= {("SQS queues", url) for url in self.sqs.list_queues().get("QueueUrls", [])}
        for kind, operation, key, id_key, more in (
            ("instance profiles", "list_instance_profiles", "InstanceProfiles", "InstanceProfileName", {}),
            ("IAM roles", "list_roles", "Roles", "RoleName", {}),
            ("IAM policies", "list_policies", "Policies", "Arn", {"Scope": "Local"}),
        ):
            found |= {(kind, raw[id_key]) for raw in self._all(self.iam, operation, key, **more)}
        return found

    @staticmethod
    def _all(client: Any, operation: str, key: str, **arguments: Any) -> list[Any]:
        if not client.can_paginate(operation):
            return list(getattr(client, operation)(**arguments)[key])
        return [one for page in client.get_paginator(operation).paginate(**arguments) for one in page[key]]
