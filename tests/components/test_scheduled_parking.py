"""ScheduledParking: its schedules, its permissions and its CronJobs."""

import json

import pulumi
import pytest

from components import ParkedNodeGroup, ScheduledParking, ScheduledParkingArgs
from components.scheduled_parking import RETRY_SECONDS
from components.scheduled_parking.cron_jobs import LATE_SECONDS
from components.scheduled_parking.permissions import Scope, queue_statements, role_statements, trust_statements
from sandbox.graph import plain
from sandbox.preview.program import run
from sharing.schedule.week import SHORTEST_MINUTES

GROUP = "arn:aws-us-gov:scheduler:us-gov-west-1:111122223333:schedule-group/nights"
QUEUE = "arn:aws-us-gov:sqs:us-gov-west-1:111122223333:failures"
SCOPE = Scope(group_arn=GROUP, queue_arn=QUEUE)


def test_no_late_call_and_no_late_job_can_undo_the_next_one() -> None:
    assert max(RETRY_SECONDS, LATE_SECONDS) < SHORTEST_MINUTES * 60


@pytest.mark.real_world(
    behaviour="A schedule calls EKS itself, with parameters in PascalCase, and without a maximum EKS keeps it",
    source="docs.aws.amazon.com/scheduler/latest/UserGuide/managing-targets-universal.html; "
    "docs.aws.amazon.com/eks/latest/APIReference/API_UpdateNodegroupConfig.html",
)
def test_each_node_group_has_a_schedule_that_removes_its_nodes_and_one_that_brings_them_back() -> None:
    groups = {
        name: ParkedNodeGroup(cluster_name=pulumi.Output.from_input("c"), node_group_name=f"{name}-7", nodes=count)
        for name, count in (("gpu", 1), ("big", 2))
    }
    args = ScheduledParkingArgs(schedule="0 20 * * MON-FRI", wake="30 8 1 * *", node_groups=groups)
    graph = run(lambda: ScheduledParking("nights", args), project="test", stack="test")
    found = {one.name: plain(one.inputs) for one in graph.of_type("aws:scheduler/schedule:Schedule")}
    assert {name: json.loads(one["target"]["input"]) for name, one in found.items()} == {
        f"nights-{pool}-{verb}": {
            "ClusterName": "c",
            "NodegroupName": f"{pool}-7",
            "ScalingConfig": {"MinSize": 0, "DesiredSize": size},
        }
        for pool, verb, size in (("gpu", "park", 0), ("gpu", "wake", 1), ("big", "park", 0), ("big", "wake", 2))
    }
    # Weekdays as names: EventBridge's numbers begin with 1 for Sunday.
    assert found["nights-gpu-park"]["scheduleExpression"] == "cron(0 20 ? * MON-FRI *)"
    for one in found.values():
        assert one["target"]["arn"] == "arn:aws:scheduler:::aws-sdk:eks:updateNodegroupConfig"


@pytest.mark.real_world(
    behaviour="EventBridge Scheduler assumes a role for the schedules of one group if the role trusts the group's ARN",
    source="docs.aws.amazon.com/scheduler/latest/UserGuide/cross-service-confused-deputy-prevention.html",
)
def test_the_role_serves_schedules_of_this_group_only() -> None:
    [statement] = trust_statements(SCOPE)
    assert statement == {
        "Effect": "Allow",
        "Principal": {"Service": "scheduler.amazonaws.com"},
        "Action": "sts:AssumeRole",
        "Condition": {
            "StringEquals": {"aws:SourceAccount": "111122223333"},
            "ArnEquals": {"aws:SourceArn": GROUP},
        },
    }


def test_the_role_may_resize_these_node_groups_and_report_failures_and_nothing_else() -> None:
    statements = role_statements(SCOPE, [["c", "gpu-7"], ["c", "big-7"]])
    allowed = {(one["Effect"], one["Action"], resource) for one in statements for resource in one["Resource"]}
    assert allowed == {
        ("Allow", "eks:UpdateNodegroupConfig", "arn:aws-us-gov:eks:us-gov-west-1:111122223333:nodegroup/c/gpu-7/*"),
        ("Allow", "eks:UpdateNodegroupConfig", "arn:aws-us-gov:eks:us-gov-west-1:111122223333:nodegroup/c/big-7/*"),
        ("Allow", "sqs:SendMessage", QUEUE),
    }
    assert len({one["Sid"] for one in statements}) == len(statements) == 2
    assert SCOPE.update_node_group == "arn:aws-us-gov:scheduler:::aws-sdk:eks:updateNodegroupConfig"


def test_only_the_role_can_send_to_the_queue_and_only_over_tls() -> None:
    send, deny = queue_statements(SCOPE, "arn:aws-us-gov:iam::111122223333:role/r")
    assert (send["Effect"], send["Action"], send["Resource"]) == ("Allow", "sqs:SendMessage", [QUEUE])
    assert send["Principal"] == {"AWS": "arn:aws-us-gov:iam::111122223333:role/r"}
    assert (deny["Effect"], deny["Principal"], deny["Action"], deny["Resource"]) == ("Deny", "*", "sqs:*", QUEUE)
    assert deny["Condition"] == {"Bool": {"aws:SecureTransport": "false"}}
