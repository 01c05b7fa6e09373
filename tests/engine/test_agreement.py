"""The same program registers the same resources in this process (the graph) and with the real engine.

Only these differences are allowed, with their reasons:
- Default providers are in the engine's state alone: it makes one for each package and version that is asked for.
- Names that providers make up (`__defaults` says which) are in the engine's inputs alone: it keeps what Check returned.
- Inputs of a remote component, and on what each of them depends, are in the graph alone: the engine hands them to the
  component's provider, and keeps neither. What the component depends on is on both sides.
- `version` and `__internal` of a provider are in the engine's inputs alone: how it finds that provider again.
- Ids, ARNs and addresses hold serial numbers in the cloud that outlives a process: each is compared as "what that
  resource returned". Secrets are ciphertext in the state: they are compared as secrets.
"""

import json
import re
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

import pytest

from sandbox import wire
from sandbox.graph import MASK, PROVIDER_TYPE_PREFIX, Graph, dereferenced, masked
from sandbox.world.providers.names import AUTONAMES, DEFAULTS
from tests.engine.emulated import Raise

Entries = dict[str, dict[str, Any]]
Outputs = Mapping[str, Mapping[str, Any]]
CIPHERTEXT = "ciphertext"
MADE_UP = ("id", "arn", "name", "nodeGroupName", "endpoint", "latestVersion", "hex")
"""Outputs that are made up, or derived from made-up values, and that programs pass on."""


@pytest.fixture(scope="module")
def both(raised: Raise) -> Any:
    """The engine's entries, and the graph, by stack."""

    @cache
    def compared(name: str) -> tuple[Entries, Graph]:
        stack = raised(name)
        entries = {entry["urn"]: entry for entry in stack.state()["resources"]}
        return {urn: entry for urn, entry in entries.items() if not is_default_provider(entry)}, stack.graph

    return compared


def is_default_provider(entry: Mapping[str, Any]) -> bool:
    return bool(entry["type"].startswith(PROVIDER_TYPE_PREFIX)) and entry["urn"].rsplit("::", 1)[1].startswith(
        "default"
    )


def test_graph_and_engine_register_the_same_types_names_and_parents(both: Any, any_stack: str) -> None:
    entries, graph = both(any_stack)
    assert {urn: (entry["type"], entry.get("parent", "")) for urn, entry in entries.items()} == {
        resource.urn: (resource.type, resource.parent) for resource in graph
    }


def test_graph_and_engine_have_the_same_dependencies(both: Any, any_stack: str) -> None:
    entries, graph = both(any_stack)
    for resource in graph:
        assert set(entries[resource.urn].get("dependencies") or ()) == set(resource.dependencies), resource.urn
        if resource.remote:
            continue
        by_property = entries[resource.urn].get("propertyDependencies") or {}
        assert {key: set(urns) for key, urns in by_property.items() if urns} == {
            key: set(urns) for key, urns in resource.property_dependencies.items()
        }, resource.urn


def test_graph_and_engine_use_the_same_providers(both: Any, any_stack: str) -> None:
    entries, graph = both(any_stack)
    for resource in graph:
        used = entries[resource.urn].get("provider", "").rpartition("::")[0]
        explicit = "" if used.rsplit("::", 1)[-1].startswith("default") else used
        assert explicit == graph.effective_provider(resource.urn), resource.urn


def test_graph_and_engine_have_the_same_inputs(both: Any, any_stack: str) -> None:
    entries, graph = both(any_stack)
    # Providers are left out: their ids are only names here, and no program uses them.
    outputs_here = {
        resource.urn: {**resource.outputs, "id": resource.id}
        for resource in graph
        if not resource.type.startswith(PROVIDER_TYPE_PREFIX)
    }
    outputs_there = {urn: {**entries[urn].get("outputs", {}), "id": entries[urn].get("id", "")} for urn in outputs_here}
    here, there = named_values(outputs_here, outputs_there), named_values(outputs_there, outputs_here)
    for resource in graph:
        if not resource.remote:
            registered = replaced(masked(dereferenced(resource.inputs)), here)
            assert replaced(kept(entries[resource.urn]), there) == registered, resource.urn


def kept(entry: Mapping[str, Any]) -> Any:
    """Inputs in the state, without the values that Check added, and with masked secrets."""
    inputs = dict(entry.get("inputs", {}))
    for key in inputs.pop(DEFAULTS, ()):
        inputs.pop(key)
    if entry["type"].startswith(PROVIDER_TYPE_PREFIX):
        inputs.pop("version"), inputs.pop("__internal")
    return hidden(inputs)


def hidden(value: Any) -> Any:
    if isinstance(value, dict):
        return MASK if CIPHERTEXT in value else {key: hidden(item) for key, item in value.items()}
    return [hidden(item) for item in value] if isinstance(value, list) else value


def named_values(outputs: Outputs, others: Outputs) -> dict[str, str]:
    """Texts that graph and engine make up differently, with the resource and the name that returned each."""
    names: dict[str, str] = {}
    for urn in sorted(outputs):
        other = dict(made_up(others[urn]))
        for key, value in made_up(outputs[urn]):
            if value != other.get(key):
                names.setdefault(value, f"<{key} of {urn.rsplit('::', 1)[1]}>")
    return names


def made_up(outputs: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for key in MADE_UP:
        if isinstance(outputs.get(key), str) and len(outputs[key]) > 3:
            yield key, outputs[key]
    for path in ("certificateAuthority.data", "vpcConfig.clusterSecurityGroupId"):
        top, _, key = path.partition(".")
        if isinstance(outputs.get(top), dict) and key in outputs[top]:
            yield path, outputs[top][key]


def replaced(value: Any, names: Mapping[str, str]) -> Any:
    made = "|".join(map(re.escape, sorted(names, key=len, reverse=True))) or "(?!)"
    return json.loads(re.sub(made, lambda match: names[match[0]], json.dumps(value, sort_keys=True)))


def test_the_comparison_leaves_out_exactly_the_names_that_providers_make_up(both: Any, any_stack: str) -> None:
    entries, _ = both(any_stack)
    left_out = {(entry["type"], key) for entry in entries.values() for key in entry.get("inputs", {}).get(DEFAULTS, ())}
    assert left_out <= {(token, key) for token, (key, _) in AUTONAMES.items()}
    assert wire.UNKNOWN not in json.dumps(list(entries.values()))
