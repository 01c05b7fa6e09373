"""The resources of a stack: the same in every mode, with important settings, and without forbidden ones."""

import json
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pulumi
import pytest

from components.device_plugin_sharing import plugin_chart
from sandbox.graph import Graph, Resource, plain
from sandbox.preview.program import run
from stacks import program
from stacks.stack_file.judge import Plan
from tandem.dry_run.program import program_graph
from tests.program.conftest import graph_with, judge_with, source_of

Graphs = Callable[[str], Graph]
Plans = Callable[[str], Plan]
NODE_GROUP = "aws:eks/nodeGroup:NodeGroup"
RELEASE = "kubernetes:helm.sh/v3:Release"


@pytest.mark.slow
@pytest.mark.real_world(
    behaviour="An upgrade of the plugin restarts the MPS daemon, and models that keep running have lost their GPU.",
    source="k8s-device-plugin v0.20.0, cmd/mps-control-daemon/mount-shm.go; NVIDIA/k8s-device-plugin issue 669",
)
def test_a_new_release_of_an_mps_pools_plugin_evicts_its_models_and_repeats_the_proof(
    plans: Plans, monkeypatch: pytest.MonkeyPatch
) -> None:
    def keepers(mode: str) -> dict[str, str]:
        graph = program_graph(plans(mode))
        return dict(graph.named("tandem-gpu-mode").inputs["keepers"])

    before = {mode: keepers(mode) for mode in ("mps", "timeslice")}
    newer = replace(plugin_chart.CHART, version="0.20.1")
    monkeypatch.setattr(plugin_chart, "CHART", newer)
    after = {mode: keepers(mode) for mode in before}
    assert before["mps"] != after["mps"]
    assert before["timeslice"] == after["timeslice"]


def mode_taint(taints: list[dict[str, str]]) -> str:
    """The value of the only taint besides the GPU's. It evicts pods."""
    [_, taint] = taints
    assert (taint["key"], taint["effect"]) == ("tandem/mode", "NO_EXECUTE")
    return taint["value"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("change", "evicts"),
    [
        ({}, False),
        ({"models": [{"name": "llama2:7b", "context": 1024}]}, False),
        ({"gpu-nodes": {"instance-types": ["g4dn.2xlarge"]}}, False),
        ({"gpu-nodes": {"instance-types": ["g6.xlarge"]}}, True),
        ({"sharing": {"mode": "timeslice", "replicas": 3}}, True),
        ({"sharing": {"mode": "timeslice", "allocation-policy": "distributed"}}, True),
        ({"proof": False}, True),
    ],
)
def test_models_are_evicted_when_shares_are_to_be_proved_or_the_plugin_starts_again(
    change: dict[str, Any], evicts: bool
) -> None:
    taints = []
    for sections in ({}, change):
        graph = graph_with("timeslice", sections)
        taints.append(mode_taint(graph.named("tandem-gpu-group").inputs["taints"]))
    assert (taints[0] != taints[1]) is evicts


def test_a_pool_that_moves_into_a_list_under_the_name_gpu_does_not_change(graphs: Graphs) -> None:
    source = source_of("timeslice").sections
    models = [{**model, "pool": "gpu"} for model in source["models"]]
    listed = graph_with("timeslice", {"gpu-nodes": [{"name": "gpu", **source["gpu-nodes"]}], "models": models})
    before = graphs("timeslice")
    assert set(listed.resources) == set(before.resources)
    assert [urn for urn in before.resources if before[urn].inputs != listed[urn].inputs] == []


def test_only_a_model_that_never_leaves_mps_refuses_to_run_without_it() -> None:
    pools = [{"name": "a", "sharing": {"mode": "mps"}}, {"name": "b", "sharing": {"mode": "mps"}}, {"name": "c"}]
    models: dict[str, dict[str, Any]] = {
        "llama2:7b": {"pool": "a"},
        "llama3.2:1b": {"pool": "b", "spill": ["a"]},
        "llama3.2:3b": {"pool": "b", "spill": ["c"]},
        "mistral:7b": {"pool": "c"},
    }
    changes = {"gpu-nodes": pools, "models": [{"name": tag, **on} for tag, on in models.items()], "budget": {}}
    pods = model_pods(graph_with("timeslice", changes))
    assert {name: environment(values).get("TANDEM_MPS", "") for name, values in pods.items()} == {
        "llama2-7b": "required",
        "llama3-2-1b": "required",
        "llama3-2-3b": "",
        "mistral-7b": "",
    }


def model_pods(graph: Graph) -> dict[str, dict[str, Any]]:
    """The values of each model's release, by its name."""
    found = [plain(resource.inputs) for resource in graph.of_type(RELEASE)]
    return {one["name"]: one["values"] for one in found if one["chart"] == "ollama"}


def environment(values: dict[str, Any]) -> dict[str, str]:
    return {one["name"]: one["value"] for one in values["extraEnv"]}


def test_components_that_labels_of_nodes_request_are_installed(graphs: Graphs, any_stack: str) -> None:
    groups = [resource.inputs["labels"] for resource in graphs(any_stack).of_type(NODE_GROUP)]
    coming = graphs(any_stack).of_type("kubernetes:karpenter.sh/v1:NodePool")
    groups += [one.inputs["spec"]["template"]["metadata"]["labels"] for one in coming]
    shown = [labels for labels in groups if "tandem/pool" in labels]
    assert shown
    for labels in shown:
        assert ("nvidia.com/mig.config" in labels) is (labels.get("nvidia.com/gpu.deploy.operands") != "false")
        assert "nvidia.com/device-plugin.config" not in labels
        if "nvidia.com/mig.config" in labels:
            values = graphs(any_stack).named("tandem-sharing-operator").inputs["values"]
            layouts = json.loads(values["migManager"]["config"]["data"]["config.yaml"])["mig-configs"]
            assert labels["nvidia.com/mig.config"] in layouts
            assert labels["nvidia.com/mig.capable"] == "true"


@pytest.mark.real_world(
    behaviour="The update strategy MINIMAL removes a node before it adds one",
    source="https://docs.aws.amazon.com/eks/latest/APIReference/API_NodegroupUpdateConfig.html",
)
def test_gpu_groups_update_within_their_size_and_system_nodes_with_a_surge(any_stack: str, graphs: Graphs) -> None:
    for group in graphs(any_stack).of_type("aws:eks/nodeGroup:NodeGroup"):
        gpus = "tandem/pool" in group.inputs.get("labels", {})
        minimal = {"maxUnavailable": 1, "updateStrategy": "MINIMAL"}
        assert group.inputs.get("updateConfig") == (minimal if gpus else None)


def test_every_aws_resource_uses_the_one_explicit_provider(graphs: Graphs, any_stack: str) -> None:
    graph = graphs(any_stack)
    for resource in graph:
        if resource.type.startswith("aws:"):
            assert graph.effective_provider(resource.urn).endswith("pulumi:providers:aws::tandem")


def test_every_volume_is_encrypted_and_every_node_requires_metadata_tokens(graphs: Graphs, any_stack: str) -> None:
    graph = graphs(any_stack)
    for template in graph.of_type("aws:ec2/launchTemplate:LaunchTemplate"):
        for device in template.inputs["blockDeviceMappings"]:
            assert device["ebs"]["encrypted"] == "true"
        assert template.inputs["metadataOptions"]["httpTokens"] == "required"
        assert template.inputs["metadataOptions"]["httpPutResponseHopLimit"] == 1
    for node_class in graph.of_type("kubernetes:karpenter.k8s.aws/v1:EC2NodeClass"):
        spec = node_class.inputs["spec"]
        assert [disk["ebs"]["encrypted"] for disk in spec["blockDeviceMappings"]] == [True]
        options = {"httpEndpoint": "enabled", "httpTokens": "required", "httpPutResponseHopLimit": 1}
        assert spec["metadataOptions"] == options
    for volume in graph.of_type("aws:ebs/volume:Volume"):
        assert volume.inputs["encrypted"] is True
    for storage_class in graph.of_type("kubernetes:storage.k8s.io/v1:StorageClass"):
        assert storage_class.inputs["parameters"]["encrypted"] == "true"
    templates = {template.id for template in graph.of_type("aws:ec2/launchTemplate:LaunchTemplate")}
    assert all(group.inputs["launchTemplate"]["id"] in templates for group in graph.of_type(NODE_GROUP))


def policies(resource: Resource) -> Iterator[dict[str, Any]]:
    for value in plain(resource.inputs).values():
        if isinstance(value, str) and value.startswith("{") and "Statement" in value:
            statements = json.loads(value)["Statement"]
            yield from statements if isinstance(statements, list) else [statements]


def listed(value: str | list[str]) -> list[str]:
    """IAM accepts a string in place of a list with one item."""
    return [value] if isinstance(value, str) else value


def allows_too_much(statement: dict[str, Any]) -> bool:
    """Whether a statement allows an entire family of actions on all resources, or access for everyone."""
    if statement["Effect"] != "Allow":
        return False
    if "NotAction" in statement or "NotResource" in statement:
        return True
    principal = statement.get("Principal", {})
    named = [principal] if isinstance(principal, str) else principal.values()
    everybody = any("*" in listed(each) for each in named)
    wide = any("*" in action for action in listed(statement["Action"]))
    return everybody or (wide and "*" in listed(statement.get("Resource", [])))


def test_no_policy_of_ours_allows_everything_on_everything(graphs: Graphs, any_stack: str) -> None:
    seen = [statement for resource in graphs(any_stack) for statement in policies(resource)]
    assert seen
    assert [statement for statement in seen if allows_too_much(statement)] == []


def test_no_resource_is_reachable_from_outside(graphs: Graphs, any_stack: str) -> None:
    for resource in graphs(any_stack):
        assert "LoadBalancer" not in json.dumps(plain(resource.inputs), default=str)
        assert resource.type not in (
            "aws:ec2/securityGroup:SecurityGroup",
            "aws:ec2/securityGroupRule:SecurityGroupRule",
        )
    for release in graphs(any_stack).of_type(RELEASE):
        assert (release.inputs.get("values") or {}).get("service", {"type": "ClusterIP"})["type"] == "ClusterIP"


def test_role_names_fit_iams_limit(graphs: Graphs, any_stack: str) -> None:
    for role in graphs(any_stack).of_type("aws:iam/role:Role"):
        assert len(role.name) + len("-1234567") <= 64


@pytest.mark.slow
@pytest.mark.parametrize(
    ("cli", "providers", "warned"),
    [(None, "", True), ("/usr/bin/aws", "", False), (None, "aws:1,eks:1", False)],
    ids=["without it", "with it", "in the sandbox, which has its own providers"],
)
def test_without_the_aws_cli_a_warning_comes_before_the_provider_stops(
    cli: str | None, providers: str, warned: bool, plans: Plans, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(program, "load_plan", lambda: plans("dev"))
    monkeypatch.setattr(shutil, "which", lambda _: cli)

    def run_with_providers() -> None:
        monkeypatch.setenv("PULUMI_DEBUG_PROVIDERS", providers)
        program.run()

    graph = run(run_with_providers, project="tandem", stack="dev")
    assert any("The AWS CLI is not on the PATH" in log.message for log in graph.logs) is warned
    assert len(graph) == len(program_graph(plans("dev"))), "the stack is deployed all the same"


def test_pulumi_shows_an_invalid_stack_file_without_a_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(program, "load_plan", lambda: judge_with("dev", {"sharing": {"mode": "mgi"}}).plan())
    with pytest.raises(pulumi.RunError, match="unknown mode") as shown:
        run(program.run, project="tandem", stack="dev")
    assert shown.value.__suppress_context__


@pytest.mark.real_world(
    behaviour="A native sidecar's readiness is part of its pod's, and it gets no GPU unless it requests one",
    source="kubernetes v1.36 pkg/kubelet/status/generate.go; ollama-helm 1.77.0 templates/deployment.yaml",
)
@pytest.mark.parametrize("name", ["timeslice", "volumes"])
def test_a_sidecar_without_a_gpu_watches_each_model_with_our_script(graphs: Graphs, name: str) -> None:
    pods = model_pods(graphs(name))
    assert len(pods) == 2
    for values in pods.values():
        [sidecar] = values["initContainers"]
        assert sidecar["restartPolicy"] == "Always"
        assert "readinessProbe" in sidecar
        assert {"name": "NVIDIA_VISIBLE_DEVICES", "value": "void"} in sidecar["env"]
        assert set(sidecar["resources"]["limits"]) == {"memory"}
        [script] = [one["configMap"]["name"] for one in values["volumes"] if one["name"] == "watch-script"]
        maps = graphs(name).of_type("kubernetes:core/v1:ConfigMap")
        assert script in [plain(one.inputs)["metadata"].get("name") for one in maps]
        [shared] = [mount for mount in values["volumeMounts"] if mount["name"] == "watch"]
        assert shared in sidecar["volumeMounts"]


def test_a_sidecar_without_a_gpu_serves_the_metrics_of_each_model(graphs: Graphs) -> None:
    """Port and annotations are what stores and monitors look for. Its CPU and memory are part of each pod's."""
    without, pods = model_pods(graphs("dev")), model_pods(graphs("monitored"))
    for name, values in pods.items():
        watch, metrics = values["initContainers"]
        assert values["podAnnotations"] == {"prometheus.io/scrape": "true", "prometheus.io/port": "9410"}
        assert metrics["ports"] == [{"name": "metrics", "containerPort": 9410}]
        given = {one["name"]: one["value"] for one in metrics["env"]}
        assert (given["ID"], given["PORT"], given["NVIDIA_VISIBLE_DEVICES"]) == (name, "9410", "void")
        containers = (values, watch, metrics)
        others = (without[name], *without[name]["initContainers"])
        assert mebibytes("requests", *containers) == mebibytes("requests", *others) + 64
        for pod in (containers, others):
            assert sum(int(one["resources"]["requests"]["cpu"].removesuffix("m")) for one in pod) == 250
    assert_fits_a_g4dn_xlarge(pods)


def mebibytes(kind: str, *containers: dict[str, Any]) -> int:
    return sum(int(container["resources"][kind]["memory"].removesuffix("Mi")) for container in containers)


def assert_fits_a_g4dn_xlarge(pods: dict[str, dict[str, Any]]) -> None:
    """The limits of both models are within the memory for pods: 14,481 MiB by Karpenter's catalogue."""
    assert len(pods) == 2
    assert sum(mebibytes("limits", values, *values["initContainers"]) for values in pods.values()) <= 14_481


@pytest.mark.real_world(
    behaviour="The driver compiles the PTX of Ollama's CUDA 13 build at its first use, and keeps it in CUDA_CACHE_PATH",
    source="ollama v0.32.15 llama/server/CMakePresets.json, llama_cuda_v13_linux; CUDA Programming Guide 5.2",
)
def test_compiled_kernels_outlive_the_container_beside_the_model_files(graphs: Graphs) -> None:
    """The chart mounts its volume at /root/.ollama (otwld/ollama-helm 1.77.0 values.yaml, `ollama.mountPath`)."""
    on_node, on_volume = (model_pods(graphs("volumes"))[name] for name in ("mistral-7b", "llama2-7b"))
    assert on_volume["persistentVolume"]["enabled"]
    claims = {volume["name"] for volume in on_node["volumes"] if "persistentVolumeClaim" in volume}
    [folder] = [mount["mountPath"] for mount in on_node["volumeMounts"] if mount["name"] in claims]
    for values, home in ((on_node, folder), (on_volume, "/root/.ollama")):
        path = Path(environment(values)["CUDA_CACHE_PATH"])
        assert Path(home) in path.parents
        # A folder that Ollama uses itself (v0.32.15 manifest/paths.go).
        assert not {"blobs", "manifests"} & {*path.parts}


@pytest.mark.real_world(
    behaviour="llama-server reads the limit of its prompt cache from the environment, and uses 8 GiB by default",
    source="ollama v0.32.15 llm/llama_server.go, SetupLlamaServerCommandEnv; llama.cpp common/arg.cpp; ollama#18264",
)
def test_the_prompt_cache_is_limited_and_counted_in_the_memory_of_each_pod(graphs: Graphs) -> None:
    """Both containers request the planned memory."""
    models = [{**model, "prompt-cache-mib": 512} for model in source_of("timeslice").sections["models"]]
    without, pods = model_pods(graphs("timeslice")), model_pods(graph_with("timeslice", {"models": models}))
    for name, values in pods.items():
        for one, limit in ((values, "512"), (without[name], "0")):
            given = environment(one)
            assert (given["LLAMA_ARG_CACHE_RAM"], given["LLAMA_ARG_CACHE_IDLE_SLOTS"]) == (limit, "0")
        for kind in ("requests", "limits"):
            with_cache, other = (mebibytes(kind, one, *one["initContainers"]) for one in (values, without[name]))
            assert with_cache - other == 512
    assert_fits_a_g4dn_xlarge(pods)


def test_a_proof_expects_the_shares_of_every_gpu_of_a_node() -> None:
    """A g4dn.12xlarge has four T4s (EC2's page of G4 instances), and each offers two shares here."""
    graph = graph_with("timeslice", {"gpu-nodes": {"instance-types": ["g4dn.12xlarge"]}, "budget": {}})
    [container] = graph.named("tandem-gpu-proof-shares-gpu-job").inputs["spec"]["template"]["spec"]["containers"]
    expected = json.loads(next(one["value"] for one in container["env"] if one["name"] == "EXPECTATION"))
    assert (expected["shares"], expected["pods"], expected["per_device"]) == (8, 8, 2)
