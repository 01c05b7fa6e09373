"""Rules of EventBridge Scheduler in the emulated cloud."""

import json
from typing import Any

import pytest

from sandbox.world import tokens
from tests.sandbox.world_pieces import Account, refused

EKS = "arn:aws:scheduler:::aws-sdk:eks:updateNodegroupConfig"
TRUST = {"Effect": "Allow", "Principal": {"Service": "scheduler.amazonaws.com"}, "Action": "sts:AssumeRole"}
RESIZE = {"ClusterName": "c", "NodegroupName": "gpu"}
PARK = {**RESIZE, "ScalingConfig": {"MinSize": 0, "DesiredSize": 0}}


def policy(*statements: dict[str, Any]) -> str:
    return json.dumps({"Version": "2012-10-17", "Statement": [*statements]})


class Parking:
    """A schedule group with a role."""

    def __init__(self) -> None:
        self.account = account = Account()
        self.schedules = account.make(tokens.SCHEDULE_GROUP, name="nights")
        arn = account.outputs(tokens.SCHEDULE_GROUP, self.schedules)["arn"]
        condition = {"StringEquals": {"aws:SourceAccount": arn.split(":")[4]}, "ArnEquals": {"aws:SourceArn": arn}}
        role = account.make(tokens.ROLE, name="s", assumeRolePolicy=policy({**TRUST, "Condition": condition}))
        self.role = account.outputs(tokens.ROLE, role)["arn"]

    def schedule(self, name: str, when: str, call: dict[str, Any] = PARK, **more: Any) -> str:
        target = {"arn": EKS, "roleArn": self.role, "input": json.dumps(call)}
        given = {"groupName": "nights", "name": name, "scheduleExpression": when, "target": target, **more}
        return self.account.make(tokens.SCHEDULE, name, **given)


@pytest.mark.real_world(
    behaviour="The parameters of a universal target are in PascalCase; CreateSchedule refuses others",
    source="docs.aws.amazon.com/scheduler/latest/UserGuide/managing-targets-universal.html",
)
def test_parameters_in_camel_case_are_refused() -> None:
    with refused("ValidationException", "ClusterName, NodegroupName"):
        Parking().schedule("park", "cron(0 20 * * ? *)", {"clusterName": "c", "nodegroupName": "gpu"})


@pytest.mark.parametrize(
    "text", ["0 20 * * ?", "cron(0 20 * * ?)", "cron(0 20 * * * *)", "cron(0 20 ? * ? *)", "at(noon)"]
)
def test_an_invalid_expression_is_refused(text: str) -> None:
    with refused("ValidationException", "Invalid Schedule Expression"):
        Parking().schedule("park", text)


def test_a_schedule_needs_its_group_and_a_role_that_trusts_the_group() -> None:
    parking = Parking()
    with refused("ResourceNotFoundException", "days"):
        parking.schedule("park", "cron(0 20 * * ? *)", groupName="days")
    parking.account.make(tokens.SCHEDULE_GROUP, name="days")
    with refused("ValidationException", "assume the role"):
        parking.schedule("park", "cron(0 20 * * ? *)", groupName="days")
    parking.role = parking.role.replace("role/s", "role/t")
    with refused("ValidationException", "assume the role"):
        parking.schedule("park", "cron(0 20 * * ? *)")


def test_names_of_groups_and_of_schedules_in_a_group_are_unique() -> None:
    parking = Parking()
    parking.schedule("park", "cron(0 20 * * ? *)")
    with refused("ConflictException", "park"):
        parking.schedule("park", "cron(0 21 * * ? *)")
    with refused("ConflictException", "nights"):
        parking.account.make(tokens.SCHEDULE_GROUP, name="nights")


def test_a_group_is_deleted_with_its_schedules() -> None:
    parking = Parking()
    kept = parking.schedule("park", "cron(0 20 * * ? *)")
    parking.account.drop(tokens.SCHEDULE_GROUP, parking.schedules)
    assert parking.account.world.read(tokens.SCHEDULE, kept) is None
