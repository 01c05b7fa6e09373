"""Answers in which one value is replaced by another, as a broken or hostile server may send them."""

import copy
from collections.abc import Iterator
from typing import Any

from hypothesis import strategies as st


def _holding(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=9), inner, max_size=3)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=9), _holding, max_leaves=8
)


def mutated(whole: Any, other: Any, data: st.DataObject) -> Any:
    """A copy of `whole` in which one value is `other`, or is missing."""
    made = {"": copy.deepcopy(whole)}
    holder, key = data.draw(st.sampled_from(list(_places(made))))
    if isinstance(holder, dict) and key and data.draw(st.booleans()):
        del holder[key]
    else:
        holder[key] = other
    return made[""]


def _places(inside: Any) -> Iterator[tuple[Any, Any]]:
    for key in inside if isinstance(inside, dict) else range(len(inside)):
        yield inside, key
        if isinstance(inside[key], dict | list):
            yield from _places(inside[key])
