"""Stacks in a VPC that they do not own: what they register, and what they refuse before they register anything."""

from collections.abc import Callable, Mapping
from typing import Any

import grpc  # type: ignore[import-untyped]
import pulumi
import pytest

from sandbox.cloud.answers import Cloud
from sandbox.cloud.aws.offers import offerings
from sandbox.cloud.protocol import Created, Creation, Question, Values
from sandbox.graph import Graph, plain
from sandbox.preview.program import run
from sandbox.world import CloudError, tokens
from sandbox.world.entities import Entities, Entity
from sandbox.world.foreign import found_vpc
from sandbox.world.providers import networks
from sharing.names import PROJECT
from stacks.deploy import deploy
from tests.program.conftest import StrictCloud, judge_with

VPC, SUBNETS, GROUP = "vpc-0a1b2c3d", ["subnet-0000000a", "subnet-0000000b"], "sg-0a1b2c3d"
GIVEN = {"id": VPC, "subnets": SUBNETS, "node-subnets": ["subnet-0000000c", "subnet-0000000d"]}
NODE_CLASS = "kubernetes:karpenter.k8s.aws/v1:EC2NodeClass"
Change = Callable[[Entities], object]


class Refusal(grpc.RpcError):  # type: ignore[misc]  # grpc has no types
    """An error as the engine passes it on."""

    def code(self) -> grpc.StatusCode:
        return grpc.StatusCode.UNKNOWN

    def details(self) -> str:
        return str(self)


def graph_of(
    stack: str,
    vpc: Mapping[str, Any],
    change: Change = lambda entities: None,
    answers: Mapping[str, Any] | None = None,
) -> Graph:
    """The stack in that VPC, in which everything is right except for the change."""
    plan = judge_with(stack, {"cluster": {"public-access-cidrs": ["192.0.2.1/32"], "vpc": dict(vpc)}}).plan()
    entities = Entities()
    assert plan.config.cluster.vpc
    found_vpc(entities, plan.config.region, plan.config.cluster.vpc)
    change(entities)

    def answer(question: Question) -> Values:
        try:
            return networks.answer(entities, question) or {}
        except CloudError as error:
            raise Refusal(error) from None

    cloud = StrictCloud(answers={**dict.fromkeys(networks.ANSWERS, answer), **(answers or {})})
    return run(lambda: deploy(plan), project=PROJECT, stack=plan.stack, cloud=cloud)


def inputs_of(graph: Graph, name: str) -> Any:
    return plain(graph.named(name).inputs)


def entity(entities: Entities, token: str, id: str = "") -> Entity:
    found = entities.get(token, id) if id else entities.of(token)[0]
    assert found
    return found


@pytest.mark.parametrize("stack", ["timeslice", "karpenter"])
def test_nothing_of_the_network_is_registered(stack: str) -> None:
    kinds = {resource.type for resource in graph_of(stack, GIVEN) if resource.type.startswith("aws:ec2/")}
    assert kinds == {tokens.TEMPLATE}


@pytest.mark.real_world(
    behaviour="EKS adds the cluster's security group only to nodes whose launch template has no security group",
    source="EKS user guide, launch-templates.html#launch-template-security-groups",
)
def test_nodes_have_the_clusters_security_group_and_yours() -> None:
    graph = graph_of("timeslice", {**GIVEN, "security-groups": [GROUP]})
    cluster = graph.named("tandem-cluster-eksCluster").outputs["vpcConfig"]["clusterSecurityGroupId"]
    for name in ("tandem-system-template", "tandem-gpu-group-template"):
        assert inputs_of(graph, name)["vpcSecurityGroupIds"] == [cluster, GROUP]
    without = graph_of("timeslice", GIVEN)
    assert "vpcSecurityGroupIds" not in inputs_of(without, "tandem-gpu-group-template")


def test_the_control_plane_and_nodes_are_in_their_subnets() -> None:
    graph = graph_of("timeslice", GIVEN)
    assert inputs_of(graph, "tandem-cluster")["subnetIds"] == SUBNETS
    assert inputs_of(graph, "tandem-cluster")["vpcId"] == VPC
    for group in ("tandem-system", "tandem-gpu-group"):
        assert inputs_of(graph, group)["subnetIds"] == GIVEN["node-subnets"]
    assert inputs_of(graph, "tandem-gpu-group")["tags"]["tandem:zones"] == "us-east-1a us-east-1b"


def test_nodes_use_every_subnet_of_a_zone() -> None:
    three = ["subnet-0000000a", "subnet-0000000b", "subnet-0000000c"]
    graph = graph_of("timeslice", {"id": VPC, "subnets": three})
    # The third is in the zone of the first.
    assert inputs_of(graph, "tandem-gpu-group")["subnetIds"] == three
    assert inputs_of(graph, "tandem-gpu-group")["tags"]["tandem:zones"] == "us-east-1a us-east-1b"


def test_karpenter_selects_subnets_and_security_groups_by_id() -> None:
    graph = graph_of("karpenter", {**GIVEN, "security-groups": [GROUP]})
    cluster = graph.named("tandem-cluster-eksCluster").outputs["vpcConfig"]["clusterSecurityGroupId"]
    [node_class] = graph.of_type(NODE_CLASS)
    spec = plain(node_class.inputs)["spec"]
    assert spec["subnetSelectorTerms"] == [{"id": id} for id in GIVEN["node-subnets"]]
    assert spec["securityGroupSelectorTerms"] == [{"id": cluster}, {"id": GROUP}]


def test_a_type_that_no_zone_of_the_subnets_sells_is_refused() -> None:
    token = "aws:ec2/getInstanceTypeOfferings:getInstanceTypeOfferings"
    own = {"g4dn.xlarge": ["us-east-1f"], "g4dn.2xlarge": ["us-east-1f"]}
    with pytest.raises(pulumi.RunError) as refused:
        graph_of("timeslice", GIVEN, answers={token: lambda question: offerings(question, own)})
    assert (
        "sells g4dn.xlarge, g4dn.2xlarge. Add a subnet in one of these to `cluster.vpc.node-subnets`: us-east-1f."
        in str(refused.value)
    )


def refuse(code: str, message: str) -> Callable[[Question], Values]:
    def answer(question: Question) -> Values:
        raise Refusal(CloudError(code, message))

    return answer


def without(token: str, id: str = "") -> Change:
    return lambda entities: entities.remove(entity(entities, token, id))


def having(token: str, *ids: str, **values: Any) -> Change:
    def change(entities: Entities) -> None:
        for id in ids or ("",):
            found = entity(entities, token, id)
            found.inputs.update(values)
            found.outputs.update(values)

    return change


def on_the_main_table(entities: Entities) -> None:
    """Which has no route to the internet."""
    [association] = entities.having(tokens.ASSOCIATION, subnetId="subnet-0000000d")
    entities.remove(association)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (without(tokens.VPC), f"id: '{VPC}' does not exist in us-east-1"),
        (without(tokens.SUBNET, "subnet-0000000a"), "subnets[0]: 'subnet-0000000a' does not exist in us-east-1"),
        (
            having(tokens.SUBNET, "subnet-0000000d", vpcId="vpc-0000beef"),
            f"node-subnets[1]: subnet-0000000d is in vpc-0000beef, not in {VPC}.",
        ),
        (without(tokens.SECURITY_GROUP), f"security-groups[0]: '{GROUP}' does not exist in us-east-1"),
        (having(tokens.SECURITY_GROUP, vpcId="vpc-0000beef"), f"security-groups[0]: {GROUP} is in vpc-0000beef, not"),
        (having(tokens.VPC, enableDnsHostnames=False), f"id: {VPC} has `enable-dns-hostnames` off"),
        (having(tokens.VPC, enableDnsSupport=False), f"id: {VPC} has `enable-dns-support` off"),
        (
            having(tokens.SUBNET, "subnet-0000000b", availabilityZone="us-east-1a"),
            "subnets: are all in us-east-1a, and EKS needs two zones.",
        ),
        (
            # The emulated us-east-1c is use1-az3.
            having(tokens.SUBNET, "subnet-0000000b", availabilityZone="us-east-1c"),
            "subnets[1]: subnet-0000000b is in us-east-1c (use1-az3), where EKS has no control plane.",
        ),
        (
            having(tokens.SUBNET, "subnet-0000000c", "subnet-0000000d", availableIpAddressCount=5),
            "node-subnets: nodes and pods need at least 11; found 10 free addresses.",
        ),
        (without(tokens.ROUTE), "node-subnets[0]: subnet-0000000c has no route to the internet"),
        (on_the_main_table, "node-subnets[1]: subnet-0000000d has no route to the internet"),
        (
            having(tokens.ROUTE, natGatewayId="", gatewayId="igw-1"),
            "node-subnets[0]: subnet-0000000c leads to an internet gateway but assigns no public addresses",
        ),
    ],
)
def test_a_vpc_that_cannot_work_is_refused_before_anything_is_registered(
    change: Change, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[str] = []
    created = Cloud.created

    def watched(cloud: Cloud, new: Creation) -> Created:
        made.append(new.type)
        return created(cloud, new)

    monkeypatch.setattr(Cloud, "created", watched)
    with pytest.raises(pulumi.RunError) as refused:
        graph_of("timeslice", {**GIVEN, "security-groups": [GROUP]}, change)
    first, *lines = str(refused.value).splitlines()
    assert first.startswith("Pulumi.timeslice.yaml has ")
    assert any(line.strip().startswith(f"cluster.vpc.{said}") for line in lines), lines
    assert made == ["pulumi:providers:aws"]


@pytest.mark.parametrize(
    ("code", "message", "said"),
    [
        (
            # https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/troubleshoot-access-denied.html
            "UnauthorizedOperation",
            "You are not authorized to perform this operation. User: arn:aws:iam::1:user/u is not authorized to "
            "perform: ec2:DescribeVpcAttribute because no identity-based policy allows it.",
            "cluster.vpc.id: these AWS credentials may not call ec2:DescribeVpcAttribute. Allow that action.",
        ),
        (
            "UnauthorizedOperation",
            "You are not authorized to perform this operation.",
            "cluster.vpc.id: these AWS credentials may not call one of `ec2:Describe*`. Allow that action.",
        ),
        (
            "RequestLimitExceeded",
            "Request limit exceeded",
            "cluster.vpc.id: AWS does not describe it: invoke of aws:ec2/getVpc:getVpc failed: "
            "RequestLimitExceeded: Request limit exceeded. Check the region, and try again.",
        ),
    ],
)
def test_an_answer_that_aws_denies_is_a_sentence(code: str, message: str, said: str) -> None:
    with pytest.raises(pulumi.RunError) as refused:
        graph_of("timeslice", GIVEN, answers={"aws:ec2/getVpc:getVpc": refuse(code, message)})
    assert str(refused.value) == said


def test_a_deployed_cluster_cannot_move_to_another_vpc() -> None:
    deployed = {
        "aws:eks/getClusters:getClusters": {"names": ["tandem-timeslice"]},
        "aws:eks/getNodeGroups:getNodeGroups": {"names": []},
        "aws:eks/getCluster:getCluster": {"vpcConfig": {"vpcId": "vpc-0000beef"}},
    }
    with pytest.raises(pulumi.RunError, match=f"{VPC} is not the VPC of the deployed cluster, vpc-0000beef"):
        graph_of("timeslice", GIVEN, answers=deployed)
    deployed["aws:eks/getCluster:getCluster"] = {"vpcConfig": {"vpcId": VPC}}
    assert len(graph_of("timeslice", GIVEN, answers=deployed))


def test_aws_is_asked_about_this_network_alone() -> None:
    """China has services of both names: AWS PrivateLink guide, aws-services-privatelink-support.html."""
    asked: dict[str, Values] = {}

    def note(answer: Values) -> Callable[[Question], Values]:
        return lambda question: asked.setdefault(question.token.rpartition(":")[2], question.args) and answer

    tables = note({"ids": []})
    answers = {f"aws:ec2/{name}:{name}": note({"id": "x"}) for name in ("getVpcEndpoint", "getVpnGateway")}
    graph_of("timeslice", GIVEN, without(tokens.ROUTE), {"aws:ec2/getRouteTables:getRouteTables": tables, **answers})
    assert asked["getVpnGateway"] == {"attachedVpcId": VPC}
    assert asked["getRouteTables"] == {
        "vpcId": VPC,
        "filters": [{"name": "association.subnet-id", "values": GIVEN["node-subnets"]}],
    }
    names = ["com.amazonaws.us-east-1.s3", "cn.com.amazonaws.us-east-1.s3"]
    assert asked["getVpcEndpoint"]["vpcId"] == VPC
    assert {"name": "vpc-endpoint-type", "values": ["Gateway"]} in asked["getVpcEndpoint"]["filters"]
    assert {"name": "service-name", "values": names} in asked["getVpcEndpoint"]["filters"]


def test_several_endpoints_of_a_service_are_one() -> None:
    """Two gateway endpoints for S3, each for a route table. The text is the provider's (not_found_error.go)."""
    several = refuse("", "multiple EC2 VPC Endpoints matched; use additional constraints to reduce matches")
    graph = graph_of("timeslice", GIVEN, answers={"aws:ec2/getVpcEndpoint:getVpcEndpoint": several})
    assert not [log for log in graph.logs if "S3" in log.message]
    none = refuse("", "no matching EC2 VPC Endpoint found")
    graph = graph_of("timeslice", GIVEN, answers={"aws:ec2/getVpcEndpoint:getVpcEndpoint": none})
    assert [log.severity for log in graph.logs if "no gateway endpoint for S3" in log.message] == ["warning"]


def test_an_interface_endpoint_for_s3_is_no_gateway_endpoint() -> None:
    graph = graph_of("timeslice", GIVEN, having(tokens.ENDPOINT, vpcEndpointType="Interface"))
    assert [log.severity for log in graph.logs if "no gateway endpoint for S3" in log.message] == ["warning"]


def test_a_prefix_list_may_lead_out() -> None:
    change = having(tokens.ROUTE, destinationCidrBlock="", destinationPrefixListId="pl-1")
    graph = graph_of("timeslice", GIVEN, change)
    assert [log for log in graph.logs if "has routes whose way to the internet is not visible" in log.message]


def test_a_vpn_gateway_may_lead_out() -> None:
    """The provider does not show the routes that it propagates (vpc_route_table_data_source.go)."""
    there = {"aws:ec2/getVpnGateway:getVpnGateway": {"id": "vgw-1"}}
    graph = graph_of("timeslice", GIVEN, without(tokens.ROUTE), there)
    assert [log for log in graph.logs if "has routes whose way" in log.message]
