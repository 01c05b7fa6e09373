from typing import Any

import pytest

from sandbox.cloud.answers import Cloud
from sandbox.cloud.protocol import Created, Creation


def created(token: str, *, provider: Any = None, **inputs: Any) -> Created:
    creation = Creation(type=f"kubernetes:{token}", name="x", inputs=inputs, provider=provider or {})
    return Cloud().created(creation)


def test_an_object_without_a_name_gets_one() -> None:
    one = created("core/v1:ConfigMap", metadata={"labels": {"a": "b"}}, data={"k": "v"})
    assert one.outputs["metadata"] == {"labels": {"a": "b"}, "name": "x-0000000", "namespace": "default"}
    assert one.outputs["data"] == {"k": "v"}
    assert one.id == "default/x-0000000"


def test_an_object_keeps_its_name_and_namespace() -> None:
    one = created("core/v1:ConfigMap", metadata={"name": "own", "namespace": "mine"})
    assert one.id == "mine/own"


@pytest.mark.parametrize(
    "token",
    [
        "core/v1:Namespace",
        "core/v1:PersistentVolume",
        "storage.k8s.io/v1:StorageClass",
        "karpenter.sh/v1:NodePool",
        "karpenter.k8s.aws/v1:EC2NodeClass",
    ],
)
def test_what_belongs_to_the_whole_cluster_gets_no_namespace(token: str) -> None:
    one = created(token, metadata={"name": "own"})
    assert one.outputs["metadata"] == {"name": "own"}
    assert one.id == "own"


def test_a_claim_is_bound() -> None:
    assert created("core/v1:PersistentVolumeClaim").outputs["status"] == {"phase": "Bound"}


def test_a_release_is_deployed_under_its_name_in_its_namespace() -> None:
    inputs = {"name": "plugin", "namespace": "kube-system", "chart": "nvidia-device-plugin", "version": "0.17.4"}
    one = created("helm.sh/v3:Release", **inputs)
    assert one.id == "kube-system/plugin"
    assert one.outputs["status"].items() >= {"status": "deployed", **inputs}.items()
    assert one.outputs["resourceNames"] == {}


def test_a_release_without_a_name_gets_one() -> None:
    one = created("helm.sh/v3:Release", chart="c")
    assert one.outputs["name"] == one.outputs["status"]["name"] == "x-0000000"
