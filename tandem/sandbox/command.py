"""`tandem sandbox`: its arguments."""

import argparse
from pathlib import Path

from stacks.stack_file.judge import stack_name
from tandem.arguments import EXIT_CODES, Commands, add_command, add_stack, not_negative
from tandem.lookup import accepted, existing, stack_file
from tandem.sandbox.verbs import Place, command
from tandem.terminal import CallError

VERBS = {
    "up": "create or change the stack in the emulated cloud",
    "preview": "show what `up` would do",
    "refresh": "update Pulumi's state from the emulated cloud",
    "destroy": "delete everything and verify that nothing is left",
    "status": "compare Pulumi's state with the emulated cloud; show how to fix differences",
    "pulumi": "run any other pulumi command on the stack, for example `-- stack output`",
    "delete": "delete one resource from the emulated cloud behind Pulumi's back, as in the AWS console",
}
VERB_EXIT_CODES = {
    1: "failed, or Pulumi's state and the emulated cloud differ",
    2: "usage error, unreadable input, or the sandbox is in use",
}
REPORTING = ("up", "refresh", "destroy", "status", "delete")
"""Verbs with `--json`. The others show the output of `pulumi`, which has its own `--json` after the `--`."""
PASSING_ON = ("up", "preview", "refresh", "destroy", "pulumi")
"""Verbs that pass the arguments after `--` to pulumi. argparse never sees these: `tandem.main` removes them."""
PACED = ("up", "destroy", "pulumi")
"""Verbs that wait for resources of the emulated cloud."""


def add(commands: Commands) -> None:
    """Adds the command and its verbs to those of `tandem`."""
    sandbox = commands.add_parser(
        "sandbox",
        description="Run the `pulumi` on your PATH against an emulated cloud, which is stored in .tandem/sandbox/. "
        "Needs no AWS account and no network, and costs nothing. Arguments after `--` go to pulumi.",
    )
    sandbox.exit_codes = EXIT_CODES | VERB_EXIT_CODES
    sandbox.set_defaults(run=lambda parsed: sandbox.parse_args(["--help"]))
    verbs = sandbox.add_subparsers(metavar="COMMAND", dest="verb", title="commands")
    sandbox.usage = "tandem sandbox COMMAND [OPTIONS] [STACK|FILE]"
    for verb, what in VERBS.items():
        passing = ("-- ARGUMENT ..." if verb == "pulumi" else "[-- ARGUMENT ...]") if verb in PASSING_ON else ""
        parser = add_command(
            verbs,
            verb,
            _run,
            help=what,
            description=f"{what[0].upper()}{what[1:]}.",
            exit_codes=VERB_EXIT_CODES,
            json="print one JSON object; pulumi's output goes to stderr" if verb in REPORTING else "",
            usage=f"%(prog)s [OPTIONS] [STACK|FILE] {passing}" if passing else None,
        )
        parser.option_hint = parser.word_hint = "Write arguments of pulumi after `--`." if passing else ""
        add_stack(parser, default=verb != "delete")
        if verb in PACED:
            parser.add_argument(
                "--pace",
                type=not_negative,
                metavar="SECONDS",
                help="real seconds per simulated minute (default: 0, instant)",
            )
        if verb == "delete":
            parser.add_argument("type", metavar="TYPE", help="resource type, e.g. aws:ec2/vpcEndpoint:VpcEndpoint")
            parser.add_argument(
                "id",
                metavar="ID",
                help="resource ID, as shown by `tandem sandbox status` or `tandem sandbox pulumi STACK -- stack "
                "--show-ids`",
            )
        parser.set_defaults(pace=0.0)


def _run(parsed: argparse.Namespace) -> int:
    verb = parsed.verb
    if verb == "pulumi" and not parsed.passed_on:
        raise CallError("pulumi's command is missing. Write it after `--`, e.g. `-- stack output`.")
    if verb not in PASSING_ON and parsed.passed_on:
        raise CallError(f"`{verb}` passes nothing to pulumi. Remove `--` and what follows it.")
    path = stack_file(parsed.stack)
    homes = [path.absolute().parent, Path.cwd(), *Path.cwd().parents]
    projects = [folder for folder in homes if (folder / "Pulumi.yaml").is_file()]
    if not projects:
        raise CallError("there is no Pulumi.yaml here or above: go to the project's folder")
    if verb in ("up", "preview") and (theirs := accepted(parsed.stack).config.cluster.existing):
        fix = "Remove the section to try the stack in a cluster of its own."
        raise CallError(f"cluster.existing: the sandbox has no cluster '{theirs.name}'. {fix}")

    place = Place(stack_name(path), path.absolute(), projects[0])
    if not place.folder.is_dir():  # a sandbox outlives its stack file
        existing(parsed.stack)
    more = [parsed.type, parsed.id] if verb == "delete" else parsed.passed_on
    return command(verb, place, more, pace=parsed.pace, as_json=parsed.json)
