"""Diff: the properties that can be updated in place. A change of any other property replaces the resource."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from sandbox.world import tokens
from sandbox.world.providers.names import DEFAULTS, given_name, is_autonamed
from sandbox.world.tables import table


@dataclass(frozen=True, slots=True)
class Difference:
    """The effect of a change of inputs."""

    changed: tuple[str, ...]
    """Dotted paths of the changed properties, only as deep as the paths in the table."""
    replaces: tuple[str, ...]
    """The changed properties that cannot be updated in place."""
    delete_before_replace: bool
    """Whether the old resource must be deleted first, because both would have the same name."""


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


UPDATABLE: dict[str, frozenset[str]] = {row["type"]: _words(row["properties"]) for row in table("updatable")}
"""Properties that each type updates in place, from sandbox/data/updatable.csv."""

# For Kubernetes, the provider patches everything except the name and the fields below (pulumi-kubernetes
# provider/pkg/provider/diff.go, forceNewProperties), of kinds in which our stacks change one. Changes of a
# PersistentVolume's last two are rejected by the API server itself (pkg/apis/core/validation).
IMMUTABLE: dict[str, frozenset[str]] = {
    "ConfigMap": _words("data binaryData"),
    "PersistentVolume": _words("spec.csi spec.hostPath spec.local spec.nfs spec.nodeAffinity"),
    "PersistentVolumeClaim": _words("spec"),
    "Secret": _words("type stringData data"),
    "Job": _words("spec.completions spec.parallelism spec.selector spec.template"),
}
IDENTITY = _words("apiVersion kind metadata.name metadata.namespace")

# Lists whose order does not matter (TypeSet in the Terraform schemas).
SETS = _words(
    "subnetIds publicAccessCidrs enabledClusterLogTypes routeTableIds taints podIdentityAssociations "
    "vpcSecurityGroupIds"
)


UNREADY = 'metadata.annotations["pulumi.com/replaceUnready"]'
"""The reason that the provider shows when it replaces a Job that has not completed."""


def difference(token: str, old: dict[str, Any], new: dict[str, Any], *, unready: bool = False) -> Difference:
    """The difference between two sets of checked inputs. `unready` replaces the resource because of its status."""
    updatable = UPDATABLE.get(token)
    if updatable is None and token.startswith(tokens.KUBERNETES):
        fixed = IDENTITY | IMMUTABLE.get(token.rpartition(":")[2], frozenset())
        changed = tuple(sorted(_changed(old, new, fixed)))
        replaces = tuple(path for path in changed if path in fixed) + ((UNREADY,) if unready else ())
    else:
        changed = tuple(sorted(_changed(old, new, updatable or frozenset())))
        replaces = tuple(path for path in changed if path not in (updatable or ()))
    name = given_name(token, new)
    same = name is not None and name == given_name(token, old) and not is_autonamed(token, new)
    return Difference(changed, replaces, bool(replaces) and same)


def _changed(old: Any, new: Any, paths: frozenset[str], above: str = "") -> Iterator[str]:
    """Paths of the changed properties, inside maps only as deep as `paths` goes."""
    for key in sorted({*(old or {}), *(new or {})} - {DEFAULTS}):
        before, after = (old or {}).get(key), (new or {}).get(key)
        if _comparable(key, before) == _comparable(key, after):
            continue
        path = above + key
        inside = any(one.startswith(path + ".") for one in paths)
        if inside and all(value is None or isinstance(value, dict) for value in (before, after)):
            yield from _changed(before, after, paths, path + ".")
        else:
            yield path


def _comparable(key: str, value: Any) -> Any:
    """The value in a form for comparison: with sorted sets, and without nulls and empty lists or maps."""
    if isinstance(value, dict):
        return {name: found for name, item in value.items() if (found := _comparable(name, item)) is not None} or None
    if isinstance(value, list | tuple):
        items = [_comparable("", item) for item in value]
        return (sorted(items, key=repr) if key in SETS else items) or None
    return value
