"""The contrast of all text in both colour schemes: WCAG 2.2, success criterion 1.4.3, level AA.

https://www.w3.org/TR/WCAG22/#contrast-minimum: 4.5 to 1, or 3 to 1 for text of 24 px, or 18.66 px in bold. Luminance
and ratio are those of https://www.w3.org/TR/WCAG22/#dfn-contrast-ratio.
"""

import json

import pytest

from tests.browser.chromium import Browser

PAGES = (
    "index.html",
    "how-to/index.html",
    "how-to/park-at-night.html",
    "how-to/troubleshoot.html",
    "tutorials/own-program.html",
    "recipes/rag.html",
    "reference/cli.html",
    "reference/components.html",
    "reference/errors.html",
    "reference/sharing-modes.html",
    "reference/stack-file.html",
    "explanation/speed.html",
    "decisions/index.html",
    "404.html",
)
"""One or more of each kind, with all kinds of code."""
FEWEST = 8
"""Texts on the shortest page, with its header and tabs."""
LOW = """(() => {
  const parse = text => {
    const [r, g, b, a = 1] = text.match(/[\\d.]+/g).map(Number);
    return {r, g, b, a};
  };
  const over = (top, below) => {
    const mix = part => top[part] * top.a + below[part] * (1 - top.a);
    return {r: mix('r'), g: mix('g'), b: mix('b'), a: 1};
  };
  const ancestors = node => node ? [node, ...ancestors(node.parentElement)] : [];
  const ground = node => ancestors(node).reverse().reduce(
    (below, each) => over(parse(getComputedStyle(each).backgroundColor), below), {r: 255, g: 255, b: 255, a: 1});
  const opacity = node => ancestors(node).reduce((all, each) => all * getComputedStyle(each).opacity, 1);
  const luminance = color => {
    const [r, g, b] = [color.r, color.g, color.b].map(part => part / 255).map(
      part => part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const found = new Map();
  let texts = 0;
  for (const node of document.body.querySelectorAll('*')) {
    const own = [...node.childNodes].filter(each => each.nodeType === 3).map(each => each.data.trim()).join('');
    const style = getComputedStyle(node);
    if (!own || !node.checkVisibility({visibilityProperty: true}) || opacity(node) === 0) continue;
    const box = node.getBoundingClientRect();
    if (!box.width || !box.height || ['SCRIPT', 'STYLE', 'TITLE'].includes(node.tagName)) continue;
    texts += 1;
    const below = ground(node), color = parse(style.color);
    const shown = over({...color, a: color.a * opacity(node)}, below);
    const [dark, light] = [luminance(shown), luminance(below)].sort((a, b) => a - b);
    const ratio = (light + 0.05) / (dark + 0.05);
    const size = parseFloat(style.fontSize), bold = style.fontWeight >= 700;
    if (ratio < (size >= 24 || (bold && size >= 18.66) ? 3 : 4.5))
      found.set(`${node.tagName}.${node.className}`, `${ratio.toFixed(2)} ${own.slice(0, 40)}`);
  }
  return JSON.stringify([texts, [...found].map(each => each.join(' ')).sort()]);
})()"""


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("page", PAGES)
def test_all_text_has_enough_contrast(browser: Browser, site: str, page: str, dark: bool) -> None:
    for width in (1280, 390):
        browser.visit(f"{site}/{page}", width=width, dark=dark)
        texts, low = json_of(browser)
        assert texts > FEWEST
        assert low == []


def json_of(browser: Browser) -> tuple[int, list[str]]:
    """The number of texts, and those with too little contrast."""
    texts, low = json.loads(browser.evaluate(LOW))
    return texts, low
