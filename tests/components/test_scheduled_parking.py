"""ScheduledParking: its schedules, its permissions and its CronJobs."""

import json
from typing import Any

import pulumi
import pytest

from components import ParkedNodeGroup, ScheduledParking, ScheduledParkingArgs
from components.iam import document
from components.scheduled_parking import RETRY_SECONDS
from components.scheduled_parking.cron_jobs import LATE_SECONDS
from components.scheduled_parking.permissions import Scope, queue_statements, role_statements, trust_statements
from sandbox.graph import Graph, plain
from sandbox.preview.program import run
from sharing.schedule.week import SHORTEST_MINUTES

SCHEDULE = "aws:scheduler/schedule:Schedule"
GROUP = "arn:aws-us-gov:scheduler:us-gov-west-1:111122223333:schedule-group/nights"
QUEUE = "arn:aws-us-gov:sqs:us-gov-west-1:111122223333:failures"
SCOPE = Scope(group_arn=GROUP, queue_arn=QUEUE)
TIMES = {"schedule": "0 20 * * MON-FRI", "wake": "30 8 1 * *", "timezone": "Europe/Paris"}


def built(**more: Any) -> Graph:
    args = ScheduledParkingArgs(**{**TIMES, **more})
    return run(lambda: ScheduledParking("nights", args), project="test", stack="test")


def test_no_late_call_and_no_late_job_can_undo_the_next_one() -> None:
    assert max(RETRY_SECONDS, LATE_SECONDS) < SHORTEST_MINUTES * 60


def node_groups(**nodes: int) -> dict[str, ParkedNodeGroup]:
    return {
        name: ParkedNodeGroup(cluster_name=pulumi.Output.from_input("c"), node_group_name=f"{name}-7", nodes=count)
        for name, count in nodes.items()
    }


@pytest.mark.real_world(
    behaviour="A schedule calls EKS itself, with parameters in PascalCase, and without a maximum EKS keeps it",
    source="docs.aws.amazon.com/scheduler/latest/UserGuide/managing-targets-universal.html; "
    "docs.aws.amazon.com/eks/latest/APIReference/API_UpdateNodegroupConfig.html",
)
def test_each_node_group_has_a_schedule_that_removes_its_nodes_and_one_that_brings_them_back() -> None:
    graph = built(node_groups=node_groups(gpu=1, big=2))
    found = {one.name: plain(one.inputs) for one in graph.of_type(SCHEDULE)}
    calls = {name: json.loads(one["target"]["input"]) for name, one in found.items()}
    assert calls == {
        f"nights-{pool}-{verb}": {
            "ClusterName": "c",
            "NodegroupName": f"{pool}-7",
            "ScalingConfig": {"MinSize": 0, "DesiredSize": size},
        }
        for pool, verb, size in (("gpu", "park", 0), ("gpu", "wake", 1), ("big", "park", 0), ("big", "wake", 2))
    }
    # Weekdays as names: EventBridge's numbers begin with 1 for Sunday.
    assert found["nights-gpu-park"]["scheduleExpression"] == "cron(0 20 ? * MON-FRI *)"
    assert found["nights-gpu-wake"]["scheduleExpression"] == "cron(30 8 1 * ? *)"
    for one in found.values():
        assert one["scheduleExpressionTimezone"] == "Europe/Paris"
        assert one["flexibleTimeWindow"] == {"mode": "OFF"}
        assert one["target"]["arn"] == "arn:aws:scheduler:::aws-sdk:eks:updateNodegroupConfig"
        assert one["target"]["retryPolicy"] == {"maximumEventAgeInSeconds": 1500}
        assert one["target"]["deadLetterConfig"]["arn"].startswith("arn:aws:sqs:us-east-1:123456789012:nights-failures")
        assert one["groupName"].startswith("nights-schedules")
    assert not graph.of_type("kubernetes:batch/v1:CronJob")


def test_schedules_wait_for_the_permissions_of_their_role() -> None:
    graph = built(node_groups=node_groups(gpu=1))
    for schedule in graph.of_type(SCHEDULE):
        needs = {urn.rpartition("::")[2] for urn in schedule.dependencies}
        assert {"nights-scheduler-policy-attached", "nights-failures-policy"} <= needs


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


def test_the_policies_of_role_and_queue_are_those_statements() -> None:
    graph = built(node_groups=node_groups(gpu=1, big=2))
    [role] = graph.of_type("aws:iam/role:Role")
    [policy] = graph.of_type("aws:iam/policy:Policy")
    trusted = json.loads(plain(role.inputs)["assumeRolePolicy"])["Statement"][0]
    name = trusted["Condition"]["ArnEquals"]["aws:SourceArn"]
    scope = Scope(group_arn=name, queue_arn=json.loads(plain(policy.inputs)["policy"])["Statement"][1]["Resource"][0])
    assert name.startswith("arn:aws:scheduler:us-east-1:123456789012:schedule-group/nights-schedules")
    assert plain(policy.inputs)["policy"] == document(role_statements(scope, [["c", "gpu-7"], ["c", "big-7"]]))


def test_deployments_are_scaled_by_cron_jobs_with_a_time_zone_and_one_small_role() -> None:
    graph = built(deployments=["a", "b"], namespace="models")
    jobs = {one.name: plain(one.inputs)["spec"] for one in graph.of_type("kubernetes:batch/v1:CronJob")}
    assert jobs["nights-wake"]["schedule"] == "30 8 1 * *"
    assert {name: (one["timeZone"], one["concurrencyPolicy"]) for name, one in jobs.items()} == {
        "nights-park": ("Europe/Paris", "Forbid"),
        "nights-wake": ("Europe/Paris", "Forbid"),
    }
    for name, replicas in (("nights-park", "0"), ("nights-wake", "1")):
        pod = jobs[name]["jobTemplate"]["spec"]["template"]["spec"]
        [container] = pod["containers"]
        given = {one["name"]: one["value"] for one in container["env"]}
        assert given == {
            "DEPLOYMENTS": '["a", "b"]',
            "REPLICAS": replicas,
            "NAMESPACE": "models",
            "API_SERVER": "https://kubernetes.default.svc",
            "CREDENTIALS": "/var/run/secrets/kubernetes.io/serviceaccount",
        }
        assert (pod["serviceAccountName"], pod["automountServiceAccountToken"]) == ("nights", True)
        assert "tolerations" not in pod, "it runs on a system node"
        assert pod["securityContext"]["runAsNonRoot"] is True
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "readOnlyRootFilesystem": True,
        }
    [role] = graph.of_type("kubernetes:rbac.authorization.k8s.io/v1:Role")
    assert plain(role.inputs)["rules"] == [
        {
            "apiGroups": ["apps"],
            "resources": ["deployments/scale"],
            "resourceNames": ["a", "b"],
            "verbs": ["get", "patch"],
        }
    ]
    assert [one.type for one in graph if one.type.startswith("aws:")] == []
