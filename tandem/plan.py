"""Plans a stack: rules first, without Pulumi; then the whole program, in this process, against the emulated cloud."""

import datetime
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from sharing.names import PROJECT
from sharing.quotas import needs
from sharing.setup import Pool, Setup
from stacks.config import StackConfig
from stacks.mistakes import Reading, read_file

if TYPE_CHECKING:
    from sandbox.graph import Graph, Resource
    from tandem.first_token import FirstToken
    from tandem.report import FirstTokenReport, PlanReport, ResourceReport
    from tandem.switch import Switches


@dataclass(frozen=True, slots=True)
class Judged:
    """A stack file after the rules: what is known before Pulumi is imported."""

    stack: str
    reading: Reading
    setup: Setup

    @property
    def pools(self) -> dict[str, Pool]:
        """Its pools of GPU nodes by name."""
        return {pool.name: pool for pool in self.setup.pools}

    @property
    def refused(self) -> bool:
        """Whether the stack must not be created."""
        return bool(self.reading.problems)


@dataclass(frozen=True, slots=True)
class Planned:
    """The program's resources, and how long they take."""

    graph: "Graph"
    first_token: "FirstToken"
    is_parked: bool
    """Whether no model starts: then `first_token` is how long `up` takes."""


def judge(path: Path, today: datetime.date | None = None, *, live_prices: bool = False, strict: bool = False) -> Judged:
    """Asks the rules about the stack file at `path`, at the prices that `tandem prices` has kept if these are wanted.

    `strict` refuses what the rules cannot judge. Raises `stacks.source.UnreadableError` when the file is no YAML, or
    the prices are not there or broken.
    """
    day = today or datetime.date.today()
    book = None
    if live_prices:
        from tandem.account import kept_prices

        book = kept_prices.for_file(path, day)
    reading = read_file(path, day, book)
    reading = reading.strict() if strict else reading
    return Judged(stack_name(path), reading, replace(reading.config.setup(day), book=book))


def run(judged: Judged) -> Planned:
    """Runs the program of an accepted stack in this process: no AWS, no CLI, no network."""
    from tandem.first_token import first_token

    graph = program_graph(judged.reading.accepted(), judged.stack)
    return Planned(graph, first_token(graph, judged.setup), is_parked=not judged.setup.awake)


def program_graph(config: StackConfig, stack: str) -> "Graph":
    """Everything that the program registers for `config`.

    Which zones an account has and what it is sold there only AWS knows: here every zone sells everything.
    """
    import stacks
    from sandbox.aws.offers import OFFERINGS, ZONES
    from sandbox.cloud import Cloud
    from sandbox.in_process import run as run_in_process

    named = {ZONES: {"names": config.cluster.zone_names}} if config.cluster.zone_names else {}
    cloud = Cloud(answers={OFFERINGS: {}, **named})
    return run_in_process(lambda: stacks.build(config), project=PROJECT, stack=stack, cloud=cloud)


def switched(judged: Judged, file: Path, outputs: Path | None) -> "Switches":
    """What becomes of the running stack when the accepted one is put in its place: the stack of `file` as Pulumi knows
    it, or as the file `outputs` tells.

    Raises `tandem.connection.NotConnectedError` where neither says.
    """
    from tandem import running
    from tandem.switch import switches

    runs = running.of_file(outputs, judged.stack) if outputs else running.of_stack(judged.stack, file)
    return switches(judged.setup, runs, proof=judged.reading.config.proof)


def report(judged: Judged, planned: Planned | None, switch: "Switches | None" = None) -> "PlanReport":
    """The plan as data; `planned` is None for a refused stack, `switch` where no running one is looked at."""
    from tandem.report import (
        PlanReport,
        cost_report,
        model_reports,
        pool_report,
        problem_reports,
        quota_reports,
        switch_report,
    )

    reading, assessment = judged.reading, judged.reading.assessment
    # Of a refused stack those that models were judged on, of an accepted one also those without models.
    pools = {fit.pool.name: fit.pool for fit in assessment.fits} if judged.refused else judged.pools
    mode_known = not any(problem.path in ("sharing", "sharing.mode") for problem in reading.problems)
    return PlanReport(
        stack=judged.stack,
        mode=reading.config.mode if mode_known else None,
        verdict="refused" if judged.refused else "ok",
        problems=problem_reports(reading.problems),
        warnings=problem_reports(assessment.warnings),
        pools=[pool_report(pool, judged.setup.nodes_of(pool)) for pool in pools.values()],
        models=model_reports(assessment.fits),
        cost=cost_report(assessment),
        quotas=quota_reports(needs(judged.setup) if assessment.cost else ()),
        time_to_first_token=_first_token(planned.first_token) if planned and not planned.is_parked else None,
        resources=[_resource(resource) for resource in planned.graph] if planned else [],
        switch=switch_report(switch) if switch else None,
    )


def stack_name(path: Path) -> str:
    """`timeslice` for `Pulumi.timeslice.yaml`, else the file's name without its ending."""
    return path.stem.removeprefix("Pulumi.")


def _first_token(estimate: "FirstToken") -> "FirstTokenReport":
    from tandem.report import FirstTokenReport, StepReport

    return FirstTokenReport(
        minutes=round(estimate.minutes, 1),
        plus_minus=round(estimate.plus_minus, 1),
        path=[StepReport(urn=step.urn, minutes=round(step.minutes, 2)) for step in estimate.path],
    )


def _resource(resource: "Resource") -> "ResourceReport":
    from sandbox.graph import masked
    from tandem.report import ResourceReport

    return ResourceReport(
        urn=resource.urn,
        type=resource.type,
        name=resource.name,
        parent=resource.parent,
        inputs=masked(resource.inputs),
        depends_on=list(resource.dependencies),
        provider=resource.provider,
        options=masked(resource.options),
    )
