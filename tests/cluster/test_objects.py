"""A real API server accepts what our stacks emit."""

import time
from typing import Any

import pytest

from sharing import versions
from tests.cluster.deployment import Deployment, Graphs, manifests
from tests.control_plane.api import ApiError
from tests.control_plane.running import ControlPlane


def test_every_object_of_every_stack_is_accepted_and_applied_again_without_a_change(
    cluster: Deployment, graphs: Graphs, any_stack: str
) -> None:
    wanted = manifests(graphs(any_stack))
    assert {"Namespace", "StorageClass"} <= {one["kind"] for one in wanted}
    for one in wanted:
        cluster.api.apply(one)
    first = [applied(cluster, one) for one in wanted]
    time.sleep(1.1)  # The server writes the time of a change in whole seconds.
    assert [applied(cluster, one) for one in wanted] == first


def applied(cluster: Deployment, manifest: dict[str, Any]) -> list[Any]:
    """The fields of an object that the applying client owns, and since when; controllers may write other fields."""
    fields = cluster.api.apply(manifest)["metadata"]["managedFields"]
    return [field for field in fields if field["operation"] == "Apply"]


def test_a_misspelt_field_is_refused(cluster: Deployment, graphs: Graphs) -> None:
    [namespace] = [one for one in manifests(graphs("dev")) if one["metadata"]["name"] == "ollama"]
    with pytest.raises(ApiError, match="labelz"):
        cluster.api.apply({**namespace, "metadata": {"name": "ollama", "labelz": {}}}, dry_run=True)


def test_the_server_is_of_the_version_that_our_clusters_get(plane: ControlPlane) -> None:
    version = plane.api.call("GET", "/version")
    assert f"{version['major']}.{version['minor']}" == versions.KUBERNETES
