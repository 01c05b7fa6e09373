"""The tags of a stack file on the resources: AWS accepts on every one of them what a file may have."""

from dataclasses import replace

import pytest

from sandbox.graph import Graph
from sandbox.world import tokens
from sandbox.world.entities import Entities
from sandbox.world.rules import tags as rules
from sandbox.world.rules.rule import Case
from sharing.names import own_tags
from stacks.stack_file.judge import judge
from tandem.dry_run.program import program_graph
from tests.program.conftest import source_of
from tests.sharing.builders import TODAY

MANY = {f"key-{number}": "v" for number in range(40)}
"""With `owner` and one default tag, as many as a stack may have."""


def graph_with_tags(name: str, tags: dict[str, str], default_tags: dict[str, str]) -> Graph:
    source = source_of(name)
    provider = {**source.provider, "aws:defaultTags": {"tags": default_tags}}
    source = replace(source, sections={**source.sections, "tags": tags}, provider=provider)
    return program_graph(judge(source, "Pulumi.dev.yaml", today=TODAY).plan())


def refusals(graph: Graph) -> list[str]:
    [provider] = graph.of_type("pulumi:providers:aws")
    found = []
    for resource in graph:
        inputs, given = dict(resource.inputs), dict(provider.inputs)
        case = Case(entities=Entities(), type=resource.type, name=resource.name, inputs=inputs, provider=given)
        applying = [rule for rule in rules.RULES if rule.is_about(resource.type, "create")]
        found += [f"{resource.urn}: {why}" for rule in applying if (why := rule.refuses(case))]
    return found


@pytest.mark.slow
@pytest.mark.parametrize("name", ["scheduled", "karpenter-volumes", "tagged"])
def test_no_service_refuses_the_most_tags_that_a_file_may_have(name: str) -> None:
    graph = graph_with_tags(name, {**MANY, "owner": ""}, {"cost": ""})
    assert refusals(graph) == []
    roles = graph.of_type("aws:iam/role:Role")
    assert all({"owner": "", "cost": "", **own_tags("dev")}.items() <= role.inputs["tags"].items() for role in roles)
    for group in graph.of_type(tokens.SCHEDULE_GROUP):
        assert set(group.inputs["tags"]) == {*MANY, *own_tags("dev")}
    assert (tokens.SCHEDULE_GROUP in {resource.type for resource in graph}) == (name == "scheduled")
    instances = [
        spec["tags"] for resource in graph.of_type(tokens.TEMPLATE) for spec in resource.inputs["tagSpecifications"]
    ]
    assert {len(tags) + rules.ON_A_NODE for tags in instances} == {rules.MOST}
