"""EventBridge Scheduler in the emulated cloud: its rules, and its clock."""

import json
from datetime import datetime
from typing import Any

import pytest

from sandbox.world import World, tokens
from tests.sandbox.karpenter_pieces import Karpenter
from tests.sandbox.world_pieces import Account, meta, refused

EKS = "arn:aws:scheduler:::aws-sdk:eks:updateNodegroupConfig"
TRUST = {"Effect": "Allow", "Principal": {"Service": "scheduler.amazonaws.com"}, "Action": "sts:AssumeRole"}
RESIZE = {"ClusterName": "c", "NodegroupName": "gpu"}
PARK = {**RESIZE, "ScalingConfig": {"MinSize": 0, "DesiredSize": 0}}
WAKE = {**RESIZE, "ScalingConfig": {"MinSize": 0, "DesiredSize": 2}}


def policy(*statements: dict[str, Any]) -> str:
    return json.dumps({"Version": "2012-10-17", "Statement": [*statements]})


class Parking:
    """A cluster with a group of GPU nodes, and a schedule group with a queue and a role."""

    def __init__(self, *, may_resize: bool = True, may_send: bool = True) -> None:
        self.account = account = Account()
        account.cluster()
        self.group = account.gpu_nodes(count=1)
        self.schedules = account.make(tokens.SCHEDULE_GROUP, name="nights")
        arn = account.outputs(tokens.SCHEDULE_GROUP, self.schedules)["arn"]
        self.queue = account.make(tokens.QUEUE, name="failures")
        self.queue_arn = account.outputs(tokens.QUEUE, self.queue)["arn"]
        condition = {"StringEquals": {"aws:SourceAccount": arn.split(":")[4]}, "ArnEquals": {"aws:SourceArn": arn}}
        role = account.make(tokens.ROLE, name="s", assumeRolePolicy=policy({**TRUST, "Condition": condition}))
        self.role = account.outputs(tokens.ROLE, role)["arn"]
        groups = self.account.outputs(tokens.NODE_GROUP, self.group)["arn"].rpartition("/")[0] + "/*"
        allowed = [
            *([{"Effect": "Allow", "Action": "eks:UpdateNodegroupConfig", "Resource": [groups]}] if may_resize else []),
            *([{"Effect": "Allow", "Action": "sqs:SendMessage", "Resource": [self.queue_arn]}] if may_send else []),
        ]
        own = account.make(tokens.POLICY, name="p", policy=policy(*allowed))
        account.make(tokens.ATTACHED_POLICY, role=role, policyArn=own)

    def schedule(self, name: str, when: str, call: dict[str, Any] = PARK, **more: Any) -> str:
        target = {
            "arn": EKS,
            "roleArn": self.role,
            "input": json.dumps(call),
            "deadLetterConfig": {"arn": self.queue_arn},
        }
        given = {"groupName": "nights", "name": name, "scheduleExpression": when, "target": target, **more}
        return self.account.make(tokens.SCHEDULE, name, **given)

    def nodes(self) -> int:
        [world] = [self.account.world]
        return sum(
            one.type == tokens.INSTANCE and one.owner == (tokens.NODE_GROUP, self.group) for one in world.entities()
        )

    def at(self, text: str) -> int:
        """Moves the clock; returns the number of nodes then."""
        self.account.world.move_clock(datetime.fromisoformat(text))
        return self.nodes()

    def letters(self) -> list[str]:
        return [one["ERROR_CODE"] for one in self.account.world.letters(self.queue)]


def test_nodes_leave_and_come_back_when_the_clock_reaches_the_schedules() -> None:
    parking = Parking()
    zone: dict[str, Any] = {"scheduleExpressionTimezone": "Europe/Paris"}
    parking.schedule("park", "cron(0 20 ? * MON-FRI *)", **zone)
    parking.schedule("wake", "cron(0 8 ? * MON-FRI *)", WAKE, **zone)
    # 2026-11-23 is a Monday, on which Paris is one hour ahead of UTC.
    assert parking.at("2026-11-23T18:59:00+00:00") == 1
    assert parking.at("2026-11-23T19:00:00+00:00") == 0
    assert parking.at("2026-11-24T06:59:00+00:00") == 0
    assert parking.at("2026-11-24T07:00:00+00:00") == 2
    # Parked on Friday evening, until Monday.
    assert parking.at("2026-11-29T22:00:00+00:00") == 0
    assert parking.at("2026-11-30T07:00:00+00:00") == 2
    sizes = parking.account.outputs(tokens.NODE_GROUP, parking.group)["scalingConfig"]
    assert sizes == {"minSize": 0, "desiredSize": 2, "maxSize": 9}
    assert parking.letters() == []


@pytest.mark.parametrize(
    ("when", "due", "not_due"),
    [
        ("cron(30 9 24 11 ? *)", "2026-11-24T09:30:00+00:00", "2026-11-24T09:29:00+00:00"),
        ("cron(0/15 13 ? * 2 *)", "2026-11-23T13:00:00+00:00", "2026-11-23T12:59:00+00:00"),
        ("cron(5,10 0-1 ? * TUE *)", "2026-11-24T00:05:00+00:00", "2026-11-23T23:59:00+00:00"),
        ("at(2026-11-25T10:00:00)", "2026-11-25T10:00:00+00:00", "2026-11-25T09:59:00+00:00"),
    ],
)
def test_the_clock_reads_expressions_as_eventbridge_does(when: str, due: str, not_due: str) -> None:
    parking = Parking()
    parking.schedule("park", when)
    assert (parking.at(not_due), parking.at(due)) == (1, 0)


@pytest.mark.parametrize("after", ["NONE", "DELETE"])
def test_a_one_time_schedule_is_deleted_afterwards_if_it_says_so(after: str) -> None:
    parking = Parking()
    once = parking.schedule("once", "at(2026-11-23T13:00:00)", actionAfterCompletion=after)
    assert parking.at("2026-11-23T13:00:00+00:00") == 0
    assert (parking.account.world.read(tokens.SCHEDULE, once) is None) == (after == "DELETE")


@pytest.mark.real_world(
    behaviour="A schedule at a time that comes twice because clocks go back runs once",
    source='AWS re:Post Knowledge Center, eventbridge-scheduler-adjust-dst: "your schedule runs only once"',
)
def test_a_time_that_comes_twice_counts_once() -> None:
    parking = Parking()
    parking.at("2027-10-30T12:00:00+00:00")
    parking.schedule("wake", "cron(30 2 31 10 ? *)", WAKE, scheduleExpressionTimezone="Europe/Paris")
    parking.schedule("park", "cron(45 2 31 10 ? *)", scheduleExpressionTimezone="Europe/Paris")
    assert parking.at("2027-10-31T00:30:00+00:00") == 2
    assert parking.at("2027-10-31T00:45:00+00:00") == 0
    assert parking.at("2027-10-31T01:30:00+00:00") == 0


@pytest.mark.real_world(
    behaviour="A schedule whose call is refused leaves a message in the dead-letter queue, if its role may send one",
    source="docs.aws.amazon.com/scheduler/latest/UserGuide/configuring-schedule-dlq.html",
)
@pytest.mark.parametrize(
    ("rights", "letters"),
    [
        ({"may_resize": False}, ["AccessDeniedException"]),
        ({"may_resize": False, "may_send": False}, []),
    ],
)
def test_a_role_without_permission_changes_nothing_and_reports_it(rights: dict[str, bool], letters: list[str]) -> None:
    parking = Parking(**rights)
    parking.schedule("park", "cron(0 20 * * ? *)")
    assert parking.at("2026-11-23T20:00:00+00:00") == 1
    assert parking.letters() == letters


def test_a_degraded_group_and_a_deleted_one_are_reported() -> None:
    parking = Parking()
    parking.schedule("park", "cron(0 20 * * ? *)")
    parking.account.world.reclaim(parking.group)
    parking.at("2026-11-23T20:00:00+00:00")
    parking.account.world.forget(tokens.NODE_GROUP, parking.group)
    parking.at("2026-11-24T20:00:00+00:00")
    assert parking.letters() == ["ResourceInUseException", "ResourceNotFoundException"]
    [first, _] = parking.account.world.letters(parking.queue)
    assert json.loads(first["body"]) == PARK
    assert first["SCHEDULE_ARN"] == "arn:aws:scheduler:us-east-1:123456789012:schedule/nights/park"


def test_a_size_above_the_maximum_is_reported() -> None:
    parking = Parking()
    parking.schedule("wake", "cron(0 20 * * ? *)", {**RESIZE, "ScalingConfig": {"MinSize": 0, "DesiredSize": 10}})
    assert parking.at("2026-11-23T20:00:00+00:00") == 1
    assert parking.letters() == ["InvalidParameterException"]


@pytest.mark.real_world(
    behaviour="The parameters of a universal target are in PascalCase; CreateSchedule refuses others",
    source="docs.aws.amazon.com/scheduler/latest/UserGuide/managing-targets-universal.html",
)
@pytest.mark.parametrize(
    ("rule", "nodes"),
    [
        ({}, 0),
        ({"resources": ["deployments"]}, 1),
        ({"verbs": ["get"]}, 1),
        ({"verbs": ["patch"]}, 1),
        ({"resourceNames": ["other"]}, 1),
    ],
)
def test_a_cron_job_stops_the_model_that_its_account_may_scale_and_karpenter_removes_the_node(
    rule: dict[str, Any], nodes: int
) -> None:
    """RBAC: a rule allows its verbs on its resources, with names on those alone (k8s.io/reference/.../rbac)."""
    account = Karpenter()
    account.node_class()
    account.overlay("2")
    account.pool()
    account.models(1)
    account.make(tokens.SERVICE_ACCOUNT, metadata=meta("nights", namespace="default"))
    small = {
        "apiGroups": ["apps"],
        "resources": ["deployments/scale"],
        "resourceNames": ["m"],
        "verbs": ["get", "patch"],
    }
    account.make(tokens.KUBERNETES_ROLE, metadata=meta("nights", namespace="default"), rules=[{**small, **rule}])
    account.make(
        tokens.ROLE_BINDING,
        metadata=meta("nights", namespace="default"),
        roleRef={"kind": "Role", "name": "nights"},
        subjects=[{"kind": "ServiceAccount", "name": "nights", "namespace": "default"}],
    )
    given = [{"name": "DEPLOYMENTS", "value": '["m"]'}, {"name": "REPLICAS", "value": "0"}]
    pod = {"serviceAccountName": "nights", "containers": [{"name": "scale", "env": given}]}
    spec = {"schedule": "0 20 * * *", "timeZone": "Europe/Paris", "jobTemplate": {"spec": {"template": {"spec": pod}}}}
    account.make(tokens.CRON_JOB, metadata=meta("nights-park", namespace="default"), spec=spec)
    account.world.move_clock(datetime.fromisoformat("2026-11-23T18:59:00+00:00"))
    assert len(account.own) == 1
    account.world.move_clock(datetime.fromisoformat("2026-11-23T19:00:00+00:00"))
    assert len(account.own) == nodes


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


def test_clock_and_messages_are_kept_in_the_file(tmp_path: Any) -> None:
    world = World(tmp_path / "cloud.json")
    world.move_clock(datetime.fromisoformat("2026-12-24T18:00:00+00:00"))
    world._entities.letters["q"] = [{"body": "{}"}]
    world._save()
    world.close()
    again = World(tmp_path / "cloud.json")
    assert (again._entities.now, again.letters("q")) == ("2026-12-24T18:00:00+00:00", [{"body": "{}"}])
    again.close()
