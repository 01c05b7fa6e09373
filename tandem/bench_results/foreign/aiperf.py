"""Results of AIPerf: `profile_export_aiperf.json`.

Fields: aiperf 0.13.0, `MetricsJsonExporter`; its phases: `src/aiperf/config/phases.py` at 0205ea14. A metric without
values is left out. Its ITL is one mean per request: (last token - first token) / (tokens - 1).
"""

from collections.abc import Iterator
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, AliasChoices, AliasPath, Field
from pydantic_core import PydanticCustomError

from tandem.bench_results.foreign.load_point import Fields, Figure, LoadPoint, at
from tandem.bench_results.result import Count

TOOL, FILE = "AIPerf", "`profile_export_aiperf.json` of AIPerf 0.13.0"
OF_2025 = AliasPath("input_config", "endpoint", "model_names", 0)


def _known(form: str) -> str:
    if not form.startswith("1."):
        raise PydanticCustomError("form", "must be 1.x, not {form}", {"form": repr(form)})
    return form


class _Phase(Fields):
    kind: str | None = None
    requests: Count | None = None
    """It stops after this many."""
    concurrency: Count | None = None
    rate: Figure = None


class _Report(Fields):
    schema_version: Annotated[str, AfterValidator(_known)]
    """2.0 is another form, which AIPerf writes beside this one. Files of 2025 have none."""
    aiperf_version: str
    model: str | None = Field(
        None, validation_alias=AliasChoices(AliasPath("input_config", "models", "items", 0, "name"), OF_2025)
    )
    phases: list[_Phase] = at("input_config", "phases", default=[])
    run_label: str = at("run_info", "run_label", default="")
    was_cancelled: bool = False
    is_complete: bool = True
    answered: Count = at("request_count", "avg", default=0)
    failed: Count = at("error_request_count", "avg", default=0)
    tokens_per_s: Figure = at("output_token_throughput", "avg")
    ttft_p50_ms: Figure = at("time_to_first_token", "p50")
    ttft_p95_ms: Figure = at("time_to_first_token", "p95")
    itl_p50_ms: Figure = at("inter_token_latency", "p50")
    # Each metric names its unit: another one is refused.
    speed_unit: Literal["tokens/sec", None] = at("output_token_throughput", "unit")
    ttft_unit: Literal["ms", None] = at("time_to_first_token", "unit")
    itl_unit: Literal["ms", None] = at("inter_token_latency", "unit")


def matches(document: Any) -> bool:
    """Whether this tool wrote the document, in any version."""
    return isinstance(document, dict) and "input_config" in document


def points(document: Any, file: str) -> Iterator[LoadPoint]:
    """Its figures; raises `ValidationError`."""
    report = _Report.model_validate(document)
    loads = [phase for phase in report.phases if phase.kind == "profiling"]
    load = loads[0] if len(loads) == 1 else _Phase()
    is_stopped = report.was_cancelled or not report.is_complete
    yield LoadPoint(
        file=file,
        tool=f"{TOOL} {report.aiperf_version}",
        label=", ".join(filter(None, [report.run_label, "stopped early" * is_stopped])),
        at_a_time=load.concurrency,
        per_second=load.rate,
        sent=load.requests,
        **report.common(),
    )
