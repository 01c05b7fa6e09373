"""Check: the names that providers generate, and the defaults that they fill in."""

from collections.abc import Callable
from typing import Any

from sandbox.world import tokens
from sandbox.world.entities import CloudError, value_at

DEFAULTS = "__defaults"
"""Key under which the Terraform bridge lists the inputs that it filled in (pulumi-terraform-bridge, schema.go)."""
AUTONAMED = "pulumi.com/autonamed"
"""Annotation with which the Kubernetes provider marks a generated name (pkg/metadata/naming.go)."""
_BRIDGE = "https://www.pulumi.com/docs/concepts/resources/names/#autonaming"

# By type: the property that gets `<logical>-<7 hex>`, and its maximum length in the bridge (pulumi-aws
# provider/resources.go).
AUTONAMES: dict[str, tuple[str, int]] = {
    "aws:iam/role:Role": ("name", 64),
    "aws:iam/policy:Policy": ("name", 128),
    "aws:ec2/launchTemplate:LaunchTemplate": ("name", 125),
    "aws:eks/cluster:Cluster": ("name", 100),
    "aws:eks/nodeGroup:NodeGroup": ("nodeGroupName", 63),
    "aws:cloudwatch/logGroup:LogGroup": ("name", 512),
    "aws:cloudwatch/eventRule:EventRule": ("name", 64),
    "aws:cloudwatch/eventTarget:EventTarget": ("targetId", 64),
    "aws:scheduler/schedule:Schedule": ("name", 64),
    "aws:scheduler/scheduleGroup:ScheduleGroup": ("name", 64),
    "aws:sqs/queue:Queue": ("name", 80),
    "aws:budgets/budget:Budget": ("name", 255),
}
AWS_DIGITS, KUBERNETES_DIGITS = 7, 8


def named(
    token: str, logical: str, inputs: dict[str, Any], old: dict[str, Any] | None, digits: Callable[[int], str]
) -> dict[str, Any]:
    """The inputs with a name: given, generated earlier, or new. `digits(n)` returns n hex digits."""
    if token.startswith(tokens.KUBERNETES):
        return _kubernetes_named(token, logical, inputs, old, digits)
    if token not in AUTONAMES:
        return inputs
    key, most = AUTONAMES[token]
    if inputs.get(key):
        return without_defaults(inputs)
    kept = (old or {}).get(key) if key in (old or {}).get(DEFAULTS, ()) else None
    if kept is None and most < len(logical) + 1 + AWS_DIGITS:
        raise CloudError(
            "ValidationError",
            f"name '{logical}-' plus {AWS_DIGITS} random chars is longer than maximum length {most}",
            _BRIDGE,
        )
    return {**inputs, key: kept or f"{logical}-{digits(AWS_DIGITS)}", DEFAULTS: [key]}


def without_defaults(inputs: dict[str, Any]) -> dict[str, Any]:
    """The inputs without the bridge's list of defaults."""
    return {key: value for key, value in inputs.items() if key != DEFAULTS}


def is_autonamed(token: str, inputs: dict[str, Any]) -> bool:
    """Whether a provider generated the name, so that a replacement can exist next to the old resource."""
    if token.startswith(tokens.KUBERNETES):
        annotations = value_at(inputs, "metadata.annotations")
        return isinstance(annotations, dict) and annotations.get(AUTONAMED) == "true"
    return token in AUTONAMES and AUTONAMES[token][0] in inputs.get(DEFAULTS, ())


def given_name(token: str, inputs: dict[str, Any]) -> Any:
    """The name in the inputs, given or generated. None for types without one.

    To find the dependents of a deletion, the engine compares with entirely unknown properties. Then there is no name
    (pulumi-kubernetes provider.go Diff: an unknown `metadata` is an update).
    """
    if token.startswith(tokens.KUBERNETES) and token != tokens.RELEASE:
        return value_at(inputs, "metadata.namespace"), value_at(inputs, "metadata.name")
    if token == tokens.RELEASE:
        return inputs.get("namespace"), inputs.get("name")
    return inputs.get(AUTONAMES[token][0]) if token in AUTONAMES else None


def _kubernetes_named(
    token: str, logical: str, inputs: dict[str, Any], old: dict[str, Any] | None, digits: Callable[[int], str]
) -> dict[str, Any]:
    metadata = dict(inputs.get("metadata") or {})
    if token == tokens.RELEASE or metadata.get("name"):
        return inputs  # every release of our programs has a name
    was = old or {}
    kept = (was.get("metadata") or {}).get("name") if is_autonamed(token, was) else None
    metadata["name"] = kept or f"{logical}-{digits(KUBERNETES_DIGITS)}"
    metadata["annotations"] = {**(metadata.get("annotations") or {}), AUTONAMED: "true"}
    return {**inputs, "metadata": metadata}
