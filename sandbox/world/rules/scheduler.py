"""Rules of EventBridge Scheduler."""

import json
import re
from collections.abc import Mapping
from typing import Any

from sandbox.world import tokens
from sandbox.world.entities import Entities, value_at, values_at
from sandbox.world.rules.rule import CHANGE, CREATE, Case, Moments, Refusal, Rule, taken

API = "https://docs.aws.amazon.com/scheduler/latest/APIReference/"
GUIDE = "https://docs.aws.amazon.com/scheduler/latest/UserGuide/"
SERVICE = "scheduler.amazonaws.com"
UPDATE_NODE_GROUP = ":scheduler:::aws-sdk:eks:updateNodegroupConfig"
REQUIRED = ("ClusterName", "NodegroupName")
"""Parameters that EKS's call needs, as the universal target spells them."""
FIELDS = 6


def _no_group(case: Case) -> str | None:
    name = case.inputs.get("groupName") or "default"
    known = name == "default" or case.entities.get(tokens.SCHEDULE_GROUP, name) is not None
    return None if known else f"Schedule group {name} does not exist."


def _invalid_expression(case: Case) -> str | None:
    text = str(case.inputs.get("scheduleExpression"))
    if re.fullmatch(r"at\(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\)|rate\(\d+ (minute|hour|day)s?\)", text):
        return None
    cron = re.fullmatch(r"cron\((.*)\)", text)
    fields = cron[1].split() if cron else []
    # One of day-of-month and day-of-week must be `?` (schedule-types.html).
    if len(fields) == FIELDS and (fields[2] == "?") != (fields[4] == "?"):
        return None
    return f"Invalid Schedule Expression {text}."


def _invalid_input(case: Case) -> str | None:
    if not str(value_at(case.inputs, "target.arn")).endswith(UPDATE_NODE_GROUP):
        return None
    given = json.loads(value_at(case.inputs, "target.input") or "{}")
    lacking = [name for name in REQUIRED if name not in given]
    return f"Invalid RequestJson provided. Reason: missing field {', '.join(lacking)}" if lacking else None


def _not_trusted(case: Case) -> str | None:
    if trusts(case.entities, value_at(case.inputs, "target.roleArn"), str(case.inputs.get("groupName") or "default")):
        return None
    return "The execution role you provide must allow AWS EventBridge Scheduler to assume the role."


def trusts(entities: Entities, role_arn: Any, group: str) -> bool:
    """Whether a role lets EventBridge Scheduler assume it for schedules of this group."""
    role, owner = entities.role(role_arn), entities.get(tokens.SCHEDULE_GROUP, group)
    if role is None:
        return False
    source = {"aws:SourceAccount": str(role_arn).split(":")[4], "aws:SourceArn": owner and owner.outputs["arn"]}
    return any(
        statement.get("Effect") == "Allow"
        and SERVICE in values_at(statement, "Principal.Service")
        and all(source.get(key) == value for test in _tests(statement) for key, value in test.items())
        for statement in json.loads(role.inputs.get("assumeRolePolicy") or "{}").get("Statement", ())
    )


def _tests(statement: Mapping[str, Any]) -> list[dict[str, Any]]:
    return list((statement.get("Condition") or {}).values())


def _row(token: str, code: str, page: str, refuses: Refusal, on: Moments = CHANGE) -> Rule:
    return Rule((token,), on, code, page, refuses)


GROUP_TAKEN = taken("name", words="Schedule group {name} already exists.")
SCHEDULE_TAKEN = taken("groupName", "name", words="Schedule {name} already exists.")
RULES: tuple[Rule, ...] = (
    _row(tokens.SCHEDULE_GROUP, "ConflictException", API + "API_CreateScheduleGroup.html", GROUP_TAKEN, CREATE),
    _row(tokens.SCHEDULE, "ResourceNotFoundException", API + "API_CreateSchedule.html", _no_group),
    _row(tokens.SCHEDULE, "ConflictException", API + "API_CreateSchedule.html", SCHEDULE_TAKEN, CREATE),
    _row(tokens.SCHEDULE, "ValidationException", GUIDE + "schedule-types.html", _invalid_expression),
    _row(tokens.SCHEDULE, "ValidationException", GUIDE + "managing-targets-universal.html", _invalid_input),
    _row(tokens.SCHEDULE, "ValidationException", GUIDE + "setting-up.html", _not_trusted),
)
