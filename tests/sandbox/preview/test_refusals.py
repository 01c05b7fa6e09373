import asyncio
import gc
from typing import Any

import pulumi
import pulumi.runtime.resource
import pulumi_aws as aws
import pulumi_kubernetes as k8s
import pytest
from pulumi.runtime.proto import resource_pb2

from sandbox.cloud.answers import Cloud
from sandbox.cloud.protocol import Refused
from sandbox.graph import Registration
from sandbox.preview.monitor import Monitor
from tests.sandbox.conftest import TRUST, ran


def test_a_failing_program_raises_its_own_exception() -> None:
    error = ValueError("boom")

    def program() -> None:
        aws.iam.Role("role", assume_role_policy=TRUST)
        raise error

    with pytest.raises(ValueError, match="boom") as caught:
        ran(program)
    assert caught.value is error


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


def test_the_programs_own_failure_comes_before_those_of_its_resources() -> None:
    def program() -> None:
        aws.iam.Role("role", assume_role_policy=TRUST)
        aws.iam.Role("role", assume_role_policy=TRUST)
        raise KeyError("own")

    with pytest.raises(KeyError, match="own"):
        ran(program)


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


def test_a_duplicate_urn_is_refused() -> None:
    def program() -> None:
        aws.iam.Role("role", assume_role_policy=TRUST)
        aws.iam.Role("role", assume_role_policy=TRUST)

    with pytest.raises(Refused, match="duplicate resource URN 'urn:pulumi:s::p::aws:iam/role:Role::role'"):
        ran(program)


def test_an_unknown_function_is_refused_by_its_token_with_the_place_to_add_it() -> None:
    with pytest.raises(Refused, match=r"'aws:ec2/getAmi:getAmi'.*sandbox/cloud/aws/functions\.py"):
        ran(lambda: aws.ec2.get_ami(most_recent=True))


def test_an_unknown_remote_component_is_refused() -> None:
    with pytest.raises(Refused, match=r"'kubernetes:helm.sh/v4:Chart'.*sandbox/cloud/answers\.py"):
        ran(lambda: k8s.helm.v4.Chart("chart", chart="nginx"))


def test_lookups_and_methods_of_resources_are_refused() -> None:
    with pytest.raises(Refused, match="aws:ec2/vpc:Vpc 'vpc-1'"):
        ran(lambda: aws.ec2.Vpc.get("there", "vpc-1"))
    with pytest.raises(Refused, match="does not support methods of resources: a:b/c"):
        Monitor(Cloud(), "p", "s").Call(resource_pb2.ResourceCallRequest(tok="a:b/c"))


def test_a_resource_that_depends_on_its_own_parent_is_refused() -> None:
    class Loop(pulumi.ComponentResource):
        def __init__(self) -> None:
            super().__init__("tandem:index:Loop", "loop")
            opts = pulumi.ResourceOptions(parent=self, depends_on=[self])
            aws.iam.Role("role", assume_role_policy=TRUST, opts=opts)

    with pytest.raises(RuntimeError, match="circular dependency"):
        ran(Loop)


def test_the_monitor_refuses_a_dependency_on_an_ancestor_that_is_a_local_component() -> None:
    monitor = Monitor(Cloud(), "p", "s")
    component = monitor.register(Registration(type="tandem:index:Outer", name="outer", custom=False)).urn
    custom = monitor.register(Registration(type="a:b:C", name="c", parent=component)).urn
    monitor.register(Registration(type="a:b:C", name="below", parent=custom, dependencies=(custom,)))
    with pytest.raises(Refused, match="which contains it, so neither can ever be complete"):
        monitor.register(Registration(type="a:b:C", name="again", parent=custom, dependencies=(component,)))


@pytest.mark.parametrize(
    "given",
    [
        {"parent": "urn:a::b::c::x"},
        {"provider": "urn:x"},
        {"dependencies": ("urn:x",)},
        {"options": {"deletedWith": "urn:x"}},
    ],
)
def test_the_monitor_refuses_unregistered_resources(given: dict[str, Any]) -> None:
    with pytest.raises(Refused, match="x', which was never registered"):
        Monitor(Cloud(), "p", "s").register(Registration(type="a:b:C", name="c", **given))


def test_transforms_of_local_resources_and_hooks_are_refused_instead_of_ignored() -> None:
    def transformed() -> None:
        opts = pulumi.ResourceOptions(transforms=[lambda args: None])
        aws.iam.Role("role", assume_role_policy=TRUST, opts=opts)

    def hooked() -> None:
        hook = pulumi.ResourceHook("hook", lambda args: None)
        opts = pulumi.ResourceOptions(hooks=pulumi.ResourceHookBinding(after_create=[hook]))
        aws.iam.Role("role", assume_role_policy=TRUST, opts=opts)

    with pytest.raises(Refused, match="not on 'role'"):
        ran(transformed)
    with pytest.raises(Refused, match="does not support register_resource_hook"):
        ran(hooked)
