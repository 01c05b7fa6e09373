"""Programs that several tests of the sandbox run, and accounts that several start from."""

from collections.abc import Callable, Sequence
from typing import Any

import pulumi
import pulumi_aws as aws
import pulumi_eks as eks
import pytest

from sandbox.graph import Graph
from sandbox.preview.program import run
from tests.sandbox.world_pieces import Account

TRUST = '{"Version": "2012-10-17"}'


def ran(program: Callable[[], Any], **given: Any) -> Graph:
    """The graph of a program, in a project and a stack with short names."""
    return run(program, **{"project": "p", "stack": "s", **given})


class Pair(pulumi.ComponentResource):
    """Two roles."""

    def __init__(self, name: str, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("tandem:index:Pair", name, None, opts)
        child = pulumi.ResourceOptions(parent=self)
        self.first = aws.iam.Role(f"{name}-first", assume_role_policy=TRUST, opts=child)
        self.second = aws.iam.Role(f"{name}-second", assume_role_policy=TRUST, opts=child)
        self.register_outputs({"arn": self.first.arn})


class Net(pulumi.ComponentResource):
    """A VPC with two subnets."""

    def __init__(self, name: str, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("tandem:index:Net", name, None, opts)
        child = pulumi.ResourceOptions(parent=self)
        self.vpc = aws.ec2.Vpc(f"{name}-vpc", cidr_block="10.0.0.0/16", opts=child)
        self.subnets = [
            aws.ec2.Subnet(f"{name}-{zone}", vpc_id=self.vpc.id, cidr_block=f"10.0.{number}.0/24", opts=child)
            for number, zone in enumerate("ab")
        ]
        self.register_outputs({"vpc_id": self.vpc.id})


Built = Callable[..., Graph]


@pytest.fixture
def cluster_graph() -> Built:
    """The graph of a program with one network and one `eks.Cluster` named `c`, with an explicit aws provider.

    It has the recommended arguments, changed by the given ones; None removes one. `then` gets the cluster
    and can add resources.
    """

    def build(
        then: Callable[[eks.Cluster], object] = lambda _: None,
        transforms: Sequence[pulumi.ResourceTransform] = (),
        **arguments: Any,
    ) -> Graph:
        def program() -> None:
            provider = aws.Provider("aws", region="cn-north-1")
            opts = pulumi.ResourceOptions(providers=[provider])
            net = Net("net", opts)
            recommended: dict[str, Any] = {
                "name": "demo",
                "version": "1.36",
                "vpc_id": net.vpc.id,
                "subnet_ids": [subnet.id for subnet in net.subnets],
                "skip_default_node_group": True,
                "skip_default_security_groups": True,
                "authentication_mode": "API",
                "create_oidc_provider": False,
                "bootstrap_self_managed_addons": False,
                "vpc_cni_options": {"addon_version": "v1.21.0-eksbuild.1"},
                "kube_proxy_addon_options": {"version": "v1.36.0-eksbuild.1"},
                "coredns_addon_options": {"enabled": False},
                "endpoint_private_access": True,
                "endpoint_public_access": True,
                "public_access_cidrs": ["192.0.2.0/24"],
                "upgrade_policy": {"support_type": "STANDARD"},
                "tags": {"team": "blue"},
            }
            given = {key: value for key, value in {**recommended, **arguments}.items() if value is not None}
            below = pulumi.ResourceOptions(providers=[provider], transforms=[*transforms])
            then(eks.Cluster("c", **given, opts=below))

        return ran(program)

    return build


@pytest.fixture
def account() -> Account:
    """A cluster with one system node."""
    account = Account()
    account.cluster()
    account.nodes()
    return account


@pytest.fixture
def ready(account: Account) -> Account:
    """One GPU node with two shares, and the storage driver."""
    account.gpu_nodes()
    account.device_plugin()
    account.driver()
    return account
