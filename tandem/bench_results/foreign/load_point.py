"""What every tool measures: the figures of one model at one load. None: not measured, or not in the file."""

from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import AfterValidator, AliasPath, BaseModel, ConfigDict, Field

from tandem.bench_results.result import Amount

COMMON = {"model", "answered", "failed", "tokens_per_s", "ttft_p50_ms", "ttft_p95_ms", "itl_p50_ms"}
"""The fields that every tool's class has under the names of `LoadPoint`."""


class Fields(BaseModel):
    """The fields of a file that are read; all others are ignored."""

    model_config = ConfigDict(frozen=True)

    def common(self) -> dict[str, Any]:
        """Those that have the names of `LoadPoint`."""
        return self.model_dump(include=COMMON)


def at(first: str, *path: str | int, default: object = None) -> Any:
    """The field at that path of the file."""
    return Field(default, validation_alias=AliasPath(first, *path))


Figure = Annotated[Amount | None, AfterValidator(lambda value: value or None)]
"""A time or a speed. All four tools write 0 or null, or nothing, for what they could not measure."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadPoint:
    """One model at one load. Times are in milliseconds."""

    file: str
    tool: str
    """With its version, if the file has it."""
    label: str
    """What the file says about the run; may be empty."""
    model: str | None
    at_a_time: int | None
    per_second: float | None
    """Requests per second; then `at_a_time` is only a cap."""
    sent: int | None
    """Requests, as the tool counts them; None: not in the file."""
    answered: int
    failed: int
    tokens_per_s: float | None
    ttft_p50_ms: float | None
    ttft_p95_ms: float | None
    itl_p50_ms: float | None
    """Of (last token - first token) / (tokens - 1) of each request, which all four tools have under different names."""

    @property
    def is_contradictory(self) -> bool:
        """Whether more requests ended than were sent."""
        return self.sent is not None and self.answered + self.failed > self.sent

    @property
    def lacks_p95(self) -> bool:
        """Whether its file has the median of the first token, and not the 95th percentile: the default of vLLM."""
        return bool(self.answered and self.ttft_p50_ms) and self.ttft_p95_ms is None

    @property
    def load(self) -> str:
        """The load in words."""
        if self.per_second:
            return f"{self.per_second:g} per second"
        return f"{self.at_a_time} at a time" if self.at_a_time else "not recorded"
