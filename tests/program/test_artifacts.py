"""No stack uses an image or a chart that is not in the table of `sharing/artifacts.py`."""

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest

from sandbox.graph import Graph, Resource, plain
from sharing import artifacts, versions
from tandem.verify import overfill

RELEASE = "kubernetes:helm.sh/v3:Release"
PLUGIN = "nvcr.io/nvidia/k8s-device-plugin:v0.20.0"
BRINGS: dict[str, dict[str, tuple[bool, str]]] = {
    "nvidia-device-plugin": {
        "": (True, PLUGIN),
        "nfd.enabled": (True, "registry.k8s.io/nfd/node-feature-discovery:v0.19.0"),
    },
    "node-feature-discovery": {"": (True, "registry.k8s.io/nfd/node-feature-discovery:v0.19.0")},
    "gpu-operator": {
        "": (True, "nvcr.io/nvidia/gpu-operator:v26.7.0"),
        "devicePlugin.enabled": (True, PLUGIN),
        "gfd.enabled": (True, PLUGIN),
        "migManager.enabled": (True, "nvcr.io/nvidia/cloud-native/k8s-mig-manager:v0.15.0"),
        "dcgmExporter.enabled": (True, "nvcr.io/nvidia/k8s/dcgm-exporter:4.6.0-4.8.3-distroless"),
        "dcgm.enabled": (False, "nvcr.io/nvidia/cloud-native/dcgm:4.6.0-1-ubuntu24.04"),
        "driver.enabled": (True, "nvcr.io/nvidia/driver:595.91.07"),
        "toolkit.enabled": (True, "nvcr.io/nvidia/k8s/container-toolkit:v1.20.0"),
        "nfd.enabled": (True, "registry.k8s.io/nfd/node-feature-discovery:v0.19.0"),
    },
    "dcgm-exporter": {"": (True, "nvcr.io/nvidia/k8s/dcgm-exporter:4.5.3-4.8.2-distroless")},
    "victoria-metrics-single": {"": (True, "docker.io/victoriametrics/victoria-metrics:v1.150.0")},
    "grafana": {
        "": (True, "docker.io/grafana/grafana:13.2.0"),
        "testFramework.enabled": (True, "docker.io/bats/bats:1.14.0"),
        "sidecar.dashboards.enabled": (False, "quay.io/kiwigrid/k8s-sidecar:2.10.1"),
        "persistence.enabled": (False, "docker.io/library/busybox:1.38.0"),
    },
    "keda": {
        "": (True, "ghcr.io/kedacore/keda:2.20.2"),
        "metricsServer.enabled": (True, "ghcr.io/kedacore/keda-metrics-apiserver:2.20.2"),
        "webhooks.enabled": (True, "ghcr.io/kedacore/keda-admission-webhooks:2.20.2"),
    },
    "keda-add-ons-http": {
        "": (True, "ghcr.io/kedacore/http-add-on-interceptor:0.15.0"),
        "scaler.replicas": (True, "ghcr.io/kedacore/http-add-on-scaler:0.15.0"),
        "operator.replicas": (True, "ghcr.io/kedacore/http-add-on-operator:0.15.0"),
    },
    "karpenter": {"": (True, "public.ecr.aws/karpenter/controller:1.14.1")},
    "karpenter-crd": {},
    "ollama": {},
}
"""Images of each chart: the value that turns it on, whether the chart has it on, and the image. Read in the values.yaml
of the charts at these versions. Ollama's is named by our values, and is found there. The operator starts DCGM, the
sandbox workloads and the drivers of vGPU only where they are turned on, or where a node's label asks for them."""


def value(values: Any, path: str, default: bool) -> bool:
    for key in path.split("."):
        if not isinstance(values, Mapping) or key not in values:
            return default
        values = values[key]
    return bool(values)


def images_of(release: Resource) -> Iterator[str]:
    """The images of a release's pods, by the chart's defaults and our values."""
    inputs = plain(release.inputs)
    values = inputs.get("values") or {}
    chart = str(inputs["chart"]).rpartition("/")[2]
    for path, (default, image) in BRINGS[chart].items():
        if not path or value(values, path, default):
            yield image
    if chart == "ollama":
        yield f"docker.io/ollama/ollama:{values['image']['tag']}"
    yield from named(values)


def named(inputs: Any) -> Iterator[str]:
    """Images that inputs name in full, at any depth."""
    if isinstance(inputs, Mapping):
        for key, inner in inputs.items():
            if key == "image" and isinstance(inner, str):
                yield inner
            elif key in ("repository", "registry", "digest", "version"):
                raise AssertionError(f"{key} of an image is set, which this test does not read")
            else:
                yield from named(inner)
    elif isinstance(inputs, list | tuple):
        for inner in inputs:
            yield from named(inner)


def images(graph: Graph) -> set[str]:
    found: set[str] = set()
    for resource in graph:
        if resource.type == RELEASE:
            found |= set(images_of(resource))
        elif resource.type.startswith("kubernetes:"):
            found |= set(re.findall(r"'image': '([^']+)'", str(plain(resource.inputs))))
    return found


def charts(graph: Graph) -> set[tuple[str, str]]:
    found = set()
    for release in graph.of_type(RELEASE):
        inputs = plain(release.inputs)
        repository = (inputs.get("repositoryOpts") or {}).get("repo")
        name = f"{repository}/{inputs['chart']}" if repository else inputs["chart"]
        found.add((str(name), str(inputs["version"])))
    return found


TABLE = {
    f"{each.name}:{each.version}" if each.pinned_by == "version" else each.reference
    for each in artifacts.known()
    if each.kind == "image"
}
CHARTS = {(each.name, each.version) for each in artifacts.known() if each.kind == "chart"}


@pytest.mark.slow
def test_no_image_and_no_chart_is_outside_the_table(graphs: Callable[[str], Graph], any_stack: str) -> None:
    graph = graphs(any_stack)
    assert charts(graph) <= CHARTS
    found = images(graph)
    assert found - TABLE == set()
    assert {f"docker.io/ollama/ollama:{versions.OLLAMA_IMAGE_TAG}", versions.PROBER_IMAGE} & found


@pytest.mark.slow
def test_everything_in_the_table_is_used(graphs: Callable[[str], Graph]) -> None:
    """One of six stacks, or `tandem verify --overfill`, uses each entry."""
    used = {overfill.IMAGE}
    pulled: set[tuple[str, str]] = set()
    for stack in ("timeslice", "mig", "karpenter", "ui", "monitored", "karpenter-idle"):
        used |= images(graphs(stack))
        pulled |= charts(graphs(stack))
    assert used == TABLE
    assert pulled == CHARTS


@pytest.mark.parametrize("artifact", artifacts.known(), ids=lambda each: each.name)
def test_a_row_has_a_digest_or_says_why_not(artifact: artifacts.Artifact) -> None:
    if artifact.digest:
        assert re.fullmatch(r"sha256:[0-9a-f]{64}", artifact.digest)
    else:
        assert artifact.source.startswith("none: ")
        assert artifact.pinned_by == "version"


@pytest.mark.parametrize("artifact", [each for each in artifacts.known() if each.charts], ids=lambda each: each.name)
def test_the_charts_of_an_image_are_those_that_contain_it(artifact: artifacts.Artifact) -> None:
    reference = f"{artifact.name}:{artifact.version}"
    bringing = {chart for chart, all_ in BRINGS.items() for path, (_, image) in all_.items() if image == reference}
    # Node feature discovery is its own release, and is off in the charts that contain it.
    if artifact.name.endswith("/node-feature-discovery"):
        bringing = {"node-feature-discovery"}
    assert {*artifact.charts} == (bringing or {"ollama"})
