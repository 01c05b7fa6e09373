"""What the user means by a name: a stack, its file, a region; or an error with the nearest names. Cheap to import."""

import re
from pathlib import Path
from typing import TYPE_CHECKING

from sharing.files import base_folder
from tandem.terminal import CallError, short

# The rules and YAML are imported where they are used: most of the time of an answer is imports.
if TYPE_CHECKING:
    from sharing.models.served import ServedModel
    from stacks.stack_file.judge import Plan

ANY_REGION = "any"
"""The value of `choose --region` for all regions with known offers."""
STACK_NAME = re.compile(r"[A-Za-z0-9_.-]{1,100}")
"""Pulumi's own rule (pulumi 3.260, sdk/go/common/tokens/names.go)."""


def stack_file(stack: str) -> Path:
    """The file that `stack` means: itself when it looks like one, else `Pulumi.<stack>.yaml` here or above.

    Raises `CallError` for one that no file system has.
    """
    path = Path(stack) if _is_path(stack) else _file_of(stack)
    try:
        path.is_file()
    except OSError as error:
        raise CallError(
            f"the stack `{short(stack)}` cannot be read ({error.strerror}). Name another stack or file."
        ) from None
    return path


def _is_path(stack: str) -> bool:
    return "/" in stack or stack in (".", "..") or stack.endswith((".yaml", ".yml"))


def _file_of(stack: str) -> Path:
    name = f"Pulumi.{stack}.yaml"
    here = Path.cwd()
    homes = [folder for folder in (here, *here.parents) if (folder / "Pulumi.yaml").is_file()]
    return (homes[0] if homes else here) / name


def resolve_path(name: str) -> Path:
    """The stack file of that name or path. Raises `CallError` for a file name that `pulumi` does not read.

    It reads `Pulumi.NAME.yaml` (pulumi 3.260, sdk/go/common/workspace/paths.go, DetectProjectStackPath).
    """
    from sharing.printable import one_line
    from stacks.stack_file.judge import stack_name

    path = stack_file(name)
    if path.name != f"Pulumi.{stack_name(path)}.yaml":
        raise CallError(
            f"the stack file {one_line(name)} has a name that Pulumi does not read. Use a stack name, or a path that "
            "ends in Pulumi.NAME.yaml."
        )
    _check_name(name, stack_name(path))
    return path


def _check_name(given: str, name: str) -> None:
    if not STACK_NAME.fullmatch(name):
        raise CallError(
            f"the stack name `{short(given)}` is not valid. Use letters, digits, dashes, dots and underscores."
        )


def called(path: Path) -> str:
    """How a command names this stack file from here: by the stack alone, where that is enough."""
    name = path.stem.removeprefix("Pulumi.")
    return name if stack_file(name) == path.absolute() else str(path)


def existing(stack: str) -> Path:
    """The file that `stack` means; raises `CallError`, with the nearest names, where it is not there."""
    path = stack_file(stack)
    if not _is_path(stack):
        _check_name(stack, stack)
    if path.is_file():
        return path
    if path.is_dir():
        raise CallError(f"{path} is a folder. Name a file in it.")
    if Path(stack).is_file():
        raise CallError(f"{stack} is not a stack file. Name a stack, or a file that ends in .yaml.")

    from sharing.problems import near

    known = sorted(
        found.name.removeprefix("Pulumi.").removesuffix(".yaml") for found in path.parent.glob("Pulumi.*.yaml")
    )
    close = near(path.stem.removeprefix("Pulumi."), known)
    others = f"Name one of the stacks there: {', '.join(known)}." if known else "Stacks there: none."
    hint = f"Did you mean {' or '.join(close)}?" if close else others
    raise CallError(f"there is no file {path}. {hint}")


def accepted(stack: str) -> "Plan":
    """The plan of a stack that is accepted; raises what `existing` raises, `RefusedError` and `UnreadableError`."""
    path = existing(stack)

    from stacks.stack_file.judge import judge_file

    return judge_file(path).plan()


def find_served_model(plan: "Plan", name: str | None) -> "ServedModel":
    """The model of a stack that `name` means, an id or a tag; without one, the first that generates text, or else the
    first. Raises `CallError` with the nearest names.
    """
    models = plan.config.models
    if name is None:
        return next((served for served in models if not served.model.encoder), models[0])
    for served in models:
        if name in (served.id, served.model.name) or f"{name}:latest" == served.model.name:
            return served

    from sharing.problems import near

    known = [word for served in models for word in (served.model.name, served.id)]
    close = near(name, known)
    others = f"Name one of them: {', '.join(served.model.name for served in models)}."
    hint = f"Did you mean {' or '.join(close)}?" if close else others
    raise CallError(f"stack {plan.stack} has no model `{short(name)}`. {hint}")


def state_folder(name: str = "") -> Path:
    """A folder of what commands remember from one call to the next, for this user alone. Raises `CallError`.

    XDG Base Directory Specification 0.8: logs, history and current state belong into `$XDG_STATE_HOME`.
    """
    home = base_folder("XDG_STATE_HOME", ".local/state")
    folder = home / "tandem" / name
    try:
        home.mkdir(parents=True, exist_ok=True)
        for made in dict.fromkeys((home / "tandem", folder)):
            made.mkdir(mode=0o700, exist_ok=True)
    except OSError as error:
        raise CallError(
            f"the folder {folder} cannot be made ({error.strerror}). Set XDG_STATE_HOME to one that you can write to."
        ) from None
    return folder


def regions() -> list[str]:
    """Every region of AWS that is known."""
    from sharing import tables

    return [row["region"] for row in tables.read("regions").rows]


def require_region(region: str) -> None:
    """Raises `CallError` for a region that no table of ours has."""
    from sharing.hardware.offerings import suggest_region

    if region == ANY_REGION:
        raise CallError("only `tandem choose` takes the region `any`. Name one here, for example us-east-1.")
    if region not in regions():
        raise CallError(f"unknown region '{region}'. {suggest_region(region)}")
