"""The schema has every argument of every public component, as its class and its docstrings have them."""

import inspect
import json
import re
from collections.abc import Iterator
from dataclasses import MISSING, fields, is_dataclass
from pathlib import Path
from typing import Any

import pulumi
import pytest
from pulumi.provider.experimental.util import camel_case

import components
from plugin.names import default_of

SCHEMA = json.loads((Path(__file__).parents[2] / "plugin" / "schema.json").read_text(encoding="utf-8"))
PUBLIC = {name: getattr(components, name) for names in components.PUBLIC.values() for name in names}
CLASSES = {name: made for name, made in PUBLIC.items() if isinstance(made, type)}
SERVED = sorted(name for name, made in CLASSES.items() if issubclass(made, pulumi.ComponentResource))
UNITS = {
    "Bytes": "bytes|tensors|state|weights",
    "Gib": "GiB",
    "Mib": "MiB",
    "Millis": "thousandths|millicores",
    "Minutes": "[Mm]inutes|time",
    "Percent": "[Pp]art of|per cent|%",
    "PerHour": "USD per hour",
    "Seconds": "[Ss]econds",
    "Usd": "USD",
}
"""Ends of names that have a unit, and what their meaning must say."""


def type_named(name: str) -> Any:
    return SCHEMA["types"][f"tandem:index:{name}"]


def described(name: str) -> Any:
    """The arguments of a class: those of a component are in its resource."""
    component = name.removesuffix("Args")
    return SCHEMA["resources"][f"tandem:index:{component}"] if component in SERVED else type_named(name)


def properties_of(name: str) -> Any:
    found = described(name)
    return found.get("inputProperties", found.get("properties"))


def properties() -> Iterator[tuple[str, Any]]:
    """Every property of the schema, with its place."""
    for token, resource in SCHEMA["resources"].items():
        yield from ((f"{token}.{name}", one) for name, one in resource["inputProperties"].items())
        yield from ((f"{token}->{name}", one) for name, one in resource["properties"].items())
    for token, made in SCHEMA["types"].items():
        yield from ((f"{token}.{name}", one) for name, one in made.get("properties", {}).items())


def test_every_public_component_is_served() -> None:
    assert [f"tandem:index:{name}" for name in SERVED] == sorted(SCHEMA["resources"])


def is_for_python_alone(parameter: inspect.Parameter) -> bool:
    return "pulumi.resource.Resource" in str(parameter.annotation)


@pytest.mark.parametrize("name", sorted(name for name in CLASSES if name not in SERVED))
def test_the_schema_has_the_arguments_of_a_class_and_requires_those_without_a_default(name: str) -> None:
    found = described(name)
    given = {
        camel_case(each): parameter
        for each, parameter in inspect.signature(CLASSES[name]).parameters.items()
        if not is_for_python_alone(parameter)
    }
    assert [*properties_of(name)] == [*given]
    required = [each for each, parameter in given.items() if parameter.default is inspect.Parameter.empty]
    assert found.get("requiredInputs", found["required"]) == required


@pytest.mark.parametrize("name", sorted(name for name, made in CLASSES.items() if is_dataclass(made)))
def test_the_meaning_of_an_argument_ends_with_its_default(name: str) -> None:
    """The reference has the same texts. Where they have no default, it is nothing, 0 or empty."""
    for field in fields(CLASSES[name]):
        default, shown = default_of(field), properties_of(name).get(camel_case(field.name))
        if default is MISSING or shown is None:
            continue
        if is_dataclass(default):
            default = {part: value for part, value in vars(default).items() if value}
        if text := re.search(r"Default: `(.*)`\.$", shown["description"]):
            assert json.loads(text[1]) == ([*default] if isinstance(default, tuple) else default), field.name
        else:
            assert not default, field.name


def test_a_property_has_a_meaning_and_its_unit_and_no_python() -> None:
    for place, prop in properties():
        meaning = prop["description"].partition("Default: `")[0]
        assert len(meaning.split()) >= 2, f"no docstring below the attribute of {place}"
        for end, unit in UNITS.items():
            if place.endswith(end):
                assert re.search(unit, meaning), f"the docstring does not name the unit of {place}"
        assert not re.search(r"\bNone\b|`(True|False)`|`\[?[A-Z]\w+\(", meaning), place


EXPECTED = [
    # Written by hand: name, what the schema says about its type, and the end of its meaning.
    ("GpuCluster", "nat", {"$ref": "#/types/tandem:index:Nat", "plain": True}, 'Default: `"single"`.'),
    ("GpuCluster", "zones", {"type": "integer", "plain": True}, "Default: `2`."),
    (
        "GpuCluster",
        "publicAccessCidrs",
        {"type": "array", "items": {"type": "string", "plain": True}, "plain": True},
        'Default: `["0.0.0.0/0"]`.',
    ),
    # Where it comes from another resource, it is no plain value.
    ("SpotGpuNodeGroup", "subnetIds", {"type": "array", "items": {"type": "string"}}, "lacks one of its types."),
    ("SpotGpuNodeGroup", "sharing", {"$ref": "#/types/tandem:index:Sharing", "plain": True}, "also a label."),
    (
        "ScheduledParking",
        "nodeGroups",
        {
            "type": "object",
            "additionalProperties": {"$ref": "#/types/tandem:index:ParkedNodeGroup"},
            "plain": True,
        },
        "Default: `{}`.",
    ),
]


@pytest.mark.parametrize(("component", "name", "shape", "end"), EXPECTED)
def test_the_schema_has_type_and_default(component: str, name: str, shape: dict[str, Any], end: str) -> None:
    found = dict(SCHEMA["resources"][f"tandem:index:{component}"]["inputProperties"][name])
    assert found.pop("description").endswith(end)
    assert found == shape


def test_outputs_are_values_and_those_that_can_lack_one_are_optional() -> None:
    cluster = SCHEMA["resources"]["tandem:index:GpuCluster"]
    values = ["clusterName", "kubeconfig", "nodeSubnetIds", "zoneNames", "securityGroupId"]
    assert [*cluster["properties"]] == cluster["required"] == values
    monitoring = SCHEMA["resources"]["tandem:index:Monitoring"]
    assert ([*monitoring["properties"]], monitoring["required"]) == (["url", "adminPassword"], [])


def test_values_of_a_choice_have_names_in_the_style_of_other_languages() -> None:
    assert type_named("Nat") == {
        "type": "string",
        "enum": [
            {"name": "None", "value": "none"},
            {"name": "Single", "value": "single"},
            {"name": "PerZone", "value": "per-zone"},
        ],
    }
    assert [one["value"] for one in type_named("SharingMode")["enum"]] == ["exclusive", "timeslice", "mig", "mps"]


def test_examples_are_json_and_names_are_those_of_the_schema() -> None:
    assert '`[{"sharing": {"mode": "timeslice", "replicas": 2}, "gpu": "t4"}]`' in str(
        SCHEMA["resources"]["tandem:index:DevicePluginSharing"]["inputProperties"]["pools"]["description"]
    )
    assert (
        "`systemTypes`"
        in SCHEMA["resources"]["tandem:index:GpuCluster"]["inputProperties"]["systemArch"]["description"]
    )
    assert "```" not in json.dumps(SCHEMA)


def test_each_sharing_mode_says_what_its_replicas_are() -> None:
    sharing = type_named("Sharing")
    assert sharing["required"] == ["mode"]
    assert sharing["properties"]["replicas"]["description"] == (
        "`timeslice`, `mps`: Shares per GPU. Default: `2`. "
        "`mig`: Pods that take turns on a slice. Default: one pod per slice."
    )
