import asyncio
import gc
from collections.abc import Callable

import pulumi
import pulumi.runtime.resource
import pulumi_aws as aws
import pulumi_kubernetes as k8s
import pytest

from sandbox.cloud.protocol import Refused
from tests.sandbox.conftest import TRUST, ran


def test_a_failing_program_raises_its_own_exception() -> None:
    error, cause = ValueError("boom"), OSError("full")

    def program() -> None:
        aws.iam.Role("role", assume_role_policy=TRUST)
        raise error from cause

    with pytest.raises(ValueError, match="boom") as caught:
        ran(program)
    assert (caught.value, caught.value.__cause__) == (error, cause)


def test_the_programs_own_exception_is_raised_before_those_of_its_resources() -> None:
    def program() -> None:
        aws.iam.Role("role", assume_role_policy=TRUST).arn.apply(lambda arn: len(arn) / 0)
        raise KeyError("own")

    with pytest.raises(KeyError, match="own"):
        ran(program)


@pytest.mark.parametrize("is_exported", [True, False])
def test_a_failing_apply_raises(is_exported: bool) -> None:
    def program() -> None:
        broken = aws.iam.Role("role", assume_role_policy=TRUST).arn.apply(lambda arn: len(arn) / 0)
        if is_exported:
            pulumi.export("broken", broken)

    with pytest.raises(ZeroDivisionError):
        ran(program)


def test_a_failing_async_program_raises_its_own_exception() -> None:
    async def main() -> None:
        await asyncio.sleep(0)
        raise KeyError("late")

    with pytest.raises(KeyError, match="late"):
        ran(lambda: pulumi.run(main))


@pytest.mark.filterwarnings("error")
@pytest.mark.filterwarnings("error::pytest.PytestUnraisableExceptionWarning")
def test_a_failed_lookup_leaves_no_warning_of_coroutines_behind() -> None:
    with pytest.raises(Refused):
        ran(lambda: pulumi.export("vpc", pulumi.StackReference("org/net/prod").require_output("vpcId")))
    gc.collect()


def test_a_failure_prints_and_logs_nothing(capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture) -> None:
    def program() -> None:
        for name in ("a", "b", "a"):
            role = aws.iam.Role(name, assume_role_policy=TRUST)
            aws.iam.RolePolicyAttachment(f"{name}-p", role=role.name, policy_arn=role.arn.apply(lambda arn: f"{1 / 0}"))

    with pytest.raises((Refused, ZeroDivisionError)):
        ran(program)
    gc.collect()
    assert capfd.readouterr() == ("", "")
    assert caplog.records == []  # asyncio would log each future that nobody reads, and logging prints without handlers


class Loop(pulumi.ComponentResource):
    """Its resource waits for it."""

    def __init__(self) -> None:
        super().__init__("tandem:index:Loop", "loop")
        opts = pulumi.ResourceOptions(parent=self, depends_on=[self])
        aws.iam.Role("role", assume_role_policy=TRUST, opts=opts)


def twice() -> None:
    for _ in range(2):
        aws.iam.Role("role", assume_role_policy=TRUST)


def transformed() -> None:
    opts = pulumi.ResourceOptions(transforms=[lambda args: None])
    aws.iam.Role("role", assume_role_policy=TRUST, opts=opts)


REFUSED: dict[Callable[[], object], str] = {
    twice: "duplicate resource URN 'urn:pulumi:s::p::aws:iam/role:Role::role'",
    lambda: aws.ec2.get_ami(most_recent=True): r"'aws:ec2/getAmi:getAmi'.*sandbox/cloud/aws/functions\.py",
    lambda: k8s.helm.v4.Chart("c", chart="nginx"): r"'kubernetes:helm.sh/v4:Chart'.*sandbox/cloud/answers\.py",
    lambda: aws.ec2.Vpc.get("there", "vpc-1"): "aws:ec2/vpc:Vpc 'vpc-1'",
    Loop: "circular dependency",
    transformed: "not on 'role'",
}


@pytest.mark.parametrize("program", REFUSED)
def test_what_the_engine_or_the_sandbox_does_not_support_is_refused(program: Callable[[], object]) -> None:
    with pytest.raises((Refused, RuntimeError), match=REFUSED[program]):
        ran(program)
