"""Plans a stack: rules first, without Pulumi; then the whole program, in this process, against the emulated cloud."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from sharing.names import PROJECT
from sharing.quotas import needs
from stacks.stack_file.judge import Judged, Plan

if TYPE_CHECKING:
    from sandbox.graph import Graph, Resource
    from tandem.first_token import FirstToken
    from tandem.report import FirstTokenReport, PlanReport, ResourceReport
    from tandem.switch import Switches


@dataclass(frozen=True, slots=True)
class Planned:
    """The program's resources, and how long they take."""

    graph: "Graph"
    first_token: "FirstToken"
    is_parked: bool
    """Whether no model starts: then `first_token` is how long `up` takes."""


def run(plan: Plan) -> Planned:
    """Runs the program in this process: no AWS, no CLI, no network."""
    from tandem.first_token import first_token

    graph = program_graph(plan)
    return Planned(graph, first_token(graph, plan.setup), is_parked=not plan.setup.awake)


def program_graph(plan: Plan) -> "Graph":
    """Everything that the program registers for `plan`.

    Which zones an account has and what it is sold there only AWS knows: here every zone sells everything.
    """
    from sandbox.cloud.answers import Cloud
    from sandbox.cloud.aws.offers import OFFERINGS, ZONES
    from sandbox.preview.program import run as run_in_process
    from stacks.deploy import deploy

    named = {ZONES: {"names": plan.config.cluster.zone_names}} if plan.config.cluster.zone_names else {}
    cloud = Cloud(answers={OFFERINGS: {}, **named})
    return run_in_process(lambda: deploy(plan), project=PROJECT, stack=plan.stack, cloud=cloud)


def switched(plan: Plan, file: Path, outputs: Path | None) -> "Switches":
    """What becomes of the running stack when the accepted one is put in its place: the stack of `file` as Pulumi knows
    it, or as the file `outputs` tells.

    Raises `tandem.connection.NotConnectedError` where neither says.
    """
    from tandem import running
    from tandem.switch import switches

    runs = running.of_file(outputs, plan.stack) if outputs else running.of_stack(plan.stack, file)
    return switches(plan.setup, runs, proof=plan.config.proof)


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

    assessment = judged.assessment
    # Of a refused stack those that models were judged on, of an accepted one also those without models.
    judged_on = {fit.pool.name: fit.pool for fit in assessment.fits}.values()
    pools = judged_on if judged.refused else judged.setup.pools
    mode_known = not any(problem.path in ("sharing", "sharing.mode") for problem in judged.problems)
    return PlanReport(
        stack=judged.stack,
        mode=judged.config.mode if mode_known else None,
        verdict="refused" if judged.refused else "ok",
        problems=problem_reports(judged.problems),
        warnings=problem_reports(assessment.warnings),
        pools=[pool_report(pool, judged.setup.nodes_of(pool)) for pool in pools],
        models=model_reports(assessment.fits),
        cost=cost_report(assessment),
        quotas=quota_reports(needs(judged.setup) if assessment.cost else ()),
        time_to_first_token=_first_token(planned.first_token) if planned and not planned.is_parked else None,
        resources=[_resource(resource) for resource in planned.graph] if planned else [],
        switch=switch_report(switch) if switch else None,
    )


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
