"""The pods that reach the models and the proof: policies of whole stacks, compared with hand-written flows."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sandbox.graph import Graph, plain
from tests.program.conftest import graph_with
from tests.program.flows import Network, Pod
from tests.rows import read_yaml

POLICY = "kubernetes:networking.k8s.io/v1:NetworkPolicy"
NAMESPACE = "kubernetes:core/v1:Namespace"
TABLE: dict[str, Any] = read_yaml(Path(__file__).parent / "flows.yaml")


def pod(said: str | dict[str, Any]) -> Pod:
    return Pod(**TABLE["pods"].get(said, {"namespace": said})) if isinstance(said, str) else Pod(**said)


def flow(row: list[Any]) -> tuple[Pod, Pod, int]:
    """A row of `flows.yaml`: source, target and port."""
    source, target, port = row
    return pod(source), pod(target), port


def network(graph: Graph) -> Network:
    namespaces = {
        metadata["name"]: metadata.get("labels", {})
        for metadata in (plain(namespace.inputs)["metadata"] for namespace in graph.of_type(NAMESPACE))
    }
    policies = [plain(policy.inputs) for policy in graph.of_type(POLICY)]
    # Outgoing connections are left alone.
    assert all(one["spec"]["policyTypes"] == ["Ingress"] and "egress" not in one["spec"] for one in policies)
    return Network(policies, namespaces)


def wrong(net: Network, part: str, *, is_allowed: bool) -> list[Any]:
    """The rows of a part of `flows.yaml` that are not allowed, or not refused, as they should be."""
    return [row for row in TABLE[part] if net.allows(*flow(row)) is not is_allowed]


@pytest.mark.parametrize("stack", ["timeslice", "mps", "mig", "logs"])
def test_pods_that_belong_together_reach_each_other_and_others_reach_neither_models_nor_proof(
    graphs: Callable[[str], Graph], stack: str
) -> None:
    assert wrong(network(graphs(stack)), "always-allowed", is_allowed=True) == []
    assert wrong(network(graphs(stack)), "always-refused", is_allowed=False) == []


def test_clients_of_the_stack_file_reach_the_models_and_only_where_it_names_them(
    graphs: Callable[[str], Graph],
) -> None:
    assert wrong(network(graphs("logs")), "clients", is_allowed=True) == []
    assert wrong(network(graphs("timeslice")), "clients", is_allowed=False) == []
    # Pods that only look like clients.
    assert wrong(network(graphs("logs")), "no-clients", is_allowed=False) == []


def test_each_pool_has_a_proof_that_the_other_cannot_reach(graphs: Callable[[str], Graph]) -> None:
    net = network(graphs("pools"))
    steady = Pod("share-proof-steady", {"tandem/proof": "shares-gpu"})
    rest = Pod("share-proof-rest", {"tandem/proof": "shares-gpu"})
    assert net.allows(steady, steady, 7077)
    assert not net.allows(rest, steady, 7077)
    assert not net.allows(steady, rest, 7077)


@pytest.mark.real_world(
    behaviour="The interceptor of KEDA's HTTP add-on connects to a model's Service, and the scaler to the interceptor",
    source="http-add-on v0.15.0 interceptor/middleware/routing.go, resolveUpstreamURL, and scaler/queue_pinger.go",
)
@pytest.mark.parametrize("stack", sorted(TABLE["sections"]))
def test_a_section_opens_the_connections_that_it_needs_and_no_others(
    graphs: Callable[[str], Graph], stack: str
) -> None:
    """Every pod of a section is the target of a refused connection: a namespace without a policy allows all."""
    net, rows = network(graphs(stack)), TABLE["sections"][stack]
    assert [row for row in rows["allowed"] if not net.allows(*flow(row))] == []
    assert [row for row in rows["refused"] if net.allows(*flow(row))] == []
    without = network(graphs("dev"))
    to_models = [row for row in rows["allowed"] if row[1] == "model"]
    assert to_models
    assert [row for row in to_models if without.allows(*flow(row))] == []


def test_clients_of_the_stack_file_also_reach_the_page() -> None:
    clients = {"models-clients": {"namespaces": ["chat"], "labels": {"llm-client": "yes"}}}
    net, rows = network(graph_with("ui", clients)), TABLE["clients-of-the-page"]
    assert [row for row in rows["allowed"] if not net.allows(*flow(row))] == []
    assert [row for row in rows["refused"] if net.allows(*flow(row))] == []


def test_every_namespace_of_ours_with_a_server_has_a_policy(graphs: Callable[[str], Graph], any_stack: str) -> None:
    """All namespaces except those of NVIDIA's charts and of NFD, whose pods serve metrics at most."""
    graph = graphs(any_stack)
    named = {plain(namespace.inputs)["metadata"]["name"] for namespace in graph.of_type(NAMESPACE)}
    guarded = {plain(policy.inputs)["metadata"]["namespace"] for policy in graph.of_type(POLICY)}
    assert named - guarded <= {"nvidia-device-plugin", "node-feature-discovery", "gpu-operator"}


@pytest.mark.real_world(
    behaviour="NetworkPolicies do nothing on EKS unless the vpc-cni add-on enforces them, and its `strict` mode "
    "refuses every connection of a pod that has none",
    source="EKS User Guide, cni-network-policy-configure; amazon-vpc-cni-k8s v1.22.4 README and charts/aws-vpc-cni",
)
def test_the_network_addon_enforces_policies_in_standard_mode(graphs: Callable[[str], Graph], any_stack: str) -> None:
    addon = graphs(any_stack).named("tandem-cluster-vpc-cni", "aws:eks/addon:Addon")
    values = json.loads(plain(addon.inputs)["configurationValues"])
    # Text, not a truth value: the add-on's schema has `"type": "string", "format": "boolean"`.
    assert values["enableNetworkPolicy"] == "true"
    assert values["env"]["NETWORK_POLICY_ENFORCING_MODE"] == "standard"
    assert "ADDITIONAL_ENI_TAGS" in values["env"]


@pytest.mark.real_world(
    behaviour="Policies of vpc-cni need one port number for a Service and its container",
    source="EKS User Guide, cni-network-policy, Considerations",
)
def test_services_and_containers_have_one_port(graphs: Callable[[str], Graph], any_stack: str) -> None:
    graph = graphs(any_stack)
    models = [
        release for release in graph.of_type("kubernetes:helm.sh/v3:Release") if release.inputs["chart"] == "ollama"
    ]
    assert models
    for release in models:
        values = plain(release.inputs)["values"]
        assert values["service"]["port"] == values["ollama"]["port"] == 11434
    for service in graph.of_type("kubernetes:core/v1:Service"):
        spec = plain(service.inputs)["spec"]
        if spec.get("clusterIP") != "None":  # A headless one translates no port: its name resolves to pods.
            [port] = spec["ports"]
            assert port["port"] == port["targetPort"]
