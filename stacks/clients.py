"""Which pods may send requests to the models, and which read their metrics."""

from dataclasses import replace

from components import ModelClients
from components.network_policies import PROMETHEUS_LABELS
from sharing.names import MONITORING_NAMESPACE, UI_NAMESPACE
from stacks.stack_file.judge import Plan


def find_clients(plan: Plan) -> ModelClients:
    """The pods that the stack file lists, and the page."""
    listed = list_clients(plan)
    own = [UI_NAMESPACE] if plan.config.ui.enabled and UI_NAMESPACE not in listed.namespaces else []
    return replace(listed, namespaces=[*listed.namespaces, *own])


def list_clients(plan: Plan) -> ModelClients:
    """The pods that the stack file lists."""
    clients = plan.config.models_clients
    return ModelClients(namespaces=clients.namespaces, labels=clients.labels)


def find_scrapers(plan: Plan) -> ModelClients | None:
    """The pods that read the models' metrics; None without metrics."""
    monitoring = plan.config.monitoring
    if not monitoring.has_metrics:
        return None
    return ModelClients(
        namespaces=[MONITORING_NAMESPACE] if monitoring.store == "builtin" else [],
        labels=PROMETHEUS_LABELS if monitoring.service_monitors else {},
    )
