"""`tandem init`: asks what the stack is for, shows the cheapest setups, and writes the one that the user picks."""

import argparse
import datetime
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from tandem.arguments import ISOLATION, Commands, add_command, add_isolation, add_region
from tandem.lookup import called, resolve_path
from tandem.terminal import FAILED, FINE, CallError, print_json, print_line, status

# The rules and rich are imported where they are used: help and completion do without them.
if TYPE_CHECKING:
    from sharing.verdict.choices import Choice, Choices
    from tandem.init.questions import Questions
    from tandem.search.base_stack import BaseStack, Values

SCHEMA_VERSION = 1
STACK = "mine"
REGION = "us-east-1"
MODELS = "llama2:7b mistral:7b"
CONTEXTS = 4096
"""The default of a stack file."""
ROWS = 3
"""Setups to pick from."""
SETTING = re.compile(r"^(?:models|cluster\.public-access-cidrs)\b[^ ]*:", re.MULTILINE)
"""Where a stack file has what the user said: there is no file yet."""
ANYWHERE = "0.0.0.0/0"
ACCESS = "Networks (CIDR) that may reach the Kubernetes API, or `none`"
HOURS = "Hours with GPU nodes, Monday to Friday, as in `8-20 Europe/Paris`"
PAGE = "E-mail address of the administrator of a chat page, or `none`"
CONTEXT = "Context in tokens, at most"
BUDGET = "Budget in dollars: `1` per hour, `350/month`, or `none`"


class NothingFitsError(CallError):
    """No setup holds the models within the budget."""

    exit_code = FAILED


def add(commands: Commands) -> None:
    """Adds the command to those of `tandem`."""
    parser = add_command(
        commands,
        "init",
        run,
        description="Ask what the stack is for, show the cheapest setups, and write the stack file of your choice. "
        "Flags answer questions in advance. Needs no AWS account and no network.",
        exit_codes={0: "the stack file was written", 1: "no setup fits"},
    )
    parser.add_argument("stack", nargs="?", metavar="STACK|FILE", help=f"the stack to create (default: {STACK})")
    add_region(parser, REGION)
    parser.add_argument(
        "--model", action="append", metavar="TAG", help=f"an Ollama tag; pass it once per model (default: {MODELS})"
    )
    parser.add_argument(
        "--budget",
        metavar="USD",
        help="maximum price of the whole stack: per hour (1), also while nodes are replaced, or per month (350/month), "
        "with its schedule (default: none)",
    )
    parser.add_argument(
        "--context", metavar="N", help=f"tokens per request of a model that supports as many (default: {CONTEXTS})"
    )
    add_isolation(parser)
    parser.add_argument(
        "--hours",
        metavar="FROM-TO",
        help="run GPU nodes in these hours from Monday to Friday, as in '8-20 Europe/Paris', by default in the time "
        "zone of the region (default: always)",
    )
    parser.add_argument("--ui", metavar="EMAIL", help="add a chat page with this administrator (default: none)")
    parser.add_argument(
        "--allow-cidr",
        action="append",
        metavar="CIDR",
        help="a network that may reach the Kubernetes API, or `none`; pass it once per network "
        "(default: 0.0.0.0/0; IAM still applies)",
    )
    parser.add_argument("--yes", "--no-input", action="store_true", help="ask no questions; use the defaults")
    parser.add_argument("--force", action="store_true", help="overwrite an existing stack file")


def run(parsed: argparse.Namespace) -> int:
    """Runs the command; returns its exit code."""
    from stacks.stack_file.judge import stack_name
    from tandem.init import project
    from tandem.init.questions import Questions, number_of
    from tandem.search import new_stack_file

    questions = Questions(asks=_may_ask(parsed))
    path = questions.answer("Name of the stack", STACK, lambda name: _free(name, parsed, questions), parsed.stack)
    in_project = called(path) == stack_name(path)
    files = project.missing_files(path.parent) if in_project else {}
    base, choices = _setups(parsed, questions)
    if not choices.fitting:
        return FAILED
    rows = choices.fitting[:ROWS]
    proposed = choices.proposed + 1 if choices.proposed < len(rows) else 1
    if proposed > 1 and not parsed.json:
        done = "proposed" if questions.asks else "written"
        print_line(f"Setup {proposed} is {done}: as cheap as setup 1, and without a warning.", sys.stdout)
    choice = rows[questions.answer("Setup", f"{proposed}", number_of(rows)) - 1]
    for file, text in files.items():
        new_stack_file.save(file, text)
    overwrites = path.exists()
    new_stack_file.write(base, choice, path, "init")
    _report([*files, path], choice, parsed, overwrites=overwrites)
    return FINE


def _may_ask(parsed: argparse.Namespace) -> bool:
    """Whether there is somebody to ask; raises `CallError` where nobody is and the call says too little."""
    if parsed.yes:
        return False
    if sys.stdin.isatty() and sys.stdout.isatty() and not parsed.json:
        return True
    if parsed.model:
        return False
    stream = "stdout" if sys.stdin.isatty() else "stdin"
    why = " with --json" if parsed.json else f": {stream} is not a terminal"
    raise CallError(
        f"`tandem init` cannot ask questions{why}. Pass --model TAG (repeatable), --region, --context, --hours, --ui, "
        "--budget, --allow-cidr, or --yes for their defaults."
    )


def _free(name: str, parsed: argparse.Namespace, questions: "Questions") -> Path:
    """The stack file of that name, which the command may write."""
    from tandem.search import new_stack_file

    path = resolve_path(name)
    new_stack_file.check(path, force=parsed.force, asks=questions.asks)
    return path


def _setups(parsed: argparse.Namespace, questions: "Questions") -> "tuple[BaseStack, Choices]":
    """The setups for the answers, shown; the user is asked for others while nothing fits."""
    from sharing.verdict.choices import ISOLATIONS, choose
    from tandem.init import questions as ask
    from tandem.search import base_stack, screen
    from tandem.search.contexts import describe_lowered
    from tandem.search.hours import ALWAYS, read_hours

    today = datetime.date.today()
    region = questions.answer("AWS region", REGION, ask.region, parsed.region)

    def check(name: str, models: str, context: int, allowed: list[str], others: "Values | None" = None) -> None:
        """Raises `CallError` about the flag or question of that name."""
        try:
            base_stack.of_models(ask.models(models, context), region, {}, today, allowed, others)
        except CallError as error:
            raise CallError(SETTING.sub(f"{name}:", str(error))) from None

    def allowed_to(text: str) -> list[str]:
        allowed = ask.networks(text)
        check("--allow-cidr" if parsed.allow_cidr else "Networks", MODELS, CONTEXTS, allowed)
        return allowed

    def named(text: str) -> str:
        check("--model" if given else "Models", text, CONTEXTS, access, others)
        return text

    def sized(text: str) -> int:
        context = ask.context(text)
        check("--context" if given_context else "Context", models, context, access, others)
        return context

    access = questions.answer(ACCESS, ANYWHERE, allowed_to, _joined(parsed.allow_cidr))
    others = {
        **questions.answer(HOURS, ALWAYS, lambda text: read_hours(text, region), parsed.hours),
        **questions.answer(PAGE, ask.NO_PAGE, ask.page, parsed.ui),
    }
    models, context, budget = MODELS, CONTEXTS, ask.NO_LIMIT
    given, given_context, given_budget = _joined(parsed.model), parsed.context, parsed.budget
    while True:
        models = questions.answer("Models, separated by spaces", models, named, given)
        context = questions.answer(CONTEXT, str(context), sized, given_context)
        budget = questions.answer(BUDGET, budget, ask.budget, given_budget)
        chosen = ask.models(models, context)
        if lowered := describe_lowered(chosen, context):
            print_line(lowered, sys.stderr if parsed.json else sys.stdout)
        base = base_stack.of_models(chosen, region, ask.limits(budget), today, access, others)
        with status("Comparing setups"):
            isolated = ISOLATION.get(parsed.isolation, ISOLATIONS)
            choices = choose(base.config, ("spot", "on-demand"), isolated=isolated)
        if not parsed.json:
            screen.table(base.config, choices, ROWS, numbered=True)
        elif not choices.fitting:
            raise NothingFitsError("no setup fits the models and the budget. `tandem choose` shows the nearest one.")
        if choices.fitting or not questions.asks:
            return base, choices
        print_line("Change the models or the budget.", sys.stdout)
        given = given_context = given_budget = None


def _joined(given: list[str] | None) -> str | None:
    return None if given is None else " ".join(given)


def _report(written: list[Path], choice: "Choice", parsed: argparse.Namespace, *, overwrites: bool) -> None:
    """What was written; the plan of the stack follows."""
    from stacks.stack_file.judge import stack_name
    from tandem.search.new_stack_file import shown

    stack = written[-1]
    if parsed.json:
        cell = choice.cell
        print_json(
            {
                "schema_version": SCHEMA_VERSION,
                "written": [str(path) for path in written],
                "stack": stack_name(stack),
                "mode": cell.pool.sharing.mode,
                "instance_type": cell.instance.name,
                "nodes": cell.nodes,
                "capacity": cell.pool.capacity,
                "usd_per_hour": round(choice.bill.usd_per_hour, 4),
                "usd_per_month": round(choice.bill.usd_per_month, 2),
            }
        )
        return
    print_line("", sys.stdout)
    print_line(f"Wrote {', '.join(map(shown, written))}{' (overwritten)' * overwrites}. This is its plan:", sys.stdout)
    print_line("", sys.stdout)
    name = called(stack)
    parsed.then = ["plan", name]
    deploy = f", or `pulumi stack init {name}`" if name == stack_name(stack) else ""
    is_open = choice.config.cluster.public_access_cidrs == [ANYWHERE]
    parsed.last = [""]
    parsed.last += ["The Kubernetes API is open to the internet; --allow-cidr restricts it."] * is_open
    parsed.last.append(f"Next: `tandem sandbox up {name}`{deploy}")
