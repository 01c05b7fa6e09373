"""Kinds of resources outside EC2: EKS, logs, events, schedules, queues, IAM."""

import datetime
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from sharing.aws.partitions import COMMERCIAL, partition_of
from sharing.cost.bill import in_extended_support
from sharing.hardware import prices
from sharing.names import PROJECT
from tandem.aws.clusters import cluster, clusters, there
from tandem.aws.ec2 import gib_day
from tandem.aws.resources import Kind, Owner, Resource, Tags, from_list
from tandem.aws.session import Account, InUseError

DELETING = "DELETING"
LOG_GROUPS = "/aws/eks/"
"""Where EKS writes its logs; the tagging service finds log groups elsewhere."""


TagsOf = Callable[[Account, Resource], Tags | None]


def _id(resource: Resource) -> str:
    return resource.id


def _arn(resource: Resource) -> str:
    return str(resource.raw["Arn"])


def _in_list(answer: Any) -> Tags:
    return from_list(answer["Tags"])


def _tags_by(
    service: str,
    operation: str,
    argument: str,
    value: Callable[[Resource], str],
    read: Callable[[Any], Tags] = _in_list,
) -> TagsOf:
    """The tags in the answer to `operation`, whose argument is the value; None if there is no such resource."""

    def tags(account: Account, resource: Resource) -> Tags | None:
        answer = there(lambda: getattr(account.client(service), operation)(**{argument: value(resource)}))
        return None if answer is None else read(answer)

    return tags


def _find_clusters(account: Account, owner: Owner) -> Iterator[Resource]:
    for name in clusters(account):
        raw = cluster(account, name)
        if raw and owner.owns(raw.get("tags") or {}):
            yield Resource(
                kind=CLUSTERS.title,
                id=name,
                tags=raw["tags"],
                detail=f"Kubernetes {raw['version']}, {raw['status']}",
                usd_per_day=_cluster_day(raw["version"], account.region),
                raw=raw,
                going=raw["status"] == DELETING,
            )


def _cluster_day(version: str, region: str) -> float:
    support = "extended" if in_extended_support(version, datetime.date.today()) else "standard"
    return 24 * prices.service(f"eks-{support}", region).usd_per_hour


def _named(resource: Resource, kind: str) -> dict[str, str]:
    """EKS's arguments for a node group or an add-on."""
    within, _, name = resource.id.partition("/")
    return {"clusterName": within, f"{kind}Name": name}


def _part(account: Account, resource: Resource, kind: str) -> Any:
    answer = there(lambda: getattr(account.client("eks"), f"describe_{kind}")(**_named(resource, kind)))
    return answer and answer[kind]


def _find_parts(account: Account, owner: Owner, kind: str, title: str) -> Iterator[Resource]:
    """Node groups, or add-ons, of every cluster: someone else's cluster may contain a component."""
    for within in clusters(account):
        pages = there(lambda name=within: list(account.pages("eks", f"list_{kind}s", clusterName=name)))  # type: ignore[misc]
        for name in (name for page in pages or () for name in page[f"{kind}s"]):
            probe = Resource(kind=title, id=f"{within}/{name}", tags={})
            raw = _part(account, probe, kind)
            if raw and owner.owns(tags := raw.get("tags") or {}):
                going = raw["status"] == DELETING
                yield Resource(kind=title, id=probe.id, tags=tags, detail=raw["status"], going=going)


def _part_tags(kind: str) -> TagsOf:
    def tags(account: Account, resource: Resource) -> Tags | None:
        raw = _part(account, resource, kind)
        return None if raw is None else raw.get("tags") or {}

    return tags


NODE_GROUPS = Kind(
    title="node groups",
    tagged_as=("eks:nodegroup",),
    find=lambda account, owner: _find_parts(account, owner, "nodegroup", "node groups"),
    tags=_part_tags("nodegroup"),
    delete=lambda account, resource: account.client("eks").delete_nodegroup(**_named(resource, "nodegroup")),
    slow=True,
    note="Their instances are deleted with them.",
)
ADDONS = Kind(
    title="add-ons",
    tagged_as=("eks:addon",),
    find=lambda account, owner: _find_parts(account, owner, "addon", "add-ons"),
    tags=_part_tags("addon"),
    # Its objects are deleted with the cluster: no node remains to clean up on.
    delete=lambda account, resource: account.client("eks").delete_addon(**_named(resource, "addon"), preserve=True),
    slow=True,
)
CLUSTERS = Kind(
    title="EKS clusters",
    tagged_as=("eks:cluster",),
    find=_find_clusters,
    tags=_tags_by("eks", "describe_cluster", "name", _id, lambda answer: answer["cluster"].get("tags") or {}),
    delete=lambda account, resource: account.client("eks").delete_cluster(name=resource.id),
    # Not after add-ons: one that cannot be deleted is deleted with its cluster.
    after=("node groups",),
    slow=True,
)


def _find_logs(account: Account, owner: Owner) -> Iterator[Resource]:
    for page in account.pages("logs", "describe_log_groups", logGroupNamePrefix=LOG_GROUPS):
        for raw in page["logGroups"]:
            resource = Resource(kind="log groups", id=raw["logGroupName"], tags={}, raw=raw)
            if (tags := _log_tags(account, resource)) and owner.owns(tags):
                gigabytes = raw.get("storedBytes", 0) / 1e9
                usd = gib_day("log-storage", gigabytes, account.region)
                yield replace(resource, tags=tags, detail=f"{gigabytes:.2f} GB", usd_per_day=usd)


_log_tags = _tags_by(
    "logs",
    "list_tags_for_resource",
    "resourceArn",
    # The ARN for tags lacks the `:*` that stands for the streams.
    lambda resource: str(resource.raw["arn"].removesuffix(":*")),
    lambda answer: dict(answer["tags"]),
)
LOGS = Kind(
    title="log groups",
    find=_find_logs,
    tags=_log_tags,
    delete=lambda account, resource: account.client("logs").delete_log_group(logGroupName=resource.id),
    # EKS writes to it until the cluster is deleted, and creates it again (terraform-aws-modules/terraform-aws-eks#920).
    after=("EKS clusters",),
)


class Listed(NamedTuple):
    """How a service lists a kind of resource."""

    service: str
    operation: str
    key: str
    id_key: str = ""
    """Empty if the list has only ids."""


def _without_tags(
    title: str,
    listed: Listed,
    *,
    tags: TagsOf,
    detail: str = "",
    asked: Mapping[str, Any] | None = None,
    **how: Any,
) -> Kind:
    """A kind whose list shows no tags; `how`: the other fields of `Kind`."""

    def find(account: Account, owner: Owner) -> Iterator[Resource]:
        for page in account.pages(listed.service, listed.operation, **asked or {}):
            for each in page.get(listed.key, ()):
                raw = each if listed.id_key else {}
                id = raw.get(listed.id_key, each)
                resource = Resource(kind=title, id=id, tags={}, detail=raw.get(detail, ""), raw=raw)
                if (now := tags(account, resource)) and owner.owns(now):
                    yield replace(resource, tags=now)

    return Kind(title=title, find=find, tags=tags, **how)


def _delete_rule(account: Account, resource: Resource) -> None:
    client = account.client("events")
    pages = account.pages("events", "list_targets_by_rule", Rule=resource.id)
    if targets := [target["Id"] for page in pages for target in page["Targets"]]:
        client.remove_targets(Rule=resource.id, Ids=targets)
    client.delete_rule(Name=resource.id)


RULES = _without_tags(
    "EventBridge rules",
    Listed("events", "list_rules", "Rules", "Name"),
    tagged_as=("events:rule",),
    tags=_tags_by("events", "list_tags_for_resource", "ResourceARN", _arn),
    delete=_delete_rule,
)


_listed_tags = _tags_by("scheduler", "list_tags_for_resource", "ResourceArn", _arn)


def _schedule_group_tags(account: Account, resource: Resource) -> Tags | None:
    # Tags alone do not tell whether the group exists.
    if there(lambda: account.client("scheduler").get_schedule_group(Name=resource.id)) is None:
        return None
    return _listed_tags(account, resource)


SCHEDULE_GROUPS = _without_tags(
    "schedule groups",
    Listed("scheduler", "list_schedule_groups", "ScheduleGroups", "Name"),
    tagged_as=("scheduler:schedule-group",),
    tags=_schedule_group_tags,
    delete=lambda account, resource: account.client("scheduler").delete_schedule_group(Name=resource.id),
    # It is DELETING until its last schedule is deleted (API_DeleteScheduleGroup).
    slow=True,
    note="Their schedules are deleted with them.",
)


QUEUES = _without_tags(
    "SQS queues",
    Listed("sqs", "list_queues", "QueueUrls"),
    tagged_as=("sqs:",),
    # SQS returns 1,000 queues and no token for the rest, unless given a number (API_ListQueues).
    asked={"MaxResults": 1000},
    tags=_tags_by("sqs", "list_queue_tags", "QueueUrl", _id, lambda answer: answer.get("Tags", {})),
    delete=lambda account, resource: account.client("sqs").delete_queue(QueueUrl=resource.id),
    # SQS deletes it at any time, and what is sent there is lost (EventBridge User Guide, eb-monitoring;
    # EventBridge Scheduler User Guide, monitoring-cloudwatch).
    after=("EventBridge rules", "schedule groups"),
)


def _find_roles(account: Account, owner: Owner) -> Iterator[Resource]:
    # The one call of IAM that lists roles with their tags: without it, one more call for each role.
    for page in account.pages("iam", "get_account_authorization_details", Filter=["Role"]):
        for raw in page["RoleDetailList"]:
            if owner.owns(tags := from_list(raw.get("Tags"))):
                yield Resource(kind="IAM roles", id=raw["RoleName"], tags=tags)


def _delete_role(account: Account, resource: Resource) -> None:
    client, role = account.client("iam"), {"RoleName": resource.id}
    for page in account.pages("iam", "list_instance_profiles_for_role", **role):
        for profile in page["InstanceProfiles"]:
            # Not ours, or kept: checked before anything is detached from the role.
            raise InUseError(f"the instance profile {profile['InstanceProfileName']} uses it")
    for page in account.pages("iam", "list_attached_role_policies", **role):
        for policy in page["AttachedPolicies"]:
            client.detach_role_policy(**role, PolicyArn=policy["PolicyArn"])
    for page in account.pages("iam", "list_role_policies", **role):
        for name in page["PolicyNames"]:
            client.delete_role_policy(**role, PolicyName=name)
    client.delete_role(**role)


ROLES = Kind(
    title="IAM roles",
    tagged_as=("iam:role",),
    find=_find_roles,
    tags=_tags_by("iam", "get_role", "RoleName", _id, lambda answer: from_list(answer["Role"].get("Tags"))),
    delete=_delete_role,
    # EKS then reports IamNodeRoleNotFound or IamRoleNotFound (eks API_Issue, API_ClusterIssue), and cannot finish.
    # A schedule assumes its role for each call (EventBridge Scheduler User Guide, setting-up).
    after=("node groups", "instances", "EKS clusters", "schedule groups", "instance profiles"),
    shared_service="IAM",
)


def _delete_profile(account: Account, resource: Resource) -> None:
    client, profile = account.client("iam"), {"InstanceProfileName": resource.id}
    # Read again: a second attempt must not remove what the first has removed.
    for role in client.get_instance_profile(**profile)["InstanceProfile"]["Roles"]:
        client.remove_role_from_instance_profile(**profile, RoleName=role["RoleName"])
    client.delete_instance_profile(**profile)


PROFILES = _without_tags(
    "instance profiles",
    Listed("iam", "list_instance_profiles", "InstanceProfiles", "InstanceProfileName"),
    tagged_as=("iam:instance-profile",),
    tags=_tags_by(
        "iam",
        "get_instance_profile",
        "InstanceProfileName",
        _id,
        lambda answer: from_list(answer["InstanceProfile"].get("Tags")),
    ),
    delete=_delete_profile,
    # IAM deletes it at any time, and running instances lose their permissions (API_DeleteInstanceProfile).
    after=("node groups", "instances"),
    shared_service="IAM",
)


def _policy_tags(account: Account, resource: Resource) -> Tags | None:
    pages = there(lambda: list(account.pages("iam", "list_policy_tags", PolicyArn=resource.id)))
    return None if pages is None else from_list(tag for page in pages for tag in page["Tags"])


def _delete_policy(account: Account, resource: Resource) -> None:
    client, policy = account.client("iam"), {"PolicyArn": resource.id}
    if count := client.get_policy(**policy)["Policy"].get("AttachmentCount"):
        raise InUseError(f"it is attached in {count} place{'s' if count > 1 else ''}")
    pages = account.pages("iam", "list_policy_versions", **policy)
    for version in [version for page in pages for version in page["Versions"] if not version["IsDefaultVersion"]]:
        client.delete_policy_version(**policy, VersionId=version["VersionId"])
    client.delete_policy(**policy)


POLICIES = _without_tags(
    "IAM policies",
    Listed("iam", "list_policies", "Policies", "Arn"),
    tagged_as=("iam:policy",),
    asked={"Scope": "Local"},
    detail="PolicyName",
    tags=_policy_tags,
    delete=_delete_policy,
    after=("IAM roles",),
    shared_service="IAM",
)


def _find_budgets(account: Account, owner: Owner) -> Iterator[Resource]:
    if partition_of(account.region) != COMMERCIAL:
        return
    for page in account.pages("budgets", "describe_budgets", AccountId=account.id):
        for raw in page.get("Budgets", ()):
            resource = Resource(kind="budgets", id=raw["BudgetName"], tags={})
            # Tags are one request for each budget; an account can have 20,000 budgets.
            is_candidate = resource.id.startswith(f"{PROJECT}-")
            if is_candidate and owner.owns(_budget_tags(account, resource) or {}):
                yield resource


def _budget_tags(account: Account, resource: Resource) -> Tags | None:
    arn = f"arn:aws:budgets::{account.id}:budget/{resource.id}"
    answer = there(lambda: account.client("budgets").list_tags_for_resource(ResourceARN=arn))
    return None if answer is None else from_list(answer.get("ResourceTags"))


def _delete_budget(account: Account, resource: Resource) -> None:
    account.client("budgets").delete_budget(AccountId=account.id, BudgetName=resource.id)


BUDGETS = Kind(
    title="budgets",
    tagged_as=("budgets:budget",),
    find=_find_budgets,
    tags=_budget_tags,
    delete=_delete_budget,
    shared_service="AWS Budgets",
    # The root user must first let IAM users and roles see billing (AWS Billing user guide, "Overview of managing access
    # permissions"), and a budget without actions is free: without that permission, no cost is missed.
    is_free=True,
)
