"""The metrics of a stack, if its file has the section `monitoring`."""

from components import ModelClients
from sharing.names import MONITORING_NAMESPACE
from stacks.stack_file.judge import Plan


def find_scrapers(plan: Plan) -> ModelClients | None:
    """The pods that read the models' metrics; None without metrics."""
    return ModelClients(namespaces=[MONITORING_NAMESPACE]) if plan.setup.metrics else None
