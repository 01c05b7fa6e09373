"""The verdict of `tandem plan` for tests and CI: on models, a sharing mode and instance types, without a stack file."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sharing.aws.partitions import HOME_REGION
from sharing.fit.host import host_need
from sharing.modes.base import Mode
from sharing.modes.modes import Sharing
from sharing.problems import Problem
from sharing.verdict.full import Fit
from stacks.stack_file.judge import judge
from stacks.stack_file.provider_keys import REGION
from stacks.stack_file.yaml import Source

ARGUMENTS = {
    "gpu-nodes.instance-types": "instance_types",
    "`instance-types:": "`instance_types:",
    "gpu-nodes.max": "nodes",
    "gpu-nodes.desired": "nodes",
    "`tandem:": "`",
    "aws:region": "region",
}
ELSEWHERE = ("cluster.", "aws:")
"""Parts of a stack file that a check says nothing about."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelMemory:
    """The memory that one model needs, and what it may use, in MiB."""

    gpu_mib: int
    """GPU memory that it needs, with the margin of the prediction."""
    share_mib: int | None
    """GPU memory of its share; None if all models of the GPU use its memory, first come, first served."""
    ram_mib: int
    """RAM that its pod keeps on the node."""
    fits: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What `tandem plan` says about a setup. It is true if nothing refuses the setup."""

    errors: tuple[str, ...]
    warnings: tuple[str, ...]
    memory: Mapping[str, ModelMemory]
    """By the id of the model, e.g. `llama2-7b`. Empty after an error about the form of a value."""

    def __bool__(self) -> bool:
        return not self.errors

    def __str__(self) -> str:
        lines = [*(f"error: {text}" for text in self.errors), *(f"warning: {text}" for text in self.warnings)]
        return "\n".join(lines or ["no errors and no warnings"])


def check(
    *,
    models: Sequence[str | Mapping[str, Any]],
    sharing: Sharing | Mapping[str, Any],
    instance_types: Sequence[str] = ("g4dn.xlarge",),
    nodes: int = 1,
    region: str = HOME_REGION,
) -> Verdict:
    """The verdict of `tandem plan` on models that share the GPUs of a pool of nodes.

    `models` are names, or dictionaries with the keys of `models` in a stack file. Advice has the prices of `region`.
    """
    mode = sharing
    if isinstance(sharing, Mode):
        mode = {"mode": sharing.mode, **sharing.model_dump(by_alias=True, exclude_unset=True)}
    sections = {
        "sharing": mode,
        "gpu-nodes": {"instance-types": _listed(instance_types), "desired": nodes, "max": nodes},
        "models": _listed(models, _section),
    }
    judged = judge(Source(sections=sections, provider={REGION: region}), "check")
    return Verdict(
        errors=tuple(map(_message, judged.problems)),
        warnings=tuple(_message(each) for each in judged.warnings if not each.path.startswith(ELSEWHERE)),
        memory={fit.served.id: _memory(fit) for fit in judged.decided.verdict.fits} if judged.decided else {},
    )


def _listed(values: Any, write: Callable[[Any], Any] = lambda value: value) -> Any:
    """A sequence as a stack file has it. Other values stay as they are, and get their error there."""
    return [write(value) for value in values] if isinstance(values, list | tuple) else values


def _section(model: Any) -> Any:
    """A model as a stack file has it. `OllamaModel` calls its name `model`."""
    if isinstance(model, Mapping):
        return {"name" if key == "model" else key: value for key, value in model.items()}
    return {"name": model} if isinstance(model, str) else model


def _message(problem: Problem) -> str:
    """The sentence of the plan, with the names of the arguments in place of keys."""
    text = re.sub(r"`gpu-nodes\.desired: (\d+)` (with|and) `gpu-nodes\.max: \1`", r"`nodes: \1`", problem.message)
    for key, argument in ARGUMENTS.items():
        text = text.replace(key, argument)
    return text


def _memory(fit: Fit) -> ModelMemory:
    placement = fit.placement
    return ModelMemory(
        gpu_mib=round(placement.need.bound),
        share_mib=placement.share_mib,
        ram_mib=host_need(fit.served).total,
        fits=placement.fits,
    )
