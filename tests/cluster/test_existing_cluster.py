"""A cluster of others on the real API server: what the program reads there, how it judges, and who runs on its nodes.

The real DaemonSet controller decides where the pods of others run. The rules must come to the same result.
"""

import base64
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from sandbox.graph import plain
from sharing import versions
from sharing.existing.cluster import ClusterFacts, judge_cluster
from sharing.existing.objects import read_installed
from stacks.kubernetes_api import KubernetesApi, NotAdmittedError, NotReachedError
from tests.authority import make_authority
from tests.cluster.charts import PLUGIN, Render
from tests.cluster.deployment import CHARTS, Deployment, manifests, releases
from tests.cluster.nodes import node, node_groups
from tests.control_plane.api import ApiError
from tests.program.conftest import graph_with, judge_with
from tests.sharing.builders import read_cases

OTHERS: dict[str, Any] = yaml.safe_load(Path(__file__).with_name("others.yaml").read_text(encoding="utf-8"))
ALWAYS: list[dict[str, Any]] = OTHERS.pop("always")
THEIRS = {"cluster": {"existing": {"name": "platform"}}, "budget": {}}
READER = "reader"
TAINTS = ("", "NoExecute", "PreferNoSchedule")
"""Effects of the second taint in the cases of `tests/sharing/scheduling.yaml`."""
GPU = {"key": "gpu", "value": "present", "effect": "NoSchedule"}
Object = dict[str, Any]


def described(kind: str, namespace: str, name: str, image: str = "", pod: Object | None = None, **more: Any) -> Object:
    """An object of `others.yaml`."""
    metadata = {"namespace": namespace, "name": name}
    if kind == "Service":
        return {"apiVersion": "v1", "kind": kind, "metadata": metadata, "spec": {"ports": [{"port": 53}]}}
    chosen = {"app": name}
    folders = enumerate(more.get("folders", ()))
    volumes = [{"name": f"v{number}", "hostPath": {"path": path}} for number, path in folders]
    spec = {"containers": [{"name": "main", "image": image}], "volumes": volumes, **(pod or {})}
    template = {"metadata": {"labels": chosen}, "spec": spec}
    return {
        "apiVersion": "apps/v1",
        "kind": kind,
        "metadata": metadata,
        "spec": {"selector": {"matchLabels": chosen}, "template": template},
    }


@pytest.fixture
def theirs(cluster: Deployment) -> Iterator[Deployment]:
    """A cluster as EKS makes it, with a caller who may read everything."""
    cluster.api.apply({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": READER}})
    binding: Object = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding"}
    subject = {"kind": "ServiceAccount", "name": READER, "namespace": "default"}
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"}
    cluster.api.apply({**binding, "metadata": {"name": READER}, "subjects": [subject], "roleRef": role})
    remove_namespaces(cluster)
    install(cluster, ALWAYS)
    yield cluster
    cluster.api.call("DELETE", f"/apis/rbac.authorization.k8s.io/v1/clusterrolebindings/{READER}")


def remove_namespaces(cluster: Deployment) -> None:
    """Removes the namespaces that other tests left: the rules would find stacks of others in them."""

    def removed() -> bool:
        found = [one["metadata"] for one in cluster.api.list("v1", "Namespace")]
        left = [one for one in found if one["name"] != "default" and not one["name"].startswith("kube-")]
        for namespace in left:
            if "deletionTimestamp" not in namespace:
                cluster.api.call("DELETE", f"/api/v1/namespaces/{namespace['name']}")
        return not left

    cluster.wait_for("the namespaces of other tests no longer existed", removed)


def install(cluster: Deployment, rows: list[Object]) -> None:
    for row in rows:
        cluster.api.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": row["namespace"]}})
        cluster.api.apply(described(**row))


def reading(cluster: Deployment, token: str | None = None, authority: bytes | None = None) -> KubernetesApi:
    """The program's reader, with the server's certificate and the token of an account."""
    shown = base64.b64encode(authority or cluster.api.certificate.read_bytes()).decode()
    return KubernetesApi(
        endpoint=cluster.api.url, authority=shown, token=cluster.token_of(READER) if token is None else token
    )


def said(cluster: Deployment, stack: str) -> list[str]:
    """What the rules say of the cluster, as it is read."""
    facts = ClusterFacts(
        name="platform",
        status="ACTIVE",
        version="1.36",
        authentication="API",
        is_automatic=False,
        installed=read_installed(reading(cluster).read),
    )
    return [str(problem) for problem in judge_cluster(facts, judge_with(stack, THEIRS).plan().config, stack)]


def where(cluster: Deployment, name: str, namespace: str) -> set[str]:
    """The nodes for which the controller has made pods of a DaemonSet, once it has seen all nodes."""

    def done() -> bool:
        status = (cluster.api.get("apps/v1", "DaemonSet", name, namespace) or {}).get("status", {})
        return bool(status.get("observedGeneration")) and len(targets()) == status.get("desiredNumberScheduled")

    def targets() -> set[str]:
        return {target for owner, target in map(placed, cluster.pods(namespace)) if owner == name}

    cluster.wait_for(f"{name} had its pods", done)
    return targets()


def placed(pod: Object) -> tuple[str, str]:
    """The owner of a DaemonSet's pod, and its node, whether or not it is bound yet."""
    affinity = pod["spec"].get("affinity", {}).get("nodeAffinity", {})
    terms = affinity.get("requiredDuringSchedulingIgnoredDuringExecution", {}).get("nodeSelectorTerms", [{}])
    fields = terms[0].get("matchFields", [{"values": [""]}])
    owners = pod["metadata"].get("ownerReferences") or [{"name": ""}]
    return owners[0]["name"], fields[0]["values"][0]


@pytest.mark.parametrize("name", OTHERS)
def test_the_rules_say_who_would_run_on_our_nodes_and_the_real_controller_does_the_same(
    theirs: Deployment, name: str
) -> None:
    case = OTHERS[name]
    if "runs" in case:
        graph = graph_with(case["stack"], THEIRS)
        [group] = [plain(one.inputs) for one in node_groups(graph).values()]
        theirs.join(node("ours", graph, group, "us-east-1a"))
        theirs.wait_for_nodes("ours")
    install(theirs, case["objects"])
    problems = said(theirs, case["stack"])
    assert len(problems) == len(case["says"]), problems
    assert all(words in problem for words, problem in zip(case["says"], problems, strict=True)), problems
    for row in case["objects"]:
        if row["kind"] == "DaemonSet":
            assert where(theirs, row["name"], row["namespace"]) == ({"ours"} if case["runs"] else set())


def test_every_object_of_ours_is_accepted_beside_those_of_others(theirs: Deployment) -> None:
    suitable = [case for case in OTHERS.values() if case["stack"] == "timeslice" and not case["says"]]
    install(theirs, [row for case in suitable for row in case["objects"]])
    graph = graph_with("timeslice", {**THEIRS, "monitoring": {"store": "builtin"}})
    for manifest in manifests(graph):
        theirs.api.apply(manifest, dry_run=manifest["kind"] != "Namespace")
    for release in releases(graph, *CHARTS):
        theirs.install(release)
    # Those of its own namespaces do not count as others' at the next `up`.
    assert said(theirs, "timeslice") == []


def test_a_stranger_learns_why_nothing_can_be_read(theirs: Deployment) -> None:
    theirs.api.apply({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "stranger"}})
    with pytest.raises(NotAdmittedError, match="403 for /apis/apps/v1/daemonsets"):
        read_installed(reading(theirs, theirs.token_of("stranger")).read)
    with pytest.raises(NotAdmittedError, match="401 for /apis/apps/v1/daemonsets"):
        read_installed(reading(theirs, "nonsense").read)
    with pytest.raises(NotReachedError, match="certificate"):
        read_installed(reading(theirs, authority=make_authority()["certificate"].encode()).read)


def test_the_row_of_nvidias_chart_is_what_helm_makes_of_its_defaults(render: Render) -> None:
    [row] = OTHERS["NVIDIA's chart"]["objects"]
    release = {"name": "nvdp", "namespace": row["namespace"], "chart": f"nvdp/{PLUGIN}", "values": {}}
    source = {"version": versions.DEVICE_PLUGIN_CHART, "repositoryOpts": {"repo": versions.DEVICE_PLUGIN_REPOSITORY}}
    rendered = {one["metadata"]["name"]: one for one in render({**release, **source}) if one["kind"] == "DaemonSet"}
    pod, ours = rendered[row["name"]]["spec"]["template"]["spec"], described(**row)["spec"]["template"]["spec"]
    assert {key: pod[key] for key in ("affinity", "tolerations")} == row["pod"]
    assert pod["containers"][0]["image"] == row["image"]
    assert {one["hostPath"]["path"] for one in ours["volumes"]} <= {one["hostPath"]["path"] for one in pod["volumes"]}


CASES = read_cases("scheduling")


@pytest.mark.real_world(
    behaviour="A DaemonSet runs on each node whose labels fit its node selector and required node affinity, and whose "
    "taints it tolerates",
    source="kubernetes.io/docs/concepts/workloads/controllers/daemonset/#how-daemon-pods-are-scheduled",
)
def test_the_table_of_scheduling_is_what_the_real_controller_does(cluster: Deployment) -> None:
    """Each taint of the table has two nodes, of which one has the labels that a node may get."""
    for effect in TAINTS:
        for number, more in enumerate(({}, {"gpu/product": "t4"})):
            labels = {"disk": "ssd", "cores": "8", **more}
            taints = [GPU, *([{"key": "mode", "value": "x", "effect": effect}] if effect else [])]
            metadata = {"name": f"n-{effect.lower()}-{number}", "labels": labels}
            cluster.join({"apiVersion": "v1", "kind": "Node", "metadata": metadata, "spec": {"taints": taints}})
    # Until then, they have one more taint, which not every pod tolerates.
    cluster.wait_for_nodes(*(one["metadata"]["name"] for one in cluster.api.list("v1", "Node")))
    expected, refused = {}, []
    for number, (name, case) in enumerate(CASES.items()):
        pod: Object = {"tolerations": [{"key": "gpu", "operator": "Exists"}], **case.get("pod", {})}
        if "terms" in case:
            terms = [{"matchExpressions": expressions} for expressions in case["terms"]]
            required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
            pod["affinity"] = {"nodeAffinity": required}
        try:
            cluster.api.apply(described("DaemonSet", "default", f"case-{number}", "none", pod))
        except ApiError:
            refused.append(name)
        else:
            expected[name] = f"case-{number}", case.get("taint", ""), case["runs"]
    # The server accepts no empty list of terms.
    assert refused == ["no terms match nothing"]
    found = {}
    for name, (daemon, effect, _) in expected.items():
        nodes = where(cluster, daemon, "default")
        found[name] = any(one.startswith(f"n-{effect.lower()}-") for one in nodes)
    assert found == {name: runs for name, (_, _, runs) in expected.items()}
