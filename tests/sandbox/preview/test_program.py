import functools
import random
from typing import Any

import pulumi
import pulumi_aws as aws
import pulumi_kubernetes as k8s

from sandbox import wire
from sandbox.cloud.answers import Cloud
from sandbox.cloud.protocol import Created, Creation
from sandbox.graph import Log, Ref, Secret, masked
from tests.sandbox.conftest import TRUST, Pair, ran

# What a run returns.


def test_a_resource_arrives_with_its_urn_inputs_id_and_outputs() -> None:
    graph = ran(lambda: aws.ec2.Vpc("net", cidr_block="10.0.0.0/16"))
    (vpc,) = graph.of_type("aws:ec2/vpc:Vpc")
    assert vpc.urn == "urn:pulumi:s::p::aws:ec2/vpc:Vpc::net"
    assert vpc.parent == "urn:pulumi:s::p::pulumi:pulumi:Stack::p-s"
    assert vpc.inputs == {"cidrBlock": "10.0.0.0/16"}
    assert vpc.id.startswith("vpc-")
    assert vpc.outputs["arn"] == f"arn:aws:ec2:us-east-1:123456789012:vpc/{vpc.id}"
    assert vpc.custom


def test_urns_carry_the_types_of_all_components_above() -> None:
    class Outer(pulumi.ComponentResource):
        def __init__(self) -> None:
            super().__init__("tandem:index:Outer", "outer")
            Pair("pair", pulumi.ResourceOptions(parent=self))

    role = ran(Outer).named("pair-first")
    assert role.urn == "urn:pulumi:s::p::tandem:index:Outer$tandem:index:Pair$aws:iam/role:Role::pair-first"


def test_dependencies_are_those_of_inputs_and_of_depends_on() -> None:
    names = "abcdefgh"

    def program() -> None:
        role, *others = [aws.iam.Role(name, assume_role_policy=TRUST) for name in names]
        opts = pulumi.ResourceOptions(depends_on=others)
        aws.iam.RolePolicyAttachment("attachment", role=role.name, policy_arn="arn:aws:iam::aws:policy/P", opts=opts)

    graph = ran(program)
    attachment = graph.named("attachment")
    assert attachment.dependencies == tuple(graph.named(name).urn for name in names)
    assert attachment.property_dependencies == {"role": (graph.named("a").urn,)}


def test_a_dependency_on_a_local_component_is_one_on_its_children() -> None:
    def program() -> None:
        pair = Pair("pair")
        aws.iam.Role("later", assume_role_policy=TRUST, opts=pulumi.ResourceOptions(depends_on=[pair]))

    graph = ran(program)
    assert graph.named("later").dependencies == (graph.named("pair-first").urn, graph.named("pair-second").urn)


def test_providers_are_named_by_urn() -> None:
    def program() -> None:
        provider = aws.Provider("eu", region="eu-west-1")
        Pair("pair", pulumi.ResourceOptions(providers=[provider]))

    graph = ran(program)
    provider = graph.named("eu").urn
    assert graph.named("pair").providers == {"aws": provider}
    assert graph.named("pair-first").provider == provider


def test_options_are_those_that_were_set() -> None:
    def program() -> None:
        first = aws.iam.Role("first", assume_role_policy=TRUST)
        opts = pulumi.ResourceOptions(
            protect=True,
            retain_on_delete=False,
            deleted_with=first,
            ignore_changes=["maxSessionDuration"],
            replace_on_changes=["assumeRolePolicy"],
            delete_before_replace=True,
            custom_timeouts=pulumi.CustomTimeouts(create="5m"),
            aliases=[pulumi.Alias(name="old"), "urn:pulumi:s::p::aws:iam/role:Role::older"],
            import_="there-already",
            version="7.0.0",
        )
        aws.iam.Role("second", assume_role_policy=TRUST, opts=opts)

    graph = ran(program)
    assert graph.named("first").options.keys() == {"version"}
    options = dict(graph.named("second").options)
    assert options.pop("aliases") == ({"name": "old"}, "urn:pulumi:s::p::aws:iam/role:Role::older")
    assert options == {
        "protect": True,
        "retainOnDelete": False,
        "deletedWith": graph.named("first").urn,
        "ignoreChanges": ("maxSessionDuration",),
        "replaceOnChanges": ("assumeRolePolicy",),
        "deleteBeforeReplace": True,
        "customTimeouts": {"create": "5m"},
        "import": "there-already",
        "version": "7.0.0",
    }


def test_outputs_of_components_and_of_the_stack_are_kept_apart() -> None:
    def program() -> None:
        pulumi.export("arn", Pair("pair").second.arn)

    graph = ran(program)
    assert graph.outputs == {graph.named("pair").urn: {"arn": graph.named("pair-first").outputs["arn"]}}
    assert graph.stack_outputs == {"arn": graph.named("pair-second").outputs["arn"]}


def test_logs_are_kept_and_warn_of_options_that_do_nothing_on_components() -> None:
    def program() -> None:
        pulumi.log.warn("careful")
        pulumi.log.debug("not this")
        Pair("pair", pulumi.ResourceOptions(ignore_changes=["tags"]))

    graph = ran(program)
    ignored = "the option 'ignoreChanges' has no effect on component resources"
    assert graph.logs == (Log("warning", "careful"), Log("warning", ignored, graph.named("pair").urn))


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


def test_an_unknown_type_answers_with_its_inputs() -> None:
    (table,) = ran(lambda: aws.dynamodb.Table("t", hash_key="id", attributes=[])).of_type("aws:dynamodb/table:Table")
    assert table.id == "t"
    assert table.outputs == {"hashKey": "id", "attributes": []}


# Secrets.


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


def test_what_a_rule_computes_from_a_secret_input_of_that_name_is_secret() -> None:
    def program() -> None:
        name = pulumi.Output.secret("hidden")
        aws.eks.Cluster("c", vpc_config={"subnet_ids": [name]}, role_arn="arn")

    (cluster,) = ran(program).of_type("aws:eks/cluster:Cluster")
    assert isinstance(cluster.outputs["vpcConfig"], Secret)
    assert cluster.outputs["vpcConfig"].value["clusterSecurityGroupId"].startswith("sg-")


def test_additional_secret_outputs_are_secret() -> None:
    def program() -> None:
        opts = pulumi.ResourceOptions(additional_secret_outputs=["arn"])
        pulumi.export("arn", aws.iam.Role("r", assume_role_policy=TRUST, opts=opts).arn)

    assert isinstance(ran(program).stack_outputs["arn"], Secret)


# Resources as values, functions.


def test_a_resource_as_an_input_is_a_reference_that_the_provider_sees_as_its_id() -> None:
    def program() -> None:
        role = aws.iam.Role("role", name="reader", assume_role_policy=TRUST)
        # The SDK takes it, whatever its annotations say; eks.Cluster sends its role like this.
        given: Any = role
        aws.iam.RolePolicyAttachment("attachment", role=given, policy_arn="arn:aws:iam::aws:policy/P")

    graph = ran(program)
    role, attachment = graph.named("role"), graph.named("attachment")
    assert attachment.inputs["role"] == Ref(role.urn, "reader")
    assert attachment.outputs["role"] == "reader"
    assert attachment.dependencies == (role.urn,)


def test_a_run_can_bring_its_own_answers() -> None:
    def program() -> None:
        pulumi.export("image", aws.ec2.get_ami(most_recent=True).id)

    cloud = Cloud(answers={"aws:ec2/getAmi:getAmi": {"id": "ami-1"}})
    assert ran(program, cloud=cloud).stack_outputs == {"image": "ami-1"}


def test_a_function_is_asked_of_the_provider_that_is_given() -> None:
    def program() -> None:
        provider = aws.Provider("eu", region="eu-west-1")
        zones = aws.get_availability_zones(state="available", opts=pulumi.InvokeOptions(provider=provider))
        pulumi.export("zone", zones.names[0])

    assert ran(program).stack_outputs == {"zone": "eu-west-1a"}


def test_an_unknown_output_reaches_dependents_and_holds_back_applies() -> None:
    seen: list[str] = []

    class Unknown(Cloud):
        def created(self, creation: Creation) -> Created:
            return Created("", {**creation.inputs, "arn": wire.UNKNOWN})

    def program() -> None:
        vpc = aws.ec2.Vpc("net")
        vpc.arn.apply(seen.append)
        aws.ec2.Subnet("subnet", vpc_id=vpc.arn)

    graph = ran(program, cloud=Unknown())
    assert seen == []
    assert graph.named("subnet").inputs == {"vpcId": wire.UNKNOWN}
