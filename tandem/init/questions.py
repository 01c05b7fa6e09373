"""Asks on the terminal for what the command line leaves open, and checks each answer before the next question."""

import argparse
import ipaddress
import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from sharing.printable import printable
from sharing.problems import did_you_mean
from sharing.section import is_email
from tandem import arguments
from tandem.init import recipes
from tandem.init.recipes import SPARE_PERCENT, Recipe
from tandem.lookup import require_region
from tandem.search import base_stack
from tandem.terminal import CallError, InputEndedError, complain, folded

NOBODY = NO_LIMIT = NO_PAGE = "none"
SPARE = f"price + {SPARE_PERCENT} %"
"""The budget of a recipe, unless the user names one."""
WIDTH = 78
"""Columns of a question, so that the answer begins behind it, on the same line of a terminal with 80."""
Answer = TypeVar("Answer")


@dataclass(frozen=True, slots=True)
class Questions:
    """The user, where there is one to ask."""

    asks: bool

    def answer(
        self, question: str, default: str | None, read: Callable[[str], Answer], given: str | None = None
    ) -> Answer:
        """What was given, or else the user's answer, or else the default, as `read` reads it.

        The user is asked again after a wrong answer. Raises `CallError` for any other that `read` does not take.
        """
        if given is not None or not self.asks:
            return read((default or "") if given is None else given)
        proposed = f"{question}:" if default is None else f"{question} [{default}]:"
        while True:
            try:
                text = input(printable(f"{folded(proposed, WIDTH, 0)} ")).strip()
            except EOFError:
                print(file=sys.stderr)
                raise InputEndedError("input ended before the last question. Nothing was written. Use --yes.") from None
            if not text and default is None:
                complain("the answer is empty, and there is no default. Write one.")
                continue
            try:
                return read(text or default or "")
            except InputEndedError:
                raise
            except CallError as error:
                complain(str(error))


def region(text: str) -> str:
    """An AWS region."""
    require_region(text)
    return text


def budget(text: str) -> str:
    """A budget as the user wrote it, which is the default where the question is asked again."""
    limits(text)
    return text


def limits(text: str) -> base_stack.Values:
    """The budget as keys of a stack file; empty for no limit."""
    limit = limit_of(text)
    return {**limit.settings} if limit else {}


def limit_of(text: str) -> arguments.Budget | None:
    """The budget; None for no limit, and for one that depends on the price."""
    try:
        return None if text in (NO_LIMIT, SPARE) else arguments.budget(text)
    except argparse.ArgumentTypeError as error:
        raise CallError(f"the budget {error}") from None


def context(text: str) -> int:
    """Tokens per request."""
    try:
        return arguments.count(text)
    except argparse.ArgumentTypeError as error:
        raise CallError(f"the context {error}") from None


def recipe(text: str) -> Recipe:
    """A recipe by name."""
    known = [*recipes.names(), recipes.OWN]
    if text not in known:
        raise CallError(f"unknown recipe '{text}'. {did_you_mean(text, known)}")
    return recipes.read(text)


def page(text: str) -> dict[str, dict[str, object]]:
    """The section `ui` with this administrator; empty for no page."""
    if text == NO_PAGE:
        return {}
    if not is_email(text):
        raise CallError(f"'{text}' must be an e-mail address, or {NO_PAGE}.")
    return {"ui": {"enabled": True, "admin-email": text}}


def networks(text: str) -> list[str]:
    """Networks in CIDR notation; an address alone is a network of one."""
    return [] if text == NOBODY else list(map(_network, words(text)))


def _network(text: str) -> str:
    try:
        return f"{ipaddress.IPv4Address(text)}/32"
    except ValueError:
        return text  # A network; the rules judge it.


def words(text: str) -> list[str]:
    """The parts of a list, however the user separates them."""
    return re.findall(r"[^\s,]+", text)


def number_of(rows: Sequence[object]) -> Callable[[str], int]:
    """Reads the number of a row, from 1."""

    def read(text: str) -> int:
        if not (text.isascii() and text.isdigit() and 1 <= int(text) <= len(rows)):
            raise CallError(f"there is no setup '{text}'. Write a number from 1 to {len(rows)}.")
        return int(text)

    return read
