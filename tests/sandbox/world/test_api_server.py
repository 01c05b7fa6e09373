"""The lists of an emulated cluster's API server, and whom it admits."""

from typing import Any

import pytest

from sandbox.world import tokens
from sandbox.world.providers.callers import Callers
from sharing.existing.cluster import ClusterFacts, judge_cluster
from sharing.existing.objects import read_installed
from tests.sandbox.world_pieces import Account, meta
from tests.sharing.test_existing_cluster import configured

ANNA, BEN = "arn:aws:iam::123456789012:role/anna", "arn:aws:iam::123456789012:role/ben"
DAEMON_SETS, NAMESPACES = "/apis/apps/v1/daemonsets", "/api/v1/namespaces"
POLICY = "arn:aws:eks::aws:cluster-access-policy/{}"
Object = dict[str, Any]


@pytest.fixture
def account() -> Account:
    account = Account()
    account.world.callers = Callers(ambient=ANNA)
    account.cluster()
    return account


def get(account: Account, path: str, caller: str = ANNA) -> tuple[int, Any]:
    """Asks as a caller who has a token."""
    account.world.callers = Callers(ambient=caller)
    token = account.world.invoke("aws:eks/getClusterAuth:getClusterAuth", {"name": "c"}, {})["token"]
    account.world.callers = Callers(ambient=ANNA)
    return account.world.ask_api_server(account.outputs(tokens.CLUSTER, "c")["endpoint"], token, path)


def names(account: Account, path: str) -> list[str]:
    status, found = get(account, path)
    assert status == 200, found
    return [one["metadata"]["name"] for one in found["items"]]


def test_only_those_are_admitted_who_have_an_entry_and_only_those_read_who_have_a_policy(account: Account) -> None:
    server = account.outputs(tokens.CLUSTER, "c")["endpoint"]
    assert account.world.ask_api_server(server, "no-token", NAMESPACES)[0] == 401
    assert account.world.ask_api_server("https://elsewhere", "no-token", NAMESPACES)[0] == 502
    assert get(account, NAMESPACES, BEN)[0] == 401
    account.make(tokens.ACCESS_ENTRY, clusterName="c", principalArn=BEN)
    assert get(account, NAMESPACES, BEN)[0] == 403
    for policy, status in (("AmazonEKSAdminViewPolicy", 403), ("AmazonEKSClusterAdminPolicy", 200)):
        account.make(tokens.ACCESS_POLICY, clusterName="c", principalArn=BEN, policyArn=POLICY.format(policy))
        assert get(account, NAMESPACES, BEN)[0] == status


def test_objects_are_listed_by_kind_and_namespace(account: Account) -> None:
    account.make(tokens.NAMESPACE, metadata=meta("shop", labels={"team": "blue"}))
    spec = {"template": {"spec": {"containers": [{"image": "i"}]}}}
    account.make("kubernetes:apps/v1:DaemonSet", metadata=meta("log", namespace="shop"), spec=spec)
    account.make("kubernetes:scheduling.k8s.io/v1:PriorityClass", metadata=meta("high"))
    assert names(account, NAMESPACES) == ["default", "kube-node-lease", "kube-public", "kube-system", "shop"]
    assert names(account, DAEMON_SETS) == ["vpc-cni", "log"]
    assert names(account, "/apis/apps/v1/namespaces/shop/daemonsets?limit=5") == ["log"]
    assert get(account, DAEMON_SETS)[1]["items"][1]["spec"] == spec
    assert names(account, "/apis/scheduling.k8s.io/v1/priorityclasses") == ["high"]


def test_a_node_has_its_taints_as_kubernetes_writes_them(account: Account) -> None:
    account.gpu_nodes()
    [node] = get(account, "/api/v1/nodes")[1]["items"]
    assert node["metadata"]["labels"]["nvidia.com/gpu.present"] == "true"
    assert node["spec"]["taints"] == [{"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}]


def test_a_kind_is_unknown_until_a_chart_defines_it(account: Account) -> None:
    pools = "/apis/karpenter.sh/v1/nodepools"
    assert get(account, pools)[0] == 404
    account.nodes()
    account.release("karpenter", "karpenter")
    assert names(account, pools) == []


def errors(account: Account) -> str:
    """What the rules say of the cluster, for a stack that needs every add-on."""

    def read(path: str) -> Object | None:
        status, found = get(account, path)
        return found if status == 200 else None

    given: Object = {"name": "c", "status": "ACTIVE", "version": "1.36", "authentication": "API", "is_automatic": False}
    wanted = {"gpu-nodes": {"provisioner": "karpenter"}, "ui": {"enabled": True, "admin-email": "ops@example.com"}}
    facts = ClusterFacts(**given, installed=read_installed(read))
    found = judge_cluster(facts, configured({"stack": wanted}), "dev")
    return "\n".join(map(str, found))


@pytest.mark.parametrize(
    ("addon", "words"),
    [
        ("vpc-cni", "no network plugin"),
        ("aws-ebs-csi-driver", "EBS CSI driver"),
        ("eks-pod-identity-agent", "Pod Identity agent"),
        ("coredns", "no DNS for pods"),
    ],
)
def test_the_rules_find_each_add_on(account: Account, addon: str, words: str) -> None:
    account.nodes()
    account.driver()
    account.make(tokens.ADDON, "dns", clusterName="c", addonName="coredns")
    assert errors(account) == ""
    account.drop(tokens.ADDON, f"c:{addon}")
    assert words in errors(account)


def test_the_rules_find_the_discovery_of_others(account: Account) -> None:
    account.nodes()
    account.discovery()
    [found] = read_installed(lambda path: get(account, path)[1]).workloads[-1:]
    assert (found.kind, found.namespace, found.name) == ("Deployment", "kube-system", "nfd")
    assert found.uses("node-feature-discovery")
