"""Rules of IAM, and those of logs, queues, events, budgets and schedules.

Tests of the components hold the text of schedules, their calls, the trust in their role, and notifications of budgets.
"""

import re

from sandbox.cloud.identity import ACCOUNT
from sandbox.world import tokens
from sandbox.world.entities import Entities
from sandbox.world.rules.rule import CHANGE, CREATE, DELETE, Case, Rule, absent, taken, used

API = "https://docs.aws.amazon.com/IAM/latest/APIReference/"
QUOTAS = "https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_iam-quotas.html"
MOST_ROLE_NAME = 64
MOST_POLICY = 6144
"""Maximum number of characters in a managed policy, without white space."""
_ROLE_NAME = re.compile(r"[\w+=,.@-]+", re.ASCII)


def role_named(entities: Entities, reference: object) -> bool:
    """Whether a role with this name or ARN exists. Roles of other accounts are assumed to exist."""
    text = str(reference)
    if text.startswith("arn:"):
        return f":{ACCOUNT}:role/" not in text or entities.role(text) is not None
    return entities.get(tokens.ROLE, text) is not None


def _long_name(case: Case) -> str | None:
    name = str(case.inputs["name"])
    if len(name) <= MOST_ROLE_NAME:
        return None
    return (
        f"1 validation error detected: Value '{name}' at 'roleName' failed to satisfy constraint: "
        f"Member must have length less than or equal to {MOST_ROLE_NAME} (it has {len(name)})"
    )


def _odd_name(case: Case) -> str | None:
    name = str(case.inputs["name"])
    if _ROLE_NAME.fullmatch(name):
        return None
    allowed = "It must contain only alphanumeric characters and/or the following: +=,.@_-"
    return f"The specified value for roleName is invalid. {allowed} ({name})"


def _long_policy(case: Case) -> str | None:
    length = len(re.sub(r"\s", "", str(case.inputs.get("policy"))))
    return f"Cannot exceed quota for PolicySize: {MOST_POLICY} (it has {length})" if length > MOST_POLICY else None


def _no_role(case: Case) -> str | None:
    role = case.inputs.get("role")
    return f"The role with name {role} cannot be found." if role and not role_named(case.entities, role) else None


def _no_policy(case: Case) -> str | None:
    arn = str(case.inputs.get("policyArn"))
    if f":{ACCOUNT}:policy/" in arn and case.entities.get(tokens.POLICY, arn) is None:
        return f"Policy {arn} does not exist or is not attachable."
    return None


EVENTS = "https://docs.aws.amazon.com/eventbridge/latest/APIReference/"
QUEUES = "https://docs.aws.amazon.com/AWSSimpleQueueService/latest/APIReference/"
LOGS = "https://docs.aws.amazon.com/AmazonCloudWatchLogs/latest/APIReference/"
SCHEDULES = "https://docs.aws.amazon.com/scheduler/latest/APIReference/"
BUDGETS = "https://docs.aws.amazon.com/aws-cost-management/latest/APIReference/"
TAKEN, NO_QUEUE = "EntityAlreadyExists", "AWS.SimpleQueueService.NonExistentQueue"


SAME_NAMES = (
    (tokens.ROLE, TAKEN, API + "API_CreateRole.html", "Role with name {name} already exists."),
    (
        tokens.POLICY,
        TAKEN,
        API + "API_CreatePolicy.html",
        "A policy called {name} already exists. Duplicate names are not allowed.",
    ),
    (
        tokens.LOG_GROUP,
        "ResourceAlreadyExistsException",
        LOGS + "API_CreateLogGroup.html",
        "The specified log group already exists ({name})",
    ),
    (tokens.QUEUE, "QueueNameExists", QUEUES + "API_CreateQueue.html", "A queue named {name} already exists."),
    (
        tokens.BUDGET,
        "DuplicateRecordException",
        BUDGETS + "API_budgets_CreateBudget.html",
        "Error creating budget: {name} - the budget already exists.",
    ),
    (
        tokens.SCHEDULE_GROUP,
        "ConflictException",
        SCHEDULES + "API_CreateScheduleGroup.html",
        "Schedule group {name} already exists.",
    ),
)
DETACH = used(tokens.ATTACHED_POLICY, "role", "Cannot delete entity, must detach all policies first.")
REMOVE = used(tokens.PROFILE, "role", "Cannot delete entity, must remove roles from instance profile first.")
ATTACHED = used(tokens.ATTACHED_POLICY, "policyArn", "Cannot delete a policy attached to entities.")
HAS_TARGETS = used(tokens.EVENT_TARGET, "rule", "Rule can't be deleted since it has targets.")
NO_RULE = absent("rule", tokens.EVENT_RULE, "Rule {id} does not exist on EventBus default.")
NO_GROUP = absent("groupName", tokens.SCHEDULE_GROUP, "Schedule group {id} does not exist.")
SAME_SCHEDULE = taken("groupName", "name", words="Schedule {name} already exists.")
LOST_QUEUE = absent("queueUrl", tokens.QUEUE, "The specified queue does not exist.")
RULES: tuple[Rule, ...] = (
    Rule((tokens.ROLE,), ("check",), "ValidationError", API + "API_CreateRole.html", _long_name),
    Rule((tokens.ROLE,), ("check",), "ValidationError", API + "API_CreateRole.html", _odd_name),
    Rule((tokens.POLICY,), ("check", "update"), "LimitExceeded", QUOTAS, _long_policy),
    *(Rule((token,), CREATE, code, page, taken("name", words=words)) for token, code, page, words in SAME_NAMES),
    Rule((tokens.ATTACHED_POLICY,), CHANGE, "NoSuchEntity", API + "API_AttachRolePolicy.html", _no_role),
    Rule((tokens.ATTACHED_POLICY,), CREATE, "NoSuchEntity", API + "API_AttachRolePolicy.html", _no_policy),
    Rule((tokens.ROLE,), DELETE, "DeleteConflict", API + "API_DeleteRole.html", DETACH),
    Rule((tokens.ROLE,), DELETE, "DeleteConflict", API + "API_DeleteRole.html", REMOVE),
    Rule((tokens.POLICY,), DELETE, "DeleteConflict", API + "API_DeletePolicy.html", ATTACHED),
    Rule((tokens.QUEUE_POLICY,), CREATE, NO_QUEUE, QUEUES + "API_SetQueueAttributes.html", LOST_QUEUE),
    Rule((tokens.EVENT_TARGET,), CREATE, "ResourceNotFoundException", EVENTS + "API_PutTargets.html", NO_RULE),
    Rule((tokens.SCHEDULE,), CHANGE, "ResourceNotFoundException", SCHEDULES + "API_CreateSchedule.html", NO_GROUP),
    Rule((tokens.SCHEDULE,), CREATE, "ConflictException", SCHEDULES + "API_CreateSchedule.html", SAME_SCHEDULE),
    Rule((tokens.EVENT_RULE,), DELETE, "ValidationException", EVENTS + "API_DeleteRule.html", HAS_TARGETS),
)
