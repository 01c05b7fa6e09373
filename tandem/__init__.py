"""Two LLMs on one GPU on EKS: the components for your own program. The command `tandem` is in this package, too.

Everything is imported when it is first asked for, so that the command does not wait for Pulumi's SDKs.
"""

# No import before the first name is asked for: Ctrl-C is not heard yet while the command imports this.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from components import *  # noqa: F403  # for types alone; the names are in `components/__init__.py`
    from sharing.models.catalogue import KvType as KvType
    from sharing.models.catalogue import Model as Model
    from sharing.models.share import Share as Share
    from sharing.modes.layouts import Slices as Slices
    from sharing.modes.modes import Exclusive as Exclusive
    from sharing.modes.modes import Mig as Mig
    from sharing.modes.modes import Mps as Mps
    from sharing.modes.modes import TimeSlicing as TimeSlicing
    from stacks.model_files.find import find_model as find_model
    from stacks.stack_file.check import ModelMemory as ModelMemory
    from stacks.stack_file.check import Verdict as Verdict
    from stacks.stack_file.check import check as check


OF_RULES = ("Exclusive", "KvType", "Mig", "Model", "Mps", "Share", "Slices", "TimeSlicing")
"""Names that are no component. Those of the components are in `components/__init__.py`."""
OF_CHECKS = ("ModelMemory", "Verdict", "check")
"""The verdict for tests: without Pulumi's SDKs, and quick to import."""


OF_MODELS = ("find_model",)
"""The model behind a name or a file."""


def __getattr__(name: str) -> object:
    from importlib import import_module

    if name in OF_CHECKS:
        return getattr(import_module("stacks.stack_file.check"), name)
    if name in OF_MODELS:
        return getattr(import_module("stacks.model_files.find"), name)
    blocks = import_module("components")
    if name == "__all__":
        return sorted([*OF_CHECKS, *OF_MODELS, *OF_RULES, *blocks.__all__])
    if name in OF_RULES:
        from sharing.models import catalogue, share
        from sharing.modes import layouts, modes

        home = next(module for module in (modes, catalogue, layouts, share) if hasattr(module, name))
        return getattr(home, name)
    if name in blocks.__all__:
        return getattr(blocks, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    from importlib import import_module

    return sorted({*globals(), *import_module(__name__).__all__})
