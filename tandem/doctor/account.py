"""Checks of the AWS account: the region, quotas, offers of instance types and add-ons, the role for spot."""

from collections.abc import Iterator

from sharing.sections.config import StackConfig
from tandem.doctor.case import ADDON, Case
from tandem.doctor.finding import Finding, ok, stops, unknown, warning


def check_region(case: Case) -> Iterator[Finding]:
    """The account may use the region."""
    enable = f"aws account enable-region --region-name {case.region}"
    if case.access.region_closed:
        yield stops(f"{case.region} is not enabled in this account", enable)
        return
    client = case.account().client("ec2")
    regions = client.describe_regions(RegionNames=[case.region], AllRegions=True)["Regions"]
    status = regions[0].get("OptInStatus", "") if regions else "unknown"
    if status in ("opt-in-not-required", "opted-in"):
        yield ok(case.region)
    else:
        yield stops(f"{case.region} is {status} in this account", enable)


def check_quotas(case: Case) -> Iterator[Finding]:
    """Quotas for vCPUs, addresses, VPCs and clusters are enough, given all other use."""
    from tandem.aws import quota

    stack = case.planned_stack
    checks = quota.quota_checks(case.account(), stack.name, _config(case))
    for check in checks:
        need = check.need
        limit = "an unknown limit" if check.limit is None else f"{check.limit:,.0f}"
        used = f"{check.used:,} of {limit} used by others"
        needed = {
            "short": f"{need.now:,} needed",
            "short at max": f"{need.most:,} needed at most",
            "short while replacing": f"{need.replacing:,} needed while nodes are updated or replaced",
        }
        if check.verdict == "unknown":
            fix = f"aws service-quotas list-service-quotas --service-code {need.quota.service} --region {case.region}"
            yield unknown(f"{check.title}: AWS does not report the limit", fix)
        elif check.verdict in needed:
            found = stops if check.verdict == "short" else warning
            yield found(f"{check.title}: {used}, {needed[check.verdict]}", check.command(case.region))
    if all(check.verdict == "ok" for check in checks):
        yield ok(f"{len(checks)} quotas are enough")


def check_offerings(case: Case) -> Iterator[Finding]:
    """The zones of the deployed stack, or those of a new one, offer its instance types."""
    from tandem.aws import quota

    account, cluster = case.account(), case.cluster
    where = quota.zones_of(account, cluster) if cluster else quota.NOWHERE
    problems, warnings = quota.offers(account, _config(case), where)
    for problem in problems:
        yield stops(problem.reason, problem.fix)
    for line in warnings:
        yield warning(line.rstrip("."), "Its nodes start in the other zones.")
    if not problems and not warnings:
        yield ok(f"every zone of {'the' if cluster else 'a new'} stack offers every instance type")


def check_spot_role(case: Case) -> Iterator[Finding]:
    """The account has the service-linked role for spot instances, if a pool uses them."""
    # `destroy` would delete it, so no stack creates it.
    from tandem.aws import quota

    config, lacks = _config(case), f"the account has no role {quota.SPOT_ROLE}"
    if not quota.spot_role_missing(case.account(), config):
        yield ok(f"{quota.SPOT_ROLE} exists")
    elif any(pool.capacity == "spot" for pool in config.karpenter_pools):
        # Karpenter does not create it: CreateFleet fails (karpenter-provider-aws, pkg/providers/instance/instance.go).
        yield stops(f"{lacks}, so Karpenter cannot start spot nodes", quota.SPOT_ROLE_COMMAND)
    else:
        # EC2 Auto Scaling may create it for a node group (AWS managed policy AutoScalingServiceRolePolicy).
        yield warning(f"{lacks}, and Auto Scaling may be unable to create it", quota.SPOT_ROLE_COMMAND)


def wants_spot(case: Case) -> bool:
    """Whether a pool of the stack uses spot instances."""
    return any(pool.capacity == "spot" for pool in _config(case).pools)


def check_addons(case: Case) -> Iterator[Finding]:
    """EKS still offers the pinned builds of its add-ons for this Kubernetes version."""
    stack, account = case.planned_stack, case.account()
    kubernetes = stack.plan.config.cluster.kubernetes
    resources = stack.resources(ADDON)
    fine = True
    for name, pinned in sorted((str(each.inputs["addonName"]), str(each.inputs["addonVersion"])) for each in resources):
        asked = {"addonName": name, "kubernetesVersion": kubernetes}
        addons = [
            addon for page in account.pages("eks", "describe_addon_versions", **asked) for addon in page["addons"]
        ]
        offered = [build["addonVersion"] for addon in addons for build in addon["addonVersions"]]
        if pinned in offered:
            continue
        fine = False
        if offered:
            fix = f"Update tandem, or pin a build that it offers, for example {offered[0]}, in sharing/versions.py."
            yield stops(f"EKS no longer offers {name} {pinned} for Kubernetes {kubernetes}", fix)
        else:
            fix = "Set `cluster.kubernetes` to a version that EKS supports."
            yield stops(f"EKS offers no {name} for Kubernetes {kubernetes}", fix)
    if fine:
        yield ok(f"EKS offers the {len(resources)} pinned builds for Kubernetes {kubernetes}")


def _config(case: Case) -> StackConfig:
    return case.planned_stack.plan.config.changed(region=case.region)
