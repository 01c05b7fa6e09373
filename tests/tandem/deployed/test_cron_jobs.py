"""What `tandem park` creates from the CronJob of a schedule: requests to an API server on a local port."""

import datetime
from pathlib import Path
from typing import Any

import pytest

from tandem.deployed import kubeconfig
from tandem.deployed.kubernetes import cluster
from tests.tandem.deployed.fake_kubernetes import FakeKubernetes, serving

JOBS, CRON_JOBS = "/apis/batch/v1/namespaces/ollama/jobs", "/apis/batch/v1/namespaces/ollama/cronjobs"
AT = datetime.datetime(2026, 11, 25, 20, 30, tzinfo=datetime.UTC)
OWNER = {"apiVersion": "batch/v1", "kind": "CronJob", "name": "nightly", "uid": "u-1"}


def pods(*env: dict[str, str]) -> dict[str, Any]:
    return {"template": {"spec": {"containers": [{"name": "scaler", "env": [{"name": "A", "value": "1"}, *env]}]}}}


def serving_nightly(created_at: str = "2026-11-25T12:00:00Z") -> FakeKubernetes:
    fake = FakeKubernetes()
    metadata = {"name": "nightly", "namespace": "ollama", "uid": "u-1"}
    spec = {"schedule": "0 20 * * *", "timeZone": "Europe/Paris", "suspend": True, "jobTemplate": {"spec": pods()}}
    nightly = {"apiVersion": "batch/v1", "kind": "CronJob", "metadata": metadata, "spec": spec}
    fake.answers[f"{CRON_JOBS}/nightly"] = nightly
    # Answers of kr8s's lists, and of creations.
    fake.answers[CRON_JOBS] = {
        "items": [nightly],
        "metadata": {"creationTimestamp": created_at, "name": "nightly-once"},
    }
    fake.answers[JOBS] = {"metadata": {"name": "nightly-now-x"}}
    return fake


def test_a_cron_job_is_started_as_kubectl_does(tmp_path: Path) -> None:
    with serving(serving_nightly()) as fake, cluster(kubeconfig.read(fake.kubeconfig(tmp_path), None)) as found:
        assert found.start_cron_job("nightly", "ollama") == "nightly-now-x"
    [(path, job)] = fake.created
    assert path == JOBS
    assert job["metadata"] == {
        "generateName": "nightly-now-",
        "namespace": "ollama",
        "annotations": {"cronjob.kubernetes.io/instantiate": "manual"},
        "ownerReferences": [{**OWNER, "controller": True}],
    }
    assert job["spec"] == pods()


@pytest.mark.slow
def test_each_of_two_clusters_gets_its_own_requests(tmp_path: Path) -> None:
    pods = "/api/v1/namespaces/ollama/pods"
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x", "namespace": "ollama"}, "spec": {}}
    (tmp_path / "other").mkdir()
    with serving(serving_nightly()) as fake, serving(serving_nightly()) as other:
        one, two = (at.kubeconfig(folder) for at, folder in ((fake, tmp_path), (other, tmp_path / "other")))
        fake.answers[f"{pods}/x"] = pod
        with cluster(kubeconfig.read(two, None)), cluster(kubeconfig.read(one, None)) as found:
            connected, before = len(fake.asked), len(other.asked)
            found.create_pod(pod)
            found.delete_pod("x", "ollama")
            found.start_cron_job("nightly", "ollama")
        asked = [path for path, _ in fake.asked[connected:]]
        assert [path for path in asked if path != CRON_JOBS] == [pods, f"{pods}/x", JOBS]
        assert len(other.asked) == before
        assert f"{CRON_JOBS}/nightly" not in asked
