"""Results of `tandem bench` as measurements that replace forecasts: `--measured RESULT.json`."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from sharing.speed.community import BenchedModel
from sharing.speed.forecast import PROMPT_TOKENS
from sharing.speed.measured import Measurement
from sharing.verdict.speed import key_of
from tandem.bench_results.community import of_result
from tandem.bench_results.result_file import ResultError, parsed, validated
from tandem.terminal import complain, in_words

if TYPE_CHECKING:
    from sharing.verdict.matrix import Cell
    from stacks.stack_file.judge import Plan

SIMILAR_PROMPTS = range(300, 801)
"""Tokens of a prompt whose first token is compared with that of the forecast's `PROMPT_TOKENS`."""


def read_measured(paths: Iterable[str]) -> tuple[Measurement, ...]:
    """The measurements of results; raises `ResultError` for one without any, and warns of what the others lack."""
    measurements: list[Measurement] = []
    for path in map(Path, paths):
        document = parsed(path)
        if not isinstance(document, dict) or document.get("kind") != "tandem bench":
            raise ResultError(f"{path} is not a result of `tandem bench`. Choose one that `tandem bench STACK` wrote.")
        community, left_out = of_result(validated(document, path), path)
        for line in left_out:
            complain(f"warning: {path.name} replaces no forecast of {line}")
        measurements += [_measurement(model, path.name) for model in community.models]
    return tuple(measurements)


def warn_of_unused(tried: Sequence["Cell | Plan"]) -> None:
    """Says which of their measurements replace no forecast of these stacks, and what the others lack."""
    keys = {
        key_of(each.config, fit.pool, fit.served, fit.placement.shares) for each in tried for fit in each.verdict.fits
    }
    unused: dict[tuple[str, str], list[str]] = {}
    for measurement in dict.fromkeys(one for each in tried for one in each.config.circumstances.measured):
        if measurement.key not in keys:
            unused.setdefault((measurement.file, measurement.setup), []).append(measurement.model)
        elif missing := _missing(measurement):
            what = f"{measurement.file} has not measured of {measurement.model}: {in_words(missing)}"
            complain(f"warning: {what}. The forecast stays.")
    for (file, setup), models in unused.items():
        complain(f"warning: {file} replaces no forecast here: it measured {in_words(models)} on {setup}.")


def _missing(measurement: Measurement) -> list[str]:
    """What was not measured, and why not."""
    lacks = {
        "tokens_per_s": "its speed alone (no run with 1 request at a time)",
        "busy_tokens_per_s": "its speed beside the others (no run of all with 1 request at a time)",
        "full_tokens_per_s": f"its full speed (no run of all with {measurement.slots} or more at a time)",
        "first_token_ms": f"its first token (no prompt of {SIMILAR_PROMPTS[0]} to {SIMILAR_PROMPTS[-1]} tokens)",
    }
    return [what for name, what in lacks.items() if getattr(measurement, name) is None]


def _measurement(benched: BenchedModel, file: str) -> Measurement:
    """The figures of the shortest prompts, which come first."""
    idle = [each for each in benched.figures if each.neighbours == "idle" and each.at_once == 1]
    busy = [each for each in benched.figures if each.neighbours == "busy"]
    beside = [each for each in busy if each.at_once == 1]
    shortest = [each for each in busy if each.prompt_words == min(one.prompt_words for one in busy)]
    full = [each for each in shortest if each.at_once >= benched.slots]
    prompts = [each for each in idle if each.prompt_tokens in SIMILAR_PROMPTS]
    prompts.sort(key=lambda each: abs(each.prompt_tokens - PROMPT_TOKENS))
    return Measurement(
        file=file,
        model=benched.name,
        gpu=benched.gpu,
        mode=benched.mode,
        sharers=benched.sharers,
        profile=benched.profile,
        busy=benched.busy,
        threads_percent=benched.threads_percent,
        slots=benched.slots,
        tokens_per_s=idle[0].tokens_per_s if idle else None,
        busy_tokens_per_s=beside[0].tokens_per_s if beside else None,
        full_tokens_per_s=full[-1].total_tokens_per_s if full else None,
        first_token_ms=prompts[0].first_token_ms if prompts else None,
    )
