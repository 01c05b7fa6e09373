"""What each argument may be, for the shell that asks by way of argcomplete."""

import argparse
from collections.abc import Callable, Iterable
from typing import Any

from tandem.arguments import Parser, all_parsers
from tandem.lookup import existing, regions, stack_file
from tandem.terminal import CallError


def suggest(parser: Parser) -> None:
    """Answers the shell, and ends the process."""
    import argcomplete
    from argcomplete.completers import FilesCompleter

    files = FilesCompleter()
    by_metavar: dict[object, Callable[..., Iterable[str]]] = {
        "STACK|FILE": lambda prefix, **_: files(prefix) if "/" in prefix else _stacks(),
        "STACK|FILE|MODEL": lambda prefix, **_: (
            files(prefix) if "/" in prefix else [*_stacks(), *offered_models(prefix)]
        ),
        "TAG|FILE|URL": lambda prefix, **_: files(prefix) if "/" in prefix else offered_models(prefix),
        "INSTANCE-TYPE": lambda **_: _instance_types(),
        **dict.fromkeys(("MODEL", "TAG"), lambda prefix, **_: offered_models(prefix)),
        "GPU|TYPE": lambda **_: [*_gpus(), *_instance_types()],
        "QUANT": lambda **_: _quantizations(),
        "MODEL|ID": lambda parsed_args, **_: _models_of(parsed_args.stack),
        "REGION": lambda **_: regions(),
        **dict.fromkeys(("FILE", "FILE|URL", "FOLDER", "RESULT.json"), files),
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


def _gpus() -> list[str]:
    from sharing.hardware.gpus import gpus

    return [name for name, gpu in gpus().items() if gpu.vendor == "nvidia" and not gpu.is_slice]


def offered_models(prefix: str) -> list[str]:
    """The catalogue's models; with a dash after the size also other quantizations, which are too many to be shown."""
    from sharing.models.catalogue import models, quantized

    return [*models(), *(quantized() if "-" in prefix.partition(":")[2] else ())]


def _quantizations() -> list[str]:
    from sharing.models.catalogue import models, quantized

    return sorted({model.quant.lower() for model in (*models().values(), *quantized().values())})


def _models_of(stack: str) -> list[str]:
    """The models of a stack, by tag and id; none while its file is wrong."""
    from stacks.stack_file.errors import UnreadableError
    from stacks.stack_file.judge import RefusedError, judge_file

    try:
        models = judge_file(existing(stack)).config.models
    except (CallError, RefusedError, UnreadableError):
        return []
    return [word for served in models for word in (served.model.name, served.id)]
