"""Several people, and CI, administer one cluster."""

import pytest

from sandbox.world.providers.callers import Callers
from tests.engine.emulated import Raise, Stack

ANNA, CI = "arn:aws:iam::123456789012:role/people/anna", "arn:aws:iam::123456789012:role/ci"
WORK = "arn:aws:iam::999999999999:role/work"
NOT_ACCEPTED = "AWS rejected the credentials: "
MISTRAL_ALONE = {"models": [{"name": "mistral:7b", "context": 2048}]}


def as_(stack: Stack, principal: str) -> Stack:
    stack.callers = Callers(ambient=principal)
    return stack


@pytest.mark.real_world(
    behaviour="Only a principal with an access entry can talk to the Kubernetes API of a cluster.",
    source="https://docs.aws.amazon.com/eks/latest/userguide/access-entries.html",
)
def test_a_listed_admin_can_change_and_destroy_what_another_one_created(nothing: Raise) -> None:
    stack = nothing("dev", {"cluster": {"admins": [ANNA, CI]}})
    as_(stack, ANNA).comes_up()
    assert as_(stack, CI).comes_up().changed == {}
    stack.configure(MISTRAL_ALONE)
    stack.comes_up()
    # Entries outlive every Kubernetes object: without them, nobody could delete the last objects.
    stack.goes_down()


@pytest.mark.real_world(
    behaviour="EKS makes an access entry for the creator of a cluster; a second one for the same principal fails.",
    source="https://docs.aws.amazon.com/eks/latest/APIReference/API_CreateAccessEntry.html (ResourceInUseException)",
)
def test_the_creator_can_be_listed_later_and_nobody_else_gets_in_before(nothing: Raise) -> None:
    stack = nothing("dev")
    as_(stack, ANNA).comes_up()
    strange = as_(stack, CI).destroy()
    assert strange.code != 0
    assert "the server has asked for the client to provide credentials" in "".join(strange.errors)
    stack.configure({"cluster": {"admins": [ANNA, CI]}})
    as_(stack, ANNA).comes_up()
    as_(stack, CI).goes_down()


def test_anyone_who_runs_up_is_let_in_before_anything_is_changed_inside(nothing: Raise) -> None:
    stack = nothing("dev")
    as_(stack, ANNA).comes_up()
    # Anna's role is deleted, and the stack file lists no admins.
    stack.configure(MISTRAL_ALONE)
    as_(stack, CI).comes_up()
    stack.goes_down()


@pytest.mark.real_world(
    behaviour="An explicit AWS provider and the kubeconfig of eks.Cluster do not use aws:profile or aws:assumeRoles.",
    source="pulumi.com/registry/packages/aws/installation-configuration; pulumi-eks nodejs/eks/cluster/cluster.ts",
)
@pytest.mark.parametrize(
    "settings",
    [
        {"aws:profile": "work"},
        {"aws:assumeRoles": [{"roleArn": WORK}], "aws:profile": "other"},
    ],
    ids=["profile", "role by profile"],
)
def test_provider_and_kubeconfig_use_the_credentials_of_the_stack_file(
    nothing: Raise, settings: dict[str, object]
) -> None:
    stack = nothing("dev", {**settings, "aws:allowedAccountIds": ["999999999999"], "cluster": {"admins": [WORK]}})
    stack.callers = Callers(ambient=ANNA, profiles={"work": WORK, "other": CI})
    stack.comes_up()
    entries = [entry["inputs"] for entry in stack.state()["resources"] if entry["type"].endswith(":AccessEntry")]
    assert [entry["principalArn"] for entry in entries] == [WORK]


@pytest.mark.real_world(
    behaviour="The AWS provider looks up a session's role by iam:GetRole, which a role need not be allowed.",
    source="terraform-provider-aws internal/service/iam/session_context_data_source.go, dataSourceSessionContextRead",
)
@pytest.mark.parametrize(
    ("settings", "callers", "words"),
    [
        ({"aws:profile": "workk"}, Callers(), [NOT_ACCEPTED, "failed to get shared config profile, workk"]),
        (
            {"aws:allowedAccountIds": ["999999999999"]},
            Callers(),
            [NOT_ACCEPTED, "AWS account ID not allowed: 123456789012"],
        ),
        (
            {},
            Callers(ambient=ANNA, may_get_role=False),
            ["unable to get role (anna)", "Allow the role `iam:GetRole` on itself."],
        ),
    ],
    ids=["profile", "account", "a role that may not look itself up"],
)
def test_wrong_credentials_are_refused_before_anything_is_created(
    nothing: Raise, settings: dict[str, object], callers: Callers, words: list[str]
) -> None:
    stack = nothing("dev", settings)
    stack.callers = callers
    refused = stack.up()
    assert refused.code != 0
    said = "".join(refused.errors)
    assert [one for one in words if one not in said] == [], said
    assert "Traceback" not in said
    assert (NOT_ACCEPTED in said) == (NOT_ACCEPTED in words)
    assert stack.findings().entities == 0
    assert len(refused.errors) <= 2, refused.errors
