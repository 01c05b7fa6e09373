"""AWS permissions of a parking schedule: who may use its role, and what the role allows."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from components.iam import SCHEDULER, Statement, tls_only


@dataclass(frozen=True, kw_only=True)
class Scope:
    """The resources of one schedule group."""

    group_arn: str
    """`arn:PARTITION:scheduler:REGION:ACCOUNT:schedule-group/NAME`, from which partition, region and account are taken.
    """
    queue_arn: str

    @property
    def partition(self) -> str:
        return self._part(1)

    @property
    def account(self) -> str:
        return self._part(4)

    @property
    def update_node_group(self) -> str:
        """The universal target of a schedule: EKS's call, without a Lambda function.

        https://docs.aws.amazon.com/scheduler/latest/UserGuide/managing-targets-universal.html
        """
        return f"arn:{self.partition}:scheduler:::aws-sdk:eks:updateNodegroupConfig"

    def node_group(self, cluster: str, name: str) -> str:
        """Pattern for the ARN of a node group, which ends with an id that EKS generates."""
        return f"arn:{self.partition}:eks:{self._part(3)}:{self.account}:nodegroup/{cluster}/{name}/*"

    def _part(self, index: int) -> str:
        return self.group_arn.split(":")[index]


def trust_statements(scope: Scope) -> list[Statement]:
    """Lets EventBridge Scheduler assume the role, only for schedules of this group.

    `aws:SourceArn` must name a group, never a schedule (EventBridge Scheduler User Guide,
    cross-service-confused-deputy-prevention).
    """
    return [
        {
            "Effect": "Allow",
            "Principal": {"Service": SCHEDULER},
            "Action": "sts:AssumeRole",
            "Condition": {
                "StringEquals": {"aws:SourceAccount": scope.account},
                "ArnEquals": {"aws:SourceArn": scope.group_arn},
            },
        }
    ]


def role_statements(scope: Scope, groups: Sequence[Sequence[str]]) -> list[Statement]:
    """Lets the role resize these node groups (cluster and name of each), and send what failed to the queue."""
    return [
        _allow("ResizeNodeGroups", "eks:UpdateNodegroupConfig", [scope.node_group(*group) for group in groups]),
        _allow("KeepFailures", "sqs:SendMessage", [scope.queue_arn]),
    ]


def queue_statements(scope: Scope, role_arn: str) -> list[Statement]:
    """The queue's policy: only the role can send messages, and only over TLS.

    The sender is the role, not the service: EventBridge Scheduler User Guide, configuring-schedule-dlq, "Set up
    execution role permissions". So conditions on the source are in the role's trust policy.
    """
    send = _allow("KeepFailures", "sqs:SendMessage", [scope.queue_arn])
    return [{**send, "Principal": {"AWS": role_arn}}, tls_only(scope.queue_arn)]


def _allow(sid: str, action: str, resources: list[str]) -> dict[str, Any]:
    return {"Sid": sid, "Effect": "Allow", "Action": action, "Resource": resources}
