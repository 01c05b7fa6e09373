"""Checks of a cluster that the stack uses but does not own."""

from collections.abc import Iterator

from sharing.existing.cluster import ClusterFacts, There, judge_cluster, not_described, not_found, warn_of_cluster
from sharing.existing.objects import read_installed
from sharing.existing.vpc import judge_network, network_around
from tandem.deployed.endpoints import NotConnectedError
from tandem.doctor.case import Case
from tandem.doctor.finding import Finding, ok, parts_of, stops, unknown, warning
from tandem.doctor.releases import access


def check_existing(case: Case) -> Iterator[Finding]:
    """The cluster that exists suits the stack, with everything that is installed there."""
    from tandem.aws.network import read_vpc
    from tandem.aws.session import DENIED, code
    from tandem.deployed.kubernetes import cluster

    plan, existing = case.planned_stack.plan, case.planned_stack.plan.config.cluster.existing
    assert existing, "the check runs only for a stack in such a cluster"
    try:
        raw = case.cluster
    except Exception as error:
        if code(error) not in DENIED:
            raise
        problem = not_described(plan.cluster_name, code(error))
        yield stops(f"{problem.path}: {problem.sentence}", problem.fix)
        return
    if raw is None:
        problem = not_found(plan.cluster_name, case.region)
        yield stops(f"{problem.path}: {problem.sentence}", problem.fix)
        return
    installed = None
    if raw["status"] == "ACTIVE":
        try:
            with cluster(access(raw, case)) as reached:
                installed = read_installed(reached.read)
        except NotConnectedError as error:
            yield unknown(*parts_of(str(error)))
    place = raw["resourcesVpcConfig"]
    network = network_around(
        existing, place["vpcId"], place["subnetIds"], has_private_api=bool(place.get("endpointPrivateAccess"))
    )
    facts = ClusterFacts(
        name=raw["name"],
        status=raw["status"],
        version=raw["version"],
        authentication=(raw.get("accessConfig") or {}).get("authenticationMode", "CONFIG_MAP"),
        is_automatic=bool((raw.get("computeConfig") or {}).get("enabled")),
        ip_family=(raw.get("kubernetesNetworkConfig") or {}).get("ipFamily", "ipv4"),
        installed=installed,
    )
    problems = [*judge_cluster(facts, plan.config, plan.stack)]
    home = network.vpc if installed and There(installed, plan.config, plan.stack).is_deployed else ""
    errors, doubts = judge_network(network, read_vpc(case.account(), network), plan.config, deployed_in=home)
    problems += errors
    yield from (stops(f"{each.path}: {each.sentence}", each.fix) for each in problems)
    yield from (
        warning(f"{each.path}: {each.sentence}", each.fix)
        for each in (*warn_of_cluster(facts, plan.config, plan.stack), *doubts)
    )
    if installed and not problems:
        yield ok(f"{facts.name} suits the stack")
