"""Where a stack is looked for is where it is deployed."""

import inspect

from components.device_plugin_sharing import RELEASE, DevicePluginSharingArgs
from components.ollama_pair import OllamaPairArgs
from sandbox.graph import plain
from stacks import places
from tandem.cluster.promise import PLUGIN
from tests.program.conftest import STACKS, graph_of


def test_namespaces_are_those_of_the_components() -> None:
    assert inspect.signature(OllamaPairArgs).parameters["namespace"].default == places.OLLAMA_NAMESPACE
    plugin = inspect.signature(DevicePluginSharingArgs).parameters["namespace"].default
    assert plugin == places.DEVICE_PLUGIN_NAMESPACE
    assert PLUGIN.name == RELEASE


def test_every_stack_is_deployed_there() -> None:
    for stack in STACKS:
        releases = [plain(one.inputs) for one in graph_of(stack).of_type("kubernetes:helm.sh/v3:Release")]
        homes = {release["chart"]: release["namespace"] for release in releases}
        assert homes == {
            "ollama": places.OLLAMA_NAMESPACE,
            "nvidia-device-plugin": places.DEVICE_PLUGIN_NAMESPACE,
        }
