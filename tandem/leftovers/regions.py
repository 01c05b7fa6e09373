"""Where a stack may be running: in this region, before a deletion, and in every region of the account."""

from collections.abc import Callable, Iterator
from dataclasses import replace

from tandem.aws import clusters, services
from tandem.aws.resources import Owner
from tandem.aws.session import Account, explain
from tandem.leftovers.inventory import Inventory


def standing(account: Account, inventory: Inventory) -> list[str]:
    """Signs that `destroy` has not run: clusters with nodes, clusters being created, node groups in a cluster of
    another owner, and lists that AWS refused."""
    # Without these two, tandem cannot know whether a stack is running.
    proofs = (services.CLUSTERS.title, services.NODE_GROUPS.title)
    signs = [f"{title} could not be listed" for title in proofs if title in inventory.unseen]
    of_the_stack = [resource for resource in inventory.resources if resource.kind == services.CLUSTERS.title]
    for cluster in of_the_stack:
        status, count = cluster.raw["status"], len(clusters.node_groups(account, cluster.id))
        if status in ("CREATING", "PENDING") or (count and status in ("ACTIVE", "UPDATING")):
            signs.append(f"{cluster.id} is {status} with {count} node group{'' if count == 1 else 's'}")
    own = {cluster.id for cluster in of_the_stack}
    groups = [resource for resource in inventory.resources if resource.kind == services.NODE_GROUPS.title]
    # Programs may use the components in a cluster of their own, which has no tags of the stack. A group in any state
    # can have instances: "launched instances are unable to register" (botocore, eks, Issue.code).
    foreign = [group for group in groups if group.id.partition("/")[0] not in own]
    return [*signs, *(f"the node group {group.id} is {group.detail}" for group in foreign)]


def holding(account: Account, owner: Owner, progress: Callable[[str], None]) -> list[str]:
    """Why the stack may be running: its clusters and node groups in all regions, and regions without an answer."""
    try:
        # Without AllRegions: those enabled in the account (API_DescribeRegions).
        answer = account.client("ec2").describe_regions()
        names = sorted({account.region, *(region["RegionName"] for region in answer["Regions"])})
    except Exception as error:
        return [f"its regions could not be listed: {explain(error, account.region)}"]
    signs = []
    for name in names:
        progress(f"Looking for the stack in {name}")
        try:
            signs += list(_of_the_stack(replace(account, region=name), owner))
        except Exception as error:
            signs.append(f"{name} could not be searched: {explain(error, name)}")
    return signs


def _of_the_stack(account: Account, owner: Owner) -> Iterator[str]:
    for name in clusters.clusters(account):
        raw = clusters.cluster(account, name)
        # A cluster of that name counts whatever its tags: what Karpenter made is known by the name alone.
        if raw and (name == owner.cluster or owner.owns(raw.get("tags") or {})):
            yield f"the EKS cluster {name} in {account.region} is {raw['status']}"
    for group in services.NODE_GROUPS.find(account, owner):
        yield f"the node group {group.id} in {account.region} is {group.detail}"
