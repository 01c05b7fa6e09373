"""The build renames modules of the checkout for the wheel: only where a name is a module's."""

import pytest

from distribution.layout import rewritten


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("from components.names import POOL", "from tandem.components.names import POOL"),
        ("from sandbox import graph", "from tandem.emulator import graph"),
        ("    from stacks import (\n        a,\n    )", "    from tandem.stacks import (\n        a,\n    )"),
        ("import stacks", "from tandem import stacks as stacks"),
        ("import sandbox", "from tandem import emulator as sandbox"),
        ("import sharing.hardware.gpus as catalogue, os", "import tandem.sharing.hardware.gpus as catalogue, os"),
        ("text = 'é'; from sharing import mig", "text = 'é'; from tandem.sharing import mig"),
        ("files('sharing') / 'data'", "files(\"tandem.sharing\") / 'data'"),
        ("resources.files(\n    'sandbox',\n)", 'resources.files(\n    "tandem.emulator",\n)'),
        ("import_module('components.park')", 'import_module("tandem.components.park")'),
    ],
)
def test_names_of_modules_are_moved(before: str, after: str) -> None:
    body = f"if True:\n{before}" if before.startswith(" ") else before
    assert rewritten(body.encode(), "m.py").decode().removeprefix("if True:\n") == after


@pytest.mark.parametrize(
    "text",
    [
        "from tandem.sandbox import command",
        "from .stacks import here",
        "from . import sharing",
        "READS = ('sharing.mode', 'sharing')  # from sharing import mode",
        '"""from components import GpuCluster"""',
        "config.get('stacks')",
        "import componentsandmore",
        "files(__package__)",
        "import_module(f'{__package__}.{mode}')",
    ],
)
def test_everything_else_stays(text: str) -> None:
    assert rewritten(text.encode(), "m.py").decode() == text


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("\nimport sharing.hardware.gpus", "m.py:2: `import sharing.hardware.gpus` cannot be moved. Use `from`."),
        ("from \\\n  sharing import a", "m.py:1: import of sharing has several lines. Join them."),
        ("import_module(f'stacks.{mode}')", "m.py:1: 'stacks.' begins the name of a module. Use `__package__`."),
    ],
)
def test_an_import_that_cannot_be_moved_stops_the_build(text: str, error: str) -> None:
    with pytest.raises(ValueError) as refused:  # noqa: PT011  # the whole text is compared
        rewritten(text.encode(), "m.py")
    assert str(refused.value) == error
