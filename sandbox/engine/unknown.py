"""Unknown values of a preview, which are only known once the resources exist."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from sandbox.cloud.answers import Cloud
from sandbox.cloud.protocol import Creation, Values
from sandbox.graph import Secret, parts, rebuilt
from sandbox.wire import UNKNOWN

# Outputs that an update changes without a change of the input with that name. If they are unknown, a preview shows the
# consequences: a node group replaces its nodes because its launch template gets a new version.
CHANGING: Mapping[str, tuple[str, ...]] = {
    "aws:ec2/launchTemplate:LaunchTemplate": ("latestVersion",),
    "kubernetes:helm.sh/v3:Release": ("status",),
}


def expected(creation: Creation) -> dict[str, Any]:
    """A new resource's outputs in a preview: its inputs, and unknowns for computed values."""
    return {**creation.inputs, **_hidden(_outputs(creation), creation.inputs)}


def after_update(token: str, olds: Values, news: Values) -> dict[str, Any]:
    """An updated resource's outputs in a preview: old outputs, new inputs, and unknowns for their consequences."""
    return {**olds, **news, **dict.fromkeys(CHANGING.get(token, ()), UNKNOWN)}


def with_stand_ins(creation: Creation, outputs: Values) -> dict[str, Any]:
    """The outputs with a placeholder of the right shape for each unknown, from which other values can be derived.

    A string becomes one unknown per part between colons, because programs split ARNs. Values that are derived from it
    still contain the unknown, so `settled` finds them.
    """
    filled: dict[str, Any] = _filled(outputs, _stand_in(_outputs(creation)))
    return filled


def settled(value: Any) -> Any:
    """The value with an unknown in place of every string that contains one."""

    def settle(one: Any) -> Any:
        if isinstance(one, Secret):
            return Secret(settled(one.value))
        return UNKNOWN if holds_unknown(one) else one

    return rebuilt(value, settle)


def holds_unknown(value: Any) -> bool:
    """Whether the value contains an unknown, or is derived from one."""
    return any(isinstance(one, str) and UNKNOWN in one for one in parts(value))


def _outputs(creation: Creation) -> Values:
    """The cloud's expected outputs, as far as the known inputs determine them."""
    known = {key: value for key, value in creation.inputs.items() if value != UNKNOWN}
    return Cloud().created(replace(creation, inputs=known)).outputs


def _hidden(outputs: Values, given: Values) -> dict[str, Any]:
    return {key: _known(value, given[key]) if key in given else UNKNOWN for key, value in outputs.items()}


def _known(output: Any, given: Any) -> Any:
    if isinstance(output, Mapping) and isinstance(given, Mapping):
        return {**given, **_hidden(output, given)}
    return given


def _stand_in(value: Any) -> Any:
    return rebuilt(value, lambda one: ":".join(UNKNOWN for _ in one.split(":")) if isinstance(one, str) else UNKNOWN)


def _filled(value: Any, stand_in: Any) -> Any:
    if isinstance(value, Mapping) and isinstance(stand_in, Mapping):
        return {**stand_in, **{key: _filled(one, stand_in.get(key, one)) for key, one in value.items()}}
    return stand_in if value == UNKNOWN else value
