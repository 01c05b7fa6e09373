"""What each argument may be, for the shell that asks by way of argcomplete."""

import argparse
from collections.abc import Callable, Iterable
from typing import Any

from tandem.arguments import Parser, all_parsers
from tandem.lookup import regions, stack_file


def suggest(parser: Parser) -> None:
    """Answers the shell, and ends the process."""
    import argcomplete
    from argcomplete.completers import FilesCompleter

    files = FilesCompleter()
    by_metavar: dict[object, Callable[..., Iterable[str]]] = {
        "STACK|FILE": lambda prefix, **_: files(prefix) if "/" in prefix else _stacks(),
        "STACK|FILE|MODEL": lambda prefix, **_: files(prefix) if "/" in prefix else [*_stacks(), *_models()],
        "INSTANCE-TYPE": lambda **_: _instance_types(),
        **dict.fromkeys(("MODEL", "TAG"), lambda **_: _models()),
        "REGION": lambda **_: regions(),
        **dict.fromkeys(("FILE", "FILE|URL", "FILE|URL|TAG", "FOLDER", "RESULT.json"), files),
    }
    for each in all_parsers(parser):
        for action in each._actions:
            if action.choices is None and not isinstance(action, argparse._HelpAction):
                offer: Any = action  # argcomplete looks for an attribute that argparse does not have
                # Not `SuppressCompleter`: it hides the option itself, too.
                offer.completer = by_metavar.get(action.metavar, lambda **_: ())
    argcomplete.autocomplete(parser, always_complete_options=False)


def _stacks() -> list[str]:
    names = [path.name.split(".")[1] for path in stack_file("x").parent.glob("Pulumi.*.yaml")]
    # The shell shows what it gets, and no stack has such a name.
    return [name for name in names if name.isprintable()]


def _instance_types() -> list[str]:
    from sharing.hardware.gpus import instance_types

    return [*instance_types()]


def _models() -> list[str]:
    from sharing.models.catalogue import models

    return [*models()]
