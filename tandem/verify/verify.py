"""Checks a stack until every check passes, or time is up."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from sharing.names import DEVICE_PLUGIN_NAMESPACE, KEDA_NAMESPACE, OLLAMA_NAMESPACE
from sharing.verdict.features.scale_to_zero import sleepers
from tandem.deployed.connection import Connected, Reach, forwards
from tandem.deployed.endpoints import NotConnectedError
from tandem.deployed.objects import Facts, is_ready, nodes_of, pod_of
from tandem.deployed.ollama import servers_of
from tandem.deployed.patience import Patience
from tandem.deployed.planned import daemons_of
from tandem.verify.checks import Check, model_checks, pool_checks, server_checks, stack_checks
from tandem.verify.overfill import overfill
from tandem.verify.servers import Server, examine
from tandem.verify.sleep import asleep, nodes_due, sleep_check, waker_checks

SCHEMA_VERSION = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """Every check, with what was found."""

    stack: str
    cluster: str
    """Host of the API server."""
    checks: Sequence[Check]
    waited_s: float

    @property
    def broken(self) -> list[Check]:
        """Failed checks, causes before effects."""
        return [check for check in self.checks if check.held is False]

    @property
    def holds(self) -> bool:
        """Whether no check failed."""
        return not self.broken

    def as_dict(self) -> dict[str, Any]:
        """For `--json`."""
        return {
            "schema_version": SCHEMA_VERSION,
            "stack": self.stack,
            "cluster": self.cluster,
            "verdict": "holds" if self.holds else "broken",
            "waited_s": round(self.waited_s, 1),
            "first_broken": _as_dict(self.broken[0]) if self.broken else None,
            "checks": [_as_dict(check) for check in self.checks],
        }


def _as_dict(check: Check) -> dict[str, Any]:
    """A check for JSON; with its fix only if it failed."""
    # The key keeps its first name (docs/decisions/0149).
    shown = {"promised" if key == "expected" else key: value for key, value in asdict(check).items()}
    return {**shown, "fix": check.fix if check.held is False else ""}


def verify(connected: Connected, *, patience: Patience, overfill: bool = False, reach: Reach = forwards) -> Verdict:
    """Compares a stack with its file, repeatedly while patience lasts.

    Raises `NotConnectedError` if the cluster cannot be reached; while waiting, only if that is permanent.
    """
    while True:
        try:
            checks = list(look(connected, patience.tell, reach))
        except NotConnectedError as error:
            if not error.passing or not patience.lasts(str(error)):
                raise
        else:
            broken = [check for check in checks if check.held is False]
            if not broken or not patience.lasts(_progress(checks, broken[0])):
                break
    if overfill:
        patience.tell("Starting one pod too many …")
        checks += _overfilled(connected, checks)
    return Verdict(stack=connected.plan.stack, cluster=connected.cluster.host, checks=checks, waited_s=patience.waited)


def look(connected: Connected, tell: Callable[[str], None], reach: Reach) -> Iterator[Check]:
    """Checks everything once: causes before effects."""
    plan = connected.plan
    yield from stack_checks(plan, connected.outputs)
    tell("Checking nodes and pods …")
    facts = facts_of(connected)
    sleeping = asleep(plan, facts)
    for pool in plan.config.pools:
        yield from pool_checks(plan, pool, nodes_due(plan, pool, sleeping), facts)
    if sleepers(plan.config):
        yield from waker_checks(plan.stack, facts)
    pods = {fit.served.id: pod_of(fit.served.id, facts.pods) for fit in plan.verdict.fits if fit.pool.desired}
    ready = [id for id, pod in pods.items() if pod and is_ready(pod) and id not in sleeping]
    servers = _examined(connected, ready, tell, reach) if ready else {}
    for fit in plan.verdict.fits:
        if fit.served.id in sleeping:
            yield sleep_check(fit.served.id)
            continue
        yield from model_checks(plan, fit, facts)
        yield from server_checks(plan, fit, servers.get(fit.served.id))


def facts_of(connected: Connected) -> Facts:
    """The current state of the stack in Kubernetes."""
    cluster, config = connected.cluster, connected.plan.config
    namespaces = {daemon.namespace for pool in config.pools for daemon in daemons_of(pool)}
    has_mps = any(pool.sharing.needs_mps_daemon for pool in config.pools)
    homes = [*([KEDA_NAMESPACE] if sleepers(config) else []), OLLAMA_NAMESPACE]
    return Facts(
        nodes=cluster.nodes(),
        daemon_sets={namespace: cluster.daemon_sets(namespace) for namespace in sorted(namespaces)},
        pods=cluster.pods(OLLAMA_NAMESPACE),
        mps_pods=cluster.pods(DEVICE_PLUGIN_NAMESPACE) if has_mps else (),
        deployments=[each for namespace in homes for each in cluster.deployments(namespace)],
    )


def _examined(connected: Connected, ids: Sequence[str], tell: Callable[[str], None], reach: Reach) -> dict[str, Server]:
    tell(f"Loading {' and '.join(ids)} …")
    with servers_of(connected, reach) as servers:
        return examine({id: servers[id] for id in ids})


def _overfilled(connected: Connected, checks: Sequence[Check]) -> Iterator[Check]:
    """Only for a pool that passes its other checks: otherwise a wrong number of shares would be reported twice."""
    nodes = connected.cluster.nodes()
    for pool in connected.plan.config.pools:
        about = f"pool {pool.name}"
        broken = any(check.held is False for check in checks if check.about == about)
        if connected.plan.config.nodes_of(pool) and not broken:
            registry = connected.plan.config.registry
            yield from overfill(
                connected.cluster, pool, nodes_of(pool.name, nodes), OLLAMA_NAMESPACE, registry=registry
            )
        else:
            why = "not tried: another check of the pool failed" if broken else "not tried: the pool is parked"
            yield Check(about=about, what="one pod too many stays Pending", held=None, expected="Pending", found=why)


def _progress(checks: Sequence[Check], first: Check) -> str:
    held = sum(check.held is True for check in checks)
    return f"{held} of {len(checks)} checks passed; waiting for {first.about}, {first.what}: {first.found}"
