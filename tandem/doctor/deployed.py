"""Checks of a deployed stack: its cluster, node groups, add-ons and schedules, as AWS reports them."""

import dataclasses
from collections.abc import Iterator
from typing import Any

from sharing import names
from tandem.doctor.case import ADDON, NODE_GROUP, NOT_DEPLOYED, Case
from tandem.doctor.finding import Finding, ok, stops, warning
from tandem.doctor.pulumi_state import StateError, read_state

UNDER_WAY = ("CREATING", "UPDATING", "DELETING")
TOLERATED = frozenset(
    {"AsgInstanceLaunchFailures", "InstanceLimitExceeded", "InsufficientFreeAddresses", "ClusterUnreachable"}
)
"""Health issues that UpdateNodegroupVersion tolerates, by its error message for all others
(repost.aws/knowledge-center/eks-managed-node-group-update). UpdateNodegroupConfig's are undocumented."""
SHOWN_FAILURES = 3
PARTS = {"nodegroup": ("node group", NODE_GROUP), "addon": ("add-on", ADDON)}


def check_cluster(case: Case) -> Iterator[Finding]:
    """No cluster of another stack has the name, and this stack's cluster is ACTIVE."""
    from tandem.aws import clusters

    name = names.cluster_name(case.planned_stack.name)
    there = clusters.cluster(case.account(), name)
    if there is None:
        yield ok(f"{NOT_DEPLOYED}: `up` creates {name}")
    elif case.cluster is None:
        yield stops(
            f"an EKS cluster {name} exists that does not belong to this stack",
            "Choose another stack name: run `pulumi stack init` with a stack file of that name.",
        )
    elif there["status"] == "FAILED":
        yield stops(f"{name} failed to create", f"pulumi destroy --stack {case.planned_stack.name}")
    elif there["status"] in UNDER_WAY:
        yield warning(f"{name} is {there['status']}", "Wait until it is ACTIVE.")
    else:
        yield ok(f"{name} is {there['status']}")


def check_node_groups(case: Case) -> Iterator[Finding]:
    """Each deployed node group is ACTIVE; any other is listed, with the effect of the next `up`."""
    yield from _check_parts(case, "nodegroup")


def check_deployed_addons(case: Case) -> Iterator[Finding]:
    """Each deployed add-on is ACTIVE."""
    yield from _check_parts(case, "addon")


def _check_parts(case: Case, kind: str) -> Iterator[Finding]:
    cluster = case.cluster
    if cluster is None:
        yield ok(NOT_DEPLOYED)
        return
    account, arguments = case.account(), {"clusterName": cluster["name"]}
    names = [name for page in account.pages("eks", f"list_{kind}s", **arguments) for name in page[f"{kind}s"]]
    describe = getattr(account.client("eks"), f"describe_{kind}")
    healthy = []
    for name in sorted(names):
        raw = describe(**arguments, **{f"{kind}Name": name})[kind]
        if case.has_existing_cluster and not case.owner.owns(raw.get("tags") or {}):
            continue
        finding = _judge(case, kind, raw)
        if finding.verdict == "ok":
            healthy.append(finding.text)
        else:
            yield finding
    if healthy or not names or case.has_existing_cluster:
        yield ok(", ".join(healthy) or "none")


def _judge(case: Case, kind: str, raw: Any) -> Finding:
    title, type_ = PARTS[kind]
    own = str(raw[f"{kind}Name"])
    named = (raw.get("tags") or {}).get("Name", "")
    what = f"{title} {own}"
    status, issues = str(raw["status"]), _issues(raw)
    urn = _urn(case, type_, own, named)
    replace = f"pulumi up --stack {case.planned_stack.name} --replace '{urn}'"
    if status == "CREATE_FAILED" and kind == "nodegroup":
        # Its Auto Scaling group stays until DeleteNodegroup, and is not suspended (aws/containers-roadmap#764).
        text = f"{what} failed to create; it may still start nodes, which cost money and use quota{issues}"
        finding = _judge_failed(case, text, urn, replace)
        first = (
            "If the quota does not allow a second group, first run `aws eks delete-nodegroup "
            f"--region {case.region} --cluster-name {raw['clusterName']} --nodegroup-name {own}`."
        )
        return dataclasses.replace(finding, fix=f"{finding.fix} {first}")
    if status == "CREATE_FAILED":
        return _judge_failed(case, f"{what} failed to create{issues}", urn, replace)
    if status == "DEGRADED" and kind == "nodegroup":
        if {issue.get("code") for issue in (raw.get("health") or {}).get("issues") or []} - TOLERATED or not issues:
            return stops(f"{what} is DEGRADED and refuses updates{issues}", replace)
        fix = f'Run `pulumi up`. If it fails with "not in Active State": {replace}'
        return warning(f"{what} is DEGRADED and may refuse updates{issues}", fix)
    if status == "DELETE_FAILED":
        return warning(f"{what} failed to delete{issues}", "Remove the cause, then run `pulumi up` again.")
    if status in UNDER_WAY:
        return warning(f"{what} is {status} and refuses updates", "Wait until it is ACTIVE.")
    if kind == "addon" and status != "ACTIVE":
        # A replacement uninstalls it first; a refresh clears the mark of a failed update, and `up` retries it.
        fix = f"pulumi up --refresh --stack {case.planned_stack.name}"
        return warning(f"{what} is {status}{issues}", f"{fix}. If that fails, reinstall it: {replace}")
    if status != "ACTIVE" or issues:
        return warning(f"{what} is {status}{issues}", f"Remove the cause. If it remains: {replace}")
    return ok(f"{own} is ACTIVE")


def _judge_failed(case: Case, text: str, urn: str, replace: str) -> Finding:
    """EKS never repairs it (aws/containers-roadmap#764); whether `up` replaces it depends on the state."""
    try:
        marked = urn in read_state(case).failed
    except StateError:
        return warning(text, f"Remove the cause: the next `pulumi up` replaces it. After a refresh, run: {replace}.")
    if marked:
        return warning(text, "Remove the cause: the next `pulumi up` replaces it.")
    # A refresh clears the mark, and `up` then cannot continue with the group.
    return stops(text, f"Remove the cause, then: {replace}.")


def _issues(raw: Any) -> str:
    """Code and message of each issue that EKS reports."""
    issues = (raw.get("health") or {}).get("issues") or []
    shown = [f"{issue.get('code', '')} ({issue.get('message', '')})" for issue in issues]
    return f": {'; '.join(shown)}" if shown else ""


def _urn(case: Case, type_: str, name: str, tagged: str) -> str:
    """Its URN in Pulumi: its name there is in the tag `Name`, or it is the add-on of that name."""
    for resource in case.planned_stack.resources(type_):
        if resource.name == tagged or resource.inputs.get("addonName") == name:
            return resource.urn
    return "its URN from `pulumi stack --show-urns`"


def has_schedules(case: Case) -> bool:
    """Whether the stack has node groups and the section `park`."""
    config = case.planned_stack.plan.config
    return config.park is not None and any(pool.provisioner == "node-group" for pool in config.pools)


def check_parking(case: Case) -> Iterator[Finding]:
    """The schedules of the section `park` have had no failure in 14 days."""
    # Only their queue has the reason of a call that EKS refused.
    from tandem.aws import parked_nodes

    if case.cluster is None:
        yield ok(NOT_DEPLOYED)
        return
    stack = case.planned_stack.name
    failures = parked_nodes.find_failures(case.account(), stack)
    for failure in failures[:SHOWN_FAILURES]:
        yield warning(
            f"{failure.verb} of {failure.group} failed on {failure.at:%Y-%m-%d %H:%M} UTC: {failure.code} "
            f"({failure.message})",
            f"Remove the cause, then run `tandem {failure.verb} {stack}`.",
        )
    if not failures:
        yield ok("no schedule has failed in 14 days")
