"""The command `images`: arguments and handler. Cheap to import."""

import argparse
import sys

from tandem.arguments import Commands, add_command, add_stack
from tandem.lookup import accepted
from tandem.terminal import FINE, CallError, open_console, print_json, print_line, status


def add(commands: Commands) -> None:
    """Adds the command to those of `tandem`."""
    parser = add_command(
        commands,
        "images",
        _run,
        description="List every image and every chart that a stack needs, with its digest and who pulls it. Needs no "
        "AWS account and no network.",
    )
    add_stack(parser)
    parser.add_argument(
        "--format",
        choices=("text", "copy"),
        default="text",
        help="copy: a shell script that copies them to the stack's `registry`, with crane and helm",
    )


def _run(parsed: argparse.Namespace) -> int:
    if parsed.json and parsed.format != "text":
        raise CallError("--json and --format copy exclude each other. Pass one of them.")
    plan = accepted(parsed.stack)
    registry = plan.config.registry
    if parsed.format == "copy" and registry is None:
        example = "tandem:registry: registry.example.com/tandem"
        raise CallError(f"the stack {plan.stack} has no registry to copy to. Write `{example}`, for example.")
    from tandem.images import copying, screen
    from tandem.images.listing import list_artifacts

    with status(f"Planning {plan.stack}"):
        listed = list_artifacts(plan)
    if parsed.json:
        entries = [
            {
                "kind": one.kind,
                "reference": one.reference,
                "name": one.name,
                "version": one.version,
                "digest": one.digest or None,
                "pinned_by": one.pinned_by,
                "pulled_by": "node" if one.kind == "image" else "pulumi",
                "compressed_mib": one.compressed_mib or None,
                "copy": f"{one.copy_in(registry)}:{one.version}" if registry else None,
                "used_by": users,
            }
            for one, users in listed.items()
        ]
        print_json({"schema_version": 1, "registry": registry, "artifacts": entries})
    elif registry and parsed.format == "copy":
        for line in copying.copy_script(listed, registry):
            print_line(line, sys.stdout, fold=False)
    else:
        screen.show(open_console(), plan.stack, listed, registry)
    return FINE
