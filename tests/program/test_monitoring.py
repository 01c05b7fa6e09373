"""What the section `monitoring` takes from the plan: the models of each pool, and who launches the nodes."""

from collections.abc import Callable
from typing import Any

import pytest

from sandbox.graph import Graph, plain
from stacks.features.monitoring import _monitored
from tests.program.conftest import graph_with, plan_of

Graphs = Callable[[str], Graph]
BUILTIN = {"monitoring": {"store": "builtin"}}
LARGE = {"cluster": {"system-nodes": {"count": 2, "instance-types": ["t3.large"]}}}


def values(graph: Graph, chart: str) -> dict[str, Any]:
    releases = [plain(resource.inputs) for resource in graph.of_type("kubernetes:helm.sh/v3:Release")]
    [found] = [release["values"] for release in releases if release["chart"] == chart]
    return dict(found)


def expression(graph: Graph) -> str:
    """The alert about models without a pod."""
    groups = values(graph, "grafana")["alerting"]["rules.yaml"]["groups"]
    [rule] = [one for group in groups for one in group["rules"] if one["title"] == "TandemModelWithoutPod"]
    return str(rule["data"][0]["model"]["expr"])


def test_each_model_is_expected_while_its_own_pool_has_a_node(graphs: Graphs) -> None:
    assert expression(graphs("monitored")).splitlines() == [
        'absent(tandem_ollama_up{id="llama2-7b"}) and on () count(DCGM_FI_DEV_FB_FREE{pool="gpu"}) > 0',
        'or absent(tandem_ollama_up{id="mistral-7b"}) and on () count(DCGM_FI_DEV_FB_FREE{pool="gpu"}) > 0',
    ]


@pytest.mark.parametrize(
    ("stack", "share_mib"),
    [
        ("timeslice", [None]),
        # Two MPS clients share the 15,360 MiB of a T4 (nvidia-smi).
        ("mps", [7680]),
        # The exporter reports slices by their own size.
        ("mig", [None]),
    ],
)
def test_the_dashboard_compares_a_model_with_a_share_that_mps_limits(stack: str, share_mib: list[int | None]) -> None:
    plan = plan_of(stack)
    assert [_monitored(pool, plan).share_mib for pool in plan.config.pools] == share_mib


def test_no_model_is_expected_where_models_scale_to_zero() -> None:
    asleep = graph_with("karpenter", {**BUILTIN, "scale-to-zero": {"enabled": True}, **LARGE})
    assert "TandemModelWithoutPod" not in str(values(asleep, "grafana"))
