"""The arguments of `tandem models` and `tandem models inspect`."""

import argparse

from tandem.models import listing
from tandem.terminal import EXIT_CODES, Commands, add_command

OLLAMA = "http://127.0.0.1:11434"


def add(commands: Commands) -> None:
    """Registers `models`."""
    parser = add_command(
        commands,
        "models",
        listing.run,
        description="Lists the models whose memory `tandem plan` knows. For any other model, use `inspect`.",
    )
    parser.add_argument("--filter", default="", metavar="TEXT", help="only models with TEXT in name or architecture")
    inspect = parser.add_subparsers(metavar="COMMAND").add_parser(
        "inspect",
        help="describe a model from its GGUF file, its URL, or a running Ollama",
        description="Reads what decides the memory of a model and prints it as own-model keys of a stack file. From a "
        "URL, it downloads the header only. Neither `plan` nor `up` reads the model again.",
        epilog=EXIT_CODES,
    )
    inspect.add_argument("model", metavar="FILE|URL|TAG", help="a GGUF file, its URL, or a tag that Ollama has pulled")
    inspect.add_argument(
        "--ollama", default=OLLAMA, metavar="URL", help="the Ollama that is asked for TAG (default: %(default)s)"
    )
    inspect.add_argument(
        "--projector", metavar="FILE|URL", help="the model's projector (mmproj), where it has its own file"
    )
    inspect.add_argument("--name", metavar="TAG", help="what the stack file calls the model (default: TAG)")
    inspect.add_argument("--write", metavar="STACK|FILE", help="write the description into this stack file")
    inspect.add_argument("--json", action="store_true", default=argparse.SUPPRESS, help="print one JSON object instead")
    inspect.set_defaults(run=_inspect)


def _inspect(parsed: argparse.Namespace) -> int:
    from tandem.models import inspection  # which needs gguf, as the list does not

    return inspection.run(parsed)
