"""Turns a chosen setup into a stack file: `tandem init`, and `--write` of `tandem choose` and `tandem plan`."""

import argparse
import itertools
import sys
from pathlib import Path

from sharing.files import write_whole
from sharing.hardware.gpus import instance_types
from sharing.printable import printable
from sharing.verdict.choices import Choice
from sharing.verdict.quick import judge_quickly
from stacks.stack_file import schema
from tandem.lookup import resolve_path
from tandem.search.base_stack import ANYWHERE, BaseStack
from tandem.terminal import CallError, InputEndedError

SCHEMAS = (f"docs/{schema.FILE}", schema.FILE)
"""Places of the schema relative to a stack file: in a checkout, and in a project that `tandem init` made."""


def find_target(parsed: argparse.Namespace) -> Path | None:
    """The file to write, beside a Pulumi.yaml; raises `CallError` if it cannot be written or the user keeps it."""
    if parsed.write:
        path = resolve_path(parsed.write)
        if not (path.parent / "Pulumi.yaml").is_file():
            raise CallError(
                f"{path} would have no Pulumi.yaml beside it, so `pulumi` would not find it. Name a stack of a "
                "project, or run `tandem init` there."
            )
        asks = not parsed.json and sys.stdin.isatty() and sys.stdout.isatty()
        check(path, force=parsed.force, asks=asks)
        return path
    if parsed.force:
        raise CallError("--force is for --write. Write both.")
    return None


def check(path: Path, *, force: bool, asks: bool) -> None:
    """Raises `CallError` if the file cannot be written, or if it exists and neither `force` nor the user allows it."""
    if path.is_dir() or not path.parent.is_dir():
        raise CallError(f"{path} cannot be written. Name a file in a folder that exists.")
    if not path.exists() or force:
        return
    refusal = f"{path} exists. Use another name, such as {unused_name(path)}, or --force to overwrite it."
    if not asks:
        raise CallError(refusal)
    try:
        answer = input(printable(f"{path} exists. Overwrite it? [y/N] "))
    except EOFError:
        print(file=sys.stderr)  # the cursor is still behind the question
        raise InputEndedError(refusal) from None
    if answer.strip().lower() not in ("y", "yes"):
        raise CallError("hint: Nothing was written. Choose another name.")


def unused_name(path: Path) -> str:
    """The name of this stack if it has no file, or else the next one that has none: `rag-2` after `rag`."""
    name = path.stem.removeprefix("Pulumi.")
    names = itertools.chain([name], (f"{name}-{number}" for number in itertools.count(2)))
    return next(each for each in names if not path.with_name(f"Pulumi.{each}.yaml").exists())


def write(base: BaseStack, choice: Choice, path: Path, command: str) -> Path:
    """Writes the whole stack file or nothing. `command` is the command that writes it. Raises `CallError`."""
    cell, bill = choice.cell, choice.bill
    head = [f"yaml-language-server: $schema={place}" for place in SCHEMAS if (path.parent / place).is_file()][:1]
    head += [
        f"Written by `tandem {command}`: {cell.nodes} × {cell.instance.name}, {cell.way}, "
        f"{cell.pool.capacity}, ${bill.usd_per_hour:.3f} per hour.",
        f"{bill.price_basis}.",
    ]
    if base.config.cluster.public_access_cidrs == [ANYWHERE]:
        head.append("The Kubernetes API is open to the internet; IAM guards it. Restrict `public-access-cidrs`.")
    return save(path, base.written(choice.config, head, f"EC2 types with the same GPU.{_tip(base, choice)}"))


def _tip(base: BaseStack, choice: Choice) -> str:
    """The cheapest second instance type, where spot capacity is at stake and the budget allows it."""
    pool = choice.cell.pool
    if pool.capacity != "spot":
        return ""
    limited = choice.config.changed(budget=base.config.budget)
    bills: dict[str, float] = {}
    for name, instance in instance_types().items():
        has_same_gpus = (instance.gpu, instance.gpus) == (pool.smallest.gpu, pool.smallest.gpus)
        if not has_same_gpus or name in pool.instance_types:
            continue
        verdict = judge_quickly(limited.with_pool(pool.changed(instance_types=[*pool.instance_types, name])))
        if verdict.accepted and verdict.cost and not verdict.cost.unpriced:
            bills[name] = verdict.cost.usd_per_hour
    if not bills:
        return ""
    second = min(bills, key=lambda name: bills[name])
    return f" With {second} as a second one, spot capacity is more likely: up to ${bills[second]:.3f} per hour."


def save(path: Path, text: str) -> Path:
    """Writes a whole file or nothing. Raises `CallError`."""
    try:
        write_whole(path.resolve(), text)
    except OSError as error:
        raise CallError(f"{path} cannot be written: {error.strerror}. Choose another place.") from None
    return path


def shown(path: Path) -> str:
    """The path as short as the user would type it."""
    return str(path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path)
