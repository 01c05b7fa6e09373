from typing import Any

from google.protobuf import struct_pb2
from hypothesis import given
from hypothesis import strategies as st

from sandbox import wire
from sandbox.graph import Ref, Secret

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
PLAIN = st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False, width=32) | TEXT


def marked(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3) | st.builds(Secret, inner)


VALUES = st.recursive(PLAIN | st.builds(Ref, TEXT, st.none() | TEXT), marked, max_leaves=12)


@given(st.dictionaries(TEXT, VALUES, max_size=4))
def test_values_come_back_as_they_were_sent(values: dict[str, Any]) -> None:
    struct = struct_pb2.Struct()
    wire.write(values, struct)
    assert wire.read(struct) == values
