from __future__ import annotations

import importlib.metadata
import json
from collections.abc import Callable
from typing import Any

import pulumi
import pulumi_aws as aws
import pulumi_eks as eks
import pulumi_kubernetes as k8s
import pytest

from sandbox.eks.children import data
from sandbox.eks.vpc_cni import compact, configuration
from sandbox.graph import Graph, Ref, Resource, Secret
from sandbox.protocol import Refused

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


def test_the_recommended_arguments_make_the_eight_children_of_the_data(cluster_graph: Built) -> None:
    children = below_cluster(cluster_graph())
    wanted = {(spec["type"], spec["name"].replace("{name}", "c")) for spec in data()["children"] if "each" not in spec}
    assert len(children) == 8
    assert {(child.type, child.name) for child in children} == wanted
    assert all(child.constructed for child in children)


def test_each_child_has_the_parent_and_the_inputs_of_the_data(cluster_graph: Built) -> None:
    graph = cluster_graph()
    for spec in data()["children"]:
        if "each" in spec:
            continue
        child = graph.named(spec["name"].replace("{name}", "c"), spec["type"])
        parent = spec["parent"]
        above = graph[child.parent]
        if isinstance(parent, dict):
            assert (above.name, above.type) == (parent["name"].replace("{name}", "c"), parent["type"])
        else:
            assert above.name == parent.replace("{name}", "c")
        optional = {"tags", "enabledClusterLogTypes", "deletionProtection"}
        assert spec["inputs"].keys() - optional <= child.inputs.keys() <= spec["inputs"].keys()


def test_dependencies_are_those_that_the_state_of_the_real_provider_records(cluster_graph: Built) -> None:
    graph = cluster_graph(access_entries=ENTRIES)
    depends = {
        f"{child.name} {child.type.rpartition(':')[2]}": names(graph, child.dependencies)
        for child in below_cluster(graph)
    }
    cluster = "c-eksCluster Cluster"
    assert depends == {
        "c-eksRole ServiceRole": [],
        "c-eksRole-role Role": [],
        "c-eksRole-4b490823 RolePolicyAttachment": ["c-eksRole-role Role"],
        cluster: ["c-eksRole-4b490823 RolePolicyAttachment", "c-eksRole-role Role", "net-a Subnet", "net-b Subnet"],
        "c-kube-proxy Addon": [cluster],
        "c-eks-k8s kubernetes": [cluster],
        "c-admin AccessEntry": [cluster],
        "c-viewer AccessEntry": [cluster],
        "c-admin-all AccessPolicyAssociation": ["c-admin AccessEntry", cluster],
        "c-vpc-cni VpcCniAddon": ["c-admin AccessEntry", "c-viewer AccessEntry"],
        "c-vpc-cni Addon": [cluster],
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
    assert len(below_cluster(graph)) == 11
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
    assert [invoke.provider for invoke in graph.invokes] == [provider]


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
    assert outputs["cluster_security_group_id"] == control_plane.outputs["vpcConfig"]["clusterSecurityGroupId"]
    assert outputs["oidc_provider_url"] == control_plane.outputs["identities"][0]["oidcs"][0]["issuer"]
    config = json.loads(outputs["kubeconfig_json"])
    assert config == outputs["kubeconfig"]
    assert config["clusters"][0]["cluster"]["server"] == outputs["endpoint"]
    login = config["users"][0]["user"]["exec"]
    assert [login["command"], *login["args"]] == (
        ["aws", "--region", "eu-west-1", "eks", "get-token", "--cluster-name", "demo", "--output", "json"]
    )
    returned = graph.named("c", "eks:index:Cluster").outputs
    assert returned.keys() == data()["outputs"].keys()
    assert returned["clusterIngressRuleId"] == ""
    assert returned["instanceRoles"] == []
    assert not returned["oidcIssuer"].startswith("https://")


def test_what_takes_an_output_depends_on_the_component_and_on_the_control_plane(cluster_graph: Built) -> None:
    # The latter through propertyDependencies: without them a replaced control plane would not reach its dependents.
    def then(cluster: eks.Cluster, _: Any) -> None:
        k8s.Provider("own", kubeconfig=cluster.kubeconfig_json)
        k8s.Provider("no-deps", kubeconfig=cluster.default_node_group_asg_name)

    graph = cluster_graph(then)
    assert names(graph, graph.named("own").dependencies) == ["c Cluster", "c-eksCluster Cluster"]
    assert names(graph, graph.named("no-deps").dependencies) == ["c Cluster"]


def test_core_depends_on_everything_that_it_holds(cluster_graph: Built) -> None:
    def then(cluster: eks.Cluster, _: Any) -> None:
        k8s.Provider("own", kubeconfig=cluster.core.apply(lambda core: core.endpoint))

    graph = cluster_graph(then)
    assert names(graph, graph.named("own").dependencies) == [
        "c Cluster",
        "c-eks-k8s kubernetes",
        "c-eksCluster Cluster",
        "c-eksRole-role Role",
        "c-vpc-cni Addon",
        "net-a Subnet",
        "net-b Subnet",
        "net-vpc Vpc",
    ]


def test_components_register_their_outputs(cluster_graph: Built) -> None:
    graph = cluster_graph()
    for name, token in (("c-eksRole", "ServiceRole"), ("c-vpc-cni", "VpcCniAddon"), ("c", "Cluster")):
        assert graph.outputs[graph.named(name, f"eks:index:{token}").urn]


# Options of the add-ons.


def configured(graph: Graph) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(addon(graph, "c-vpc-cni").inputs["configurationValues"])
    return found


def test_the_cni_is_configured_as_in_the_data_when_nothing_is_said(cluster_graph: Built) -> None:
    (spec,) = (one for one in data()["children"] if one["inputs"].get("addonName") == "vpc-cni")
    assert addon(cluster_graph(), "c-vpc-cni").inputs["configurationValues"] == spec["inputs"]["configurationValues"]


def test_an_option_of_the_cni_changes_its_variable_alone(cluster_graph: Built) -> None:
    usual = configured(cluster_graph())
    changed = configured(cluster_graph(vpc_cni_options={"log_level": "INFO", "enable_prefix_delegation": True}))
    assert changed.pop("env") == {
        **usual.pop("env"),
        "AWS_VPC_K8S_CNI_LOGLEVEL": "INFO",
        "ENABLE_PREFIX_DELEGATION": "true",
    }
    assert changed == usual


def test_configuration_values_win_over_options_and_are_kept_whole(cluster_graph: Built) -> None:
    values = {"env": {"AWS_VPC_K8S_CNI_LOGLEVEL": "WARN"}, "init": {"image": "x"}, "nodeAgent": {"enabled": "true"}}
    config = configured(cluster_graph(vpc_cni_options={"log_level": "INFO", "configuration_values": values}))
    assert config["env"]["AWS_VPC_K8S_CNI_LOGLEVEL"] == "WARN"
    assert config["env"]["WARM_ENI_TARGET"] == "1"
    assert config["init"] == {"image": "x", "env": {"DISABLE_TCP_EARLY_DEMUX": "false"}}
    assert config["nodeAgent"] == {"enabled": "true"}


@pytest.mark.parametrize(
    ("options", "variable", "value"),
    [
        ({"warmEniTarget": 0}, "WARM_ENI_TARGET", "0"),
        ({"eniMtu": 0}, "AWS_VPC_ENI_MTU", "9001"),
        ({"logLevel": ""}, "AWS_VPC_K8S_CNI_LOGLEVEL", "DEBUG"),
        ({"enablePodEni": False}, "ENABLE_POD_ENI", "false"),
    ],
)
def test_only_the_warm_eni_target_may_be_zero(options: dict[str, Any], variable: str, value: str) -> None:
    defaults = '{"env":{"WARM_ENI_TARGET":"1","AWS_VPC_ENI_MTU":"9001","AWS_VPC_K8S_CNI_LOGLEVEL":"DEBUG",'
    defaults += '"ENABLE_POD_ENI":"false"},"init":{"env":{}}}'
    assert json.loads(configuration(defaults, options))["env"][variable] == value


def test_network_policy_is_a_text_beside_the_environment() -> None:
    defaults = '{"env":{},"init":{"env":{}}}'
    assert json.loads(configuration(defaults, {"enableNetworkPolicy": False}))["enableNetworkPolicy"] == "false"
    given = {"enableNetworkPolicy": False, "configurationValues": {"enableNetworkPolicy": "true"}}
    assert json.loads(configuration(defaults, given))["enableNetworkPolicy"] == "true"


def test_an_unknown_option_of_the_cni_is_refused(cluster_graph: Built) -> None:
    with pytest.raises(Refused, match=r"vpcCniOptions\.securityContextPrivileged"):
        cluster_graph(vpc_cni_options={"security_context_privileged": True})


def test_configuration_is_written_with_sorted_keys() -> None:
    assert compact({"b": {"d": 1, "c": 2}, "a": []}) == '{"a":[],"b":{"c":2,"d":1}}'


def test_kube_proxy_takes_a_configuration(cluster_graph: Built) -> None:
    options = {"version": "v1", "configuration_values": {"b": {"d": 1, "c": 2}, "a": []}}
    proxy = addon(cluster_graph(kube_proxy_addon_options=options), "c-kube-proxy")
    assert proxy.inputs["configurationValues"] == '{"a":[],"b":{"c":2,"d":1}}'


# Variants.


def test_an_add_on_without_a_pin_asks_for_the_latest_version(cluster_graph: Built) -> None:
    graph = cluster_graph(kube_proxy_addon_options={"enabled": True})
    (asked,) = (invoke for invoke in graph.invokes if invoke.token == "aws:eks/getAddonVersion:getAddonVersion")
    assert asked.args == {"addonName": "kube-proxy", "kubernetesVersion": "1.36", "mostRecent": True}
    proxy = addon(graph, "c-kube-proxy")
    assert proxy.inputs["addonVersion"] == "v1.36.0-eksbuild.1"
    assert proxy.property_dependencies["addonVersion"] == (graph.named("c-eksCluster").urn,)


def test_add_ons_can_be_left_out(cluster_graph: Built) -> None:
    graph = cluster_graph(use_default_vpc_cni=True, kube_proxy_addon_options={"enabled": False})
    assert not graph.of_type("aws:eks/addon:Addon")
    assert not graph.of_type("eks:index:VpcCniAddon")
    assert "vpcCni" not in graph.named("c", "eks:index:Cluster").outputs["core"]


@pytest.mark.parametrize("options", [{"enabled": True, "version": "v1"}, {"version": "v1", "configuration_values": {}}])
def test_coredns_is_made_when_enabled(cluster_graph: Built, options: dict[str, Any]) -> None:
    graph = cluster_graph(coredns_addon_options=options)
    coredns = [child for child in graph.of_type("aws:eks/addon:Addon") if child.name == "c-coredns"]
    assert bool(coredns) is bool(options.get("enabled"))


def test_a_configuration_of_coredns_switches_it_on(cluster_graph: Built) -> None:
    graph = cluster_graph(coredns_addon_options={"version": "v1", "configuration_values": {"replicaCount": 1}})
    assert addon(graph, "c-coredns").inputs["configurationValues"] == '{"replicaCount":1}'


def test_default_security_groups_are_eight_more_children(cluster_graph: Built) -> None:
    graph = cluster_graph(skip_default_security_groups=None)
    assert len(below_cluster(graph)) == 16
    control_plane, group = graph.named("c-eksCluster"), graph.named("c-eksClusterSecurityGroup")
    nodes = graph.named("c-nodeSecurityGroup")
    assert control_plane.inputs["vpcConfig"]["securityGroupIds"] == [group.id]
    assert group.urn in control_plane.dependencies
    assert nodes.inputs["tags"] == {
        "Name": "c-nodeSecurityGroup",
        "kubernetes.io/cluster/demo": "owned",
        "team": "blue",
    }
    assert control_plane.urn in nodes.dependencies
    assert graph.stack_outputs["cluster_security_group_id"] == group.id
    outputs = graph.named("c", "eks:index:Cluster").outputs
    assert outputs["nodeSecurityGroup"] == Ref(nodes.urn, nodes.id)
    assert outputs["clusterIngressRuleId"] == graph.named("c-eksClusterIngressRule").id


def test_a_service_role_of_ones_own_takes_the_place_of_the_made_one(cluster_graph: Built) -> None:
    graph = cluster_graph(service_role=lambda: aws.iam.Role("own", name="own", assume_role_policy="{}"))
    control_plane = graph.named("c-eksCluster")
    assert control_plane.inputs["roleArn"] == "arn:aws:iam::123456789012:role/own"
    assert names(graph, control_plane.dependencies) == ["net-a Subnet", "net-b Subnet", "own Role"]
    assert not graph.of_type("eks:index:ServiceRole")


def test_public_subnets_come_before_private_ones(cluster_graph: Built) -> None:
    graph = cluster_graph(subnet_ids=None, private_subnet_ids=["subnet-b"], public_subnet_ids=["subnet-a"])
    assert graph.named("c-eksCluster").inputs["vpcConfig"]["subnetIds"] == ["subnet-a", "subnet-b"]
    core = graph.named("c", "eks:index:Cluster").outputs["core"]
    assert (core["publicSubnetIds"], core["privateSubnetIds"]) == (["subnet-a"], ["subnet-b"])


def test_log_types_reach_the_control_plane(cluster_graph: Built) -> None:
    graph = cluster_graph(enabled_cluster_log_types=["audit"])
    assert graph.named("c-eksCluster").inputs["enabledClusterLogTypes"] == ["audit"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"authentication_mode": "FOO"}, "Invalid value for authenticationMode: FOO. Allowed values are: CONFIG_MAP,"),
        ({"role_mappings": [{"role_arn": "a", "username": "b", "groups": []}]}, "The 'roleMappings' property does not"),
        ({"private_subnet_ids": ["subnet-a"]}, "mutually exclusive. Choose a single approach."),
        ({"endpoint_public_access": False}, "`publicAccessCidrs` can only be set when"),
        (
            {"authentication_mode": None, "access_entries": ENTRIES},
            "The 'accessEntries' property is not supported when 'authenticationMode' is not set.",
        ),
    ],
)
def test_mistakes_get_the_providers_own_words(cluster_graph: Built, arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(Refused) as caught:
        cluster_graph(**arguments)
    assert str(caught.value).startswith("eks:index:Cluster resource 'c' has a problem: ")
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("argument", "value"),
    [
        ("authentication_mode", None),
        ("create_oidc_provider", True),
        ("skip_default_node_group", None),
        ("vpc_id", None),
        ("fargate", True),
        ("storage_classes", "gp3"),
        ("encryption_config_key_arn", "arn:aws:kms:x"),
    ],
)
def test_what_is_not_emulated_is_refused_by_name(cluster_graph: Built, argument: str, value: object) -> None:
    first, *rest = argument.split("_")
    with pytest.raises(Refused, match=first + "".join(part.title() for part in rest)):
        cluster_graph(**{argument: value})


def test_secret_tags_stay_secret_on_every_child_that_gets_them(cluster_graph: Built) -> None:
    graph = cluster_graph(tags=lambda: pulumi.Output.secret({"team": "hidden"}))
    tagged = [child.inputs["tags"] for child in below_cluster(graph) if "tags" in child.inputs]
    assert len(tagged) == 4
    assert all(isinstance(tags, Secret) for tags in tagged)


def test_the_data_fits_the_sdk_that_is_installed() -> None:
    assert f"pulumi_eks {importlib.metadata.version('pulumi_eks')}" in data()["about"]["engine"]
