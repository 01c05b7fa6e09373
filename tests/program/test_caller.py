"""Who deploys a stack: the role or user behind the credentials, and credentials that cannot administer a cluster."""

from typing import Any

import pulumi
import pulumi_aws as aws
import pytest

from sandbox.preview.program import run
from sandbox.world.world import CALLER, SESSION
from stacks.caller import find_caller
from tests.program.conftest import StrictCloud
from tests.program.test_existing_vpc import Refusal

IN_A_SESSION, ROLE = "arn:aws:sts::123456789012:assumed-role/ci/up", "arn:aws:iam::123456789012:role/people/ci"
ROOT = "arn:aws:iam::123456789012:root"


def find(session: Any, context: Any) -> str:
    """The caller, where AWS has these answers."""

    def answer(found: Any) -> Any:
        if isinstance(found, Exception):
            raise found
        return found

    def describe(asked: Any) -> Any:
        assert asked.args["arn"] == session["arn"]
        return answer(context)

    cloud = StrictCloud(answers={CALLER: lambda _: answer(session), SESSION: describe})
    found: list[str] = []

    def program() -> None:
        options = pulumi.InvokeOptions(provider=aws.Provider("p", region="us-east-1"))
        found.append(find_caller(options, "us-east-1"))

    run(program, project="tandem", stack="dev", cloud=cloud)
    return found[0]


def test_the_caller_is_the_role_behind_the_session_with_its_path() -> None:
    assert find({"arn": IN_A_SESSION}, {"issuerArn": ROLE}) == ROLE


def test_mocks_answer_nothing() -> None:
    assert (find({}, {}), find({"arn": IN_A_SESSION}, {})) == ("", "")


@pytest.mark.parametrize(
    ("session", "context", "said"),
    [
        (Refusal("no profile"), {}, r"^AWS rejected the credentials: .*no profile\. Check `aws:profile`, .*file\.$"),
        (
            {"arn": IN_A_SESSION},
            Refusal("unable to get role"),
            rf"^the role of {IN_A_SESSION} is unknown: .*to get role\. Allow the role `iam:GetRole` on itself\.$",
        ),
        # EKS accepts an access entry for it, and then ignores it.
        (
            {"arn": ROOT},
            {"issuerArn": ROOT},
            r"^AWS credentials cannot administer a cluster: .*\. Run as a role or user, not as root\.$",
        ),
    ],
    ids=["wrong credentials", "a role that may not look itself up", "root"],
)
def test_credentials_that_cannot_administer_a_cluster_are_refused(session: Any, context: Any, said: str) -> None:
    with pytest.raises(pulumi.RunError, match=said):
        find(session, context)
