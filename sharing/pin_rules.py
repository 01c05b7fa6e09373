"""Rules about the pinned versions, which no stack file can change."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from sharing import karpenter
from sharing.problems import Problem
from sharing.setup import Pins

AL2_GONE = "the EKS AMIs of Amazon Linux 2 ended on 2025-11-26"
MPS_NEEDS_PLUGIN = (0, 18)
"""First device plugin whose MPS daemon runs with the host's PIDs. Source: k8s-device-plugin#1045."""
FIRST_OPERATOR = (26, 7)
"""First GPU Operator with device plugin 0.20, which knows `sharedDevicesAllocationPolicy` and names all profiles."""
BAD_PLUGINS = ((0, 19, 0), (0, 19, 1), (0, 19, 2))
"""Releases with GDS, GDRCopy and MOFED on by default. Source: k8s-device-plugin#1837."""


@dataclass(frozen=True, slots=True)
class PinRule:
    """One row about pinned versions, which no stack file can change."""

    name: str
    check: Callable[[Pins], Iterator[Problem]]


def pin_problems(pins: Pins) -> list[Problem]:
    """What is wrong with the pinned versions themselves."""
    return [problem for rule in PIN_RULES for problem in rule.check(pins)]


def _no_amazon_linux_2(pins: Pins) -> Iterator[Problem]:
    for ami_type in pins.ami_types.values():
        if ami_type.startswith("AL2_"):
            yield Problem("ami_types", ami_type, AL2_GONE, "Use AL2023_x86_64_NVIDIA.")


def _plugin_runs_mps(pins: Pins) -> Iterator[Problem]:
    if numbers(pins.device_plugin) < MPS_NEEDS_PLUGIN:
        yield Problem("device_plugin", pins.device_plugin, "MPS needs 0.18 or later", "Use 0.20.0.")


def _plugin_without_gds(pins: Pins) -> Iterator[Problem]:
    if numbers(pins.device_plugin) in BAD_PLUGINS:
        rule = "0.19.0 to 0.19.2 turn GDS, GDRCopy and MOFED on by default"
        yield Problem("device_plugin", pins.device_plugin, rule, "Use 0.19.3 or later.")


def _operator_has_our_plugin(pins: Pins) -> Iterator[Problem]:
    if numbers(pins.gpu_operator.removeprefix("v")) < FIRST_OPERATOR:
        rule = "its device plugin must understand the same configs as 0.20"
        yield Problem("gpu_operator", pins.gpu_operator, rule, "Use v26.7.0 or later.")


def numbers(version: str) -> tuple[int, ...]:
    """A version as numbers, which can be compared."""
    return tuple(int(part) for part in version.split("."))


PIN_RULES: tuple[PinRule, ...] = (
    PinRule("no Amazon Linux 2", _no_amazon_linux_2),
    PinRule("the device plugin runs MPS", _plugin_runs_mps),
    PinRule("the device plugin leaves GDS off", _plugin_without_gds),
    PinRule("the GPU Operator brings a device plugin like ours", _operator_has_our_plugin),
    PinRule("Karpenter knows the Kubernetes versions", karpenter.old_release),
)
