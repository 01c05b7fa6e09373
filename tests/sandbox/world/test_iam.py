"""Rules of IAM, logs, queues and events."""

import pytest

from sandbox.world import tokens
from tests.sandbox.world_pieces import Account, refused

MANAGED = "arn:aws:iam::aws:policy/AmazonEKSWorkerNodePolicy"


@pytest.fixture
def account() -> Account:
    return Account()


@pytest.mark.parametrize("by", [tokens.ATTACHED_POLICY, tokens.PROFILE])
def test_a_role_can_be_deleted_when_no_policy_or_profile_uses_it(account: Account, by: str) -> None:
    role = account.make(tokens.ROLE, name="r")
    user = account.make(by, role=role, **({"policyArn": MANAGED} if by == tokens.ATTACHED_POLICY else {}))
    with refused("DeleteConflict"):
        account.drop(tokens.ROLE, role)
    account.drop(by, user)
    account.drop(tokens.ROLE, role)
    assert account.world.entities() == []


def test_a_policy_can_be_deleted_when_no_role_has_it(account: Account) -> None:
    policy, role = account.make(tokens.POLICY, name="p", policy="{}"), account.make(tokens.ROLE, name="r")
    attached = account.make(tokens.ATTACHED_POLICY, role=role, policyArn=policy)
    with refused("DeleteConflict"):
        account.drop(tokens.POLICY, policy)
    account.drop(tokens.ATTACHED_POLICY, attached)
    account.drop(tokens.POLICY, policy)


@pytest.mark.real_world(
    behaviour="An IAM role name has at most 64 characters",
    source="docs.aws.amazon.com/IAM/latest/APIReference/API_CreateRole.html",
)
def test_role_names_have_at_most_64_characters(account: Account) -> None:
    account.make(tokens.ROLE, name="r" * 64)
    with refused("ValidationError", "64"):
        account.world.check(tokens.ROLE, "r", {"name": "r" * 65}, None)
    with refused("ValidationError", "roleName"):
        account.world.check(tokens.ROLE, "r", {"name": "a role"}, None)


def test_a_generated_role_name_must_also_fit(account: Account) -> None:
    assert len(account.world.check(tokens.ROLE, "r" * 56, {}, None)["name"]) == 64
    with refused("ValidationError", "maximum length 64"):
        account.world.check(tokens.ROLE, "r" * 57, {}, None)


@pytest.mark.real_world(
    behaviour="A managed policy has at most 6144 characters, without white space",
    source="docs.aws.amazon.com/IAM/latest/UserGuide/reference_iam-quotas.html",
)
def test_a_managed_policy_has_at_most_6144_characters_without_white_space(account: Account) -> None:
    policy = account.make(tokens.POLICY, name="p", policy="{" + " " * 9000 + "x" * 6142 + "}")
    with refused("LimitExceeded", "6144"):
        account.make(tokens.POLICY, name="q", policy="x" * 6145)
    with refused("LimitExceeded", "6144"):
        account.change(tokens.POLICY, policy, policy="x" * 6145)


@pytest.mark.parametrize(
    ("token", "code"),
    [
        (tokens.ROLE, "EntityAlreadyExists"),
        (tokens.POLICY, "EntityAlreadyExists"),
        (tokens.LOG_GROUP, "ResourceAlreadyExistsException"),
        (tokens.QUEUE, "QueueNameExists"),
    ],
)
def test_a_name_is_unique(account: Account, token: str, code: str) -> None:
    account.make(token, name="n")
    with refused(code):
        account.make(token, name="n")
    account.make(token, name="m")


def test_attaching_a_policy_needs_an_existing_role_and_policy(account: Account) -> None:
    with refused("NoSuchEntity"):
        account.make(tokens.ATTACHED_POLICY, role="nobody", policyArn=MANAGED)
    role = account.make(tokens.ROLE, name="r")
    with refused("NoSuchEntity"):
        account.make(tokens.ATTACHED_POLICY, role=role, policyArn="arn:aws:iam::123456789012:policy/absent")
    assert account.make(tokens.ATTACHED_POLICY, role=role, policyArn=MANAGED)


def test_attaching_a_policy_twice_has_no_further_effect(account: Account) -> None:
    role = account.make(tokens.ROLE, name="r")
    assert account.make(tokens.ATTACHED_POLICY, role=role, policyArn=MANAGED) == account.make(
        tokens.ATTACHED_POLICY, role=role, policyArn=MANAGED
    )
    assert len(account.of(tokens.ATTACHED_POLICY)) == 1


def test_queues_and_event_rules_exist_before_targets_and_targets_are_deleted_first(account: Account) -> None:
    with refused("AWS.SimpleQueueService.NonExistentQueue"):
        account.make(tokens.QUEUE_POLICY, queueUrl="https://nowhere")
    account.make(tokens.QUEUE_POLICY, queueUrl=account.make(tokens.QUEUE, name="q"))
    with refused("ResourceNotFoundException"):
        account.make(tokens.EVENT_TARGET, rule="e")
    rule = account.make(tokens.EVENT_RULE, name="e")
    target = account.make(tokens.EVENT_TARGET, rule=rule)
    with refused("ValidationException"):
        account.drop(tokens.EVENT_RULE, rule)
    account.drop(tokens.EVENT_TARGET, target)
    account.drop(tokens.EVENT_RULE, rule)
