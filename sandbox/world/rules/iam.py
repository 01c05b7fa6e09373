"""Rules of IAM, and of logs, queues and events that have no file of their own."""

import re

from sandbox.cloud.identity import ACCOUNT
from sandbox.world import tokens
from sandbox.world.rules.rule import CHANGE, CREATE, DELETE, Case, Refusal, Rule
from sandbox.world.things import Things

API = "https://docs.aws.amazon.com/IAM/latest/APIReference/"
QUOTAS = "https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_iam-quotas.html"
MOST_ROLE_NAME = 64
MOST_POLICY = 6144
"""Characters of a managed policy, white space not counted."""
_ROLE_NAME = re.compile(r"[\w+=,.@-]+", re.ASCII)


def role_named(things: Things, reference: object) -> bool:
    """Whether a role of that name, or with that ARN, is there; roles of other accounts are."""
    text = str(reference)
    if text.startswith("arn:"):
        return f":{ACCOUNT}:role/" not in text or any(one.outputs.get("arn") == text for one in things.of(tokens.ROLE))
    return things.get(tokens.ROLE, text) is not None


def _long_name(case: Case) -> str | None:
    name = case.inputs.get("name")
    if not isinstance(name, str) or len(name) <= MOST_ROLE_NAME:
        return None
    return (
        f"1 validation error detected: Value '{name}' at 'roleName' failed to satisfy constraint: "
        f"Member must have length less than or equal to {MOST_ROLE_NAME} (it has {len(name)})"
    )


def _odd_name(case: Case) -> str | None:
    name = case.inputs.get("name")
    if not isinstance(name, str) or _ROLE_NAME.fullmatch(name):
        return None
    allowed = "It must contain only alphanumeric characters and/or the following: +=,.@_-"
    return f"The specified value for roleName is invalid. {allowed} ({name})"


def _long_policy(case: Case) -> str | None:
    text = case.inputs.get("policy")
    length = len(re.sub(r"\s", "", text)) if isinstance(text, str) else 0
    return f"Cannot exceed quota for PolicySize: {MOST_POLICY} (it has {length})" if length > MOST_POLICY else None


def _still_attached(case: Case) -> str | None:
    if any(one.inputs.get("role") == case.id for one in case.things.of(tokens.ATTACHED_POLICY)):
        return "Cannot delete entity, must detach all policies first."
    return None


def _in_profile(case: Case) -> str | None:
    if any(one.inputs.get("role") == case.id for one in case.things.of(tokens.PROFILE)):
        return "Cannot delete entity, must remove roles from instance profile first."
    return None


def _policy_attached(case: Case) -> str | None:
    if any(one.inputs.get("policyArn") == case.id for one in case.things.of(tokens.ATTACHED_POLICY)):
        return "Cannot delete a policy attached to entities."
    return None


def _no_role(case: Case) -> str | None:
    role = case.inputs.get("role")
    return f"The role with name {role} cannot be found." if role and not role_named(case.things, role) else None


def _no_policy(case: Case) -> str | None:
    arn = str(case.inputs.get("policyArn"))
    if f":{ACCOUNT}:policy/" in arn and case.things.get(tokens.POLICY, arn) is None:
        return f"Policy {arn} does not exist or is not attachable."
    return None


def same_id(token: str, words: str) -> Refusal:
    """Refuses a second thing of that name."""

    def refuse(case: Case) -> str | None:
        name = case.inputs.get("name")
        return words.format(name=name) if any(one.inputs.get("name") == name for one in case.things.of(token)) else None

    return refuse


def _has_targets(case: Case) -> str | None:
    if any(one.inputs.get("rule") in (case.id, case.inputs.get("name")) for one in case.things.of(tokens.EVENT_TARGET)):
        return "Rule can't be deleted since it has targets."
    return None


def _no_event_rule(case: Case) -> str | None:
    rule = case.inputs.get("rule")
    return None if case.things.get(tokens.EVENT_RULE, rule) else f"Rule {rule} does not exist on EventBus default."


def _no_queue(case: Case) -> str | None:
    url = case.inputs.get("queueUrl")
    return None if case.things.get(tokens.QUEUE, url) else "The specified queue does not exist."


EVENTS = "https://docs.aws.amazon.com/eventbridge/latest/APIReference/"
QUEUES = "https://docs.aws.amazon.com/AWSSimpleQueueService/latest/APIReference/"
LOGS = "https://docs.aws.amazon.com/AmazonCloudWatchLogs/latest/APIReference/"
TAKEN, NO_QUEUE = "EntityAlreadyExists", "AWS.SimpleQueueService.NonExistentQueue"


def _same(token: str, code: str, page: str, words: str) -> Rule:
    return Rule((token,), CREATE, code, page, same_id(token, words))


# The Terraform provider tries the deletion of a role and of a policy again while IAM says DeleteConflict
# (internal/service/iam/role.go, policy.go).
RULES: tuple[Rule, ...] = (
    Rule((tokens.ROLE,), ("check",), "ValidationError", API + "API_CreateRole.html", _long_name),
    Rule((tokens.ROLE,), ("check",), "ValidationError", API + "API_CreateRole.html", _odd_name),
    Rule((tokens.POLICY,), ("check", "update"), "LimitExceeded", QUOTAS, _long_policy),
    _same(tokens.ROLE, TAKEN, API + "API_CreateRole.html", "Role with name {name} already exists."),
    _same(
        tokens.POLICY,
        TAKEN,
        API + "API_CreatePolicy.html",
        "A policy called {name} already exists. Duplicate names are not allowed.",
    ),
    Rule((tokens.ATTACHED_POLICY,), CHANGE, "NoSuchEntity", API + "API_AttachRolePolicy.html", _no_role),
    Rule((tokens.ATTACHED_POLICY,), CREATE, "NoSuchEntity", API + "API_AttachRolePolicy.html", _no_policy),
    Rule((tokens.ROLE,), DELETE, "DeleteConflict", API + "API_DeleteRole.html", _still_attached, waits=True),
    Rule((tokens.ROLE,), DELETE, "DeleteConflict", API + "API_DeleteRole.html", _in_profile, waits=True),
    Rule((tokens.POLICY,), DELETE, "DeleteConflict", API + "API_DeletePolicy.html", _policy_attached, waits=True),
    _same(
        tokens.LOG_GROUP,
        "ResourceAlreadyExistsException",
        LOGS + "API_CreateLogGroup.html",
        "The specified log group already exists ({name})",
    ),
    _same(tokens.QUEUE, "QueueNameExists", QUEUES + "API_CreateQueue.html", "A queue named {name} already exists."),
    Rule((tokens.QUEUE_POLICY,), CREATE, NO_QUEUE, QUEUES + "API_SetQueueAttributes.html", _no_queue),
    Rule((tokens.EVENT_TARGET,), CREATE, "ResourceNotFoundException", EVENTS + "API_PutTargets.html", _no_event_rule),
    Rule((tokens.EVENT_RULE,), DELETE, "ValidationException", EVENTS + "API_DeleteRule.html", _has_targets),
)
