"""Drawings as SVG: with a title and a description, for light and dark pages, the same bytes for the same input.

A drawing brings its own background: a page may be dark where the reader's system is light. Colours stand in classes,
not in CSS variables, which converters to PNG and PDF do not know.
"""

from xml.etree.ElementTree import Element, SubElement, indent, tostring

from sharing.printable import one_line

FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'DejaVu Sans', sans-serif"
SIZE = 14
"""Pixels of text; on a phone, a drawing as wide as `PHONE` shows at least 11 of them."""
PHONE = 420
LETTER = 0.6
"""Mean width of a letter over the size of its font, rounded up."""
LIGHT = {
    "paper": "#ffffff", "ink": "#1f2328", "quiet": "#59636e", "rule": "#d1d9e0",
    "blue": "#0072b2", "orange": "#b84a00", "band": "#f6f8fa",
}  # fmt: skip
DARK = {
    "paper": "#0d1117", "ink": "#f0f6fc", "quiet": "#9da7b3", "rule": "#3d444d",
    "blue": "#56b4e9", "orange": "#ff9a4d", "band": "#151b23",
}  # fmt: skip
"""Blue and orange of Okabe and Ito, which people with colour blindness tell apart; the darker or lighter one of each
where text needs a contrast of 4.5 (WCAG 2.2, 1.4.3)."""


def start(name: str, title: str, description: str, width: float) -> Element:
    """An empty drawing; `name` keeps its ids apart from those of other drawings on a page."""
    root = Element(
        "svg",
        {
            "xmlns": "http://www.w3.org/2000/svg",
            "role": "img",
            "aria-labelledby": f"{name}-title {name}-description",
            "width": _plain(width),
        },
    )
    add(root, "title", title, id=f"{name}-title")
    add(root, "desc", description, id=f"{name}-description")
    add(root, "style", _style())
    add(root, "rect", fill_="paper", width="100%", height="100%")
    return root


def finish(root: Element, height: float) -> str:
    """The drawing as text, once its height is known."""
    root.set("height", _plain(height))
    root.set("viewBox", f"0 0 {root.get('width')} {_plain(height)}")
    indent(root)
    return tostring(root, encoding="unicode") + "\n"


def add(parent: Element, tag: str, words: str = "", **attributes: object) -> Element:
    """Adds an element. `fill_` and `line_` name a colour, `text_anchor` is `text-anchor`."""
    kinds = [f"{key[:-1]}-{attributes.pop(key)}" for key in ("fill_", "line_") if key in attributes]
    kinds += [str(attributes.pop("kind"))] if "kind" in attributes else []
    named = {"class": " ".join(kinds)} if kinds else {}
    element = SubElement(parent, tag, named | {key.replace("_", "-"): _plain(each) for key, each in attributes.items()})
    element.text = one_line(words) or None  # XML has no escape for control characters
    return element


def label(parent: Element, x: float, y: float, words: str, *, fill: str = "ink", **attributes: object) -> Element:
    """Adds text."""
    return add(parent, "text", words, x=x, y=y, fill_=fill, **attributes)


def shorten(words: str, width: float) -> str:
    """The text as far as it fits; only names may be shortened, never numbers."""
    most = max(int(width / (SIZE * LETTER)), 2)
    return words if len(words) <= most else words[: most - 1] + "…"


def _style() -> str:
    return (
        f"text{{font:{SIZE}px {FONT}}}.bold{{font-weight:600}}.halo{{paint-order:stroke;stroke-width:5px}}"
        f"{_colours(LIGHT)}@media screen and (prefers-color-scheme:dark){{{_colours(DARK)}}}"
    )


def _colours(palette: dict[str, str]) -> str:
    kinds = (f".fill-{name}{{fill:{colour}}}.line-{name}{{stroke:{colour}}}" for name, colour in palette.items())
    return f"{''.join(kinds)}.halo{{stroke:{palette['paper']}}}"


def _plain(value: object) -> str:
    return f"{round(value, 1):g}" if isinstance(value, float) else str(value)
