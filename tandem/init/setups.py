"""The setups for what the user wants: each answer is checked before the next question."""

import argparse
import datetime
import re
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from sharing.models.catalogue import find
from sharing.schedule.week import timezone_of
from sharing.verdict.choices import Choice, Choices, choose
from sharing.verdict.rules.budget import PER_MONTH
from tandem.arguments import isolations
from tandem.init import questions as ask
from tandem.init.questions import Questions
from tandem.init.recipes import Recipe, limit
from tandem.search import base_stack, screen
from tandem.search.base_stack import ANYWHERE, CAPACITIES, BaseStack, Values
from tandem.search.contexts import describe_lowered, with_slots
from tandem.search.hours import ALWAYS, hours_of, read_hours
from tandem.search.smaller import fits_if_smaller
from tandem.search.unit import UnlikelyLimitError, require_likely
from tandem.terminal import FAILED, CallError, complain, print_line, status

REGION = "us-east-1"
ROWS = 3
"""Setups to pick from."""
SETTING = re.compile(r"^(?:models|cluster\.public-access-cidrs)\b[^ ]*:", re.MULTILINE)
"""Where a stack file has what the user said: there is no file yet."""
FLAG = "--model"
ACCESS = "Networks (CIDR) that may reach the Kubernetes API, or `none`"
HOURS = "Hours with GPU nodes, Monday to Friday, as in `8-20 Europe/Paris`, or `always`"
PAGE = "E-mail address of the administrator of a chat page, or `none`"
CONTEXT = "Context in tokens, at most"
BUDGET = "Budget in dollars: `1` per hour, `350/month`, or `none`"
SMALLER = "For less, name smaller models: --model TAG, once per model. `tandem models` lists all."


class NothingFitsError(CallError):
    """No setup holds the models within the budget."""

    exit_code = FAILED


@dataclass(frozen=True, slots=True)
class Found:
    """The setups, the best first, and the rest of the stack."""

    base: BaseStack
    choices: Choices
    spares: bool
    """Whether the stack gets a limit of its own: the user names none."""

    def base_for(self, choice: Choice) -> BaseStack:
        """The rest of the stack for a setup, with that limit; without one where its price is not known."""
        if not self.spares or choice.bill.unpriced:
            return self.base
        return self.base.with_limits({PER_MONTH: limit(choice.bill.usd_per_month)})


@dataclass(frozen=True, slots=True, kw_only=True)
class _Stack:
    """What every setup has: all answers but those about models and money."""

    region: str
    allowed: list[str]
    others: Values
    today: datetime.date

    def of(self, models: list[Values], limits: Values) -> BaseStack:
        return base_stack.of_models(models, self.region, limits, self.today, self.allowed, self.others)

    def check(self, name: str, models: list[Values]) -> None:
        """Raises `CallError` about the flag or question of that name."""
        try:
            self.of(models, {})
        except CallError as error:
            raise CallError(SETTING.sub(f"{name}:", str(error))) from None


def find_setups(parsed: argparse.Namespace, questions: Questions, recipe: Recipe) -> Found:
    """The setups for the answers; the user is asked again while nothing fits, where other answers may help."""
    stack = _ask_for_stack(parsed, questions, recipe)
    tags, context = recipe.tags, None
    money = ask.NO_LIMIT if recipe.is_own else ask.SPARE
    given, given_context, given_budget = joined(parsed.model), parsed.context, parsed.budget
    if not recipe.is_own:
        given = given or recipe.tags

    def named(text: str) -> str:
        name = FLAG if given else "Models"
        if "ui" in stack.others:
            _require_chat(name, ask.words(text), recipe)
        stack.check(name, recipe.serve(ask.words(text), None))
        return text

    def sized(text: str) -> int:
        count = ask.context(text)
        stack.check("--context" if given_context else "Context", recipe.serve(ask.words(tags), count))
        return count

    if parsed.slots:
        try:
            stack.of(with_slots(recipe.models, parsed.slots), {})
        except CallError as error:
            raise CallError(base_stack.about_arguments(str(error), {"slots": "--slots"})) from None
    while True:
        tags = questions.answer("Models, separated by spaces", tags, named, given)
        if recipe.is_own or given_context:
            context = questions.answer(CONTEXT, str(context or recipe.context), sized, given_context)
        money = questions.answer(BUDGET, money, ask.budget, given_budget)
        chosen = with_slots(recipe.serve(ask.words(tags), context), parsed.slots)
        if lowered := describe_lowered(chosen, context, parsed.slots):
            print_line(lowered, sys.stderr if parsed.json else sys.stdout)
        base = stack.of(chosen, ask.limits(money))
        with status("Comparing setups"):
            choices = choose(base.config, CAPACITIES, isolated=isolations(parsed.isolation))
        try:
            require_likely(ask.limit_of(money), choices)
        except UnlikelyLimitError as error:
            if not questions.asks:
                raise
            complain(str(error))
            money, given_budget = f"{money}/month", None
            continue
        found = Found(base, choices, money == ask.SPARE)
        if choices.fitting:
            if recipe.is_own and not parsed.json:
                screen.table(base.config, choices, ROWS, numbered=True)
            return found
        _say_that_nothing_fits(base, choices, parsed, recipe)
        if not questions.asks or not (recipe.is_own or choices.over_budget):
            return found
        print_line("Change the models or the budget." if recipe.is_own else "Change the budget.", sys.stdout)
        given = None if recipe.is_own else given
        given_context = given_budget = None


def _ask_for_stack(parsed: argparse.Namespace, questions: Questions, recipe: Recipe) -> _Stack:
    today = datetime.date.today()
    region = questions.answer("AWS region", REGION, ask.region, parsed.region)

    def allowed_to(text: str) -> list[str]:
        allowed = ask.networks(text)
        name = "--allow-cidr" if parsed.allow_cidr else "Networks"
        _Stack(region=region, allowed=allowed, others={}, today=today).check(name, recipe.models)
        return allowed

    needed = dict.fromkeys(recipe.needs)
    allowed = questions.answer(ACCESS, needed.get("allow-cidr", ANYWHERE), allowed_to, joined(parsed.allow_cidr))
    hours = recipe.hours if recipe.hours == ALWAYS else f"{recipe.hours} {timezone_of(region)}"
    park = questions.answer(HOURS, hours, lambda text: read_hours(text, region), hours_of(parsed))
    page = questions.answer(PAGE, needed.get("ui", ask.NO_PAGE), ask.page, parsed.ui)
    return _Stack(region=region, allowed=allowed, others=recipe.sections(park, page), today=today)


def _require_chat(name: str, tags: list[str], recipe: Recipe) -> None:
    """Raises `CallError`, in words of the call, where the page would have no model to chat with."""
    if not all(map(_embeds, tags)):
        return
    example = next(model["name"] for model in recipe.models if not _embeds(model["name"]))
    if name == FLAG and not recipe.is_own:
        why = f"{FLAG} replaces all models of the recipe, and the page then has none to chat with."
    else:
        why = f"{name}: the page has no model to chat with."
    raise CallError(f"{why} Add {f'{FLAG} ' * (name == FLAG)}{example}.")


def _embeds(tag: str) -> bool:
    model = find(tag)
    return model is not None and model.encoder


def _say_that_nothing_fits(base: BaseStack, choices: Choices, parsed: argparse.Namespace, recipe: Recipe) -> None:
    """Raises `NothingFitsError` for a program."""
    isolated = isolations(parsed.isolation)
    helps = choices.over_budget and not recipe.is_own and fits_if_smaller(base.config, isolated)
    smaller = SMALLER if helps else ""
    if parsed.json:
        raise NothingFitsError(f"{screen.describe_nothing(base.config, choices)} {smaller}".strip())
    screen.table(base.config, choices, ROWS)
    if smaller:
        print_line(f"hint: {smaller}", sys.stdout)


def joined(given: Iterable[Any] | None) -> str | None:
    """A flag that may be passed several times, as the answer to its question."""
    return None if given is None else " ".join(given)
