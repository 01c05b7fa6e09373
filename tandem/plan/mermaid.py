"""A plan's resources as a Mermaid flowchart, which GitHub and editors draw."""

import re
from collections.abc import Iterator

from sharing.printable import one_line
from tandem.markdown import in_markdown
from tandem.plan.diagram import Box, Diagram

MARKS = re.compile(r"[^\w \-.,:/()×]")
"""Mermaid accepts any character as its number, e.g. `#34;` (flowchart syntax, "Entity codes to escape characters")."""
HIGHLIGHT = "stroke:#d9660f,stroke-width:3px"
"""Orange that is visible in Mermaid's light and dark themes."""


def flowchart(diagram: Diagram) -> str:
    """The Mermaid text."""
    return "\n".join(_lines(diagram)) + "\n"


def document(diagram: Diagram) -> str:
    """The same in Markdown."""
    return (
        f"# {in_markdown(diagram.title)}\n\n```mermaid\n{flowchart(diagram)}```\n\n{in_markdown(diagram.description)}\n"
    )


def _lines(diagram: Diagram) -> Iterator[str]:
    yield "flowchart TB"
    yield f"accTitle: {_escape(diagram.title)}"
    yield f"accDescr: {_escape(diagram.description)}"
    for group in diagram.groups:
        yield f'subgraph {group.id}["{_escape(f"{group.kind} {group.name}")}"]'
        for box in group.boxes:
            yield f'  {box.id}["{"<br>".join(_escape(line) for line in words(box))}"]{":::path" * box.on_path}'
        yield "end"
    for edge in diagram.edges:
        yield f"{edge.before} {'==>' if edge.on_path else '-->'} {edge.after}"
    yield f"classDef path {HIGHLIGHT}"
    if numbers := [str(place) for place, edge in enumerate(diagram.edges) if edge.on_path]:
        yield f"linkStyle {','.join(numbers)} {HIGHLIGHT}"


def words(box: Box) -> list[str]:
    """The lines of a box."""
    return [box.kind, box.label, *([f"{box.minutes:.1f} min"] if box.on_path else [])]


def _escape(text: str) -> str:
    return MARKS.sub(lambda mark: f"#{ord(mark[0])};", one_line(text))
