"""Outputs that are not known before a deployment, as the engine receives them."""

from sandbox.engine.unknown import after_update, holds_unknown, settled
from sandbox.graph import Secret
from sandbox.wire import UNKNOWN
from sandbox.world import tokens


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


def test_a_preview_shows_what_an_update_changes_besides_its_inputs() -> None:
    assert after_update(tokens.TEMPLATE, {"latestVersion": 1, "arn": "a"}, {}) == {"latestVersion": UNKNOWN, "arn": "a"}
    assert after_update(tokens.RELEASE, {"status": {}}, {"version": "2"}) == {"status": UNKNOWN, "version": "2"}
    assert after_update(tokens.VPC, {"tags": {}}, {"tags": {"a": "b"}}) == {"tags": {"a": "b"}}
