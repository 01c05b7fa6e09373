"""Asks AWS about a VPC that the stack does not own, before anything is registered."""

import re
from collections.abc import Callable
from typing import Any

import pulumi
import pulumi_aws as aws

from sharing.existing import vpc as rules
from sharing.existing.vpc import Network, VpcFacts, Way
from sharing.names import cluster_name
from sharing.printable import quoted
from sharing.problems import format_errors
from sharing.sections.config import StackConfig
from stacks.stack_file.judge import Plan

ABSENT, SEVERAL = "no matching EC2", "multiple EC2"
"""The provider's words for no and several matches (terraform-provider-aws, internal/tfresource/not_found_error.go)."""
DENIED = re.compile(r"UnauthorizedOperation|is not authorized to perform")
Ask = Callable[..., Any]


def check_vpc(plan: Plan, options: pulumi.InvokeOptions) -> None:
    """Logs warnings about `cluster.vpc`. Raises `pulumi.RunError` with every reason why the stack cannot run there."""
    if plan.config.cluster.vpc is None:
        return
    network, name = rules.network_of(plan.config.cluster.vpc), cluster_name(plan.stack)
    if (facts := read_vpc(network, plan.config, options)) is None:
        return
    # A list, because describing a missing cluster fails.
    is_deployed = name in (aws.eks.get_clusters(opts=options).names or ())
    home = aws.eks.get_cluster(name=name, opts=options).vpc_config.vpc_id if is_deployed else ""
    errors, warnings = rules.judge_network(network, facts, plan.config, deployed_in=home)
    if errors:
        lines = format_errors(f"Pulumi.{plan.stack}.yaml", errors)
        raise pulumi.RunError("\n".join(lines).removeprefix("error: "))
    for warning in warnings:
        pulumi.log.warn(str(warning))


def read_vpc(network: Network, config: StackConfig, options: pulumi.InvokeOptions) -> VpcFacts | None:
    """What AWS says of the network; None if mocks answer nothing.

    Raises `pulumi.RunError` if the caller may not ask, or AWS does not answer.
    """

    def ask(function: Ask, **args: Any) -> Any:
        """The answer; None for no match, True for several."""
        try:
            return function(**args, opts=options)
        except Exception as error:  # the SDK raises no narrower one for a function that fails
            said = str(error)
            if ABSENT in said or SEVERAL in said:
                return SEVERAL in said or None
            reason, fix = f"AWS does not describe it: {quoted(said)}", "Check the region, and try again."
            if DENIED.search(said):
                action = re.search(r"perform: (\w+:\w+)", said)
                reason = f"these AWS credentials may not call {action[1] if action else 'one of `ec2:Describe*`'}"
                fix = "Allow that action."
            raise pulumi.RunError(f"{network.path}: {reason}. {fix}") from None

    vpc = ask(aws.ec2.get_vpc, id=network.vpc)
    if vpc is None:
        return VpcFacts(exists=False)
    if not vpc.id:
        return None
    ways = _find_ways(ask, network, vpc.main_route_table_id)
    subnets = {id: ask(aws.ec2.get_subnet, id=id) for id in {**network.control_plane, **network.nodes}}
    groups = {id: ask(aws.ec2.get_security_group, id=id) for id in network.groups}
    wanted = rules.ENDPOINTS if "none" in ways.values() else ("s3",)
    return VpcFacts(
        dns={"enable-dns-support": vpc.enable_dns_support, "enable-dns-hostnames": vpc.enable_dns_hostnames},
        subnets={
            id: rules.Subnet(
                vpc=one.vpc_id,
                zone=one.availability_zone,
                zone_id=one.availability_zone_id,
                free=one.available_ip_address_count,
                public_addresses=one.map_public_ip_on_launch,
                way=ways.get(id, "none"),
            )
            for id, one in subnets.items()
            if one
        },
        groups={id: one.vpc_id for id, one in groups.items() if one},
        endpoints=frozenset(service for service in wanted if _endpoint(ask, network, service, config.region)),
    )


def _find_ways(ask: Ask, network: Network, main: str) -> dict[str, Way]:
    """Where the nodes' subnets lead: by their route tables, or else by the main one."""
    filters = [aws.ec2.GetRouteTablesFilterArgs(name="association.subnet-id", values=[*network.nodes])]
    ways: dict[str, Way] = {}
    for id in dict.fromkeys([main, *ask(aws.ec2.get_route_tables, vpc_id=network.vpc, filters=filters).ids]):
        table = ask(aws.ec2.get_route_table, route_table_id=id)
        way = rules.find_way(
            (one.cidr_block or one.destination_prefix_list_id, one.gateway_id, one.nat_gateway_id)
            for one in table.routes
        )
        ways |= dict.fromkeys(network.nodes if id == main else [one.subnet_id for one in table.associations], way)
    # The provider leaves out routes that a VPN gateway propagates (terraform-provider-aws,
    # internal/service/ec2/vpc_route_table_data_source.go).
    if "none" in ways.values() and ask(aws.ec2.get_vpn_gateway, attached_vpc_id=network.vpc):
        return {id: "elsewhere" if way == "none" else way for id, way in ways.items()}
    return ways


def _endpoint(ask: Ask, network: Network, service: str, region: str) -> Any:
    # Services in China have names of either form.
    names = [f"{prefix}com.amazonaws.{region}.{service}" for prefix in ("", "cn.")]
    filters = [aws.ec2.GetVpcEndpointFilterArgs(name="service-name", values=names)]
    if service == "s3":
        filters.append(aws.ec2.GetVpcEndpointFilterArgs(name="vpc-endpoint-type", values=["Gateway"]))
    return ask(aws.ec2.get_vpc_endpoint, vpc_id=network.vpc, filters=filters)
