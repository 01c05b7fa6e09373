"""A report as one HTML page: figures inside, no request to anywhere, for screens, phones, paper, light and dark."""

from collections.abc import Mapping, Sequence
from html import escape
from itertools import pairwise
from typing import Any

from markdown_it import MarkdownIt
from markdown_it.renderer import RendererHTML
from markdown_it.token import Token

from tandem import svg
from tandem.report.figures import Figure

FILE = "report.html"
SMALLEST = 0.75
"""A drawing is not made smaller than that: it scrolls, so that its text can be read."""
PAGE = """\
<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<title>{title}</title>
<style>{style}</style>
</head>
<body>
<main>
{body}</main>
</body>
</html>
"""
STYLE = """
body { margin: 0; font: 16px/1.5 %(font)s; color: %(ink)s; background: %(paper)s; overflow-wrap: break-word }
main { max-width: 72rem; margin: 0 auto; padding: 1rem }
p, li { max-width: 46rem }
h1 { font-size: 1.6rem; line-height: 1.25 }
h2 { margin-top: 2.5rem; border-bottom: 1px solid %(rule)s }
.scroll { overflow-x: auto; margin: 1rem 0 }
table { border-collapse: collapse; font-size: .875rem; font-variant-numeric: tabular-nums }
th, td { padding: .3rem .7rem; border-bottom: 1px solid %(rule)s; text-align: left; vertical-align: top }
th { background: %(band)s }
th, td { white-space: nowrap }
code { font-size: .9em; background: %(band)s; padding: .1em .3em; overflow-wrap: anywhere }
blockquote { margin: 1rem 0; padding: .1rem 1rem; border-left: 4px solid %(orange)s; background: %(band)s }
svg { display: block; max-width: 100%%; height: auto }
"""
DARK = """
@media screen and (prefers-color-scheme: dark) {
body { color: %(ink)s; background: %(paper)s }
h2, th, td { border-color: %(rule)s }
th, code, blockquote { background: %(band)s }
blockquote { border-color: %(orange)s }
}
"""
PAPER = """
@media print {
.scroll { overflow: visible }
table { font-size: 8pt }
th, td { padding: .2rem .3rem; white-space: normal }
svg, tr { break-inside: avoid }
h2, h3 { break-after: avoid }
}
"""


def page(document: str, figures: Sequence[Figure]) -> str:
    """The page of a report in Markdown. Whatever the text has of HTML stays text."""
    drawings = {figure.file: figure for figure in figures}
    parser = MarkdownIt("commonmark", {"html": False}).enable("table")
    parser.add_render_rule("table_open", _open_table)
    parser.add_render_rule("table_close", _close_table)
    parser.add_render_rule("image", _draw)
    tokens = parser.parse(document)
    title = next(after.content for token, after in pairwise(tokens) if token.tag == "h1")
    body = parser.renderer.render(tokens, parser.options, {"drawings": drawings})
    style = STYLE % {"font": svg.FONT, **svg.LIGHT} + DARK % svg.DARK + PAPER
    return PAGE.format(title=escape(_plain(parser, title)), style=style, body=body)


def _plain(parser: MarkdownIt, text: str) -> str:
    """The text without its marks."""
    return "".join(part.content for token in parser.parseInline(text) for part in token.children or [])


def _open_table(_: RendererHTML, __: Sequence[Token], ___: int, ____: Any, _____: Any) -> str:
    # A region that scrolls must be reachable by keyboard: WCAG 2.2, 2.1.1.
    return '<div class="scroll" tabindex="0" role="region" aria-label="table">\n<table>\n'


def _close_table(_: RendererHTML, __: Sequence[Token], ___: int, ____: Any, _____: Any) -> str:
    return "</table>\n</div>\n"


def _draw(_: RendererHTML, tokens: Sequence[Token], index: int, __: Any, shown: Mapping[str, Any]) -> str:
    figure = shown["drawings"][tokens[index].attrs["src"]]
    least = SMALLEST * figure.width
    return f'<div class="scroll" tabindex="0"><div style="min-width: {least:g}px">{figure.drawing}</div></div>'
