"""What programs import from `tandem`."""

import ast
from pathlib import Path
from typing import Any, get_args

import components
import tandem
from sharing.modes.modes import Sharing

# Type checkers know the names, and not the list.
PUBLIC: Any = tandem
BLOCKS: Any = components


def test_every_component_and_every_mode_is_public() -> None:
    modes = {mode.__name__ for mode in get_args(get_args(Sharing)[0])}
    assert len(modes) == 4
    assert {*BLOCKS.__all__, *modes} <= {*PUBLIC.__all__}
    for name in BLOCKS.__all__:
        assert getattr(tandem, name) is getattr(components, name)


def test_type_checkers_know_every_name_that_programs_may_import() -> None:
    """The imports of `tandem/__init__.py` that only they follow."""
    [block] = [each for each in ast.parse(Path(str(tandem.__file__)).read_text()).body if isinstance(each, ast.If)]
    names = {each.name for line in block.body if isinstance(line, ast.ImportFrom) for each in line.names}
    assert (names - {"*"}) | {*BLOCKS.__all__} == {*PUBLIC.__all__}


def test_names_are_sorted_listed_by_dir_and_all_there() -> None:
    for module in (PUBLIC, BLOCKS):
        assert module.__all__ == sorted(module.__all__)
        assert {*module.__all__} <= {*dir(module)}
        assert all(callable(getattr(module, name)) for name in module.__all__)


def test_a_name_that_is_not_there_is_an_attribute_error() -> None:
    assert not hasattr(tandem, "GpuClusters")
