"""Values of a stack file that are valid alone but conflict with each other."""

from collections.abc import Iterator

from sharing.aws.principals import judge_principal
from sharing.aws.tags import NODE, STACK, judge_tags
from sharing.problems import LIMIT, Problem
from sharing.section import kebab
from sharing.sections.cluster import FEWEST_ZONES, ClusterSettings
from sharing.sections.config import StackConfig
from sharing.sections.pools import GpuPool
from sharing.verdict import features
from sharing.verdict.rules.pool_names import find_wrong_names
from stacks.stack_file.models import judge_batch

OF_OWN_NETWORK = ("cidr", "nat", "zones", "zone_names")
"""Settings of a network that the stack creates."""
OF_OWN_CLUSTER = [name for name in ClusterSettings.model_fields if name not in ("existing", "kubernetes")]
"""Settings of a cluster that the stack creates, with its network."""


def find_contradictions(config: StackConfig) -> Iterator[Problem]:
    """Finds values that are valid alone but conflict with each other."""
    for pool in config.pools:
        # With `park`, the schedule sets the counts.
        yield from () if config.park else _count_contradictions(pool)
    yield from _repetitions(config)
    for pool in config.pools:
        if pool.on_demand_fallback and (pool.provisioner, pool.capacity) != ("karpenter", "spot"):
            rule = "has no effect without `provisioner: karpenter` and `capacity: spot`"
            yield Problem(f"{pool.path}.on-demand-fallback", "true", rule, "Remove it.")
    yield from _admin_contradictions(config)
    yield from _zone_contradictions(config.cluster)
    yield from _ownership_contradictions(config.cluster)
    yield from features.find_contradictions(config)
    yield from judge_tags(config.given_tags(), {*STACK, *NODE})
    yield from find_wrong_names(config)
    yield from _model_contradictions(config)


def _repetitions(config: StackConfig) -> Iterator[Problem]:
    """Finds duplicate entries of lists. EKS, for one, has one access entry for each principal."""
    lists = {
        **{f"{pool.path}.instance-types": pool.instance_types for pool in config.pools},
        "cluster.system-nodes.instance-types": config.cluster.system_nodes.instance_types,
        "cluster.admins": config.cluster.admins,
        "models-clients.namespaces": config.models_clients.namespaces,
        **_existing_ids(config.cluster),
    }
    for path, names in lists.items():
        for index, name in enumerate(names):
            if name in names[:index]:
                yield Problem(f"{path}[{index}]", f"'{name}'", "is listed twice", "Keep one of the two.")


def _existing_ids(cluster: ClusterSettings) -> dict[str, list[str]]:
    ids: dict[str, list[str]] = {}
    for name, existing in (("vpc", cluster.vpc), ("existing", cluster.existing)):
        if existing:
            lists = existing.model_dump(include={"subnets", "node_subnets", "security_groups"})
            ids |= {f"cluster.{name}.{kebab(key)}": listed for key, listed in lists.items()}
    return ids


def _admin_contradictions(config: StackConfig) -> Iterator[Problem]:
    admins = config.cluster.admins
    for arn in dict.fromkeys(admins):
        if problem := judge_principal(f"cluster.admins[{admins.index(arn)}]", arn, config.region):
            yield problem


def _count_contradictions(pool: GpuPool) -> Iterator[Problem]:
    if pool.desired > pool.max:
        rule = f"must be at most {pool.max} (`max`)"
        yield Problem(f"{pool.path}.desired", str(pool.desired), rule, f"Raise `max` to {pool.desired}.", LIMIT)
    if pool.desired and pool.min > pool.desired:
        rule = f"must be at most {pool.desired} (`desired`)"
        yield Problem(f"{pool.path}.min", str(pool.min), rule, "Write `min: 0`.", LIMIT)
    if not pool.desired and pool.min:
        yield Problem(
            f"{pool.path}.min", str(pool.min), "must be 0 for a parked pool (`desired: 0`)", "Write `min: 0`.", LIMIT
        )


def _zone_contradictions(cluster: ClusterSettings) -> Iterator[Problem]:
    path, names = "cluster.zone-names", cluster.zone_names
    if len(names) == 1:
        yield Problem(path, ", ".join(names), "is only one zone, and EKS needs two", "Add another zone.")
    elif names and "zones" in cluster.model_fields_set and cluster.zones != len(names):
        rule = f"is a list of {len(names)} zones, but `zones` is {cluster.zones}"
        yield Problem(path, "", rule, "Remove `zones`.")


def _ownership_contradictions(cluster: ClusterSettings) -> Iterator[Problem]:
    """Finds settings of what the stack would create, beside a network or cluster that exists."""
    owner = "existing" if cluster.existing else "vpc" if cluster.vpc else ""
    settings = {"vpc": OF_OWN_NETWORK, "existing": OF_OWN_CLUSTER}.get(owner, ())
    for field in (name for name in settings if name in cluster.model_fields_set):
        rule = f"has no effect beside `cluster.{owner}`, which exists"
        yield Problem(f"cluster.{kebab(field)}", "", rule, "Remove it.")
    if cluster.vpc and len(cluster.vpc.subnets) < FEWEST_ZONES:
        fix = "Add a subnet in another zone."
        yield Problem("cluster.vpc.subnets", ", ".join(cluster.vpc.subnets), "is one subnet, and EKS needs two", fix)


def _model_contradictions(config: StackConfig) -> Iterator[Problem]:
    ids = [served.id for served in config.models]
    for served in config.models:
        if served.id in ids[: served.index]:
            rule, fix = "is the id of another model", "Remove it, or write another id."
            yield Problem(f"{served.path}.id", served.id, rule, fix)
        yield from judge_batch(served)
