"""The web page of section `ui` in a browser, chatting with a real Ollama through Open WebUI with the pod's settings."""

from collections.abc import Iterator

import httpx
import pytest

from tests.browser.chat_page import MAIL, MODELS, PASSWORD, PROGRAM, VERSION, ChatPage, find_program, running
from tests.browser.chromium import Browser

USER_MAIL, USER_PASSWORD = "user@example.com", "u" * 32
REFUSED = 403


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ChatPage]:
    program = find_program()
    if program is None:
        pytest.skip(f"no `{PROGRAM}` on the PATH; `pip install open-webui=={VERSION}` in an environment of its own")
    with running(program, tmp_path_factory.mktemp("page")) as started:
        yield started


@pytest.fixture(scope="module")
def user(page: ChatPage) -> dict[str, str]:
    """A user whom the administrator added."""
    account = {"name": "User", "email": USER_MAIL, "password": USER_PASSWORD, "role": "user"}
    admin = page.log_in(MAIL, PASSWORD)
    httpx.post(f"{page.url}/api/v1/auths/add", headers=admin, json=account).raise_for_status()
    return page.log_in(USER_MAIL, USER_PASSWORD)


@pytest.fixture(scope="module")
def key(page: ChatPage, user: dict[str, str]) -> dict[str, str]:
    """A key of that user, for programs."""
    answer = httpx.post(f"{page.url}/api/v1/auths/api_key", headers=user).raise_for_status()
    return {"Authorization": f"Bearer {answer.json()['api_key']}"}


def models(page: ChatPage, headers: dict[str, str]) -> set[str]:
    answer = httpx.get(f"{page.url}/api/models", headers=headers).raise_for_status()
    return {one["id"] for one in answer.json()["data"]}


def test_the_administrator_logs_in_and_gets_an_answer_from_a_model(browser: Browser, page: ChatPage) -> None:
    found = browser.visit(page.url, width=1280)
    page.log_in_with(browser)
    browser.wait_for("document.querySelector('#chat-input')")
    browser.type("#chat-input", "What does sharing change?")
    browser.wait_for("document.querySelector('#send-message-button:not(:disabled)')")
    browser.evaluate("document.querySelector('#send-message-button').click()")
    browser.wait_for("document.body.innerText.includes('w0 w1 w2')")
    assert [url for url in found.requested if not url.startswith((page.url, "data:", "blob:"))] == []


def test_every_user_sees_all_models(page: ChatPage, user: dict[str, str]) -> None:
    assert models(page, page.log_in(MAIL, PASSWORD)) == models(page, user) == {*MODELS}


def test_nobody_can_sign_up(page: ChatPage) -> None:
    account = {"name": "Other", "email": "other@example.com", "password": USER_PASSWORD}
    assert httpx.post(f"{page.url}/api/v1/auths/signup", json=account).status_code == REFUSED


@pytest.mark.parametrize("model", MODELS)
def test_a_program_reaches_all_models_at_one_address_with_a_key(
    page: ChatPage, key: dict[str, str], model: str
) -> None:
    assert models(page, key) == {*MODELS}
    question = {"model": model, "messages": [{"role": "user", "content": "Hello"}], "stream": False, "max_tokens": 3}
    answer = httpx.post(f"{page.url}/api/chat/completions", headers=key, json=question).raise_for_status()
    assert answer.json()["choices"][0]["message"]["content"].startswith("w0 w1 w2")


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/api/v1/users/"),
        ("GET", "/api/v1/chats/"),
        ("DELETE", "/ollama/api/delete/0"),
        ("POST", "/ollama/api/pull/0"),
    ],
)
def test_a_key_is_for_nothing_else(page: ChatPage, key: dict[str, str], method: str, path: str) -> None:
    body = {"model": MODELS[0]}
    assert httpx.request(method, f"{page.url}{path}", headers=key, json=body).status_code == REFUSED
