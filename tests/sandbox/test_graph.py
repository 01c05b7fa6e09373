import json

import pytest

from sandbox.graph import Graph, Ref, Resource, Secret, dereferenced, holds_secret, masked, plain, references

URN = "urn:pulumi:s::p::"
STACK = f"{URN}pulumi:pulumi:Stack::p-s"
PROVIDER = f"{URN}pulumi:providers:aws::aws"


def resource(type_token: str, name: str, **given: object) -> Resource:
    values: dict[str, object] = {"inputs": {}, "outputs": {}, "parent": STACK, **given}
    return Resource(urn=f"{URN}{type_token}::{name}", type=type_token, name=name, **values)  # type: ignore[arg-type]


def graph(*resources: Resource) -> Graph:
    stack = Resource(urn=STACK, type="pulumi:pulumi:Stack", name="p-s", parent="", inputs={}, outputs={}, custom=False)
    provider = resource("pulumi:providers:aws", "aws")
    return Graph({one.urn: one for one in sorted((stack, provider, *resources), key=lambda one: one.urn)})


def test_a_secret_never_prints() -> None:
    value = {"password": Secret("hunter2"), "list": [Secret({"deep": "hunter2"})], "role": Ref("urn:role", "r")}
    assert "hunter2" not in repr(value)
    assert "hunter2" not in f"{value}"
    assert json.dumps(masked(value)) == (
        '{"password": "[secret]", "list": ["[secret]"], "role": {"resource": "urn:role"}}'
    )


def test_plain_opens_secrets_and_turns_references_into_ids() -> None:
    value = {"a": Secret({"b": Ref("urn:role", "r")}), "c": (Ref("urn:component"),), "d": 1}
    assert plain(value) == {"a": {"b": "r"}, "c": ["urn:component"], "d": 1}


def test_plain_does_not_copy_a_value_without_marks() -> None:
    value = {"a": {"b": [1, 2]}}
    assert plain(value) is value


def test_dereferenced_keeps_secrets_marked() -> None:
    found = dereferenced({"a": Secret({"b": Ref("urn:role", "r")})})
    assert isinstance(found["a"], Secret)
    assert found["a"].value == {"b": "r"}


def test_secrets_and_references_are_found_at_any_depth() -> None:
    assert holds_secret({"a": [{"b": Secret(1)}]})
    assert not holds_secret({"a": [{"b": 1}]})
    assert references({"a": [Secret({"b": Ref("urn:x")})], "c": Ref("urn:y")}) == {"urn:x", "urn:y"}


def test_children_of_type_and_names_find_resources() -> None:
    parent = resource("tandem:index:Net", "net", custom=False)
    child = resource("aws:ec2/vpc:Vpc", "net-vpc", parent=parent.urn)
    below = resource("aws:ec2/subnet:Subnet", "net-subnet", parent=child.urn)
    found = graph(parent, child, below)
    assert found.children(parent.urn) == (child,)
    assert list(found.descendants(parent.urn)) == [child, below]
    assert [one.urn for one in found.ancestors(below.urn)] == [child.urn, parent.urn, STACK]
    assert found.of_type("aws:ec2/vpc:Vpc") == (child,)
    assert found.named("net-vpc") is child


def test_a_name_that_two_resources_have_needs_a_type() -> None:
    first, second = resource("aws:ec2/vpc:Vpc", "x"), resource("aws:ec2/subnet:Subnet", "x")
    found = graph(first, second)
    with pytest.raises(KeyError, match="2 resources are called 'x'"):
        found.named("x")
    assert found.named("x", "aws:ec2/vpc:Vpc") is first


@pytest.mark.parametrize("option", [("protect", True), ("deletedWith", PROVIDER), ("retainOnDelete", True)])
def test_a_child_inherits_what_the_engine_hands_down(option: tuple[str, object]) -> None:
    key, value = option
    parent = resource("tandem:index:Net", "net", custom=False, options={key: value})
    middle = resource("tandem:index:Inner", "inner", custom=False, parent=parent.urn)
    child = resource("aws:ec2/vpc:Vpc", "vpc", parent=middle.urn)
    assert graph(parent, middle, child).effective_options(child.urn)[key] == value


def test_an_option_of_its_own_wins_over_an_inherited_one() -> None:
    parent = resource("tandem:index:Net", "net", custom=False, options={"protect": True})
    child = resource("aws:ec2/vpc:Vpc", "vpc", parent=parent.urn, options={"protect": False})
    assert graph(parent, child).effective_options(child.urn)["protect"] is False


def test_ignore_changes_is_not_inherited() -> None:
    parent = resource("aws:ec2/vpc:Vpc", "vpc", options={"ignoreChanges": ("tags",)})
    child = resource("aws:ec2/subnet:Subnet", "subnet", parent=parent.urn)
    assert graph(parent, child).effective_options(child.urn) == {}


def test_a_child_has_the_provider_that_its_component_was_given_for_its_package() -> None:
    parent = resource("tandem:index:Net", "net", custom=False, providers={"aws": PROVIDER})
    child = resource("aws:ec2/vpc:Vpc", "vpc", parent=parent.urn)
    other = resource("kubernetes:core/v1:Namespace", "ns", parent=parent.urn)
    found = graph(parent, child, other)
    assert found.effective_options(child.urn)["provider"] == PROVIDER
    assert "provider" not in found.effective_options(other.urn)


def test_a_child_of_a_custom_resource_has_that_ones_provider_for_the_same_package_alone() -> None:
    parent = resource("aws:ec2/vpc:Vpc", "vpc", provider=PROVIDER)
    child = resource("aws:ec2/subnet:Subnet", "subnet", parent=parent.urn)
    other = resource("kubernetes:core/v1:Namespace", "ns", parent=parent.urn)
    found = graph(parent, child, other)
    assert found.effective_options(child.urn)["provider"] == PROVIDER
    assert "provider" not in found.effective_options(other.urn)
