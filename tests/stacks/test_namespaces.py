"""Commands look for a stack in the namespaces in which it is deployed."""

from components.device_plugin_sharing import operator_chart, plugin_chart
from sandbox.graph import plain
from sharing import names
from tests.program.conftest import graph_of
from tests.shipped import STACKS

HOMES = {
    "ollama": names.OLLAMA_NAMESPACE,
    plugin_chart.CHART.name: names.DEVICE_PLUGIN_NAMESPACE,
    operator_chart.CHART.name: names.OPERATOR_NAMESPACE,
}


def test_every_stack_is_deployed_in_these_namespaces() -> None:
    found: dict[str, str] = {}
    for stack in STACKS:
        releases = [plain(one.inputs) for one in graph_of(stack).of_type("kubernetes:helm.sh/v3:Release")]
        homes = {one["chart"]: one["namespace"] for one in releases if one["chart"] in HOMES}
        assert homes.items() <= HOMES.items()
        found |= homes
    assert found == HOMES
