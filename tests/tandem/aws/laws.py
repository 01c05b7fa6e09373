"""AWS's behaviour that moto lacks: it refuses wrong orders, deletions break dependents, and they take time.

Calls are judged by the rules of the emulated cloud, `sandbox.world.RULES`. The rows of `HARMS` are deletions that AWS
allows although another resource needs the deleted one; here the resource stays, and the harm is recorded.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from moto.ec2.models import ec2_backends
from moto.eks.models import eks_backends

from sandbox.world import RULES, tokens
from sandbox.world.entities import Entities, Entity
from sandbox.world.rules import eks as eks_rules
from sandbox.world.rules.rule import Case, refusal
from tests.tandem.aws.as_entities import entities
from tests.tandem.aws.emulated import ACCOUNT, CLUSTER_LOGS, REGION, Emulated, answer, error

ISSUE = "https://docs.aws.amazon.com/eks/latest/APIReference/API_Issue.html"
CHANGES = ("Delete", "Detach", "Terminate", "Release", "Remove", "Disassociate")
"""Prefixes of the calls that change something."""
Asked = dict[str, Any]


DELETIONS = {
    "DeleteVpc": (tokens.VPC, "VpcId"),
    "DeleteSubnet": (tokens.SUBNET, "SubnetId"),
    "DetachInternetGateway": (tokens.GATEWAY, "InternetGatewayId"),
    "ReleaseAddress": (tokens.ADDRESS, "AllocationId"),
    "DeleteRouteTable": (tokens.ROUTE_TABLE, "RouteTableId"),
    "DeleteSecurityGroup": (tokens.SECURITY_GROUP, "GroupId"),
    "DeleteVolume": (tokens.VOLUME, "VolumeId"),
    "DeleteCluster": (tokens.CLUSTER, "name"),
    "DeleteRole": (tokens.ROLE, "RoleName"),
    "DeletePolicy": (tokens.POLICY, "PolicyArn"),
}
"""Calls that the emulated cloud's rules judge: the resource's type, and the argument that names it."""


Finds = Callable[[Entities, Entities, Asked], str | None]
"""Takes all entities, the visible ones, and a call's arguments; returns the id of the resource that the call breaks."""


def last(text: str) -> str:
    """The name at the end of an ARN or of a queue's URL."""
    return re.split("[/:]", text)[-1]


def _used_by(type: str, key: str, named: str, *, arn: bool = False) -> Finds:
    def find(all: Entities, seen: Entities, asked: Asked) -> str | None:
        for one in seen.of(type):
            found = str(one.inputs.get(key))
            if (last(found) if arn else found) == (last(asked[named]) if arn else asked[named]):
                return one.id
        return None

    return find


def _group_of(all: Entities, seen: Entities, asked: Asked) -> str | None:
    groups = [one.inputs["group"] for one in all.of(tokens.INSTANCE) if one.id in asked["InstanceIds"]]
    return next((group for group in groups if seen.get(tokens.NODE_GROUP, group)), None)


def _writer(all: Entities, seen: Entities, asked: Asked) -> str | None:
    names = [one.id for one in seen.of(tokens.CLUSTER)]
    return next((name for name in names if asked["logGroupName"] == CLUSTER_LOGS.format(name)), None)


def _cut_off(without: str, named: str) -> Finds:
    """A node group whose nodes reach the internet only through the resource."""

    def find(all: Entities, seen: Entities, asked: Asked) -> str | None:
        rest = Entities([one for one in all if one.key != (without, asked[named])])
        for group in seen.of(tokens.NODE_GROUP):
            for subnet in group.inputs["subnetIds"]:
                if eks_rules.cut_off(all, subnet) is None and eks_rules.cut_off(rest, subnet) is not None:
                    return group.id
        return None

    return find


def _attached(all: Entities, seen: Entities, asked: Asked) -> str | None:
    found = seen.get(tokens.INTERFACE, asked["NetworkInterfaceId"])
    return found.inputs["instance"] if found else None


HARMS: tuple[tuple[str, str, Finds], ...] = (
    ("TerminateInstances", "its Auto Scaling group starts another one", _group_of),
    (
        "DeleteLaunchTemplate",
        f"Ec2LaunchTemplateNotFound, {ISSUE}",
        _used_by(tokens.NODE_GROUP, "launchTemplate", "LaunchTemplateId"),
    ),
    ("DeleteRole", f"IamNodeRoleNotFound, {ISSUE}", _used_by(tokens.NODE_GROUP, "nodeRoleArn", "RoleName", arn=True)),
    ("DeleteRole", "IamRoleNotFound, API_ClusterIssue.html", _used_by(tokens.CLUSTER, "roleArn", "RoleName", arn=True)),
    (
        "DeleteRole",
        "the schedule cannot assume it, scheduler/latest/UserGuide/setting-up.html",
        _used_by(tokens.SCHEDULE, "role", "RoleName", arn=True),
    ),
    (
        "DeleteQueue",
        "InvocationsFailedToBeSentToDeadLetterCount, scheduler/latest/UserGuide/monitoring-cloudwatch.html",
        _used_by(tokens.SCHEDULE, "queue", "QueueUrl", arn=True),
    ),
    (
        "DeleteQueue",
        "FailedInvocations, eventbridge/latest/userguide/eb-monitoring.html",
        _used_by(tokens.EVENT_TARGET, "queue", "QueueUrl", arn=True),
    ),
    (
        "RemoveRoleFromInstanceProfile",
        "breaks applications, API_DeleteInstanceProfile.html",
        _used_by(tokens.INSTANCE, "profile", "InstanceProfileName"),
    ),
    ("DeleteLogGroup", "EKS creates it again, terraform-aws-modules/terraform-aws-eks#920", _writer),
    ("DeleteNatGateway", f"NodeCreationFailure, {ISSUE}", _cut_off(tokens.NAT, "NatGatewayId")),
    ("DisassociateRouteTable", f"NodeCreationFailure, {ISSUE}", _cut_off(tokens.ASSOCIATION, "AssociationId")),
    ("DetachInternetGateway", f"NodeCreationFailure, {ISSUE}", _cut_off(tokens.GATEWAY, "InternetGatewayId")),
    # AWS refuses this. The emulated cloud has no rule for it, because it deletes interfaces with their owners.
    ("DeleteNetworkInterface", "InvalidNetworkInterface.InUse, errors-overview.html", _attached),
)
"""Calls that AWS allows, the harm in AWS's words, and a function that finds the broken resource."""


def _terminate(id: str) -> None:
    """As in EC2, the first interface is deleted with the instance and others stay (DeleteOnTermination)."""
    ec2 = ec2_backends[ACCOUNT][REGION]
    instance = ec2.get_instance(id)
    instance.terminate()
    ec2.enis.pop(instance.nics[0].id, None)


@dataclass
class Laws:
    """AWS's refusals, harms and delays, applied before moto answers. A test that needs them sets `Emulated.laws`."""

    emulated: Emulated
    now: Callable[[], float]
    seconds: float = 45.0
    """How long a slow deletion takes."""
    seen: Callable[[Entity], bool] = lambda one: True
    """Which resources may cause a refusal or a harm."""
    dry: bool = False
    """Whether a deletion that is neither refused nor harmful does nothing at all."""
    refused: list[str] = field(default_factory=list)
    harmed: list[str] = field(default_factory=list)
    _begun: set[tuple[str, str]] = field(default_factory=set)
    _due: list[tuple[float, Callable[[], object]]] = field(default_factory=list)

    def __call__(self, call: str, asked: Asked) -> Any:
        """AWS's answer, or None if moto's is right."""
        for one in [one for one in self._due if one[0] <= self.now()]:
            self._due.remove(one)
            one[1]()
        if not call.startswith(CHANGES):
            return None
        all = entities()
        judged = self._judge(call, asked, all)
        if judged is not None:
            self.refused.append(f"{call}: {judged.code}: {judged.message}")
            return error(400, judged.code, judged.message)
        seen = Entities([one for one in all if self.seen(one)])
        for harmful, says, find in HARMS:
            if harmful == call and (user := find(all, seen, asked)):
                self.harmed.append(f"{call}: {says} ({user})")
                return answer()
        return answer() if self.dry else self._begin(call, asked)

    def _judge(self, call: str, asked: Asked, all: Entities) -> Any:
        if call not in DELETIONS:
            return None
        type, named = DELETIONS[call]
        found = all.get(type, asked[named])
        if found is None:
            return None
        # The VPC of a NAT gateway is found through its subnet.
        context = (tokens.SUBNET,) if type == tokens.GATEWAY else ()
        seen = Entities([one for one in all if self.seen(one) or one is found or one.type in context])
        if type == tokens.VOLUME and seen.get(tokens.INSTANCE, found.inputs["instance"]) is None:
            found.inputs["instance"] = None
        case = Case(entities=seen, type=type, name=found.id, inputs=found.inputs, id=found.id, entity=found)
        refused = refusal(RULES, "delete", case)
        return refused and refused[1]

    def _begin(self, call: str, asked: Asked) -> Any:
        """Starts a deletion that takes AWS minutes; returns None for other calls."""
        begin = getattr(self, f"_{call}", None)
        if begin is None:
            return None
        if (call, repr(asked)) in self._begun:
            # EC2 accepts the call again. The EKS API reference does not say whether EKS does.
            eks = call in ("DeleteNodegroup", "DeleteCluster", "DeleteAddon")
            return error(409, "ResourceInUseException", "it is being deleted") if eks else answer()
        self._begun.add((call, repr(asked)))
        for finish in begin(asked):
            self._due.append((self.now() + self.seconds, finish))
        return answer()

    def _DeleteNodegroup(self, asked: Asked) -> Iterator[Callable[[], object]]:
        eks = eks_backends[ACCOUNT][REGION]
        cluster, name = asked["clusterName"], asked["nodegroupName"]
        eks.clusters[cluster].nodegroups[name].status = "DELETING"

        def finish() -> None:
            for one in entities().of(tokens.INSTANCE):
                if one.inputs["group"] == f"{cluster}/{name}":
                    _terminate(one.id)
            eks.delete_nodegroup(cluster, name)

        yield finish

    def _DeleteCluster(self, asked: Asked) -> Iterator[Callable[[], object]]:
        eks, ec2 = eks_backends[ACCOUNT][REGION], ec2_backends[ACCOUNT][REGION]
        eks.clusters[asked["name"]].status = "DELETING"

        def finish() -> None:
            eks.delete_cluster(asked["name"])
            for key in [key for key in self.emulated.addons if key[0] == asked["name"]]:
                del self.emulated.addons[key]
            # The interfaces of the control plane (userguide/eks-networking.html).
            for one in [one for one in ec2.enis.values() if one.description == f"Amazon EKS {asked['name']}"]:
                ec2.delete_network_interface(one.id)

        yield finish

    def _DeleteAddon(self, asked: Asked) -> Iterator[Callable[[], object]]:
        key = (asked["clusterName"], asked["addonName"])
        self.emulated.addon_status[key[1]] = "DELETING"
        yield lambda: self.emulated.addons.pop(key, None)

    def _TerminateInstances(self, asked: Asked) -> Iterator[Callable[[], object]]:
        for id in asked["InstanceIds"]:
            instance = ec2_backends[ACCOUNT][REGION].get_instance(id)
            instance._state.name, instance._state.code = "shutting-down", 32
            yield lambda id=id: _terminate(id)  # type: ignore[misc]

    def _DeleteNatGateway(self, asked: Asked) -> Iterator[Callable[[], object]]:
        ec2 = ec2_backends[ACCOUNT][REGION]
        nat = ec2.nat_gateways[asked["NatGatewayId"]]
        nat.state = "deleting"

        def finish() -> None:
            nat.state = "deleted"
            for address in ec2.addresses:
                if address.eni is nat._eni:
                    address.eni = None
            ec2.delete_network_interface(nat._eni.id)

        yield finish

    def _DeleteVpcEndpoints(self, asked: Asked) -> Iterator[Callable[[], object]]:
        ec2 = ec2_backends[ACCOUNT][REGION]
        for id in asked["VpcEndpointIds"]:
            ec2.vpc_end_points[id].state = "deleting"
            yield lambda id=id: ec2.delete_vpc_endpoints([id])  # type: ignore[misc]
