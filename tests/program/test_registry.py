"""With `registry`, no image and no chart comes from anywhere else, and `tandem images` lists what must be there."""

import re
from collections.abc import Callable
from typing import Any

import pulumi
import pytest

from sandbox.graph import Graph, plain
from sandbox.preview.program import run
from sharing import artifacts
from stacks.stack_file.judge import Plan
from tandem import OllamaModel, OllamaPair, OllamaPairArgs, SpotJob, SpotJobArgs, pull_from
from tandem.images.listing import OVERFILL, list_artifacts
from tests.program.conftest import graph_with
from tests.program.test_artifacts import RELEASE, charts, images

REGISTRY = "registry.example.com:5000/team/tandem"
CHARTS = f"oci://{REGISTRY}/charts/"


def without_host(reference: str) -> str:
    """The repository with tag and digest: every image here names its host."""
    return reference.partition("/")[2]


@pytest.mark.slow
def test_everything_comes_from_the_registry(graphs: Callable[[str], Graph], any_stack: str) -> None:
    public, private = graphs(any_stack), graph_with(any_stack, {"registry": REGISTRY})
    assert len(private) == len(public)
    # The same repositories, tags and digests in another place: none is left, and none is lost.
    assert images(private) == {f"{REGISTRY}/{without_host(image)}" for image in images(public)}
    names = {name.rpartition("/")[2] for name, _ in charts(public)}
    assert {name for name, _ in charts(private)} == {f"{CHARTS}{name}" for name in names}
    assert {version for _, version in charts(private)} == {version for _, version in charts(public)}
    assert not [each.name for each in private.of_type(RELEASE) if plain(each.inputs).get("repositoryOpts")]


@pytest.mark.slow
def test_the_list_has_exactly_what_the_program_deploys(
    graphs: Callable[[str], Graph], plans: Callable[[str], Plan], any_stack: str
) -> None:
    """Also without the table: `images` and `charts` read the values of the charts themselves."""
    graph = graphs(any_stack)
    listed = [one for one, users in list_artifacts(plans(any_stack)).items() if users != [OVERFILL]]
    assert {one.reference for one in listed if one.kind == "image"} == images(graph)
    assert {(one.name, one.version) for one in listed if one.kind == "chart"} == charts(graph)


def test_a_registry_changes_no_more_than_references(graphs: Callable[[str], Graph]) -> None:
    """Everything else is as before, so that a stack of today can move to a registry."""

    def others(graph: Graph) -> str:
        text = str([(each.urn, plain(each.inputs)) for each in graph if each.type != RELEASE])
        return re.sub(r"'image': '[^']*python:", "'image': 'python:", text)

    # Without MPS, no taint depends on the plugin's release.
    assert others(graph_with("timeslice", {"registry": REGISTRY})) == others(graphs("timeslice"))


def test_under_mps_a_registry_evicts_the_models_before_the_plugin_restarts(graphs: Callable[[str], Graph]) -> None:
    """A restarted plugin restarts the MPS daemon, and models that keep running lose their GPU."""

    def keepers(graph: Graph) -> Any:
        [once] = [each for each in graph if each.name == "tandem-gpu-mode"]
        return plain(once.inputs)["keepers"]

    before, after = keepers(graphs("mps")), keepers(graph_with("mps", {"registry": REGISTRY}))
    assert {key for key in before if before[key] != after[key]} == {"plugin"}


def test_no_two_images_and_no_two_charts_have_one_place_in_a_registry() -> None:
    copies: dict[tuple[str, str], set[str]] = {}
    for artifact in artifacts.known():
        copies.setdefault((artifact.copy_in(REGISTRY), artifact.version), set()).add(artifact.name)
    assert not [names for names in copies.values() if len(names) > 1]


def in_program(declare: Callable[[pulumi.ResourceOptions], object]) -> Graph:
    options = pulumi.ResourceOptions(transformations=[pull_from(REGISTRY)])
    return run(lambda: declare(options), project="p", stack="s")


def test_a_program_of_its_own_takes_components_from_a_registry() -> None:
    models = [OllamaModel("llama2:7b", values={"image": {"pullPolicy": "Always"}})]
    graph = in_program(lambda options: OllamaPair("models", OllamaPairArgs(models=models), options))
    [release] = graph.of_type(RELEASE)
    assert release.inputs["chart"] == f"{CHARTS}ollama"
    assert release.inputs["values"]["image"]["repository"] == f"{REGISTRY}/ollama/ollama"
    assert release.inputs["values"]["image"]["pullPolicy"] == "Always"


def test_values_of_a_program_come_last() -> None:
    models = [OllamaModel("llama2:7b", values={"image": {"repository": "mine.example.com/ollama"}})]
    graph = in_program(lambda options: OllamaPair("models", OllamaPairArgs(models=models), options))
    assert graph.of_type(RELEASE)[0].inputs["values"]["image"]["repository"] == "mine.example.com/ollama"


def test_an_image_of_the_user_stays_where_it_is() -> None:
    args = SpotJobArgs(image="docker.io/mine/train:1", command=["train"])
    graph = in_program(lambda options: SpotJob("job", args, options))
    assert images(graph) == {"docker.io/mine/train:1"}


@pytest.mark.parametrize("wrong", ["", "https://registry.example.com", "acme/tandem"])
def test_a_program_gets_an_error_for_a_wrong_registry(wrong: str) -> None:
    with pytest.raises(ValueError, match=r"is not a host and a path in small letters\. Pass '.+'\.$"):
        pull_from(wrong)
