"""What a stack that is up says of itself: the outputs of its last `up`, as far as a switch is judged by them."""

import json
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from sharing.setup import Capacity, Provisioner
from tandem.cluster.connection import project_of, stack_outputs
from tandem.connection import NotConnectedError

WITHOUT_PULUMI = "or pass --outputs FILE"


class _Output(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")


class RunningShares(_Output):
    """Shares of one kind, as they were deployed."""

    resource: str
    per_gpu: int
    memory_mib: int | None = None


class RunningPool(_Output):
    """A pool as it was deployed. What is None was not told: the outputs are of an older program."""

    mode: str
    nodes: int
    """0 for a parked pool."""
    shares: tuple[RunningShares, ...]
    config: str | None = None
    """The mode with its settings (`Sharing.config_name`), e.g. `timeslice-2`."""
    gpu: str | None = None
    instance_types: tuple[str, ...] | None = None
    capacity: Capacity | None = None
    provisioner: Provisioner | None = None
    cut: str | None = None
    """What each card is cut into (`Sharing.cut`)."""

    @property
    def per_gpu(self) -> int:
        """Shares of a card, of all kinds."""
        return sum(shares.per_gpu for shares in self.shares)


class Running(_Output):
    """A whole stack as it was deployed."""

    pools: dict[str, RunningPool] = Field(min_length=1)
    endpoints: dict[str, Any]
    """By the ids of the models."""


def of_stack(stack: str, file: Path) -> Running:
    """What Pulumi has of `stack`, whose file is `file`; secrets are not asked for.

    Raises `NotConnectedError` where there is no Pulumi, no such stack, or where it is not up.
    """
    told = stack_outputs(stack, project_of(file), secrets=False, otherwise=WITHOUT_PULUMI)
    return _read(told, f"the outputs of stack {stack}", stack)


def of_file(path: Path, stack: str) -> Running:
    """What `pulumi stack output --json` of `stack` printed into the file at `path`; raises `NotConnectedError`."""
    again = f"`pulumi stack output --json --stack {stack} > {path}` writes it."
    try:
        # Some shells put a mark in front of what they redirect.
        told = json.loads(path.read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise NotConnectedError(f"cannot read the outputs in {path}: {error.strerror}. {again}") from None
    except (ValueError, RecursionError):
        raise NotConnectedError(f"{path} is no JSON. {again}") from None
    if not isinstance(told, dict):
        raise NotConnectedError(f"{path} holds no JSON object. {again}")
    return _read(told, str(path), stack)


def _read(told: dict[str, Any], name: str, stack: str) -> Running:
    if not told:
        raise NotConnectedError(
            f"stack {stack} is not up: it has no outputs, and nothing to switch. `pulumi up --stack {stack}` first."
        )
    try:
        return Running.model_validate(told)
    except ValidationError as error:
        first, *others = error.errors(include_url=False, include_input=False)
        where = ".".join(map(str, first["loc"]))
        found = "is missing" if first["type"] == "missing" else f"is not as expected ({first['msg']})"
        more = f", and {len(others)} more" if others else ""
        raise NotConnectedError(
            f"{name}: {where} {found}{more}. They are of another program than this, or not whole: "
            f"`pulumi up --stack {stack}` with the file as it is deployed writes them anew."
        ) from None
