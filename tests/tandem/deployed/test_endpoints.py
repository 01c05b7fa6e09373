"""The servers that the arguments of a command name."""

import pytest

from tandem.deployed.endpoints import Endpoint, NotConnectedError, named
from tests.tandem.deployed.errors import ERRORS


def refusal(urls: list[str], models: list[str] | None = None) -> str:
    with pytest.raises(NotConnectedError) as raised:
        named(urls, models or [])
    return str(raised.value)


def test_an_endpoint_has_its_name_its_address_without_a_trailing_slash_and_its_model() -> None:
    found = named(["a=http://127.0.0.1:1/", "llama2:7b=https://example.test/ollama"], ["llama2:7b=m"])
    assert found == [Endpoint("a", "http://127.0.0.1:1"), Endpoint("llama2:7b", "https://example.test/ollama", "m")]


@pytest.mark.parametrize(("url", "why"), ERRORS["addresses"])
def test_a_wrong_address_is_refused_with_the_rule(url: str, why: str) -> None:
    assert why in refusal([url])


def test_a_password_in_an_address_is_refused_and_not_repeated() -> None:
    shown = refusal(["a=http://me:secret@h:1"])
    assert "not contain a user or password" in shown
    assert "secret" not in shown


def test_all_errors_are_reported_at_once() -> None:
    shown = refusal(["a=http://h:1", "a=http://h:2", "b=nonsense"], ["c=x", "m"])
    lines = shown.splitlines()
    assert [line.split(":")[0] for line in lines] == ["--url a=…", "--model m", "--url b=nonsense", "--model c=…"]
    assert lines[1] == "--model m: must be NAME=TAG, for example --model a=llama2:7b"
