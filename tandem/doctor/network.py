"""The check of a VPC that the stack does not own."""

from collections.abc import Iterator

from sharing.existing.vpc import judge_network, network_of
from tandem.doctor.case import Case
from tandem.doctor.finding import Finding, ok, stops, warning


def check_network(case: Case) -> Iterator[Finding]:
    """The VPC in the stack file has what cluster and nodes need."""
    from tandem.aws.network import read_vpc

    config = case.planned_stack.plan.config.changed(region=case.region)
    assert config.cluster.vpc, "the check runs only for a stack with a VPC"
    network = network_of(config.cluster.vpc)
    home = case.cluster["resourcesVpcConfig"]["vpcId"] if case.cluster else ""
    problems = judge_network(network, read_vpc(case.account(), network), config, deployed_in=home)
    for found, ones in zip((stops, warning), problems, strict=True):
        yield from (found(f"{problem.path}: {problem.sentence}", problem.fix) for problem in ones)
    if not any(problems):
        yield ok(f"{network.vpc} has what the stack needs")


def uses_vpc(case: Case) -> bool:
    """Whether the stack file names a VPC."""
    return case.planned_stack.plan.config.cluster.vpc is not None
