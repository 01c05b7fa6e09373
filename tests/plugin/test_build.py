"""What other languages send becomes the same arguments as in Python, or one sentence that says what is wrong."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from enum import Enum
from typing import Any

import pulumi
import pytest
from pulumi.provider.experimental.util import camel_case
from pydantic import BaseModel

import components
from components import GpuClusterArgs, OllamaModel, OllamaPairArgs, SpotGpuNodeGroupArgs, SpotJobArgs
from plugin.build import build
from plugin.provider import Provider, translate
from sandbox.preview.program import run
from sharing.arguments import IN_LANGUAGE
from sharing.modes.layouts import Slices
from sharing.modes.modes import Mig, Mps
from tests.components.conftest import ARGUMENTS


def sent(value: Any) -> Any:
    """The value as an SDK sends it: names in camelCase, numbers as floats, no None."""
    if isinstance(value, pulumi.Output):
        return value
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, BaseModel):
        return sent(value.model_dump())
    if is_dataclass(value):
        value = {field.name: getattr(value, field.name) for field in fields(value)}
        return {camel_case(name): sent(one) for name, one in value.items() if one is not None and one != ()}
    if isinstance(value, Mapping):
        return {key if "/" in key else camel_case(key): sent(one) for key, one in value.items() if one is not None}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [sent(one) for one in value]
    return float(value) if type(value) is int else value


@pytest.mark.parametrize("name", sorted(ARGUMENTS))
def test_the_arguments_of_a_component_arrive_as_they_were_sent(name: str) -> None:
    given = ARGUMENTS[name]("x")
    built = build(type(given), sent(given), name)
    assert type(built) is getattr(components, f"{name}Args")
    assert sent(built) == sent(given)


def test_whole_numbers_are_whole_again_wherever_they_are() -> None:
    pair = build(OllamaPairArgs, {"models": [{"model": "llama2:7b", "context": 2048.0, "slots": 2.0}]}, "OllamaPair")
    assert repr((pair.models[0].context, pair.models[0].slots)) == "(2048, 2)"
    layout = {"mode": "mig", "strategy": "mixed", "layout": [{"profile": "1g.24gb", "count": 2.0}], "replicas": 3.0}
    nodes = {"clusterName": "c", "subnetIds": ["s"], "instanceTypes": ["g7e.2xlarge"], "sharing": layout}
    made = build(SpotGpuNodeGroupArgs, nodes, "SpotGpuNodeGroup").sharing
    assert made == Mig(strategy="mixed", layout=[Slices(profile="1g.24gb", count=2)], replicas=3)


def test_a_model_of_your_own_and_a_name_both_arrive() -> None:
    own = {"name": "mine", "weightsBytes": 1e9, "layers": 2.0, "kvHeads": 2.0, "headDim": 64.0}
    rest = {"maxContext": 4096.0, "vocabulary": 32000.0, "source": "me"}
    assert build(OllamaModel, {"model": {**own, **rest}, "context": 2048.0}, "model").served.model.layers == 2
    assert build(OllamaModel, {"model": "llama2:7b"}, "model").served.model.name == "llama2:7b"


def test_checkpoints_are_those_whose_names_they_have() -> None:
    job = {"image": "i", "command": ["train"]}
    on_volume = build(SpotJobArgs, {**job, "checkpoints": {"zone": "z", "sizeGib": 5.0}}, "SpotJob").checkpoints
    assert on_volume == components.VolumeCheckpoints(zone="z", size_gib=5)
    bucket = {"clusterName": "c", "bucket": "b", "prefix": "p"}
    in_bucket = build(SpotJobArgs, {**job, "checkpoints": bucket}, "SpotJob").checkpoints
    assert in_bucket == components.BucketCheckpoints(cluster_name="c", bucket="b", prefix="p")


def test_an_output_stays_one_where_the_class_takes_it() -> None:
    subnets = pulumi.Output.from_input(["s"])
    values = {"clusterName": "c", "subnetIds": subnets, "sharing": {"mode": "mps", "replicas": 3.0}}
    built = build(SpotGpuNodeGroupArgs, values, "SpotGpuNodeGroup")
    assert built.subnet_ids is subnets
    assert built.sharing == Mps(replicas=3)


NODES = {"clusterName": "c", "subnetIds": ["s"], "sharing": {"mode": "mps"}}
WRONG = [
    (GpuClusterArgs, {}, "it.clusterName is missing. Pass it."),
    (
        GpuClusterArgs,
        {"clusterName": "c", "zoneName": ["a"]},
        "it has no argument 'zoneName'. Did you mean zoneNames",
    ),
    (
        GpuClusterArgs,
        {"clusterName": "c", "zones": pulumi.Output.from_input(2)},
        "it.zones depends on another resource, but decides what exists. Pass a plain value.",
    ),
    (
        SpotGpuNodeGroupArgs,
        {**NODES, "sharing": {"mode": "msp"}},
        "it.sharing.mode is 'msp', which is no sharing mode. Did you mean mps?",
    ),
    (
        SpotGpuNodeGroupArgs,
        {**NODES, "sharing": {"mode": "mps", "replcas": 2.0}},
        "it.sharing has no argument 'replcas'. Did you mean replicas?",
    ),
    (
        OllamaPairArgs,
        {"models": [{"model": "llama2:7b"}, {"models": "x"}]},
        "it.models[1] has no argument 'models'. Did you mean model?",
    ),
    (
        SpotJobArgs,
        {"image": "i", "command": ["train"], "checkpoints": {"bucket": "b", "prefixes": "p"}},
        "it.checkpoints has no argument 'prefixes'. Did you mean prefix?",
    ),
    # These stop in the class itself.
    (
        OllamaPairArgs,
        {"models": [{"model": "llama2:7b"}, {"model": "mistral:7b", "context": "2048"}]},
        "it.models[1]: OllamaModel.context must be a whole number or None, not '2048'.",
    ),
    (GpuClusterArgs, {"clusterName": "c", "zones": 2.5}, "GpuClusterArgs.zones must be a whole number, not 2.5."),
    (SpotGpuNodeGroupArgs, {**NODES, "sharing": {"mode": "mps", "replicas": 1.0}}, "it.sharing: Mps.replicas must be "),
    (SpotGpuNodeGroupArgs, {**NODES, "sharing": "mps"}, "SpotGpuNodeGroupArgs.sharing must be "),
]


@pytest.mark.parametrize(("kind", "values", "message"), WRONG)
def test_a_wrong_value_is_one_sentence_with_its_fix(kind: type, values: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(message)}"):
        build(kind, values, "it")


IN_OTHERS = [
    (
        "OllamaPairArgs.context must be a whole number or None, not '2048'. Pass a whole number or None.",
        "OllamaPair.context must be a whole number, not '2048'. Pass a whole number.",
    ),
    ("unknown model 'x'. Did you mean y? Or pass a `Model`.", "unknown model 'x'. Did you mean y?"),
    (
        'Pass `runs_on.instance_types=["g7e.2xlarge"]`, or `models[0].slots=1`.',
        'Pass `runsOn.instanceTypes: ["g7e.2xlarge"]`, or `models[0].slots: 1`.',
    ),
    ("Pass the nodes as `runs_on`.", "Pass `runsOn: { sharing, gpu, instanceTypes }`."),
]


@pytest.mark.parametrize(("message", "shown"), IN_OTHERS)
def test_a_message_has_the_words_of_other_languages(message: str, shown: str) -> None:
    assert translate(message) == shown


def test_an_error_of_a_component_is_one_of_its_inputs_in_the_words_of_the_programs_language() -> None:
    """The engine shows the text of this class alone; of any other, also the lines of this program."""
    before = IN_LANGUAGE.get()
    with pytest.raises(pulumi.InputPropertiesError, match=r"^OllamaPair\.models is empty\. Pass at least one\.$"):
        Provider().construct("mine", "tandem:index:OllamaPair", {"models": []})
    assert IN_LANGUAGE.get() is before
    with pytest.raises(pulumi.RunError, match=r"^tandem:index:Ollama is no component of tandem"):
        Provider().construct("mine", "tandem:index:Ollama", {})


def test_a_warning_has_the_words_of_the_programs_language() -> None:
    def program() -> None:
        values = {"models": [{"model": "llama2:7b"}]}
        Provider().construct("mine", "tandem:index:OllamaPair", values)

    [warning] = run(program, project="test", stack="test").logs
    assert warning.message.endswith("Pass `runsOn: { sharing, gpu, instanceTypes }`.")
