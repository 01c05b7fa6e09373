"""A web page to chat with the models."""

from collections.abc import Iterator

from sharing.problems import Problem
from sharing.stack.config import StackConfig
from sharing.verdict.features.feature import Feature


def _find_contradictions(config: StackConfig) -> Iterator[Problem]:
    """Finds a page without an administrator, and one without a model to chat with."""
    if not config.ui.admin_email:
        fix = "Write `admin-email: ops@example.com`, for example."
        yield Problem("ui.admin-email", "", "is missing: the page needs an administrator", fix)
    served = [settings.find_model() for settings in config.models]
    if all(model is not None and model.encoder for model in served):
        rule = "has no model to chat with: all `models` compute embeddings"
        yield Problem("ui.enabled", "true", rule, "Add a model, or remove `ui`.")


UI = Feature(
    key="ui",
    is_on=lambda config: config.ui.enabled,
    contradictions=_find_contradictions,
    system_pods=lambda _: ["ui"],
    pages=lambda _: ["Open WebUI"],
)
