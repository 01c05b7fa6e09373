"""The lists of an emulated cluster's API server, whom it admits, and that its workloads are those of the charts."""

from typing import Any

import pytest

from sandbox.world import tokens
from sandbox.world.providers.callers import Callers
from tests.cluster.charts import objects_of
from tests.cluster.deployment import releases
from tests.program.conftest import graph_of
from tests.sandbox.world_pieces import Account, meta

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
    policy = POLICY.format("AmazonEKSAdminViewPolicy")
    account.make(tokens.ACCESS_POLICY, clusterName="c", principalArn=BEN, policyArn=policy)
    assert get(account, NAMESPACES, BEN)[0] == 200


def test_objects_are_listed_by_kind_and_namespace(account: Account) -> None:
    account.make(tokens.NAMESPACE, metadata=meta("shop", labels={"team": "blue"}))
    spec = {"template": {"spec": {"containers": [{"image": "i"}]}}}
    kind = {"apiVersion": "apps/v1", "kind": "DaemonSet"}
    account.make("kubernetes:apps/v1:DaemonSet", **kind, metadata=meta("log", namespace="shop"), spec=spec)
    assert names(account, NAMESPACES) == ["default", "kube-node-lease", "kube-public", "kube-system", "shop"]
    assert names(account, DAEMON_SETS) == ["aws-node", "log"]
    assert names(account, "/apis/apps/v1/namespaces/shop/daemonsets?limit=5") == ["log"]
    log = get(account, DAEMON_SETS)[1]["items"][1]
    # The items of a list have no kind (Kubernetes API concepts, "Collections").
    assert log.keys() == {"metadata", "spec"}
    assert log["spec"] == spec
    assert names(account, "/apis/rbac.authorization.k8s.io/v1/clusterroles") == []


def test_a_node_has_its_taints_as_kubernetes_writes_them_and_its_shares(account: Account) -> None:
    account.gpu_nodes()
    account.nodes()
    account.device_plugin()
    node = get(account, "/api/v1/nodes")[1]["items"][0]
    assert node["status"]["allocatable"] == {"nvidia.com/gpu": "2"}
    assert node["spec"]["taints"] == [{"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}]


def test_a_kind_is_unknown_until_a_chart_defines_them(account: Account) -> None:
    pools = "/apis/karpenter.sh/v1/nodepools"
    assert get(account, pools)[0] == 404
    account.nodes()
    account.release("karpenter", "karpenter", settings={"interruptionQueue": "q"})
    assert names(account, pools) == []
    [controller] = get(account, "/apis/apps/v1/deployments")[1]["items"]
    [container] = controller["spec"]["template"]["spec"]["containers"]
    assert container["env"] == [{"name": "INTERRUPTION_QUEUE", "value": "q"}]


def test_dns_is_a_service_of_its_add_on(account: Account) -> None:
    services = "/api/v1/namespaces/kube-system/services"
    assert names(account, services) == []
    account.nodes()
    account.make(tokens.ADDON, "dns", clusterName="c", addonName="coredns")
    assert names(account, services) == ["kube-dns"]


def is_in(one: Object, namespace: str) -> bool:
    return bool(one["metadata"]["namespace"] == namespace)


def matched(one: Object) -> Object:
    """What decides where the pods of a workload run, and which folders of the node they share."""
    pod, metadata = one["spec"]["template"]["spec"], one["metadata"]
    folders = {volume["hostPath"]["path"] for volume in pod.get("volumes", []) if "hostPath" in volume}
    return {
        "name": (metadata["namespace"], metadata["name"]),
        **{key: pod.get(key) or None for key in ("nodeSelector", "tolerations")},
        "required": ((pod.get("affinity") or {}).get("nodeAffinity") or {}).get(
            "requiredDuringSchedulingIgnoredDuringExecution"
        ),
        "shared": folders & {"/var/lib/kubelet/device-plugins", "/run/nvidia/mps"},
    }


@pytest.mark.parametrize("stack", ["timeslice", "mps"])
def test_the_workloads_of_our_charts_are_those_that_the_cluster_tier_runs(account: Account, stack: str) -> None:
    """tests/cluster/test_charts.py compares these with Helm's output."""
    account.nodes()
    for release in releases(graph_of(stack), "node-feature-discovery", "nvidia-device-plugin"):
        account.make(tokens.NAMESPACE, metadata=meta(release["namespace"]))
        account.make(tokens.RELEASE, release["name"], **release)
        wanted = [matched(one) for one in objects_of(release) if one["kind"] == "DaemonSet"]
        # Of the plugin's three, the one that registers with the kubelet.
        [shown] = [one for one in get(account, DAEMON_SETS)[1]["items"] if is_in(one, release["namespace"])]
        assert matched(shown) == wanted[0]
