"""What a stack registers: the same resources in every mode, the settings that matter, and what must never be there."""

import json
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pulumi
import pytest
import yaml

from components.device_plugin_sharing import plugin_chart
from sandbox.graph import Graph, Resource, Secret, holds_secret, plain
from sandbox.preview.program import run
from sharing import versions
from stacks import program
from stacks.stack_file.judge import Plan, RefusedError
from tandem.planned.plan import program_graph
from tests.program.conftest import graph_with, judge_with, source_of

Graphs = Callable[[str], Graph]
Plans = Callable[[str], Plan]
NODE_GROUP = "aws:eks/nodeGroup:NodeGroup"
RELEASE = "kubernetes:helm.sh/v3:Release"


@pytest.fixture
def by_mode() -> dict[str, Graph]:
    """One stack, switched from mode to mode by that one word."""
    nodes = {**source_of("timeslice").sections["gpu-nodes"], "desired": 2, "max": 2}
    return {
        mode: graph_with("timeslice", {"sharing": {"mode": mode}, "gpu-nodes": nodes})
        for mode in ("timeslice", "mps", "exclusive")
    }


@pytest.mark.slow
def test_every_mode_registers_the_same_resources(by_mode: dict[str, Graph]) -> None:
    assert set(by_mode["timeslice"].resources) == set(by_mode["mps"].resources) == set(by_mode["exclusive"].resources)


@pytest.mark.slow
def test_a_switch_of_mode_changes_the_nodes_taint_the_plugin_the_proof_and_what_the_models_tolerate(
    by_mode: dict[str, Graph],
) -> None:
    before = by_mode["timeslice"]
    models = {"tandem-ollama-llama2-7b", "tandem-ollama-mistral-7b"}
    proof = {"tandem-gpu-proof-node-job", "tandem-gpu-proof-shares-gpu-job"}
    for mode in ("mps", "exclusive"):
        after = by_mode[mode]
        assert set(before.resources) == set(after.resources)
        changed = {urn.rsplit("::", 1)[1] for urn in before.resources if before[urn].inputs != after[urn].inputs}
        # Under MPS the proof is root, which `restricted` refuses.
        level = {"tandem-gpu-proof-namespace"} if mode == "mps" else set()
        assert changed == {"tandem-gpu-group", "tandem-sharing-gpu-plugin", "tandem-gpu-mode", *proof, *models, *level}
        old, new = (dict(graph.named("tandem-gpu-group").inputs) for graph in (before, after))
        had, has = mode_taint(old.pop("taints")), mode_taint(new.pop("taints"))
        assert had != has
        assert old == new
        for model in models:
            [_, tolerated] = after.named(model).inputs["values"]["tolerations"]
            assert tolerated == {"key": "tandem/mode", "operator": "Equal", "value": has}


@pytest.mark.slow
@pytest.mark.real_world(
    behaviour="An upgrade of the plugin restarts the MPS daemon, and models that live on have lost their GPU.",
    source="k8s-device-plugin v0.20.0, cmd/mps-control-daemon/mount-shm.go; NVIDIA/k8s-device-plugin issue 669",
)
def test_another_release_of_an_mps_pools_plugin_evicts_its_models_and_proves_again(
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
    """The value of the one taint besides the GPU's, which evicts."""
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
def test_models_are_evicted_when_shares_are_to_be_proved_or_the_plugin_starts_anew(
    change: dict[str, Any], evicts: bool
) -> None:
    taints = []
    for sections in ({}, change):
        graph = graph_with("timeslice", sections)
        taints.append(mode_taint(graph.named("tandem-gpu-group").inputs["taints"]))
    assert (taints[0] != taints[1]) is evicts


def comes_before(graph: Graph, urn: str) -> set[str]:
    """URNs of all that must be there before: dependencies of a resource and of what it belongs to, and theirs."""
    found: set[str] = set()
    left = [urn]
    while left:
        one = graph[left.pop()]
        more = {*one.dependencies, *([one.parent] if one.parent else [])} - found
        found |= more
        left += more
    return found


def test_models_come_after_the_proof_of_every_awake_pool_and_that_after_its_nodes_and_the_plugin(
    graphs: Graphs, plans: Plans, any_stack: str
) -> None:
    graph, setup = graphs(any_stack), plans(any_stack).setup
    jobs = list(graph.of_type("kubernetes:batch/v1:Job"))
    awake = [pool.name for pool in setup.pools if not setup.unproved(pool)]
    proved = {job.name.removeprefix("tandem-").partition("-proof-")[0] for job in jobs}
    assert proved == set(awake)
    for job in jobs:
        before = {graph[urn].name for urn in comes_before(graph, job.urn)}
        pool = job.name.removeprefix("tandem-").partition("-proof-")[0]
        assert {f"tandem-sharing-{pool}-plugin", "tandem-sharing-operator"} & before
        assert "tandem-sharing-discovery" in before
        assert {f"tandem-{pool}-group", f"tandem-karpenter-{pool}-pool"} & before
    for release in graph.of_type("kubernetes:helm.sh/v3:Release"):
        if release.inputs["chart"] == "ollama":
            assert {job.urn for job in jobs} <= comes_before(graph, release.urn)


def test_the_plugin_of_a_pool_changes_after_the_taint_has_evicted_the_models_of_that_pool_and_before_any_model_comes(
    graphs: Graphs, any_stack: str
) -> None:
    graph = graphs(any_stack)
    releases = graph.of_type("kubernetes:helm.sh/v3:Release")
    plugins = [one for one in releases if one.inputs["chart"] in ("nvidia-device-plugin", "gpu-operator")]
    for plugin in plugins:
        pool = plugin.name.removeprefix("tandem-sharing-").removesuffix("-plugin")
        before = {graph[urn].name for urn in comes_before(graph, plugin.urn)}
        nodes = (
            {"tandem-gpu-group"} if pool == "operator" else {f"tandem-{pool}-group", f"tandem-karpenter-{pool}-pool"}
        )
        assert nodes & before
    for release in releases:
        if release.inputs["chart"] == "ollama":
            assert {plugin.urn for plugin in plugins} <= comes_before(graph, release.urn)


@pytest.mark.parametrize(
    ("nodes", "told"),
    [
        ({"desired": 0}, "it has no node now"),
        ({"instance-types": ["g4dn.xlarge", "g4dn.12xlarge"]}, "may have 1 or 4 GPUs"),
    ],
)
def test_shares_that_cannot_be_proved_are_told_and_models_come_all_the_same(nodes: dict[str, Any], told: str) -> None:
    graph = graph_with("timeslice", {"gpu-nodes": source_of("timeslice").sections["gpu-nodes"] | nodes, "budget": {}})
    assert not list(graph.of_type("tandem:index:ShareProof"))
    [notice] = [log.message for log in graph.logs if log.severity == "info"]
    assert "pool gpu are not proved" in notice
    assert told in notice
    assert list(graph.of_type("tandem:index:OllamaPair"))


@pytest.mark.parametrize("stack", ["timeslice", "karpenter"])
def test_without_a_proof_there_is_none_and_nothing_else_differs(graphs: Graphs, stack: str) -> None:
    without = graph_with(stack, {"proof": False})
    gone = set(graphs(stack).resources) - set(without.resources)
    assert not list(without.of_type("tandem:index:ShareProof"))
    assert all("ShareProof" in urn for urn in gone)


@pytest.fixture
def before_and_after_mig() -> tuple[Graph, Graph]:
    """One stack on a GPU with MIG: with time slices, then with MIG slices."""
    mig = source_of("mig").sections["sharing"]
    return graph_with("mig", {"sharing": {"mode": "timeslice"}}), graph_with("mig", {"sharing": mig})


def test_a_switch_to_mig_brings_the_operator_for_new_gpu_nodes_and_takes_the_plugin_from_the_old_ones(
    before_and_after_mig: tuple[Graph, Graph],
) -> None:
    before, after = before_and_after_mig
    gone, came = (
        {urn.rsplit("::", 1)[1] for urn in set(one) - set(other)}
        for one, other in ((before.resources, after.resources), (after.resources, before.resources))
    )
    assert gone == {"tandem-sharing-gpu-plugin", "tandem-sharing-namespace"}
    assert came == {"tandem-sharing-operator", "tandem-sharing-operator-namespace"}
    both = set(before.resources) & set(after.resources)
    changed = {urn.rsplit("::", 1)[1] for urn in both if before[urn].inputs != after[urn].inputs}
    models = {"tandem-ollama-qwen2-5-14b", "tandem-ollama-gemma3-12b"}
    proof = {"tandem-gpu-proof-node-job", "tandem-gpu-proof-shares-gpu-job"}
    assert changed == {"tandem-gpu-group", "tandem-gpu-mode", *proof, *models}
    triggers = [graph.named("tandem-gpu-group").options["replacementTrigger"] for graph in before_and_after_mig]
    assert triggers == ["whole", "4x1g.24gb"]


def test_every_gpu_node_group_is_replaced_when_its_cards_are_cut_otherwise_and_no_other_is(
    graphs: Graphs, any_stack: str
) -> None:
    for group in graphs(any_stack).of_type(NODE_GROUP):
        # Pulumi takes a trigger that was not there before for no change.
        assert ("replacementTrigger" in group.options) is ("tandem/pool" in group.inputs.get("labels", {}))


def test_what_nodes_are_told_by_label_is_installed(graphs: Graphs, any_stack: str) -> None:
    groups = [one.inputs["labels"] for one in graphs(any_stack).of_type(NODE_GROUP)]
    coming = graphs(any_stack).of_type("kubernetes:karpenter.sh/v1:NodePool")
    groups += [one.inputs["spec"]["template"]["metadata"]["labels"] for one in coming]
    told = [labels for labels in groups if "tandem/pool" in labels]
    assert told
    for labels in told:
        assert ("nvidia.com/mig.config" in labels) is (labels.get("nvidia.com/gpu.deploy.operands") != "false")
        assert "nvidia.com/device-plugin.config" not in labels
        if "nvidia.com/mig.config" in labels:
            values = graphs(any_stack).named("tandem-sharing-operator").inputs["values"]
            layouts = json.loads(values["migManager"]["config"]["data"]["config.yaml"])["mig-configs"]
            assert labels["nvidia.com/mig.config"] in layouts
            assert labels["nvidia.com/mig.capable"] == "true"


def test_a_refused_stack_has_no_plan() -> None:
    models = [{"name": "llama3.1:8b", "context": 32768}, {"name": "qwen3:14b"}, {"name": "mistral:7b"}]
    with pytest.raises(RefusedError, match="every model needs a share") as refusal:
        judge_with("timeslice", {"models": models}).plan()
    assert "Pulumi.timeslice.yaml has" in str(refusal.value)


def test_warnings_reach_whoever_runs_pulumi(graphs: Graphs) -> None:
    told = [log.message for log in graphs("mps").logs if log.severity == "warning"]
    assert any("ollama#9765" in message for message in told)


def test_the_warning_about_clients_reaches_the_person_who_runs_pulumi() -> None:
    graph = graph_with("timeslice", {"models-clients": {"namespaces": ["kube-system"]}})
    told = [log.message for log in graph.logs if log.severity == "warning"]
    assert any(message.startswith("models-clients.namespaces[0]: ") for message in told)


def test_outputs_say_cost_and_fit_and_keep_the_kubeconfig_secret(graphs: Graphs) -> None:
    outputs = graphs("mps").stack_outputs
    assert set(outputs["verified_shares"]) == {"gpu"}
    assert outputs["cost"]["usd_per_hour"] > 0.1
    # llama.cpp's own count: 3,578 of weights, 1,024 of cache, 91 of buffers; and 128 for CUDA.
    assert outputs["fit"]["llama2-7b"]["needs_mib"] == pytest.approx(4_821, rel=0.04)
    assert isinstance(outputs["kubeconfig"], Secret)
    assert [key for key, value in outputs.items() if holds_secret(value)] == ["kubeconfig"]


@pytest.mark.real_world(
    behaviour="The update strategy MINIMAL takes a node away before it adds one",
    source="https://docs.aws.amazon.com/eks/latest/APIReference/API_NodegroupUpdateConfig.html",
)
def test_gpu_groups_update_within_their_size_and_system_nodes_with_a_surge(any_stack: str, graphs: Graphs) -> None:
    for group in graphs(any_stack).of_type("aws:eks/nodeGroup:NodeGroup"):
        gpus = "tandem/pool" in group.inputs.get("labels", {})
        minimal = {"maxUnavailable": 1, "updateStrategy": "MINIMAL"}
        assert group.inputs.get("updateConfig") == (minimal if gpus else None)


def test_groups_are_replaced_create_first_unless_the_pool_says_otherwise(graphs: Graphs) -> None:
    first = {name: graphs("delete-first").named(f"tandem-{name}").options for name in ("a-group", "b-group", "system")}
    assert {name for name, options in first.items() if options.get("deleteBeforeReplace")} == {"b-group"}


INPUTS: dict[str, dict[str, Any]] = yaml.safe_load((Path(__file__).parent / "inputs.yaml").read_text(encoding="utf-8"))


def read_path(inputs: Any, path: str) -> Any:
    """The input at a path; None where it is not there."""
    for part in path.split("."):
        inputs = inputs[int(part)] if isinstance(inputs, list) else inputs.get(part)
    return inputs


@pytest.mark.parametrize("name", INPUTS)
def test_resources_have_the_inputs_of_the_table(graphs: Graphs, name: str) -> None:
    stack, *resources = INPUTS[name].items()
    for resource, wanted in resources:
        graph = graphs(stack[1])
        inputs = graph.stack_outputs if resource == "outputs" else graph.named(*resource.split()).inputs
        assert {path: read_path(plain(inputs), path) for path in wanted} == wanted


def test_gpu_nodes_have_the_pinned_image_and_follow_it(graphs: Graphs) -> None:
    group = graphs("timeslice").named("tandem-gpu-group")
    assert group.inputs["releaseVersion"] == versions.ami_release(versions.KUBERNETES)
    assert mode_taint(group.inputs["taints"]).startswith("timeslice-2-")
    assert "ignoreChanges" not in group.options


def test_the_two_servers_cannot_size_themselves(graphs: Graphs) -> None:
    for name, batch in (("llama3-2-1b", "512"), ("llama3-2-1b-2", "512")):
        values = graphs("twins").named(f"tandem-ollama-{name}").inputs["values"]
        environment = {entry["name"]: entry["value"] for entry in values["extraEnv"]}
        assert environment["OLLAMA_CONTEXT_LENGTH"] == "4096"
        assert environment["OLLAMA_MAX_LOADED_MODELS"] == "1"
        assert environment["OLLAMA_KEEP_ALIVE"] == "-1"
        assert environment["OLLAMA_FLASH_ATTENTION"] == "1"
        command = values["lifecycle"]["postStart"]["exec"]["command"]
        assert command[3:] == ["model_start", "llama3.2:1b", "999", {"llama3-2-1b": "1024"}.get(name, batch)]
        assert command[2].startswith("#!/bin/sh")


def test_settings_of_a_model_reach_its_own_server_alone(graphs: Graphs) -> None:
    def of(name: str) -> dict[str, str]:
        values = graphs("twins").named(name).inputs["values"]
        return {entry["name"]: entry["value"] for entry in values["extraEnv"]}

    first, second = of("tandem-ollama-llama3-2-1b"), of("tandem-ollama-llama3-2-1b-2")
    assert (first["OLLAMA_NUM_PARALLEL"], first["OLLAMA_KV_CACHE_TYPE"]) == ("2", "f16")
    assert (second["OLLAMA_NUM_PARALLEL"], second["OLLAMA_KV_CACHE_TYPE"]) == ("1", "q8_0")


def test_a_volume_is_ours_and_goes_after_its_claim_and_before_driver_and_nodes(graphs: Graphs) -> None:
    graph = graphs("volumes")
    volume = graph.named("tandem-ollama-llama2-7b-volume")
    assert volume.inputs["encrypted"] is True
    assert volume.inputs["tags"]["ebs.csi.aws.com/cluster"] == "true"
    order = ["tandem-ollama-llama2-7b-volume", "tandem-ollama-llama2-7b-persistent-volume"]
    order += ["tandem-ollama-llama2-7b-claim", "tandem-ollama-llama2-7b"]
    for earlier, later in pairwise(order):
        assert graph.named(earlier).urn in graph.named(later).dependencies
    pair = graph.named("tandem-ollama")
    for needed in ("tandem-aws-ebs-csi-driver", "tandem-gpu-group"):
        assert graph.named(needed).urn in comes_before(graph, pair.urn)
    persistent = graph.named(order[1]).inputs["spec"]
    assert persistent["persistentVolumeReclaimPolicy"] == "Retain"
    assert graph.named(order[2]).inputs["spec"]["storageClassName"] == ""


def test_a_volume_binds_the_gpu_nodes_to_its_zone(graphs: Graphs) -> None:
    graph = graphs("volumes")
    subnets = graph.named("tandem-gpu-group").inputs["subnetIds"]
    zones = {graph.named(f"tandem-private-{i}", "aws:ec2/subnet:Subnet").inputs["availabilityZone"] for i in range(1)}
    assert len(subnets) == 1
    assert zones == {graph.named("tandem-ollama-llama2-7b-volume").inputs["availabilityZone"]}
    assert len(graphs("timeslice").named("tandem-gpu-group").inputs["subnetIds"]) == 2


def test_public_nodes_cost_no_nat_and_private_ones_one_a_zone_if_asked(graphs: Graphs) -> None:
    def count(name: str, token: str) -> int:
        return len(graphs(name).of_type(token))

    assert count("dev", "aws:ec2/natGateway:NatGateway") == 0
    assert count("timeslice", "aws:ec2/natGateway:NatGateway") == 1
    assert count("logs", "aws:ec2/natGateway:NatGateway") == count("logs", "aws:ec2/eip:Eip") == 3
    assert count("dev", "aws:ec2/subnet:Subnet") == 2
    assert count("logs", "aws:ec2/subnet:Subnet") == 6
    assert {vpce.inputs["vpcEndpointType"] for vpce in graphs("dev").of_type("aws:ec2/vpcEndpoint:VpcEndpoint")} == {
        "Gateway"
    }


def test_the_control_plane_is_made_with_the_arguments_that_were_proved(graphs: Graphs) -> None:
    inputs = graphs("timeslice").named("tandem-cluster", "eks:index:Cluster").inputs
    wanted = {
        "name": "tandem-timeslice",
        "version": versions.KUBERNETES,
        "skipDefaultNodeGroup": True,
        "skipDefaultSecurityGroups": True,
        "authenticationMode": "API",
        "createOidcProvider": False,
        "bootstrapSelfManagedAddons": False,
        "endpointPrivateAccess": True,
        "endpointPublicAccess": True,
        "publicAccessCidrs": ["0.0.0.0/0"],
        "upgradePolicy": {"supportType": "STANDARD"},
    }
    assert {key: inputs.get(key) for key in wanted} == wanted
    assert inputs["corednsAddonOptions"]["enabled"] is False
    assert inputs["kubeProxyAddonOptions"]["version"] == versions.KUBE_PROXY[versions.KUBERNETES]
    assert inputs["vpcCniOptions"]["addonVersion"] == versions.VPC_CNI[versions.KUBERNETES]
    assert not {"encryptionConfigKeyArn", "serviceRole", "storageClasses", "enabledClusterLogTypes"} & set(inputs)


def test_logs_go_into_a_group_of_ours_that_is_there_first(graphs: Graphs) -> None:
    graph = graphs("logs")
    group = graph.named("tandem-logs")
    assert group.inputs["name"] == "/aws/eks/tandem-dev/cluster"
    assert group.inputs["retentionInDays"] == 7
    assert group.urn in graph.named("tandem-cluster", "eks:index:Cluster").dependencies
    assert not graphs("dev").of_type("aws:cloudwatch/logGroup:LogGroup")


def test_add_ons_with_a_deployment_wait_for_the_system_nodes(graphs: Graphs) -> None:
    graph = graphs("timeslice")
    system = graph.named("tandem-system", NODE_GROUP).urn
    for addon in ("coredns", "aws-ebs-csi-driver"):
        assert system in graph.named(f"tandem-{addon}").dependencies


def test_tags_of_the_file_reach_everything(graphs: Graphs) -> None:
    graph = graphs("tagged")
    wanted = {"team": "ml", "tandem:stack": "dev", "tandem:project": "tandem"}
    tagged = [resource for resource in graph if "tags" in resource.inputs]
    assert len(tagged) > 15
    for resource in tagged:
        assert wanted.items() <= resource.inputs["tags"].items(), resource.urn
    driver = json.loads(graph.named("tandem-aws-ebs-csi-driver").inputs["configurationValues"])
    assert wanted.items() <= driver["controller"]["extraVolumeTags"].items()
    cni = [one for one in graph.of_type("aws:eks/addon:Addon") if one.inputs["addonName"] == "vpc-cni"]
    environment = json.loads(cni[0].inputs["configurationValues"])["env"]
    assert wanted.items() <= json.loads(environment["ADDITIONAL_ENI_TAGS"]).items()


def test_every_aws_resource_uses_the_one_explicit_provider(graphs: Graphs, any_stack: str) -> None:
    graph = graphs(any_stack)
    for resource in graph:
        if resource.type.startswith("aws:"):
            assert graph.effective_options(resource.urn)["provider"].endswith("pulumi:providers:aws::tandem")


def test_every_volume_is_encrypted_and_every_node_asks_for_tokens(graphs: Graphs, any_stack: str) -> None:
    graph = graphs(any_stack)
    for template in graph.of_type("aws:ec2/launchTemplate:LaunchTemplate"):
        for device in template.inputs["blockDeviceMappings"]:
            assert device["ebs"]["encrypted"] == "true"
        assert template.inputs["metadataOptions"]["httpTokens"] == "required"
        assert template.inputs["metadataOptions"]["httpPutResponseHopLimit"] == 1
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
    """IAM takes one text for a list of one."""
    return [value] if isinstance(value, str) else value


def allows_too_much(statement: dict[str, Any]) -> bool:
    """Whether a statement allows a whole family of actions on everything, or lets everybody in."""
    if statement["Effect"] != "Allow":
        return False
    if "NotAction" in statement or "NotResource" in statement:
        return True
    principal = statement.get("Principal", {})
    named = [principal] if isinstance(principal, str) else principal.values()
    everybody = any("*" in listed(each) for each in named)
    wide = any("*" in action for action in listed(statement["Action"]))
    return everybody or (wide and "*" in listed(statement.get("Resource", [])))


@pytest.mark.parametrize(
    ("statement", "refused"),
    [
        ({"Action": ["iam:*"], "Resource": ["*"]}, True),
        ({"Action": "iam:*", "Resource": "*"}, True),
        ({"Action": ["ec2:RunInstances", "*"], "Resource": ["arn:aws:s3:::a", "*"]}, True),
        ({"NotAction": ["iam:*"], "Resource": ["arn:aws:s3:::a"]}, True),
        ({"Action": ["s3:GetObject"], "NotResource": ["arn:aws:s3:::a"]}, True),
        ({"Action": ["sts:AssumeRole"], "Principal": "*"}, True),
        ({"Action": ["sts:AssumeRole"], "Principal": {"AWS": ["*"]}}, True),
        ({"Action": ["sts:AssumeRole"], "Principal": {"AWS": "*"}}, True),
        ({"Action": ["sts:AssumeRole"], "Principal": {"Service": "ec2.amazonaws.com"}}, False),
        ({"Action": ["ec2:DescribeImages"], "Resource": ["*"]}, False),
        ({"Action": ["sqs:*"], "Resource": ["arn:aws:sqs:us-east-1:111122223333:mine"]}, False),
    ],
)
def test_a_statement_that_allows_too_much_is_noticed_however_it_is_written(
    statement: dict[str, Any], refused: bool
) -> None:
    assert allows_too_much({"Effect": "Allow", **statement}) is refused
    assert not allows_too_much({"Effect": "Deny", **statement})


def test_no_policy_of_ours_allows_everything_on_everything(graphs: Graphs, any_stack: str) -> None:
    seen = [statement for resource in graphs(any_stack) for statement in policies(resource)]
    assert seen
    assert [statement for statement in seen if allows_too_much(statement)] == []


def test_nothing_is_reachable_from_outside(graphs: Graphs, any_stack: str) -> None:
    for resource in graphs(any_stack):
        assert "LoadBalancer" not in json.dumps(plain(resource.inputs), default=str)
        assert resource.type not in (
            "aws:ec2/securityGroup:SecurityGroup",
            "aws:ec2/securityGroupRule:SecurityGroupRule",
        )
    for release in graphs(any_stack).of_type(RELEASE):
        assert (release.inputs.get("values") or {}).get("service", {"type": "ClusterIP"})["type"] == "ClusterIP"


def test_names_of_roles_are_short_enough_for_iam(graphs: Graphs, any_stack: str) -> None:
    for role in graphs(any_stack).of_type("aws:iam/role:Role"):
        assert len(role.name) + len("-1234567") <= 64


@pytest.mark.slow
def test_who_lacks_the_aws_cli_is_told_before_the_provider_stops(plans: Plans, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(program, "load_plan", lambda: plans("dev"))
    for place, warned in ((None, True), ("/usr/bin/aws", False)):
        monkeypatch.setattr(shutil, "which", lambda _, place=place: place)
        logs = run(program.run, project="tandem", stack="dev").logs
        assert any("The AWS CLI is not on the PATH" in log.message for log in logs) is warned


def test_the_sandbox_has_providers_of_its_own_and_needs_no_aws_cli(
    plans: Plans, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(program, "load_plan", lambda: plans("dev"))
    monkeypatch.setattr(shutil, "which", lambda _: None)

    def run_with_providers() -> None:
        monkeypatch.setenv("PULUMI_DEBUG_PROVIDERS", "aws:1,eks:1")
        program.run()

    logs = run(run_with_providers, project="tandem", stack="dev").logs
    assert not any("AWS CLI" in log.message for log in logs)


def test_a_refusal_reaches_pulumi_without_a_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(program, "load_plan", lambda: judge_with("dev", {"sharing": {"mode": "mgi"}}).plan())
    with pytest.raises(pulumi.RunError, match="unknown mode") as told:
        run(program.run, project="tandem", stack="dev")
    assert told.value.__suppress_context__


def test_the_storage_driver_may_detach_volumes_as_long_as_it_lives(graphs: Graphs) -> None:
    graph = graphs("volumes")
    policy = graph.named("tandem-ebs-csi-role-policy").urn
    assert policy in graph.named("tandem-aws-ebs-csi-driver").dependencies


# Karpenter.

NODE_POOL = "kubernetes:karpenter.sh/v1:NodePool"


def test_karpenters_nodes_take_the_place_of_the_node_group(graphs: Graphs) -> None:
    graph = graphs("karpenter")
    assert [group.name for group in graph.of_type(NODE_GROUP)] == ["tandem-system"]
    [pool] = graph.of_type(NODE_POOL)
    spec = pool.inputs["spec"]
    assert spec["limits"] == {"nodes": "2", "nvidia.com/gpu": "4"}
    wanted = {one["key"]: one["values"] for one in spec["template"]["spec"]["requirements"]}
    assert wanted["node.kubernetes.io/instance-type"] == ["g4dn.xlarge", "g4dn.2xlarge"]
    assert spec["template"]["metadata"]["labels"]["tandem/pool"] == "gpu"
    for model in ("llama2-7b", "mistral-7b"):
        assert graph.named(f"tandem-ollama-{model}").inputs["values"]["nodeSelector"] == {"tandem/pool": "gpu"}


@pytest.mark.slow
def test_there_are_no_more_controllers_than_system_nodes() -> None:
    for count, replicas in ((1, 1), (2, 2), (5, 2)):
        graph = graph_with("karpenter", {"cluster": {"system-nodes": {"count": count}}})
        assert graph.named("tandem-karpenter-controller").inputs["values"]["replicas"] == replicas


def test_nodes_run_where_the_clusters_do_and_in_its_security_group(graphs: Graphs) -> None:
    graph = graphs("karpenter")
    [node_class] = graph.of_type("kubernetes:karpenter.k8s.aws/v1:EC2NodeClass")
    spec = node_class.inputs["spec"]
    subnets = graph.named("tandem-system", NODE_GROUP).inputs["subnetIds"]
    assert [one["id"] for one in spec["subnetSelectorTerms"]] == subnets
    control_plane = graph.named("tandem-cluster-eksCluster").outputs
    assert spec["securityGroupSelectorTerms"] == [{"id": control_plane["vpcConfig"]["clusterSecurityGroupId"]}]


def test_what_karpenter_makes_carries_the_tags_of_the_file(graphs: Graphs) -> None:
    [node_class] = graphs("karpenter-volumes").of_type("kubernetes:karpenter.k8s.aws/v1:EC2NodeClass")
    wanted = {"team": "ml", "tandem:stack": "karpenter", "tandem:project": "tandem"}
    assert wanted.items() <= node_class.inputs["spec"]["tags"].items()


def test_models_go_before_the_pool_that_brings_their_nodes(graphs: Graphs) -> None:
    graph = graphs("karpenter")
    [pool] = graph.of_type(NODE_POOL)
    assert pool.urn in comes_before(graph, graph.named("tandem-ollama").urn)
    for needed in ("tandem-eks-pod-identity-agent", "tandem-coredns", "tandem-aws-ebs-csi-driver"):
        assert graph.named(needed).urn in graph.named("tandem-karpenter-controller").dependencies


@pytest.mark.real_world(
    behaviour="A native sidecar's readiness counts for its pod, and it gets no GPU unless it asks for one",
    source="kubernetes v1.36 pkg/kubelet/status/generate.go; ollama-helm 1.77.0 templates/deployment.yaml",
)
@pytest.mark.parametrize("name", ["timeslice", "volumes"])
def test_a_sidecar_without_a_gpu_watches_each_model_with_the_script_of_this_program(graphs: Graphs, name: str) -> None:
    graph = graphs(name)
    [scripts] = [
        plain(one.inputs)
        for one in graph.of_type("kubernetes:core/v1:ConfigMap")
        if plain(one.inputs)["metadata"]["name"].startswith("model-watch-")
    ]
    models = [plain(one.inputs) for one in graph.of_type(RELEASE) if plain(one.inputs)["chart"] == "ollama"]
    assert len(models) == 2
    for one in models:
        values = one["values"]
        [sidecar] = values["initContainers"]
        assert sidecar["restartPolicy"] == "Always"
        assert "readinessProbe" in sidecar
        assert {"name": "NVIDIA_VISIBLE_DEVICES", "value": "void"} in sidecar["env"]
        assert set(sidecar["resources"]["limits"]) == {"memory"}
        volumes = {volume["name"]: volume for volume in values["volumes"]}
        assert volumes["watch-script"]["configMap"]["name"] == scripts["metadata"]["name"]
        assert one["namespace"] == scripts["metadata"]["namespace"]
        [shared] = [mount for mount in values["volumeMounts"] if mount["name"] == "watch"]
        assert shared in sidecar["volumeMounts"]
        requests = [values["resources"]["requests"], sidecar["resources"]["requests"]]
        assert sum(int(each["cpu"].removesuffix("m")) for each in requests) == 250


def mebibytes(kind: str, *containers: dict[str, Any]) -> int:
    return sum(int(one["resources"][kind]["memory"].removesuffix("Mi")) for one in containers)


@pytest.mark.real_world(
    behaviour="llama-server takes its prompt cache's bound from the environment, and keeps 8 GiB without one",
    source="ollama v0.32.15 llm/llama_server.go, SetupLlamaServerCommandEnv; llama.cpp common/arg.cpp; ollama#18264",
)
def test_the_prompt_cache_is_bounded_and_counted_in_the_memory_of_each_pod(graphs: Graphs) -> None:
    """Both containers request what the plan counts; the limits of all pods on the node are not more than it has."""
    models = [{**one, "prompt-cache-mib": 0} for one in source_of("timeslice").sections["models"]]
    pods, without = (
        {
            release["name"]: (release["values"], *release["values"]["initContainers"])
            for one in graph.of_type(RELEASE)
            if (release := plain(one.inputs))["chart"] == "ollama"
        }
        for graph in (graphs("timeslice"), graph_with("timeslice", {"models": models}))
    )
    assert {len(pods), len(without)} == {2}
    for name, pod in pods.items():
        assert {"name": "LLAMA_ARG_CACHE_RAM", "value": "512"} in pod[0]["extraEnv"]
        assert {"name": "LLAMA_ARG_CACHE_RAM", "value": "0"} in without[name][0]["extraEnv"]
        for kind in ("requests", "limits"):
            assert mebibytes(kind, *pod) - mebibytes(kind, *without[name]) == 512
    # Karpenter's catalogue: 14,481 MiB for pods on g4dn.xlarge.
    assert sum(mebibytes("limits", *pod) for pod in pods.values()) <= 14_481
