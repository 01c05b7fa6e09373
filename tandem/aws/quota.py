"""Whether the account can run a stack: its quotas, instance types in its zones, the role for spot."""

from collections import Counter
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Literal

from sharing import tables
from sharing.cost import quotas
from sharing.cost.quotas import Need
from sharing.existing.vpc import MORE_SUBNETS
from sharing.hardware.gpus import instance_types
from sharing.names import POOL_LABEL, TAG_ZONES
from sharing.sections import zones
from sharing.sections.cluster import ZONES_WITHOUT_EKS
from sharing.sections.config import StackConfig
from sharing.sections.pools import Capacity
from sharing.sections.zones import Group, NoZoneError
from tandem.aws import clusters
from tandem.aws.clusters import owner_of
from tandem.aws.resources import Owner, from_list
from tandem.aws.session import Account, code, explained

SCHEMA_VERSION = 1
SPOT_ROLE = "AWSServiceRoleForEC2Spot"
SPOT_ROLE_COMMAND = "aws iam create-service-linked-role --aws-service-name spot.amazonaws.com"
MOST_TYPES_A_CALL = 100

Verdict = Literal["ok", "short", "short at max", "short while replacing", "unknown"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One quota: its limit, its use by others, the stack's need."""

    need: Need
    limit: float | None
    """None if AWS does not report it."""
    used: int
    """By everything except this stack."""

    @property
    def title(self) -> str:
        """The quota with its unit."""
        return f"{self.need.quota.title} ({self.need.quota.unit})"

    @property
    def verdict(self) -> Verdict:
        """Whether it is enough."""
        if self.limit is None:
            return "unknown"
        if self.used + self.need.now > self.limit:
            return "short"
        if self.used + self.need.most > self.limit:
            return "short at max"
        return "short while replacing" if self.used + self.need.replacing > self.limit else "ok"

    def command(self, region: str) -> str:
        """The command that requests an increase."""
        quota = self.need.quota
        return (
            f"aws service-quotas request-service-quota-increase --region {region} --service-code {quota.service} "
            f"--quota-code {quota.code} --desired-value {self.used + self.need.replacing}"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """Everything found before `up`."""

    checks: tuple[Check, ...]
    problems: tuple[str, ...]
    """Reasons to fail, apart from quotas."""
    warnings: tuple[str, ...]

    @property
    def short(self) -> bool:
        """Whether something is missing. Short only while replacing nodes does not stop a first `up`."""
        return bool(self.problems) or any(check.verdict in ("short", "short at max") for check in self.checks)

    @property
    def unknown(self) -> bool:
        """Whether AWS does not report one of the limits."""
        return any(check.verdict == "unknown" for check in self.checks)


@dataclass(frozen=True, slots=True)
class Placed:
    """The zones of a deployed stack."""

    zones: tuple[str, ...]
    groups: dict[str, Group]
    """The node group of each pool that has one."""


NOWHERE = Placed((), {})
"""The zones of a stack that is not deployed."""


def answer(account: Account, stack: str, config: StackConfig) -> Answer:
    """Asks the account; raises `AccountError` if it does not answer."""
    with explained(account.region):
        checks = quota_checks(account, stack, config)
        problems, warnings = offers(account, config)
        if spot_role_missing(account, config):
            warnings.append(
                f"The account lacks the role {SPOT_ROLE}, so spot nodes may not start. Run `{SPOT_ROLE_COMMAND}`."
            )
    warnings += [
        f"AWS does not report the limit of {check.need.quota.title}." for check in checks if check.verdict == "unknown"
    ]
    return Answer(checks=tuple(checks), problems=tuple(map(str, problems)), warnings=tuple(warnings))


def quota_checks(account: Account, stack: str, config: StackConfig) -> list[Check]:
    """Each quota that the stack needs; raises boto3's exceptions."""
    used = _used(account, stack)
    return [Check(need=need, limit=_limit(account, need), used=used[need.quota.name]) for need in quotas.needs(config)]


def _limit(account: Account, need: Need) -> float | None:
    """The quota's value in this account, else AWS's default: an unchanged quota may have only that."""
    if not need.quota.code:
        return None
    client = account.client("service-quotas")
    asked = {"ServiceCode": need.quota.service, "QuotaCode": need.quota.code}
    for operation in (client.get_service_quota, client.get_aws_default_service_quota):
        with suppress(client.exceptions.NoSuchResourceException):
            return float(operation(**asked)["Quota"]["Value"])
    return None


def _used(account: Account, stack: str) -> Counter[str]:
    """Use of each quota by everything except the stack: another `up` of a deployed stack needs no more."""
    mine = owner_of(account, stack)
    used = _vcpus(account, mine)
    for page in account.pages("ec2", "describe_addresses"):
        used["addresses"] += sum(not mine.owns(from_list(raw.get("Tags"))) for raw in page["Addresses"])
    for page in account.pages("ec2", "describe_vpcs"):
        used["vpcs"] += sum(not mine.owns(from_list(raw.get("Tags"))) for raw in page["Vpcs"])
    for name in clusters.clusters(account):
        raw = clusters.cluster(account, name) if name == mine.cluster else None
        used["clusters"] += not (raw and mine.owns(raw.get("tags") or {}))
    return used


def _vcpus(account: Account, mine: Owner) -> Counter[str]:
    running: Counter[tuple[str, str]] = Counter()
    alive = [{"Name": "instance-state-name", "Values": ["pending", "running"]}]
    for page in account.pages("ec2", "describe_instances", Filters=alive):
        for raw in (raw for reservation in page["Reservations"] for raw in reservation["Instances"]):
            capacity: Capacity = "spot" if raw.get("InstanceLifecycle") == "spot" else "on-demand"
            quota = quotas.vcpu_quota(raw["InstanceType"], capacity)
            if quota and not mine.owns(from_list(raw.get("Tags"))):
                running[quota, raw["InstanceType"]] += 1
    size = _sizes(account, sorted({instance_type for _, instance_type in running}))
    used: Counter[str] = Counter()
    for (quota, instance_type), count in running.items():
        used[quota] += count * size[instance_type]
    return used


def _sizes(account: Account, names: list[str]) -> dict[str, int]:
    """vCPUs of each type: quotas count the type's number, even if an instance has disabled some."""
    vcpus = {row["instance_type"]: int(row["vcpu"]) for row in tables.read("system_instances").rows}
    vcpus |= {name: kind.vcpu for name, kind in instance_types().items()}
    unknown = [name for name in names if name not in vcpus]
    for start in range(0, len(unknown), MOST_TYPES_A_CALL):
        for page in account.pages(
            "ec2", "describe_instance_types", InstanceTypes=unknown[start : start + MOST_TYPES_A_CALL]
        ):
            vcpus |= {raw["InstanceType"]: raw["VCpuInfo"]["DefaultVCpus"] for raw in page["InstanceTypes"]}
    return vcpus


def zones_of(account: Account, cluster: Any) -> Placed:
    """Asks EC2 and EKS, from EKS's description of the cluster; raises boto3's exceptions."""
    ec2 = account.client("ec2")
    # The cluster names only the subnets of the control plane.
    [first, *_] = ec2.describe_subnets(SubnetIds=cluster["resourcesVpcConfig"]["subnetIds"])["Subnets"]
    own = ec2.describe_subnets(Filters=[{"Name": "vpc-id", "Values": [first["VpcId"]]}])["Subnets"]
    groups = {}
    for raw in clusters.groups_of_pools(account, cluster["name"]):
        zones = (raw.get("tags") or {}).get(TAG_ZONES, "").split()
        group = Group(zones=tuple(zones), types=frozenset(raw.get("instanceTypes") or ()))
        groups[raw["labels"][POOL_LABEL]] = group
    return Placed(tuple(sorted({subnet["AvailabilityZone"] for subnet in own})), groups)


def offers(account: Account, config: StackConfig, placed: Placed = NOWHERE) -> tuple[list[NoZoneError], list[str]]:
    """Whether the stack's zones offer its types: a problem if none does, a warning if some do not.

    These are the zones of the deployed stack, plus those that `up` would choose.
    """
    everywhere = _zones(account)
    # The system nodes come first. A cluster that exists has its own.
    wanted = zones.demands(config)[bool(config.cluster.existing) :]
    offered = _offered(account, everywhere, sorted({name for demand in wanted for name in demand.types}))
    given, more = _given_subnets(account, config), zones.MORE_ZONES
    if given:
        filters = [{"Name": "subnet-id", "Values": given}]
        subnets = account.client("ec2").describe_subnets(Filters=filters)["Subnets"]
        taken = tuple(sorted({subnet["AvailabilityZone"] for subnet in subnets}))
        more = MORE_SUBNETS.format(path="cluster.existing" if config.cluster.existing else "cluster.vpc")
    else:
        taken = zones.choose_for_stack(
            config.cluster.zone_names or everywhere, config.cluster.zone_count, wanted, offered, placed.zones
        )
    problems, warnings = [], []
    groups = {f"{pool.path}.instance-types": placed.groups.get(pool.name) for pool in config.pools}
    if len(taken) < config.cluster.zone_count and not given:
        reason = f"cluster.zones: EKS runs in {len(everywhere)} zones of {account.region} ({', '.join(everywhere)})"
        problems.append(NoZoneError(reason, f"Write `zones: {len(everywhere)}` or fewer."))
    for demand in wanted:
        try:
            zones.choose_for_pool(demand, taken, offered, groups.get(demand.path), more=more)
        except NoZoneError as problem:
            problems.append(problem)
            continue
        lacking = {name: [zone for zone in taken if zone not in offered.get(name, ())] for name in demand.types}
        warnings += [
            f"{demand.path}: {name} is not offered in {', '.join(bare)}." for name, bare in lacking.items() if bare
        ]
    return problems, warnings


def _given_subnets(account: Account, config: StackConfig) -> list[str]:
    """The nodes' subnets, if the stack does not create them; empty if their cluster does not exist."""
    if existing := config.cluster.existing:
        raw = clusters.cluster(account, existing.name)
        return existing.node_subnets or (list(raw["resourcesVpcConfig"]["subnetIds"]) if raw else [])
    vpc = config.cluster.vpc
    return (vpc.node_subnets or vpc.subnets) if vpc else []


def _offered(account: Account, everywhere: list[str], types: list[str]) -> dict[str, set[str]]:
    """The zones, of these, that offer each type."""
    offered: dict[str, set[str]] = {}
    filters = [{"Name": "instance-type", "Values": types}]
    for page in account.pages(
        "ec2", "describe_instance_type_offerings", LocationType="availability-zone", Filters=filters
    ):
        for raw in page["InstanceTypeOfferings"]:
            if raw["Location"] in everywhere:
                offered.setdefault(raw["InstanceType"], set()).add(raw["Location"])
    return offered


def _zones(account: Account) -> list[str]:
    """The zones from which the program chooses."""
    answer = account.client("ec2").describe_availability_zones()["AvailabilityZones"]
    return sorted(
        zone["ZoneName"]
        for zone in answer
        if zone["State"] == "available"
        and zone.get("OptInStatus") in (None, "opt-in-not-required")
        and zone["ZoneId"] not in ZONES_WITHOUT_EKS
    )


def spot_role_missing(account: Account, config: StackConfig) -> bool:
    """Whether a pool needs spot instances and the account has no role for them; raises boto3's exceptions."""
    if all(pool.capacity != "spot" for pool in config.pools):
        return False
    try:
        account.client("iam").get_role(RoleName=SPOT_ROLE)
    except Exception as error:
        if code(error) != "NoSuchEntity":
            raise
        return True
    return False


def as_dict(answer: Answer, stack: str, account: Account) -> dict[str, Any]:
    """The answer as JSON."""
    return {
        "schema_version": SCHEMA_VERSION,
        "stack": stack,
        "account": account.id,
        "region": account.region,
        "verdict": "short" if answer.short else "unknown" if answer.unknown else "ok",
        "quotas": [
            {
                "quota": check.need.quota.title,
                "service": check.need.quota.service,
                "code": check.need.quota.code,
                "unit": check.need.quota.unit,
                "limit": check.limit,
                "used": check.used,
                "needed": check.need.now,
                "needed_at_max": check.need.most,
                "needed_while_replacing": check.need.replacing,
                "verdict": check.verdict,
                "way_out": check.command(account.region) if check.verdict.startswith("short") else "",
            }
            for check in answer.checks
        ],
        "problems": list(answer.problems),
        "warnings": list(answer.warnings),
    }
