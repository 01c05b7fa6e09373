"""What the emulated AWS says about a cluster, and how it refuses."""

from typing import Any

import pytest

from sandbox.world import CloudError, tokens
from sandbox.world.providers.callers import Callers
from tests.sandbox.world_pieces import Account

ANNA = "arn:aws:iam::123456789012:role/people/anna"
CLUSTER = "eks/getCluster:getCluster"


@pytest.fixture
def account() -> Account:
    account = Account()
    account.world.callers = Callers(ambient=ANNA)
    account.cluster(accessConfig={"authenticationMode": "API"}, tags={"team": "blue"})
    return account


def ask(account: Account, function: str, region: str = "us-east-1", **args: Any) -> dict[str, Any]:
    return account.world.invoke(f"aws:{function}", args, {"region": region})


def test_a_cluster_is_described_in_the_form_of_the_data_source(account: Account) -> None:
    """Names and lists: pulumi-aws 7.51.1, eks/get_cluster.py and eks/outputs.py."""
    made, found = account.outputs(tokens.CLUSTER, "c"), ask(account, CLUSTER, name="c")
    assert found["id"] == found["name"] == "c"
    assert (found["status"], found["version"], found["tags"]) == ("ACTIVE", "1.36", {"team": "blue"})
    assert found["endpoint"] == made["endpoint"]
    assert found["certificateAuthorities"] == [{"data": made["certificateAuthority"]["data"]}]
    assert found["accessConfigs"] == [{"authenticationMode": "API"}]
    assert ask(account, "eks/getClusterAuth:getClusterAuth", name="c") == {"token": ANNA}
    network = found["vpcConfig"]
    assert (network["vpcId"], network["subnetIds"]) == (account.vpc, account.subnets)
    assert network["clusterSecurityGroupId"] == account.of(tokens.SECURITY_GROUP)[0].id


def test_a_cluster_without_an_access_configuration_has_the_default_of_eks(account: Account) -> None:
    """API_CreateAccessConfigRequest.html."""
    role = account.outputs(tokens.CLUSTER, "c")["roleArn"]
    account.make(tokens.CLUSTER, name="other", roleArn=role, vpcConfig={"subnetIds": account.subnets})
    assert ask(account, CLUSTER, name="other")["accessConfigs"] == [{"authenticationMode": "CONFIG_MAP"}]


DENIED = (
    "operation error EKS: DescribeCluster, https response error StatusCode: 403, RequestID: "
    "8e10d6df-0000-0000-0000-000000000000, api error AccessDeniedException: User: "
    "arn:aws:sts::123456789012:assumed-role/anna/session is not authorized to perform: eks:DescribeCluster "
    "on resource: arn:aws:eks:us-east-1:123456789012:cluster/c"
)
REFUSALS = [
    # The words of terraform-provider-aws, for which the bridge adds the first line.
    (CLUSTER, {"name": "other"}, {}, "reading EKS Cluster (other): couldn't find resource"),
    (CLUSTER, {"name": "c", "region": "eu-west-1"}, {}, "reading EKS Cluster (c): couldn't find resource"),
    (CLUSTER, {"name": "c"}, {"forbidden": frozenset({"eks:DescribeCluster"})}, f"reading EKS Cluster (c): {DENIED}"),
]


@pytest.mark.parametrize(("function", "args", "callers", "why"), REFUSALS)
def test_a_refusal_has_the_words_of_the_provider(
    account: Account, function: str, args: dict[str, str], callers: dict[str, Any], why: str
) -> None:
    account.world.callers = Callers(ambient=ANNA, **callers)
    with pytest.raises(CloudError) as refused:
        ask(account, function, **args)
    assert str(refused.value) == f"invoking aws:{function}: 1 error occurred:\n\t* {why}\n\n"
