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


def test_resources_are_found_by_parent_type_and_name() -> None:
    parent = resource("tandem:index:Net", "net", custom=False)
    child = resource("aws:ec2/vpc:Vpc", "net-vpc", parent=parent.urn)
    below = resource("aws:ec2/subnet:Subnet", "net-subnet", parent=child.urn)
    found = graph(parent, child, below)
    assert found.children(parent.urn) == (child,)
    assert list(found.descendants(parent.urn)) == [child, below]
    assert [one.urn for one in found.ancestors(below.urn)] == [child.urn, parent.urn, STACK]
    assert found.of_type("aws:ec2/vpc:Vpc") == (child,)
    assert found.named("net-vpc") is child


def test_a_name_of_two_resources_needs_a_type() -> None:
    first, second = resource("aws:ec2/vpc:Vpc", "x"), resource("aws:ec2/subnet:Subnet", "x")
    found = graph(first, second)
    with pytest.raises(KeyError, match="2 resources have the name 'x'"):
        found.named("x")
    assert found.named("x", "aws:ec2/vpc:Vpc") is first


OF_AWS = {"provider": PROVIDER}


@pytest.mark.parametrize(
    ("above", "own", "effective"),
    [
        ({"options": {"protect": True}}, {}, {"protect": True}),
        ({"options": {"deletedWith": PROVIDER}}, {}, {"deletedWith": PROVIDER}),
        ({"options": {"retainOnDelete": True}}, {}, {"retainOnDelete": True}),
        ({"options": {"protect": True}}, {"options": {"protect": False}}, {"protect": False}),
        ({"options": {"ignoreChanges": ("tags",)}}, {}, {}),
        ({"providers": {"aws": PROVIDER}}, {}, OF_AWS),
        ({"providers": {"aws": PROVIDER}}, {"type": "kubernetes:core/v1:Namespace"}, {}),
        # A custom resource passes on its own provider, for its own package.
        ({"custom": True, "provider": PROVIDER}, {}, OF_AWS),
        ({"custom": True, "provider": PROVIDER}, {"type": "kubernetes:core/v1:Namespace"}, {}),
    ],
)
def test_a_child_inherits_options_as_in_the_engine(
    above: dict[str, object], own: dict[str, str], effective: dict[str, object]
) -> None:
    parent = resource("tandem:index:Net", "net", **{"custom": False, **above})
    middle = resource("tandem:index:Inner", "inner", custom=False, parent=parent.urn)
    child = resource(own.get("type", "aws:ec2/vpc:Vpc"), "child", parent=middle.urn, options=own.get("options", {}))
    assert graph(parent, middle, child).effective_options(child.urn) == effective
