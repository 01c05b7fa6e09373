"""What a result says about each model of its plan, in the form that its user may share: `tandem bench --share`."""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from pydantic import ValidationError

from sharing.models.catalogue import find, full_name
from sharing.speed.community import BenchedModel, Community, Figures
from sharing.speed.estimate import Estimate
from tandem.bench_results import measures
from tandem.bench_results.result import Result, Row, Run, mode_of
from tandem.bench_results.result_file import ResultError, first_error

LEAST_SPREAD = 0.03
"""Part of a value by which its range goes down and up at least: a few repeats are often nearer by chance."""
DIGITS = 4
"""Of a measured speed."""
Planned = Mapping[str, Any]
"""A model or a pool of the plan: docs/plan.schema.json."""


def of_result(result: Result, path: Path) -> tuple[Community, list[str]]:
    """The figures of the models, and what is left out, a line each; raises `ResultError` if nothing is left.

    It has nothing from the result but what is named here.
    """
    if not result.complete:
        raise ResultError(f"{path} was stopped early, so its figures do not count. Measure again.")
    if result.plan is None:
        raise ResultError(
            f"{path} has no plan, so its GPU and mode are unknown. Measure again with the stack: `tandem bench STACK`."
        )
    plan: Planned = {**result.plan}
    planned, found, left_out = _planned(result, plan), [], []
    for server in result.servers:
        try:
            found.append(_benched(result, plan, planned, server.id))
        except (KeyError, StopIteration, TypeError, ValidationError):
            left_out.append(f"{server.id}, {server.model}: not in the plan, or no run of it can be compared.")
    if not found:
        raise ResultError(f"{path} has no figures that count. {' '.join(left_out)}")
    try:
        community = Community(
            kind="tandem community",
            schema_version=1,
            date=result.ended[:10],
            driver=None,
            engine=f"ollama {result.servers[0].ollama}",
            output_tokens=result.load.output_tokens,
            models=found,
        )
    except ValidationError as error:
        raise ResultError(f"{path} is damaged ({first_error(error)}). Measure again.") from error
    return community, left_out


def to_share(result: Result, path: Path) -> tuple[str, list[str]]:
    """The text of the file to share, and what is left out, also tags outside the catalogue: they may be private."""
    community, left_out = of_result(result, path)
    known = [model for model in community.models if find(model.name)]
    if not known:
        raise ResultError(f"{path} has no model of the catalogue, so there is nothing to share.")
    left_out += [f"{model.name}: not in the catalogue." for model in community.models if model not in known]
    return community.model_copy(update={"models": known}).model_dump_json(indent=1) + "\n", left_out


def _generates(model: Planned) -> bool:
    return model.get("speed", "unknown") is not None


def _planned(result: Result, plan: Planned) -> dict[str, Planned]:
    """The model of the plan that each server has: the one of its name, else the next with the same tag."""
    left, planned = [model for model in plan["models"] if _generates(model)], {}
    for server in result.servers:
        same = [model for model in left if full_name(str(model.get("name"))) == full_name(server.model)]
        if same:
            planned[server.id] = next((model for model in same if model["id"] == server.id), same[0])
            left.remove(planned[server.id])
    return planned


def _benched(result: Result, plan: Planned, planned: Mapping[str, Planned], endpoint: str) -> BenchedModel:
    """One model. A plan that lacks some of it raises `KeyError`, `StopIteration`, `TypeError` or `ValidationError`."""
    model = planned[endpoint]
    pool = next(pool for pool in plan["pools"] if pool["name"] == model["pool"])
    shares = next(shares for shares in pool["shares"] if shares["resource"] == model["resource"])
    others = {each["id"] for each in plan["models"] if each["pool"] == model["pool"] and _generates(each)}
    server = next(server for server in result.servers if server.id == endpoint)
    # Nobody else is on an entire GPU or slice.
    company = others if shares["sharers"] > 1 else {model["id"]}
    mode: Any = mode_of(pool)
    return BenchedModel(
        name=full_name(server.model),
        digest=server.digest,
        quantization=server.quantization,
        context=model["context"],
        slots=model["slots"],
        gpu=pool["gpu"]["name"],
        mode=mode,
        profile=shares["profile"],
        sharers=shares["sharers"],
        busy=min(len(others), shares["sharers"]),
        threads_percent=model.get("threads_percent"),
        figures=_figures(result, endpoint, {server: each["id"] for server, each in planned.items()}, company),
    )


def _figures(result: Result, endpoint: str, ids: Mapping[str, str], company: set[str]) -> list[Figures]:
    """The figures of one model. `ids` are those of the plan by server, `company` the models that may meet it."""
    grouped: dict[tuple[int, int, bool], list[Run]] = defaultdict(list)
    for run in result.runs:
        if run.loop == "open" or endpoint not in run.endpoints or measures.reasons_against(run):
            continue
        working = {ids[each] for each in run.endpoints if each in ids} & company
        for is_busy in (False, True):
            if working == (company if is_busy else {ids[endpoint]}):
                grouped[run.prompt_words, int(run.level), is_busy].append(run)
    every = []
    for (prompt_words, at_once, is_busy), runs in sorted(grouped.items()):
        by_run = [[row for row in run.rows if row.endpoint == endpoint] for run in runs]
        good = [measures.answered(rows) for rows in by_run]
        every.append(
            Figures(
                neighbours="busy" if is_busy else "idle",
                at_once=at_once,
                repeats=len(runs),
                prompt_words=prompt_words,
                prompt_tokens=round(median(row.prompt_tokens for rows in good for row in rows)),
                tokens_per_s=_over_repeats(good, _pace),
                total_tokens_per_s=_over_repeats(by_run, measures.tokens_per_s),
                first_token_ms=_over_repeats(good, lambda rows: median(map(measures.ttft_ms, rows))),
            )
        )
    return every


def _over_repeats(by_run: Sequence[Sequence[Row]], figure: Callable[[Sequence[Row]], float]) -> Estimate | None:
    values = [value for value in map(figure, by_run) if value]
    if not values:
        return None
    middle = median(values)
    reach = min(*values, middle * (1 - LEAST_SPREAD)), max(*values, middle * (1 + LEAST_SPREAD))
    return Estimate(*(float(f"{number:.{DIGITS}g}") for number in (middle, *reach)))


def _pace(rows: Sequence[Row]) -> float:
    """Tokens per second of one request; 0 if no answer has a time between tokens."""
    times = [measures.itl_ms(row) for row in rows if measures.has_itl(row)]
    return 1000 / median(times) if times and median(times) else 0.0
