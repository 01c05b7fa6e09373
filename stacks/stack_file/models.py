"""The models of a stack file: what decides their memory, and keys of an older form or in conflict with each other."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

from sharing.models.catalogue import DEFAULT_TAG, Model, full_name
from sharing.models.served import ServedModel
from sharing.names import model_id
from sharing.printable import visible
from sharing.problems import ASIDE, LIMIT, OBJECT, SUBJECT, Problem
from sharing.section import kebab
from sharing.sections.config import StackConfig

OLD_KEYS = ("weights-gib", *(kebab(field.name) for field in fields(Model) if field.name != "name"))
"""Keys that described a model outside the catalogue before `gguf` did."""
GIB = 2**30


def find_models(config: StackConfig, folder: Path, known: Mapping[int, Model]) -> tuple[StackConfig, list[Problem]]:
    """The stack with every model that can be found, and an error for each other one.

    `folder` is that of relative paths; `known` are models that need no search, by their index.
    """
    placed, problems = [], []
    for served in config.models:
        found = known.get(served.index) or served.find_model() or _look_up(served, folder)
        if isinstance(found, Problem):
            problems.append(found)
        else:
            served = served.with_model(found).placed(served.index, served.id, served.pool)
        placed.append(served)
    return config.changed(models=placed), problems


def _look_up(served: ServedModel, folder: Path) -> Model | Problem:
    """The model from outside the catalogue, or why there is none."""
    # A file with models of the catalogue does not wait for what this needs: 20 ms.
    from stacks.model_files.errors import UnknownModelError, UnreadableModelError
    from stacks.model_files.find import find_model, suggest

    try:
        return find_model(served.name, served.gguf, folder=folder)
    except UnreadableModelError as error:
        if served.gguf:
            return Problem(f"{served.path}.gguf", "", visible(error.what), error.fix)
        fix = f"{suggest(served.name)}{error.what}. {error.fix}"
        is_unknown = isinstance(error, UnknownModelError)
        rule, wording = ("unknown model", OBJECT) if is_unknown else ("cannot be looked up", SUBJECT)
        return Problem(f"{served.path}.name", _as_ollama_reads(served.name), rule, fix, wording)


def _as_ollama_reads(name: str) -> str:
    """A name that nobody knows. Without a tag it means `latest`, which may be the only tag that is missing."""
    full = full_name(name)
    is_completed = full.endswith(f":{DEFAULT_TAG}") and not name.endswith(f":{DEFAULT_TAG}")
    return f"'{name}' ({full} in Ollama)" if is_completed else f"'{name}'"


def refuse_old_keys(values: dict[str, Any]) -> Iterator[Problem]:
    """Finds models with keys of the older form, and takes these keys out of `values`."""
    listed = values.get("models")
    if not isinstance(listed, list):
        return
    values["models"] = [*listed]
    for index, model in enumerate(listed):
        if isinstance(model, dict) and (old := [key for key in OLD_KEYS if key in model]):
            values["models"][index] = {key: value for key, value in model.items() if key not in OLD_KEYS}
            rule = "the description of a model is now a file of its own"
            yield Problem(f"models[{index}]", ", ".join(old), rule, _new_form(model), ASIDE)


def _new_form(model: Mapping[str, Any]) -> str:
    """What to write in place of the older keys."""
    name = visible(str(model.get("name", "NAME")))
    by_command = f"run `tandem models inspect {name} --write STACK`"
    if not (content := _as_description(model)):
        return f"Remove these keys, and {by_command}."
    by_hand = f"write `gguf: {model_id(name)}.json` and this file: {json.dumps(content)}"
    return f"In place of these keys, {by_hand}; or {by_command}."


def _as_description(model: Mapping[str, Any]) -> dict[str, Any] | None:
    """The file that says the same; None if the keys cannot be read or are not enough."""
    from stacks.model_files.description import SCHEMA_VERSION, Description

    shape = {key.replace("-", "_"): model[key] for key in OLD_KEYS if key in model}
    try:
        shape["weights_bytes"] = round(float(shape.pop("weights_gib")) * GIB)
        content = {"schema_version": SCHEMA_VERSION, "model": shape}
        return Description.model_validate(content).as_dict()
    except (KeyError, TypeError, ValueError, OverflowError):
        return None


def judge_batch(served: ServedModel) -> Iterator[Problem]:
    """Ollama cuts a text that an embedding model cannot take in one step."""
    model = served.find_model()
    if model and model.encoder and served.batch and served.batch < served.effective_context:
        rule = f"must be at least {served.effective_context} for an embedding model"
        yield Problem(f"{served.path}.batch", str(served.batch), rule, "Remove `batch`.", LIMIT)
