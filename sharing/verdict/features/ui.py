"""A web page to chat with the models, and to ask about documents."""

from collections.abc import Iterator

from sharing.models.served import ServedModel
from sharing.problems import Problem
from sharing.sections.config import StackConfig
from sharing.verdict.features.feature import Feature

DELETED = "accounts, chats and documents of the page"
"""What `destroy` deletes with the page's volume, and cannot bring back: an output of the stack, too."""


WHOLE = "no embedding model: documents go into the prompt whole"


def find_embedding(config: StackConfig) -> ServedModel | None:
    """The model that searches the page's documents: the first one that computes embeddings."""
    return next((served for served in config.models if served.model.encoder), None)


def _find_contradictions(config: StackConfig) -> Iterator[Problem]:
    """Finds a page without an administrator, and one without a model to chat with."""
    if not config.ui.admin_email:
        fix = "Write `admin-email: ops@example.com`, for example."
        yield Problem("ui.admin-email", "", "is missing: the page needs an administrator", fix)
    served = [settings.find_model() for settings in config.models]
    if all(model is not None and model.encoder for model in served):
        rule = "has no model to chat with: all `models` compute embeddings"
        yield Problem("ui.enabled", "true", rule, "Add a model, or remove `ui`.")


def _describe(config: StackConfig) -> str:
    """What keeps accounts and documents, what deletes them, and what searches documents."""
    gib, embedding = config.ui.kept_gib, find_embedding(config)
    kept = f"stay on {gib} GiB until `destroy` deletes them" if gib else "are lost with the page's pod"
    searched = f"documents are searched with {embedding.name}" if embedding else WHOLE
    return f"accounts, chats and documents {kept}; {searched}"


UI = Feature(
    key="ui",
    is_on=lambda config: config.ui.enabled,
    contradictions=_find_contradictions,
    system_pods=lambda _: ["ui"],
    word="Page",
    line=_describe,
    pages=lambda _: ["Open WebUI"],
)
