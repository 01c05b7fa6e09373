"""What the emulated eks provider asks of an engine for one cluster, word for word.

A stand-in for the engine answers through the real gRPC and keeps each request. `--regen` writes
`tests/golden/construct-*.jsonl`. The engine tier shows that the real engine takes the requests.
"""

import json
from collections.abc import Iterator
from concurrent import futures
from typing import Any

import grpc  # type: ignore[import-untyped]
import pytest
from google.protobuf import empty_pb2
from google.protobuf.json_format import MessageToDict
from pulumi.runtime.proto import provider_pb2, resource_pb2, resource_pb2_grpc

from sandbox import wire
from sandbox.engine.construct import ComponentServicer
from sandbox.graph import Secret
from tests.conftest import Golden
from tests.sandbox.engine.test_conversation import Aborted, Context

CLUSTER = "eks:index:Cluster"
PARENT = "urn:pulumi:dev::tandem::pulumi:pulumi:Stack::tandem-dev"
ROLE = "urn:pulumi:dev::tandem::aws:iam/role:Role::nodes"
AWS = "urn:pulumi:dev::tandem::pulumi:providers:aws::here"
POLICY = "arn:aws:eks::aws:cluster-access-policy/AmazonEKSClusterAdminPolicy"
INPUTS = {
    "name": "demo",
    "version": "1.36",
    "vpcId": "vpc-1",
    "subnetIds": ["subnet-1", "subnet-2"],
    "skipDefaultNodeGroup": True,
    "skipDefaultSecurityGroups": True,
    "authenticationMode": "API",
    "createOidcProvider": False,
    "bootstrapSelfManagedAddons": False,
    "vpcCniOptions": {"addonVersion": "v1.21.0-eksbuild.1"},
    "kubeProxyAddonOptions": {"version": "v1.36.0-eksbuild.1"},
    "corednsAddonOptions": {"enabled": False},
    "tags": {"team": Secret("ml")},
    "accessEntries": {
        "admin": {
            "principalArn": "arn:aws:iam::123456789012:role/admin",
            "accessPolicies": {"all": {"policyArn": POLICY, "accessScope": {"type": "cluster"}}},
        }
    },
}
OUTPUTS = {"endpoint": "https://demo", "certificateAuthority": {"data": "Q0E="}}


class Engine(resource_pb2_grpc.ResourceMonitorServicer):
    """Keeps each request; in a preview, a resource has no id and no computed outputs."""

    def __init__(self) -> None:
        self.asked: list[dict[str, Any]] = []
        self.at, self.refuses, self.dry = "", "", False
        self.answers: dict[str, Any] = {"partition": "aws"}

    def RegisterResource(self, request: Any, context: grpc.ServicerContext) -> Any:
        self.asked.append({"call": "RegisterResource", **MessageToDict(request)})
        if request.type == self.refuses:
            context.abort(grpc.StatusCode.UNKNOWN, "no quota")
        identity = f"id-of-{request.name}" if request.custom and not self.dry else ""
        urn = f"urn:pulumi:dev::tandem::{request.type}::{request.name}"
        answer = resource_pb2.RegisterResourceResponse(urn=urn, id=identity, object=request.object)
        if not self.dry:
            wire.write({"arn": f"arn:aws:x:us-east-1:123456789012:{request.name}", **OUTPUTS}, answer.object)
        return answer

    def RegisterResourceOutputs(self, request: Any, context: grpc.ServicerContext) -> Any:
        self.asked.append({"call": "RegisterResourceOutputs", **MessageToDict(request)})
        return empty_pb2.Empty()

    def Invoke(self, request: Any, context: grpc.ServicerContext) -> Any:
        self.asked.append({"call": "Invoke", **MessageToDict(request)})
        answer = provider_pb2.InvokeResponse()
        if self.answers:
            wire.write(self.answers, getattr(answer, "return"))
        else:
            answer.failures.add(reason="no such region")
        return answer


@pytest.fixture
def engine() -> Iterator[Engine]:
    made = Engine()
    server = grpc.server(futures.ThreadPoolExecutor(1))
    resource_pb2_grpc.add_ResourceMonitorServicer_to_server(made, server)
    made.at = f"127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
    server.start()
    yield made
    server.stop(None)


def construct(engine: Engine, **more: Any) -> dict[str, Any]:
    fields: dict[str, Any] = {
        "type": CLUSTER,
        "name": "c",
        "parent": PARENT,
        "dryRun": engine.dry,
        "monitorEndpoint": engine.at,
        "dependencies": [ROLE],
        "providers": {"aws": f"{AWS}::id-of-here"},
    }
    request = provider_pb2.ConstructRequest(**fields, **more)
    wire.write(INPUTS, request.inputs)
    request.inputDependencies["version"].urns.extend([ROLE])
    context: Any = Context()
    return {"call": "Construct", **MessageToDict(ComponentServicer("eks", "4.3.0").Construct(request, context))}


@pytest.mark.parametrize("dry", [False, True], ids=["up", "preview"])
def test_the_requests_for_a_cluster(engine: Engine, golden: Golden, dry: bool) -> None:
    engine.dry = dry
    answer = construct(engine)
    lines = [f"{json.dumps(one, sort_keys=True)}\n" for one in (*engine.asked, answer)]
    golden(f"construct-{'preview' if dry else 'up'}.jsonl", "".join(lines))


def test_a_child_that_fails_ends_the_component_with_its_reason(engine: Engine) -> None:
    engine.refuses = "aws:eks/cluster:Cluster"
    with pytest.raises(Aborted) as ended:
        construct(engine)
    assert str(ended.value) == "UNKNOWN: eks:index:Cluster 'c': no quota"


def test_a_function_that_fails_ends_the_component_with_its_reason(engine: Engine) -> None:
    engine.answers = {}
    with pytest.raises(Aborted) as ended:
        construct(engine)
    assert str(ended.value) == "INVALID_ARGUMENT: aws:index/getPartition:getPartition: no such region"
