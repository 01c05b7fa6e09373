"""Parks and wakes the node groups of a deployed stack, and reads what its schedules could not do."""

import datetime
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from sharing.names import POOL_LABEL, cluster_name
from tandem.aws import clusters, services
from tandem.aws.clusters import owner_of
from tandem.aws.session import Account, AccountError
from tandem.terminal import FAILED

ACTIVE = "ACTIVE"
SECTION = "Add the section `park` to the stack file and run `pulumi up`."


class NotReadyError(AccountError):
    """A node group may refuse the change."""

    exit_code = FAILED


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolNodes:
    """A node group of a pool, as EKS describes it."""

    pool: str
    cluster: str
    name: str
    status: str
    nodes: int
    """Desired number."""
    most: int
    issues: tuple[str, ...] = ()
    """What EKS reports about its health."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """A call of a schedule that failed for good."""

    at: datetime.datetime
    verb: str
    """`park` or `wake`."""
    group: str
    """Name of the node group."""
    code: str
    message: str


def find_pools(account: Account, stack: str, existing: str | None = None) -> list[PoolNodes]:
    """The node groups of a stack's pools, in its own cluster or in the `existing` one that it uses.

    Raises `AccountError` if it has no cluster in this region.
    """
    cluster, owner = existing or cluster_name(stack), owner_of(account, stack)
    raw = clusters.cluster(account, cluster)
    if raw is None or not (existing or owner.owns(raw.get("tags") or {})):
        raise AccountError(
            f"stack {stack} has no cluster in {account.region} of account {account.id}. Run `pulumi up` first."
        )
    groups = clusters.groups_of_pools(account, cluster)
    return [_pool(raw) for raw in groups if owner.owns(raw.get("tags") or {})]


def _pool(raw: Any) -> PoolNodes:
    issues = (raw.get("health") or {}).get("issues") or []
    return PoolNodes(
        pool=raw["labels"][POOL_LABEL],
        cluster=raw["clusterName"],
        name=raw["nodegroupName"],
        status=raw["status"],
        nodes=raw["scalingConfig"]["desiredSize"],
        most=raw["scalingConfig"]["maxSize"],
        issues=tuple(f"{issue.get('code', '')} ({issue.get('message', '')})" for issue in issues),
    )


def refuse_unready(pools: Sequence[PoolNodes]) -> None:
    """Raises `NotReadyError` for a node group that is not ACTIVE, before any other one is changed."""
    for pool in pools:
        if pool.status != ACTIVE:
            why = f": {'; '.join(pool.issues)}" if pool.issues else ""
            raise NotReadyError(
                f"node group {pool.name} is {pool.status} and may refuse the change{why}. "
                "Check it with `tandem doctor`."
            )


def resize(account: Account, pool: PoolNodes, nodes: int) -> None:
    """Sets the number of nodes; the maximum stays."""
    account.client("eks").update_nodegroup_config(
        clusterName=pool.cluster,
        nodegroupName=pool.name,
        scalingConfig={"minSize": 0, "desiredSize": nodes},
    )


def _schedules(account: Account, stack: str) -> Iterator[Any]:
    """The schedules of the stack."""
    client = account.client("scheduler")
    for group in services.SCHEDULE_GROUPS.find(account, owner_of(account, stack)):
        for page in account.pages("scheduler", "list_schedules", GroupName=group.id):
            for listed in page["Schedules"]:
                yield client.get_schedule(GroupName=group.id, Name=listed["Name"])


def find_failures(account: Account, stack: str) -> list[Failure]:
    """The messages in the stack's dead-letter queues, newest first. They stay in the queue."""
    queues = {schedule["Target"]["DeadLetterConfig"]["Arn"] for schedule in _schedules(account, stack)}
    client = account.client("sqs")
    failures: dict[str, Failure] = {}
    for arn in queues:
        url = client.get_queue_url(QueueName=arn.rpartition(":")[2])["QueueUrl"]
        # Each call returns a sample of at most ten.
        answer = client.receive_message(
            QueueUrl=url,
            MaxNumberOfMessages=10,
            VisibilityTimeout=0,
            AttributeNames=["SentTimestamp"],
            MessageAttributeNames=["All"],
        )
        for message in answer.get("Messages", ()):
            if failure := _failure(message):
                failures[message["MessageId"]] = failure
    return sorted(failures.values(), key=lambda failure: failure.at, reverse=True)


def _failure(message: Any) -> Failure | None:
    """https://docs.aws.amazon.com/scheduler/latest/UserGuide/configuring-schedule-dlq.html

    None for a message that is not the call of a schedule: users may send to the queue, too.
    """
    try:
        call = json.loads(message["Body"])
    except (ValueError, RecursionError):
        return None
    match call:
        case {"NodegroupName": str(group), "ScalingConfig": {"DesiredSize": int(nodes)}}:
            given = {name: value.get("StringValue", "") for name, value in message.get("MessageAttributes", {}).items()}
            sent = int(message["Attributes"]["SentTimestamp"]) / 1000
            return Failure(
                at=datetime.datetime.fromtimestamp(sent, datetime.UTC),
                verb="wake" if nodes else "park",
                group=group,
                code=given.get("ERROR_CODE", ""),
                message=given.get("ERROR_MESSAGE", ""),
            )
    return None
