"""Helm releases that a killed `up` left in `pending-*`: they block the next `up` until they are repaired."""

import shlex
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sharing.existing.cluster import find_names
from tandem.deployed.endpoints import NotConnectedError
from tandem.deployed.kubeconfig import Chosen
from tandem.doctor.case import NOT_DEPLOYED, Case
from tandem.doctor.finding import Finding, ok, parts_of, stops, unknown

HELM = {"owner": "helm"}
"""Label of every Secret in which Helm keeps a revision (helm, pkg/storage/driver/secrets.go)."""

ADDRESS = "Check whether `cluster.public-access-cidrs` allows your IP address, or run `up` inside the VPC."


@dataclass(frozen=True, slots=True, order=True)
class Revision:
    """A revision of a release."""

    namespace: str
    name: str
    version: int
    status: str
    secret: str


def check_releases(case: Case) -> Iterator[Finding]:
    """No Helm release is stuck in `pending-install`, `pending-upgrade` or `pending-rollback`."""
    from tandem.deployed.kubernetes import cluster

    raw = case.cluster
    if raw is None or "endpoint" not in raw:
        yield ok(NOT_DEPLOYED)
        return
    try:
        with cluster(access(raw, case)) as reached:
            revisions = [each for each in _revisions(reached.secrets(HELM)) if _is_ours(each, case)]
    except NotConnectedError as error:
        why, fix = parts_of(str(error))
        yield unknown(f"the Kubernetes API cannot be reached: {why}", ADDRESS if error.passing else fix)
        return
    stuck = list(_pending(revisions))
    for revision in stuck:
        yield stops(
            f"{revision.name} in namespace {revision.namespace} is {revision.status}: an `up` was killed or is running",
            _repair(revision, revisions, raw["name"], case),
        )
    if not stuck:
        count = len({(revision.namespace, revision.name) for revision in revisions})
        yield ok(f"none of {count} is pending")


def access(raw: Mapping[str, Any], case: Case) -> Chosen:
    """Access to the cluster without outputs: a killed first `up` has written none."""
    token = ["--region", case.region, "eks", "get-token", "--cluster-name", raw["name"], "--output", "json"]
    token += [word for option in _identity(case) for word in option]
    user = {"exec": {"apiVersion": "client.authentication.k8s.io/v1beta1", "command": "aws", "args": token}}
    cluster = {"server": raw["endpoint"], "certificate-authority-data": raw["certificateAuthority"]["data"]}
    return Chosen(raw["name"], cluster, user, Path())


def _identity(case: Case) -> list[tuple[str, str]]:
    """The identity, as options of both `aws eks get-token` and `update-kubeconfig`."""
    profile = [("--profile", case.profile)] if case.profile else []
    return [*profile, *(("--role-arn", role.role_arn) for role in case.identity.roles[-1:])]


def _revisions(secrets: Iterable[Mapping[str, Any]]) -> Iterator[Revision]:
    """The revisions in the labels; the Secrets' data is not read."""
    for secret in secrets:
        metadata = secret["metadata"]
        labels = metadata.get("labels") or {}
        version = str(labels.get("version", ""))
        if version.isdigit():
            yield Revision(
                namespace=str(metadata["namespace"]),
                name=str(labels.get("name", "")),
                version=int(version),
                status=str(labels.get("status", "")),
                secret=str(metadata["name"]),
            )


def _is_ours(revision: Revision, case: Case) -> bool:
    """Whether the release may be of this stack: in a cluster that it only uses, by its namespace."""
    config = case.planned_stack.plan.config
    names = {name for kind, name in find_names(config, discovery=True) if kind == "namespace"}
    return not case.has_existing_cluster or revision.namespace in names


def _pending(revisions: Iterable[Revision]) -> Iterator[Revision]:
    """Releases whose newest revision is pending: Helm checks no other (helm, pkg/action/upgrade.go)."""
    newest = {(revision.namespace, revision.name): revision for revision in sorted(revisions)}
    yield from (revision for revision in newest.values() if revision.status.startswith("pending-"))


def _repair(stuck: Revision, revisions: Iterable[Revision], cluster: str, case: Case) -> str:
    """The command that repairs it: back to the deployed revision, else without this one."""
    identity = "".join(f" {option} {shlex.quote(value)}" for option, value in _identity(case))
    login = f"aws eks update-kubeconfig --region {case.region} --name {cluster}{identity}"
    deployed = [
        revision.version
        for revision in revisions
        if (revision.namespace, revision.name) == (stuck.namespace, stuck.name) and revision.status == "deployed"
    ]
    if deployed:
        # `helm rollback` accepts a pending revision (helm, pkg/action/rollback.go, prepareRollback).
        repair = f"helm rollback {stuck.name} {max(deployed)} --namespace {stuck.namespace}"
    else:
        repair = f"kubectl delete secret {stuck.secret} --namespace {stuck.namespace}"
    return f"{login} && {repair}"
