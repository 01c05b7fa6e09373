"""Reads a result of any of these tools, recognized by its content."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol

from pydantic import ValidationError

from tandem.bench_results.foreign import aiperf, guidellm, inference_perf, vllm
from tandem.bench_results.foreign.load_point import LoadPoint
from tandem.bench_results.result_file import ResultError, first_error


class Tool(Protocol):
    """A module that reads the files of one tool."""

    TOOL: str
    FILE: str
    """The file that it reads, in the version with which its fields were compared."""

    def matches(self, document: Any) -> bool: ...

    def points(self, document: Any, file: str) -> Iterator[LoadPoint]: ...


TOOLS: tuple[Tool, ...] = (vllm, aiperf, guidellm, inference_perf)


def load_points(document: object, path: Path) -> list[LoadPoint] | None:
    """The figures in the document from `path`, or None if none of the tools wrote it; raises `ResultError`."""
    tool = next((tool for tool in TOOLS if tool.matches(document)), None)
    if tool is None:
        return None
    try:
        found = list(tool.points(document, str(path)))
    except ValidationError as error:
        why = f"is no report of {tool.TOOL} that tandem reads ({first_error(error)})"
        raise ResultError(f"{path} {why}. Choose a {tool.FILE}.") from error
    if wrong := next((point for point in found if point.is_contradictory), None):
        ended = f"{wrong.answered} successful and {wrong.failed} failed requests of {wrong.sent}"
        raise ResultError(f"{path} is damaged ({ended}). Copy it again, or measure again.")
    if not any(point.answered for point in found):
        failed = sum(point.failed for point in found)
        raise ResultError(f"{path} has no successful request ({failed} failed). Repair the server and measure again.")
    if any(point.answered and point.tokens_per_s is None for point in found):
        raise ResultError(f"{path} has no output tokens per second. Choose a benchmark that generates text.")
    return found
