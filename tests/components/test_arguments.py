"""The forms in which every component takes its arguments: those of `pulumi_eks`, and one sentence for a wrong one."""

from collections.abc import Callable
from dataclasses import MISSING, asdict, fields, is_dataclass
from typing import Any

import pulumi
import pytest

import components
import tandem
from sandbox.graph import plain
from sandbox.preview.program import run
from sharing.modes.base import Mode
from sharing.modes.modes import Mps
from tandem import BucketCheckpoints, GpuClusterArgs, Model, Share, VolumeCheckpoints
from tests.components.conftest import ARGUMENTS

OURS: Any = tandem
"""Without types: type checkers refuse most of the errors below, and dictionaries within an instance of `…Args`."""
DATACLASSES = sorted(name for name in OURS.__all__ if is_dataclass(getattr(tandem, name)))
NO_ARGUMENTS = {"Verdict", "ModelMemory"}
"""Values that `check` returns, and programs do not construct."""


def by_name(args: Any) -> dict[str, Any]:
    """The arguments of an instance, those without a value left out."""
    return {field.name: getattr(args, field.name) for field in fields(args)}


def in_dictionaries(value: Any) -> Any:
    """The value with a dictionary for each instance of ours within it."""
    if is_dataclass(value) and type(value).__module__.startswith("components"):
        return {name: in_dictionaries(item) for name, item in by_name(value).items()}
    if isinstance(value, Mode):
        return {name: item for name, item in value.model_dump().items() if item is not None}
    if isinstance(value, list | tuple):
        return [in_dictionaries(item) for item in value]
    if isinstance(value, dict):
        return {key: in_dictionaries(item) for key, item in value.items()}
    return value


FORMS: dict[str, Callable[[Any, Any], Any]] = {
    "an instance": lambda kind, args: kind("one", args),
    "an instance by name": lambda kind, args: kind("one", args=args, opts=None),
    "a dictionary": lambda kind, args: kind("one", in_dictionaries(args)),
    "by name": lambda kind, args: kind("one", **in_dictionaries(args)),
    # As `eks.Cluster("mine", opts=…, vpc_id=…)`: pulumi_eks 4 cluster.py, the second overload of `Cluster.__init__`.
    "by name with options": lambda kind, args: kind("one", opts=pulumi.ResourceOptions(), **by_name(args)),
}


def made(kind: str, form: str) -> dict[str, Any]:
    """What a component registers. Outputs belong to one run, so each has arguments of its own."""

    def program() -> None:
        FORMS[form](getattr(components, kind), ARGUMENTS[kind]("one"))

    graph = run(program, project="test", stack="test")
    return {resource.urn: (plain(resource.inputs), resource.parent) for resource in graph}


@pytest.mark.parametrize("kind", sorted(ARGUMENTS))
def test_every_component_takes_its_arguments_in_each_form(kind: str) -> None:
    usual = made(kind, "an instance")
    assert len(usual) > 1
    for form in list(FORMS)[1:]:
        assert made(kind, form) == usual, form


@pytest.mark.parametrize("name", sorted({*DATACLASSES} - NO_ARGUMENTS))
def test_every_public_class_refuses_a_wrong_name_with_one_sentence(name: str) -> None:
    kind = getattr(tandem, name)
    known = [field.name for field in fields(kind)]
    with pytest.raises(ValueError, match=rf"^{name} has no argument '{known[0]}z'\. Did you mean .*{known[0]}.*\?$"):
        kind(**{f"{known[0]}z": 1})
    needed = [field.name for field in fields(kind) if field.default is field.default_factory is MISSING]
    if needed:
        with pytest.raises(ValueError, match=rf"^{name}\.{needed[0]} is missing\. Pass it\.$"):
            kind()
    with pytest.raises(
        ValueError, match=rf"^{name} takes \d arguments? without a name, not 9\. Pass the rest by name, "
    ):
        kind(*range(9))


class Bare:
    """An object without a `repr` of its own, like a resource."""


REFUSED: dict[str, tuple[Callable[[], object], str]] = {
    "an unknown name": (
        lambda: OURS.OllamaPair("p", modelss=[]),
        "OllamaPairArgs has no argument 'modelss'. Did you mean models?",
    ),
    "a missing one": (lambda: OURS.OllamaPair("p"), "OllamaPairArgs.models is missing. Pass it."),
    "an unknown name in a dictionary of a list": (
        lambda: OURS.OllamaPair("p", models=[{"model": "llama2:7b"}, {"model": "mistral:7b", "contxt": 2048}]),
        "OllamaPairArgs.models[1]: OllamaModel has no argument 'contxt'. Did you mean context?",
    ),
    "a wrong value in a dictionary": (
        lambda: OURS.OllamaPair("p", {"models": [{"model": "llama2:7b", "share": {"memory_gib": 0}}]}),
        "OllamaPairArgs.models[0]: OllamaModel.share: Share.memory_gib must be greater than 0, not 0. "
        "Pass more than 0.",
    ),
    "a wrong type": (
        lambda: OURS.OllamaPair("p", models=["llama2:7b"]),
        'OllamaPairArgs.models[0] must be OllamaModel, not \'llama2:7b\'. Pass {"model": "llama2:7b"}.',
    ),
    "no arguments at all": (
        lambda: OURS.OllamaPair("p", 5),
        "int is neither OllamaPairArgs nor a dictionary. Pass `OllamaPairArgs(…)`.",
    ),
    "arguments in two ways": (
        lambda: OURS.OllamaPair("p", OURS.OllamaPairArgs(models=[OURS.OllamaModel("llama2:7b")]), namespace="mine"),
        "OllamaPairArgs is passed, and namespace by name. Pass all arguments in one way.",
    ),
    "options without their name": (
        lambda: OURS.OllamaPair("p", pulumi.ResourceOptions(), models=[]),
        "ResourceOptions is neither OllamaPairArgs nor a dictionary. Pass options as `opts`.",
    ),
    "an argument twice": (
        lambda: OURS.OllamaModel("llama2:7b", model="mistral:7b"),
        "OllamaModel.model is passed twice. Pass it once.",
    ),
    "an unknown mode": (
        lambda: OURS.PoolSharing(sharing={"mode": "timeslce"}, gpu="t4"),
        "PoolSharing.sharing.mode is 'timeslce', which is unknown. Did you mean timeslice?",
    ),
    "no mode": (
        lambda: OURS.PoolSharing(sharing={"replicas": 2}, gpu="t4"),
        "PoolSharing.sharing.mode is missing. Known: exclusive, timeslice, mig, mps.",
    ),
    "a setting of a mode": (
        lambda: OURS.PoolSharing(sharing={"mode": "mps", "replica": 2}, gpu="t4"),
        "PoolSharing.sharing: Mps has no argument 'replica'. Did you mean replicas?",
    ),
    "a mode's number": (
        lambda: OURS.TimeSlicing(replicas=1),
        "TimeSlicing.replicas must be greater than or equal to 2, not 1. Pass 2 or more.",
    ),
    "a mode's argument without a name": (
        lambda: OURS.TimeSlicing(2),
        "TimeSlicing takes arguments by name only. Pass `limits=…`, for example.",
    ),
    "other nodes": (
        lambda: OURS.OllamaPairArgs(models=[OURS.OllamaModel("llama2:7b")], runs_on="gpu"),
        "OllamaPairArgs.runs_on must be GPU nodes such as a SpotGpuNodeGroup, their PoolSharing, a list of these or "
        "None, not 'gpu'. Pass GPU nodes such as a SpotGpuNodeGroup, their PoolSharing, a list of these or None.",
    ),
    "an object of another kind": (
        lambda: OURS.OllamaPairArgs(models=[OURS.ModelClients()]),
        "OllamaPairArgs.models[0] must be OllamaModel, not ModelClients(namespaces=(), labels={}). Pass OllamaModel.",
    ),
    "a resource of another kind": (
        lambda: OURS.OllamaPair("p", models=[OURS.OllamaModel("llama2:7b")], clients=Bare()),
        "OllamaPairArgs.clients must be ModelClients, not Bare. Pass ModelClients.",
    ),
    "no nodes at all": (
        lambda: OURS.OllamaPairArgs(models=[OURS.OllamaModel("llama2:7b")], runs_on=[]),
        "OllamaPairArgs.runs_on has no pool. Pass the nodes of the models.",
    ),
    "two pools of one name": (
        lambda: OURS.OllamaPairArgs(
            models=[OURS.OllamaModel("llama2:7b")],
            runs_on=[{"sharing": {"mode": "exclusive"}, "gpu": gpu} for gpu in ("t4", "l4")],
        ),
        "OllamaPairArgs.runs_on[1].pool: gpu is the name of another pool. Give each pool its own name.\n"
        "OllamaPairArgs.models[0].pool: is missing, and the stack has several pools. Write the name of a pool. "
        "Known: gpu.",
    ),
    "types with another GPU": (
        lambda: OURS.PoolSharing(sharing=OURS.TimeSlicing(), gpu="t4", instance_types=["g6.xlarge"]),
        'PoolSharing.instance_types has g6.xlarge with L4, but `gpu` is t4. Pass gpu="l4", or other types.',
    ),
    "a mode's name in place of its settings": (
        lambda: OURS.PoolSharing(sharing="timeslice", gpu="t4"),
        "PoolSharing.sharing must be Exclusive or TimeSlicing or Mig or Mps, not 'timeslice'. "
        'Pass {"mode": "timeslice"}.',
    ),
    "a text among models": (
        lambda: OURS.OllamaPair("p", models=[{"model": "llama2:7b"}, "mistral:7b"]),
        'OllamaPairArgs.models[1] must be OllamaModel, not \'mistral:7b\'. Pass {"model": "mistral:7b"}.',
    ),
    "a registry that is no text": (
        lambda: OURS.pull_from(5),
        "registry must be text or None, not 5. Pass 'registry.example.com/tandem'.",
    ),
    "no nodes": (
        lambda: OURS.PoolSharing(sharing=OURS.TimeSlicing(), gpu="t4", max_nodes=0),
        "PoolSharing.max_nodes is 0, but the minimum is 1. Pass 1 or more.",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_wrong_argument_is_one_sentence(name: str) -> None:
    construct, message = REFUSED[name]
    with pytest.raises(ValueError, match=r"\. ") as refused:
        construct()
    assert str(refused.value) == message


def test_no_registry_means_the_public_ones() -> None:
    def program() -> None:
        OURS.OllamaPair("p", models=[{"model": "llama2:7b"}], opts=pulumi.ResourceOptions(transformations=[pull(None)]))

    pull = OURS.pull_from
    [release] = run(program, project="test", stack="test").of_type("kubernetes:helm.sh/v3:Release")
    assert release.inputs["chart"] == "ollama"


def test_a_dictionary_becomes_the_class_that_has_its_keys() -> None:
    job: dict[str, Any] = {"image": "i", "command": ["train"]}
    assert OURS.SpotJobArgs(**job, checkpoints={"zone": "z"}).checkpoints == VolumeCheckpoints(zone="z")
    bucket: dict[str, Any] = {"cluster_name": "c", "bucket": "b", "prefix": "train"}
    assert OURS.SpotJobArgs(**job, checkpoints=bucket).checkpoints == BucketCheckpoints(
        cluster_name="c", bucket="b", prefix="train"
    )
    shared = OURS.PoolSharing(sharing={"mode": "mps", "replicas": 3}, gpu="t4")
    assert shared.sharing == Mps(replicas=3)
    model = OURS.OllamaModel("llama2:7b", share={"memory_gib": 9})
    assert model.share == Share(memory_gib=9)


def test_a_model_of_ones_own_may_be_a_dictionary() -> None:
    model = OURS.OllamaModel("llama2:7b").served.model
    assert OURS.OllamaModel(asdict(model)).served.model == model
    with pytest.raises(ValueError, match=r"^OllamaModel\.model: Model\.weights_bytes is missing\. Pass it\.$"):
        OURS.OllamaModel({"name": "mine"})
    assert isinstance(model, Model)


def test_a_mapping_keeps_its_class() -> None:
    """`StackTags` are the program's own, and judged otherwise."""
    tags = tandem.GpuClusterArgs(cluster_name="c", tags={"a": "b"}).tags
    assert GpuClusterArgs(cluster_name="c", tags=tags).tags is tags
