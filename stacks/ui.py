"""The web page of a stack, if its file has `ui.enabled`, and the pods that may send requests to the models."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pulumi

from components import ModelClients, OllamaPair
from sharing.names import PROJECT, UI_NAMESPACE
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


def serve_ui(plan: Plan, models: OllamaPair, options: pulumi.ResourceOptions) -> Mapping[str, Any]:
    """The page, which starts after the models, because it needs their URLs. Returns its outputs; none without one."""
    ui = plan.config.ui
    if not ui.enabled:
        return {}
    from components import OpenWebUI, OpenWebUIArgs

    assert ui.admin_email, "an accepted stack has the address"
    urls = [models.urls[fit.served.id] for fit in plan.assessment.fits]
    args = OpenWebUIArgs(model_urls=urls, admin_email=ui.admin_email, clients=list_clients(plan))
    page = OpenWebUI(f"{PROJECT}-ui", args, options)
    return {"ui_url": page.url, "openai_url": page.openai_url, "ui_admin_password": page.admin_password}
