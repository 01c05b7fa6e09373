"""ExistingCluster: how `kubectl` and Pulumi reach it."""

import json
from typing import Any

from sandbox.cloud.answers import Cloud
from sandbox.cloud.eks.kubeconfig import kubeconfig
from sandbox.graph import plain
from sandbox.preview.program import run
from tandem import ExistingCluster

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
    [provider] = graph.of_type("pulumi:providers:kubernetes")
    assert plain(provider.inputs)["clusterIdentifier"] == THEIRS["endpoint"]
    return json.loads(plain(provider.inputs)["kubeconfig"])


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


def test_its_token_is_that_of_the_given_profile_and_role() -> None:
    more = command_of(config_of(profile="ci", role_arn=ROLE)) - command_of(config_of())
    assert more == {("--profile", "ci"), ("--role-arn", ROLE)}
