"""What is installed in a cluster that a stack does not own, and what it means."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from sharing.existing.cluster import ClusterFacts, There, judge_cluster, warn_of_cluster
from sharing.existing.objects import Installed, read_installed
from sharing.stack.config import StackConfig
from tests.sharing.builders import TODAY, Circumstances, read_cases

CASES = read_cases("existing_cluster")
Object = dict[str, Any]
ADD_ONS: list[Object] = [
    {"name": "kube-system/aws-node", "image": "amazon-k8s-cni:v1.22.4", "folders": ["/opt/cni/bin", "/etc/cni/net.d"]},
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
    warnings = [str(problem) for problem in warn_of_cluster(facts, config)]
    assert (errors, warnings) == (case.get("errors", []), case.get("warnings", []))
    assert facts.installed
    assert There(facts.installed, config, "dev").has_discovery is not case.get("discovery", True)
