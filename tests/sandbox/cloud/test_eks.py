import importlib.metadata
import json
import re
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pulumi
import pulumi_kubernetes as k8s
import pytest

from sandbox.cloud.eks.cluster import _check
from sandbox.cloud.protocol import Refused
from sandbox.graph import Graph, Ref, Resource, plain, rebuilt

Built = Callable[..., Graph]
ENTRIES = {
    "admin": {
        "principal_arn": "arn:aws:iam::123456789012:role/admin",
        "tags": {"team": "blue"},
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
"""Each child as the real provider registered it."""


def recorded(graph: Graph, child: Resource) -> dict[str, Any]:
    """A child in the form of the record, with names for resources."""

    def show(value: Any) -> Any:
        return {"resource": graph[value.urn].name} if isinstance(value, Ref) else value

    found = {
        "parent": graph[child.parent].name,
        "dependencies": names(graph, child.dependencies),
        "provider": graph[child.provider].name if child.provider else "",
        "providers": {package: graph[urn].name for package, urn in child.providers.items()},
        "options": child.options,
        "inputs": rebuilt(child.inputs, show),
        "property_dependencies": {key: names(graph, urns) for key, urns in child.property_dependencies.items()},
    }
    return {key: value for key, value in found.items() if value or key in ("dependencies", "provider")}


@pytest.mark.real_world(
    behaviour="The eks provider describes the role of a control plane with its own sentence",
    source="pulumi-eks nodejs/eks/cluster/cluster.ts, ServiceRole eksRole",
)
def test_each_child_is_as_the_real_provider_registered_it(cluster_graph: Built) -> None:
    graph = cluster_graph(access_entries=ENTRIES)
    children = below_cluster(graph)
    assert all(child.constructed for child in children)
    assert {names(graph, (child.urn,))[0]: recorded(graph, child) for child in children} == CHILDREN


def test_without_access_entries_nothing_waits_for_them(cluster_graph: Built) -> None:
    graph = cluster_graph()
    assert {names(graph, (child.urn,))[0] for child in below_cluster(graph)} == {
        name for name in CHILDREN if "Access" not in name
    }
    assert graph.named("c-vpc-cni", "eks:index:VpcCniAddon").dependencies == ()


def test_users_of_an_output_depend_on_the_component_and_on_the_control_plane(cluster_graph: Built) -> None:
    # The latter through propertyDependencies: without them a replaced control plane would not reach its dependents.
    graph = cluster_graph(lambda cluster: k8s.Provider("own", kubeconfig=cluster.kubeconfig_json))
    own = graph.named("own")
    assert names(graph, own.dependencies) == ["c Cluster", "c-eksCluster Cluster"]
    assert not own.constructed, "it is the program's"


def test_transforms_change_inputs_and_options_of_children_alone(cluster_graph: Built) -> None:
    def change(child: pulumi.ResourceTransformArgs) -> pulumi.ResourceTransformResult | None:
        if not child.type_.endswith(":Addon"):
            return None
        assert (child.custom, child.props["preserve"]) == (True, True)
        if child.name == "c-vpc-cni":
            child.opts.replace_on_changes = ["status"]
            child.opts.delete_before_replace = True
        return pulumi.ResourceTransformResult({**child.props, "preserve": False}, child.opts)

    before = cluster_graph()
    changed = {one.name: one for one in below_cluster(cluster_graph(transforms=[change])) if one != before[one.urn]}
    assert changed.keys() == {"c-kube-proxy", "c-vpc-cni"}
    for one in changed.values():
        assert one.inputs == {**before[one.urn].inputs, "preserve": False}
        options = {"replaceOnChanges": ("status",), "deleteBeforeReplace": True} if one.name == "c-vpc-cni" else {}
        assert one.options == {**before[one.urn].options, **options}


def configured(graph: Graph) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(addon(graph, "c-vpc-cni").inputs["configurationValues"])
    return found


def test_configuration_values_override_defaults_and_are_kept_unchanged(cluster_graph: Built) -> None:
    values = {"nodeAgent": {"enabled": "true"}, "env": {"AWS_VPC_K8S_CNI_LOGLEVEL": "WARN"}}
    options = {"addon_version": "v1", "configuration_values": values, "enable_network_policy": True}
    config = configured(cluster_graph(vpc_cni_options=options))
    assert list(config) == ["enableNetworkPolicy", "env", "init", "nodeAgent"], "the same text in every order"
    assert config["enableNetworkPolicy"] == "true"
    assert config["env"]["AWS_VPC_K8S_CNI_LOGLEVEL"] == "WARN"
    assert config["env"]["WARM_ENI_TARGET"] == "1"
    assert config["nodeAgent"] == {"enabled": "true"}


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({"create_oidc_provider": True}, "arguments: createOidcProvider"),
        ({"vpc_id": None}, "arguments: vpcId"),
        ({"vpc_cni_options": {"addon_version": "v1", "log_level": "INFO"}}, "arguments: vpcCniOptions.logLevel"),
        ({"fargate": True}, "arguments: fargate"),
        # In the provider's own words.
        (
            {"endpoint_public_access": False},
            "eks:index:Cluster resource 'c' has a problem: `publicAccessCidrs` can only be set when",
        ),
    ],
)
def test_wrong_and_unsupported_arguments_are_refused_by_name(
    cluster_graph: Built, arguments: dict[str, Any], named: str
) -> None:
    with pytest.raises(Refused, match=re.escape(named)):
        cluster_graph(**arguments)


def test_every_argument_that_decides_the_children_is_needed(cluster_graph: Built) -> None:
    """All others can be left out. Those of pulumi-eks that its add-ons' options have are accepted."""
    conflicts = {"resolve_conflicts_on_create": "NONE", "resolve_conflicts_on_update": "NONE"}
    graph = cluster_graph(
        vpc_cni_options={
            "addon_version": "v1",
            "configuration_values": {"a": "b"},
            "enable_network_policy": True,
            **conflicts,
        },
        kube_proxy_addon_options={"version": "v1", **conflicts},
        coredns_addon_options={"enabled": False, **conflicts},
        enabled_cluster_log_types=["api"],
        access_entries=ENTRIES,
    )
    arguments = plain(graph.named("c", "eks:index:Cluster").inputs)
    missing = {}
    for key in arguments:
        try:
            _check("c", {name: value for name, value in arguments.items() if name != key})
        except Refused as refused:
            missing[key] = str(refused).rpartition(": ")[2]
    assert missing == {
        **{key: key for key in ("authenticationMode", "bootstrapSelfManagedAddons", "createOidcProvider")},
        **{key: key for key in ("skipDefaultNodeGroup", "skipDefaultSecurityGroups", "subnetIds", "vpcId")},
        "corednsAddonOptions": "corednsAddonOptions.enabled",
        "kubeProxyAddonOptions": "kubeProxyAddonOptions.version",
        "vpcCniOptions": "vpcCniOptions.addonVersion",
    }


def test_the_recorded_run_used_the_installed_sdk() -> None:
    """`sandbox.cloud.eks.versions` has what pulumi-eks 4.4.0 sends to AWS and Kubernetes."""
    assert importlib.metadata.version("pulumi_eks") == "4.4.0"
