"""`tandem init`: asks what the stack is for, shows the cheapest setups, and writes the one that the user picks."""

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from tandem.arguments import Commands, add_command, add_hours, add_isolation, add_region, add_slots
from tandem.init import recipes
from tandem.lookup import called, resolve_path
from tandem.terminal import FAILED, FINE, CallError, print_json, print_line

# The rules and rich are imported where they are used: help and completion do without them.
if TYPE_CHECKING:
    from sharing.verdict.choices import Choice
    from tandem.init.questions import Questions
    from tandem.init.recipes import Recipe
    from tandem.init.setups import Found

STACK = "mine"
REGION = "us-east-1"
OWN = recipes.CLASSIC
WHAT = "A recipe, or `own` for models that you name"


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
    parser.add_argument(
        "stack", nargs="?", metavar="STACK|FILE", help=f"the stack to create (default: {STACK}, or the recipe's name)"
    )
    parser.add_argument(
        "--recipe",
        choices=recipes.names(),
        help="write a complete stack for this use: models, context, working hours, chat page, and a budget "
        f"{recipes.SPARE_PERCENT} %% above its price, in steps of ${recipes.STEP}; other flags replace its values",
    )
    add_region(parser, REGION)
    parser.add_argument(
        "--model",
        action="append",
        metavar="TAG",
        help=f"an Ollama tag; pass it once per model (default: {OWN.tags}, or the recipe's)",
    )
    parser.add_argument(
        "--budget",
        metavar="USD",
        help="maximum price of the whole stack: per hour (1), also while nodes are replaced, or per month (350/month), "
        "with its schedule (default: none, or the recipe's)",
    )
    parser.add_argument(
        "--context",
        metavar="N",
        help=f"tokens per request of a model that supports as many (default: {OWN.context}, or the recipe's)",
    )
    add_slots(parser, "1")
    add_isolation(parser)
    add_hours(parser, "always, or the recipe's")
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
    from tandem.init.questions import Questions
    from tandem.init.setups import find_setups
    from tandem.search import new_stack_file

    questions = Questions(asks=_may_ask(parsed))
    path = _free(parsed.stack, parsed, questions) if parsed.stack else None
    recipe = _find_recipe(parsed, questions)
    name = STACK if recipe.is_own else recipe.name
    if questions.asks and not parsed.force:
        name = new_stack_file.unused_name(resolve_path(name))
    path = path or questions.answer("Name of the stack", name, lambda name: _free(name, parsed, questions))
    in_project = called(path) == stack_name(path)
    files = project.missing_files(path.parent) if in_project else {}
    found = find_setups(parsed, questions, recipe)
    if not found.choices.fitting:
        return FAILED
    choice = _pick(found, parsed, questions) if recipe.is_own else found.choices.fitting[found.choices.proposed]
    for file, text in files.items():
        new_stack_file.save(file, text)
    overwrites = path.exists()
    new_stack_file.write(found.base_for(choice), choice, path, "init")
    _report([*files, path], choice, parsed, recipe, overwrites=overwrites)
    return FINE


def _may_ask(parsed: argparse.Namespace) -> bool:
    """Whether there is somebody to ask; raises `CallError` where nobody is and the call says too little."""
    if parsed.yes:
        return False
    if sys.stdin.isatty() and sys.stdout.isatty() and not parsed.json:
        return True
    if parsed.model or parsed.recipe:
        return False
    stream = "stdout" if sys.stdin.isatty() else "stdin"
    why = " with --json" if parsed.json else f": {stream} is not a terminal"
    raise CallError(
        f"`tandem init` cannot ask questions{why}. Pass --recipe NAME or --model TAG (repeatable), --region, "
        "--context, --hours, --ui, --budget, --allow-cidr, or --yes for their defaults."
    )


def _find_recipe(parsed: argparse.Namespace, questions: "Questions") -> "Recipe":
    """The recipe of the call, or of the user's answer; that of the user's own models where it names some."""
    from tandem.init import questions as ask

    given = parsed.recipe or (recipes.OWN if parsed.model else None)
    if questions.asks and not given:
        print_line("What do you want to run?", sys.stdout)
        every = [recipes.read(name) for name in recipes.names()]
        for one in every:
            print_line(f"  {one.name:<{max(map(len, recipes.names()))}}  {one.title}", sys.stdout)
    recipe = questions.answer(WHAT, recipes.OWN, ask.recipe, given)
    if not questions.asks:
        recipe.require({"ui": parsed.ui, "allow-cidr": parsed.allow_cidr})
    return recipe


def _free(name: str, parsed: argparse.Namespace, questions: "Questions") -> Path:
    """The stack file of that name, which the command may write."""
    from tandem.search import new_stack_file

    path = resolve_path(name)
    new_stack_file.check(path, force=parsed.force, asks=questions.asks)
    return path


def _pick(found: "Found", parsed: argparse.Namespace, questions: "Questions") -> "Choice":
    """The setup of the user's choice; without a user, the proposed one."""
    from tandem.init.questions import number_of
    from tandem.init.setups import ROWS

    choices = found.choices
    rows = choices.fitting[:ROWS]
    proposed = choices.proposed + 1 if choices.proposed < len(rows) else 1
    if proposed > 1 and not parsed.json:
        done = "proposed" if questions.asks else "written"
        calm = "with fewer warnings" if rows[proposed - 1].doubts else "without a warning"
        print_line(f"Setup {proposed} is {done}: as cheap as setup 1, and {calm}.", sys.stdout)
    return rows[questions.answer("Setup", f"{proposed}", number_of(rows)) - 1]


def _report(
    written: list[Path], choice: "Choice", parsed: argparse.Namespace, recipe: "Recipe", *, overwrites: bool
) -> None:
    """What was written; the plan of the stack follows."""
    from stacks.stack_file.judge import stack_name
    from tandem.search.new_stack_file import shown

    stack = written[-1]
    if parsed.json:
        cell, speed = choice.cell, choice.cell.slowest_busy
        print_json(
            {
                "schema_version": 1,
                "written": [str(path) for path in written],
                "stack": stack_name(stack),
                "recipe": None if recipe.is_own else recipe.name,
                "mode": cell.pool.sharing.mode,
                "instance_type": cell.instance.name,
                "nodes": cell.nodes,
                "capacity": cell.pool.capacity,
                "usd_per_hour": round(choice.bill.usd_per_hour, 4),
                "usd_per_month": round(choice.bill.usd_per_month, 2),
                "tokens_per_second": round(speed.value, 1) if speed else None,
            }
        )
        return
    print_line("", sys.stdout)
    print_line(f"Wrote {', '.join(map(shown, written))}{' (overwritten)' * overwrites}. This is its plan:", sys.stdout)
    print_line("", sys.stdout)
    name = called(stack)
    parsed.then = ["plan", name]
    parsed.last = ["", *_advice(choice, parsed, recipe, name), *_next(choice, name, deploys=name == stack_name(stack))]


def _next(choice: "Choice", name: str, *, deploys: bool) -> list[str]:
    """The commands from here to a stack that answers."""
    lines = [f"Next, at no cost: `tandem sandbox up {name}`"]
    if deploys:
        page = f", `tandem open {name}`" * choice.config.ui.enabled
        lines.append(f"On AWS: `pulumi stack init {name}`, `tandem doctor {name}`, `pulumi up --stack {name}`{page}")
    return lines


def _advice(choice: "Choice", parsed: argparse.Namespace, recipe: "Recipe", name: str) -> list[str]:
    """What the user may want to change."""
    from tandem.search.base_stack import ANYWHERE
    from tandem.search.hours import describe_hours, hours_of

    lines = []
    if choice.config.park:
        change = "" if hours_of(parsed) else " --hours changes it."
        lines.append(f"GPU nodes run {describe_hours(choice.config.park)}.{change}")
    if not recipe.is_own:
        lines.append(f"Other setups for these models: `tandem choose --stack {name}`")
    if choice.config.cluster.public_access_cidrs == [ANYWHERE]:
        lines.append("The Kubernetes API is open to the internet; --allow-cidr restricts it.")
    return lines
