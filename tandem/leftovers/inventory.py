"""Leftovers of a stack in the account, and their cost per day."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from botocore.exceptions import ClientError

from tandem.aws import ec2, services
from tandem.aws.clusters import owner_by_tags, owner_of
from tandem.aws.resources import Kind, Owner, Resource, from_list
from tandem.aws.session import DENIED, Account, code, reason

KINDS: tuple[Kind, ...] = (
    services.NODE_GROUPS,
    ec2.INSTANCES,
    services.ADDONS,
    services.CLUSTERS,
    ec2.LAUNCH_TEMPLATES,
    ec2.ENDPOINTS,
    ec2.INTERFACES,
    ec2.NAT_GATEWAYS,
    ec2.ADDRESSES,
    ec2.SNAPSHOTS,
    ec2.VOLUMES,
    ec2.SECURITY_GROUPS,
    ec2.ROUTE_TABLES,
    ec2.SUBNETS,
    ec2.INTERNET_GATEWAYS,
    ec2.VPCS,
    services.LOGS,
    services.RULES,
    services.SCHEDULE_GROUPS,
    services.QUEUES,
    services.PROFILES,
    services.ROLES,
    services.POLICIES,
    services.BUDGETS,
)
"""Every kind that tandem deletes, in dependency order: `Kind.after` names the kinds to delete before it."""
OTHER = "other"
OF_A_CLUSTER = ("eks:access-entry", "eks:podidentityassociation")
"""Kinds that do not exist without their cluster. A component may have created one in a cluster of another owner."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Inventory:
    """Everything found of the stack."""

    owner: Owner
    resources: tuple[Resource, ...]
    """Most expensive first."""
    unseen: Mapping[str, str]
    """Kinds that could not be listed, by title, and why."""

    @property
    def usd_per_day(self) -> float:
        """Dollars per day, of known prices."""
        return sum(resource.usd_per_day or 0.0 for resource in self.resources)

    @property
    def may_have_unseen_costs(self) -> bool:
        """Whether a kind that costs money could not be listed."""
        return not {kind.title for kind in KINDS if kind.is_free} >= self.unseen.keys()


def take_inventory(account: Account, stack: str) -> Inventory:
    """Asks every service. `unseen` names those that deny access; the search continues with the others.

    Any other error ends the search, so that nothing is deleted on incomplete facts.
    """
    unseen: dict[str, str] = {}
    resources: list[Resource] = []
    try:
        owner = owner_of(account, stack)
    except ClientError as error:
        if code(error) not in DENIED:
            raise
        # The owner of the cluster with this name is unknown, so the name proves nothing. What Karpenter and EKS made is
        # known by that name alone, so some of it may be left.
        owner = owner_by_tags(account, stack)
        unseen[services.CLUSTERS.title] = reason(error, account.region)
    for title, find in [*((kind.title, kind.find) for kind in KINDS), (OTHER, _others)]:
        try:
            resources += find(account, owner)
        except ClientError as error:
            if code(error) not in DENIED:
                raise
            unseen[title] = reason(error, account.region)
    expensive_first = sorted(resources, key=lambda resource: -_weight(resource))
    return Inventory(owner=owner, resources=tuple(expensive_first), unseen=unseen)


def _weight(resource: Resource) -> float:
    """Cost for sorting; a resource of unknown price may be expensive, so it precedes the free ones."""
    return 0.000001 if resource.usd_per_day is None else resource.usd_per_day


def _others(account: Account, owner: Owner) -> Iterator[Resource]:
    """Tagged resources of other kinds, from AWS's tagging service, and EKS's own log group."""
    filters = [{"Key": key, "Values": [value]} for key, value in owner.own_tags.items()]
    for page in account.pages("resourcegroupstaggingapi", "get_resources", TagFilters=filters):
        for raw in page["ResourceTagMappingList"]:
            arn, tags = raw["ResourceARN"], from_list(raw.get("Tags"))
            if not _is_found_elsewhere(arn, owner) and owner.owns(tags):
                yield Resource(kind=OTHER, id=arn, tags=tags, detail="found by the tagging service", usd_per_day=None)
    if not owner.by_cluster:
        return
    name = f"{services.LOG_GROUPS}{owner.cluster}/cluster"
    for page in account.pages("logs", "describe_log_groups", logGroupNamePrefix=name):
        for raw in page["logGroups"]:
            if raw["logGroupName"] == name and not services.LOGS.tags(
                account, Resource(kind=OTHER, id=name, tags={}, raw=raw)
            ):
                command = f"created by EKS without tags; run `aws logs delete-log-group --log-group-name {name}`"
                yield Resource(kind=OTHER, id=name, tags={}, detail=command)


def _is_found_elsewhere(arn: str, owner: Owner) -> bool:
    """Whether a kind of ours finds it, or it is deleted with the stack's own cluster."""
    type = _type(arn)
    if type in OF_A_CLUSTER and arn.split("/")[1] == owner.cluster:
        return True
    # The tagging service's answers lag behind those of the kinds' own services.
    return any(type in kind.tagged_as for kind in KINDS) or f":log-group:{services.LOG_GROUPS}" in arn


def _type(arn: str) -> str:
    """`ec2:volume` for `arn:aws:ec2:us-east-1:123456789012:volume/vol-1`; `sqs:` if the name has no type."""
    parts = arn.split(":")
    kind = parts[5].partition("/")[0] if "/" in parts[5] else ""
    return f"{parts[2]}:{kind}"


def as_dict(inventory: Inventory, account: Account) -> dict[str, Any]:
    """The inventory as JSON."""
    return {
        "schema_version": 1,
        "stack": inventory.owner.stack,
        "account": account.id,
        "region": account.region,
        "usd_per_day": round(inventory.usd_per_day, 4),
        "left": [
            {
                "kind": resource.kind,
                "id": resource.id,
                "name": resource.name,
                "detail": resource.detail,
                "usd_per_day": None if resource.usd_per_day is None else round(resource.usd_per_day, 4),
            }
            for resource in inventory.resources
        ],
        "unseen": [f"{title}: {why}" for title, why in inventory.unseen.items()],
    }
