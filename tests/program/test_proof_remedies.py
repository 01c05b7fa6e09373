"""The proof's error names only objects that the stack installs."""

from collections.abc import Callable

from sandbox.graph import Graph, plain

PLUGINS = {
    "nvidia-device-plugin": "app.kubernetes.io/name=nvidia-device-plugin",
    "gpu-operator": "app=nvidia-device-plugin-daemonset",
}
"""Charts that bring a device plugin, with a label of its pods."""


def test_the_proof_names_the_plugins_pods_in_the_namespace_of_their_release(
    graphs: Callable[[str], Graph], any_stack: str
) -> None:
    graph = graphs(any_stack)
    releases = [plain(resource.inputs) for resource in graph.of_type("kubernetes:helm.sh/v3:Release")]
    installed = {
        (release["namespace"], PLUGINS[release["chart"]]) for release in releases if release["chart"] in PLUGINS
    }
    assert installed
    named = set()
    for job in graph.of_type("kubernetes:batch/v1:Job"):
        [container] = plain(job.inputs)["spec"]["template"]["spec"]["containers"]
        given = {one["name"]: one.get("value") for one in container["env"]}
        if "PLUGIN_NAMESPACE" in given:
            named.add((given["PLUGIN_NAMESPACE"], given["PLUGIN_SELECTOR"]))
    assert named == installed or not named
