"""`tandem verify` where models have an importance: it evicts none of them, and says who waits for whom."""

from typing import Any

from components import OllamaPair, OllamaPairArgs
from components.ollama_pair import OllamaModel
from sandbox.preview import program
from tandem.deployed.connection import Connected
from tandem.verify.overfill import overfill
from tests.cluster.test_importance import apply
from tests.cluster.test_looking import GPU_NODE, Stack, overfilling
from tests.cluster.test_looking import node_agent as node_agent  # fixtures
from tests.cluster.test_looking import reached as reached
from tests.cluster.test_looking import server as server
from tests.cluster.test_looking import stack as stack

LLAMA2, MISTRAL = OllamaModel("llama2:7b", importance="low"), OllamaModel("mistral:7b", importance="low")


def releases_of(stack: Stack, *models: OllamaModel) -> dict[str, Any]:
    graph = program.run(lambda: OllamaPair("pair", OllamaPairArgs(models=models)), project="test", stack="test")
    return apply(stack.cluster, graph)


def ranks(stack: Stack) -> list[int]:
    """The priorities of the models that have a node."""
    return sorted(one["spec"]["priority"] for one in stack.cluster.pods("ollama") if "nodeName" in one["spec"])


def test_one_pod_too_many_takes_no_share_of_a_less_important_model(stack: Stack, reached: Connected) -> None:
    for release in releases_of(stack, LLAMA2, MISTRAL).values():
        stack.cluster.install(release)
    stack.cluster.wait_for("both models were of low importance", lambda: ranks(stack) == [-10, -10])
    before = {one["metadata"]["uid"] for one in stack.cluster.pods("ollama")}
    at = [node for node in reached.cluster.nodes() if node["metadata"]["name"] == GPU_NODE]
    [check] = overfill(reached.cluster, reached.plan.config.pools[0], at, "ollama")
    assert (check.held, check.what) == (True, "one pod too many stays Pending for nvidia.com/gpu (0 free)")
    assert {one["metadata"]["uid"] for one in stack.cluster.pods("ollama")} == before
    assert overfilling(stack) == []
