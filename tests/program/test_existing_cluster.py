"""The program with a cluster that exists: what it asks, what it registers there, and what it refuses before that."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, NamedTuple

import pulumi
import pytest

from sandbox.graph import Graph, plain
from sandbox.preview.program import run
from sharing.existing.cluster import describe_nodes, find_names
from sharing.existing.scheduling import Node, may_run
from sharing.names import PROJECT
from sharing.sections.provider import AssumedRole
from stacks.deploy import deploy
from stacks.stack_file.judge import Plan
from tests.authority import identify_server, show_authority
from tests.components.json_server import JsonServer, Request, serve
from tests.program.conftest import StrictCloud, judge_with
from tests.program.test_existing_vpc import Refusal
from tests.sharing.test_existing_cluster import installed_answers

Object = dict[str, Any]
CI = "arn:aws:iam::111122223333:role/ci"
SUBNETS = {"subnet-0000000a": "us-east-1a", "subnet-0000000b": "us-east-1b", "subnet-0000000c": "us-east-1a"}
NAMESPACE = "kubernetes:core/v1:Namespace"
OF_THE_CLUSTER = {
    "namespace": NAMESPACE,
    "ClusterRole": "kubernetes:rbac.authorization.k8s.io/v1:ClusterRole",
    "PriorityClass": "kubernetes:scheduling.k8s.io/v1:PriorityClass",
}
RELEASE = "kubernetes:helm.sh/v3:Release"
NODE_GROUP = "aws:eks/nodeGroup:NodeGroup"
EFFECTS = {"NO_SCHEDULE": "NoSchedule", "NO_EXECUTE": "NoExecute"}
"""EKS API reference, Taint, `effect`."""


class Theirs:
    """A cluster of somebody else, with its API server. `case` is as in `tests/sharing/existing_cluster.yaml`."""

    def __init__(self, server: JsonServer) -> None:
        self.server = server
        self.case: Object = {}
        self.cluster: Object = {
            "name": "platform",
            "arn": "arn:aws:eks:us-east-1:123456789012:cluster/platform",
            "status": "ACTIVE",
            "version": "1.36",
            "endpoint": f"https://127.0.0.1:{server.server_port}",
            "certificateAuthorities": [{"data": show_authority()}],
            "accessConfigs": [{"authenticationMode": "API"}],
            "computeConfigs": [],
            "vpcConfig": {"vpcId": "vpc-0a1b2c3d", "subnetIds": [*SUBNETS], "clusterSecurityGroupId": "sg-0a1b2c3d"},
        }
        self.answers: Object = {
            "aws:eks/getClusters:getClusters": {"names": ["platform"]},
            "aws:eks/getNodeGroups:getNodeGroups": {"names": []},
            "aws:eks/getCluster:getCluster": lambda asked: self.cluster,
            "aws:eks/getClusterAuth:getClusterAuth": lambda asked: {"token": f"token for {asked.args['name']}"},
            "aws:ec2/getVpc:getVpc": {},
            "aws:ec2/getSubnet:getSubnet": lambda asked: {"availabilityZone": SUBNETS[asked.args["id"]]},
        }

    def answer(self, asked: Request) -> tuple[int, object]:
        found = installed_answers(self.case).get(asked.path)
        return (404, {"kind": "Status"}) if found is None else (200, found)

    def deploy(self, plan: Plan) -> Graph:
        return run(lambda: deploy(plan), project=PROJECT, stack=plan.stack, cloud=StrictCloud(answers=self.answers))


@contextmanager
def opened() -> Iterator[Theirs]:
    with serve(lambda asked: found[0].answer(asked), identify_server()) as server:
        found = [Theirs(server)]
        yield found[0]


@pytest.fixture
def theirs() -> Iterator[Theirs]:
    with opened() as theirs:
        yield theirs


class Usual(NamedTuple):
    """The usual stack in a cluster that suits it: deployed once."""

    plan: Plan
    theirs: Theirs
    graph: Graph


@pytest.fixture(scope="module")
def usual() -> Iterator[Usual]:
    with opened() as theirs:
        stack = plan()
        stack = replace(stack, config=stack.config.changed(profile="work", assume_roles=[AssumedRole(role_arn=CI)]))
        yield Usual(stack, theirs, theirs.deploy(stack))


def plan(name: str = "timeslice", existing: Object | None = None, **sections: Any) -> Plan:
    cluster = {"existing": {"name": "platform", **(existing or {})}}
    return judge_with(name, {"cluster": cluster, "budget": {}, **sections}).plan()


def test_nothing_of_the_cluster_is_created(usual: Usual) -> None:
    graph = usual.graph
    created = {resource.type for resource in graph if resource.custom and resource.type.startswith("aws:")}
    assert created == {
        "aws:ec2/launchTemplate:LaunchTemplate",
        NODE_GROUP,
        "aws:iam/role:Role",
        "aws:iam/rolePolicyAttachment:RolePolicyAttachment",
    }
    [cluster] = graph.of_type("tandem:index:ExistingCluster")
    assert [child.type for child in graph.descendants(cluster.urn)] == ["pulumi:providers:kubernetes"]


def test_nodes_are_in_the_clusters_subnets(usual: Usual) -> None:
    [group] = usual.graph.of_type(NODE_GROUP)
    inputs = plain(group.inputs)
    assert (inputs["clusterName"], inputs["subnetIds"]) == ("platform", [*SUBNETS])
    assert inputs["tags"]["tandem:zones"] == "us-east-1a us-east-1b"


def test_nodes_are_in_the_given_subnets(theirs: Theirs) -> None:
    [group] = theirs.deploy(plan(existing={"node-subnets": ["subnet-0000000b"]})).of_type(NODE_GROUP)
    assert plain(group.inputs)["subnetIds"] == ["subnet-0000000b"]


@pytest.mark.parametrize(("zones", "chosen"), [(["us-east-1f", "us-east-1c"], "us-east-1c"), ([], "us-east-1a")])
def test_the_pages_volume_is_where_a_node_without_taints_runs(theirs: Theirs, zones: list[str], chosen: str) -> None:
    """Without one, something must add it, in the zone of the first subnet."""
    labels = [{"topology.kubernetes.io/zone": zone} for zone in zones]
    theirs.case = {"nodes": [{"metadata": {"name": "node", "labels": each}, "spec": {}} for each in labels]}
    graph = theirs.deploy(plan(ui={"enabled": True, "admin-email": "ops@example.com"}))
    assert plain(graph.named("tandem-ui-accounts-and-documents-volume").inputs)["availabilityZone"] == chosen


def test_the_rules_know_the_labels_and_taints_of_a_node_group(usual: Usual) -> None:
    """A device plugin of others is judged by them."""
    [group] = usual.graph.of_type(NODE_GROUP)
    inputs, known = plain(group.inputs), describe_nodes(usual.plan.config.pools[0])[0]
    assert inputs["labels"].items() <= known.labels.items()
    taints = [(taint["key"], EFFECTS[taint["effect"]]) for taint in inputs["taints"]]
    assert [(taint.key, taint.effect) for taint in known.taints] == taints


def test_the_outputs_name_the_cluster(usual: Usual) -> None:
    outputs = usual.graph.stack_outputs
    assert outputs["cluster_name"] == "platform"
    kubeconfig = plain(outputs["kubeconfig"])
    assert f'"server":"{usual.theirs.cluster["endpoint"]}"' in kubeconfig
    assert f'"--role-arn","{CI}","--profile","work"' in kubeconfig


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "sections"),
    [
        ("timeslice", {"models": [{"name": "llama2:7b", "context": 512, "importance": "high"}]}),
        ("timeslice", {"ui": {"enabled": True, "admin-email": "ops@example.com"}, "monitoring": {"store": "builtin"}}),
        ("karpenter", {"scale-to-zero": {"enabled": True}}),
        ("mig", {}),
        ("karpenter", {"monitoring": {"service-monitors": True}}),
        ("karpenter", {"park": {"schedule": "0 20 * * MON-FRI", "wake": "0 8 * * MON-FRI"}}),
    ],
)
def test_every_object_with_a_name_in_the_cluster_is_in_the_list_of_names_and_carries_the_label(
    theirs: Theirs, name: str, sections: Object
) -> None:
    theirs.case = {"has_monitors": True}
    stack = plan(name, **sections)
    graph = theirs.deploy(stack)
    metadata = [
        (kind, plain(one.inputs)["metadata"]) for kind, type_ in OF_THE_CLUSTER.items() for one in graph.of_type(type_)
    ]
    labels = {(kind, found["name"]): found["labels"]["tandem/stack"] for kind, found in metadata}
    assert labels == dict.fromkeys(find_names(stack.config, discovery=True), f"tandem-{stack.stack}")


def test_a_stack_with_its_own_cluster_labels_nothing(plans: Any) -> None:
    from tests.program.conftest import graph_of

    for namespace in graph_of("timeslice").of_type(NAMESPACE):
        assert "tandem/stack" not in plain(namespace.inputs)["metadata"]["labels"]


def test_feature_discovery_labels_only_the_stacks_nodes(usual: Usual) -> None:
    releases = {plain(one.inputs)["name"]: plain(one.inputs)["values"] for one in usual.graph.of_type(RELEASE)}
    worker = releases["node-feature-discovery"]["worker"]
    ours, other = (
        describe_nodes(usual.plan.config.pools[0])[0],
        Node(labels={"nvidia.com/gpu.present": "true"}, taints=()),
    )
    assert (may_run(worker, ours), may_run(worker, other)) == (True, False)


def test_feature_discovery_of_others_is_used(theirs: Theirs) -> None:
    image = "registry.k8s.io/nfd/node-feature-discovery:v0.18.3"
    theirs.case = {"has": [{"kind": "Deployment", "name": "nfd/nfd-master", "image": image}]}
    releases = {plain(one.inputs)["name"] for one in theirs.deploy(plan()).of_type(RELEASE)}
    assert "node-feature-discovery" not in releases
    assert "nvidia-device-plugin-gpu" in releases


REFUSED: list[tuple[str, Object, Object, str]] = [
    (
        "no cluster of that name",
        {"aws:eks/getClusters:getClusters": {"names": ["other"]}},
        {},
        "cluster.existing.name: 'platform' is no EKS cluster of this account in us-east-1. "
        "Write a name that `aws eks list-clusters --region us-east-1` prints.",
    ),
    ("a cluster that is not ready", {}, {"status": "UPDATING"}, "cluster.existing.name: 'platform' is UPDATING"),
    (
        "pods with IPv6 addresses",
        {},
        {"kubernetesNetworkConfigs": [{"ipFamily": "ipv6"}]},
        "cluster.existing.name: 'platform' gives pods ipv6 addresses",
    ),
    ("an older Kubernetes", {}, {"version": "1.35"}, 'Write `kubernetes: "1.35"`.'),
]


@pytest.mark.parametrize(("answers", "cluster", "said"), [row[1:] for row in REFUSED], ids=[row[0] for row in REFUSED])
def test_a_cluster_that_does_not_suit_is_refused_before_anything_is_registered(
    theirs: Theirs, answers: Object, cluster: Object, said: str
) -> None:
    theirs.answers |= answers
    theirs.cluster |= cluster
    assert said in refusal(theirs)


def none(asked: Any) -> Any:
    """The provider's text (terraform-provider-aws, internal/tfresource/not_found_error.go)."""
    raise Refusal("no matching EC2 VPN Gateway found")


def network(target: Object, free: int) -> Object:
    """The answers about the cluster's network: where its default route leads, and the free addresses of each subnet."""
    return {
        "aws:ec2/getVpc:getVpc": {"id": "vpc-0a1b2c3d", "enableDnsSupport": True, "enableDnsHostnames": True},
        "aws:ec2/getRouteTables:getRouteTables": {"ids": []},
        "aws:ec2/getRouteTable:getRouteTable": {"routes": [{"cidrBlock": "0.0.0.0/0", **target}]},
        "aws:ec2/getVpcEndpoint:getVpcEndpoint": {"id": "vpce-1"},
        "aws:ec2/getSubnet:getSubnet": lambda asked: {
            "vpcId": "vpc-0a1b2c3d",
            "availabilityZone": SUBNETS[asked.args["id"]],
            "availabilityZoneId": "use1-az1",
            "availableIpAddressCount": free,
        },
    }


def test_subnets_in_which_nodes_cannot_join_are_refused(theirs: Theirs) -> None:
    """Both those of the cluster, and those of the stack file, which it names by their place."""
    theirs.answers |= {
        **network({"gatewayId": "igw-1"}, free=200),
        "aws:ec2/getSubnet:getSubnet": lambda asked: {
            "vpcId": "vpc-0a1b2c3d",
            "availabilityZone": SUBNETS[asked.args["id"]],
            "availabilityZoneId": "use1-az1",
            "availableIpAddressCount": 200,
            "mapPublicIpOnLaunch": asked.args["id"] != "subnet-0000000b",
        },
    }
    said = ": subnet-0000000b leads to an internet gateway but assigns no public addresses, so nodes cannot join."
    assert f"  cluster.existing.node-subnets{said}" in refusal(theirs)
    given = plan(existing={"node-subnets": ["subnet-0000000a", "subnet-0000000b"]})
    assert f"  cluster.existing.node-subnets[1]{said}" in refusal(theirs, given)
    assert theirs.deploy(plan(existing={"node-subnets": ["subnet-0000000a"]})).of_type(NODE_GROUP)
    # Without internet, the API server needs a private endpoint.
    theirs.answers["aws:ec2/getRouteTable:getRouteTable"] = {"routes": []}
    theirs.answers["aws:ec2/getVpnGateway:getVpnGateway"] = none
    assert "cluster.existing.name: has no private endpoint" in refusal(theirs)
    theirs.cluster["vpcConfig"] |= {"endpointPrivateAccess": True}
    assert theirs.deploy(plan()).of_type(NODE_GROUP)


def test_a_deployed_stack_has_its_addresses_and_counts_no_free_ones(theirs: Theirs) -> None:
    theirs.answers |= network({"natGatewayId": "nat-1"}, free=0)
    assert "nodes and pods need at least" in refusal(theirs)
    theirs.case = {"namespaces": {"ollama": {"tandem/stack": "tandem-timeslice"}}}
    assert theirs.deploy(plan()).of_type(NODE_GROUP)


def test_a_cluster_with_eks_auto_mode_has_a_karpenter(theirs: Theirs) -> None:
    theirs.cluster["computeConfigs"] = [{"enabled": False}]
    assert theirs.deploy(plan("karpenter"))
    theirs.cluster["computeConfigs"] = [{"enabled": True}]
    assert "custom resource definitions that EKS Auto Mode already has" in refusal(theirs, plan("karpenter"))


def test_nodes_have_the_given_security_groups_and_the_clusters_own(theirs: Theirs) -> None:
    graph = theirs.deploy(plan(existing={"security-groups": ["sg-0000000a"]}))
    [template] = graph.of_type("aws:ec2/launchTemplate:LaunchTemplate")
    assert plain(template.inputs)["vpcSecurityGroupIds"] == ["sg-0a1b2c3d", "sg-0000000a"]


def test_all_conflicts_are_in_one_error(theirs: Theirs) -> None:
    theirs.case = {"services": [], "namespaces": {"ollama": {}}}
    assert refusal(theirs).splitlines()[0] == "cluster platform has 2 errors"
    theirs.answers |= network({"natGatewayId": "nat-1"}, free=0)
    assert refusal(theirs).splitlines()[0] == "cluster platform has 3 errors"


def test_an_api_that_denies_access_is_an_error(theirs: Theirs) -> None:
    theirs.server.answer = lambda asked: (403, {"kind": "Status"})
    assert "'platform' does not admit you (403 for /apis/apps/v1/daemonsets). Create an access entry" in refusal(theirs)
    theirs.cluster["accessConfigs"] = [{"authenticationMode": "CONFIG_MAP"}]
    assert "ConfigMap `aws-auth`" in refusal(theirs)


def test_an_api_that_does_not_answer_is_an_error(theirs: Theirs) -> None:
    theirs.cluster["endpoint"] = "https://127.0.0.1:1"
    assert "'platform' has a Kubernetes API that cannot be reached" in refusal(theirs)


def test_a_description_that_aws_denies_is_an_error(theirs: Theirs) -> None:
    def deny(asked: Any) -> Any:
        raise RuntimeError("AccessDeniedException")

    theirs.answers["aws:eks/getCluster:getCluster"] = deny
    assert "Allow your role `eks:ListClusters` and `eks:DescribeCluster`." in refusal(theirs)


def test_the_api_gets_a_token_for_the_cluster(usual: Usual) -> None:
    assert {asked.authorization for asked in usual.theirs.server.asked} == {"Bearer token for platform"}


def test_a_warning_does_not_stop_the_deployment(theirs: Theirs) -> None:
    theirs.case = {"nodes": []}
    # Where a transit gateway leads, only its owner knows.
    theirs.answers |= network({"transitGatewayId": "tgw-1"}, free=200)
    messages = [log.message for log in theirs.deploy(plan()).logs if log.severity == "warning"]
    for warning in ("has no node without taints", "whose way to the internet is not visible here"):
        assert any(warning in message for message in messages), messages


def refusal(theirs: Theirs, stack: Plan | None = None) -> str:
    with pytest.raises(pulumi.RunError) as refused:
        theirs.deploy(stack or plan())
    return str(refused.value)
