"""Our Karpenter objects for the provider of fake nodes (KWOK), and what AWS's provider does that it does not.

It has a node class of its own, knows labels of AWS only once a node is there, and forgets what an overlay promises
as soon as it has bought a node.
"""

from collections.abc import Callable, Mapping
from typing import Any

from tests.control_plane.api import Object
from tests.control_plane.karpenter_types import AWS, INSTANCE_TYPE, aws_labels

GROUP = "karpenter.kwok.sh"
NODE_CLASS = "KWOKNodeClass"
Rule = Mapping[str, Any]
_HOLDS: dict[str, Callable[[str | None, list[str]], bool]] = {
    "In": lambda value, wanted: value in wanted,
    "NotIn": lambda value, wanted: value not in wanted,
    "Exists": lambda value, _: value is not None,
    "DoesNotExist": lambda value, _: value is None,
    "Gt": lambda value, wanted: value is not None and int(value) > int(wanted[0]),
    "Gte": lambda value, wanted: value is not None and int(value) >= int(wanted[0]),
    "Lt": lambda value, wanted: value is not None and int(value) < int(wanted[0]),
    "Lte": lambda value, wanted: value is not None and int(value) <= int(wanted[0]),
}


def translated(manifest: Object) -> dict[str, Any]:
    """The object with the provider's node class for an EC2NodeClass, and instance types for AWS's labels.

    Objects of other kinds are returned as they are. Raises `ValueError` where no instance type of the catalogue has
    what is asked for, or where a rule cannot be said in other words.
    """
    known = {"EC2NodeClass": _node_class, "NodePool": _node_pool, "NodeOverlay": _node_overlay}
    return known.get(manifest["kind"], dict)(manifest)


def _node_class(manifest: Object) -> dict[str, Any]:
    name = manifest["metadata"]["name"]
    return {"apiVersion": f"{GROUP}/v1alpha1", "kind": NODE_CLASS, "metadata": {"name": name}, "spec": {}}


def _node_pool(manifest: Object) -> dict[str, Any]:
    template = manifest["spec"]["template"]
    spec = {
        **template["spec"],
        "nodeClassRef": {"group": GROUP, "kind": NODE_CLASS, "name": template["spec"]["nodeClassRef"]["name"]},
        "requirements": _resolved(manifest, template["spec"]["requirements"]),
    }
    return {**manifest, "spec": {**manifest["spec"], "template": {**template, "spec": spec}}}


def _node_overlay(manifest: Object) -> dict[str, Any]:
    rules = _resolved(manifest, manifest["spec"]["requirements"])
    for rule in rules:
        if rule["operator"] != "In":
            raise ValueError(f"{_told(manifest)}: {_said(rule)}: overlays are only followed with In")
    return {**manifest, "spec": {**manifest["spec"], "requirements": rules}}


def _resolved(manifest: Object, rules: list[Rule]) -> list[Rule]:
    """The rules with one on instance types in place of those on AWS's labels."""
    on_labels = [rule for rule in rules if rule["key"].startswith(AWS)]
    if not on_labels:
        return list(rules)
    for rule in on_labels:
        if "minValues" in rule:
            raise ValueError(f"{_told(manifest)}: {_said(rule)}: minValues cannot be said of instance types")
    names = [name for name, labels in aws_labels().items() if all(_holds(rule, labels) for rule in on_labels)]
    if not names:
        raise ValueError(f"{_told(manifest)}: no instance type has {' and '.join(map(_said, on_labels))}")
    others = [rule for rule in rules if rule not in on_labels]
    return [*others, {"key": INSTANCE_TYPE, "operator": "In", "values": names}]


def _holds(rule: Rule, labels: Mapping[str, str]) -> bool:
    return _HOLDS[rule["operator"]](labels.get(rule["key"]), rule.get("values", []))


def _told(manifest: Object) -> str:
    return f"{manifest['kind']} {manifest['metadata']['name']}"


def _said(rule: Rule) -> str:
    return f"{rule['key']} {rule['operator']} {rule.get('values', [])}"


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
    """Policies by which the API server does at once what AWS's provider and kubelet do.

    A NodeClaim is created with what the overlays promise (karpenter-provider-aws pkg/cloudprovider/cloudprovider.go,
    Create), and a node has no devices until a plugin offers some. In a client of ours both would come too late for a
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
    """A policy and what puts it in force, which is once for each object of the kind `for_each`."""
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
