"""Kinds of resources in EC2: instances with their parts, and the network."""

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any, NamedTuple

from sharing.cost.bill import HOURS_PER_MONTH
from sharing.hardware import prices
from sharing.hardware.gpus import instance_types
from sharing.hardware.system_instances import system_types
from tandem.aws.clusters import there
from tandem.aws.resources import Kind, Owner, Resource, Tags, from_list
from tandem.aws.session import Account, AccountError, InUseError, code

DELETED = ("terminated", "deleted")
GOING = ("shutting-down", "deleting")
NODE_GROUP_TAG = "eks:nodegroup-name"
EKS_CLUSTER_TAG = "eks:cluster-name"
MONTHLY = {"gp3": "ebs-gp3", "gp2": "ebs-gp2"}
"""Volume types with a known price per gigabyte and month."""

Raw = Mapping[str, Any]


class Listed(NamedTuple):
    """How EC2 lists a kind of resource."""

    operation: str
    key: str
    id_key: str


def _find(
    account: Account,
    owner: Owner,
    *,
    title: str,
    listed: Listed,
    detail: Callable[[Raw], str],
    price: Callable[[Raw, str], float | None],
    more: Mapping[str, Any],
) -> Iterator[Resource]:
    seen = set()
    for tag, value in owner.identifying:
        filters = [{"Name": f"tag:{tag}", "Values": [value]}]
        for raw in _each(account, listed, Filters=filters, **more):
            tags, id = _tags_of(raw), raw[listed.id_key]
            if id not in seen and owner.owns(tags) and not _is_deleted(raw):
                seen.add(id)
                yield Resource(
                    kind=title,
                    id=id,
                    tags=tags,
                    detail=detail(raw),
                    usd_per_day=price(raw, account.region),
                    going=_state(raw) in GOING,
                )


def _each(account: Account, listed: Listed, **arguments: Any) -> Iterator[Raw]:
    for page in account.pages("ec2", listed.operation, **arguments):
        # Instances come in reservations.
        for raw in page[listed.key]:
            yield from raw["Instances"] if listed.key == "Reservations" else (raw,)


def _state(raw: Raw) -> str:
    state = raw.get("State", "")
    # EC2's model writes the states of endpoints with a capital letter, its answers without.
    return str(state["Name"] if isinstance(state, Mapping) else state).lower()


def _is_deleted(raw: Raw) -> bool:
    # A NAT gateway that could not be created goes within the hour (userguide/nat-gateway-troubleshooting.html);
    # an endpoint that could not be created stays.
    return _state(raw) in DELETED or (_state(raw) == "failed" and "NatGatewayId" in raw)


def _tags_of(raw: Raw) -> dict[str, str]:
    return from_list(raw.get("Tags") or raw.get("TagSet"))


def _kind(
    title: str,
    noun: str,
    listed: Listed | None = None,
    delete: Callable[[Account, Resource], None] | None = None,
    *,
    detail: Callable[[Raw], str] = lambda raw: "",
    price: Callable[[Raw, str], float | None] = lambda raw, region: 0.0,
    more: Mapping[str, Any] | None = None,
    **how: Any,
) -> Kind:
    """A kind that EC2 lists, tags and deletes by `noun`, except where given; `how`: the other fields of `Kind`."""
    listed = listed or _listed(noun)
    how.setdefault("tagged_as", (f"ec2:{noun.replace('_', '-')}",))
    return Kind(
        title=title,
        find=partial(_find, title=title, listed=listed, detail=detail, price=price, more=more or {}),
        tags=partial(_tags, listed=listed),
        delete=delete or _call(f"delete_{noun}", listed.id_key),
        **how,
    )


def _listed(noun: str) -> Listed:
    """By the names of most kinds, e.g. `describe_route_tables`, `RouteTables` and `RouteTableId` for `route_table`."""
    name = "".join(map(str.capitalize, noun.split("_")))
    return Listed(f"describe_{noun}s", f"{name}s", f"{name}Id")


def _tags(account: Account, resource: Resource, listed: Listed) -> Tags | None:
    raw = _look(account, resource, listed)
    return None if raw is None else _tags_of(raw)


def _look(account: Account, resource: Resource, listed: Listed) -> Raw | None:
    """Asks by id, not by a tag: so that tags and existence are both current."""
    try:
        there = list(_each(account, listed, **{f"{listed.id_key}s": [resource.id]}))
    except Exception as error:
        if "NotFound" in code(error):
            return None
        raise
    return next((raw for raw in there if raw[listed.id_key] == resource.id and not _is_deleted(raw)), None)


def _call(operation: str, argument: str) -> Callable[[Account, Resource], None]:
    """A deletion that is one call with the id, or with a list of it."""

    def delete(account: Account, resource: Resource) -> None:
        given = [resource.id] if argument.endswith("Ids") else resource.id
        answer = getattr(account.client("ec2"), operation)(**{argument: given})
        # Some calls fail without an exception.
        for failed in answer.get("Unsuccessful", ()):
            raise AccountError(failed["Error"].get("Message") or failed["Error"].get("Code", "AWS did not comply"))

    return delete


def _terminate(account: Account, resource: Resource) -> None:
    group = resource.tags.get(NODE_GROUP_TAG)
    cluster = resource.tags.get(EKS_CLUSTER_TAG, "")
    eks = account.client("eks")
    if group and there(lambda: eks.describe_nodegroup(clusterName=cluster, nodegroupName=group)):
        raise InUseError(f"its node group {group} would replace it. Delete that group first.")
    account.client("ec2").terminate_instances(InstanceIds=[resource.id])


# These two read the attachments again: a second attempt must not detach what the first has detached.
def _delete_route_table(account: Account, resource: Resource) -> None:
    client = account.client("ec2")
    now = _look(account, resource, _listed("route_table")) or {}
    for association in now.get("Associations", ()):
        if not association.get("Main"):
            client.disassociate_route_table(AssociationId=association["RouteTableAssociationId"])
    client.delete_route_table(RouteTableId=resource.id)


def _delete_gateway(account: Account, resource: Resource) -> None:
    client = account.client("ec2")
    now = _look(account, resource, _listed("internet_gateway")) or {}
    for attachment in now.get("Attachments", ()):
        client.detach_internet_gateway(InternetGatewayId=resource.id, VpcId=attachment["VpcId"])
    client.delete_internet_gateway(InternetGatewayId=resource.id)


def _instance_hour(instance_type: str, capacity: str, region: str) -> float | None:
    """Dollars per hour of a running instance; None if no table knows the type."""
    if instance_type in instance_types():
        seen = prices.spot(instance_type, region) if capacity == "spot" else None
        return (seen or prices.on_demand(instance_type, region)).usd_per_hour
    if instance_type in system_types():
        return prices.system_node(instance_type, region).usd_per_hour
    return None


def _instance_day(raw: Raw, region: str) -> float | None:
    if raw["State"]["Name"] not in ("pending", "running"):
        return 0.0
    hourly = _instance_hour(raw["InstanceType"], raw.get("InstanceLifecycle") or "on-demand", region)
    return None if hourly is None else hourly * 24


def _instance(raw: Raw) -> str:
    return f"{raw['InstanceType']}, {raw.get('InstanceLifecycle') or 'on-demand'}, {raw['State']['Name']}"


def gib_day(item: str, gib: float, region: str) -> float:
    """Dollars per day for this many gigabytes at a monthly price."""
    return gib * prices.service(item, region).usd_per_hour * 24 / HOURS_PER_MONTH


def _volume_day(raw: Raw, region: str) -> float | None:
    item = MONTHLY.get(raw.get("VolumeType", ""))
    return gib_day(item, raw["Size"], region) if item else None


def _hourly(item: str) -> Callable[[Raw, str], float | None]:
    return lambda raw, region: 24 * prices.service(item, region).usd_per_hour


def _endpoint_day(raw: Raw, region: str) -> float | None:
    if raw.get("VpcEndpointType", "Gateway") == "Gateway":
        return 0.0
    return len(raw.get("SubnetIds", ())) * 24 * prices.service("vpc-endpoint-hour", region).usd_per_hour


INSTANCES = _kind(
    "instances",
    "instance",
    Listed("describe_instances", "Reservations", "InstanceId"),
    _terminate,
    detail=_instance,
    price=_instance_day,
    after=("node groups",),
    slow=True,
)
LAUNCH_TEMPLATES = _kind(
    "launch templates",
    "launch_template",
    detail=lambda raw: raw.get("LaunchTemplateName", ""),
    # EKS then says Ec2LaunchTemplateNotFound of the group (eks API_Issue).
    after=("node groups",),
)
ENDPOINTS = _kind(
    "VPC endpoints",
    "vpc_endpoint",
    delete=_call("delete_vpc_endpoints", "VpcEndpointIds"),
    detail=lambda raw: raw.get("ServiceName", ""),
    price=_endpoint_day,
    slow=True,
)
INTERFACES = _kind(
    "network interfaces",
    "network_interface",
    detail=lambda raw: raw.get("Status", ""),
    after=("instances",),
)
NAT_GATEWAYS = _kind(
    "NAT gateways",
    "nat_gateway",
    price=_hourly("nat-gateway-hour"),
    tagged_as=("ec2:natgateway",),
    # EC2 deletes it at any time, and running nodes then lose their connection to EKS.
    after=("node groups", "instances"),
    slow=True,
)
ADDRESSES = _kind(
    "elastic IPs",
    "address",
    Listed("describe_addresses", "Addresses", "AllocationId"),
    _call("release_address", "AllocationId"),
    detail=lambda raw: raw.get("PublicIp", ""),
    price=_hourly("public-ipv4-hour"),
    tagged_as=("ec2:elastic-ip",),
    after=("NAT gateways",),
)
SNAPSHOTS = _kind(
    "snapshots",
    "snapshot",
    detail=lambda raw: f"of {raw['VolumeSize']} GiB, at most",
    price=lambda raw, region: gib_day("ebs-snapshot", raw["VolumeSize"], region),
    # Else EC2 lists every public snapshot as well (API_DescribeSnapshots).
    more={"OwnerIds": ["self"]},
    note="A snapshot cannot be recreated.",
)
VOLUMES = _kind(
    "volumes",
    "volume",
    detail=lambda raw: f"{raw['Size']} GiB {raw.get('VolumeType', '')}, {raw['State']}",
    price=_volume_day,
    after=("node groups", "instances"),
    note="Their data is lost.",
)
SECURITY_GROUPS = _kind(
    "security groups",
    "security_group",
    Listed("describe_security_groups", "SecurityGroups", "GroupId"),
    detail=lambda raw: raw.get("GroupName", ""),
    tagged_as=("ec2:security-group", "ec2:security-group-rule"),
    after=("node groups", "instances", "EKS clusters", "VPC endpoints", "network interfaces"),
)
ROUTE_TABLES = _kind(
    "route tables",
    "route_table",
    delete=_delete_route_table,
    # As for NAT gateways: running nodes lose their connection to EKS.
    after=("node groups", "instances"),
)
SUBNETS = _kind(
    "subnets",
    "subnet",
    detail=lambda raw: f"{raw['CidrBlock']} in {raw['AvailabilityZone']}",
    after=("node groups", "instances", "EKS clusters", "VPC endpoints", "network interfaces", "NAT gateways"),
)
INTERNET_GATEWAYS = _kind(
    "internet gateways",
    "internet_gateway",
    delete=_delete_gateway,
    after=("node groups", "instances", "NAT gateways"),
)
VPCS = _kind(
    "VPCs",
    "vpc",
    detail=lambda raw: raw["CidrBlock"],
    after=("VPC endpoints", "security groups", "route tables", "subnets", "internet gateways"),
)
