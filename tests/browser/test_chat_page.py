"""The web page of section `ui`, with the pod's settings and a real Ollama behind it: chats in a browser, documents."""

from collections.abc import Iterator

import httpx
import pytest

from components.open_webui import MEMORY_MIB
from tests.browser.chat_page import CHUNK, MAIL, MODELS, PASSWORD, PROGRAM, VERSION, ChatPage, find_program, running
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


FACT = "The red valve of the boiler is in room 1137."
FILLER = "Nothing is known about the other rooms of this house, and nobody has asked about them for many years. "
QUESTION = "Where is the red valve?"


def document() -> bytes:
    """Many passages, of which one has the fact. Each passage is another, because the page drops repeated ones."""
    passages = [f"Passage {number}. {FILLER * 3}" for number in range(30)]
    passages[17] = f"Passage 17. {FACT} {FILLER * 2}"
    return "\n\n".join(passages).encode()


def test_a_document_is_searched_with_the_embedding_model_and_passages_of_it_reach_the_chat_model(
    page: ChatPage, user: dict[str, str]
) -> None:
    before = page.embeddings()
    uploaded = page.upload(user, "house.txt", document())
    in_batches = page.embeddings() - before
    assert 1 <= in_batches <= 10, "thirty passages or more go in few requests"
    sources = page.ask(user, MODELS[0], QUESTION, uploaded)
    assert page.embeddings() > before + in_batches, "the question is embedded, too"
    [source] = sources
    assert source["source"]["id"] == uploaded
    assert 1 <= len(source["document"]) <= 3
    assert all(0 < len(passage) <= CHUNK for passage in source["document"])
    asked = page.prompts(MODELS[0])[-1] if len(page.prompts(MODELS[0])) else ""
    given = [prompt for prompt in page.prompts(MODELS[0]) if QUESTION in prompt and "<context>" in prompt]
    assert any(all(passage in prompt for passage in source["document"]) for prompt in given), asked[:500]
    assert not any(document().decode() in prompt for prompt in given), "only passages, not the entire document"


def test_a_pdf_is_read_too(page: ChatPage, user: dict[str, str]) -> None:
    uploaded = page.upload(user, "house.pdf", pdf(FACT))
    [source] = page.ask(user, MODELS[0], QUESTION, uploaded)
    assert FACT in " ".join(source["document"])


def pdf(text: str) -> bytes:
    """A page with one line of text: the smallest file of PDF 1.4."""
    drawn = f"BT /F1 12 Tf 72 720 Td ({text}) Tj ET".encode()
    parts = [
        b"<< /Type /Catalog /Pages 2 0 R >>",
        b"<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
        b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents 4 0 R"
        b" /Resources << /Font << /F1 5 0 R >> >> >>",
        b"<< /Length %d >>\nstream\n%s\nendstream" % (len(drawn), drawn),
        b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
    ]
    file, offsets = b"%PDF-1.4\n", []
    for number, part in enumerate(parts, 1):
        offsets.append(len(file))
        file += b"%d 0 obj\n%s\nendobj\n" % (number, part)
    table = b"".join(b"%010d 00000 n \n" % offset for offset in offsets)
    trailer = b"xref\n0 6\n0000000000 65535 f \n%strailer\n<< /Size 6 /Root 1 0 R >>\nstartxref\n%d\n%%%%EOF\n"
    return file + trailer % (table, len(file))


def test_the_embedding_model_is_none_to_chat_with(page: ChatPage, user: dict[str, str]) -> None:
    assert models(page, user) == {*MODELS}


def test_the_page_needs_less_memory_than_its_pod_has(page: ChatPage, user: dict[str, str]) -> None:
    page.upload(user, "long.txt", b"\n\n".join(b"%d. %s" % (number, FILLER.encode() * 3) for number in range(2000)))
    assert page.memory_mib() < MEMORY_MIB


def test_accounts_chats_and_documents_are_still_there_in_a_new_pod(page: ChatPage, user: dict[str, str]) -> None:
    uploaded = page.upload(user, "kept.txt", document())
    chat = {"chat": {"title": "Kept", "models": [MODELS[0]], "messages": [], "history": {"messages": {}}}}
    made = httpx.post(f"{page.url}/api/v1/chats/new", headers=user, json=chat).raise_for_status().json()["id"]
    page.restart()
    again = page.log_in(USER_MAIL, USER_PASSWORD)
    page.log_in(MAIL, PASSWORD)
    chats = httpx.get(f"{page.url}/api/v1/chats/", headers=again).raise_for_status().json()
    assert made in [one["id"] for one in chats]
    before = page.embeddings()
    [source] = page.ask(again, MODELS[1], QUESTION, uploaded)
    assert source["document"]
    assert page.embeddings() == before + 1, "only the question is embedded: the passages are in the folder"
