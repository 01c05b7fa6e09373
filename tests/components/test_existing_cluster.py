"""Clusters: how `kubectl` and Pulumi reach them, the zones of their pools, and the subnets of a volume."""

import json
import re
from collections.abc import Callable
from functools import partial
from typing import Any

import pulumi
import pytest

from components.gpu_cluster.zones import settled
from sandbox.cloud.answers import Cloud
from sandbox.cloud.eks.kubeconfig import kubeconfig
from sandbox.graph import plain
from sandbox.preview.program import run
from sharing.sections.zones import Demand
from tandem import ExistingCluster, GpuCluster

ZONES = {"subnet-1": "us-east-1a", "subnet-2": "us-east-1b"}
ROLE = "arn:aws:iam::123456789012:role/ci"
THEIRS = {
    "name": "platform",
    "arn": "arn:aws:eks:eu-west-1:123456789012:cluster/platform",
    "endpoint": "https://0123.gr7.eu-west-1.eks.amazonaws.com",
}


def config_of(**args: Any) -> Any:
    """The kubeconfig of a cluster in eu-west-1."""
    network = {"subnetIds": ["subnet-1"], "clusterSecurityGroupId": "sg-1"}
    answers: dict[str, Any] = {
        "aws:eks/getCluster:getCluster": {
            **THEIRS,
            "certificateAuthorities": [{"data": "authority"}],
            "vpcConfig": network,
        },
        "aws:ec2/getSubnet:getSubnet": {"availabilityZone": "eu-west-1a"},
    }
    given = {"cluster_name": "platform", **args}
    graph = run(lambda: ExistingCluster("c", given), project="test", stack="test", cloud=Cloud(answers=answers))
    provider = plain(graph.named("c-kubernetes").inputs)
    assert provider["clusterIdentifier"] == THEIRS["endpoint"]
    return parsed(provider["kubeconfig"])


def config_of_a_new_cluster(**args: Any) -> Any:
    graph = run(lambda: GpuCluster("c", {"cluster_name": "platform", **args}), project="test", stack="test")
    return parsed(plain(graph.named("c-kubernetes").inputs)["kubeconfig"])


def parsed(kubeconfig: str) -> Any:
    """Its value. `eks.Cluster` writes it without spaces, and another text would update the provider of every stack."""
    config = json.loads(kubeconfig)
    assert kubeconfig == json.dumps(config, separators=(",", ":"))
    return config


def command_of(config: Any) -> set[tuple[str, str]]:
    """The options of `aws eks get-token`."""
    login = config["users"][0]["user"]["exec"]
    assert (login["command"], login["apiVersion"]) == ("aws", "client.authentication.k8s.io/v1beta1")
    words = [word for word in login["args"] if word not in ("eks", "get-token")]
    assert login["args"].index("eks") + 1 == login["args"].index("get-token")
    return set(zip(words[::2], words[1::2], strict=True))


def test_it_is_reached_as_a_cluster_of_the_stack_is() -> None:
    ours, new = config_of(), kubeconfig({**THEIRS, "certificateAuthority": {"data": "authority"}})
    assert command_of(ours) == command_of(new)
    for config in (ours, new):
        del config["users"][0]["user"]["exec"]
    assert ours == new


@pytest.mark.parametrize("config", [config_of, config_of_a_new_cluster])
def test_the_token_is_that_of_the_given_profile_and_role(config: Callable[..., Any]) -> None:
    more = command_of(config(profile="ci", role_arn=ROLE)) - command_of(config())
    assert more == {("--profile", "ci"), ("--role-arn", ROLE)}


def test_a_volume_in_a_zone_without_a_subnet_is_refused() -> None:
    vpc = {"id": "vpc-0a1b2c3d", "subnet_ids": ["subnet-1", "subnet-2"]}
    programs: dict[str, Callable[[], ExistingCluster | GpuCluster]] = {
        "cluster.existing.node-subnets: no subnet is in eu-west-1f, which has a volume": lambda: ExistingCluster(
            "c", cluster_name="platform", node_subnet_ids=["subnet-1"]
        ),
        "cluster.vpc.node-subnets: eu-west-1f has a volume": lambda: GpuCluster("c", cluster_name="c", vpc=vpc),
    }
    answers: dict[str, Any] = {
        "aws:eks/getCluster:getCluster": {},
        "aws:ec2/getSubnet:getSubnet": lambda asked: {"availabilityZone": ZONES[asked.args["id"]]},
    }
    for said, build in programs.items():

        def program(build: Callable[[], ExistingCluster | GpuCluster] = build) -> None:
            build().subnets_in(pulumi.Output.from_input(["us-east-1a", "eu-west-1f"]))

        with pytest.raises(pulumi.RunError, match=f"^{re.escape(said)} with model files"):
            run(program, project="test", stack="test", cloud=Cloud(answers=answers))


def test_more_zones_than_an_account_has_are_refused() -> None:
    answers = {"aws:index/getAvailabilityZones:getAvailabilityZones": {"names": ["us-west-1a", "us-west-1c"]}}
    said = r"cluster.zones: 3 is too large; EKS runs in 2 zones of this account \(us-west-1a, us-west-1c\)"
    with pytest.raises(pulumi.RunError, match=said):
        run(lambda: GpuCluster("c", cluster_name="c", zones=3), project="t", stack="t", cloud=Cloud(answers=answers))


def test_the_zones_of_deployed_subnets_stay() -> None:
    deployed = [pulumi.Output.from_input(zone) for zone in ("us-east-1a", "us-east-1b")]
    settled(["us-east-1b", "us-east-1a"], deployed)
    with pytest.raises(pulumi.RunError, match="the deployed subnets are in us-east-1a, us-east-1b and cannot move"):
        run(lambda: pulumi.export("zones", settled(["us-east-1a", "us-east-1c"], deployed)), project="t", stack="t")


def test_a_pool_keeps_the_zones_of_its_own_node_group_and_of_the_newest_one() -> None:
    """After a failed replacement, a pool has two groups. Only the newer one has the types that the stack file names."""
    groups: dict[str, dict[str, Any]] = {
        "gpu-1": {"labels": {"tandem/pool": "gpu"}, "tags": {"tandem:zones": "us-east-1a"}, "types": ["g6.xlarge"]},
        "gpu-2": {
            "labels": {"tandem/pool": "gpu"},
            "tags": {"tandem:zones": "us-east-1b us-east-1d"},
            "types": ["g4dn.xlarge"],
        },
        "big-1": {"labels": {"tandem/pool": "big"}, "tags": {"tandem:zones": "us-east-1a"}, "types": ["g4dn.xlarge"]},
        "theirs": {"types": ["g4dn.xlarge"]},
    }

    def describe(asked: Any) -> dict[str, Any]:
        group = groups[asked.args["nodeGroupName"]]
        return {**group, "instanceTypes": group["types"]}

    answers: dict[str, Any] = {
        "aws:eks/getClusters:getClusters": {"names": ["c"]},
        "aws:eks/getNodeGroups:getNodeGroups": {"names": [*groups]},
        "aws:eks/getNodeGroup:getNodeGroup": describe,
    }
    expected = {
        ("gpu", "g4dn.xlarge"): ["us-east-1b", "us-east-1d"],
        ("gpu", "g5.xlarge"): ["us-east-1a"],
        ("big", "g4dn.xlarge"): ["us-east-1a"],
        ("other", "g4dn.xlarge"): ["us-east-1a", "us-east-1b", "us-east-1d"],
    }
    chosen: dict[Any, list[str]] = {}

    def program() -> None:
        demands = {key: Demand(path="gpu-nodes.instance-types", types=(key[1],), every=True) for key in expected}
        cluster = GpuCluster("c", cluster_name="c", zones=3, demands=[*demands.values()])
        for key, demand in demands.items():
            cluster.zones_of_pool(key[0], demand).apply(partial(chosen.__setitem__, key))

    run(program, project="t", stack="t", cloud=Cloud(answers=answers))
    assert chosen == expected


SCARCE = Demand(path="gpu-nodes.instance-types", types=("g7e.2xlarge",), every=True)
"""The emulated us-east-1 sells it in its zones b and d alone (sandbox/cloud/aws/offers.py)."""


def test_a_pool_whose_volume_is_where_nobody_sells_its_type_is_refused_with_a_fix_for_that() -> None:
    def program() -> None:
        cluster = GpuCluster("c", cluster_name="c", demands=[SCARCE])
        cluster.zones_of_pool("gpu", SCARCE, pulumi.Output.from_input("us-east-1a"))

    with pytest.raises(pulumi.RunError, match=r"us-east-1a does not sell g7e.2xlarge.* A volume binds the pool"):
        run(program, project="t", stack="t")


def test_nodes_whose_type_is_sold_out_stay_and_the_way_to_another_zone_is_that_of_their_network() -> None:
    answers: dict[str, Any] = {
        "aws:eks/getClusters:getClusters": {"names": ["c"]},
        "aws:eks/getNodeGroups:getNodeGroups": {"names": ["gpu-1"]},
        "aws:eks/getNodeGroup:getNodeGroup": {
            "labels": {"tandem/pool": "gpu"},
            "tags": {"tandem:zones": "us-east-1a"},
            "instanceTypes": ["g7e.2xlarge"],
        },
        "aws:ec2/getSubnet:getSubnet": {"availabilityZone": "us-east-1a"},
    }
    vpc = {"id": "vpc-0a1b2c3d", "subnet_ids": ["subnet-1", "subnet-2"]}
    graph = run(
        lambda: GpuCluster("c", cluster_name="c", vpc=vpc, demands=[SCARCE]).zones_of_pool("gpu", SCARCE),
        project="t",
        stack="t",
        cloud=Cloud(answers=answers),
    )
    [warning] = {log.message for log in graph.logs if "g7e.2xlarge" in log.message}
    assert "cluster.vpc" in warning
    assert warning.endswith("us-east-1b, us-east-1d. Nodes that stop cannot be replaced.")
