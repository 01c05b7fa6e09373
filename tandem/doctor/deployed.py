"""Checks of a stack that is up: its cluster, node groups and add-ons, as EKS sees them."""

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
"""Health issues with which UpdateNodegroupVersion goes on, by its error message for all others
(repost.aws/knowledge-center/eks-managed-node-group-update). Nobody says so of UpdateNodegroupConfig."""
PARTS = {"nodegroup": ("node group", NODE_GROUP), "addon": ("add-on", ADDON)}


def check_cluster(case: Case) -> Iterator[Finding]:
    """No cluster of another stack has the name, and this stack's cluster is ACTIVE."""
    from tandem.deployed.aws import services

    name = names.cluster_name(case.planned_stack.name)
    there = services.cluster(case.account(), name)
    if there is None:
        yield ok(f"{NOT_DEPLOYED}: `up` creates {name}")
    elif case.cluster is None:
        yield stops(
            f"an EKS cluster {name} exists that is not of this stack",
            "Give the stack another name: `pulumi stack init` with a stack file of that name.",
        )
    elif there["status"] == "FAILED":
        yield stops(f"{name} failed to create", f"pulumi destroy --stack {case.planned_stack.name}")
    elif there["status"] in UNDER_WAY:
        yield warning(f"{name} is {there['status']}", "Wait until it is ACTIVE.")
    else:
        yield ok(f"{name} is {there['status']}")


def check_node_groups(case: Case) -> Iterator[Finding]:
    """Each deployed node group is ACTIVE; one that is not is named, with what the next `up` does."""
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
        finding = _judge(case, kind, describe(**arguments, **{f"{kind}Name": name})[kind])
        if finding.verdict == "ok":
            healthy.append(finding.found)
        else:
            yield finding
    if healthy or not names:
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
        found = f"{what} failed to create; it may still start nodes, which cost money and use the quota{issues}"
        finding = _judge_failed(case, found, urn, replace)
        return dataclasses.replace(finding, fix=f"{finding.fix} {_delete_first(case, own)}")
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
        return warning(f"{what} is {status}", "Wait until it is ACTIVE: until then it refuses updates.")
    if kind == "addon" and status != "ACTIVE":
        # A replacement uninstalls it first; a refresh clears the mark of a failed update, and `up` tries it again.
        fix = f"pulumi up --refresh --stack {case.planned_stack.name}"
        return warning(f"{what} is {status}{issues}", f"{fix}. If that fails, uninstall and install it: {replace}")
    if status != "ACTIVE" or issues:
        return warning(f"{what} is {status}{issues}", f"Remove the cause. Where it stays: {replace}")
    return ok(f"{own} is ACTIVE")


def _judge_failed(case: Case, found: str, urn: str, replace: str) -> Finding:
    """EKS never heals it (aws/containers-roadmap#764); whether `up` replaces it depends on what the state knows."""
    try:
        marked = urn in read_state(case).failed
    except StateError:
        return warning(found, f"Remove the cause: the next `pulumi up` replaces it, but after a refresh: {replace}.")
    if marked:
        return warning(found, "Remove the cause: the next `pulumi up` replaces it.")
    # A refresh clears the mark, and `up` then refuses to go on with the group.
    return stops(found, f"Remove the cause, then: {replace}.")


def _delete_first(case: Case, name: str) -> str:
    cluster = names.cluster_name(case.planned_stack.name)
    return (
        "If the quota has no room for a second group, first run "
        f"`aws eks delete-nodegroup --region {case.region} --cluster-name {cluster} --nodegroup-name {name}`."
    )


def _issues(raw: Any) -> str:
    """What EKS says is wrong: code and message of each issue."""
    issues = (raw.get("health") or {}).get("issues") or []
    told = [f"{issue.get('code', '')} ({issue.get('message', '')})" for issue in issues]
    return f": {'; '.join(told)}" if told else ""


def _urn(case: Case, type_: str, name: str, tagged: str) -> str:
    """The URN that Pulumi has for it: its name there is in the tag `Name`, or it is the add-on of that name."""
    for resource in case.planned_stack.resources(type_):
        if resource.name == tagged or resource.inputs.get("addonName") == name:
            return resource.urn
    return "URN of it in `pulumi stack --show-urns`"
