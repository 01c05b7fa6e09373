"""The replies of the emulated providers in an entire conversation, word for word, without the engine.

`--regen` writes `tests/golden/conversation.jsonl`: one call and its reply per line. The engine tier shows that the
real engine takes these answers.
"""

import json
from collections.abc import Iterator
from typing import Any, NoReturn

import grpc  # type: ignore[import-untyped]
import pytest
from google.protobuf import empty_pb2
from google.protobuf.json_format import MessageToDict
from pulumi.runtime.proto import plugin_pb2, provider_pb2, status_pb2

from sandbox import wire
from sandbox.engine.random import RandomServicer
from sandbox.engine.servicer import KubernetesServicer, TerraformServicer, _answered, in_state
from sandbox.graph import Secret
from sandbox.world import CloudError, IncompleteError, World, tokens
from tests.conftest import Golden
from tests.sandbox.faults import Fault, Faults, Kind
from tests.sandbox.world_pieces import Account

VPC, SUBNET, LAUNCH = "aws:ec2/vpc:Vpc", "aws:ec2/subnet:Subnet", "aws:ec2/launchTemplate:LaunchTemplate"
"""Types of the conversation."""
KINDS: tuple[Kind, ...] = ("lost", "error")
FIELDS = ("olds", "news", "old_inputs", "properties", "inputs", "args")
"""Fields of requests that hold values as the engine marks them."""


class Aborted(Exception):
    """The call ended with an error."""


class Context:
    """One connection."""

    def __init__(self) -> None:
        self.details = b""

    def peer(self) -> str:
        return "ipv4:127.0.0.1:1"

    def set_trailing_metadata(self, pairs: Any) -> None:
        [(_, self.details)] = pairs

    def abort(self, code: grpc.StatusCode, said: str) -> NoReturn:
        raise Aborted(f"{code.name}: {said}")


def call(servicer: Any, method: str, request: Any, **fields: Any) -> tuple[Any, dict[str, Any]]:
    """The answer, and the line of the golden."""
    context = Context()
    for name, value in fields.items():
        if name in FIELDS:
            wire.write(value, getattr(request, name))
        else:
            setattr(request, name, value)
    line: dict[str, Any] = {"call": method, "asked": MessageToDict(request)}
    try:
        answer = getattr(servicer, method)(request, context)
    except Aborted as error:
        return None, {**line, "error": str(error), "details": len(context.details) > 0}
    return answer, {**line, "answer": MessageToDict(answer)}


def greeting(servicer: Any) -> Iterator[dict[str, Any]]:
    for method, request in (
        ("Handshake", provider_pb2.ProviderHandshakeRequest()),
        ("Attach", plugin_pb2.PluginAttach()),
        ("GetPluginInfo", empty_pb2.Empty()),
        ("GetSchema", provider_pb2.GetSchemaRequest()),
        ("Cancel", empty_pb2.Empty()),
    ):
        yield call(servicer, method, request)[1]
    settings = {"region": "us-east-1", "clusterIdentifier": "one", "skipCredentialsValidation": "true"}
    yield call(servicer, "CheckConfig", provider_pb2.CheckRequest(), news=settings)[1]
    # Another region replaces the resources of AWS, another cluster those of Kubernetes. Other inputs only update the
    # provider.
    for other in ({}, {"profile": "work"}, {"region": "us-west-2"}, {"clusterIdentifier": "two"}):
        news = {**settings, **other}
        yield call(servicer, "DiffConfig", provider_pb2.DiffRequest(), old_inputs=settings, news=news)[1]
    yield call(servicer, "Configure", provider_pb2.ConfigureRequest(), args=settings)[1]


def conversation() -> Iterator[dict[str, Any]]:
    world = World(patience=0.0)
    try:
        aws, kubernetes = TerraformServicer("aws", "7.0.0", world), KubernetesServicer("kubernetes", "4.0.0", world)
        yield from greeting(aws)
        yield from greeting(kubernetes)
        yield from life(aws)
        yield from refusals(aws)
        yield from chance(RandomServicer("random", "4.0.0"))
        where = {"location_type": "availability-zone"}
        for token, args in (
            ("aws:index/getAvailabilityZones:getAvailabilityZones", {"state": "available"}),
            ("aws:index/getCallerIdentity:getCallerIdentity", {}),
            ("aws:ec2/getInstanceTypeOfferings:getInstanceTypeOfferings", where),
            ("aws:no/such:function", {}),
        ):
            yield call(aws, "Invoke", provider_pb2.InvokeRequest(), tok=token, args=args)[1]
    finally:
        world.close()


def life(aws: Any) -> Iterator[dict[str, Any]]:
    """The calls to plan, create, read, update and delete a VPC, its subnet and a launch template."""
    plan = {"cidrBlock": "10.0.0.0/16", "tags": {"Name": Secret("one")}, "enableDnsSupport": True}
    named: dict[str, Any] = {"type": VPC, "name": "one"}
    yield call(aws, "Check", provider_pb2.CheckRequest(), **named, news=plan)[1]
    yield call(aws, "Create", provider_pb2.CreateRequest(), **named, properties=plan, preview=True)[1]
    made, line = call(aws, "Create", provider_pb2.CreateRequest(), **named, properties=plan)
    yield line
    outputs = wire.read(made.properties)
    known: dict[str, Any] = {**named, "id": made.id}
    for inputs, there in ((plan, outputs), ({}, {})):
        yield call(aws, "Read", provider_pb2.ReadRequest(), **known, inputs=inputs, properties=there)[1]
    for news in (plan, {**plan, "tags": {"Name": "two"}}, {**plan, "cidrBlock": "10.1.0.0/16"}):
        changed: dict[str, Any] = {**known, "old_inputs": plan, "olds": outputs, "news": news}
        yield call(aws, "Diff", provider_pb2.DiffRequest(), **changed)[1]
        for preview in (True, False):
            yield call(aws, "Update", provider_pb2.UpdateRequest(), **changed, preview=preview)[1]
    subnet = {"vpcId": made.id, "cidrBlock": "10.0.1.0/24", "availabilityZone": "us-east-1a"}
    inside, line = call(aws, "Create", provider_pb2.CreateRequest(), type=SUBNET, name="in", properties=subnet)
    yield line
    template = {"namePrefix": "t-", "instanceType": "t3.medium"}
    launch, line = call(aws, "Create", provider_pb2.CreateRequest(), type=LAUNCH, name="t", properties=template)
    yield line
    changed = {"type": LAUNCH, "id": launch.id, "old_inputs": template, "olds": wire.read(launch.properties)}
    newer = {**template, "instanceType": "t3.large"}
    for preview in (True, False):
        yield call(aws, "Update", provider_pb2.UpdateRequest(), **changed, news=newer, preview=preview)[1]
    for token, identity in ((VPC, made.id), (SUBNET, inside.id), (VPC, made.id), (VPC, made.id)):
        yield call(aws, "Delete", provider_pb2.DeleteRequest(), type=token, id=identity)[1]
        yield call(aws, "Read", provider_pb2.ReadRequest(), type=token, id=identity)[1]


def refusals(aws: Any) -> Iterator[dict[str, Any]]:
    for token, inputs in (
        (VPC, {"cidrBlock": "10.0.0.0/8"}),
        (SUBNET, {"vpcId": "vpc-none", "cidrBlock": "10.0.0.0/24"}),
    ):
        named: dict[str, Any] = {"type": token, "name": "wrong"}
        yield call(aws, "Check", provider_pb2.CheckRequest(), **named, news=inputs)[1]
        yield call(aws, "Create", provider_pb2.CreateRequest(), **named, properties=inputs)[1]
    yield call(aws, "Create", provider_pb2.CreateRequest(), type="aws:no/such:Type", name="x", properties={})[1]
    yield call(aws, "Configure", provider_pb2.ConfigureRequest(), args={"region": "us-east-1", "profile": "none"})[1]


def chance(random: Any) -> Iterator[dict[str, Any]]:
    """The calls for a random id, which is only in Pulumi's state. The real value differs each time."""
    plan, news = {"byteLength": 4, "keepers": {"a": "b"}}, {"byteLength": 4, "keepers": {"a": "c"}}
    yield call(random, "Check", provider_pb2.CheckRequest(), news=plan)[1]
    yield call(random, "Create", provider_pb2.CreateRequest(), properties=plan, preview=True)[1]
    for given in (plan, news):
        yield call(random, "Diff", provider_pb2.DiffRequest(), old_inputs=plan, news=given)[1]
    yield call(random, "Read", provider_pb2.ReadRequest(), id="0a1b2c3d", inputs=plan, properties=plan)[1]
    yield call(random, "Delete", provider_pb2.DeleteRequest(), id="0a1b2c3d")[1]
    made, _ = call(random, "Create", provider_pb2.CreateRequest(), properties=plan)
    assert wire.read(made.properties) == {**plan, "hex": made.id}
    assert len(made.id) == 8


def test_a_conversation_is_its_golden(golden: Golden) -> None:
    said = "".join(json.dumps(line, sort_keys=True) + "\n" for line in conversation())
    golden("conversation.jsonl", said)


def test_an_incomplete_resource_is_reported_with_its_id_and_outputs() -> None:
    """As the engine reads it: pulumi sdk/go/common/resource/plugin/provider_plugin.go, parseError."""
    context: Any = Context()
    failed = IncompleteError(CloudError("Timeout", "no node", "here"), "i-1", {"a": "out"})
    with pytest.raises(Aborted, match="UNKNOWN"), _answered(context, {"a": "in"}):
        raise failed
    status = status_pb2.Status.FromString(context.details)
    found = provider_pb2.ErrorResourceInitFailed()
    assert status.details[0].Unpack(found)
    assert (found.id, len(found.reasons)) == ("i-1", 1)
    assert (wire.read(found.properties), wire.read(found.inputs)) == ({"a": "out"}, {"a": "in"})


def failed_of(context: Any) -> provider_pb2.ErrorResourceInitFailed:
    """What the engine keeps of a resource whose call failed."""
    found = provider_pb2.ErrorResourceInitFailed()
    assert status_pb2.Status.FromString(context.details).details[0].Unpack(found)
    return found


@pytest.mark.parametrize(("kind", "code"), [("error", "InternalError"), ("lost", "RequestError")])
def test_a_failed_update_of_aws_counts_as_made(kind: Any, code: str) -> None:
    """terraform-plugin-sdk#476; pulumi-terraform-bridge pkg/tfbridge/provider.go, Update."""
    world = World()
    Faults([Fault(type=VPC, operation="update", kind=kind)]).strike(world)
    aws = TerraformServicer("aws", "7", world)
    old, new = {"cidrBlock": "10.0.0.0/16"}, {"cidrBlock": "10.0.0.0/16", "tags": {"a": "b"}}
    made, _ = call(aws, "Create", provider_pb2.CreateRequest(), type=VPC, name="v", properties=old)
    request, context = provider_pb2.UpdateRequest(type=VPC, id=made.id, olds=made.properties), Context()
    wire.write(old, request.old_inputs)
    wire.write(new, request.news)
    with pytest.raises(Aborted, match=code):
        aws.Update(request, context)
    found = failed_of(context)
    assert found.id == made.id
    assert {"tags": {"a": "b"}, "arn": wire.read(made.properties)["arn"]}.items() <= wire.read(found.properties).items()
    assert wire.read(found.inputs) == new


@pytest.mark.parametrize(
    ("key", "given", "shown", "differs"),
    [
        ("vpcConfig", {"subnetIds": ["a"]}, {"subnetIds": ["a"], "vpcId": "computed"}, False),
        ("vpcConfig", {"subnetIds": ["a"]}, {"subnetIds": ["b"]}, True),
        ("ebs", [{"size": 1}], [{"size": 1, "encrypted": False}], False),
        ("ebs", [{"size": 1}], [{"size": 2}], True),
        ("ebs", [{"size": 1}], [{"size": 1}, {"size": 1}], True),
        ("labels", {"a": "b"}, {"a": "b", "c": "d"}, True),
        ("tags", {"a": "b"}, {"a": "b", "c": "d"}, True),
        ("name", "a", "a", False),
        ("ebs", {"size": 1}, None, True),
    ],
)
def test_an_output_differs_unless_it_only_adds_computed_values(key: str, given: Any, shown: Any, differs: bool) -> None:
    assert in_state({key: given, "input": 1}, {key: shown, "output": 2}) == {
        key: shown if differs else given,
        "input": 1,
    }


def test_kubernetes_keeps_secrets_and_refuses_without_details() -> None:
    account = Account()
    account.cluster()
    kubernetes = KubernetesServicer("kubernetes", "4", account.world)
    call(kubernetes, "Configure", provider_pb2.ConfigureRequest(), args=account.provider)
    known: dict[str, Any] = {"type": tokens.CONFIG_MAP, "name": "c"}
    planned, _ = call(kubernetes, "Check", provider_pb2.CheckRequest(), **known, news={"data": Secret({"a": "b"})})
    inputs = wire.read(planned.inputs)
    made, _ = call(kubernetes, "Create", provider_pb2.CreateRequest(), **known, properties=inputs)
    news = {**inputs, "data": Secret({"a": "c"})}
    changed: dict[str, Any] = {"type": tokens.CONFIG_MAP, "id": made.id, "old_inputs": inputs, "news": news}
    found, _ = call(kubernetes, "Diff", provider_pb2.DiffRequest(), **changed)
    assert (found.diffs, found.replaces, found.deleteBeforeReplace) == (["data"], ["data"], False)
    named = {"metadata": {"name": "c"}, "data": {"a": "b"}}
    other: dict[str, Any] = {**changed, "old_inputs": named, "news": {**named, "data": {"a": "c"}}}
    assert call(kubernetes, "Diff", provider_pb2.DiffRequest(), **other)[0].deleteBeforeReplace
    updated, _ = call(kubernetes, "Update", provider_pb2.UpdateRequest(), **changed, olds=wire.read(made.properties))
    assert wire.read(updated.properties)["data"] == Secret({"a": "c"})
    Faults([Fault(type=tokens.CONFIG_MAP, operation="delete", kind=one) for one in KINDS]).strike(account.world)
    for code in ("FAILED_PRECONDITION: InternalError", "UNKNOWN: the call succeeded"):
        _, line = call(kubernetes, "Delete", provider_pb2.DeleteRequest(), type=tokens.CONFIG_MAP, id=made.id)
        assert (line["error"].startswith(code), line["details"]) == (True, False)
    assert account.world.read(tokens.CONFIG_MAP, made.id) is None


def test_a_refused_check_keeps_the_inputs_and_names_the_reason() -> None:
    aws, inputs = TerraformServicer("aws", "7", World()), {"name": "r" * 65}
    answer, _ = call(aws, "Check", provider_pb2.CheckRequest(), type=tokens.ROLE, name="r", news=inputs)
    assert wire.read(answer.inputs) == inputs
    assert [failure.reason.partition(":")[0] for failure in answer.failures] == ["ValidationError"]


def test_the_state_says_which_names_were_generated() -> None:
    aws = TerraformServicer("aws", "7", World())
    planned, _ = call(aws, "Check", provider_pb2.CheckRequest(), type=tokens.ROLE, name="r", news={})
    inputs = wire.read(planned.inputs)
    made, _ = call(aws, "Create", provider_pb2.CreateRequest(), type=tokens.ROLE, name="r", properties=inputs)
    known: dict[str, Any] = {"type": tokens.ROLE, "id": made.id, "inputs": inputs}
    assert wire.read(call(aws, "Read", provider_pb2.ReadRequest(), **known)[0].inputs)["__defaults"] == ["name"]
