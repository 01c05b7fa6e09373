"""The policy pack refuses in the programs of others what `tandem plan` refuses in a stack file, and says it alike."""

from collections.abc import Sequence
from typing import Any

import pytest
import yaml

from policy.program import UNKNOWN, Resource
from policy.rules import POLICY_RULES, find_violations
from stacks.stack_file.judge import judge
from stacks.stack_file.yaml import Source
from tests.policy.declared import (
    affinity,
    config_map,
    daemon_set,
    declare,
    deployment,
    group,
    node_pool,
    ollama,
    operator,
    plugin,
    sharing,
    taints,
)
from tests.rows import read_rows
from tests.sharing.builders import TODAY
from tests.shipped import ROOT

T4 = {"instance-types": ["g4dn.xlarge"]}
TWO = [{"name": "llama2:7b"}, {"name": "mistral:7b"}]
TIMESLICE = {"mode": "timeslice", "replicas": 2}


def find(rule: str, *resources: Resource, exceptions: Sequence[str] = ()) -> dict[str, str]:
    """What a policy says, by the name of the resource."""
    [policy] = [each for each in POLICY_RULES if each.name == rule]
    return {name: message for _, name, message in find_violations(policy, resources, exceptions)}


def find_all(*resources: Resource) -> dict[str, dict[str, str]]:
    found = {each.name: find(each.name, *resources) for each in POLICY_RULES}
    return {name: messages for name, messages in found.items() if messages}


def plan(sections: dict[str, Any]) -> list[str]:
    """The sentences of `tandem plan` about a stack file."""
    stack = {"sharing": TIMESLICE, "gpu-nodes": T4, "models": TWO, "cluster": {"nat": "none"}, **sections}
    judged = judge(Source(sections=stack, provider={"aws:region": "us-east-1"}), "Pulumi.theirs.yaml", today=TODAY)
    return [problem.sentence for problem in judged.problems]


LARGE = (group("g4dn.xlarge"), plugin(), ollama("llama2:70b"), ollama("mistral:7b"))
CROWD = (group("g4dn.xlarge"), plugin(), ollama("llama3.2:1b"), ollama("gemma3:1b"), ollama("mistral:7b"))
ON_CPU = {"ollama": {"models": {"pull": ["llama2:70b"]}}}
ON_AMD = {"ollama": {"gpu": {"enabled": True, "type": "amd"}, "models": {"pull": ["llama2:70b"]}}}
ON_MIG = {"nvidia.com/mig.config": "all-1g.5gb"}
ON_SLICE = {
    "ollama": {
        "gpu": {"enabled": True, "mig": {"enabled": True, "devices": {"1g.5gb": 1}}},
        "models": {"pull": ["gemma3:1b"]},
    }
}
CHAT = (plugin(), ollama("gemma3:1b"))
ANY = [{"operator": "Exists"}]
SOLE = {"config": {"name": "gpus", "data": {"any": sharing("mps", 4)}}}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("rule", "resource", "program", "stack"),
    [
        (
            "gpu-instance-types",
            "gpus",
            [group("g4dn.xlarge", "t3.large"), plugin()],
            {"gpu-nodes": {"instance-types": ["g4dn.xlarge", "t3.large"]}},
        ),
        (
            "gpu-instance-types",
            "gpus",
            [group("g4ad.xlarge", amiType="AL2023_x86_64_NVIDIA")],
            {"gpu-nodes": {"instance-types": ["g4ad.xlarge"]}},
        ),
        ("gpu-instance-types", "gpus", [group("p3.2xlarge")], {"gpu-nodes": {"instance-types": ["p3.2xlarge"]}}),
        (
            "one-gpu-per-group",
            "gpus",
            [group("g4dn.xlarge", "g5.xlarge"), plugin()],
            {"gpu-nodes": {"instance-types": ["g4dn.xlarge", "g5.xlarge"]}},
        ),
        (
            "one-gpu-per-group",
            "gpus",
            [node_pool(instance_type=["g4dn.xlarge", "g6.xlarge"]), ollama("gemma3:1b")],
            {"gpu-nodes": {"instance-types": ["g4dn.xlarge", "g6.xlarge"]}},
        ),
        (
            "gpu-supports-mode",
            "plugin",
            [group("p3.2xlarge"), plugin("mps", 17)],
            {"gpu-nodes": {"instance-types": ["p3.2xlarge"]}, "sharing": {"mode": "mps", "replicas": 17}},
        ),
        (
            "gpu-supports-mode",
            "operator",
            [group("g4dn.xlarge", labels=ON_MIG), operator()],
            {"sharing": {"mode": "mig", "layout": "all-1g.5gb"}},
        ),
        ("share-for-every-server", "gpus", CROWD, {"models": [{"name": "llama3.2:1b"}, {"name": "gemma3:1b"}, TWO[1]]}),
        ("models-fit", "llama2:70b", LARGE, {"models": [{"name": "llama2:70b"}, TWO[1]]}),
        (
            "models-fit",
            "llama2:70b",
            [group("p4d.24xlarge", labels=ON_MIG), operator(), ollama("llama2:70b")],
            {
                "gpu-nodes": {"instance-types": ["p4d.24xlarge"], "volume-gib": 500},
                "sharing": {"mode": "mig", "layout": "all-1g.5gb"},
                "models": [{"name": "llama2:70b"}],
            },
        ),
        (
            "models-fit",
            "mistral:7b",
            [
                group("g4dn.xlarge"),
                plugin("mps"),
                ollama("mistral:7b", env={"OLLAMA_CONTEXT_LENGTH": "16384", "OLLAMA_NUM_PARALLEL": "2"}),
                ollama("gemma3:1b", env={"OLLAMA_KV_CACHE_TYPE": "q8_0"}),
            ],
            {
                "sharing": {"mode": "mps", "replicas": 2},
                "models": [
                    {"name": "mistral:7b", "context": 16384, "slots": 2},
                    {"name": "gemma3:1b", "kv-type": "q8_0"},
                ],
            },
        ),
    ],
)
def test_a_wrong_program_gets_the_sentence_of_the_plan(
    rule: str, resource: str, program: list[Resource], stack: dict[str, Any]
) -> None:
    found = find(rule, *program)
    assert [*found] == [resource]
    sentence = found[resource].removeprefix(f"{resource}: ")
    assert any(sentence.startswith(f"{expected}. ") for expected in plan(stack)), (found, plan(stack))


def test_a_fix_names_the_settings_of_the_program_and_no_price_of_a_stack() -> None:
    found = find("models-fit", group("g4dn.xlarge"), plugin(), ollama("llama2:13b"), ollama("mistral:7b"))
    fix = found["llama2:13b"].rpartition("(timeslice on T4). ")[2]
    assert fix == (
        "Write `OLLAMA_CONTEXT_LENGTH: 3072`; or `OLLAMA_KV_CACHE_TYPE: q8_0`; or `instanceTypes: [g6.xlarge]`; "
        "or `mode: exclusive` with `desiredSize: 2` and `maxSize: 2`."
    )
    assert find("share-for-every-server", *CROWD)["gpus"].endswith(
        "Write `desiredSize: 2` with `maxSize: 2`; or `replicas: 3`."
    )
    # The disk of other nodes is no setting of these.
    twice = [ollama("llama2:70b", name=name) for name in ("first", "second")]
    assert find("models-fit", *LARGE[:2], *twice)["first"].endswith(". Write `instanceTypes: [g7e.2xlarge]`.")
    # Karpenter starts a node when a pod waits for one.
    pool = node_pool(instance_type=["g4dn.xlarge"])
    assert find("share-for-every-server", pool, *CROWD[1:])["gpus"].endswith("Write `maxSize: 2`; or `replicas: 3`.")


@pytest.mark.parametrize(
    "program",
    [
        [group("g4dn.xlarge"), plugin(), ollama("llama2:7b"), ollama("mistral:7b")],
        [group("g4dn.xlarge"), plugin("mps"), ollama("llama2:7b"), ollama("mistral:7b")],
        [node_pool(instance_family=["g4dn"], most=2), plugin(), ollama("llama2:7b"), ollama("mistral:7b")],
        [node_pool(most=8, instance_type=["g4dn.12xlarge"]), plugin(), *(ollama("gemma3:1b", name=n) for n in "abcde")],
        [
            node_pool(most=8, instance_type=["g4dn.12xlarge", "g4dn.xlarge"]),
            plugin(),
            *(ollama("gemma3:1b", name=n) for n in "abcde"),
        ],
        [node_pool(instance_gpu_name=["t4"], instance_gpu_count=["1"]), plugin(), ollama("llama2:7b")],
        # Nodes without GPUs, and a server without one, are none of its business.
        [group("t3.large"), declare("kubernetes:karpenter.sh/v1:NodePool", "any", spec={}), plugin()],
        [group("m7i.large"), declare("kubernetes:helm.sh/v3:Release", "cpu", chart="ollama", values=ON_CPU)],
        [group("g4dn.xlarge"), declare("kubernetes:helm.sh/v3:Release", "amd", chart="ollama", values=ON_AMD)],
        # Ollama splits a model across the GPUs of its pod.
        [group("g4dn.12xlarge"), ollama("llama2:70b", number=4)],
        # Nodes of other programs, and what keeps NVIDIA's pods off these.
        [
            group("g4dn.xlarge", labels={"pool": "training"}),
            plugin(),
            ollama("llama2:70b", nodeSelector={"pool": "chat"}),
        ],
        [group("g4dn.xlarge"), plugin(), ollama("llama2:70b", nodeSelector={"accelerator": "a100"})],
        [group("t3.large", labels={"nvidia.com/gpu.deploy.operands": "false"})],
        [node_pool(operator="NotIn", instance_family=["t2"])],
        [node_pool(operator="NotIn", instance_type=["g4dn.xlarge", "g5.xlarge"])],
        # Who installed the plugin, and how, is unknown: two servers may share the GPU.
        [group("g4dn.xlarge"), ollama("llama2:7b"), ollama("mistral:7b")],
        # An operator that leaves these nodes to the plugin.
        [group("g4dn.xlarge", labels={"nvidia.com/gpu.deploy.operands": "false"}), plugin(), operator()],
        [group("g4dn.xlarge", labels={"nvidia.com/gpu.deploy.device-plugin": "false"}), plugin(), operator()],
        [group("g4dn.xlarge"), plugin(), operator(devicePlugin={"enabled": False})],
    ],
)
def test_a_program_that_works_is_left_alone(program: list[Resource]) -> None:
    assert {rule for rule in find_all(*program) if rule != "unchecked"} == set()


@pytest.mark.parametrize(
    ("program", "left"),
    [
        # Karpenter meets all requirements.
        (
            [node_pool(instance_family=["g4dn", "g5"], instance_gpu_memory=["22888"]), *CHAT],
            "gpus (its requirements)",
        ),
        ([node_pool(instance_family=["g4ad", "g4dn"], instance_gpu_manufacturer=["nvidia"]), *CHAT], ""),
        ([node_pool(instance_type=["g4ad.xlarge", "t3.large", "g4dn.xlarge"]), *CHAT], ""),
        ([node_pool(instance_family=["g5g", "g4dn"], arch=["amd64"]), *CHAT], ""),
        ([node_pool(instance_gpu_count=["1"]), *CHAT], "gpus (its requirements)"),
        (
            [node_pool(operator="Exists", instance_family=[]), group("g4dn.xlarge", name="t4"), *LARGE[1:3]],
            "gpus (its requirements), llama2:70b (its nodes, which are in no group here or in several)",
        ),
        ([node_pool(instance_gpu_name=["rtx-pro-4500"]), *CHAT], ""),
        ([node_pool(instance_gpu_name=["rtx"]), *CHAT], "gpus (its requirements)"),
        ([node_pool(instance_type=["g6f.xlarge"], instance_gpu_count=["0"])], ""),
        # Any GPU does where none is shared.
        ([node_pool(instance_family=["g5", "g6"])], ""),
        ([group("g5.xlarge", "g6.xlarge"), operator()], ""),
        # Affinity and tolerations keep pods apart, too.
        (
            [
                group("g4dn.xlarge", labels={"pool": "fast"}),
                plugin(affinity=affinity("In", "fast")),
                plugin(name="other", affinity=affinity("NotIn", "fast")),
            ],
            "",
        ),
        ([group("g4dn.xlarge", taints=taints("team")), plugin(), plugin(name="other", tolerations=ANY)], ""),
        (
            [
                group("g4dn.xlarge"),
                plugin(affinity=affinity("In", "T4", key="nvidia.com/gpu.product")),
                plugin(name="other", affinity=affinity("In", "A10G", key="nvidia.com/gpu.product")),
            ],
            "gpus (its device plugin, of which it may have several)",
        ),
        (
            [group("g4dn.xlarge", taints=taints("team")), plugin(tolerations=ANY), ollama("llama2:70b")],
            "llama2:70b (its nodes, which are in no group here or in several)",
        ),
        (
            [group("g4dn.xlarge"), plugin(), ollama("llama2:70b", affinity=affinity("In", "fast"))],
            "llama2:70b (its nodes, which are in no group here or in several)",
        ),
        # The operator does not fall back to a sole configuration.
        ([group("g4dn.12xlarge"), operator(devicePlugin=SOLE), ollama("llama2:70b", number=4)], ""),
        # The chart of Ollama names its slices in another place.
        (
            [
                group("p4d.24xlarge", labels=ON_MIG),
                operator(mig={"strategy": "mixed"}),
                declare("kubernetes:helm.sh/v3:Release", "chat", chart="ollama", values=ON_SLICE),
            ],
            "",
        ),
        # Layouts of others.
        (
            [
                group("p4d.24xlarge", labels={"nvidia.com/mig.config": "ours"}),
                operator(migManager={"config": {"name": "layouts"}}),
            ],
            "gpus (the MIG layout ours)",
        ),
        (
            [group("p4d.24xlarge", labels={"nvidia.com/mig.config": "all-enabled"}), operator()],
            "gpus (the MIG layout all-enabled)",
        ),
        # Time-slicing gives a pod shares of several GPUs.
        ([group("g4dn.12xlarge"), plugin(), ollama("llama2:7b", number=2)], ""),
        # So it does with slices.
        (
            [
                group("g7e.2xlarge", labels={"nvidia.com/mig.config": "all-1g.24gb"}),
                operator(devicePlugin={"config": {"default": "a", "data": {"a": sharing("timeSlicing", 2)}}}),
                ollama("gemma3:1b", number=2),
            ],
            "",
        ),
        # A type that is newer than the catalogue, here or elsewhere.
        ([group("g4dn.extra"), *CHAT], "gpus (the instance type g4dn.extra)"),
        ([node_pool(instance_type=["g9.large"]), *CHAT], "gpus (its requirements)"),
        (
            [group("g9.large", name="new"), group("g4dn.xlarge"), plugin(), ollama("llama2:70b")],
            "new (the instance type g9.large), llama2:70b (its nodes, which are in no group here or in several)",
        ),
        # What says that nodes without a known type have a GPU.
        ([group(taints=taints("nvidia.com/gpu"))], "gpus (its instance types)"),
        ([group(amiType="AL2023_x86_64_NVIDIA")], "gpus (its instance types)"),
        ([group(labels={"nvidia.com/gpu.present": "true"})], "gpus (its instance types)"),
        ([group(labels={"nvidia.com/gpu.present": "false"}, amiType="CUSTOM", taints=taints("team"))], ""),
        # GPUs of AMD are no matter of NVIDIA's plugin.
        ([group("g4ad.xlarge"), plugin()], ""),
        # Its values are known after `up`.
        (
            [
                group("g4dn.xlarge"),
                declare("kubernetes:helm.sh/v3:Release", "plugin", chart="nvidia-device-plugin", values=UNKNOWN),
                ollama("llama2:7b"),
                ollama("mistral:7b"),
            ],
            "plugin (its configuration of unknown name), plugin (its values)",
        ),
        (
            [declare("kubernetes:helm.sh/v3:Release", "plugin", chart="nvidia-device-plugin", valueYamlFiles=["a"])],
            "plugin (its values)",
        ),
        # Resources of the plugins of others.
        (
            [
                group("g4dn.xlarge"),
                plugin(),
                ollama("gemma3:1b", resources={"limits": {"nvidia.com/gpumem": "3000"}}),
            ],
            "",
        ),
    ],
)
def test_what_might_work_is_never_refused(program: list[Resource], left: str) -> None:
    """What is not read is said instead."""
    assert find_all(*program) == ({"unchecked": {"": f"Not checked: {left}."}} if left else {})


@pytest.mark.parametrize("way", ["timeSlicing", "mps"])
@pytest.mark.parametrize("replicas", [1, 0, "many", None])
def test_fewer_than_two_replicas_stop_the_plugin(way: str, replicas: object) -> None:
    """As in k8s-device-plugin v0.20.0 api/config/v1/replicas.go: "number of replicas must be >= 2"."""
    found = find("gpu-supports-mode", plugin(way, replicas))
    assert found["plugin"] == (
        f"plugin: `{way}` in any must have at least 2 replicas, not {replicas}. For one pod per GPU, remove `sharing`."
    )


def test_two_plugins_on_the_same_nodes_are_refused() -> None:
    """Both register `nvidia.com/gpu` with the kubelet, and the last one wins."""
    found = find("one-device-plugin", group("g4dn.xlarge"), plugin(), operator())
    assert found["operator"].startswith("operator: is a second device plugin on the nodes of gpus, beside plugin;")
    fast, slow = (group("g4dn.xlarge", name=name, labels={"pool": name}) for name in ("fast", "slow"))
    apart = [plugin(name=name, nodeSelector={"pool": name}) for name in ("fast", "slow")]
    assert find("one-device-plugin", fast, slow, *apart) == {}
    assert [*find("one-device-plugin", fast, slow, *apart, plugin(name="third"))] == ["third"]


def test_a_server_requests_one_share_that_its_nodes_offer() -> None:
    """Chapter "Shared access to GPUs" of the plugin's README: two shares are no more memory or compute than one."""
    found = find("one-share-per-server", group("g4dn.xlarge"), plugin(), ollama("llama2:7b", number=2))
    rule = "requests 2 × nvidia.com/gpu, but two shares of a GPU are not a double share"
    assert found == {"llama2:7b": f"llama2:7b: {rule}. Request 1."}
    mixed = operator(mig={"strategy": "mixed"})
    found = find("one-share-per-server", group("p4d.24xlarge", labels=ON_MIG), mixed, ollama("llama3.2:1b"))
    assert found["llama3.2:1b"].endswith("do not offer. Request nvidia.com/mig-1g.5gb.")
    several, twice = group("g4dn.12xlarge"), ollama("llama2:7b", number=2)
    strict = sharing("timeSlicing", 2, failRequestsGreaterThanOne=True)
    for values in ({"way": "mps"}, {"config": {"map": {"any": strict}}}):
        assert [*find("one-share-per-server", several, plugin(**values), twice)] == ["llama2:7b"]
    renamed = ollama("llama2:7b", resources={"limits": {"nvidia.com/gpu.shared": "1"}})
    assert find("one-share-per-server", group("g4dn.xlarge"), plugin(), renamed) == {}


@pytest.mark.parametrize(
    "program",
    [
        [
            config_map("gpus", any=sharing("timeSlicing", 4)),
            operator(devicePlugin={"config": {"name": "gpus", "default": "any"}}),
        ],
        [operator(devicePlugin={"config": {"default": "b", "data": {"a": "{}", "b": sharing("timeSlicing", 4)}}})],
        [config_map("gpus", a="{}", b=sharing("timeSlicing", 4)), daemon_set("gpus", default="b")],
        [
            declare(
                "kubernetes:nvidia.com/v1:ClusterPolicy",
                "policy",
                spec={"devicePlugin": {"enabled": True, "config": {"name": "gpus", "default": "any"}}},
            ),
            config_map("gpus", any=sharing("timeSlicing", 4), other="{}"),
        ],
        [
            declare(
                "kubernetes:helm.sh/v3:Release",
                "plugin",
                chart="https://nvidia.github.io/k8s-device-plugin/stable/nvidia-device-plugin-0.20.0.tgz",
                values={"config": {"map": {"any": yaml.safe_dump(yaml.safe_load(sharing("timeSlicing", 4)))}}},
            )
        ],
    ],
)
def test_the_plugins_configuration_is_found_where_people_put_it(program: list[Resource]) -> None:
    servers = [ollama("gemma3:1b", name=f"server-{number}") for number in range(5)]
    found = find("share-for-every-server", group("g4dn.xlarge"), *program, *servers)
    assert "found 5 models for 4 shares" in found["gpus"]


def test_a_server_needs_a_share_whatever_its_model() -> None:
    own = [ollama(f"their/model:{size}b") for size in (1, 2, 3)]
    found = find_all(group("g4dn.xlarge"), plugin(), *own)
    assert "found 3 models for 2 shares" in found["share-for-every-server"]["gpus"]
    assert found.keys() == {"share-for-every-server", "unchecked"}
    # But nobody knows how much memory it needs.
    crowd = [plugin(replicas=50), ollama("their/model:7b", replicaCount=49), ollama("llama2:7b")]
    assert find("models-fit", group("g4dn.xlarge"), *crowd) == {}


def test_a_label_of_the_nodes_chooses_the_configuration() -> None:
    config = {"default": "one", "map": {"one": "{}", "three": sharing("timeSlicing", 3)}}
    release = declare(
        "kubernetes:helm.sh/v3:Release", "plugin", chart="nvidia-device-plugin", values={"config": config}
    )
    servers = [ollama("gemma3:1b", name=f"server-{number}") for number in range(4)]
    label = {"nvidia.com/device-plugin.config": "three"}
    assert "for 1 share." in find("share-for-every-server", group("g4dn.xlarge"), release, *servers)["gpus"]
    found = find("share-for-every-server", group("g4dn.xlarge", labels=label), release, *servers)
    assert "for 3 shares." in found["gpus"]


def test_a_server_of_a_rendered_chart_is_one_of_a_release() -> None:
    servers = [deployment("llama2:70b", {"nvidia.com/gpu": "1"}), deployment("llama2:7b", {})]
    assert [*find("models-fit", group("g4dn.xlarge"), plugin(), *servers)] == ["llama2:70b"]


def test_labels_that_nodes_get_later_choose_no_other_nodes() -> None:
    """As of GPU feature discovery and the kubelet."""
    for label, value in {"nvidia.com/gpu.present": "true", "kubernetes.io/arch": "amd64"}.items():
        server = ollama("llama2:70b", nodeSelector={label: value})
        assert find("models-fit", group("g4dn.xlarge"), plugin(), server)
    other = ollama("llama2:70b", nodeSelector={"node.kubernetes.io/instance-type": "g6e.xlarge"})
    assert find("models-fit", group("g4dn.xlarge"), plugin(), other) == {}


def test_the_largest_model_of_a_server_counts() -> None:
    """Ollama unloads a model for which another needs the memory (docs/faq.mdx, "concurrent requests")."""
    server = ollama("gemma3:1b", "llama2:70b", "mistral:7b", name="all")
    assert "all: llama2:70b (" in find("models-fit", group("g4dn.xlarge"), plugin(), server)["all"]
    assert find("models-fit", group("g4dn.xlarge"), plugin(), ollama("llama2:13b", "mistral:7b")) == {}
    # Its file is smaller, but a token of its cache takes 512 KiB (32 layers × 32 heads × 128 values × 2 × 2 bytes), not
    # 128: with six slots, 12 GiB.
    server = ollama("mistral:7b", "llama2:7b", name="all", env={"OLLAMA_NUM_PARALLEL": "6"})
    assert "all: llama2:7b (" in find("models-fit", group("g4dn.xlarge"), plugin(), server)["all"]


def test_advice_is_for_the_region_of_the_provider() -> None:
    here = Resource(**{**vars(group("p3.2xlarge")), "region": "eu-west-1"})
    offered = {row["region"]: row["families"].split() for row in read_rows(ROOT / "sharing" / "data" / "offerings.csv")}
    assert "g6" in offered["us-east-1"]
    assert "g6" not in offered["eu-west-1"]
    for nodes, named in ((group("p3.2xlarge"), True), (here, False)):
        assert ("g6.xlarge" in find("gpu-instance-types", nodes)["gpus"]) == named


def test_the_type_may_be_in_the_launch_template() -> None:
    template = declare("aws:ec2/launchTemplate:LaunchTemplate", "template", instanceType="p3.2xlarge")
    nodes = Resource(
        urn="urn:nodes",
        type="aws:eks/nodeGroup:NodeGroup",
        name="nodes",
        props={"launchTemplate": {"id": UNKNOWN}},
        needs={"launchTemplate": [template.urn]},
    )
    assert [*find("gpu-instance-types", template, nodes)] == ["nodes"]


@pytest.mark.parametrize(("type", "fits"), [("g5.xlarge", True), ("g6e.xlarge", False)])
def test_without_a_context_length_a_server_has_the_one_that_ollama_chooses(type: str, fits: bool) -> None:
    """Ollama v0.32.15 docs/context-length.mdx: 4k below 24 GiB, 32k below 48 GiB, else 256k.

    A10G and L40S have less than their 24 and 48 GB.
    """
    # 32 layers × 8 KV heads × 128 values × 2 × 2 bytes are 128 KiB per token: 0.5 GiB, or 4 GiB, per slot.
    server = ollama("mistral:7b", env={"OLLAMA_NUM_PARALLEL": "12"})
    assert (find("models-fit", group(type), plugin(), server) == {}) == fits


def test_what_cannot_be_known_is_said_once() -> None:
    found = find_all(
        group(labels={"nvidia.com/gpu": "yes"}, name="new", taints=taints("team")),
        group("g4dn.xlarge"),
        operator(devicePlugin={"config": {"name": "elsewhere"}}),
        ollama("their/model:7b", name="own"),
        ollama("llama2:7b", env={"OLLAMA_CONTEXT_LENGTH": UNKNOWN, "TOKEN": UNKNOWN}),  # type: ignore[dict-item]
        declare("kubernetes:helm.sh/v3:Release", "file", chart="ollama", values=UNKNOWN),
    )
    assert found == {
        "unchecked": {
            "": "Not checked: new (its instance types), operator (its configuration elsewhere), "
            "own (the model their/model:7b), llama2:7b (OLLAMA_CONTEXT_LENGTH), file (its values)."
        }
    }


@pytest.mark.parametrize(
    "other",
    [
        plugin(name="other"),
        ollama("mistral:7b"),
        group("g4dn.xlarge", name="more"),
        node_pool(instance_type=["g4dn.xlarge"]),
    ],
    ids=lambda other: other.type,
)
def test_parts_of_two_clusters_are_not_compared(other: Resource) -> None:
    def within(cluster: str, *resources: Resource) -> list[Resource]:
        return [Resource(**{**vars(each), "cluster": cluster}) for each in resources]

    program = within("a", group("g4dn.xlarge"), node_pool(instance_type=["g5.xlarge"]), plugin(), plugin(name="second"))
    for cluster, found in (("a", {"one-device-plugin"}), ("b", set[str]())):
        assert {*find_all(*program, *within(cluster, other))} - {"unchecked"} == found


@pytest.mark.parametrize("pattern", ["llama2:70b", "llama2:*", "urn:pulumi:dev::*::llama2:70b"])
def test_an_exception_names_a_resource_or_a_pattern_of_its_name_or_urn(pattern: str) -> None:
    assert [*find("models-fit", *LARGE)] == ["llama2:70b"]
    assert find("models-fit", *LARGE, exceptions=[pattern]) == {}
    assert [*find("models-fit", *LARGE, exceptions=["llama2", "gpus"])] == ["llama2:70b"]
