"""Access to a cluster of the emulated cloud. tests/engine/test_access.py has the creator's."""

import json

import pytest

from sandbox.world import tokens
from sandbox.world.providers.callers import Callers
from tests.sandbox.world_pieces import Account, meta, refused

ADMIN = "arn:aws:eks::aws:cluster-access-policy/AmazonEKSClusterAdminPolicy"
ANNA, CI = "arn:aws:iam::123456789012:role/people/anna", "arn:aws:iam::999999999999:user/ci"
SESSION = "arn:aws:sts::123456789012:assumed-role/anna/session"
LOOKUP = "aws:iam/getSessionContext:getSessionContext"


@pytest.fixture
def account() -> Account:
    found = Account()
    found.world.callers = Callers(ambient=ANNA, profiles={"ci": CI})
    return found


def test_without_credentials_of_a_test_the_caller_is_a_user_of_the_partition() -> None:
    assert Callers().of({"region": "us-gov-west-1"}) == "arn:aws-us-gov:iam::123456789012:user/sandbox"


def test_without_a_bootstrap_nobody_has_access_and_an_entry_alone_allows_nothing(account: Account) -> None:
    account.network()
    role, subnets = account.role("other", "AmazonEKSClusterPolicy"), {"subnetIds": account.subnets}
    account.make(tokens.CLUSTER, name="other", roleArn=role, vpcConfig=subnets)  # of which the caller is admin
    account.cluster(accessConfig={"authenticationMode": "API", "bootstrapClusterCreatorAdminPermissions": False})
    with refused("Unauthorized"):
        account.make(tokens.NAMESPACE, metadata=meta("one"))
    account.make(tokens.ACCESS_ENTRY, clusterName="c", principalArn=ANNA)
    with refused("Forbidden", "cannot change"):
        account.make(tokens.NAMESPACE, metadata=meta("one"))
    account.make(tokens.ACCESS_POLICY, clusterName="c", principalArn=ANNA, policyArn=ADMIN)
    account.make(tokens.NAMESPACE, metadata=meta("one"))
    account.drop(tokens.CLUSTER, "c")
    left = [*account.of(tokens.ACCESS_ENTRY), *account.of(tokens.ACCESS_POLICY)]
    assert [one.inputs["clusterName"] for one in left] == ["other", "other"]


@pytest.mark.parametrize("options", [["--profile", "ci"], ["--role-arn", CI], ["--role", CI]])
def test_a_kubeconfig_selects_the_credentials(account: Account, options: list[str]) -> None:
    account.cluster()
    config = json.loads(account.provider["kubeconfig"])
    config["users"][0]["user"]["exec"]["args"] += options
    account.provider = {"kubeconfig": json.dumps(config)}
    with refused("Unauthorized"):
        account.make(tokens.NAMESPACE, metadata=meta("one"))


def test_aws_shows_a_role_as_a_session_without_its_path_and_finds_the_role(account: Account) -> None:
    identity = account.world.invoke("aws:index/getCallerIdentity:getCallerIdentity", {}, {})
    assert identity["arn"] == SESSION
    assert account.world.invoke(LOOKUP, {"arn": SESSION}, {})["issuerArn"] == ANNA
    other = account.world.invoke("aws:index/getCallerIdentity:getCallerIdentity", {}, {"profile": "ci"})
    assert (other["arn"], other["accountId"]) == (CI, "999999999999")


def test_only_a_role_can_lack_the_permission_to_read_itself(account: Account) -> None:
    account.world.callers = Callers(ambient=ANNA, may_get_role=False)
    assert account.world.invoke(LOOKUP, {"arn": CI}, {})["issuerArn"] == CI
    with refused("AccessDenied", r"unable to get role \(anna\): not authorized: iam:GetRole"):
        account.world.invoke(LOOKUP, {"arn": SESSION}, {})
