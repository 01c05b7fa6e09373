"""Text from outside, made safe to show."""

import json
import sys
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sharing.printable import address, as_json, one_line, printable, quoted, visible, without_secrets

BIDI = "\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
"""Unicode UAX #9, section 2: all explicit directional formatting characters."""


def steers(char: str) -> bool:
    """Whether a character controls the terminal or the direction of text, by Unicode's database."""
    return unicodedata.category(char) in ("Cc", "Cs", "Zl", "Zp") or char in BIDI


@pytest.mark.slow
def test_only_control_characters_are_removed_and_all_of_them() -> None:
    for char in map(chr, range(sys.maxunicode + 1)):
        kept = char in "\n\t" or not (steers(char) or char in "\ufeff\ufffe\uffff")
        assert printable(f"a{char}b") == (f"a{char}b" if kept else "ab"), hex(ord(char))


def test_one_line_has_no_line_breaks_and_keeps_words_separate() -> None:
    assert one_line("a\x1b\n\n\tb\u2028c\x85d\x1be\r\n") == "a b c de"
    assert one_line("\u202e a \x1b b") == "a b"


def test_the_words_of_another_program_fill_at_most_seven_lines_of_a_terminal() -> None:
    assert quoted(ValueError("not\nfound")) == "not found"
    assert 300 < len(quoted("x" * 10_000)) <= 7 * 80, "a refusal of AWS has up to 300 characters"


def test_a_quoted_value_marks_unprintable_characters() -> None:
    assert visible("llama\x1b2\u202e:\n7b\xa0ü") == "llama?2?:?7b?ü"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("http://bob:PW@host:1/x", "http://…@host:1/x"),
        ("http://PW@host", "http://…@host"),
        ("http://bob:P/W?#@W@host", "http://…@host"),
        ("the URL 'HTTPS://bob:PW@h/x?y=PW'.", "the URL 'HTTPS://…@h/x?…'."),
        ('(a=http://h/?token=PW): "http://h/#token=PW", x', '(a=http://h/?…): "http://h/#…", x'),
        ("http:/bob:PW@h as a path", "http:/…@h as a path"),
        ("see https://h/x#anchor. Or https://h/x?", "see https://h/x#anchor. Or https://h/x?"),
        ("ollama/ollama:0.30@sha256:12 and me@example.com", "ollama/ollama:0.30@sha256:12 and me@example.com"),
    ],
)
def test_urls_in_a_text_have_no_secrets(text: str, shown: str) -> None:
    assert without_secrets(text) == shown


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("bob:PW@host", "…@host"),
        ("a=bob:PW@host", "…@host"),
        ("h/?token=PW", "h/?…"),
        ("http://h:1/x", "http://h:1/x"),
        ("bob:P\nW@host", "…@host"),
        ("h/?token=\nPW", "h/?…"),
        ("h/?a=PW?b=PW", "h/?…"),
    ],
)
def test_a_wrong_address_has_no_secrets_either(text: str, shown: str) -> None:
    assert address(text) == shown


@pytest.mark.slow
@given(st.text())
def test_json_keeps_the_value_and_is_printable(text: str) -> None:
    written = as_json({text: [text]}, indent=2)
    assert json.loads(written) == {text: [text]}
    assert printable(written) == written


@given(st.text(alphabet=st.characters(categories=["Cs", "Cc", "Zl"])))
def test_json_keeps_lone_surrogates(text: str) -> None:
    text += "x"  # a high surrogate before a low one would be read as one character
    apart = "x".join(text)
    assert json.loads(as_json(apart)) == apart
    as_json(apart).encode()
