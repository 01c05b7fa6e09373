"""Rules of Kubernetes and Helm: reachable API servers, waiting, finalizers."""

from typing import Any

from sandbox.world import tokens
from sandbox.world.controllers import jobs, karpenter
from sandbox.world.controllers.helm import (
    custom_resources,
    custom_type,
    deletes_its_crds,
    forget,
    group_and_kind,
)
from sandbox.world.controllers.nodes import cluster_at
from sandbox.world.controllers.pods import chart, pods_of
from sandbox.world.controllers.scheduler import placed
from sandbox.world.controllers.storage import bound, untainted
from sandbox.world.entities import CloudError, Entity, value_at
from sandbox.world.rules.rule import CHANGE, CREATE, DELETE, UPDATE, Case, Moments, Refusal, Rule

DOCS = "https://kubernetes.io/docs/"
REASONS = DOCS + "reference/using-api/api-concepts/"
HELM = "https://helm.sh/docs/"
PROVIDER = "https://github.com/pulumi/pulumi-kubernetes/blob/master/provider/pkg/provider/provider.go"
FIRST_NAMESPACES = ("default", "kube-system")


def unreachable(cluster: str) -> CloudError:
    """The provider's error if no API server answers."""
    return CloudError("Unreachable", _unreachable(cluster), PROVIDER)


def _unreachable(server: str) -> str:
    problem = "configured Kubernetes cluster is unreachable: unable to load schema information from the API server"
    return f"{problem} ({server})"


def refuse_missing(token: str, identity: str) -> None:
    """Raises CloudError for a missing release: Helm fails to delete it, while `pulumi refresh` accepts it (seen)."""
    if token == tokens.RELEASE:
        raise CloudError("NotFound", f"uninstall: Release not loaded: {identity}: release: not found", PROVIDER)


def _not_there(case: Case) -> str | None:
    return None if cluster_at(case.entities, case.cluster) else _unreachable(case.cluster)


# Objects.


def namespace_of(case: Case) -> str:
    """Namespace of the object: `default` if none is given, also for kinds without a namespace."""
    given = case.inputs.get("namespace") if case.type == tokens.RELEASE else value_at(case.inputs, "metadata.namespace")
    return str(given or "default")


def name_of(case: Case) -> str:
    """Name of the object."""
    return str(case.inputs.get("name") if case.type == tokens.RELEASE else value_at(case.inputs, "metadata.name"))


def _no_namespace(case: Case) -> str | None:
    wanted = namespace_of(case)
    if wanted in FIRST_NAMESPACES:
        return None
    if any(entity.id == wanted for entity in case.entities.within(case.cluster, tokens.NAMESPACE)):
        return None
    return f'namespaces "{wanted}" not found'


def _same_object(case: Case) -> Entity | None:
    name, namespace = name_of(case), namespace_of(case)
    found = case.entities.within(case.cluster, case.type)
    return next((one for one in found if one.id in (name, f"{namespace}/{name}")), None)


def _taken(case: Case) -> str | None:
    found = _same_object(case)
    if found is None:
        return None
    if case.type == tokens.RELEASE:
        return "cannot re-use a name that is still in use"
    return f'{case.type.rpartition(":")[2].lower()}s "{name_of(case)}" already exists'


# Storage.


def _in_use(case: Case) -> str | None:
    pods = [entity for entity in case.entities.within(case.cluster, tokens.POD) if case.id in entity.outputs["claims"]]
    running = [one for one in pods if one.outputs["node"]]
    if not running:
        return None
    return (
        f'persistentvolumeclaims "{case.id}" is Terminating (kubernetes.io/pvc-protection): pod {running[0].id} uses it'
    )


def _bound(case: Case) -> str | None:
    for claim in case.entities.within(case.cluster, tokens.CLAIM):
        if bound(case.entities, claim.inputs) is case.entity:
            return (
                f'persistentvolumes "{case.id}" is Terminating (kubernetes.io/pv-protection): {claim.id} is bound to it'
            )
    return None


def _unbindable(case: Case) -> str | None:
    if bound(case.entities, case.inputs) is not None:
        return None
    return f"persistentvolumeclaim {name_of(case)} stays Pending: no persistent volumes available"


# Custom resources.


def is_custom(token: str) -> bool:
    """Whether a type needs a CRD."""
    group, _ = group_and_kind(token)
    # Built-in API groups have no domain, or one of Kubernetes.
    return "." in group and group != "helm.sh" and not group.endswith(".k8s.io")


def _no_crd(case: Case) -> str | None:
    if not is_custom(case.type):
        return None
    group, kind = group_and_kind(case.type)
    if any(custom_type(entity) == (group, kind) for entity in case.entities.within(case.cluster, tokens.CRD)):
        return None
    return f'the server could not find the requested resource: no matches for kind "{kind}" in group "{group}"'


# Releases.


def _unschedulable(case: Case) -> str | None:
    own = case.entity.key if case.entity else None
    # `skipAwait` becomes Helm's `--wait=false` (pulumi-kubernetes provider/pkg/provider/helm_release.go).
    pods = [] if case.inputs.get("skipAwait") else pods_of(case.inputs)
    namespace = namespace_of(case)
    found = placed(case.entities, case.cluster, namespace, pods, own)
    for pod, why in zip(pods, found, strict=True):
        if isinstance(why, str):
            release = f"Helm release {namespace}/{name_of(case)}"
            return f"{release}: context deadline exceeded; pod {pod.name} is Pending: {why}"
    return None


def _bare(case: Case) -> bool:
    return not any(untainted(node) for node in case.entities.within(case.cluster, tokens.NODE))


def _hook_before(case: Case) -> str | None:
    if chart(case.inputs) != "gpu-operator" or not _bare(case):
        return None
    job = "gpu-operator-cleanup-gpucluster"
    return f"uninstall: pre-delete hooks failed: timed out; Job {job} finds no node without a taint"


def _stay_uninstalling(case: Case) -> None:
    case.existing.outputs["status"] = {**case.existing.outputs["status"], "status": "uninstalling"}


def _stuck_crds(case: Case) -> str | None:
    if not deletes_its_crds(case.existing):
        return None
    for crd in case.entities.owned_by(case.existing, tokens.CRD):
        for custom in custom_resources(case.entities, crd):
            if why := karpenter.why_kept(case.entities, custom):
                return (
                    f"uninstall: context deadline exceeded: {custom.id} holds the CRD {crd.id} by its finalizer: {why}"
                )
    return None


def _forget_release(case: Case) -> None:
    """Deletes the release's record but not its CRDs."""
    forget(case.entities, case.existing)


# Jobs: Pulumi waits until they end, unless an annotation names another condition, and keeps failed ones.


def _awaited(refuses: Refusal) -> Refusal:
    """A refusal that Pulumi does not see unless it waits for the Job."""
    return lambda case: refuses(case) if jobs.is_awaited(case.inputs) else None


@_awaited
def _late(case: Case) -> str | None:
    return jobs.why_late(case.entities, case.cluster, namespace_of(case), name_of(case), case.inputs)


@_awaited
def _failed(case: Case) -> str | None:
    return jobs.why_failed(case.entities, case.cluster, namespace_of(case), name_of(case), case.inputs)


@_awaited
def _stays_failed(case: Case) -> str | None:
    """A Job that has ended never starts again, even if its inputs change."""
    why = jobs.failure_of(case.existing)
    return f"{case.id} failed to fully initialize or become live: {why}" if why else None


def _timeout(type: str, on: Moments, source: str, refuses: Refusal, **more: Any) -> Rule:
    return Rule((type,), on, "Timeout", source, refuses, **more)


STORAGE = DOCS + "concepts/storage/persistent-volumes/"
PROTECTION = STORAGE + "#storage-object-in-use-protection"
HOOKS = HELM + "topics/charts_hooks/"
DEFINITIONS = HELM + "chart_best_practices/custom_resource_definitions/"
JOBS = DOCS + "concepts/workloads/controllers/job/"
AWAITED = "https://github.com/pulumi/pulumi-kubernetes/blob/master/provider/pkg/await/job.go"
# A deletion asks for the object first, see `World._found`.
FIRST: tuple[Rule, ...] = (Rule((tokens.KUBERNETES,), CHANGE, "Unreachable", PROVIDER, _not_there),)
RULES: tuple[Rule, ...] = (
    Rule((tokens.KUBERNETES,), CREATE, "NotFound", REASONS, _no_crd),
    Rule((tokens.KUBERNETES,), CREATE, "NotFound", REASONS, _no_namespace),
    Rule((tokens.KUBERNETES,), CREATE, "AlreadyExists", REASONS, _taken),
    _timeout(tokens.CLAIM, CREATE, STORAGE + "#binding", _unbindable),
    _timeout(tokens.CLAIM, DELETE, PROTECTION, _in_use),
    _timeout(tokens.PERSISTENT_VOLUME, DELETE, PROTECTION, _bound),
    # pulumi-kubernetes keeps a failed release, and updates it next time (helm_release.go, partialError).
    _timeout(tokens.RELEASE, CHANGE, HELM + "helm/helm_install/ (--wait)", _unschedulable, done=True),
    _timeout(tokens.RELEASE, DELETE, HOOKS, _hook_before, leaves=_stay_uninstalling),
    _timeout(tokens.RELEASE, DELETE, DEFINITIONS, _stuck_crds, leaves=_forget_release),
    Rule((tokens.JOB,), CREATE, jobs.LATE, JOBS + "#job-termination-and-cleanup", _late, done=True),
    # The proof retries for some time, because the plugin needs time after a change of its config.
    Rule((tokens.JOB,), CREATE, jobs.FAILED, JOBS + "#pod-backoff-failure-policy", _failed, done=True),
    Rule((tokens.JOB,), UPDATE, "JobFailed", AWAITED, _stays_failed, done=True),
)
