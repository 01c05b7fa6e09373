import functools
import json
import random
from dataclasses import asdict, fields
from importlib.metadata import version
from typing import Any

import pulumi
import pulumi_aws as aws
import pulumi_kubernetes as k8s

from sandbox.graph import Secret, masked
from tests.conftest import Golden
from tests.sandbox.conftest import TRUST, Pair, ran


class Outer(pulumi.ComponentResource):
    """Two roles below two components, in another region, with an option that does nothing on components."""

    def __init__(self) -> None:
        self.europe = aws.Provider("eu", region="eu-west-1")
        super().__init__("tandem:index:Outer", "outer", None, pulumi.ResourceOptions(providers=[self.europe]))
        self.pair = Pair("pair", pulumi.ResourceOptions(parent=self, ignore_changes=["tags"]))


def everything() -> None:
    """Everything that a program can request from the engine."""
    pulumi.log.warn("careful")
    pulumi.log.debug("not this")
    outer = Outer()
    reader = aws.iam.Role("reader", name="reader", assume_role_policy=TRUST)
    # The SDK takes a resource, whatever its annotations say; eks.Cluster sends its role like this.
    given: Any = reader
    after = [outer.pair, aws.dynamodb.Table("of-a-type-without-a-rule", hash_key="id", attributes=[])]
    opts = pulumi.ResourceOptions(depends_on=after)
    aws.iam.RolePolicyAttachment("attachment", role=given, policy_arn="arn:aws:iam::aws:policy/P", opts=opts)
    options = pulumi.ResourceOptions(
        ignore_changes=["maxSessionDuration"],
        replace_on_changes=["assumeRolePolicy"],
        delete_before_replace=True,
        replacement_trigger=[1],
        custom_timeouts=pulumi.CustomTimeouts(create="5m"),
        additional_secret_outputs=["arn"],
        version="7.0.0",
    )
    role = aws.iam.Role("with-options", assume_role_policy=reader.arn, opts=options)
    # A computed output is secret if the input with its name is secret.
    aws.eks.Cluster("c", vpc_config={"subnet_ids": [pulumi.Output.secret("hidden")]}, role_arn="arn")
    region = pulumi.InvokeOptions(provider=outer.europe)
    pulumi.export("zone", aws.get_availability_zones(state="available", opts=region).names[0])
    pulumi.export("who", [pulumi.get_organization(), reader.name])
    pulumi.export("arns", [role.arn, outer.pair.second.arn])


def test_a_run_returns_everything_that_the_program_registered(golden: Golden) -> None:
    graph = ran(everything)
    parts = {
        "logs": [asdict(log) for log in graph.logs],
        "outputs": graph.outputs,
        "stack_outputs": graph.stack_outputs,
        **{each.name: {part.name: getattr(each, part.name) for part in fields(each)} for each in graph},
    }
    lines = [f"{name}: {json.dumps(part, sort_keys=True)}\n" for name, part in masked(parts).items()]
    golden("graph.txt", "".join(lines).replace(version("pulumi-aws"), "of the SDK"))


def test_the_order_of_registration_changes_nothing() -> None:
    def program(order: list[int]) -> None:
        for number in order:
            vpc = aws.ec2.Vpc(f"net-{number}", cidr_block="10.0.0.0/16")
            aws.ec2.Subnet(f"subnet-{number}", vpc_id=vpc.id, cidr_block="10.0.0.0/24")
            aws.get_partition_output()

    order = list(range(6))
    graph = ran(lambda: program(order))
    assert list(graph.resources) == sorted(graph.resources)
    for seed in range(3):
        shuffled = random.Random(seed).sample(order, len(order))
        assert ran(functools.partial(program, shuffled)) == graph


def test_a_secret_keeps_its_mark_in_inputs_outputs_and_exports_and_never_prints() -> None:
    def program() -> None:
        token = pulumi.Output.secret("hunter2")
        provider = k8s.Provider("cluster", kubeconfig="{}")
        opts = pulumi.ResourceOptions(provider=provider)
        data = k8s.core.v1.ConfigMap("c", data={"token": token, "plain": "x"}, opts=opts)
        pulumi.export("token", data.data.apply(lambda found: found["token"]))

    graph = ran(program)
    config_map = graph.named("c")
    assert config_map.inputs["data"]["token"] == Secret("hunter2")
    assert isinstance(graph.stack_outputs["token"], Secret)
    assert "hunter2" not in repr(graph)
    assert masked(config_map.outputs)["data"] == {"plain": "x", "token": "[secret]"}
