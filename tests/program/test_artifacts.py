"""No stack uses an image or a chart that is not in the table of `sharing/artifacts.py`."""

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest

from sandbox.graph import Graph, Resource, plain
from sharing import artifacts, versions
from tandem.verify import overfill

RELEASE = "kubernetes:helm.sh/v3:Release"
NFD = "{image.repository=registry.k8s.io/nfd/node-feature-discovery}:v0.19.0"


def operand(name: str, repository: str, image: str, version: str) -> str:
    """How the GPU Operator makes the reference of an operand (v26.7.0 clusterpolicy_types.go, imagePath)."""
    return f"{{{name}.repository={repository}}}/{{{name}.image={image}}}:{{{name}.version={version}}}"


OPERATOR_IMAGE = ("nvcr.io/nvidia", "gpu-operator", "v26.7.0")
PLUGIN_IMAGE = ("nvcr.io/nvidia", "k8s-device-plugin", "v0.20.0")
NVIDIA = "nvcr.io/nvidia"
BRINGS: dict[str, dict[str, tuple[bool, str]]] = {
    "nvidia-device-plugin": {
        "": (True, "{image.repository=nvcr.io/nvidia/k8s-device-plugin}:{image.tag=v0.20.0}"),
        "nfd.enabled": (True, "{nfd.image.repository=registry.k8s.io/nfd/node-feature-discovery}:v0.19.0"),
    },
    "node-feature-discovery": {"": (True, NFD)},
    "gpu-operator": {
        "": (True, operand("operator", *OPERATOR_IMAGE)),
        # Its init containers are in every operand's pod, and there is no key to turn it off.
        "validator.enabled": (True, operand("validator", *OPERATOR_IMAGE)),
        "devicePlugin.enabled": (True, operand("devicePlugin", *PLUGIN_IMAGE)),
        "gfd.enabled": (True, operand("gfd", *PLUGIN_IMAGE)),
        "migManager.enabled": (
            True,
            operand("migManager", f"{NVIDIA}/cloud-native", "k8s-mig-manager", "v0.15.0"),
        ),
        "dcgmExporter.enabled": (
            True,
            operand("dcgmExporter", f"{NVIDIA}/k8s", "dcgm-exporter", "4.6.0-4.8.3-distroless"),
        ),
        "dcgm.enabled": (False, operand("dcgm", f"{NVIDIA}/cloud-native", "dcgm", "4.6.0-1-ubuntu24.04")),
        "driver.enabled": (True, operand("driver", NVIDIA, "driver", "595.91.07")),
        "toolkit.enabled": (True, operand("toolkit", f"{NVIDIA}/k8s", "container-toolkit", "v1.20.0")),
        "nodeStatusExporter.enabled": (False, operand("nodeStatusExporter", *OPERATOR_IMAGE)),
        "nfd.enabled": (True, "registry.k8s.io/nfd/node-feature-discovery:v0.19.0"),
    },
    "dcgm-exporter": {"": (True, "{image.repository=nvcr.io/nvidia/k8s/dcgm-exporter}:4.5.3-4.8.2-distroless")},
    "victoria-metrics-single": {
        "": (
            True,
            "{server.image.registry=docker.io}/{server.image.repository=victoriametrics/victoria-metrics}:v1.150.0",
        )
    },
    "grafana": {
        "": (True, "{image.registry=docker.io}/{image.repository=grafana/grafana}:13.2.0"),
        "testFramework.enabled": (True, "docker.io/bats/bats:1.14.0"),
        "sidecar.dashboards.enabled": (False, "quay.io/kiwigrid/k8s-sidecar:2.10.1"),
        "persistence.enabled": (False, "docker.io/library/busybox:1.38.0"),
    },
    "keda": {
        "": (True, "{image.keda.registry=ghcr.io}/{image.keda.repository=kedacore/keda}:2.20.2"),
        "metricsServer.enabled": (True, "ghcr.io/kedacore/keda-metrics-apiserver:2.20.2"),
        "webhooks.enabled": (True, "ghcr.io/kedacore/keda-admission-webhooks:2.20.2"),
    },
    "keda-add-ons-http": {
        "": (True, "{images.interceptor=ghcr.io/kedacore/http-add-on-interceptor}:0.15.0"),
        "scaler.replicas": (True, "{images.scaler=ghcr.io/kedacore/http-add-on-scaler}:0.15.0"),
        "operator.replicas": (True, "ghcr.io/kedacore/http-add-on-operator:0.15.0"),
    },
    # The chart's values name its digest, too (templates/_helpers.tpl, karpenter.controller.image).
    "karpenter": {
        "": (
            True,
            "{controller.image.repository=public.ecr.aws/karpenter/controller}:1.14.1"
            "@sha256:445baefaaa689029cc12ac1f659b916b0b82fb14308ce536f8521fcf079116fa",
        )
    },
    "karpenter-crd": {},
    "ollama": {
        "": (True, "{image.repository=docker.io/ollama/ollama}:{image.tag=0.32.15}"),
        "tests.enabled": (True, "docker.io/library/busybox:latest"),
    },
}
"""Images of each chart: the value that turns it on, whether the chart has it on, and the image, with the value and the
default of each part. Read in the values.yaml and the templates of the charts at these versions. The operator starts
DCGM, the sandbox workloads and the drivers of vGPU only where they are turned on, or where a node's label asks for them
(controllers/state_manager.go, isStateEnabled)."""


def value(values: Any, path: str, default: Any) -> Any:
    for key in path.split("."):
        if not isinstance(values, Mapping) or key not in values:
            return default
        values = values[key]
    return values


def filled(image: str, values: Any) -> str:
    """The reference that a chart makes of these values."""
    return re.sub(r"\{([^=}]+)=([^}]*)\}", lambda part: str(value(values, part[1], part[2])), image)


def images_of(release: Resource) -> Iterator[str]:
    """The images of a release's pods, by the chart's defaults and our values."""
    inputs = plain(release.inputs)
    values = inputs.get("values") or {}
    chart = str(inputs["chart"]).rpartition("/")[2]
    for path, (default, image) in BRINGS[chart].items():
        if not path or value(values, path, default):
            yield filled(image, values)
    yield from named(values)


def named(inputs: Any) -> Iterator[str]:
    """Images that containers in values name."""
    if isinstance(inputs, Mapping):
        for key, inner in inputs.items():
            if key == "image" and isinstance(inner, str):
                yield inner
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


TABLE = {each.reference for each in artifacts.known() if each.kind == "image"}
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
    bringing = {
        chart
        for chart, all_ in BRINGS.items()
        for _, image in all_.values()
        if filled(image, {}).partition("@")[0] == reference
    }
    # Node feature discovery is its own release, and is off in the charts that contain it.
    if artifact.name.endswith("/node-feature-discovery"):
        bringing = {"node-feature-discovery"}
    assert {*artifact.charts} == bringing
