"""The frame of a report: one HTML page with its figures inside, for screens, phones, paper, light and dark.

It loads nothing. Tables and drawings scroll, so that their text is never too small.
"""

from collections.abc import Iterable, Sequence

from tandem import svg
from tandem.report.figures import Figure

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
<h1>{title}</h1>
{body}
</main>
</body>
</html>
"""
STYLE = """
body { margin: 0; font: 16px/1.5 %(font)s; color: %(ink)s; background: %(paper)s; overflow-wrap: break-word }
main { max-width: 72rem; margin: 0 auto; padding: 1rem }
p, li, dd { max-width: 46rem }
h1 { font-size: 1.6rem; line-height: 1.25 }
h2 { margin-top: 2.5rem; border-bottom: 1px solid %(rule)s }
dt { font-weight: 600 }
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


def frame(title: str, parts: Iterable[str]) -> str:
    """The whole page. Title and parts are HTML."""
    style = STYLE % {"font": svg.FONT, **svg.LIGHT} + DARK % svg.DARK + PAPER
    return PAGE.format(title=title, style=style, body="\n".join(parts))


def paragraph(text: str) -> str:
    """A paragraph of HTML."""
    return f"<p>{text}</p>"


def bullets(lines: Iterable[str]) -> str:
    """A list of lines."""
    return "\n".join(["<ul>", *(f"<li>{line}</li>" for line in lines), "</ul>"])


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table of cells."""
    lines = [_row("th", head), *(_row("td", row) for row in rows)]
    # A region that scrolls must be reachable by keyboard: WCAG 2.2, 2.1.1.
    return "\n".join(
        ['<div class="scroll" tabindex="0" role="region" aria-label="table">', "<table>", *lines, "</table>", "</div>"]
    )


def picture(figure: Figure) -> str:
    """A figure; its title and description are in the drawing."""
    least = SMALLEST * figure.width
    return f'<div class="scroll" tabindex="0"><div style="min-width: {least:g}px">{figure.drawing}</div></div>'


def _row(tag: str, cells: Sequence[str]) -> str:
    return f"<tr>{''.join(f'<{tag}>{cell}</{tag}>' for cell in cells)}</tr>"
