"""A VPC that a stack uses but does not own: facts that AWS reports, and what they mean for cluster and nodes."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from sharing.fit.node_pods import on_system_nodes
from sharing.hardware.system_instances import system_types
from sharing.problems import ASIDE, Problem
from sharing.stack.cluster import FEWEST_ZONES, ZONES_WITHOUT_EKS
from sharing.stack.config import StackConfig
from sharing.stack.existing import ExistingVpc

Way = Literal["internet-gateway", "nat-gateway", "elsewhere", "none"]
"""Where 0.0.0.0/0 leads. `elsewhere` is, for example, a transit gateway: the rest of that way is unknown."""
LEAST_FREE, ADVISED_FREE = 6, 16
"""Free addresses in each subnet of the control plane: what EKS requires, and what it recommends.
Source: EKS user guide, network-reqs, "Subnet requirements for clusters"."""
ENDPOINTS = ("ec2", "ecr.api", "ecr.dkr", "eks-auth", "s3")
"""Services that nodes and Pod Identity need. Source: EKS user guide, private-clusters, "Pod requirements". Nothing here
uses IAM roles for service accounts, which need `sts`."""
KARPENTER_ENDPOINTS = ("eks", "sqs", "ssm")
"""Services that Karpenter needs besides, with Pod Identity: the cluster's address, interruptions, AMIs.
Source: aws/karpenter-provider-aws website/content/en/docs/getting-started/getting-started-with-karpenter/_index.md."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Subnet:
    """A subnet, as AWS describes it."""

    vpc: str
    zone: str
    zone_id: str
    free: int
    """Free addresses."""
    public_addresses: bool
    """Whether instances get public addresses."""
    way: Way


@dataclass(frozen=True, slots=True, kw_only=True)
class VpcFacts:
    """A VPC with subnets and security groups, as AWS describes them."""

    dns_support: bool
    dns_hostnames: bool
    subnets: Mapping[str, Subnet]
    """By id. Subnets that AWS does not know are missing."""
    groups: Mapping[str, str] = field(default_factory=dict)
    """The VPC of each security group, by id. Groups that AWS does not know are missing."""
    endpoints: frozenset[str] = frozenset()
    """Services with an endpoint in the VPC, e.g. `ecr.api`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Network:
    """What a stack file says of the VPC, and where: each mapping has the path of each id."""

    vpc: str
    path: str
    """Path of the VPC's id, or of the cluster that is in it."""
    control_plane: Mapping[str, str] = field(default_factory=dict)
    """Subnets of a control plane that the stack creates."""
    nodes: Mapping[str, str]
    groups: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkVerdict:
    """What would stop the stack, and what is unwise."""

    errors: tuple[Problem, ...] = ()
    warnings: tuple[Problem, ...] = ()


def network_of(vpc: ExistingVpc) -> Network:
    """The section `cluster.vpc`."""
    subnets = place_ids("cluster.vpc.subnets", vpc.subnets)
    return Network(
        vpc=vpc.id,
        path="cluster.vpc.id",
        control_plane=subnets,
        nodes=place_ids("cluster.vpc.node-subnets", vpc.node_subnets) or subnets,
        groups=place_ids("cluster.vpc.security-groups", vpc.security_groups),
    )


def place_ids(path: str, ids: Sequence[str]) -> dict[str, str]:
    """The path of each id of a list."""
    return {id: f"{path}[{index}]" for index, id in enumerate(ids)}


def judge_network(
    network: Network, facts: VpcFacts | None, config: StackConfig, *, deployed: bool = False
) -> NetworkVerdict:
    """Judges the VPC for the stack. `facts` are None if AWS does not know the VPC.

    A deployed stack has its addresses, so free ones are not counted.
    """
    if facts is None:
        rule, fix = f"does not exist in {config.region} of this account", _listed("vpcs", config)
        return NetworkVerdict(errors=(Problem(network.path, f"'{network.vpc}'", rule, fix),))
    errors = [*_dns_off(network, facts, config), *_misplaced(network, facts, config)]
    if not errors:
        errors += [*_few_zones(network, facts, config), *_no_way_out(network, facts, config)]
        errors += () if deployed else _too_few_addresses(network, facts, config)
    if errors:
        return NetworkVerdict(errors=tuple(errors))
    few = () if deployed else _few_addresses(network, facts, config)
    return NetworkVerdict(warnings=(*_doubtful_ways(network, facts), *few))


def _listed(kind: str, config: StackConfig) -> str:
    return f"Write an id that `aws ec2 describe-{kind} --region {config.region}` prints."


def _dns_off(network: Network, facts: VpcFacts, config: StackConfig) -> Iterator[Problem]:
    """Without either, nodes cannot join (EKS user guide, network-reqs, "VPC requirements")."""
    settings = {"enable-dns-support": facts.dns_support, "enable-dns-hostnames": facts.dns_hostnames}
    for option in (option for option, on in settings.items() if not on):
        command = f"aws ec2 modify-vpc-attribute --region {config.region} --vpc-id {network.vpc} --{option} Value=true"
        rule = f"has `{option}` off, so nodes cannot join the cluster"
        yield Problem(network.path, network.vpc, rule, f"Run `{command}`.")


def _misplaced(network: Network, facts: VpcFacts, config: StackConfig) -> Iterator[Problem]:
    """Subnets and security groups that do not exist, or in another VPC."""
    homes = {id: subnet.vpc for id, subnet in facts.subnets.items()}
    for kind, placed, vpcs in (
        ("subnets", {**network.nodes, **network.control_plane}, homes),
        ("security-groups", network.groups, facts.groups),
    ):
        for id, path in placed.items():
            if id not in vpcs:
                rule = f"does not exist in {config.region} of this account"
                yield Problem(path, f"'{id}'", rule, _listed(kind, config))
            elif vpcs[id] != network.vpc:
                yield Problem(path, id, f"is in {vpcs[id]}, not in {network.vpc}", _listed(kind, config))


def _few_zones(network: Network, facts: VpcFacts, config: StackConfig) -> Iterator[Problem]:
    """EKS user guide, network-reqs, "Subnet requirements for clusters"."""
    zones = dict.fromkeys(facts.subnets[id].zone for id in network.control_plane)
    for id, path in network.control_plane.items():
        subnet = facts.subnets[id]
        # The name of an Availability Zone is that of its region and a letter; local zones have longer names.
        if subnet.zone_id in ZONES_WITHOUT_EKS or len(subnet.zone.removeprefix(config.region)) != 1:
            rule = f"is in {subnet.zone} ({subnet.zone_id}), where EKS has no control plane"
            yield Problem(path, id, rule, "Write a subnet in another zone.")
    if zones and len(zones) < FEWEST_ZONES:
        rule = f"are all in {', '.join(zones)}, and EKS needs two zones"
        yield Problem("cluster.vpc.subnets", "", rule, "Add a subnet in another zone.")


def _endpoints(config: StackConfig) -> list[str]:
    """Services that a stack without internet needs."""
    has_karpenter = any(pool.provisioner == "karpenter" for pool in config.pools)
    return [*ENDPOINTS, *(KARPENTER_ENDPOINTS if has_karpenter else ())]


def _no_way_out(network: Network, facts: VpcFacts, config: StackConfig) -> Iterator[Problem]:
    missing = [service for service in _endpoints(config) if service not in facts.endpoints]
    for id, path in network.nodes.items():
        subnet = facts.subnets[id]
        if subnet.way == "internet-gateway" and not subnet.public_addresses:
            rule = "leads to an internet gateway but assigns no public addresses, so nodes cannot join"
            yield Problem(path, id, rule, "Turn on public addresses for the subnet, or write one behind NAT.")
        elif subnet.way == "none" and missing:
            rule = f"has no route to the internet, and its VPC has no endpoint for {', '.join(missing)}"
            yield Problem(path, id, rule, "Add a route for 0.0.0.0/0 to a NAT gateway, or create these endpoints.")


def _doubtful_ways(network: Network, facts: VpcFacts) -> Iterator[Problem]:
    for id, path in network.nodes.items():
        way = facts.subnets[id].way
        if way == "none":
            rule = "has no route to the internet, from which the stack takes its images and models"
            yield Problem(path, id, rule, "Set `registry`, and serve the models from a mirror.")
        elif way == "elsewhere":
            rule = "leads out through a gateway whose way to the internet is not visible here"
            yield Problem(path, id, rule, "Check it if nodes do not join.")
    if "s3" not in facts.endpoints and any(facts.subnets[id].way == "nat-gateway" for id in network.nodes):
        rule = "has no gateway endpoint for S3, so image layers from ECR pay for NAT"
        yield Problem(network.path, network.vpc, rule, "Create that endpoint, which is free.")


def _too_few_addresses(network: Network, facts: VpcFacts, config: StackConfig) -> Iterator[Problem]:
    for id, path in network.control_plane.items():
        if (free := facts.subnets[id].free) < LEAST_FREE:
            rule = f"has {free} free addresses, and EKS needs {LEAST_FREE} in each subnet of the control plane"
            yield Problem(path, id, rule, "Write a larger subnet.")
    least = count_addresses(config).least
    if (free := sum(facts.subnets[id].free for id in network.nodes)) < least:
        yield _short(network, f"nodes and pods need at least {least}", free)


def _few_addresses(network: Network, facts: VpcFacts, config: StackConfig) -> Iterator[Problem]:
    for id, path in network.control_plane.items():
        if (free := facts.subnets[id].free) < ADVISED_FREE:
            rule = f"has {free} free addresses, and EKS recommends {ADVISED_FREE} for upgrades of the control plane"
            yield Problem(path, id, rule, "Write a larger subnet.")
    most = count_addresses(config).most
    if (free := sum(facts.subnets[id].free for id in network.nodes)) < most:
        yield _short(network, f"the network plugin may reserve {most}, because it keeps spare interfaces", free)


def _short(network: Network, rule: str, free: int) -> Problem:
    path = next(iter(network.nodes.values())).partition("[")[0]
    return Problem(path, f"{free} free addresses", rule, "Add a subnet with free addresses.", ASIDE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Addresses:
    """Addresses that a stack takes from its nodes' subnets."""

    least: int
    """One for each node, model and pod of the system nodes. Most other pods use their node's address."""
    most: int
    """As many as the nodes' interfaces hold: the VPC CNI keeps an entire spare interface on each node.
    Source: amazon-vpc-cni-k8s docs/eni-and-ip-target.md, WARM_ENI_TARGET. It is nearly a node's limit of pods."""


def count_addresses(config: StackConfig) -> Addresses:
    """The addresses that `config`, all of whose types are known, needs for its planned nodes."""
    limits = [
        max(kind.max_pods for kind in pool.known_types) for pool in config.pools for _ in range(config.nodes_of(pool))
    ]
    pods = len(config.models)
    if config.cluster.existing is None:
        system = config.cluster.system_nodes
        limits += system.count * [max(system_types()[name].max_pods for name in system.instance_types)]
        pods += sum(pod.count for pod in on_system_nodes(config, ()))
    return Addresses(least=len(limits) + pods, most=sum(limits))
