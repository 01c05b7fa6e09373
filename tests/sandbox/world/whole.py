"""An account with one resource of each kind, and inputs of resources for its rules."""

from typing import Any

from sandbox.graph import rebuilt
from sandbox.world import tokens
from tests.sandbox.user_data_pieces import GREETS, in_base64
from tests.sandbox.world_pieces import Account, meta

MANAGED = "arn:aws:iam::aws:policy/AmazonEKSWorkerNodePolicy"
OURS = "arn:aws:iam::123456789012:"
NOBODY = f"{OURS}role/absent"
ANYWHERE = "0.0.0.0/0"
LARGEST = "{" + " " * 9000 + "x" * 6142 + "}"
INVALID, IN_USE, NOT_FOUND = "InvalidParameterException", "ResourceInUseException", "ResourceNotFoundException"


def tags(count: int) -> dict[str, str]:
    return {f"key-{number}": "v" for number in range(count)}


def group(**more: Any) -> dict[str, Any]:
    return {"clusterName": "c", "nodeGroupName": "new", "nodeRoleArn": "{role}", "subnetIds": ["{subnet}"], **more}


def cluster(**more: Any) -> dict[str, Any]:
    return {"name": "new", "roleArn": "{role}", "vpcConfig": {"subnetIds": ["{subnet}", "{second}"]}, **more}


class Whole(Account):
    """A cluster with public nodes, a second network with a NAT gateway, and one of everything else."""

    def __init__(self) -> None:
        super().__init__()
        self.cluster(tags=tags(50))
        self.nodes()
        self.bare = self.role("bare")
        self.other = self.make(tokens.VPC, "other", tags={**tags(48), "team": "a", "Team": "b"})
        self.detached = self.make(tokens.SUBNET, vpcId=self.other)
        self.free = self.make(tokens.ADDRESS)
        self.far = self.make(tokens.VPC, "far", tags={"aws": "no prefix", "empty": ""})
        self.far_gateway = self.make(tokens.GATEWAY, "far", vpcId=self.far)
        self.far_subnet = self.make(tokens.SUBNET, "far", vpcId=self.far)
        self.address = self.make(tokens.ADDRESS, "used")
        self.make(tokens.NAT, subnetId=self.far_subnet, allocationId=self.address)
        for name in "ab":  # private ones have no address
            self.make(tokens.NAT, name, subnetId=self.far_subnet)
        self.template = self.make(tokens.TEMPLATE, name="t")
        self.plain = self.make(tokens.TEMPLATE, "plain", userData=in_base64(GREETS))
        self.image = self.make(tokens.TEMPLATE, "image", userData=in_base64(GREETS), imageId="ami-1")
        self.volume_ = self.make(tokens.VOLUME, availabilityZone="us-east-1a", size=20)
        self.largest = self.make(tokens.POLICY, name="p", policy=LARGEST, tags=tags(50))
        self.make(tokens.LOG_GROUP, name="g", tags=tags(50))
        self.make(tokens.QUEUE_POLICY, queueUrl=self.make(tokens.QUEUE, name="q"))
        self.make(tokens.BUDGET, name="b")
        self.make(tokens.SCHEDULE_GROUP, name="nights", tags={"owner": "us"})
        self.make(tokens.SCHEDULE, groupName="nights", name="park")
        self.make(tokens.ROLE, name="s" * 64, tags=tags(50))
        self.make(tokens.POD_IDENTITY, clusterName="c", namespace="n", serviceAccount="s", roleArn=self.bare)
        self.make(tokens.CONFIG_MAP, metadata=meta("taken"))
        self.make(tokens.RELEASE, name="taken", chart="some")
        self.world.sell("g4dn.2xlarge", ["us-east-1b"])

    def filled(self, inputs: Any) -> Any:
        """The inputs with ids of this account instead of names in braces."""
        [root] = [one for one in self.of(tokens.VOLUME) if "instance" in one.inputs]
        ids = {
            "{vpc}": self.vpc,
            "{subnet}": self.subnets[0],
            "{second}": self.subnets[1],
            "{table}": self.table,
            "{gateway}": self.gateway,
            "{detached}": self.detached,
            "{free}": self.free,
            "{far gateway}": self.far_gateway,
            "{far subnet}": self.far_subnet,
            "{address}": self.address,
            "{template}": self.template,
            "{plain}": self.plain,
            "{image}": self.image,
            "{volume}": self.volume_,
            "{root}": root.id,
            "{policy}": self.largest,
            "{role}": self.outputs(tokens.CLUSTER, "c")["roleArn"],
            "{nodes}": self.outputs(tokens.NODE_GROUP, "c:system")["nodeRoleArn"],
            "{bare}": self.bare,
            "{security group}": self.outputs(tokens.CLUSTER, "c")["vpcConfig"]["clusterSecurityGroupId"],
        }
        return rebuilt(inputs, lambda value: ids.get(value, value) if isinstance(value, str) else value)
