"""`tandem plan --graph FILE`: the resources as a drawing or as Mermaid text, by the ending of the file's name."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from tandem.terminal import CallError

if TYPE_CHECKING:
    from tandem.dry_run.program import Planned

ENDINGS = (".svg", ".mmd", ".md")


def graph_file(text: str) -> Path:
    """The file that a graph goes to."""
    path = Path(text)
    if path.suffix.lower() not in ENDINGS:
        raise argparse.ArgumentTypeError(f"{text} has an unknown file type. Use .svg, .mmd or .md.")
    if not path.parent.is_dir():  # said before the plan, not after it
        raise argparse.ArgumentTypeError(f"{text} is in a folder that does not exist. Choose another file.")
    return path


def write_graph(path: Path, planned: "Planned", stack: str) -> None:
    """Writes the graph of a plan; raises `CallError` if the file cannot be written."""
    from tandem.plan import drawing, mermaid
    from tandem.plan.diagram import make_diagram

    write = {".svg": drawing.draw, ".mmd": mermaid.flowchart, ".md": mermaid.document}[path.suffix.lower()]
    text = write(make_diagram(planned, stack))
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise CallError(f"cannot write {path}: {error.strerror}. Choose another file with --graph.") from error
