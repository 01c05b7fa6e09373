"""What the time to the first token is made of: waiting, the prompt, and the rest.

A server reports four durations for a request. Ollama 0.32.15 measures `total_duration` from the arrival of the request
to its last token, and `load_duration` from there until the model is loaded (server/routes.go:246, 475, 709).
llama-server measures the others: `prompt_eval_duration` from the first batch with a token of this prompt to the first
new token, and `eval_duration` from there to the last one (llama.cpp b10454 tools/server/server-context.cpp:3049, 3774,
3779, and `server_slot_stats` in server-common.h).

None of them is the time before the prompt's evaluation. A request may wait there for a slot: Ollama lets as many
requests through as there are slots (llm/llama_server.go:1536), and llama-server defers what finds none
(server-context.cpp:2322). It may have a slot and wait for another prompt, because a full batch takes no more
(server-context.cpp:3021). Or the server does something else, such as copying the states of slots
(server-context.cpp:2353). The durations do not tell these apart. The other requests of the benchmark do: each was
served from its first prompt token to its last piece.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from statistics import fmean
from typing import NamedTuple

from tandem.bench_results.measures import answered
from tandem.bench_results.result import Row

MOST_REST = 1 / 3
"""Above it, a benchmark measures something other than the model's speed: docs/decisions/0160."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FirstToken:
    """Means of some requests, in milliseconds: the first three are the parts of the time to first token."""

    waiting_ms: float
    """The server had no free slot, or evaluated the prompt of another request."""
    prompt_ms: float
    """Evaluation of the prompt, and tokens that the server kept back, such as the tag before thinking."""
    rest_ms: float
    outside_ms: float
    """The part of the rest that passed outside the server: the network and the client."""

    @property
    def total_ms(self) -> float:
        """The mean time to first token."""
        return self.waiting_ms + self.prompt_ms + self.rest_ms

    @property
    def rest(self) -> float:
        """The rest as a part of the time to first token."""
        return self.rest_ms / self.total_ms if self.total_ms else 0.0


class _Service(NamedTuple):
    """When a slot worked on a request, in microseconds after the start of the run."""

    begun: float
    first: float
    """The first piece."""
    ended: float


def split(runs: Sequence[Sequence[Row]], slots: int) -> FirstToken | None:
    """The parts for the counted requests of one server with that many slots; a list of rows for each run.

    None without an answer whose server reports its times. Time in which the server did something else between two
    batches of a prompt counts as the prompt, as the server counts it.
    """
    parts = []
    for rows in runs:
        waiting_us = _waiting(rows, slots)
        parts += [_part(row, waiting_us) for row in answered(rows) if row.server.prompt_eval_ns]
    if not parts:
        return None
    waiting, prompt, rest, outside = (fmean(part) / 1e3 for part in zip(*parts, strict=True))
    return FirstToken(waiting_ms=waiting, prompt_ms=prompt, rest_ms=rest, outside_ms=outside)


def most_at_once(runs: Iterable[Sequence[Row]]) -> int:
    """The most requests that a server worked on at one time: its slots, if they were ever all in use."""
    return max((served for rows in runs for _, served, _ in _changes(rows)), default=0)


def _part(row: Row, waiting_us: Callable[[float, float], float]) -> tuple[float, float, float, float]:
    """Waiting, prompt, rest, and what of the rest was outside, in microseconds."""
    begun, first, _ = _service(row)
    before = begun - row.sent_us
    waiting = waiting_us(row.sent_us, begun)
    rest = before - waiting
    outside = row.arrivals_us[-1] - row.server.total_ns / 1e3
    return waiting, first - begun, rest, min(max(0.0, outside), rest)


def _service(row: Row) -> _Service:
    first, last = row.arrivals_us[0], row.arrivals_us[-1]
    begun = max(0.0, first - _kept_back_us(row) - row.server.prompt_eval_ns / 1e3)
    return _Service(row.sent_us + begun, row.sent_us + first, row.sent_us + last)


def _kept_back_us(row: Row) -> float:
    """How long the model generated before its first piece, at most for as many tokens as have no piece."""
    ends_unseen = row.done_reason == "stop"  # the token that ends an answer has no text
    without_piece = row.tokens - len(row.arrivals_us) - ends_unseen
    if without_piece <= 0:
        return 0.0
    generated = row.server.eval_ns / 1e3
    unseen = generated - (row.arrivals_us[-1] - row.arrivals_us[0])
    return min(max(0.0, unseen), without_piece * generated / (row.tokens - 1))


def _waiting(rows: Sequence[Row], slots: int) -> Callable[[float, float], float]:
    """How many microseconds of a span the server had no free slot, or evaluated a prompt."""
    changes = _changes(rows)
    moments = [moment for moment, _, _ in changes]
    busy = [served >= slots or evaluated > 0 for _, served, evaluated in changes]
    lengths = [(after - before) * is_busy for before, after, is_busy in zip(moments, moments[1:], busy, strict=False)]
    sums = [0.0, *accumulate(lengths)]

    def until(moment: float) -> float:
        index = bisect_right(moments, moment) - 1
        return sums[index] + (moment - moments[index]) * busy[index] if index >= 0 else 0.0

    return lambda begin, end: until(end) - until(begin)


def _changes(rows: Sequence[Row]) -> list[tuple[float, int, int]]:
    """Each moment at which a slot begins or ends its work, and how many then work, and how many on a prompt."""
    changes = []
    for begun, first, ended in (_service(row) for row in rows if row.arrivals_us):
        changes += [(begun, 1, 1), (first, 0, -1), (ended, -1, 0)]
    changes.sort()
    states, served, evaluated = [], 0, 0
    for moment, more, prompts in changes:
        served, evaluated = served + more, evaluated + prompts
        states.append((moment, served, evaluated))
    return states
