"""The verdict of `tandem plan` for tests and CI: on models, a sharing mode and instance types, without a stack file."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sharing.aws.partitions import HOME_REGION
from sharing.fit.host import host_need
from sharing.models.catalogue import Model
from sharing.models.served import ServedModel
from sharing.modes.base import Mode
from sharing.modes.modes import Sharing
from sharing.problems import Problem
from sharing.section import kebab
from sharing.verdict.full import Fit
from sharing.verdict.own_program import in_python
from stacks.stack_file.judge import judge
from stacks.stack_file.provider_keys import REGION
from stacks.stack_file.yaml import Source

ARGUMENTS = {
    "; `desired: 0` parks the pool": "",
    " If AWS has opened it since, write `gpu-nodes.check-offers: false`.": "",
    " If AWS offers it now, write `gpu-nodes.check-offers: false`.": "",
    "Remove the key for the default": "Remove the argument for the default",
    "gpu-nodes.instance-types": "instance_types",
    "`instance-types:": "`instance_types:",
    "gpu-nodes.max": "nodes",
    "`max: ": "`nodes: ",
    "`tandem:": "`",
    "aws:region": "region",
}
"""What messages about a stack file say, and what a check says instead. It has no keys but those of its arguments."""
IN_PYTHON = {"model": "name", "spill_pools": "spill"}
"""Arguments of `OllamaModel` with another name in a stack file, besides the dashes."""
OF_RESOURCES = ("packed", "resource_name", "running", "scaling", "values", "volume_gib", "zone")
"""Arguments of `OllamaModel` that a stack file has elsewhere or not at all."""
ELSEWHERE = "cluster."
"""The part of a stack file that a check says nothing about."""


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
    models: Sequence[Any],
    sharing: Sharing | Mapping[str, Any],
    instance_types: Sequence[str] = ("g4dn.xlarge",),
    nodes: int = 1,
    region: str = HOME_REGION,
) -> Verdict:
    """The verdict of `tandem plan` on models that share the GPUs of a pool of nodes.

    `models` are names, `OllamaModel`s, or dictionaries with its arguments or with the keys of `models` in a stack file.
    Advice has the prices of `region`.
    """
    mode = sharing
    if isinstance(sharing, Mode):
        mode = {"mode": sharing.mode, **sharing.model_dump(by_alias=True, exclude_unset=True)}
    sections = {
        "sharing": mode,
        "gpu-nodes": {"instance-types": _listed(instance_types), "desired": nodes, "max": nodes},
        "models": _listed(models, _section),
    }
    judged = judge(Source(sections=sections, provider={REGION: region}), "check", known=_described(models))
    python = isinstance(models, list | tuple) and any(map(_is_in_python, models))
    return Verdict(
        errors=_messages(judged.problems, python),
        warnings=_messages((each for each in judged.warnings if not each.path.startswith(ELSEWHERE)), python),
        memory={fit.served.id: _memory(fit) for fit in judged.decided.verdict.fits} if judged.decided else {},
    )


def _listed(values: Any, write: Callable[[Any], Any] = lambda value: value) -> Any:
    """A sequence as a stack file has it. Other values stay as they are, and get their error there."""
    return [write(value) for value in values] if isinstance(values, list | tuple) else values


def _section(model: Any) -> Any:
    """A model as a stack file has it."""
    if isinstance(model, str):
        return {"name": model}
    # An OllamaModel. Its class imports Pulumi, so it is known by its attribute.
    if isinstance(served := getattr(model, "served", None), ServedModel):
        return served.model_dump(mode="json", by_alias=True, exclude_defaults=True)
    if not isinstance(model, Mapping):
        return model
    given: Mapping[str, Any] = model
    if _is_in_python(model):
        given = {key: value for key, value in model.items() if key not in OF_RESOURCES and value is not None}
    return {IN_PYTHON.get(key, kebab(str(key))): value for key, value in given.items()}


def _described(models: Any) -> dict[int, Model]:
    """The models of `OllamaModel`s, which the program has found or described."""
    listed = enumerate(models) if isinstance(models, list | tuple) else ()
    found = ((index, getattr(model, "served", None)) for index, model in listed)
    return {index: served.model for index, served in found if isinstance(served, ServedModel)}


def _is_in_python(model: Any) -> bool:
    """Whether it is written as for OllamaPair, so that messages name the arguments of `OllamaModel`."""
    return "model" in model if isinstance(model, Mapping) else hasattr(model, "served")


def _messages(problems: Iterable[Problem], python: bool) -> tuple[str, ...]:
    """Their sentences, once each, with the arguments of `OllamaModel` for `python`.

    `nodes` is both `max` and `desired`, and the limits of `max` are tighter.
    """
    found = list(problems)
    if any(each.path == "gpu-nodes.max" for each in found):
        found = [each for each in found if each.path != "gpu-nodes.desired"]
    return tuple(dict.fromkeys(_of_model(text) if python else text for text in map(_message, found)))


def _of_model(text: str) -> str:
    """A message with the arguments of `OllamaModel`."""
    text = re.sub(r"(?<=unknown key\. Did you mean )[^?]*", lambda keys: keys[0].replace("-", "_"), text)
    return in_python(text).replace("].name: ", "].model: ")


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
