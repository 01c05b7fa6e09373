"""What the doctor finds of the Helm releases of a stack that is up, or half up."""

from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any

import pytest

from tandem.deployed.endpoints import NotConnectedError
from tests.tandem.account.creation import Creation
from tests.tandem.account.emulated import CLUSTER, OURS
from tests.tandem.doctor.conftest import Cases
from tests.tandem.doctor.findings import finding, summary


def secret(name: str, version: int, status: str, namespace: str = "ollama") -> dict[str, Any]:
    """A revision as Helm keeps it (helm pkg/storage/driver/secrets.go, newSecretsObject)."""
    return {
        "metadata": {
            "name": f"sh.helm.release.v1.{name}.v{version}",
            "namespace": namespace,
            "labels": {"owner": "helm", "name": name, "status": status, "version": str(version)},
        },
        "type": "helm.sh/release.v1",
        "data": {"release": "secret"},
    }


class Cluster:
    """Answers with these Secrets, or with this error."""

    kept: Sequence[Any] = ()
    error: NotConnectedError | None = None
    chosen: Any = None

    def secrets(self, labels: Any) -> Sequence[Any]:
        assert labels == {"owner": "helm"}
        if self.error:
            raise self.error
        return self.kept


@pytest.fixture
def api(creation: Creation, monkeypatch: pytest.MonkeyPatch) -> Cluster:
    creation.EKS_clusters(OURS, CLUSTER)
    pretended = Cluster()

    def cluster(chosen: Any) -> Any:
        pretended.chosen = chosen
        return nullcontext(pretended)

    monkeypatch.setattr("tandem.deployed.kubernetes.cluster", cluster)
    return pretended


def test_releases_that_have_ended_are_fine_and_helm_looks_at_the_newest_revision_alone(
    api: Cluster, case: Cases
) -> None:
    old = [secret("llama2-7b", 1, "pending-install"), secret("llama2-7b", 2, "superseded")]
    api.kept = [*old, secret("llama2-7b", 3, "deployed"), secret("nfd", 1, "failed")]
    assert summary("helm-releases", case("timeslice")) == [("ok", "none of 2 is pending")]


LOGIN = "aws eks update-kubeconfig --region us-east-1 --name tandem-timeslice"


@pytest.mark.real_world(
    behaviour="Helm refuses to upgrade a release that a killed process left pending; `helm rollback` does not mind.",
    source="helm pkg/action/upgrade.go, errPending; pkg/action/rollback.go, prepareRollback",
)
@pytest.mark.parametrize(
    ("kept", "fix"),
    [
        (
            [secret("llama2-7b", 1, "pending-install")],
            "kubectl delete secret sh.helm.release.v1.llama2-7b.v1 --namespace ollama",
        ),
        (
            # As the API server lists them, by name.
            [secret("llama2-7b", 10, "pending-upgrade"), secret("llama2-7b", 9, "deployed")],
            "helm rollback llama2-7b 9 --namespace ollama",
        ),
        (
            [
                secret("llama2-7b", 3, "superseded"),
                secret("llama2-7b", 4, "deployed"),
                secret("llama2-7b", 5, "failed"),
                secret("llama2-7b", 6, "pending-rollback"),
            ],
            "helm rollback llama2-7b 4 --namespace ollama",
        ),
    ],
)
def test_a_release_that_is_pending_stops_up_and_the_exact_command_is_given(
    api: Cluster, case: Cases, kept: list[dict[str, Any]], fix: str
) -> None:
    api.kept = [secret("mistral-7b", 1, "deployed"), *kept]
    found = finding("helm-releases", case("timeslice"))
    assert found.verdict == "stops"
    assert found.found.startswith("llama2-7b in namespace ollama is pending-")
    assert found.fix == f"{LOGIN} && {fix}"


def test_the_cluster_is_reached_without_outputs_since_a_killed_up_has_written_none(api: Cluster, case: Cases) -> None:
    finding("helm-releases", case("timeslice", profile=None))
    assert api.chosen.context == CLUSTER
    assert api.chosen.cluster["server"].startswith("https://")
    assert api.chosen.user["exec"]["args"][:4] == ["--region", "us-east-1", "eks", "get-token"]


def test_a_kubernetes_api_that_cannot_be_reached_is_not_fine(api: Cluster, case: Cases) -> None:
    api.error = NotConnectedError("api.example cannot be reached (timed out). Is the stack up?", passing=True)
    found = finding("helm-releases", case("timeslice"))
    assert found.verdict == "unknown"
    assert found.found == "the Kubernetes API could not be asked: api.example cannot be reached (timed out)"
    assert "cluster.public-access-cidrs" in found.fix
