"""Values of a stack file that are valid alone but conflict with each other."""

from collections.abc import Iterator

from sharing.aws.principals import judge_principal
from sharing.aws.tags import NODE, STACK, judge_tags
from sharing.models.catalogue import DEFAULT_TAG, full_name, models
from sharing.models.served import OF_CUSTOM
from sharing.problems import Problem, did_you_mean
from sharing.stack.cluster import ClusterSettings
from sharing.stack.config import StackConfig, pool_name
from sharing.stack.pools import GpuNodes
from stacks.stack_file.clients import find_repetitions
from stacks.stack_file.park_schedules import find_counts_of_schedule, find_wrong_schedules


def find_contradictions(config: StackConfig) -> Iterator[Problem]:
    """Finds values that are valid alone but conflict with each other."""
    pools = config.pools()
    for path, nodes in pools.items():
        if config.park:
            yield from find_counts_of_schedule(path, nodes)
        else:
            yield from _count_contradictions(path, nodes)
    types = {f"{path}.instance-types": nodes.instance_types for path, nodes in pools.items()}
    types["cluster.system-nodes.instance-types"] = config.cluster.system_nodes.instance_types
    for path, names in types.items():
        for index, name in enumerate(names):
            if name in names[:index]:
                yield Problem(f"{path}[{index}]", f"'{name}'", "is listed twice", "Keep one of the two.")
    for path, nodes in pools.items():
        if nodes.on_demand_fallback and (nodes.provisioner, nodes.capacity) != ("karpenter", "spot"):
            rule = "has no effect without `provisioner: karpenter` and `capacity: spot`"
            yield Problem(f"{path}.on-demand-fallback", "true", rule, "Remove it.")
    yield from _admin_contradictions(config)
    yield from find_repetitions(config.models_clients)
    yield from _repeated_emails(config)
    yield from _sleep_contradictions(config)
    yield from _ui_contradictions(config)
    yield from _zone_contradictions(config.cluster)
    yield from find_wrong_schedules(config.park)
    yield from judge_tags(config.given_tags(), {*STACK, *NODE})
    yield from _pool_contradictions(config)
    yield from _model_contradictions(config)


def _sleep_contradictions(config: StackConfig) -> Iterator[Problem]:
    """Finds sections that cannot work while models scale to zero."""
    if not config.scale_to_zero.enabled:
        return
    if config.park:
        rule = "conflicts with `scale-to-zero`: a model that `park` wakes without a request stops at once"
        yield Problem("park", "", rule, "Remove `park`: idle models have no nodes.")
    if config.ui.enabled:
        rule = "conflicts with `scale-to-zero`: the page lists only models that run, so nobody could start one there"
        yield Problem("ui.enabled", "", rule, "Write `ui.enabled: false`, or `scale-to-zero.enabled: false`.")


def _admin_contradictions(config: StackConfig) -> Iterator[Problem]:
    admins = config.cluster.admins
    for index, arn in enumerate(admins):
        path = f"cluster.admins[{index}]"
        if arn in admins[:index]:
            # EKS: one access entry for each principal.
            yield Problem(path, f"'{arn}'", "is listed twice", "Keep one of the two.")
        elif problem := judge_principal(path, arn, config.region):
            yield problem


def _ui_contradictions(config: StackConfig) -> Iterator[Problem]:
    if not config.ui.enabled:
        return
    if not config.ui.admin_email:
        fix = "Write `admin-email: ops@example.com`, for example."
        yield Problem("ui.admin-email", "", "is missing: the page needs an administrator", fix)
    served = [settings.model() for settings in config.models]
    if all(model is not None and model.encoder for model in served):
        rule = "has no model to chat with: all `models` compute embeddings"
        yield Problem("ui.enabled", "true", rule, "Add a model, or remove `ui`.")


def _repeated_emails(config: StackConfig) -> Iterator[Problem]:
    emails = config.budget.alert.emails if config.budget.alert else []
    for index, email in enumerate(emails):
        if email in emails[:index]:
            yield Problem(f"budget.alert.emails[{index}]", "", "is listed twice", "Keep one of the two.")


def _count_contradictions(path: str, nodes: GpuNodes) -> Iterator[Problem]:
    if nodes.desired > nodes.max:
        rule = f"must be at most {nodes.max} (`max`)"
        yield Problem(f"{path}.desired", str(nodes.desired), rule, f"Raise `max` to {nodes.desired}.")
    if nodes.desired and nodes.min > nodes.desired:
        rule = f"must be at most {nodes.desired} (`desired`)"
        yield Problem(f"{path}.min", str(nodes.min), rule, "Write `min: 0`.")
    if not nodes.desired and nodes.min:
        yield Problem(f"{path}.min", str(nodes.min), "must be 0 for a parked pool (`desired: 0`)", "Write `min: 0`.")


def _zone_contradictions(cluster: ClusterSettings) -> Iterator[Problem]:
    path, names = "cluster.zone-names", cluster.zone_names
    if len(names) == 1:
        yield Problem(path, ", ".join(names), "is only one zone, and EKS needs two", "Add another zone.")
    elif names and "zones" in cluster.model_fields_set and cluster.zones != len(names):
        rule = f"is a list of {len(names)} zones, but `zones` is {cluster.zones}"
        yield Problem(path, "", rule, "Remove `zones`.")


def _pool_contradictions(config: StackConfig) -> Iterator[Problem]:
    """Finds duplicate names of pools, and models on no pool or on an unknown one."""
    names = {path: pool_name(nodes) for path, nodes in config.pools().items()}
    pools = list(dict.fromkeys(names.values()))
    for index, (path, name) in enumerate(names.items()):
        if name in [*names.values()][:index]:
            yield Problem(f"{path}.name", name, "is the name of another pool", "Give each pool its own name.")
    for index, settings in enumerate(config.models):
        path = f"models[{index}].pool"
        if settings.pool is None and len(names) > 1:
            fix = f"Write the name of a pool. Known: {', '.join(pools)}."
            yield Problem(path, "", "is missing, and the stack has several pools", fix)
        elif settings.pool is not None and settings.pool not in pools:
            yield Problem(path, f"'{settings.pool}'", "unknown pool", did_you_mean(settings.pool, pools))
    yield from _spill_contradictions(config, pools)


def _spill_contradictions(config: StackConfig, pools: list[str]) -> Iterator[Problem]:
    """Finds pools of `spill` that are unknown, the model's own, or listed twice."""
    for index, settings in enumerate(config.models):
        for place, name in enumerate(settings.spill):
            path = f"models[{index}].spill[{place}]"
            if name not in pools:
                yield Problem(path, f"'{name}'", "unknown pool", did_you_mean(name, pools))
            elif name == (settings.pool or pools[0]):
                yield Problem(path, name, "is the model's own pool", "Remove it.")
            elif name in settings.spill[:place]:
                yield Problem(path, name, "is listed twice", "Keep one of the two.")


def _model_contradictions(config: StackConfig) -> Iterator[Problem]:
    ids = [settings.id for settings in config.models]
    for index, settings in enumerate(config.models):
        path = f"models[{index}]"
        if settings.id and settings.id in ids[:index]:
            yield Problem(f"{path}.id", settings.id, "is the id of another model", "Remove it, or write another id.")
        wrong = list(settings.contradictions(path))
        yield from wrong
        if not wrong and settings.model() is None:
            fix = f"{did_you_mean(settings.name, models())} {OF_CUSTOM}"
            yield Problem(f"{path}.name", _as_ollama_reads(settings.name), "unknown model", fix)


def _as_ollama_reads(name: str) -> str:
    """A name that the catalogue lacks. Without a tag it means `latest`, which may be the only tag that is missing."""
    full = full_name(name)
    is_completed = full.endswith(f":{DEFAULT_TAG}") and not name.endswith(f":{DEFAULT_TAG}")
    return f"'{name}' ({full} in Ollama)" if is_completed else f"'{name}'"
