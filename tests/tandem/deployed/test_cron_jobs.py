"""What `tandem park` creates from the CronJob of a schedule: requests to an API server on a local port."""

from pathlib import Path
from typing import Any

import pytest

from tandem.deployed import kubeconfig
from tandem.deployed.kubernetes import cluster
from tests.tandem.deployed.fake_kubernetes import CORE, FakeKubernetes, serving

pytestmark = pytest.mark.slow

JOBS, CRON_JOBS = "/apis/batch/v1/namespaces/ollama/jobs", "/apis/batch/v1/namespaces/ollama/cronjobs"
PODS = f"{CORE}/namespaces/ollama/pods"
POD = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x", "namespace": "ollama"}, "spec": {}}
TEMPLATE = {"template": {"spec": {"containers": [{"name": "scaler", "env": [{"name": "A", "value": "1"}]}]}}}


def serving_nightly() -> FakeKubernetes:
    fake = FakeKubernetes()
    nightly: dict[str, Any] = {
        "apiVersion": "batch/v1",
        "kind": "CronJob",
        "metadata": {"name": "nightly", "namespace": "ollama", "uid": "u-1"},
        "spec": {"schedule": "0 20 * * *", "suspend": True, "jobTemplate": {"spec": TEMPLATE}},
    }
    fake.answers |= {CRON_JOBS: {"items": [nightly]}, JOBS: {"metadata": {"name": "nightly-now-x"}}, f"{PODS}/x": POD}
    return fake


def test_a_cron_job_is_started_as_kubectl_does(tmp_path: Path) -> None:
    with serving(serving_nightly()) as fake, cluster(kubeconfig.read(fake.kubeconfig(tmp_path), None)) as found:
        assert found.start_cron_job("nightly", "ollama") == "nightly-now-x"
    [(path, job)] = fake.created
    assert path == JOBS
    owner = {"apiVersion": "batch/v1", "kind": "CronJob", "name": "nightly", "uid": "u-1", "controller": True}
    assert job["metadata"] == {
        "generateName": "nightly-now-",
        "namespace": "ollama",
        "annotations": {"cronjob.kubernetes.io/instantiate": "manual"},
        "ownerReferences": [owner],
    }
    assert job["spec"] == TEMPLATE


def test_each_of_two_clusters_gets_its_own_requests(tmp_path: Path) -> None:
    """kr8s sends a request without `api` to the first cluster, or to that of the user's own kubeconfig."""
    (tmp_path / "other").mkdir()
    with serving(serving_nightly()) as fake, serving(serving_nightly()) as other:
        one, two = (at.kubeconfig(folder) for at, folder in ((fake, tmp_path), (other, tmp_path / "other")))
        with cluster(kubeconfig.read(two, None)), cluster(kubeconfig.read(one, None)) as found:
            connected, before = len(fake.asked), len(other.asked)
            found.create_pod(POD)
            found.delete_pod("x", "ollama")
            found.start_cron_job("nightly", "ollama")
        asked = [path for path, _ in fake.asked[connected:]]
        assert [path for path in asked if path != CRON_JOBS] == [PODS, f"{PODS}/x", JOBS]
        assert len(other.asked) == before
