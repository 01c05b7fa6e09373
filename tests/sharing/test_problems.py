"""How errors are worded: look-alike letters, near names, headings."""

import re
from dataclasses import replace

import pytest

from sharing.modes.modes import mode_names
from sharing.problems import (
    ASIDE,
    LIMIT,
    OBJECT,
    SUBJECT,
    Position,
    Problem,
    abbreviate,
    did_you_mean,
    foreign_letters,
    format_errors,
    group,
    near,
    place_in_file,
)

FULL_WIDTH = "".join(chr(ord(letter) + 0xFEE0) for letter in "g4dn.xlarge")
"""The name as a Chinese or Japanese input method may write it."""
TYPES = ["g4dn.xlarge", "g4dn.2xlarge", "g5.xlarge", "g6.xlarge"]


@pytest.mark.parametrize(
    ("word", "known", "suggested"),
    [
        *((word, TYPES, "g4dn.xlarge") for word in ("g4dn.extra", "G4DN.XLARGE", " g4dn_xlarge ", FULL_WIDTH)),
        ("us-east", ["US-East-1"], "US-East-1"),
        # A tag of the same family is nearer than the same tag of another.
        ("gemma3:some-long-quantized-tag", ["llama2:7b", "gemma3:4b"], "gemma3:4b"),
        ("mistral", ["llama2:7b", "mistral:7b"], "mistral:7b"),
        ("gemma3:4", ["gemma3:4b", "gemma3:12b"], "gemma3:4b"),
    ],
)
def test_a_misspelt_name_suggests_the_intended_one(word: str, known: list[str], suggested: str) -> None:
    assert near(word, known)[0] == suggested
    assert len({*near(word, known)}) == len(near(word, known)) <= 3


@pytest.mark.parametrize("word", ["zzz", ""])
def test_a_word_unlike_all_others_suggests_nothing(word: str) -> None:
    assert near(word, [":odd", *TYPES]) == []


@pytest.mark.parametrize(
    ("word", "letters"),
    [
        ("tim\N{CYRILLIC SMALL LETTER IE}slice", "U+0435 CYRILLIC SMALL LETTER IE"),
        ("\N{FULLWIDTH LATIN SMALL LETTER T}imeslice", "U+FF54 FULLWIDTH LATIN SMALL LETTER T"),
        ("timeslice\N{ZERO WIDTH SPACE}", "U+200B ZERO WIDTH SPACE"),
    ],
)
def test_letters_that_only_look_right_are_named(word: str, letters: str) -> None:
    assert did_you_mean(word, mode_names()) == f"It contains {letters}. Did you mean timeslice?"


def test_each_foreign_letter_is_named_once_and_three_at_most() -> None:
    assert foreign_letters("éaéè") == ("U+00E9 LATIN SMALL LETTER E WITH ACUTE, U+00E8 LATIN SMALL LETTER E WITH GRAVE")
    assert foreign_letters("éèêë").count("U+") == 3
    assert foreign_letters("\x9f") == "U+009F UNNAMED"


def test_several_similar_names_are_suggested_together() -> None:
    assert did_you_mean("g4dn.large", TYPES) == "Did you mean g4dn.xlarge, g4dn.2xlarge or g6.xlarge?"


@pytest.mark.parametrize(("count", "ends"), [(12, ", 11."), (13, ", 11, …."), (1, " 0.")])
def test_without_a_similar_name_up_to_twelve_known_ones_are_listed(count: int, ends: str) -> None:
    said = did_you_mean("zzz", (str(number) for number in range(count)))
    assert said.startswith("Known: 0")
    assert said.endswith(ends)


@pytest.mark.parametrize(
    ("rule", "wording", "sentence"),
    [
        ("unknown mode", OBJECT, "unknown mode 'x{'"),
        ("must be at least 2", LIMIT, "must be at least 2, not 'x{'"),
        ("is listed twice", SUBJECT, "'x{' is listed twice"),
        ("every model needs a share", ASIDE, "every model needs a share; found 'x{'"),
    ],
)
def test_a_value_is_placed_where_it_reads_best(rule: str, wording: str, sentence: str) -> None:
    assert Problem("sharing.mode", "'x{'", rule, "", wording).sentence == sentence
    assert Problem("sharing.mode", "", rule, "", wording).sentence == rule


def test_problems_have_a_heading_that_counts_them() -> None:
    one = Problem("models", "", "is missing", "Write one.")
    assert format_errors("Pulumi.dev.yaml", [one]) == [
        "error: Pulumi.dev.yaml has 1 error",
        "  models: is missing. Write one.",
    ]
    two = format_errors("Pulumi.dev.yaml", [one, wrong("models[0].context")])
    assert two[0] == "error: Pulumi.dev.yaml has 2 errors"
    assert format_errors("Pulumi.dev.yaml", []) == []


def test_problems_are_in_the_order_of_the_file_and_those_without_a_place_come_last() -> None:
    places = [None, at(7, 2), Position(origin="default"), at(3, 40), at(3, 9)]
    found = [Problem(f"p{index}", "", "is missing", "", place=place) for index, place in enumerate(places)]
    assert [problem.path for problem in sorted(found, key=place_in_file)] == ["p4", "p3", "p1", "p0", "p2"]


def at(line: int, column: int) -> Position:
    return Position(file="f", line=line, column=column)


def wrong(path: str, found: str = "5") -> Problem:
    return Problem(path, found, "must be at least 256", "Write `context: 4096`.", LIMIT)


def test_the_same_problem_of_many_items_is_one_problem_with_every_path() -> None:
    many = [wrong(f"models[{index}].context") for index in (0, 1, 2, 5, 11)]
    assert [str(problem) for problem in group(many)] == [
        "models[0-2,5,11].context: must be at least 256, not 5. Write `context: 4096`."
    ]
    assert format_errors("Pulumi.dev.yaml", many)[0] == "error: Pulumi.dev.yaml has 1 error"


def test_problems_that_differ_in_more_than_the_index_stay_separate() -> None:
    many = [
        wrong("models[0].context"),
        wrong("models[1].context", "6"),
        wrong("models[2].slots"),
        wrong("gpu-nodes[0].instance-types[1]"),
        wrong("gpu-nodes[1].instance-types[1]"),
        wrong("sharing"),
    ]
    assert group([*many, many[0]]) == many


@pytest.mark.parametrize(
    ("paths", "expected"),
    [
        (["sharing"], "sharing"),
        (["models[3]"], "models[3]"),
        (["gpu-nodes[1].instance-types[0]", "gpu-nodes[1].instance-types[1]"], "gpu-nodes[1].instance-types[0-1]"),
        (["tags.a[b]", "models[0].name", "models[2].name"], "tags.a[b], models[0,2].name"),
    ],
)
def test_paths_are_abbreviated(paths: list[str], expected: str) -> None:
    assert abbreviate(paths) == expected


def test_a_problem_begins_with_its_place_or_names_the_origin_of_its_value() -> None:
    wrong = Problem("sharing.replicas", "1", "must be at least 2", "Write `replicas: 2`.", LIMIT)
    message = "sharing.replicas: must be at least 2, not 1. Write `replicas: 2`."
    in_file = replace(wrong, place=Position(file="Pulumi.\ndev.yaml", line=4, column=19))
    by_default = replace(wrong, place=Position(origin="default"))
    assert (str(wrong), wrong.message) == (message, message)
    assert (str(in_file), in_file.message) == (f"Pulumi. dev.yaml:4:19  {message}", message)
    assert str(by_default) == message.replace("replicas:", "replicas (default):", 1)
    assert group([in_file, by_default]) == [wrong], "one error, whatever its place"


def test_a_long_path_and_a_long_value_are_shown_in_part() -> None:
    found = str(Problem(f"tags.{'k' * 70_000}", f"'{'v' * 70_000}'", "must be short", "Shorten it.", LIMIT))
    assert len(found) < 700
    assert re.fullmatch(r"tags\.k+…k+: must be short, not 'v+…v+'\. Shorten it\.", found)
    # A long ARN of a role, and the longest valid key of a tag, are shown whole.
    arn = f"arn:aws:iam::111122223333:role/{'p' * 90}/{'n' * 64}"
    assert str(Problem(f"aws:defaultTags.tags.{'k' * 128}", f"'{arn}'", "is wrong", "")) == (
        f"aws:defaultTags.tags.{'k' * 128}: '{arn}' is wrong."
    )


def test_a_problem_for_programs_has_no_wording() -> None:
    fields = {"path": "models", "found": "1", "rule": "must be 2", "fix": "Write 2.", "judged": True, "place": None}
    problem = Problem("models", "1", "must be 2", "Write 2.", LIMIT)
    assert problem.as_dict() == fields
    nowhere = {"file": "", "line": 0, "column": 0, "origin": "default"}
    assert replace(problem, place=Position(origin="default")).as_dict() == {**fields, "place": nowhere}
