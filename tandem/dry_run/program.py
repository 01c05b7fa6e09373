"""Runs the program of a judged stack, in this process, against the emulated cloud, which keeps nothing."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sharing.names import PROJECT
from stacks.stack_file.judge import Plan

CLUSTERS = "aws:eks/getClusters:getClusters"

if TYPE_CHECKING:
    from sandbox.cloud.protocol import Answer, Values
    from sandbox.graph import Graph
    from tandem.dry_run.startup import Startup


@dataclass(frozen=True, slots=True)
class Planned:
    """The program's resources, and how long they take."""

    graph: "Graph"
    startup: "Startup"
    starts_models: bool
    """Otherwise, `startup` is how long `up` takes."""


def run(plan: Plan) -> Planned:
    """Runs the program in this process: no AWS, no CLI, no network."""
    from tandem.dry_run.startup import estimate_startup

    graph = program_graph(plan)
    return Planned(
        graph,
        estimate_startup(graph, plan.config),
        starts_models=bool(plan.config.active_pools) and not plan.config.scale_to_zero.enabled,
    )


def program_graph(plan: Plan) -> "Graph":
    """Everything that the program registers for `plan`.

    Only AWS knows the zones of an account and the types that they sell: here every zone sells everything. Nor does it
    know an existing cluster, which is then as in Pulumi's mocks: without facts, so that it refuses nothing.
    """
    from sandbox.cloud.answers import Cloud
    from sandbox.cloud.aws.offers import OFFERINGS, ZONES
    from sandbox.preview.program import run as run_in_process
    from stacks.deploy import deploy

    named = {ZONES: {"names": plan.config.cluster.zone_names}} if plan.config.cluster.zone_names else {}
    unknown: dict[str, Values] = {CLUSTERS: {}} if plan.config.cluster.existing else {}
    cloud = Cloud(answers={OFFERINGS: {}, **named, **unknown, **answers_of_vpc(plan)})
    return run_in_process(lambda: deploy(plan), project=PROJECT, stack=plan.stack, cloud=cloud)


def answers_of_vpc(plan: Plan) -> "dict[str, Answer]":
    """The answers about a VPC that the stack does not own. Only AWS knows it: here everything in it is right."""
    if (vpc := plan.config.cluster.vpc) is None:
        return {}
    from sandbox.world.entities import Entities
    from sandbox.world.foreign import found_vpc
    from sandbox.world.providers import networks

    entities = Entities()
    found_vpc(entities, plan.config.region, vpc)
    return {token: lambda question: networks.answer(entities, question) or {} for token in networks.ANSWERS}
