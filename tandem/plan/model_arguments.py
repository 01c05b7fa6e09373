"""Arguments of `tandem plan` that name models instead of stacks. Cheap to import."""

import argparse
import os
import shlex
from collections.abc import Sequence

from sharing.aws.partitions import HOME_REGION
from tandem.arguments import Parser, add_hours, add_isolation, add_region, add_slots, add_write, budget, count
from tandem.lookup import existing, stack_file
from tandem.terminal import CallError, in_words, short

OF_MODELS = ("under", "nights_off", "hours", "isolation", "context", "slots", "region", "write", "force")
"""Options that a stack file answers."""
OF_STACKS = ("compare", "running", "outputs")
"""Options that need a stack file."""
HOSTS = ("hf.co/", "huggingface.co/")


def add_options(parser: Parser) -> None:
    """The options for models without a stack file."""
    parser.add_argument(
        "--under",
        type=budget,
        metavar="USD",
        help="for models: maximum price of the whole stack, per month (350/month) with its schedule, or per hour (1), "
        "also while nodes are replaced (default: none)",
    )
    add_hours(parser, "always", "for models: ")
    add_isolation(parser, "for models: ")
    parser.add_argument(
        "--context",
        type=count,
        metavar="N",
        help="for models: tokens per request of each that supports as many (default: 4096)",
    )
    add_slots(parser, "1", "for models: ")
    add_region(parser, f"the stack file's; for models {HOME_REGION}")
    add_write(parser, "the setup for the models")


def read_models(parsed: argparse.Namespace) -> list[str]:
    """The models that the call names; empty if it names stacks.

    Raises `CallError` for a mix of both, for a word that is neither, and for options of the other kind.
    """
    words = [parsed.stack, *parsed.others] if parsed.stack else []
    models = [word for word in words if _is_model(word)]
    stacks = [word for word in words if word not in models]
    if models and stacks:
        for word in stacks:
            existing(word)
        raise CallError(
            f"the arguments mix models ({_listed(models)}) and stacks ({_listed(stacks)}). Name only models, or only "
            "stacks."
        )
    defaults = {"running": False, "nights_off": False, "force": False}
    used = [name for name in (*OF_MODELS, *OF_STACKS) if getattr(parsed, name) != defaults.get(name)]
    wrong = [f"--{name.replace('_', '-')}" for name in used if name in (OF_STACKS if models else OF_MODELS)]
    if wrong and models:
        raise CallError(f"models have no stack file, which {in_words(wrong)} needs. Use --write first.")
    if wrong and not words:
        raise CallError(
            f"the models for {in_words(wrong)} are missing. Name them: `tandem plan qwen3:8b`, for example."
        )
    if wrong:
        existing(parsed.stack)
        stack = shlex.quote(parsed.stack)
        raise CallError(
            f"{short(parsed.stack)} is a stack, and {in_words(wrong)} is for models. Name models, or run "
            f"`tandem choose --stack {stack}`."
        )
    if models and parsed.format != "text":
        raise CallError("--format github is for stack files. Leave it out.")
    return models


def _listed(words: Sequence[str]) -> str:
    return in_words([short(word) for word in words])


def _is_model(word: str) -> bool:
    """Whether the word is a model: a stack that exists comes first, and its name has no colon.

    Raises `CallError`, with the nearest names of both kinds, for a word that is neither.
    """
    if word.endswith((".yaml", ".yml")) or ("/" in word and os.path.exists(word)):
        return False
    if ":" not in word and stack_file(word).is_file():
        return False
    if ":" in word or word.startswith(HOSTS):
        return True

    from sharing.models.catalogue import find, models
    from sharing.problems import near

    if find(word):
        return True
    if "/" not in word and (close := near(word, models())):
        try:
            existing(word)
        except CallError as error:
            model = f"the model {' or '.join(close)}"
            said, is_near, stack = str(error).partition(" Did you mean ")
            hint = f"the stack {stack.rstrip('?')}, or {model}" if is_near else model
            raise CallError(f"{said.partition('. ')[0].rstrip('.')}. Did you mean {hint}?") from None
    return False
