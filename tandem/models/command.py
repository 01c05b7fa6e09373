"""The arguments of `tandem models` and `tandem models inspect`."""

import argparse

from tandem.arguments import EXIT_CODES, Commands, add_command
from tandem.models import listing


def add(commands: Commands) -> None:
    """Registers `models`."""
    parser = add_command(
        commands,
        "models",
        listing.run,
        description="List the models whose memory needs `tandem plan` knows. For any other model, use `inspect`.",
        exit_codes={1: ""},
    )
    parser.word_hint = "Write `tandem models {0}` or `tandem models inspect {0}`."
    parser.word_option = "--filter"
    parser.add_argument(
        "--filter",
        default="",
        metavar="TEXT",
        help="only models with TEXT in their name or architecture; `tandem models TEXT` means the same",
    )
    parser.add_argument(
        "--fits", metavar="GPU|TYPE", help="only models that fit alone on this GPU, or on one of this instance type"
    )
    parser.add_argument(
        "--quant",
        default="",
        metavar="QUANT",
        help="only models in this quantization, e.g. q8_0, and those of Ollama's library whose size is derived",
    )
    inspect = parser.add_subparsers(metavar="COMMAND", title="commands").add_parser(
        "inspect",
        help="describe a model: from the catalogue, a registry, a file or a URL",
        description="Read the values that decide a model's memory. For a tag, the catalogue answers first, then what "
        "earlier calls have kept, then the registry that `ollama pull` uses, also hf.co. From a registry or a URL, it "
        "downloads the header of the GGUF file only.",
    )
    inspect.exit_codes = {**EXIT_CODES, 1: "the model cannot be described"}
    inspect.add_argument(
        "model", metavar="TAG|FILE|URL", help="a tag as in `ollama pull`, a GGUF file or a description, or a URL"
    )
    inspect.add_argument("--ollama", metavar="URL", help="ask this Ollama server, which has TAG")
    inspect.add_argument(
        "--projector", metavar="FILE|URL", help="the model's projector (mmproj), if it is a separate file"
    )
    inspect.add_argument("--name", metavar="TAG", help="name of the model in the stack file (default: TAG)")
    inspect.add_argument(
        "--write",
        metavar="STACK|FILE.json",
        help="write the description: to FILE.json, or beside this stack file, which then names it",
    )
    inspect.add_argument("--json", action="store_true", default=argparse.SUPPRESS, help="print one JSON object instead")
    inspect.set_defaults(run=_inspect, command="models inspect")


def _inspect(parsed: argparse.Namespace) -> int:
    from tandem.models import inspection  # which needs httpx, as the list does not

    return inspection.run(parsed)
