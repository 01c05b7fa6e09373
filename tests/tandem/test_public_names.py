"""What programs import from `tandem`."""

from typing import get_args

import components
import tandem
from sharing.modes.modes import Sharing


def test_every_component_and_every_mode_is_public() -> None:
    modes = {mode.__name__ for mode in get_args(get_args(Sharing)[0])}
    assert len(modes) == 4
    assert {*components.__all__, *modes} <= set(tandem.__all__)
    assert sorted(name for names in components._NAMES.values() for name in names) == components.__all__
    for name in components.__all__:
        assert getattr(tandem, name) is getattr(components, name)


def test_names_are_sorted_listed_by_dir_and_all_there() -> None:
    assert tandem.__all__ == sorted(tandem.__all__)
    assert set(tandem.__all__) <= set(dir(tandem))
    assert set(components.__all__) <= set(dir(components))
    assert all(isinstance(getattr(tandem, name), type) for name in tandem.__all__)


def test_a_name_that_is_not_there_is_an_attribute_error() -> None:
    assert not hasattr(tandem, "GpuClusters")
