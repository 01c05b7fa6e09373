"""`tandem doctor` reads a cluster that the stack uses but does not own, and says what `up` would say."""

from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import pytest
from botocore.exceptions import ClientError
from moto.eks.models import eks_backends

from sharing.existing.vpc import judge_network
from sharing.problems import Problem
from sharing.sections.cluster import ClusterSettings
from sharing.sections.existing import ExistingCluster
from tandem.aws import clusters
from tandem.deployed.endpoints import NotConnectedError
from tandem.doctor.case import Case
from tandem.doctor.checks import checks_for
from tests.sharing.test_existing_cluster import installed_answers
from tests.tandem.aws.creation import Creation
from tests.tandem.aws.emulated import ACCOUNT, OURS, REGION
from tests.tandem.doctor.conftest import Cases
from tests.tandem.doctor.findings import findings, summary
from tests.tandem.doctor.scenes import configured

THEIRS = {"team": "platform"}


@pytest.fixture(autouse=True)
def network(monkeypatch: pytest.MonkeyPatch) -> None:
    """In its VPC, everything is right (`tests/sharing/test_existing_vpc.py`)."""
    monkeypatch.setattr("tandem.doctor.existing.judge_network", lambda *_, **__: ([], []))


def make_cluster(creation: Creation, status: str = "ACTIVE") -> None:
    """A cluster of another team. moto's lacks the VPC (EKS API reference, VpcConfigResponse)."""
    creation.EKS_clusters(THEIRS, "platform")
    made = eks_backends[ACCOUNT][REGION].clusters["platform"]
    made.status, made.resources_vpc_config["vpcId"] = status, creation.vpc


@pytest.fixture
def stack(case: Cases) -> Case:
    """The stack `timeslice` in the cluster of another team."""
    return configured(case("timeslice"), cluster=ClusterSettings(existing=ExistingCluster(name="platform")))


def answer_with(monkeypatch: pytest.MonkeyPatch, **what: Any) -> None:
    """The cluster's API server has this, as in `tests/sharing/existing_cluster.yaml`."""
    reached = SimpleNamespace(read=installed_answers(what).get)
    monkeypatch.setattr("tandem.deployed.kubernetes.cluster", lambda chosen: nullcontext(reached))


def test_the_checks_are_those_of_an_existing_cluster(stack: Case, case: Cases) -> None:
    own = {check.name for check in checks_for(case("timeslice"))}
    existing = {check.name for check in checks_for(stack)}
    assert own - existing == {"cluster", "add-ons", "add-on-builds"}
    assert existing - own == {"existing-cluster"}


def test_a_suitable_cluster_is_fine(creation: Creation, stack: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    make_cluster(creation)
    answer_with(monkeypatch)
    assert summary("existing-cluster", stack) == [("ok", "platform suits the stack")]


AUTO_MODE = "installs custom resource definitions that EKS Auto Mode already has"
NO_ENTRIES = "has the authentication mode CONFIG_MAP"
SIX = "gives pods ipv6 addresses"


@pytest.mark.parametrize(
    ("said", "wrong"),
    [
        ({}, {NO_ENTRIES}),
        ({"accessConfig": {"authenticationMode": "CONFIG_MAP"}}, {NO_ENTRIES}),
        ({"accessConfig": {"authenticationMode": "API"}}, set()),
        ({"accessConfig": {"authenticationMode": "API"}, "computeConfig": {"enabled": True}}, {AUTO_MODE}),
        ({"accessConfig": {"authenticationMode": "API"}, "computeConfig": {"enabled": False}}, set()),
        ({"accessConfig": {"authenticationMode": "API"}, "kubernetesNetworkConfig": {"ipFamily": "ipv6"}}, {SIX}),
        ({"accessConfig": {"authenticationMode": "API"}, "kubernetesNetworkConfig": {"ipFamily": "ipv4"}}, set()),
    ],
)
@pytest.mark.parametrize("is_deployed", [True, False])
def test_what_eks_says_of_the_cluster_is_judged(
    said: dict[str, Any], wrong: set[str], is_deployed: bool, case: Cases, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Keys and values: EKS API reference, Cluster, AccessConfigResponse, ComputeConfigResponse."""
    answer_with(monkeypatch, namespaces={"ollama": {"tandem/stack": "tandem-karpenter"}} if is_deployed else {})
    place = {"vpcId": "vpc-1", "subnetIds": ["subnet-1"], "endpointPrivateAccess": is_deployed}
    raw = {
        "name": "platform",
        "status": "ACTIVE",
        "version": "1.36",
        "endpoint": "https://api.example",
        "certificateAuthority": {"data": ""},
        "resourcesVpcConfig": place,
        **said,
    }
    judged: list[Any] = []

    def judge(network: Any, seen: Any, config: Any, *, deployed_in: str) -> Any:
        judged.extend((network, deployed_in))
        return [], []

    monkeypatch.setattr(Case, "cluster", raw)
    monkeypatch.setattr(Case, "account", lambda _: None)
    monkeypatch.setattr("tandem.aws.network.read_vpc", lambda *_: None)
    monkeypatch.setattr("tandem.doctor.existing.judge_network", judge)
    karpenter = configured(case("karpenter"), cluster=ClusterSettings(existing=ExistingCluster(name="platform")))
    text = "".join(one.text for one in findings("existing-cluster", karpenter))
    assert {each for each in (AUTO_MODE, NO_ENTRIES, SIX) if each in text} == wrong
    network, home = judged
    assert (network.vpc, [*network.nodes], network.has_private_api) == ("vpc-1", ["subnet-1"], is_deployed)
    assert home == ("vpc-1" if is_deployed else "")


def test_a_wrong_network_stops_up(creation: Creation, stack: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    """The subnet in the stack file does not exist."""
    make_cluster(creation)
    answer_with(monkeypatch)
    monkeypatch.setattr("tandem.doctor.existing.judge_network", judge_network)
    given = ExistingCluster(name="platform", node_subnets=["subnet-0000000a"])
    found = summary("existing-cluster", configured(stack, cluster=ClusterSettings(existing=given)))
    said = "cluster.existing.node-subnets[0]: 'subnet-0000000a' does not exist in us-east-1 of this account"
    assert ("stops", said) in found


def test_a_doubt_about_the_network_is_a_warning(
    creation: Creation, stack: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_cluster(creation)
    answer_with(monkeypatch)
    doubt = Problem("cluster.existing.node-subnets[0]", "", "its routes are unknown", "Check it if nodes do not join.")
    monkeypatch.setattr("tandem.doctor.existing.judge_network", lambda *_, **__: ([], [doubt]))
    assert summary("existing-cluster", stack) == [
        ("warning", "cluster.existing.node-subnets[0]: its routes are unknown"),
        ("ok", "platform suits the stack"),
    ]


def test_a_missing_cluster_stops_up(creation: Creation, stack: Case) -> None:
    [found] = findings("existing-cluster", stack)
    assert found.verdict == "stops"
    assert found.text == "cluster.existing.name: 'platform' is no EKS cluster of this account in us-east-1"
    assert found.fix == "Write a name that `aws eks list-clusters --region us-east-1` prints."


def test_each_conflict_stops_up(creation: Creation, stack: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    make_cluster(creation)
    answer_with(monkeypatch, services=[], namespaces={"ollama": {}}, nodes=[])
    assert summary("existing-cluster", stack) == [
        ("stops", "cluster.existing.name: no DNS for pods is installed in kube-system"),
        ("stops", "cluster.existing.name: the namespace 'ollama' exists and is not from this stack"),
        (
            "warning",
            "cluster.existing.name: 'platform' has no node without taints now, on which the stack's pods without a GPU "
            "could run",
        ),
    ]


def test_a_cluster_that_is_not_ready_is_not_asked(creation: Creation, stack: Case) -> None:
    make_cluster(creation, "UPDATING")
    said = "cluster.existing.name: 'platform' is UPDATING, so EKS refuses changes"
    assert summary("existing-cluster", stack) == [("stops", said)]


def test_an_api_that_cannot_be_reached_leaves_it_unknown(
    creation: Creation, stack: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(chosen: Any) -> Any:
        raise NotConnectedError("the server is down. Try again.")

    make_cluster(creation)
    monkeypatch.setattr("tandem.deployed.kubernetes.cluster", refuse)
    assert summary("existing-cluster", stack) == [("unknown", "the server is down")]


def test_a_description_that_aws_denies_stops_up(
    creation: Creation, stack: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    def deny(account: Any, name: str) -> Any:
        raise ClientError({"Error": {"Code": "AccessDeniedException"}}, "DescribeCluster")

    monkeypatch.setattr(clusters, "cluster", deny)
    [found] = findings("existing-cluster", stack)
    assert (found.verdict, found.fix) == ("stops", "Allow your role `eks:ListClusters` and `eks:DescribeCluster`.")


def test_only_node_groups_of_the_stack_are_checked(creation: Creation, stack: Case) -> None:
    make_cluster(creation)
    creation.node_groups(THEIRS, "platform", nodegroupName="workers")
    creation.node_groups(OURS, "platform", nodegroupName="gpus")
    for name in ("workers", "gpus"):
        eks_backends[ACCOUNT][REGION].clusters["platform"].nodegroups[name].status = "UPDATING"
    assert summary("node-groups", stack) == [
        ("warning", "node group gpus is UPDATING and refuses updates"),
        ("ok", "none"),
    ]


@pytest.mark.parametrize(("zone", "verdict"), [("us-east-1a", "ok"), ("us-east-1e", "stops")])
def test_the_zones_are_those_of_the_cluster(creation: Creation, stack: Case, zone: str, verdict: str) -> None:
    """In the emulated account, us-east-1e sells no g4dn."""
    place = {"VpcId": creation.vpc, "CidrBlock": "10.0.1.0/24", "AvailabilityZone": zone}
    creation.subnet = creation.subnets({}, **place)
    make_cluster(creation)
    [found] = findings("offerings", stack)
    assert found.verdict == verdict, found
    assert verdict == "ok" or "to `cluster.existing.node-subnets`: us-east-1a" in found.text + found.fix


def test_only_releases_in_namespaces_of_the_stack_are_checked(
    creation: Creation, stack: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    def revision(namespace: str) -> dict[str, Any]:
        labels = {"owner": "helm", "name": "some", "status": "pending-upgrade", "version": "1"}
        return {"metadata": {"name": "secret", "namespace": namespace, "labels": labels}}

    make_cluster(creation)
    reached = SimpleNamespace(secrets=lambda labels: [revision("shop"), revision("ollama")])
    monkeypatch.setattr("tandem.deployed.kubernetes.cluster", lambda chosen: nullcontext(reached))
    [found] = findings("helm-releases", stack)
    assert found.text.startswith("some in namespace ollama is pending-upgrade")
