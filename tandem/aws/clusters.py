"""The EKS clusters of an account, and which stack one belongs to."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from sharing import names
from tandem.aws.resources import Owner
from tandem.aws.session import Account, code

GONE = (
    "ResourceNotFoundException",
    "NotFoundException",
    "NoSuchEntity",
    "QueueDoesNotExist",
    "AWS.SimpleQueueService.NonExistentQueue",
)


def clusters(account: Account) -> Iterator[str]:
    """Names of all EKS clusters in the region."""
    for page in account.pages("eks", "list_clusters"):
        yield from page["clusters"]


def there(ask: Callable[[], Any]) -> Any:
    """The answer, or None if AWS reports that the resource does not exist."""
    try:
        return ask()
    except Exception as error:
        if code(error) in GONE:
            return None
        raise


def cluster(account: Account, name: str) -> Any:
    """EKS's description of the cluster; None if it does not exist."""
    answer = there(lambda: account.client("eks").describe_cluster(name=name))
    return answer and answer["cluster"]


def node_groups(account: Account, name: str) -> list[str]:
    """Names of the cluster's node groups."""
    pages = there(lambda: list(account.pages("eks", "list_nodegroups", clusterName=name)))
    return [group for page in pages or () for group in page["nodegroups"]]


def groups_of_pools(account: Account, name: str) -> Iterator[Any]:
    """EKS's descriptions of the cluster's node groups that belong to a pool."""
    for group in node_groups(account, name):
        answer = account.client("eks").describe_nodegroup(clusterName=name, nodegroupName=group)
        if names.POOL_LABEL in (answer["nodegroup"].get("labels") or {}):
            yield answer["nodegroup"]


def owner_of(account: Account, stack: str) -> Owner:
    """The stack as this account knows it."""
    owner = owner_by_tags(account, stack)
    raw = cluster(account, owner.cluster)
    return replace(owner, by_cluster=raw is None or owner.owns(raw.get("tags") or {}))


def owner_by_tags(account: Account, stack: str) -> Owner:
    """The stack by its tags alone."""
    name = names.cluster_name(stack)
    return Owner(stack=stack, own_tags=names.own_tags(stack), cluster=name, region=account.region, by_cluster=False)
