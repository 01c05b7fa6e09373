"""`tandem doctor` against a real API server: it finds Helm's revisions by their labels in every namespace."""

from tandem.deployed import kubeconfig
from tandem.deployed.kubernetes import cluster as connect
from tandem.doctor.releases import HELM, _pending, _revisions
from tests.cluster.deployment import Deployment
from tests.tandem.doctor.scenes import secret

NAMESPACES = ("default", "kube-public")


def test_releases_that_are_pending_are_found_in_every_namespace(cluster: Deployment) -> None:
    made = [
        secret("llama2-7b", 1, "deployed", NAMESPACES[0]),
        secret("llama2-7b", 2, "pending-upgrade", NAMESPACES[0]),
        secret("nfd", 1, "pending-install", NAMESPACES[1]),
    ]
    other = secret("other", 1, "pending-install", NAMESPACES[0])
    other["metadata"]["labels"]["owner"] = "somebody"
    try:
        for one in (*made, other):
            one["data"] = {"release": "c2VjcmV0"}
            cluster.api.apply({"apiVersion": "v1", "kind": "Secret", **one})
        with connect(kubeconfig.read(cluster.plane.kubeconfig, None)) as reached:
            revisions = list(_revisions(reached.secrets(HELM)))
    finally:
        for one in (*made, other):
            metadata = one["metadata"]
            cluster.api.call("DELETE", f"/api/v1/namespaces/{metadata['namespace']}/secrets/{metadata['name']}")
    assert len(revisions) == 3
    assert [(found.namespace, found.name, found.status) for found in _pending(revisions)] == [
        ("default", "llama2-7b", "pending-upgrade"),
        ("kube-public", "nfd", "pending-install"),
    ]
