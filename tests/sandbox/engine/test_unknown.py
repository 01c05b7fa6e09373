"""Outputs that are not known before a deployment, as the engine receives them."""

from sandbox.engine.unknown import holds_unknown, settled
from sandbox.graph import Secret
from sandbox.wire import UNKNOWN


def test_a_text_that_contains_an_unknown_becomes_unknown_and_any_other_stays() -> None:
    given = {"url": f"http://{UNKNOWN}:80", "name": "one", "list": [f"{UNKNOWN}-a", "b", 3, None]}
    assert settled(given) == {"url": UNKNOWN, "name": "one", "list": [UNKNOWN, "b", 3, None]}
    assert settled({"key": Secret(f"a{UNKNOWN}"), "word": Secret("known")}) == {
        "key": Secret(UNKNOWN),
        "word": Secret("known"),
    }


def test_an_unknown_is_found_at_any_depth() -> None:
    assert holds_unknown({"a": [{"b": f"x{UNKNOWN}"}]})
    assert not holds_unknown({"a": [{"b": "x"}], "c": 1, "d": None})
