"""Parks and wakes a deployed stack now: its node groups in EKS, and the models of Karpenter's pools by a Job."""

import argparse
from contextlib import nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from sharing.names import OLLAMA_NAMESPACE, PROJECT
from tandem.deployed.connection import Connected, reached
from tandem.deployed.endpoints import NotConnectedError
from tandem.deployed.objects import name
from tandem.deployed.patience import Patience
from tandem.lookup import existing
from tandem.terminal import CallError, progress, status

if TYPE_CHECKING:
    from stacks.stack_file.judge import Plan
    from tandem.aws.parked_nodes import PoolNodes
    from tandem.aws.session import Account

Verb = Literal["park", "wake"]
KARPENTER = "karpenter"
JOB_SECONDS = 660.0
"""How long to wait for a Job, which may take 600 s (`components.scheduled_parking.cron_jobs`)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Resized:
    """What a change did."""

    groups: tuple[tuple["PoolNodes", int], ...]
    """Every node group as it was, with its new number of nodes."""
    job: str | None
    """The Job that scaled the models of Karpenter's pools; None without such a pool."""


def refuse_unparkable(plan: "Plan") -> None:
    """Raises `CallError` for a stack that no command may park or wake."""
    from tandem.aws import parked_nodes

    if plan.config.scale_to_zero.enabled:
        raise CallError(
            f"stack {plan.stack} scales its models to zero. Run `tandem run {plan.stack}`, or send a request to a URL "
            "of `pulumi stack output endpoints`, to start a model."
        )
    if plan.config.park is None:
        raise CallError(
            f"stack {plan.stack} has no section `park`, so `pulumi up` would undo it. {parked_nodes.SECTION}"
        )


def resize(parsed: argparse.Namespace, plan: "Plan", verb: Verb, connected: Connected | None = None) -> Resized:
    """Parks or wakes every pool of the stack, whose cluster may be `connected` already.

    Raises `WrongAccountError` in an account that the stack file excludes, `NotReadyError` before any change if a node
    group refuses changes, and `NotConnectedError` if the Job fails.
    """
    provisioners = {pool.provisioner for pool in plan.config.pools}
    if provisioners == {KARPENTER} and plan.config.allowed_account_ids:
        # Nothing else asks AWS for such a stack: its cluster does all the work.
        _account(parsed, plan)
    groups = _resize_groups(parsed, plan, verb) if provisioners != {KARPENTER} else ()
    job = _scale_models(parsed, verb, connected) if KARPENTER in provisioners else None
    return Resized(groups=groups, job=job)


def find_groups(parsed: argparse.Namespace, plan: "Plan") -> list["PoolNodes"]:
    """The node groups of the stack's pools, as EKS describes them; raises `AccountError`."""
    from tandem.aws.session import explained

    account = _account(parsed, plan)
    with explained(account.region):
        return _find(account, plan)


def _account(parsed: argparse.Namespace, plan: "Plan") -> "Account":
    from tandem.aws.stack_account import identity

    return identity(existing(parsed.stack), parsed.profile).connect(plan.config.region)


def _find(account: "Account", plan: "Plan") -> list["PoolNodes"]:
    from tandem.aws import parked_nodes

    with status("Reading the node groups"):
        there = plan.config.cluster.existing
        return parked_nodes.find_pools(account, plan.stack, there.name if there else None)


def _resize_groups(parsed: argparse.Namespace, plan: "Plan", verb: Verb) -> tuple[tuple["PoolNodes", int], ...]:
    """Changes the groups whose size differs, if all of them are ready. Returns all groups with their new sizes."""
    from tandem.aws import parked_nodes
    from tandem.aws.session import explained

    account = _account(parsed, plan)
    with explained(account.region):
        sizes = [(pool, pool.most if verb == "wake" else 0) for pool in _find(account, plan)]
        changing = [(pool, nodes) for pool, nodes in sizes if pool.nodes != nodes]
        parked_nodes.refuse_unready([pool for pool, _ in changing])
        for pool, nodes in changing:
            parked_nodes.resize(account, pool, nodes)
    return tuple(sizes)


def _scale_models(parsed: argparse.Namespace, verb: Verb, connected: Connected | None) -> str:
    """Runs the Job of the schedule that parks or wakes the models, and returns its name."""
    way = nullcontext(connected) if connected else reached(parsed)
    with way as found, progress(quiet=parsed.json) as tell:
        job = found.cluster.start_cron_job(f"{PROJECT}-parking-{verb}", OLLAMA_NAMESPACE)
        patience = Patience(JOB_SECONDS, tell=tell)
        while True:
            jobs = [each for each in found.cluster.jobs(OLLAMA_NAMESPACE) if name(each) == job]
            conditions = [condition for each in jobs for condition in each.get("status", {}).get("conditions", ())]
            ended = {condition["type"] for condition in conditions if condition["status"] == "True"}
            if "Complete" in ended:
                return job
            if "Failed" in ended or not patience.lasts(f"Waiting for job {job}"):
                raise NotConnectedError(
                    f"job {job} did not {verb} the models. See why with "
                    f"`kubectl --namespace {OLLAMA_NAMESPACE} logs job/{job}`."
                )
