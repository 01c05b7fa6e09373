"""Check: the names that providers make up, and the defaults that they fill in."""

from collections.abc import Callable
from typing import Any

from sandbox.world import tokens
from sandbox.world.things import CloudError, value_at

DEFAULTS = "__defaults"
"""Where the Terraform bridge notes which inputs it filled in (pulumi-terraform-bridge, pkg/tfbridge/schema.go)."""
AUTONAMED = "pulumi.com/autonamed"
"""The annotation with which the Kubernetes provider notes the same (pkg/metadata/naming.go)."""
_BRIDGE = "https://www.pulumi.com/docs/concepts/resources/names/#autonaming"

# Type to the property that gets `<logical>-<7 hex>`, and the most characters the bridge allows there (pulumi-aws
# provider/resources.go; 0 = it does not look).
AUTONAMES: dict[str, tuple[str, int]] = {
    "aws:iam/role:Role": ("name", 64),
    "aws:iam/policy:Policy": ("name", 128),
    "aws:ec2/launchTemplate:LaunchTemplate": ("name", 125),
    "aws:eks/cluster:Cluster": ("name", 100),
    "aws:eks/nodeGroup:NodeGroup": ("nodeGroupName", 63),
    "aws:cloudwatch/logGroup:LogGroup": ("name", 512),
    "aws:cloudwatch/eventRule:EventRule": ("name", 64),
    "aws:cloudwatch/eventTarget:EventTarget": ("targetId", 64),
    "aws:sqs/queue:Queue": ("name", 80),
}
AWS_DIGITS, KUBERNETES_DIGITS = 7, 8


def named(
    token: str, logical: str, inputs: dict[str, Any], old: dict[str, Any] | None, digits: Callable[[int], str]
) -> dict[str, Any]:
    """The inputs with a name: the given one, the old made-up one, or a new one. `digits(n)` gives n hex digits."""
    if token.startswith(tokens.KUBERNETES):
        return _kubernetes_named(token, logical, inputs, old, digits)
    if token not in AUTONAMES:
        return inputs
    key, most = AUTONAMES[token]
    if inputs.get(key):
        return without_defaults(inputs)
    kept = (old or {}).get(key) if key in (old or {}).get(DEFAULTS, ()) else None
    if kept is None and 0 < most < len(logical) + 1 + AWS_DIGITS:
        raise CloudError(
            "ValidationError",
            f"name '{logical}-' plus {AWS_DIGITS} random chars is longer than maximum length {most}",
            _BRIDGE,
        )
    return {**inputs, key: kept or f"{logical}-{digits(AWS_DIGITS)}", DEFAULTS: [key]}


def without_defaults(inputs: dict[str, Any]) -> dict[str, Any]:
    """The inputs without the bridge's note on them."""
    return {key: value for key, value in inputs.items() if key != DEFAULTS}


def is_autonamed(token: str, inputs: dict[str, Any]) -> bool:
    """Whether a provider made the name up, so that a replacement may exist beside what it replaces."""
    if token.startswith(tokens.KUBERNETES):
        annotations = value_at(inputs, "metadata.annotations")
        is_noted = isinstance(annotations, dict) and annotations.get(AUTONAMED) == "true"
        return is_noted or "name" in inputs.get(DEFAULTS, ())
    return token in AUTONAMES and AUTONAMES[token][0] in inputs.get(DEFAULTS, ())


def given_name(token: str, inputs: dict[str, Any]) -> Any:
    """The name in the inputs, made up or not; None for types without one.

    The engine asks for the difference to wholly unknown properties when it looks for what a deletion drags along: then
    there is no name (pulumi-kubernetes provider.go Diff: an unknown `metadata` is an update).
    """
    if token.startswith(tokens.KUBERNETES) and token != tokens.RELEASE:
        return value_at(inputs, "metadata.namespace"), value_at(inputs, "metadata.name")
    if token == tokens.RELEASE:
        return inputs.get("namespace"), inputs.get("name")
    return inputs.get(AUTONAMES[token][0]) if token in AUTONAMES else None


def _kubernetes_named(
    token: str, logical: str, inputs: dict[str, Any], old: dict[str, Any] | None, digits: Callable[[int], str]
) -> dict[str, Any]:
    was = old or {}
    if token == tokens.RELEASE:
        if inputs.get("name"):
            return inputs
        kept = was.get("name") if is_autonamed(token, was) else None
        return {**inputs, "name": kept or f"{logical}-{digits(KUBERNETES_DIGITS)}", DEFAULTS: ["name"]}
    metadata = dict(inputs.get("metadata") or {})
    if metadata.get("name"):
        return inputs
    kept = (was.get("metadata") or {}).get("name") if is_autonamed(token, was) else None
    metadata["name"] = kept or f"{logical}-{digits(KUBERNETES_DIGITS)}"
    metadata["annotations"] = {**(metadata.get("annotations") or {}), AUTONAMED: "true"}
    return {**inputs, "metadata": metadata}
