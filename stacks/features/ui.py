"""The web page of a stack, if its file has `ui.enabled`, and the pods that may send requests to the models."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from components import ModelClients
from sharing.names import PROJECT, UI_NAMESPACE
from stacks.base import Serving
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


def serve_ui(stack: Serving) -> Mapping[str, Any]:
    """The page, which starts after the models, because it needs their URLs. Returns its outputs."""
    from components import OpenWebUI, OpenWebUIArgs

    plan, models = stack.base.plan, stack.models
    email = plan.config.ui.admin_email
    assert email, "an accepted stack has the address"
    urls = [models.urls[fit.served.id] for fit in plan.assessment.fits]
    args = OpenWebUIArgs(model_urls=urls, admin_email=email, clients=list_clients(plan))
    page = OpenWebUI(f"{PROJECT}-ui", args, stack.base.inside())
    return {"ui_url": page.url, "openai_url": page.openai_url, "ui_admin_password": page.admin_password}
