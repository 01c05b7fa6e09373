"""What is installed in a cluster that a stack does not own, and what it means."""

import datetime
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from sharing.cost.bill import cost
from sharing.cost.quotas import needs
from sharing.existing.cluster import (
    ClusterFacts,
    There,
    judge_cluster,
    not_admitted,
    not_described,
    not_found,
    not_reached,
    warn_of_cluster,
)
from sharing.existing.objects import Installed, read_installed
from sharing.existing.vpc import network_around
from sharing.sections.config import Circumstances, StackConfig
from sharing.sections.existing import ExistingCluster
from sharing.verdict.full import judge_fully
from tests.sharing.builders import TODAY, read_cases

CASES = read_cases("existing_cluster")
Object = dict[str, Any]
ADD_ONS: list[Object] = [
    {"name": "kube-system/aws-node", "image": "amazon-k8s-cni:v1.22.4", "folders": ["/etc/cni/net.d"]},
    {"name": "kube-system/kube-proxy", "image": "eks/kube-proxy:v1.36.0"},
    {"name": "kube-system/ebs-csi-node", "image": "eks/aws-ebs-csi-driver:v1.66.0"},
    {"name": "kube-system/eks-pod-identity-agent", "image": "eks/eks-pod-identity-agent:v0.1.36"},
]
"""As EKS installs them: their images are in a registry whose name begins with 602401143452.dkr.ecr."""
EVERYTHING = [{"operator": "Exists"}]
STACK: Object = {
    "aws:region": "us-east-1",
    "sharing": {"mode": "timeslice"},
    "gpu-nodes": {"instance-types": ["g4dn.xlarge"]},
    "models": [{"name": "llama2:7b"}],
}


def workload(given: Object) -> Object:
    namespace, name = given["name"].split("/")
    container = {
        "image": given["image"],
        "env": [{"name": key, "value": text} for key, text in given.get("variables", {}).items()],
    }
    volumes: list[Object] = [{"hostPath": {"path": path}} for path in given.get("folders", ())]
    # Other volumes have no path on the node.
    volumes.append({"emptyDir": {}})
    pod = {"containers": [container], "volumes": volumes, "tolerations": EVERYTHING, **given.get("pod", {})}
    return {"metadata": {"namespace": namespace, "name": name}, "spec": {"template": {"spec": pod}}}


def listed(items: list[Object]) -> Object:
    return {"kind": "List", "items": items}


def named(names: Mapping[str, Object] | list[str]) -> Object:
    labels = names if isinstance(names, Mapping) else {name: {} for name in names}
    return listed([{"metadata": {"name": name, "labels": labels[name]}} for name in labels])


def installed_answers(case: Object) -> dict[str, Object]:
    """What the API server answers to each path that it knows."""
    has = [each for each in ADD_ONS if each["name"] not in case.get("without", ())] + case.get("has", [])
    kinds = {
        kind: [workload(each) for each in has if each.get("kind", "DaemonSet") == kind]
        for kind in ("DaemonSet", "Deployment")
    }
    answers = {
        "/apis/apps/v1/daemonsets": listed(kinds["DaemonSet"]),
        "/apis/apps/v1/deployments": listed(kinds["Deployment"]),
        "/api/v1/namespaces/kube-system/services": named(case.get("services", ["kube-dns"])),
        "/api/v1/namespaces": named({"default": {}, "kube-system": {}, **case.get("namespaces", {})}),
        "/apis/scheduling.k8s.io/v1/priorityclasses": named(case.get("priority-classes", [])),
        "/apis/rbac.authorization.k8s.io/v1/clusterroles": named(case.get("cluster-roles", [])),
        "/api/v1/nodes": listed([{"metadata": {"name": "node"}, **node} for node in case.get("nodes", [{"spec": {}}])]),
    }
    if case.get("has_monitors"):
        answers["/apis/monitoring.coreos.com/v1/podmonitors?limit=1"] = listed([])
    return answers


def installed(case: Object) -> Installed:
    return read_installed(installed_answers(case).get)


def configured(case: Object) -> StackConfig:
    given = case.get("stack", {})
    cluster = {"existing": {"name": "platform"}, **given.get("cluster", {})}
    nodes = {**STACK["gpu-nodes"], **given.get("gpu-nodes", {})}
    config = StackConfig.model_validate({**STACK, **given, "cluster": cluster, "gpu-nodes": nodes})
    return config.under(Circumstances(today=TODAY))


@pytest.mark.parametrize("name", CASES)
def test_a_cluster_is_judged_as_in_the_table(name: str) -> None:
    case, config = CASES[name], configured(CASES[name])
    right = ClusterFacts(
        name="platform",
        status="ACTIVE",
        version="1.36",
        authentication="API",
        is_automatic=False,
        installed=installed(case),
    )
    facts = replace(right, **case.get("facts", {}))
    errors = [str(problem) for problem in judge_cluster(facts, config, "dev")]
    warnings = [str(problem) for problem in warn_of_cluster(facts, config, "dev")]
    assert (errors, warnings) == (case.get("errors", []), case.get("warnings", []))
    assert facts.installed
    assert There(facts.installed, config, "dev").has_discovery is not case.get("discovery", True)


def test_a_cluster_that_cannot_be_read_is_an_error_with_its_fix() -> None:
    problems = [
        not_found("platform", "us-east-1"),
        not_described("platform", "AccessDenied"),
        not_admitted("platform", "401", "API_AND_CONFIG_MAP"),
        not_admitted("platform", "401", "CONFIG_MAP"),
        not_reached("platform", "timed out"),
    ]
    assert [problem.message for problem in problems] == [
        "cluster.existing.name: 'platform' is no EKS cluster of this account in us-east-1. "
        "Write a name that `aws eks list-clusters --region us-east-1` prints.",
        "cluster.existing.name: 'platform' cannot be described by EKS (AccessDenied). "
        "Allow your role `eks:ListClusters` and `eks:DescribeCluster`.",
        "cluster.existing.name: 'platform' does not admit you (401). Create an access entry: `aws eks "
        "create-access-entry --cluster-name platform --principal-arn ROLE`, and associate the policy "
        "AmazonEKSClusterAdminPolicy with it.",
        "cluster.existing.name: 'platform' does not admit you (401). Map your role to the group system:masters in the "
        "ConfigMap `aws-auth` of kube-system.",
        "cluster.existing.name: 'platform' has a Kubernetes API that cannot be reached (timed out). "
        "Run `up` where its endpoint is reachable: inside its VPC, or from an address that it allows.",
    ]


def test_without_its_kubernetes_api_only_eks_is_judged() -> None:
    facts = ClusterFacts(
        name="platform", status="ACTIVE", version="1.36", authentication="API", is_automatic=False, installed=None
    )
    assert [*judge_cluster(facts, configured({}), "dev"), *warn_of_cluster(facts, configured({}), "dev")] == []


@pytest.mark.parametrize(("owner", "is_deployed"), [("tandem-dev", True), ("tandem-prod", False)])
def test_a_stack_with_objects_in_the_cluster_is_deployed(owner: str, is_deployed: bool) -> None:
    found = installed({"namespaces": {"ollama": {"tandem/stack": owner}}})
    assert There(found, configured({}), "dev").is_deployed is is_deployed


def test_nodes_are_in_the_given_subnets_or_in_those_of_the_cluster() -> None:
    of_cluster = ["subnet-0000000a", "subnet-0000000b"]
    given = ExistingCluster(
        name="platform", node_subnets=["subnet-0000000c"], security_groups=["sg-0000000a", "sg-0000000b"]
    )
    network = network_around(given, "vpc-0a1b2c3d", of_cluster, has_private_api=True)
    assert network.nodes == {"subnet-0000000c": "cluster.existing.node-subnets[0]"}
    assert network.groups["sg-0000000b"] == "cluster.existing.security-groups[1]"
    default = network_around(ExistingCluster(name="platform"), "vpc-0a1b2c3d", of_cluster, has_private_api=True)
    assert default.nodes == dict.fromkeys(of_cluster, "cluster.existing.node-subnets")
    assert not default.control_plane


def test_the_owner_of_a_cluster_pays_for_it_and_its_nodes() -> None:
    """g4dn.xlarge as spot, and its disk of 100 GiB for $0.08 per month and GiB: prices as in `cost.yaml`."""
    bill = cost(configured({}))
    assert {line.item: pytest.approx(line.usd_per_hour, abs=1e-4) for line in bill.lines} == {
        "cluster platform": 0,
        "GPU nodes 1 × g4dn.xlarge": 0.2158,
        "EBS gp3 100 GiB": 100 * 0.08 / 730,
    }
    # One more GPU node with its disk while nodes are replaced, and no system node.
    assert bill.replacing_usd_per_hour == pytest.approx(2 * bill.usd_per_hour, abs=1e-4)
    assert bill.first_start_usd == 0


def test_quotas_count_the_gpu_nodes_alone() -> None:
    found = {need.quota.name: [need.now, need.most, need.replacing] for need in needs(configured({}))}
    assert found == {"g-spot": [4, 4, 8]}


@pytest.mark.parametrize("today", [TODAY, datetime.date(2027, 5, 1), datetime.date(2027, 8, 2)])
def test_settings_of_the_control_plane_are_not_judged(today: datetime.date) -> None:
    """Neither who may reach it, nor how long EKS supports its version: 1.36 until 2027-08-02."""
    verdict = judge_fully(configured({}).under(Circumstances(today=today)))
    said = [problem.path for problem in (*verdict.problems, *verdict.warnings)]
    assert not [path for path in said if path.startswith("cluster")]


def test_system_nodes_that_are_not_the_stacks_may_be_full() -> None:
    models = [{"name": "llama3.2:1b"}]
    features = {"monitoring": {"store": "builtin"}, "ui": {"enabled": True, "admin-email": "ops@example.com"}}
    existing = judge_fully(configured({"stack": {**features, "models": models}}))
    own = judge_fully(
        StackConfig.model_validate({**STACK, **features, "models": models, "cluster": {"system-nodes": {"count": 1}}})
    )
    assert [problem.path for problem in own.problems] == ["cluster.system-nodes"]
    assert existing.problems == ()


def test_zones_are_those_of_nodes_without_taints() -> None:
    def node(zone: str, **spec: Any) -> Object:
        labels = {"topology.kubernetes.io/zone": zone} if zone else {}
        return {"metadata": {"name": "node", "labels": labels}, "spec": spec}

    tainted = [{"key": "team", "effect": "NoSchedule"}]
    nodes = [
        node("us-east-1f"),
        node("us-east-1c"),
        node("us-east-1f"),
        node("us-east-1a", taints=tainted),
        node("us-east-1b", unschedulable=True),
        node(""),
    ]
    assert installed({"nodes": nodes}).untainted_zones == ("us-east-1c", "us-east-1f")
