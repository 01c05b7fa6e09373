"""Check of a stack's schedules: only their queue has the reason of a call that EKS refused."""

from collections.abc import Iterator

from tandem.doctor.case import NOT_DEPLOYED, Case
from tandem.doctor.finding import Finding, ok, warning

SHOWN = 3


def has_schedules(case: Case) -> bool:
    """Whether the stack has node groups and the section `park`."""
    setup = case.planned_stack.plan.setup
    return setup.park is not None and any(pool.provisioner == "node-group" for pool in setup.pools)


def check_parking(case: Case) -> Iterator[Finding]:
    """The schedules of the section `park` have had no failure in 14 days."""
    from tandem.aws import parked_nodes

    if case.cluster is None:
        yield ok(NOT_DEPLOYED)
        return
    stack = case.planned_stack.name
    failures = parked_nodes.find_failures(case.account(), stack)
    for failure in failures[:SHOWN]:
        yield warning(
            f"{failure.verb} of {failure.group} failed on {failure.at:%Y-%m-%d %H:%M} UTC: {failure.code} "
            f"({failure.message})",
            f"Remove the cause, then run `tandem {failure.verb} {stack}`.",
        )
    if not failures:
        yield ok("no schedule has failed in 14 days")
