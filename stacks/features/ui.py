"""The web page of a stack, if its file has `ui.enabled`."""

from collections.abc import Mapping
from typing import Any

from sharing.names import PROJECT
from stacks.base import Serving
from stacks.clients import list_clients


def serve_ui(stack: Serving) -> Mapping[str, Any]:
    """The page, which starts after the models, because it needs their URLs. Returns its outputs."""
    from components import OpenWebUI, OpenWebUIArgs

    plan, models = stack.base.plan, stack.models
    email = plan.config.ui.admin_email
    assert email, "an accepted stack has the address"
    urls = [models.urls[fit.served.id] for fit in plan.verdict.fits]
    args = OpenWebUIArgs(model_urls=urls, admin_email=email, clients=list_clients(plan))
    page = OpenWebUI(f"{PROJECT}-ui", args, stack.base.inside())
    return {"ui_url": page.url, "openai_url": page.openai_url, "ui_admin_password": page.admin_password}
