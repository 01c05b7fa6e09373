"""The web page of a stack, if its file has `ui.enabled`."""

from collections.abc import Mapping
from typing import Any

from sharing.models.served import ServedModel
from sharing.names import PROJECT
from sharing.verdict.features.ui import DELETED, find_embedding
from stacks.base import Serving
from stacks.clients import list_clients
from stacks.volume_zones import choose_page_zone

CHARACTERS_PER_TOKEN = 2
"""Fewer than a token of most texts has, so that a passage fits the embedding model's context. Ollama cuts what does not
fit (ollama v0.32.15 server/routes.go, EmbedHandler, `truncate`)."""


def serve_ui(stack: Serving) -> Mapping[str, Any]:
    """The page, which starts after the models, because it needs their URLs. Returns its outputs."""
    from components import OpenWebUI, OpenWebUIArgs

    base, models = stack.base, stack.models
    settings = base.plan.config.ui
    assert settings.admin_email, "an accepted stack has the address"
    chatting = [fit.served.id for fit in base.plan.verdict.fits if not fit.served.model.encoder]
    args = OpenWebUIArgs(
        model_urls=[models.urls[id] for id in chatting],
        admin_email=settings.admin_email,
        clients=list_clients(base.plan),
        storage_gib=settings.storage_gib,
        zone=choose_page_zone(base.cluster, base.untainted_zones) if settings.storage_gib else None,
        tags=base.tags,
        **_embed(stack, find_embedding(base.plan.config)),
    )
    # The page starts after the driver, and on `destroy` its pod ends before it.
    needs = base.parts("storage_driver") if settings.storage_gib else []
    page = OpenWebUI(f"{PROJECT}-ui", args, base.inside(*needs))
    outputs: dict[str, Any] = {
        "ui_url": page.url,
        "openai_url": page.openai_url,
        "ui_admin_password": page.admin_password,
    }
    if settings.storage_gib:
        outputs |= {"ui_volume_id": page.volume_id, "destroy_deletes": DELETED}
    return outputs


def _embed(stack: Serving, served: ServedModel | None) -> dict[str, Any]:
    """The arguments for documents."""
    if served is None:
        return {}
    from components.open_webui import CHUNK_CHARACTERS

    return {
        "embedding_url": stack.models.urls[served.id],
        "embedding_model": served.model.name,
        "chunk_characters": min(CHUNK_CHARACTERS, CHARACTERS_PER_TOKEN * served.effective_context),
    }
