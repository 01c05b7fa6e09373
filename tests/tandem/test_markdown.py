"""Text from outside in Markdown, read by a parser of CommonMark."""

import html
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from sharing.printable import one_line
from tandem.markdown import as_code, in_markdown

READER = MarkdownIt("commonmark").enable(["table", "strikethrough"])
NASTY = st.text(alphabet=st.sampled_from(list("ab19 \n\t\x1b\u202e\\`*_[]()<>|~#$&@!+-=.:/;{}\"'")), max_size=20)


@pytest.mark.slow
@settings(max_examples=300)
@given(NASTY)
@pytest.mark.parametrize(
    ("before", "after"),
    [("", ""), ("- ", ""), ("## ", ""), ("so: ", " ok"), ("**so** ", ""), ("| a |\n| --- |\n| ", " |")],
)
def test_it_stays_text_in_any_place(before: str, after: str, text: str) -> None:
    shown, plain = (READER.render(f"{before}{one}{after}") for one in (in_markdown(text), "word"))
    expected = plain.replace("word", html.escape(one_line(text), quote=False).replace('"', "&quot;"))
    if one_line(text):
        assert [part.rstrip() for part in re.split(r"(?=<)", shown)] == [
            part.rstrip() for part in re.split(r"(?=<)", expected)
        ]


@given(NASTY.filter(lambda text: bool(one_line(text))))
def test_code_stays_code(text: str) -> None:
    [paragraph] = [token for token in READER.parse(f"so: {as_code(text)} ok") if token.type == "inline"]
    assert [child.type for child in paragraph.children or []] == ["text", "code_inline", "text"]


@pytest.mark.parametrize(
    "text", ["https://a.example", "HTTP://a.example", "www.a.example", "WWW.a.example", "a@b.example"]
)
def test_a_bare_address_is_no_link_for_github(text: str) -> None:
    """GitHub Flavored Markdown 0.29, 6.9: these begin an extended autolink."""
    assert not re.search(r"https?://|www\.|\w@", in_markdown(text), re.IGNORECASE)
