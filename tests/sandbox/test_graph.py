import pytest

from sandbox.graph import Graph, Resource

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
