"""The parts of the time to first token, for requests whose parts are known."""

from itertools import accumulate
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tandem.bench_results.first_token import FirstToken, split
from tandem.bench_results.measures import ttft_ms
from tandem.bench_results.result import Row, ServerTimes
from tandem.bench_results.summary import Summary, summary
from tests.tandem.results import PLAN, result, row, run, server, session

H100 = (664, 935, 1263, 1550, 1830, 2072)
"""Time to first token in ms: the first requests to llama2:7b, one at a time, in the GPU tier's run of 2026-11-26 on an
H100. Each request waited for copies of the states of the slots that had been used."""
PROMPT, STEP, TOKENS, COPY = 65.0, 3.38, 128, 280.0
"""Of that run: ms for a prompt, ms for a token, tokens in an answer, ms for a copy."""
REACH = 8.0
"""Assumed ms from the client to the engine: what a healthy server adds."""
ANSWER = STEP * (TOKENS - 1)


def served(
    first_ms: float,
    prompt_ms: float = PROMPT,
    *,
    sent_ms: float = 0.0,
    kept_back: int = 0,
    at_the_end: int = 0,
    eval_ms: float = ANSWER,
    total_ms: float = 0.0,
) -> Row:
    """A request whose first token came then, with the times that Ollama reports. Some tokens may have no piece."""
    times = ServerTimes(
        total_ns=round(1e6 * (total_ms or first_ms + ANSWER)),
        load_ns=1_000_000,
        prompt_eval_ns=round(1e6 * prompt_ms),
        eval_ns=round(1e6 * eval_ms),
    )
    pieces = [first_ms + STEP * number for number in range(kept_back, TOKENS - at_the_end)]
    ended = "stop" if at_the_end else "length"
    return row(pieces, sent_ms=sent_ms, tokens=TOKENS, server=times, done_reason=ended)


def in_turn(*firsts: float) -> list[Row]:
    """Requests of which each is sent when the one before has its last piece."""
    sent = accumulate((first + ANSWER for first in firsts[:-1]), initial=0.0)
    return [served(first, sent_ms=moment) for first, moment in zip(firsts, sent, strict=True)]


def in_a_queue(between_ms: float) -> list[Row]:
    """Four requests, all sent at once, to a server of one slot, which needs this time before each prompt."""
    return [served(between_ms + PROMPT + number * (between_ms + PROMPT + ANSWER)) for number in range(4)]


def in_one_batch(before_ms: float) -> list[Row]:
    """Eight requests, all sent at once, to a server of eight slots, whose prompts are evaluated one after the other."""
    return [served(before_ms + number * PROMPT) for number in range(1, 9)]


def parts(rows: list[Row], slots: int) -> FirstToken:
    found = split([rows], slots)
    assert found is not None
    return found


CASES = {
    "healthy": (in_turn(*[REACH + PROMPT] * 6), 8, (0.0, PROMPT, REACH)),
    "a way of almost a third": (in_turn(*[30.0 + PROMPT] * 6), 8, (0.0, PROMPT, 30.0)),
    "copies of slots": (in_turn(*H100), 8, (0.0, PROMPT, sum(H100) / 6 - PROMPT)),
    # On average, one and a half requests are before each: their prompts, their answers, and their way, too.
    "a queue": (in_a_queue(REACH), 1, (1.5 * (PROMPT + ANSWER), PROMPT, 2.5 * REACH)),
    "a queue with copies": (in_a_queue(COPY), 1, (1.5 * (PROMPT + ANSWER), PROMPT, 2.5 * COPY)),
    # Three and a half prompts are before each.
    "a full batch": (in_one_batch(REACH), 8, (3.5 * PROMPT, PROMPT, REACH)),
    # The second request comes 20 ms after the start of the first one's prompt, and waits for its end.
    "a prompt that has begun": (
        [served(PROMPT), served(2 * PROMPT - 20.0, sent_ms=20.0)],
        8,
        ((PROMPT - 20.0) / 2, PROMPT, 0.0),
    ),
    "a full batch after 28 copies": (in_one_batch(28 * COPY), 8, (3.5 * PROMPT, PROMPT, 28 * COPY)),
    # The harmony format of gpt-oss starts with three tokens that are not text: `<|channel|>analysis<|message|>`.
    "tokens kept back": ([served(REACH + PROMPT, kept_back=3)], 1, (0.0, PROMPT + 3 * STEP, REACH)),
    "an end without text": ([served(REACH + PROMPT, at_the_end=1)], 1, (0.0, PROMPT, REACH)),
    "tokens kept back, of which the server counts one less": (
        [served(REACH + PROMPT, kept_back=3, eval_ms=ANSWER - STEP)],
        1,
        (0.0, PROMPT + 2 * STEP, REACH + STEP),
    ),
    # A server whose times contradict its pieces is not believed: all tokens have pieces, or all but one.
    "a wrong duration": ([served(REACH + PROMPT, at_the_end=1, eval_ms=3 * ANSWER)], 1, (0.0, PROMPT, REACH)),
    "a wrong duration and one token kept back": (
        [served(3 * STEP + PROMPT, kept_back=1, eval_ms=3 * ANSWER)],
        1,
        (0.0, PROMPT + 3 * STEP, STEP),
    ),
}


@pytest.mark.parametrize(("rows", "slots", "expected"), CASES.values(), ids=CASES)
def test_the_parts_are_those_of_the_request(rows: list[Row], slots: int, expected: tuple[float, float, float]) -> None:
    found = parts(rows, slots)
    assert (found.waiting_ms, found.prompt_ms, found.rest_ms) == pytest.approx(expected, abs=0.02)


def shown(rows: list[Row], **changes: Any) -> Summary:
    alone = [session(servers=[server("a", "llama2:7b")])]
    return summary(result("x", [run(["a"], rows)], **{"sessions": alone, **changes}))


@pytest.mark.parametrize("case", [case for case in CASES if "copies" not in case])
def test_a_healthy_server_gets_no_warning(case: str) -> None:
    assert shown(CASES[case][0]).first_token_warning == ""


@pytest.mark.parametrize(
    ("case", "part"),
    [
        ("copies of slots", "95% of the time to first token (1,321 of 1,386 ms)"),
        ("a queue with copies", "46% of the time to first token (700 of 1,506 ms)"),
        ("a full batch after 28 copies", "96% of the time to first token (7,840 of 8,132 ms)"),
    ],
)
def test_a_server_that_copies_states_gets_a_warning(case: str, part: str) -> None:
    assert shown(CASES[case][0]).first_token_warning == (
        f"a alone, 64 words, 4 at a time: {part} is neither waiting nor the prompt's evaluation. That is over a third "
        "in 1 of 1 rows. Search the server's log for the reason, such as copied prompt states or a reloaded model."
    )


def test_a_slow_network_is_not_taken_for_a_slow_server() -> None:
    near, far = ([served(first, total_ms=502.0)] for first in (73.0, 173.0))
    assert parts(near, 1).outside_ms == pytest.approx(0.3, abs=0.1)
    assert parts(far, 1).outside_ms == pytest.approx(100.3, abs=0.1)
    assert "outside the server. Measure from a machine that is nearer" in shown(far).first_token_warning


def test_slots_are_those_of_the_plan_or_as_many_as_the_server_used() -> None:
    """Where there is a second slot, a request that begins after the answer to another did not wait for that one."""
    rows = [served(PROMPT), served(ANSWER + PROMPT, sent_ms=PROMPT)]
    assert [figure.first_token and figure.first_token.waiting_ms for figure in shown(rows).figures] == [
        pytest.approx(ANSWER / 2, abs=0.01)
    ]
    plan: Any = {**PLAN, "models": [{**PLAN["models"][0], "slots": 2}]}
    assert [figure.first_token and figure.first_token.waiting_ms for figure in shown(rows, plan=plan).figures] == [0.0]


def test_a_server_without_times_has_no_parts() -> None:
    found = shown([row([100.0, 110.0])])
    assert ([figure.first_token for figure in found.figures], found.first_token_warning) == ([None], "")


MS = st.floats(0.001, 5000)
ROWS = st.lists(
    st.builds(served, MS, MS, sent_ms=MS, kept_back=st.integers(0, 5), total_ms=MS), min_size=1, max_size=12
)


@given(ROWS, st.integers(1, 4))
def test_no_part_is_negative_and_they_add_up_to_the_first_token(rows: list[Row], slots: int) -> None:
    found = parts(rows, slots)
    assert (
        min(found.waiting_ms, found.prompt_ms, found.rest_ms, found.outside_ms, found.rest_ms - found.outside_ms)
        > -0.01
    )
    assert found.total_ms == pytest.approx(sum(map(ttft_ms, rows)) / len(rows), abs=0.01)
