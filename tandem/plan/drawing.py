"""A plan's resources as SVG: components from top to bottom, and each resource below those that it waits for."""

from collections.abc import Iterator
from itertools import groupby
from typing import NamedTuple
from xml.etree.ElementTree import Element

from tandem import svg
from tandem.plan.diagram import Box, Diagram, Edge, Group

COLUMNS = 4
BOX = (214, 44)
GAP = (20, 36)
"""Between boxes, and between rows: edges need the height."""
EDGE = 16
HEAD = 34
WIDTH = COLUMNS * (BOX[0] + GAP[0]) - GAP[0] + 4 * EDGE


class Place(NamedTuple):
    """Upper left corner and size."""

    x: float
    y: float
    width: float
    height: float


def draw(diagram: Diagram) -> str:
    """The SVG text."""
    root = svg.start("plan", diagram.title, diagram.description, WIDTH)
    svg.label(root, EDGE, 28, diagram.title, kind="bold")
    svg.add(root, "rect", x=EDGE, y=42, width=24, height=14, rx=3, fill_="paper", line_="orange", stroke_width=3)
    svg.label(root, EDGE + 32, 54, "startup path, with minutes", fill="quiet")
    places: dict[str, Place] = {}
    top = 70.0
    for group in diagram.groups:
        places |= _place(group, top)
        top += places[group.id].height + GAP[1]
    for group in diagram.groups:
        _frame(root, group, places[group.id])
    for edge in sorted(diagram.edges, key=lambda edge: edge.on_path):
        _edge(root, edge, places[edge.before], places[edge.after])
    for group in diagram.groups:
        for box in group.boxes:
            _box(root, box, places[box.id])
    return svg.finish(root, top)


def _place(group: Group, top: float) -> Iterator[tuple[str, Place]]:
    """The first column is for the startup path only, so that no other box covers it."""
    y = top + HEAD
    for _, same in groupby(group.boxes, lambda box: box.depth):
        boxes = list(same)
        others = [box for box in boxes if not box.on_path]
        yield from ((box.id, _in_column(0, y)) for box in boxes if box.on_path)
        for number, box in enumerate(others):
            row, column = divmod(number, COLUMNS - 1)
            yield box.id, _in_column(1 + column, y + row * (BOX[1] + GAP[1]))
        y += max(-(-len(others) // (COLUMNS - 1)), 1) * (BOX[1] + GAP[1])
    yield group.id, Place(EDGE, top, WIDTH - 2 * EDGE, y - GAP[1] / 2 - top)


def _in_column(column: int, y: float) -> Place:
    return Place(2 * EDGE + column * (BOX[0] + GAP[0]), y, *BOX)


def _frame(root: Element, group: Group, place: Place) -> None:
    svg.add(
        root, "rect", x=place.x, y=place.y, width=place.width, height=place.height, rx=8, fill_="band", line_="rule"
    )
    x = _in_column(1, 0).x
    svg.label(root, x, place.y + 23, svg.shorten(f"{group.kind} {group.name}", place.width - x), kind="bold")


def _box(root: Element, box: Box, place: Place) -> None:
    x, y, width, height = place
    drawn = svg.add(root, "g")
    svg.add(drawn, "title", f"{box.kind}: {', '.join(box.names)}")
    line, thick = ("orange", 3) if box.on_path else ("rule", 1)
    svg.add(drawn, "rect", x=x, y=y, width=width, height=height, rx=6, fill_="paper", line_=line, stroke_width=thick)
    minutes = f"{box.minutes:.1f}" if box.on_path else ""
    room = width - 16 - len(minutes) * svg.SIZE * svg.LETTER
    svg.label(drawn, x + 8, y + 18, svg.shorten(box.kind, room))
    svg.label(drawn, x + 8, y + 36, svg.shorten(box.label, width - 16), fill="quiet")
    if minutes:
        svg.label(drawn, x + width - 8, y + 18, minutes, fill="orange", kind="bold", text_anchor="end")


def _edge(root: Element, edge: Edge, start: Place, end: Place) -> None:
    """A curve from below one to above the other."""
    x, y = start.x + start.width / 2, start.y + start.height
    to_x = end.x + end.width / 2 if end.height == BOX[1] else x
    bend = (end.y - y) / 2
    path = f"M{x:g},{y:g} C{x:g},{y + bend:g} {to_x:g},{end.y - bend:g} {to_x:g},{end.y:g}"
    line, thick = ("orange", 3) if edge.on_path else ("quiet", 1)
    svg.add(root, "path", d=path, fill="none", line_=line, stroke_width=thick)
    tip = f"M{to_x - 4:g},{end.y - 7:g} L{to_x:g},{end.y:g} L{to_x + 4:g},{end.y - 7:g}"
    svg.add(root, "path", d=tip, fill="none", line_=line, stroke_width=thick)
