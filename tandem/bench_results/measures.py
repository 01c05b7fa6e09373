"""The definitions of the figures. Times are in milliseconds. Only completely answered requests have them.

aiperf, inference-perf and guidellm share them.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import median, quantiles

from tandem.bench_results.result import Memory, Row, Run

GOOD_REPEATS = 3
MIB = 2**20


def percentile(sample: Sequence[float], percent: int) -> float:
    """The value below which `percent` of the sample lies, from 1 to 99: by linear interpolation between two ranks.

    The smallest value is the 0th, the largest the 100th percentile (numpy's default, "type 7").
    """
    if len(sample) == 1:  # `quantiles` takes one value only since Python 3.13
        return sample[0]
    return quantiles(sample, n=100, method="inclusive")[percent - 1]


def ttft_ms(row: Row) -> float:
    """Time to first token: from the request's first byte on the socket to the first piece that is not empty.

    Reasoning counts as a piece: the model works for it.
    """
    return row.arrivals_us[0] / 1e3


def latency_ms(row: Row) -> float:
    """Request latency: from the request's first byte on the socket to the last piece that is not empty."""
    return row.arrivals_us[-1] / 1e3


def itl_ms(row: Row) -> float:
    """Inter-token latency: (latency - time to first token) / (output tokens - 1); tokens as the server counts them.

    Raises `ZeroDivisionError` for an answer of one token, which has none: see `has_itl`.
    """
    return (latency_ms(row) - ttft_ms(row)) / (row.tokens - 1)


def has_itl(row: Row) -> bool:
    """Whether the answer is long enough to have an inter-token latency."""
    return row.tokens > 1 and len(row.arrivals_us) > 1


def gaps_ms(row: Row) -> list[float]:
    """The times between consecutive pieces. A reader sees a long one as stutter."""
    pairs = zip(row.arrivals_us, row.arrivals_us[1:], strict=False)
    return [(later - earlier) / 1e3 for earlier, later in pairs]


@dataclass(frozen=True, slots=True)
class Spread:
    """Three percentiles of one sample."""

    p50: float
    p95: float
    p99: float


def spread(sample: Sequence[float]) -> Spread | None:
    """The percentiles; None for an empty sample."""
    if not sample:
        return None
    return Spread(percentile(sample, 50), percentile(sample, 95), percentile(sample, 99))


@dataclass(frozen=True, slots=True)
class Span:
    """A figure of each repeat: the median, the lowest and the highest."""

    median: float
    lowest: float
    highest: float


def span(sample: Sequence[float]) -> Span | None:
    """The median with its range; None for an empty sample."""
    return Span(median(sample), min(sample), max(sample)) if sample else None


def answered(rows: Iterable[Row]) -> list[Row]:
    """The counted requests with a complete answer."""
    return [row for row in rows if row.counted and row.error is None]


def window_us(rows: Sequence[Row]) -> tuple[int, int] | None:
    """The span from the first counted request to the last piece of a counted answer; None without an answer."""
    good = answered(rows)
    if not good:
        return None
    begin = min(row.sent_us for row in rows if row.counted)
    return begin, max(row.sent_us + row.arrivals_us[-1] for row in good)


def tokens_per_s(rows: Sequence[Row]) -> float:
    """Output token throughput: output tokens over the time from the first request to the last answer.

    Counts all tokens that arrived in that time, including those of uncounted requests. Without them, the end of a run,
    with fewer and fewer requests, would look as if the server had slowed down.
    """
    frame = window_us(rows)
    if frame is None or frame[1] <= frame[0]:
        return 0.0
    begin, end = frame
    tokens = 0.0
    for row in rows:
        inside = sum(begin <= row.sent_us + arrival <= end for arrival in row.arrivals_us)
        # One piece may contain several tokens; a truncated answer has no count from the server.
        tokens += inside * (row.tokens / len(row.arrivals_us) if row.tokens and row.arrivals_us else 1)
    return tokens / ((end - begin) / 1e6)


def goodput(rows: Sequence[Row], most_ttft_ms: float, most_itl_ms: float) -> float:
    """Counted requests per second that met both goals."""
    frame = window_us(rows)
    if frame is None or frame[1] <= frame[0]:
        return 0.0
    met = [
        row for row in answered(rows)
        if ttft_ms(row) <= most_ttft_ms and (not has_itl(row) or itl_ms(row) <= most_itl_ms)
    ]  # fmt: skip
    return len(met) / ((frame[1] - frame[0]) / 1e6)


def usd_per_million(usd_per_hour: float, tokens_a_second: float) -> float:
    """Dollars per million output tokens at a constant speed."""
    return usd_per_hour / 3600 / tokens_a_second * 1e6


def reasons_against(run: Run) -> list[str]:
    """Reasons why a run must not be compared; empty if it may.

    A model partly on the CPU is ten times slower for a reason unrelated to sharing. A model in an unknown place
    may be, too.
    """
    reasons = []
    for endpoint in run.endpoints:
        looks = [run.memory_start.get(endpoint), run.memory_end.get(endpoint)]
        reasons += list(dict.fromkeys(filter(None, (reason_against_place(endpoint, memory) for memory in looks))))[:1]
        if not answered(row for row in run.rows if row.endpoint == endpoint):
            reasons.append(f"{endpoint} answered no request")
    return reasons


def reason_against_place(endpoint: str, memory: Memory | None) -> str | None:
    """The reason why a model with this memory must not be compared, or None."""
    if memory is None or memory.size <= 0:
        return f"the memory of {endpoint} is unknown: its server did not list it as loaded"
    if memory.size_vram >= memory.size:
        return None
    part = int(100 * memory.size_vram / memory.size)  # never 100 % of an incomplete model
    where = "partly on the CPU" if part else "on the CPU"
    return f"{endpoint} was {where}: {part}% of its {max(1, round(memory.size / MIB)):,} MiB was on the GPU"
