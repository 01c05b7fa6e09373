"""Every component with `Mps(limits="per-model")`, alone in a program: nodes with a daemon, and models with limits."""

import json
from base64 import b64decode
from dataclasses import replace
from functools import cache
from typing import Any

import pulumi
import pytest

from components import (
    DevicePluginSharing,
    DevicePluginSharingArgs,
    KarpenterGpuPool,
    KarpenterGpuPoolArgs,
    KarpenterPool,
    OllamaModel,
    OllamaPair,
    OllamaPairArgs,
    PoolSharing,
    ShareProof,
    ShareProofArgs,
    SpotGpuNodeGroup,
    SpotGpuNodeGroupArgs,
)
from components.karpenter_gpu_pool.manifests import node_class, node_pool
from components.mps_daemon import user_data
from sandbox.graph import Graph, plain
from sandbox.preview.program import run
from sharing.models.share import Share
from sharing.modes.modes import Exclusive, Mps, Sharing, TimeSlicing
from tests.components.conftest import Mocks

PER_MODEL = Mps(replicas=3, limits="per-model")
OTHERS = (Exclusive(), TimeSlicing(), Mps())
LLAMA = OllamaModel("llama2:7b", context=2048, share=Share(memory_gib=9, compute_percent=60))
SMALL = OllamaModel("llama3.2:1b", context=2048, share=Share(memory_gib=2.5))
NEIGHBOUR = OllamaModel("mistral:7b", context=2048, pool="other")


def group(sharing: Sharing) -> SpotGpuNodeGroup:
    return SpotGpuNodeGroup("gpu", SpotGpuNodeGroupArgs(cluster_name="c", subnet_ids=["s"], sharing=sharing))


@cache
def group_of(sharing: Sharing) -> tuple[dict[str, Any], dict[str, Any], Any]:
    """The launch template, the node group, and what replaces that."""
    graph = run(lambda: group(sharing), project="test", stack="test")
    [template] = graph.of_type("aws:ec2/launchTemplate:LaunchTemplate")
    [nodes] = graph.of_type("aws:eks/nodeGroup:NodeGroup")
    return plain(template.inputs), plain(nodes.inputs), nodes.options["replacementTrigger"]


@pytest.mark.real_world(
    behaviour="EC2 takes the user data of a launch template in base64, and the provider does not encode it",
    source="EC2 API Reference, RequestLaunchTemplateData.UserData",
)
def test_the_launch_template_starts_the_daemon_and_the_nodes_say_so() -> None:
    template, nodes, _ = group_of(PER_MODEL)
    assert b64decode(template["userData"]).decode() == user_data()
    assert nodes["labels"]["tandem/mps"] == "per-model"
    for sharing in OTHERS:
        template, nodes, _ = group_of(sharing)
        assert "userData" not in template
        assert "tandem/mps" not in nodes["labels"]


def test_the_group_is_replaced_when_the_daemon_comes_or_goes() -> None:
    # Nodes that run read no user data, and a node without the daemon must not keep the label.
    _, _, own = group_of(PER_MODEL)
    assert group_of(Mps(replicas=2, limits="per-model"))[2] == own
    assert {group_of(sharing)[2] for sharing in OTHERS} == {group_of(Mps())[2]} != {own}


def karpenter(sharing: Sharing) -> KarpenterPool:
    return KarpenterPool(name="gpu", sharing=sharing)


def class_of(sharing: Sharing) -> dict[str, Any]:
    made = node_class(karpenter(sharing), role="r", subnet_ids=["s"], security_group_ids=["g"], tags={})
    spec: dict[str, Any] = made["spec"]
    return spec


@pytest.mark.real_world(
    behaviour="Karpenter takes user data as plain text, and encodes it itself",
    source="karpenter-provider-aws 1.14.1 pkg/providers/amifamily/bootstrap/mime/mime.go, Serialize",
)
def test_karpenters_nodes_start_the_daemon_and_karpenter_knows_their_label_before_they_exist() -> None:
    assert class_of(PER_MODEL)["userData"] == user_data()
    labels = node_pool(karpenter(PER_MODEL))["spec"]["template"]["metadata"]["labels"]
    assert labels["tandem/mps"] == "per-model"
    # The plugin's own daemon would start there.
    assert "nvidia.com/mps.capable" not in labels
    assert not [sharing for sharing in OTHERS if "userData" in class_of(sharing)]


def test_the_device_plugin_only_counts_the_pods() -> None:
    pools = [PoolSharing(sharing=PER_MODEL, gpu="t4")]
    graph = run(lambda: DevicePluginSharing("s", DevicePluginSharingArgs(pools=pools)), project="test", stack="test")
    [_, release] = graph.of_type("kubernetes:helm.sh/v3:Release")
    config = plain(release.inputs)["values"]["config"]
    assert config["default"] == "mps-3-per-model"
    assert json.loads(config["map"]["mps-3-per-model"])["sharing"] == {
        "timeSlicing": {
            "renameByDefault": False,
            "failRequestsGreaterThanOne": True,
            "resources": [{"name": "nvidia.com/gpu", "replicas": 3}],
        }
    }


def pair(*models: OllamaModel) -> Graph:
    return run(lambda: OllamaPair("pair", OllamaPairArgs(models=models)), project="test", stack="test")


def values_of(graph: Graph, id: str) -> dict[str, Any]:
    [release] = [one for one in graph.of_type("kubernetes:helm.sh/v3:Release") if one.inputs["name"] == id]
    values: dict[str, Any] = plain(release.inputs)["values"]
    return values


def variables(values: dict[str, Any]) -> dict[str, str]:
    found = {one["name"]: one["value"] for one in values["extraEnv"]}
    return {name: value for name, value in found.items() if "MPS" in name}


@pytest.mark.real_world(
    behaviour="A limit names the only GPU by 0, and M is binary; without a limit of threads, all are allowed",
    source="amazon-ecs-agent ecs-agent/utils/mps/mps.go; run on an H100 (2026-11-26)",
)
def test_a_model_is_a_client_of_the_nodes_daemon_with_its_own_limits() -> None:
    graph = pair(LLAMA, SMALL)
    client = {"CUDA_MPS_PIPE_DIRECTORY": "/run/tandem-mps", "TANDEM_MPS": "node"}
    assert variables(values_of(graph, "llama2-7b")) == {
        **client,
        "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT": "0=9216M",
        "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": "60",
    }
    assert variables(values_of(graph, "llama3-2-1b")) == {**client, "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT": "0=2560M"}


@pytest.mark.real_world(
    behaviour="The level `baseline` forbids a pod's own hostPath and allows a claim, whatever its volume is",
    source="kubernetes pod-security-admission, policy/check_hostPathVolumes.go and check_restrictedVolumes.go",
)
def test_a_model_mounts_the_daemons_directory_through_one_claim_of_the_namespace() -> None:
    graph = pair(LLAMA, SMALL)
    [namespace] = graph.of_type("kubernetes:core/v1:Namespace")
    assert plain(namespace.inputs)["metadata"]["labels"] == {"pod-security.kubernetes.io/enforce": "baseline"}
    volumes = [plain(one.inputs)["spec"] for one in graph.of_type("kubernetes:core/v1:PersistentVolume")]
    [directory] = [one["hostPath"] for one in volumes if one["hostPath"]["path"].startswith("/run/")]
    # A pod on a node without the daemon does not start.
    assert directory == {"path": "/run/tandem-mps", "type": "Directory"}
    for id in ("llama2-7b", "llama3-2-1b"):
        values = values_of(graph, id)
        assert {"name": "mps-daemon", "persistentVolumeClaim": {"claimName": "mps-daemon"}} in values["volumes"]
        # Not read-only: nobody is known to have run a client over such a mount.
        assert {"name": "mps-daemon", "mountPath": "/run/tandem-mps"} in values["volumeMounts"]
        assert values["nodeSelector"] == {"tandem/pool": "gpu", "tandem/mps": "per-model"}


def test_a_model_with_a_limit_changes_no_other_model() -> None:
    graph = pair(LLAMA, NEIGHBOUR)
    assert values_of(graph, "mistral-7b") == values_of(pair(NEIGHBOUR), "mistral-7b")
    assert variables(values_of(graph, "mistral-7b")) == {}
    # Nor is there anything of the daemon where no model has a limit.
    assert "mps-daemon" not in str([one.inputs for one in pair(NEIGHBOUR)])


def test_every_component_works_alone_under_stock_mocks() -> None:
    mocks = Mocks()
    pulumi.runtime.set_mocks(mocks, project="theirs", stack="test")

    def program() -> None:
        group(PER_MODEL)
        pool = karpenter(PER_MODEL)
        args = KarpenterGpuPoolArgs(cluster_name="c", node_subnet_ids=["s"], security_group_id="g", pools=[pool])
        KarpenterGpuPool("karpenter", args)
        DevicePluginSharing("plugin", DevicePluginSharingArgs(pools=[PoolSharing(sharing=PER_MODEL, gpu="t4")]))
        ShareProof("proof", ShareProofArgs(sharing=PER_MODEL, gpu="t4", limits_mib=[9216, 2560]))
        OllamaPair("pair", OllamaPairArgs(models=[LLAMA, SMALL]))

    tested: Any = pulumi.runtime.test(program)  # type: ignore[no-untyped-call]  # pulumi.runtime.test has none
    tested()
    claims = {name for kind, name, _ in mocks.made if kind.endswith(":PersistentVolumeClaim")}
    assert {"proof-mps-daemon-claim", "pair-mps-daemon-claim"} <= claims


def test_a_model_without_limits_is_refused_beside_one_that_has_them() -> None:
    """It would be no client of the daemon, and could take the entire GPU."""
    free = OllamaModel("llama3.2:1b", context=2048)
    # The pool of a model without one is `gpu`.
    for pool in (None, "gpu"):
        with pytest.raises(ValueError, match="llama3-2-1b without limits beside llama2-7b"):
            OllamaPairArgs(models=[LLAMA, replace(free, pool=pool)])
    OllamaPairArgs(models=[LLAMA, replace(free, pool="rest")])
