"""The clock of the emulated cloud: schedules of EventBridge Scheduler and CronJobs whose time has come."""

import json
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

from sandbox.world import controllers, karpenter, tokens
from sandbox.world.entities import CloudError, Entities, Entity, value_at, values_at
from sandbox.world.permissions import allows
from sandbox.world.rules.every import RULES
from sandbox.world.rules.rule import Case, refusal
from sandbox.world.rules.scheduler import UPDATE_NODE_GROUP, trusts

MINUTE = timedelta(minutes=1)
NAMES = {
    name: number
    for names, first in (("SUN MON TUE WED THU FRI SAT", 0), ("JAN FEB MAR APR MAY JUN JUL AUG SEP OCT NOV DEC", 1))
    for number, name in enumerate(names.split(), first)
}


def advance(entities: Entities, since: datetime, until: datetime) -> None:
    """Runs everything that is due after `since`, up to and including `until`, minute by minute."""
    now = since.replace(second=0, microsecond=0) + MINUTE
    while now <= until:
        calls = [one for one in entities.of(tokens.SCHEDULE) if _is_due(one, now)]
        jobs = [one for one in entities.of(tokens.CRON_JOB) if _cron_job_is_due(one, now)]
        for schedule in calls:
            _call(entities, schedule)
        for job in jobs:
            _scale(entities, job)
        if jobs:
            karpenter.consolidate(entities)
        now += MINUTE


def _is_due(schedule: Entity, now: datetime) -> bool:
    inputs = schedule.inputs
    local = now.astimezone(ZoneInfo(inputs.get("scheduleExpressionTimezone") or "UTC"))
    if local.fold:  # An hour that comes twice counts once (AWS re:Post, "eventbridge-scheduler-adjust-dst").
        return False
    kind, _, text = str(inputs["scheduleExpression"]).rstrip(")").partition("(")
    if kind == "at":
        return local.replace(tzinfo=None) == datetime.fromisoformat(text).replace(second=0)
    minute, hour, day, month, weekday, _ = text.split()
    # EventBridge's week begins with 1 for Sunday.
    return _matches(f"{minute} {hour} {day} {month} {weekday}", local, sunday=1)


def _cron_job_is_due(job: Entity, now: datetime) -> bool:
    spec = job.inputs["spec"]
    return _matches(spec["schedule"], now.astimezone(ZoneInfo(spec.get("timeZone") or "UTC")), sunday=0)


def _matches(fields: str, now: datetime, *, sunday: int) -> bool:
    values = (now.minute, now.hour, now.day, now.month, now.isoweekday() % 7 + sunday)
    return all(value in _read(text, sunday) for text, value in zip(fields.split(), values, strict=True))


def _read(text: str, sunday: int) -> set[int]:
    """The values of a field. Names of weekdays are shifted to the number of Sunday."""

    def numbers() -> Iterator[int]:
        for part in text.split(","):
            span, _, step = part.partition("/")
            first, _, last = span.partition("-")
            low, high = (0, 60) if span in "*?" else (number(first), number(last or first))
            yield from range(low, high + 1, int(step or 1))

    def number(name: str) -> int:
        return NAMES[name] + sunday if name in NAMES else int(name)

    return set(numbers())


def _call(entities: Entities, schedule: Entity) -> None:
    """Makes the target's call with the schedule's role. A failure goes to the dead-letter queue, if the role may send.

    https://docs.aws.amazon.com/scheduler/latest/UserGuide/configuring-schedule-dlq.html
    """
    target = value_at(schedule.inputs, "target") or {}
    role = entities.role(target.get("roleArn"))
    assumed = role if trusts(entities, target.get("roleArn"), str(schedule.outputs["groupName"])) else None
    try:
        if assumed is None or not str(target["arn"]).endswith(UPDATE_NODE_GROUP):
            raise CloudError("AccessDeniedException", f"cannot assume the role {target.get('roleArn')}")
        resize(entities, assumed, json.loads(target["input"]))
    except CloudError as error:
        queue = value_at(target, "deadLetterConfig.arn")
        found = next((one for one in entities.of(tokens.QUEUE) if one.outputs.get("arn") == queue), None)
        if assumed and found and allows(entities, assumed, "sqs:SendMessage", str(queue)):
            letter = {
                "ERROR_CODE": error.code,
                "ERROR_MESSAGE": error.message,
                "SCHEDULE_ARN": str(schedule.outputs["arn"]),
            }
            entities.letters.setdefault(found.id, []).append({"body": str(target["input"]), **letter})
    if schedule.inputs.get("actionAfterCompletion") == "DELETE" and "at(" in str(schedule.inputs["scheduleExpression"]):
        entities.remove(schedule)


def resize(entities: Entities, role: Entity | None, asked: dict[str, Any]) -> None:
    """UpdateNodegroupConfig with a new size, by a role or (None) an administrator. Raises CloudError as EKS does."""
    group = entities.get(tokens.NODE_GROUP, f"{asked['ClusterName']}:{asked['NodegroupName']}")
    if group is None:
        raise CloudError("ResourceNotFoundException", f"No node group found for name: {asked['NodegroupName']}.")
    if role is not None and not allows(entities, role, "eks:UpdateNodegroupConfig", str(group.outputs["arn"])):
        who = f"User: {role.outputs['arn']} is not authorized to perform: eks:UpdateNodegroupConfig"
        raise CloudError("AccessDeniedException", who)
    sizes = {f"{key[0].lower()}{key[1:]}": size for key, size in asked["ScalingConfig"].items()}
    before = group.inputs
    after = {**before, "scalingConfig": {**before["scalingConfig"], **sizes}}
    scaling = after["scalingConfig"]
    if not scaling["minSize"] <= scaling["desiredSize"] <= scaling["maxSize"]:
        raise CloudError("InvalidParameterException", "desired capacity must be between minimum and maximum")
    case = Case(entities=entities, type=group.type, name=group.name, inputs=after, id=group.id, entity=group)
    if (refused := refusal(RULES, "update", case)) is not None:
        raise refused[1]
    group.inputs = after
    group.outputs["scalingConfig"] = dict(after["scalingConfig"])
    controllers.updated(entities, group, before)


def _scale(entities: Entities, job: Entity) -> None:
    """Runs a CronJob that scales Deployments of releases, with the permissions of its account."""
    pod = value_at(job.inputs, "spec.jobTemplate.spec.template.spec") or {}
    given = {one["name"]: one["value"] for one in values_at(pod, "containers.env")}
    if "DEPLOYMENTS" not in given:
        return
    allowed = _scalable(entities, job, str(pod.get("serviceAccountName")))
    for name in json.loads(given["DEPLOYMENTS"]):
        release = entities.get(tokens.RELEASE, f"{job.namespace}/{name}")
        if release is not None and name in allowed:
            controllers.rescale(entities, release, int(given["REPLICAS"]))


def _scalable(entities: Entities, job: Entity, account: str) -> set[str]:
    """Deployments that an account may scale."""
    found: set[str] = set()
    for binding in entities.within(job.cluster, tokens.ROLE_BINDING):
        if account in values_at(binding.inputs, "subjects.name") and binding.namespace == job.namespace:
            role = entities.get(tokens.KUBERNETES_ROLE, f"{job.namespace}/{value_at(binding.inputs, 'roleRef.name')}")
            for rule in (role.inputs.get("rules") or ()) if role else ():
                if "deployments/scale" in rule["resources"] and {"get", "patch"} <= {*rule["verbs"]}:
                    found |= {*rule.get("resourceNames", ())}
    return found
