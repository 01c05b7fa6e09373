"""Recipes: what people run two models for. Each is a file in `data`, and the setup is searched for like any other."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import PurePath
from typing import Any

from tandem.terminal import CallError

OWN = "own"
"""The answer of users who name their models."""
FLAGS = {"ui": "--ui EMAIL", "allow-cidr": "--allow-cidr CIDR"}
"""What a recipe may need that only the user knows, and the flag for it."""
SPARE_PERCENT = 20
"""What a recipe's limit per month is above its price: room for a rise of the spot price, not for a second GPU node."""
STEP = 10
"""Dollars to which that limit is rounded up."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """The answers that `tandem init` begins with."""

    name: str
    title: str
    """What it is, in a list after its name."""
    models: list[dict[str, Any]]
    """As a stack file has them."""
    hours: str
    """Hours with GPU nodes on working days, as in `8-20`, or `always`."""
    needs: list[str]
    """Keys of `FLAGS`."""
    stack: dict[str, Any]
    """More sections of the stack file; those of `ui` only count with a page."""

    @property
    def is_own(self) -> bool:
        """Whether the user names the models."""
        return self.name == OWN

    @property
    def tags(self) -> str:
        """The models as the user would name them."""
        return " ".join(model["name"] for model in self.models)

    @property
    def context(self) -> int:
        """The longest context."""
        return max(int(model["context"]) for model in self.models)

    def serve(self, tags: Sequence[str], context: int | None) -> list[dict[str, Any]]:
        """The models by tag, with the keys of the recipe's, and that context or the nearest one that Ollama gives."""
        from tandem.search.contexts import nearest_context

        known = {model["name"]: model for model in self.models}
        models = [known.get(tag, {"name": tag, "context": self.context}) for tag in tags]
        return [{**model, "context": nearest_context(model["name"], context or model["context"])} for model in models]

    def sections(self, park: Mapping[str, Any], page: Mapping[str, Any]) -> dict[str, Any]:
        """More sections of the stack file, with those of the answers."""
        own = {key: value for key, value in self.stack.items() if key != "ui"}
        ui = {"ui": {**page["ui"], **self.stack.get("ui", {})}} if page else {}
        return {**own, **park, **ui}

    def require(self, given: Mapping[str, object]) -> None:
        """Raises `CallError` where nobody can be asked, and a flag that it needs is not given."""
        missing = [FLAGS[need] for need in self.needs if given[need] is None]
        if missing:
            what = " and ".join(missing)
            raise CallError(f"the recipe `{self.name}` needs {what}. Pass it, or run `tandem init` at a terminal.")


CLASSIC = Recipe(
    name=OWN,
    title="models that you name",
    models=[{"name": "llama2:7b", "context": 4096}, {"name": "mistral:7b", "context": 4096}],
    hours="always",
    needs=[],
    stack={},
)
"""Without a recipe: the pair of the first tutorial, with the default context of a stack file."""


def names() -> list[str]:
    """Every recipe, in alphabetical order."""
    found = files("tandem.init").joinpath("data").iterdir()
    return sorted(PurePath(file.name).stem for file in found if file.name.endswith(".yaml"))


def read(name: str) -> Recipe:
    """The recipe of that name; `own` is the one without a file."""
    if name == OWN:
        return CLASSIC
    import yaml

    text = files("tandem.init").joinpath("data", f"{name}.yaml").read_text(encoding="utf-8")
    return Recipe(name=name, **yaml.safe_load(text))


def limit(usd_per_month: float) -> int:
    """The limit per month of a recipe that costs this much."""
    return math.ceil(usd_per_month * (100 + SPARE_PERCENT) / 100 / STEP) * STEP
