"""Every check, in the order of a person's search, and how to run them."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from typing import Literal

from sharing.printable import one_line, without_secrets
from tandem.doctor import (
    account,
    credentials,
    deployed,
    existing,
    machine,
    network,
    pulumi_state,
    registries,
    releases,
)
from tandem.doctor.case import Case
from tandem.doctor.finding import Finding, parts_of, unknown
from tandem.installation import missing
from tandem.terminal import CallError

SEE_CREDENTIALS = "needs AWS credentials"


@dataclass(frozen=True, slots=True)
class Check:
    """One check."""

    name: str
    """For machines, e.g. `aws-cli`."""
    title: str
    source: Literal["machine", "account", "stack", "cluster"]
    """Where it looks. Checks of a stack or its cluster run only for a named stack."""
    run: Callable[[Case], Iterator[Finding]]
    applies: Callable[[Case], bool] = lambda case: True

    @property
    def about(self) -> str:
        """Its description: the first sentence of the function's docstring."""
        return " ".join((self.run.__doc__ or "").partition("\n\n")[0].split())


CHECKS = (
    Check("python", "Python", "machine", machine.check_python),
    Check("pulumi", "Pulumi CLI", "machine", machine.check_pulumi),
    Check("aws-cli", "AWS CLI", "machine", machine.check_aws_cli),
    Check("credentials", "AWS credentials", "account", credentials.check_credentials),
    Check("region", "Region", "account", account.check_region, applies=lambda case: bool(case.region)),
    Check("quotas", "Quotas", "stack", account.check_quotas),
    Check("network", "Network", "stack", network.check_network, applies=network.uses_vpc),
    Check("offerings", "Instance types", "stack", account.check_offerings),
    Check("spot-role", "Role for spot", "stack", account.check_spot_role, applies=account.wants_spot),
    Check(
        "add-on-builds",
        "Add-on builds",
        "stack",
        account.check_addons,
        applies=lambda case: not case.has_existing_cluster,
    ),
    Check(
        "registry-logins", "Registry logins", "stack", registries.check_logins, applies=registries.pulls_from_registries
    ),
    Check("cluster", "Cluster", "cluster", deployed.check_cluster, applies=lambda case: not case.has_existing_cluster),
    Check(
        "existing-cluster",
        "Cluster",
        "cluster",
        existing.check_existing,
        applies=lambda case: case.has_existing_cluster,
    ),
    Check("state", "Pulumi state", "cluster", pulumi_state.check_state),
    Check("node-groups", "Node groups", "cluster", deployed.check_node_groups),
    Check(
        "add-ons",
        "Add-ons",
        "cluster",
        deployed.check_deployed_addons,
        applies=lambda case: not case.has_existing_cluster,
    ),
    Check("parking", "Parking", "cluster", deployed.check_parking, applies=deployed.has_schedules),
    Check("helm-releases", "Helm releases", "cluster", releases.check_releases),
)


@dataclass(frozen=True, slots=True)
class Answered:
    """A finding, and the check that found it."""

    check: Check
    finding: Finding


def checks_for(case: Case) -> list[Check]:
    """The checks that apply to the arguments."""
    named = ("machine", "account") if case.stack is None else ("machine", "account", "stack", "cluster")
    return [check for check in CHECKS if check.source in named and check.applies(case)]


def examine(case: Case) -> list[Answered]:
    """Runs every check that applies; each answers, whatever the others do."""
    return [Answered(check, finding) for check in checks_for(case) for finding in findings(check, case)]


def findings(check: Check, case: Case) -> list[Finding]:
    """What a check finds, or why it could not run."""
    found: list[Finding] = []
    try:
        with _explained(check, case):
            found.extend(check.run(case))
    except ModuleNotFoundError as error:
        found.append(unknown(*parts_of(missing(error, "doctor"))))
    except CallError as error:
        found.append(unknown(SEE_CREDENTIALS) if error is case.access.error else unknown(*parts_of(str(error))))
    except OSError as error:
        found.append(unknown(str(error)))
    # In one line, without control characters and passwords: servers and variables wrote parts of it.
    return [replace(each, text=without_secrets(one_line(each.text)), fix=one_line(each.fix)) for each in found]


def _explained(check: Check, case: Case) -> AbstractContextManager[None]:
    """AWS's errors as `AccountError`. Checks of the machine also run without boto3."""
    if check.source == "machine":
        return nullcontext()
    from tandem.aws.session import explained

    return explained(case.region)
