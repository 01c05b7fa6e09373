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


NAMESPACE = {"type_token": "kubernetes:core/v1:Namespace"}


def test_marks_are_found_removed_and_shown_at_any_depth() -> None:
    value = {"list": [Secret({"role": Ref("urn:r", "id")}), "text"], "component": Ref("urn:c")}
    assert references(value) == {"urn:r", "urn:c"}
    assert plain(value) == {"list": [{"role": "id"}, "text"], "component": "urn:c"}
    assert (holds_secret(value), holds_secret(plain(value))) == (True, False)
    assert dereferenced(value) == {"list": [Secret({"role": "id"}), "text"], "component": "urn:c"}
    assert masked(value) == {"list": ["[secret]", "text"], "component": {"resource": "urn:c"}}
    assert plain(same := {"a": [{"b": 1}]}) is same, "nothing is copied in vain"


def test_a_name_finds_the_only_resource_with_it() -> None:
    found = graph(resource("aws:ec2/vpc:Vpc", "a"), resource("aws:iam/role:Role", "a"))
    assert found.named("a", "aws:iam/role:Role").type == "aws:iam/role:Role"
    for name in ("a", "b"):
        with pytest.raises(KeyError, match=f"resources have the name '{name}'"):
            found.named(name)


@pytest.mark.parametrize(
    ("above", "own", "provider"),
    [
        ({}, {"provider": PROVIDER}, PROVIDER),
        ({"providers": {"aws": PROVIDER}}, {}, PROVIDER),
        ({"providers": {"aws": PROVIDER}}, NAMESPACE, ""),
        # A custom resource passes on its own provider, for its own package.
        ({"custom": True, "provider": PROVIDER}, {}, PROVIDER),
        ({"custom": True, "provider": PROVIDER}, NAMESPACE, ""),
    ],
)
def test_a_child_inherits_its_provider_as_in_the_engine(
    above: dict[str, object], own: dict[str, str], provider: str
) -> None:
    parent = resource("tandem:index:Net", "net", **{"custom": False, **above})
    middle = resource("tandem:index:Inner", "inner", custom=False, parent=parent.urn)
    child = resource(**{"type_token": "aws:ec2/vpc:Vpc", "name": "child", "parent": middle.urn, **own})
    assert graph(parent, middle, child).effective_provider(child.urn) == provider
