"""The English of the project stays plain: the check finds old words in any form, and good sentences pass."""

import pytest

from tests.english import English, examples, folders, report, rules

GOOD = [  # sentences that a native speaker wrote in a review of the first version
    "Compare sharing modes and prices across instance types",
    "error: Pulumi.a.yaml has 5 errors",
    "Retry until every check passes, for up to SECONDS",
    "The largest item is 1 × g4dn.xlarge ($0.216/h). Choose a cheaper instance type or raise the budget.",
    "Memory is not partitioned. Peak combined use: 10,140 of 15,110 MiB.",
    "`tandem verify` compares the deployed stack with its configuration, from cause to effect",
    "Let the models talk to each other, alone vs. together",
    "show cached prices only; no network",
    "models shut down",
    "a wildcard, a discarded cardinal, something and nothing",
]


@pytest.mark.parametrize(("sentence", "word"), examples().items())
def test_an_old_word_is_found_in_a_sentence(sentence: str, word: str) -> None:
    assert [found for _, found, _ in rules().old_words(sentence)][:1] == [word]


@pytest.mark.parametrize("sentence", GOOD)
def test_a_sentence_of_the_review_passes(sentence: str) -> None:
    assert list(rules().old_words(sentence)) == []


@pytest.mark.parametrize(
    "text",
    [
        "old word",
        "Old  word",
        "is_old_word",
        "isOldWord",
        "OldWord",
        "# an old\n# word here",
        "OLD_WORD: int",
        "(old word)",
    ],
)
def test_an_old_word_is_found_however_it_is_written(text: str) -> None:
    english = English(words={"old word": "new word"}, allowed=[])
    assert list(english.old_words(f"x\n{text}")) == [(2, "old word", "new word")]


@pytest.mark.parametrize("text", ["alold word", "old worddays", "old, word", "OldwordX"])
def test_a_part_of_a_word_is_no_old_word(text: str) -> None:
    assert list(English(words={"old word": "new word"}).old_words(text)) == []


def test_a_phrase_in_which_the_word_is_right_passes() -> None:
    english = English(words={"hold": "keep"}, allowed=["hold (it|them) back"])
    assert list(english.old_words("We hold them back.\nWe hold all.")) == [(2, "hold", "keep")]


@pytest.mark.slow
@pytest.mark.parametrize("place", folders())
def test_no_old_word_comes_back(place: str) -> None:
    assert report([place]) == []


def test_every_folder_is_read() -> None:
    assert {"docs", "sandbox", "sharing", "stacks", "tandem", "tests", "README.md"} <= {*folders()}
