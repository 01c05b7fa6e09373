import importlib.metadata
import json
import re
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pulumi_eks as eks
import pulumi_kubernetes as k8s
import pytest

from sandbox.cloud.eks.versions import PULUMI_EKS
from sandbox.cloud.protocol import Refused
from sandbox.graph import Graph, Ref, Resource

Built = Callable[..., Graph]
ENTRIES = {
    "admin": {
        "principal_arn": "arn:aws:iam::123456789012:role/admin",
        "access_policies": {
            "all": {
                "policy_arn": "arn:aws:eks::aws:cluster-access-policy/AmazonEKSClusterAdminPolicy",
                "access_scope": {"type": "cluster"},
            }
        },
    },
    "viewer": {"principal_arn": "arn:aws:iam::123456789012:role/viewer", "kubernetes_groups": ["view"]},
}


def below_cluster(graph: Graph) -> list[Resource]:
    return list(graph.descendants(graph.named("c", "eks:index:Cluster").urn))


def names(graph: Graph, urns: tuple[str, ...]) -> list[str]:
    return sorted(f"{graph[urn].name} {graph[urn].type.rpartition(':')[2]}" for urn in urns)


def addon(graph: Graph, name: str) -> Resource:
    return graph.named(name, "aws:eks/addon:Addon")


CHILDREN = tomllib.loads((Path(__file__).resolve().parents[1] / "eks_cluster.toml").read_text(encoding="utf-8"))
"""Parent, inputs and dependencies of each child, as the real provider registered them."""


def test_each_child_is_as_the_real_provider_registered_it(cluster_graph: Built) -> None:
    graph = cluster_graph(access_entries=ENTRIES)
    children = below_cluster(graph)
    assert all(child.constructed for child in children)
    assert {
        names(graph, (child.urn,))[0]: {
            "parent": graph[child.parent].name,
            "inputs": sorted(child.inputs),
            "dependencies": names(graph, child.dependencies),
        }
        for child in children
    } == CHILDREN


def test_without_access_entries_nothing_waits_for_them(cluster_graph: Built) -> None:
    graph = cluster_graph()
    assert {names(graph, (child.urn,))[0] for child in below_cluster(graph)} == {
        name for name in CHILDREN if "Access" not in name
    }
    assert graph.named("c-vpc-cni", "eks:index:VpcCniAddon").dependencies == ()


def test_inputs_that_no_argument_decides_are_those_of_the_real_ones(cluster_graph: Built) -> None:
    graph = cluster_graph()
    role, control_plane = graph.named("c-eksRole-role"), graph.named("c-eksCluster")
    assert json.loads(role.inputs["assumeRolePolicy"])["Statement"] == [
        {
            "Action": ["sts:AssumeRole", "sts:TagSession"],
            "Effect": "Allow",
            "Principal": {"Service": ["eks.amazonaws.com"]},
        }
    ]
    policy = "arn:aws-cn:iam::aws:policy/AmazonEKSClusterPolicy"
    assert graph.named("c-eksRole-4b490823").inputs["policyArn"] == policy
    assert control_plane.inputs["accessConfig"] == {
        "authenticationMode": "API",
        "bootstrapClusterCreatorAdminPermissions": True,
    }
    assert control_plane.inputs["tags"] == {"Name": "c-eksCluster", "team": "blue"}
    assert addon(graph, "c-kube-proxy").inputs == {
        "addonName": "kube-proxy",
        "addonVersion": "v1.36.0-eksbuild.1",
        "clusterName": "demo",
        "preserve": True,
        "resolveConflictsOnCreate": "OVERWRITE",
        "resolveConflictsOnUpdate": "OVERWRITE",
        "tags": {"team": "blue"},
    }


@pytest.mark.real_world(
    behaviour="The eks provider describes the role of a control plane with a sentence of its own",
    source="pulumi-eks nodejs/eks/cluster/cluster.ts, ServiceRole eksRole",
)
def test_the_role_of_the_control_plane_has_the_description_of_the_real_one(cluster_graph: Built) -> None:
    role = cluster_graph().named("c-eksRole-role")
    assert role.inputs["description"] == "Allows EKS to manage clusters on your behalf."


def test_property_dependencies_name_the_input_that_brings_them(cluster_graph: Built) -> None:
    graph = cluster_graph()
    control_plane = graph.named("c-eksCluster")
    found = {key: names(graph, urns) for key, urns in control_plane.property_dependencies.items()}
    assert found == {"roleArn": ["c-eksRole-role Role"], "vpcConfig": ["net-a Subnet", "net-b Subnet"]}


def test_access_entries_have_their_own_inputs_and_policies(cluster_graph: Built) -> None:
    graph = cluster_graph(access_entries=ENTRIES)
    admin, policy = graph.named("c-admin"), graph.named("c-admin-all")
    assert admin.inputs == {"clusterName": "demo", "principalArn": "arn:aws:iam::123456789012:role/admin"}
    assert graph.named("c-viewer").inputs["kubernetesGroups"] == ["view"]
    assert policy.parent == admin.urn
    assert policy.inputs["accessScope"] == {"type": "cluster"}
    assert policy.inputs["principalArn"] == admin.inputs["principalArn"]


def test_children_have_the_provider_and_options_of_the_real_ones(cluster_graph: Built) -> None:
    graph = cluster_graph()
    provider = graph.named("aws", "pulumi:providers:aws").urn
    custom = [child for child in below_cluster(graph) if child.type.startswith("aws:")]
    assert {child.provider for child in custom} == {provider}
    assert {child.options["version"] for child in custom} == {"7.25.0"}
    assert graph.named("c-eksCluster").options["ignoreChanges"] == [
        "accessConfig.bootstrapClusterCreatorAdminPermissions",
        "bootstrapSelfManagedAddons",
    ]
    kubernetes = graph.named("c-eks-k8s")
    assert kubernetes.provider == ""
    assert graph.named("c-vpc-cni", "eks:index:VpcCniAddon").providers == {
        "aws": provider,
        "kubernetes": kubernetes.urn,
    }


def test_the_role_is_sent_as_a_reference_and_arrives_as_its_id(cluster_graph: Built) -> None:
    graph = cluster_graph()
    role, attachment = graph.named("c-eksRole-role"), graph.named("c-eksRole-4b490823")
    assert attachment.inputs["role"] == Ref(role.urn, role.id)
    assert attachment.outputs["role"] == role.id


def test_outputs_name_the_cluster_and_none_is_secret(cluster_graph: Built) -> None:
    graph = cluster_graph()
    control_plane = graph.named("c-eksCluster")
    outputs = graph.stack_outputs
    assert outputs["name"] == "demo"
    assert outputs["endpoint"] == control_plane.outputs["endpoint"]
    config = json.loads(outputs["kubeconfig_json"])
    assert config["clusters"][0]["cluster"]["server"] == outputs["endpoint"]
    login = config["users"][0]["user"]["exec"]
    assert [login["command"], *login["args"]] == (
        ["aws", "--region", "cn-north-1", "eks", "get-token", "--cluster-name", "demo", "--output", "json"]
    )


def test_what_takes_an_output_depends_on_the_component_and_on_the_control_plane(cluster_graph: Built) -> None:
    # The latter through propertyDependencies: without them a replaced control plane would not reach its dependents.
    def then(cluster: eks.Cluster, _: Any) -> None:
        k8s.Provider("own", kubeconfig=cluster.kubeconfig_json)

    graph = cluster_graph(then)
    assert names(graph, graph.named("own").dependencies) == ["c Cluster", "c-eksCluster Cluster"]


def test_components_register_their_outputs(cluster_graph: Built) -> None:
    graph = cluster_graph()
    for name, token in (("c-eksRole", "ServiceRole"), ("c-vpc-cni", "VpcCniAddon"), ("c", "Cluster")):
        assert graph.outputs[graph.named(name, f"eks:index:{token}").urn]


def configured(graph: Graph) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(addon(graph, "c-vpc-cni").inputs["configurationValues"])
    return found


def test_the_cni_is_configured_as_by_the_real_provider_when_nothing_is_said(cluster_graph: Built) -> None:
    assert addon(cluster_graph(), "c-vpc-cni").inputs["configurationValues"] == (
        '{"env":{"AWS_VPC_ENI_MTU":"9001","AWS_VPC_K8S_CNI_CUSTOM_NETWORK_CFG":"false",'
        '"AWS_VPC_K8S_CNI_EXTERNALSNAT":"false","AWS_VPC_K8S_CNI_LOGLEVEL":"DEBUG",'
        '"AWS_VPC_K8S_CNI_LOG_FILE":"/host/var/log/aws-routed-eni/ipamd.log","AWS_VPC_K8S_CNI_VETHPREFIX":"eni",'
        '"AWS_VPC_K8S_PLUGIN_LOG_FILE":"/var/log/aws-routed-eni/plugin.log","AWS_VPC_K8S_PLUGIN_LOG_LEVEL":"DEBUG",'
        '"ENABLE_POD_ENI":"false","WARM_ENI_TARGET":"1"},"init":{"env":{"DISABLE_TCP_EARLY_DEMUX":"false"}}}'
    )


def test_configuration_values_win_over_defaults_and_are_kept_whole(cluster_graph: Built) -> None:
    values = {"env": {"AWS_VPC_K8S_CNI_LOGLEVEL": "WARN"}, "init": {"image": "x"}, "nodeAgent": {"enabled": "true"}}
    config = configured(cluster_graph(vpc_cni_options={"addon_version": "v1", "configuration_values": values}))
    assert config["env"]["AWS_VPC_K8S_CNI_LOGLEVEL"] == "WARN"
    assert config["env"]["WARM_ENI_TARGET"] == "1"
    assert config["init"] == {"image": "x", "env": {"DISABLE_TCP_EARLY_DEMUX": "false"}}
    assert config["nodeAgent"] == {"enabled": "true"}


@pytest.mark.parametrize(("values", "written"), [({}, "false"), ({"enableNetworkPolicy": "true"}, "true")])
def test_network_policy_is_a_text_beside_the_environment(
    cluster_graph: Built, values: dict[str, str], written: str
) -> None:
    options = {"addon_version": "v1", "enable_network_policy": False, "configuration_values": values}
    assert configured(cluster_graph(vpc_cni_options=options))["enableNetworkPolicy"] == written


def test_log_types_reach_the_control_plane(cluster_graph: Built) -> None:
    graph = cluster_graph(enabled_cluster_log_types=["audit"])
    assert graph.named("c-eksCluster").inputs["enabledClusterLogTypes"] == ["audit"]


def test_a_mistake_gets_the_providers_own_words(cluster_graph: Built) -> None:
    words = "eks:index:Cluster resource 'c' has a problem: `publicAccessCidrs` can only be set when"
    with pytest.raises(Refused, match=words):
        cluster_graph(endpoint_public_access=False)


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({"authentication_mode": None}, "authenticationMode: write API"),
        ({"create_oidc_provider": True}, "createOidcProvider: write False"),
        ({"skip_default_node_group": None}, "skipDefaultNodeGroup: write True"),
        ({"skip_default_security_groups": None}, "skipDefaultSecurityGroups: write True"),
        ({"coredns_addon_options": {"enabled": True, "version": "v1"}}, "corednsAddonOptions.enabled: write False"),
        ({"vpc_id": None}, "vpcId: give a value"),
        ({"kube_proxy_addon_options": {"enabled": True}}, "kubeProxyAddonOptions.version: give a value"),
        ({"vpc_cni_options": {"addon_version": "v1", "log_level": "INFO"}}, "vpcCniOptions.logLevel: leave it out"),
        ({"fargate": True}, "fargate: leave it out"),
    ],
)
def test_what_is_not_emulated_is_refused_by_name(cluster_graph: Built, arguments: dict[str, Any], named: str) -> None:
    with pytest.raises(Refused, match=re.escape(named)):
        cluster_graph(**arguments)


def test_the_repeated_run_had_the_sdk_that_is_installed() -> None:
    assert importlib.metadata.version("pulumi_eks") == PULUMI_EKS
