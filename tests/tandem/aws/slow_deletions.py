"""Deletions that take AWS minutes, which moto finishes at once."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from moto.ec2.models import ec2_backends
from moto.eks.models import eks_backends

from tests.tandem.aws.emulated import ACCOUNT, REGION, Emulated, answer, error

CHANGES = ("Delete", "Detach", "Terminate", "Release", "Remove", "Disassociate")
"""Prefixes of the calls that change something."""
Asked = dict[str, Any]
Finish = Callable[[], object]


@dataclass
class Delays:
    """Answers calls that begin a slow deletion, and finishes it later. A test that needs it sets `Emulated.slow`."""

    emulated: Emulated
    now: Callable[[], float]
    seconds: float = 45.0
    """How long a deletion takes."""
    _begun: set[tuple[str, str]] = field(default_factory=set)
    _due: list[tuple[float, Finish]] = field(default_factory=list)

    def __call__(self, call: str, asked: Asked) -> Any:
        """AWS's answer, or None if moto's is right."""
        for due in [due for due in self._due if due[0] <= self.now()]:
            self._due.remove(due)
            due[1]()
        begin = getattr(self, f"_{call}", None)
        if begin is None:
            return None
        if (call, repr(asked)) in self._begun:
            # EC2 accepts the call again. The EKS API reference does not say whether EKS does.
            eks = call in ("DeleteNodegroup", "DeleteCluster", "DeleteAddon")
            return error(409, "ResourceInUseException", "it is being deleted") if eks else answer()
        self._begun.add((call, repr(asked)))
        self._due += [(self.now() + self.seconds, finish) for finish in begin(asked)]
        return answer()

    def _DeleteNodegroup(self, asked: Asked) -> Iterator[Finish]:
        eks, ec2 = _backends()
        cluster, name = asked["clusterName"], asked["nodegroupName"]
        eks.clusters[cluster].nodegroups[name].status = "DELETING"

        def finish() -> None:
            for instance in [each for reservation in ec2.reservations.values() for each in reservation.instances]:
                tags = {tag["key"]: tag["value"] for tag in instance.get_tags()}
                if (tags.get("eks:cluster-name"), tags.get("eks:nodegroup-name")) == (cluster, name):
                    _terminate(instance.id)
            eks.delete_nodegroup(cluster, name)

        yield finish

    def _DeleteCluster(self, asked: Asked) -> Iterator[Finish]:
        eks, ec2 = _backends()
        eks.clusters[asked["name"]].status = "DELETING"

        def finish() -> None:
            eks.delete_cluster(asked["name"])
            for key in [key for key in self.emulated.addons if key[0] == asked["name"]]:
                del self.emulated.addons[key]
            # The interfaces of the control plane (userguide/eks-networking.html).
            for each in [each for each in ec2.enis.values() if each.description == f"Amazon EKS {asked['name']}"]:
                ec2.delete_network_interface(each.id)

        yield finish

    def _DeleteAddon(self, asked: Asked) -> Iterator[Finish]:
        key = (asked["clusterName"], asked["addonName"])
        self.emulated.addon_status[key[1]] = "DELETING"
        yield lambda: self.emulated.addons.pop(key, None)

    def _TerminateInstances(self, asked: Asked) -> Iterator[Finish]:
        _, ec2 = _backends()
        for id in asked["InstanceIds"]:
            instance = ec2.get_instance(id)
            instance._state.name, instance._state.code = "shutting-down", 32
            yield lambda id=id: _terminate(id)  # type: ignore[misc]

    def _DeleteNatGateway(self, asked: Asked) -> Iterator[Finish]:
        _, ec2 = _backends()
        nat = ec2.nat_gateways[asked["NatGatewayId"]]
        nat.state = "deleting"

        def finish() -> None:
            nat.state = "deleted"
            for address in ec2.addresses:
                if address.eni is nat._eni:
                    address.eni = None
            ec2.delete_network_interface(nat._eni.id)

        yield finish

    def _DeleteVpcEndpoints(self, asked: Asked) -> Iterator[Finish]:
        _, ec2 = _backends()
        for id in asked["VpcEndpointIds"]:
            ec2.vpc_end_points[id].state = "deleting"
            yield lambda id=id: ec2.delete_vpc_endpoints([id])  # type: ignore[misc]


def _backends() -> tuple[Any, Any]:
    return eks_backends[ACCOUNT][REGION], ec2_backends[ACCOUNT][REGION]


def _terminate(id: str) -> None:
    """As in EC2, the first interface is deleted with the instance and others stay (DeleteOnTermination)."""
    _, ec2 = _backends()
    instance = ec2.get_instance(id)
    instance.terminate()
    ec2.enis.pop(instance.nics[0].id, None)
