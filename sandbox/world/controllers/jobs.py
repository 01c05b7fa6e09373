"""Jobs: where their pods run, and how they end. CPU, memory and time are not modelled: running pods finish at once.

A proof's expectation is read from its pods' environment and compared with the node's shares.
"""

import json
from collections.abc import Iterator
from typing import Any

from sandbox.world import tokens
from sandbox.world.controllers import journal
from sandbox.world.controllers.plugin import advertised, labels_seen
from sandbox.world.controllers.pods import Values, pods_of_job
from sandbox.world.controllers.scheduler import placed
from sandbox.world.controllers.user_data import mps_directory
from sandbox.world.entities import Entities, Entity, value_at, values_at

REPLACE_UNREADY, WAIT_FOR = "pulumi.com/replaceUnready", "pulumi.com/waitFor"
PIPES = "CUDA_MPS_PIPE_DIRECTORY"
"""Variable with the directory of the MPS daemon of which a pod's process is a client."""
LATE, FAILED = "DeadlineExceeded", "BackoffLimitExceeded"
"""Reasons of a Job's condition `Failed`. https://kubernetes.io/docs/concepts/workloads/controllers/job/"""
MESSAGES = {
    LATE: "Job was active longer than specified deadline",
    FAILED: "Job has reached the specified backoff limit",
}


def why_late(entities: Entities, server: str, namespace: str, name: str, inputs: Values) -> str | None:
    """Why the pods do not run before the deadline. None if they run."""
    if (lacking := _lacking(entities, namespace, inputs)) is not None:
        return f"{MESSAGES[LATE]}; {lacking}"
    pods = pods_of_job(name, inputs)
    for pod, where in zip(pods, _places(entities, server, namespace, name, inputs), strict=True):
        if isinstance(where, str):
            return f"{MESSAGES[LATE]}; pod {pod.name} is Pending: {where}"
    return None


def why_failed(entities: Entities, server: str, namespace: str, name: str, inputs: Values) -> str | None:
    """Why running pods fail: the node does not have the shares that they expect. None if they succeed."""
    expected = _expectation(inputs)
    resources = {resource for pod in pods_of_job(name, inputs) for resource in pod.needs}
    for node in _places(entities, server, namespace, name, inputs):
        if not isinstance(node, Entity):
            continue
        found = [*_without_daemon(node, expected, inputs), *_differences(entities, node, expected, resources)]
        if found:
            return f"{MESSAGES[FAILED]}; expected: {expected.get('summary')}; node {node.id}: {'; '.join(found)}"
    return None


def run(entities: Entities, job: Entity) -> None:
    """Completes a new Job. Afterwards, its pods use no resources.

    A Job for which Pulumi does not wait stays active until its pods can run. A suspended Job has no pods.
    """
    if value_at(job.inputs, "spec.suspend"):
        job.outputs["status"] = {"conditions": [{"type": "Suspended"}]}
        return
    given = (entities, job.cluster, job.namespace, str(value_at(job.outputs, "metadata.name")), job.inputs)
    pods = pods_of_job(given[3], job.inputs)
    if not is_awaited(job.inputs) and why_late(*given) is not None:
        job.outputs["status"] = {"active": len(pods)}
        return
    for reason, why in ((LATE, why_late(*given)), (FAILED, why_failed(*given))):
        if why is not None:
            job.outputs["status"] = {"conditions": [{"type": "Failed", "reason": reason, "message": why}]}
            return
    job.outputs["status"] = {"succeeded": len(pods), "conditions": [{"type": "Complete"}]}
    nodes = {one.id: one for one in placed(entities, job.cluster, job.namespace, pods) if isinstance(one, Entity)}
    for node in nodes.values():
        journal.note_proof(entities, job, node)


def is_awaited(inputs: Values) -> bool:
    """Whether Pulumi waits until a Job has succeeded. An annotation can name another condition, which is met at once.

    Source: pulumi-kubernetes provider/pkg/metadata/overrides.go, ReadyCondition.
    """
    return WAIT_FOR not in (value_at(inputs, "metadata.annotations") or {})


def failure_of(job: Entity) -> str | None:
    """Why a Job has failed. None if it has not failed."""
    conditions = values_at(job.outputs, "status.conditions")
    return next((f"{one['reason']}: {one['message']}" for one in conditions if one["type"] == "Failed"), None)


def is_replaced(entities: Entities, inputs: Values) -> bool:
    """Whether an update without changes still replaces the Job, because it has not completed.

    Source: pulumi-kubernetes provider/pkg/provider/provider.go, Diff.
    """
    if (value_at(inputs, "metadata.annotations") or {}).get(REPLACE_UNREADY) != "true":
        return False
    namespace, name = value_at(inputs, "metadata.namespace") or "default", value_at(inputs, "metadata.name")
    job = entities.get(tokens.JOB, f"{namespace}/{name}")
    return job is not None and "Complete" not in values_at(job.outputs, "status.conditions.type")


def _places(entities: Entities, server: str, namespace: str, name: str, inputs: Values) -> list[Entity | str]:
    return placed(entities, server, namespace, pods_of_job(name, inputs))


def _lacking(entities: Entities, namespace: str, inputs: Values) -> str | None:
    """Why pods cannot be created or started: a missing ServiceAccount or ConfigMap. None if neither is missing."""
    pod = value_at(inputs, "spec.template.spec") or {}
    account = pod.get("serviceAccountName") or "default"
    if account != "default" and entities.get(tokens.SERVICE_ACCOUNT, f"{namespace}/{account}") is None:
        return f'pods are forbidden: error looking up service account {namespace}/{account}: "{account}" not found'
    for name in values_at(pod, "volumes.configMap.name"):
        if entities.get(tokens.CONFIG_MAP, f"{namespace}/{name}") is None:
            return f'pods are ContainerCreating: configmap "{name}" not found'
    return None


def _expectation(inputs: Values) -> dict[str, Any]:
    """The expectation of the pods; empty for a Job that is not a share proof."""
    expected: dict[str, Any] = json.loads(_variable(inputs, "EXPECTATION") or "{}")
    return expected


def _variable(inputs: Values, name: str) -> str:
    """A variable of the pods; empty if they do not have it."""
    variables = values_at(inputs, "spec.template.spec.containers.env")
    return next((str(one["value"]) for one in variables if one.get("name") == name), "")


def _without_daemon(node: Entity, expected: dict[str, Any], inputs: Values) -> Iterator[str]:
    """Finding of pods with limits of their own: in the directory that they name and mount, no MPS daemon answers."""
    if not expected.get("own_limits"):
        return
    pipes = _variable(inputs, PIPES)
    mounted = values_at(inputs, "spec.template.spec.containers.volumeMounts.mountPath")
    if pipes not in mounted or pipes != mps_directory(node):
        yield f"no MPS daemon at {pipes}"


def _differences(entities: Entities, node: Entity, expected: dict[str, Any], resources: set[str]) -> Iterator[str]:
    """Findings of the proof's pods: the pod that reads the node, and the pods on shares of these resources."""
    offers, labels = advertised(entities, node), labels_seen(entities, node)
    shares = expected.get("shares")
    counts = {**expected.get("allocatable", {}), **(dict.fromkeys(resources, shares) if shares else {})}
    for resource, count in counts.items():
        found = offers[resource].count if resource in offers else "no"
        if found != count:
            yield f"it advertises {found} {resource}, expected {count}"
    for label, value in expected.get("labels", {}).items():
        if labels.get(label) != value:
            yield f"its label {label} is {labels.get(label, 'missing')}, expected {value}"
    for resource in sorted(resources & offers.keys()):
        limits = [] if expected.get("own_limits") else expected.get("limits_mib")
        if limits and offers[resource].strategy != "mps":
            yield f"a process allocated more than the {min(limits):,} MiB of its share of {resource}"
