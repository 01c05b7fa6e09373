"""Our Karpenter objects for the provider of fake nodes (KWOK), and the features that only AWS's provider has.

KWOK has its own node class, knows AWS's labels only once a node exists, and forgets an overlay's resources as soon as
it has created a node.
"""

from collections.abc import Mapping
from typing import Any

from sandbox.world.controllers.hardware import rows
from tests.control_plane.api import Object
from tests.control_plane.karpenter_types import AWS, GPU_COUNT, INSTANCE_TYPE

GROUP = "karpenter.kwok.sh"
NODE_CLASS = "KWOKNodeClass"


def translated(manifest: Object) -> dict[str, Any]:
    """The object with the provider's node class for an EC2NodeClass, and instance types for a number of GPUs.

    Objects of other kinds are returned as they are. Raises `ValueError` for a rule that has no equivalent.
    """
    name = manifest["metadata"]["name"]
    if manifest["kind"] == "EC2NodeClass":
        return {"apiVersion": f"{GROUP}/v1alpha1", "kind": NODE_CLASS, "metadata": {"name": name}, "spec": {}}
    if manifest["kind"] != "NodePool":
        return dict(manifest)
    template = manifest["spec"]["template"]
    spec = {
        **template["spec"],
        "nodeClassRef": {"group": GROUP, "kind": NODE_CLASS, "name": template["spec"]["nodeClassRef"]["name"]},
        "requirements": [_resolved(rule) for rule in template["spec"]["requirements"]],
    }
    return {**manifest, "spec": {**manifest["spec"], "template": {**template, "spec": spec}}}


def _resolved(rule: Mapping[str, Any]) -> Mapping[str, Any]:
    if not rule["key"].startswith(AWS):
        return rule
    if (rule["key"], rule["operator"]) != (GPU_COUNT, "In"):
        raise ValueError(f"{rule['key']} {rule['operator']}: only numbers of GPUs are followed, with In")
    names = [row["instance_type"] for row in rows() if row["gpu"] and row["gpus"] in rule["values"]]
    return {"key": INSTANCE_TYPE, "operator": "In", "values": names}


_OVERLAID = """
params.spec.requirements.all(rule, rule.operator == 'In'
    && object.metadata.?labels[?rule.key].orValue('') in rule.values)
&& has(object.status.capacity) && has(object.status.allocatable)
? params.spec.?capacity.orValue({}).map(name,
      JSONPatch{op: 'add', path: '/status/capacity/' + jsonpatch.escapeKey(name), value: params.spec.capacity[name]})
  + params.spec.?capacity.orValue({}).map(name,
      JSONPatch{op: 'add', path: '/status/allocatable/' + jsonpatch.escapeKey(name), value: params.spec.capacity[name]})
: []
"""
_NO_DEVICES = """
['capacity', 'allocatable'].map(part,
    (part == 'capacity' ? object.status.capacity : object.status.allocatable).filter(name, name.contains('/')).map(name,
        JSONPatch{op: 'remove', path: '/status/' + part + '/' + jsonpatch.escapeKey(name)})).flatten()
"""


def policies() -> list[dict[str, Any]]:
    """Policies with which the API server at once does the work of AWS's provider and kubelet.

    A NodeClaim is created with what the overlays declare (karpenter-provider-aws pkg/cloudprovider/cloudprovider.go,
    Create), and a node has no devices until a plugin offers some. A client of ours would do both too late for a
    scheduler that looks every second.
    """
    return [
        *_policy(
            "karpenter-overlays",
            resource=("karpenter.sh", "nodeclaims/status"),
            operation="UPDATE",
            patches=_OVERLAID,
            for_each=("karpenter.sh/v1alpha1", "NodeOverlay"),
        ),
        *_policy(
            "karpenter-nodes-without-devices",
            resource=("", "nodes"),
            operation="CREATE",
            patches=_NO_DEVICES,
            only_if="object.metadata.?labels['kwok.x-k8s.io/node'].orValue('') == 'fake'",
        ),
    ]


def _policy(
    name: str,
    *,
    resource: tuple[str, str],
    operation: str,
    patches: str,
    for_each: tuple[str, str] | None = None,
    only_if: str | None = None,
) -> list[dict[str, Any]]:
    """A policy and its binding, which applies it once for each object of the kind `for_each`."""
    rule = {"apiGroups": [resource[0]], "apiVersions": ["v1"], "resources": [resource[1]], "operations": [operation]}
    spec: dict[str, Any] = {
        "failurePolicy": "Fail",
        "reinvocationPolicy": "Never",
        "matchConstraints": {"resourceRules": [rule]},
        "mutations": [{"patchType": "JSONPatch", "jsonPatch": {"expression": patches}}],
    }
    binding: dict[str, Any] = {"policyName": name}
    if for_each:
        spec["paramKind"] = dict(zip(("apiVersion", "kind"), for_each, strict=True))
        binding["paramRef"] = {"selector": {}, "parameterNotFoundAction": "Allow"}
    if only_if:
        spec["matchConditions"] = [{"name": "only-if", "expression": only_if}]
    version, metadata = "admissionregistration.k8s.io/v1", {"name": name}
    return [
        {"apiVersion": version, "kind": "MutatingAdmissionPolicy", "metadata": metadata, "spec": spec},
        {"apiVersion": version, "kind": "MutatingAdmissionPolicyBinding", "metadata": metadata, "spec": binding},
    ]
