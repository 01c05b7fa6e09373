"""On which nodes a pod may run, as Kubernetes documents it."""

import re
from typing import Any

import pytest

from sharing.existing.scheduling import Node, Taint, may_run
from tests.sharing.builders import read_cases

CASES = read_cases("scheduling")
LABELS = {"disk": "ssd", "cores": "8"}
GPU = Taint(key="gpu", value="present", effect="NoSchedule")


@pytest.mark.parametrize("name", CASES)
def test_a_pod_runs_where_the_table_says(name: str) -> None:
    case = CASES[name]
    more = [Taint(key="mode", value="x", effect=case["taint"])] if "taint" in case else []
    pod: dict[str, Any] = {"tolerations": [{"key": "gpu", "operator": "Exists"}], **case.get("pod", {})}
    if "terms" in case:
        terms = [{"matchExpressions": expressions} for expressions in case["terms"]]
        pod["affinity"] = {
            "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
        }
    assert may_run(pod, Node(labels=LABELS, taints=(GPU, *more), maybe=re.compile("gpu/(?!old)"))) is case["runs"]
