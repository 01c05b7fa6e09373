"""Creates resources of every kind in the account, and lists the existing ones without the code under test."""

import json
from functools import cached_property
from itertools import count
from typing import Any

import boto3
from moto.budgets.models import budgets_backends
from moto.ec2.models import ec2_backends
from moto.eks.models import eks_backends
from moto.events.models import events_backends
from moto.iam.models import iam_backends
from moto.logs.models import logs_backends
from moto.scheduler.models import scheduler_backends
from moto.sqs.models import sqs_backends

from tests.tandem.aws.emulated import ACCOUNT, REGION, Emulated, Tags, pairs, spec

TRUST = json.dumps({"Version": "2012-10-17", "Statement": []})
POLICY = json.dumps({"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": "*", "Resource": "*"}]})
ROLE = "arn:aws:iam::123456789012:role/anyone"
ANY_QUEUE = "arn:aws:sqs:us-east-1:123456789012:any"
UPDATE_NODE_GROUP = "arn:aws:scheduler:::aws-sdk:eks:updateNodegroupConfig"


class Creation:
    """Creates one resource of a kind with the given tags; everything else that it needs is untagged."""

    def __init__(self, emulated: Emulated) -> None:
        self.emulated = emulated
        self.ec2, self.eks = (boto3.client(service, region_name=REGION) for service in ("ec2", "eks"))
        self.number = count(1)
        self.vpc = self.VPCs({}, CidrBlock="10.0.0.0/16")
        self.subnet = self.subnets({}, CidrBlock="10.0.0.0/24")
        self.EKS_clusters({}, name="anyones")

    # Most tests need none of these clients, and each takes 10 ms.
    @cached_property
    def iam(self) -> Any:
        return boto3.client("iam", region_name=REGION)

    @cached_property
    def logs(self) -> Any:
        return boto3.client("logs", region_name=REGION)

    @cached_property
    def sqs(self) -> Any:
        return boto3.client("sqs", region_name=REGION)

    @cached_property
    def events(self) -> Any:
        return boto3.client("events", region_name=REGION)

    @cached_property
    def budgets_api(self) -> Any:
        return boto3.client("budgets", region_name=REGION)

    @cached_property
    def scheduler(self) -> Any:
        return boto3.client("scheduler", region_name=REGION)

    def make(self, kind: str, tags: Tags) -> str:
        return str(getattr(self, kind.replace(" ", "_").replace("-", "_"))(tags))

    def _new(self, kind: str) -> str:
        return f"{kind}-{next(self.number)}"

    def _made(self, resource: str, tags: Tags, **asked: Any) -> str:
        """Creates a resource of EC2, e.g. a `launch-template`; returns its id."""
        words = ["nat", "gateway"] if resource == "natgateway" else resource.split("-")
        noun = "".join(map(str.capitalize, words))
        answer = getattr(self.ec2, f"create_{'_'.join(words)}")(TagSpecifications=spec(resource, tags), **asked)
        return str(answer.get(noun, answer)["GroupId" if noun == "SecurityGroup" else f"{noun}Id"])

    def node_groups(self, tags: Tags, cluster: str = "anyones", **more: Any) -> str:
        asked = {"nodegroupName": self._new("group"), "subnets": [self.subnet], "nodeRole": ROLE, **more}
        self.eks.create_nodegroup(clusterName=cluster, tags=tags, **asked)
        return f"{cluster}/{asked['nodegroupName']}"

    def instances(self, tags: Tags, instance_type: str = "g4dn.xlarge", spot: bool = False, **more: Any) -> str:
        market = {"InstanceMarketOptions": {"MarketType": "spot"}} if spot else {}
        made = self.ec2.run_instances(
            **{"ImageId": "ami-12345678", "MinCount": 1, "MaxCount": 1, "SubnetId": self.subnet, **market, **more},
            InstanceType=instance_type,
            TagSpecifications=spec("instance", tags),
        )
        return str(made["Instances"][0]["InstanceId"])

    def add_ons(self, tags: Tags, cluster: str = "anyones") -> str:
        name = self._new("addon")
        self.emulated.addons[cluster, name] = tags
        return f"{cluster}/{name}"

    def EKS_clusters(self, tags: Tags, name: str = "", **more: Any) -> str:
        asked = {"roleArn": ROLE, "resourcesVpcConfig": {"subnetIds": [self.subnet]}, **more}
        made = self.eks.create_cluster(name=name or self._new("cluster"), version="1.36", tags=tags, **asked)
        return str(made["cluster"]["name"])

    def launch_templates(self, tags: Tags) -> str:
        data = {"ImageId": "ami-12345678"}
        return self._made("launch-template", tags, LaunchTemplateName=self._new("t"), LaunchTemplateData=data)

    def VPC_endpoints(self, tags: Tags, service: str = "s3", kind: str = "Gateway", **more: Any) -> str:
        asked = {"VpcId": self.vpc, "ServiceName": f"com.amazonaws.{REGION}.{service}", **more}
        return self._made("vpc-endpoint", tags, VpcEndpointType=kind, **asked)

    def network_interfaces(self, tags: Tags, **more: Any) -> str:
        return self._made("network-interface", tags, **{"SubnetId": self.subnet, **more})

    def NAT_gateways(self, tags: Tags, subnet: str = "", address: str = "") -> str:
        place = {"SubnetId": subnet or self.subnet, "AllocationId": address or self.elastic_IPs({})}
        return self._made("natgateway", tags, **place)

    def elastic_IPs(self, tags: Tags) -> str:
        return str(self.ec2.allocate_address(Domain="vpc", TagSpecifications=spec("elastic-ip", tags))["AllocationId"])

    def snapshots(self, tags: Tags, volume: str = "") -> str:
        return self._made("snapshot", tags, VolumeId=volume or self.volumes({}))

    def volumes(self, tags: Tags, size: int = 8, kind: str = "gp3") -> str:
        return self._made("volume", tags, Size=size, VolumeType=kind, AvailabilityZone=f"{REGION}a")

    def security_groups(self, tags: Tags, vpc: str = "") -> str:
        name = self._new("group")
        return self._made("security-group", tags, GroupName=name, Description="for a test", VpcId=vpc or self.vpc)

    def route_tables(self, tags: Tags, vpc: str = "") -> str:
        return self._made("route-table", tags, VpcId=vpc or self.vpc)

    def subnets(self, tags: Tags, **more: Any) -> str:
        asked = {"VpcId": self.vpc, "CidrBlock": f"10.0.{next(self.number) % 250 + 1}.0/28", **more}
        return self._made("subnet", tags, **asked)

    def internet_gateways(self, tags: Tags) -> str:
        return self._made("internet-gateway", tags)

    def VPCs(self, tags: Tags, **more: Any) -> str:
        return self._made("vpc", tags, **{"CidrBlock": "10.1.0.0/16", **more})

    def log_groups(self, tags: Tags, name: str = "") -> str:
        name = name or f"/aws/eks/{self._new('cluster')}/cluster"
        self.logs.create_log_group(logGroupName=name, tags=tags)
        return name

    def EventBridge_rules(self, tags: Tags, queue: str = ANY_QUEUE) -> str:
        name = self._new("rule")
        self.events.put_rule(Name=name, ScheduleExpression="rate(1 hour)", Tags=pairs(tags))
        self.events.put_targets(Rule=name, Targets=[{"Id": "1", "Arn": queue}])
        return name

    def schedule_groups(self, tags: Tags, role: str = ROLE, queue: str = ANY_QUEUE) -> str:
        name = self._new("nights")
        self.scheduler.create_schedule_group(Name=name, Tags=pairs(tags))
        target = {"Arn": UPDATE_NODE_GROUP, "Input": "{}", "RoleArn": role, "DeadLetterConfig": {"Arn": queue}}
        self.scheduler.create_schedule(
            GroupName=name,
            Name="park",
            ScheduleExpression="cron(0 20 * * ? *)",
            FlexibleTimeWindow={"Mode": "OFF"},
            Target=target,
        )
        return name

    def SQS_queues(self, tags: Tags) -> str:
        return str(self.sqs.create_queue(QueueName=self._new("queue"), tags=tags)["QueueUrl"])

    def instance_profiles(self, tags: Tags, role: str = "") -> str:
        name = self._new("profile")
        self.iam.create_instance_profile(InstanceProfileName=name, Tags=pairs(tags))
        self.iam.add_role_to_instance_profile(InstanceProfileName=name, RoleName=role or self.IAM_roles({}))
        return name

    def IAM_roles(self, tags: Tags, name: str = "", policy: str = "") -> str:
        name = name or self._new("role")
        self.iam.create_role(RoleName=name, AssumeRolePolicyDocument=TRUST, Tags=pairs(tags))
        self.iam.attach_role_policy(RoleName=name, PolicyArn=policy or self.IAM_policies({}))
        self.iam.put_role_policy(RoleName=name, PolicyName="inline", PolicyDocument=POLICY)
        return name

    def IAM_policies(self, tags: Tags) -> str:
        made = self.iam.create_policy(PolicyName=self._new("policy"), PolicyDocument=POLICY, Tags=pairs(tags))
        self.iam.create_policy_version(PolicyArn=made["Policy"]["Arn"], PolicyDocument=POLICY)
        return str(made["Policy"]["Arn"])

    def budgets(self, tags: Tags) -> str:
        name = self._new("tandem-alert-monthly")
        limit = {"Amount": "100", "Unit": "USD"}
        budget = {"BudgetName": name, "BudgetType": "COST", "TimeUnit": "MONTHLY", "BudgetLimit": limit}
        self.budgets_api.create_budget(AccountId=ACCOUNT, Budget=budget, ResourceTags=pairs(tags))
        self.emulated.budget_tags[name] = tags
        return name

    def census(self) -> set[tuple[str, str]]:
        """Kind and id of everything in the account, without the default table and group of each VPC."""
        ec2, eks, iam = _in(ec2_backends), _in(eks_backends), iam_backends[ACCOUNT]["aws"]
        instances = [each for reservation in ec2.reservations.values() for each in reservation.instances]
        groups = [group for in_vpc in ec2.groups.values() for group in in_vpc.values()]
        kinds = {
            "node groups": [
                f"{cluster.name}/{name}" for cluster in eks.clusters.values() for name in cluster.nodegroups
            ],
            "instances": [each.id for each in instances if each._state.name not in ("terminated", "stopped")],
            "add-ons": map("/".join, self.emulated.addons),
            "EKS clusters": eks.clusters,
            "launch templates": ec2.launch_templates,
            "VPC endpoints": [each.id for each in ec2.vpc_end_points.values() if each.state != "deleted"],
            "network interfaces": ec2.enis,
            "NAT gateways": [each.id for each in ec2.nat_gateways.values() if each.state != "deleted"],
            "elastic IPs": [each.allocation_id for each in ec2.addresses],
            "snapshots": [each.id for each in ec2.snapshots.values() if each.owner_id == ACCOUNT],
            "volumes": ec2.volumes,
            "security groups": [each.id for each in groups if each.name != "default"],
            "route tables": [each.id for each in ec2.route_tables.values() if each.main_association_id is None],
            "subnets": [id for zone in ec2.subnets.values() for id in zone],
            "internet gateways": ec2.internet_gateways,
            "VPCs": ec2.vpcs,
            "log groups": _in(logs_backends).groups,
            "EventBridge rules": _in(events_backends).event_buses["default"].rules,
            "schedule groups": [name for name in _in(scheduler_backends).schedule_groups if name != "default"],
            "SQS queues": [f"https://sqs.{REGION}.amazonaws.com/{ACCOUNT}/{name}" for name in _in(sqs_backends).queues],
            "instance profiles": [each.name for each in iam.instance_profiles.values()],
            "IAM roles": [each.name for each in iam.roles.values()],
            "IAM policies": [arn for arn in iam.managed_policies if f":{ACCOUNT}:" in arn],
            "budgets": budgets_backends[ACCOUNT]["aws"].budgets[ACCOUNT],
        }
        return {(kind, str(id)) for kind, ids in kinds.items() for id in ids}


def _in(backends: Any) -> Any:
    return backends[ACCOUNT][REGION]
