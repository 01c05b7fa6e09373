"""Every check, in the order in which a person would look, and how they are run."""

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass, replace
from typing import Literal

from sharing.printable import one_line
from tandem.doctor import account, builds, credentials, deployed, machine, published, pulumi_state, registries, releases
from tandem.doctor.case import Case
from tandem.doctor.finding import Finding, unknown
from tandem.extras import missing
from tandem.terminal import CallError

AT_ONCE = 4
"""Checks that run at the same time: most of their time is waiting for AWS, which throttles who asks more."""

SEE_CREDENTIALS = "needs AWS credentials"


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One check."""

    name: str
    """For machines, e.g. `aws-cli`."""
    title: str
    about: str
    """What it looks at, for people."""
    source: Literal["machine", "account", "stack", "cluster"]
    """Where it looks. Checks of a stack or its cluster run only where a stack is named."""
    run: Callable[[Case], Iterator[Finding]]
    applies: Callable[[Case], bool] = lambda case: True


CHECKS = (
    Check(
        name="python",
        title="Python",
        about="Python 3.11 or later runs this command, and is in `.venv`.",
        source="machine",
        run=machine.check_python,
    ),
    Check(
        name="pulumi",
        title="Pulumi CLI",
        about="`pulumi` is on the PATH, is 3.214.0 or later, and satisfies `requiredPulumiVersion`, "
        "which the CLI itself heeds since 3.219.",
        source="machine",
        run=machine.check_pulumi,
    ),
    Check(
        name="aws-cli",
        title="AWS CLI",
        about="`aws` is on the PATH, and is version 2.7.0 or later, or 1.24.0 or later of version 1.",
        source="machine",
        run=machine.check_aws_cli,
    ),
    Check(
        name="credentials",
        title="AWS credentials",
        about="AWS accepts the credentials, and they last longer than `pulumi up` takes by the plan's estimate.",
        source="account",
        run=credentials.check_credentials,
    ),
    Check(
        name="region",
        title="Region",
        about="The account may use the region.",
        source="account",
        run=account.check_region,
        applies=lambda case: bool(case.region),
    ),
    Check(
        name="quotas",
        title="Quotas",
        about="Quotas for vCPUs, addresses, VPCs and clusters are enough beside what everything else uses.",
        source="stack",
        run=account.check_quotas,
    ),
    Check(
        name="offerings",
        title="Instance types",
        about="The zones that the stack has, or that a new one would take, offer its instance types.",
        source="stack",
        run=account.check_offerings,
    ),
    Check(
        name="spot-role",
        title="Role for spot",
        about="The account has the service-linked role for spot instances, where a pool buys them.",
        source="stack",
        run=account.check_spot_role,
        applies=account.wants_spot,
    ),
    Check(
        name="add-on-builds",
        title="Add-on builds",
        about="EKS still offers the pinned builds of its add-ons for this Kubernetes version.",
        source="stack",
        run=builds.check_addons,
    ),
    Check(
        name="ami-releases",
        title="AMI releases",
        about="AWS still publishes the pinned AMI releases for this Kubernetes version.",
        source="stack",
        run=builds.check_amis,
    ),
    Check(
        name="registry-logins",
        title="Registry logins",
        about="No login on this machine has expired for a registry from which Helm pulls charts.",
        source="stack",
        run=registries.check_logins,
        applies=registries.pulls_from_registries,
    ),
    Check(
        name="images",
        title="Images",
        about="Docker Hub's limit for pulls without a login is enough for the nodes.",
        source="stack",
        run=registries.check_images,
    ),
    Check(
        name="digests",
        title="Digests",
        about="Registries publish the stack's images and charts with the content that this version knows; a digest "
        "that it does not know is shown.",
        source="stack",
        run=published.check_published,
    ),
    Check(
        name="cluster",
        title="Cluster",
        about="No cluster of another stack has the name, and this stack's cluster is ACTIVE.",
        source="cluster",
        run=deployed.check_cluster,
    ),
    Check(
        name="state",
        title="Pulumi state",
        about="No node group or add-on failed in the last `up`, and no operation was left without an end.",
        source="cluster",
        run=pulumi_state.check_state,
    ),
    Check(
        name="node-groups",
        title="Node groups",
        about="Each deployed node group is ACTIVE; one that is not is named, with what the next `up` does.",
        source="cluster",
        run=deployed.check_node_groups,
    ),
    Check(
        name="add-ons",
        title="Add-ons",
        about="Each deployed add-on is ACTIVE.",
        source="cluster",
        run=deployed.check_deployed_addons,
    ),
    Check(
        name="helm-releases",
        title="Helm releases",
        about="No Helm release is stuck in `pending-install`, `pending-upgrade` or `pending-rollback`.",
        source="cluster",
        run=releases.check_releases,
    ),
)


@dataclass(frozen=True, slots=True)
class Answered:
    """A finding, and the check that found it."""

    check: Check
    finding: Finding


def checks_for(case: Case) -> list[Check]:
    """The checks that make sense for what was named."""
    named = ("machine", "account") if case.stack is None else ("machine", "account", "stack", "cluster")
    return [check for check in CHECKS if check.source in named and check.applies(case)]


def examine(case: Case) -> list[Answered]:
    """Runs every check that applies; each answers, whatever happens to the others."""
    gate = threading.BoundedSemaphore(_at_once())
    started = [(check, _start(check, case, gate)) for check in checks_for(case)]
    return [Answered(check, finding) for check, future in started for finding in future.result()]


def _at_once() -> int:
    """One without boto3: a failing import in two threads at a time raises other errors than `ModuleNotFoundError`."""
    try:
        import boto3  # noqa: F401
    except ModuleNotFoundError:
        return 1
    return AT_ONCE


def _start(check: Check, case: Case, gate: threading.BoundedSemaphore) -> "Future[list[Finding]]":
    """Runs the check in a thread that ends with the program: Ctrl-C waits for no answer from AWS."""
    future: Future[list[Finding]] = Future()

    def work() -> None:
        try:
            with gate:
                future.set_result(_findings(check, case))
        except BaseException as error:
            future.set_exception(error)

    threading.Thread(target=work, daemon=True).start()
    return future


def _findings(check: Check, case: Case) -> list[Finding]:
    found: list[Finding] = []
    try:
        found.extend(_cleaned(finding) for finding in check.run(case))
    except ModuleNotFoundError as error:
        found.append(_cleaned(_unchecked(missing(error, "doctor"))))
    except CallError as error:
        found.append(_cleaned(unknown(SEE_CREDENTIALS) if error is case.access.error else _unchecked(str(error))))
    except machine.ProgramError as error:
        found.append(_cleaned(unknown(str(error), "Run it by hand to see why.")))
    except OSError as error:
        found.append(_cleaned(unknown(str(error))))
    except Exception as error:
        if not _is_of_aws(error):
            raise
        from tandem.deployed.aws.session import reason

        found.append(_cleaned(_unchecked(reason(error, case.region))))
    return found


def _is_of_aws(error: Exception) -> bool:
    try:
        from botocore.exceptions import BotoCoreError, ClientError
    except ModuleNotFoundError:
        return False
    return isinstance(error, BotoCoreError | ClientError)


def _unchecked(said: str) -> Finding:
    """What kept a check from its work, split into the reason and what to do."""
    found, stop, fix = said.partition(". ")
    return unknown(found, fix) if stop else unknown(said)


def _cleaned(finding: Finding) -> Finding:
    """The finding as one line without what steers a terminal: servers wrote parts of it."""
    return replace(finding, found=one_line(finding.found), fix=one_line(finding.fix))
