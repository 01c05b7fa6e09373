"""A VPC that a stack uses but does not own: facts that AWS reports, and what they mean for cluster and nodes."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from sharing.fit.node_pods import on_system_nodes
from sharing.hardware.system_instances import system_types
from sharing.problems import ASIDE, Problem
from sharing.sections.cluster import FEWEST_ZONES, ZONES_WITHOUT_EKS
from sharing.sections.config import StackConfig
from sharing.sections.existing import ExistingCluster, ExistingVpc

HALVES = ("0.0.0.0/1", "128.0.0.0/1")
"""Of all addresses."""
Way = Literal["internet-gateway", "nat-gateway", "elsewhere", "none"]
"""Where 0.0.0.0/0 leads. `elsewhere` is, for example, a transit gateway: the rest of that way is unknown."""
LEAST_FREE, ADVISED_FREE = 6, 16
"""Free addresses in each subnet of the control plane: what EKS requires, and what it recommends.
Source: EKS user guide, network-reqs, "Subnet requirements for clusters"."""
MORE_SUBNETS = "Add a subnet in one of these to `{path}.node-subnets`"
"""How a stack gets nodes in other zones; `path` is that of its section."""
ENDPOINTS = ("ec2", "ecr.api", "ecr.dkr", "eks-auth", "s3")
"""Services that nodes and Pod Identity need. Source: EKS user guide, private-clusters, "Pod requirements". Nothing here
uses IAM roles for service accounts, which need `sts`."""


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

    exists: bool = True
    dns: Mapping[str, bool] = field(default_factory=dict)
    """Whether `enable-dns-support` and `enable-dns-hostnames` are on."""
    subnets: Mapping[str, Subnet] = field(default_factory=dict)
    """By id. Subnets that AWS does not know are missing."""
    groups: Mapping[str, str] = field(default_factory=dict)
    """The VPC of each security group, by id. Groups that AWS does not know are missing."""
    endpoints: frozenset[str] = frozenset()
    """Services with an endpoint in the VPC, e.g. `ecr.api`; `s3` only if it is a gateway endpoint, as ECR's layers need
    (ECR user guide, vpc-endpoints)."""


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
    has_private_api: bool = True
    """Whether the cluster's API server has an endpoint in the VPC, as those that the stack creates do."""


Route = tuple[str | None, str | None, str | None]
"""Destination of a route (a block of addresses or a prefix list), its gateway, and its NAT gateway."""
Problems = tuple[list[Problem], list[Problem]]
"""Errors and warnings."""


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


def network_around(cluster: ExistingCluster, vpc: str, subnets: Sequence[str], *, has_private_api: bool) -> Network:
    """The section `cluster.existing`, with the VPC and the subnets of that cluster."""
    path = "cluster.existing.node-subnets"
    return Network(
        vpc=vpc,
        path="cluster.existing.name",
        nodes=place_ids(path, cluster.node_subnets) or dict.fromkeys(subnets, path),
        groups=place_ids("cluster.existing.security-groups", cluster.security_groups),
        has_private_api=has_private_api,
    )


def place_ids(path: str, ids: Sequence[str]) -> dict[str, str]:
    """The path of each id of a list."""
    return {id: f"{path}[{index}]" for index, id in enumerate(ids)}


def find_way(routes: Iterable[Route]) -> Way:
    """Where 0.0.0.0/0 leads, by the routes of a subnet."""
    way: Way = "none"
    for to, gateway, nat in routes:
        if to == "0.0.0.0/0":
            internet: Way = "internet-gateway" if (gateway or "").startswith("igw-") else "elsewhere"
            return "nat-gateway" if nat else internet
        # A prefix list may have all addresses, but that of a gateway endpoint has those of its service.
        if (to in HALVES or f"{to}".startswith("pl-")) and not f"{gateway}".startswith("vpce-"):
            way = "elsewhere"
    return way


def judge_network(network: Network, facts: VpcFacts, config: StackConfig, *, deployed_in: str = "") -> Problems:
    """Judges the VPC for the stack. `deployed_in` is the VPC of its cluster if that is deployed.

    A deployed stack has its addresses, so free ones are not counted.
    """
    if deployed_in not in ("", network.vpc):
        rule = f"is not the VPC of the deployed cluster, {deployed_in}, and EKS cannot move a cluster"
        return [Problem(network.path, network.vpc, rule, "Write that id, or run `pulumi destroy` first.")], []
    if not facts.exists:
        return [_unknown("vpcs", network.path, network.vpc, config)], []
    if errors := [*_dns_off(network, facts, config), *_misplaced(network, facts, config)]:
        return errors, []
    least, most = count_addresses(config)
    errors = [*_few_zones(network, facts, config), *_no_way_out(network, facts)]
    warnings = [*_doubtful_ways(network, facts)]
    # In an existing cluster, Karpenter itself runs on nodes of others, whose routes are not known here.
    (errors if network.control_plane else warnings).extend(_no_iam(network, facts, config))
    if not deployed_in:
        errors += _short(network, facts, (LEAST_FREE, "needs"), (least, "need at least"))
        warnings += _short(network, facts, (ADVISED_FREE, "recommends"), (most, "may reserve up to"))
    return (errors, []) if errors else ([], warnings)


def _unknown(kind: str, path: str, id: str, config: StackConfig) -> Problem:
    return Problem(path, f"'{id}'", f"does not exist in {config.region} of this account", _listed(kind, config))


def _listed(kind: str, config: StackConfig) -> str:
    return f"Write an id that `aws ec2 describe-{kind} --region {config.region}` prints."


def _dns_off(network: Network, facts: VpcFacts, config: StackConfig) -> Iterator[Problem]:
    """EKS user guide, network-reqs, "VPC requirements"."""
    for option in (option for option, is_on in facts.dns.items() if not is_on):
        command = f"aws ec2 modify-vpc-attribute --region {config.region} --vpc-id {network.vpc} --{option} Value=true"
        rule = f"has `{option}` off, so nodes cannot join the cluster"
        yield Problem(network.path, network.vpc, rule, f"Run `{command}`.")


def _misplaced(network: Network, facts: VpcFacts, config: StackConfig) -> Iterator[Problem]:
    """Subnets and security groups that do not exist, or in another VPC."""
    homes = {id: subnet.vpc for id, subnet in facts.subnets.items()} | {**facts.groups}
    placed = {"subnets": {**network.nodes, **network.control_plane}, "security-groups": network.groups}
    for kind, ids in placed.items():
        for id, path in ids.items():
            if id not in homes:
                yield _unknown(kind, path, id, config)
            elif homes[id] != network.vpc:
                yield Problem(path, id, f"is in {homes[id]}, not in {network.vpc}", _listed(kind, config))


def _few_zones(network: Network, facts: VpcFacts, config: StackConfig) -> Iterator[Problem]:
    """EKS user guide, network-reqs, "Subnet requirements for clusters"."""
    zones = {facts.subnets[id].zone for id in network.control_plane}
    for id, path in network.control_plane.items():
        subnet = facts.subnets[id]
        # The name of an Availability Zone is that of its region and a letter; local zones have longer names.
        if subnet.zone_id in ZONES_WITHOUT_EKS or len(subnet.zone.removeprefix(config.region)) != 1:
            rule = f"is in {subnet.zone} ({subnet.zone_id}), where EKS has no control plane"
            yield Problem(path, id, rule, "Write a subnet in another zone.")
    if zones and len(zones) < FEWEST_ZONES:
        rule = f"are all in {', '.join(zones)}, and EKS needs two zones"
        yield Problem("cluster.vpc.subnets", "", rule, "Add a subnet in another zone.")


def _no_iam(network: Network, facts: VpcFacts, config: StackConfig) -> Iterator[Problem]:
    """Karpenter creates instance profiles (aws/karpenter-provider-aws#4985)."""
    cut_off = [id for id in network.nodes if facts.subnets[id].way == "none"]
    for pool in config.karpenter_pools[:1] if cut_off else ():
        rule = f"calls IAM, whose only endpoint is in us-east-1, and {cut_off[0]} has no route to the internet"
        yield Problem(f"{pool.path}.provisioner", "karpenter", rule, "Write `provisioner: node-group`.")


def _no_way_out(network: Network, facts: VpcFacts) -> Iterator[Problem]:
    missing = [service for service in ENDPOINTS if service not in facts.endpoints]
    if not network.has_private_api and any(facts.subnets[id].way == "none" for id in network.nodes):
        rule = "has no private endpoint, which nodes without a route to the internet need"
        yield Problem(network.path, "", rule, "Turn on the private access of its endpoint.")
    for id, path in network.nodes.items():
        subnet = facts.subnets[id]
        if subnet.way == "internet-gateway" and not subnet.public_addresses:
            rule = "leads to an internet gateway but assigns no public addresses, so nodes cannot join"
            yield Problem(path, id, rule, "Turn on public addresses for the subnet, or write one behind NAT.")
        elif subnet.way == "none" and missing:
            rule = f"has no route to the internet, and its VPC has no endpoint for {', '.join(missing)}"
            yield Problem(path, id, rule, "Add a route for 0.0.0.0/0 to a NAT gateway, or create these endpoints.")


def _doubtful_ways(network: Network, facts: VpcFacts) -> Iterator[Problem]:
    ways = {path: facts.subnets[id].way for id, path in network.nodes.items()}
    for path in (path for path, way in ways.items() if way == "none"):
        rule = "has no route to the internet, from which the stack takes its images and models"
        yield Problem(path, "", rule, "Set `registry`, and serve the models from a mirror.")
    for path in (path for path, way in ways.items() if way == "elsewhere"):
        rule = "has routes whose way to the internet is not visible here"
        yield Problem(path, "", rule, "Check it if nodes do not join.")
    if "s3" not in facts.endpoints and "nat-gateway" in ways.values():
        rule = "has no gateway endpoint for S3, so image layers from ECR pay for NAT"
        yield Problem(network.path, network.vpc, rule, "Create that endpoint, which is free.")


def _short(network: Network, facts: VpcFacts, each: tuple[int, str], all_: tuple[int, str]) -> Iterator[Problem]:
    """Too few free addresses for the control plane in each of its subnets, and for nodes and pods in all of theirs."""
    for id, path in network.control_plane.items():
        if (free := facts.subnets[id].free) < each[0]:
            rule = f"has {free} free addresses, and EKS {each[1]} {each[0]} for the control plane"
            yield Problem(path, id, rule, "Write a larger subnet.")
    if (free := sum(facts.subnets[id].free for id in network.nodes)) < all_[0]:
        path = next(iter(network.nodes.values())).partition("[")[0]
        rule, fix = f"nodes and pods {all_[1]} {all_[0]}", "Add a subnet with free addresses."
        yield Problem(path, f"{free} free addresses", rule, fix, ASIDE)


def count_addresses(config: StackConfig) -> tuple[int, int]:
    """The least and the most addresses that the planned nodes of `config`, whose types are known, take.

    At least one for each node, model and pod of the system nodes; most other pods use their node's address. At most
    what the nodes' interfaces hold, nearly their limits of pods: the VPC CNI keeps a spare interface on each node
    (amazon-vpc-cni-k8s docs/eni-and-ip-target.md, WARM_ENI_TARGET).
    """
    limits: list[int] = []
    for pool in config.pools:
        limits += config.nodes_of(pool) * [max(kind.max_pods for kind in pool.known_types)]
    pods = len(config.models)
    if config.cluster.existing is None:
        system = config.cluster.system_nodes
        limits += system.count * [max(system_types()[name].max_pods for name in system.instance_types)]
        pods += sum(pod.count for pod in on_system_nodes(config, ()))
    return len(limits) + pods, sum(limits)
