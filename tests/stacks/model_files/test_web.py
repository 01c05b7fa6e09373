"""Reading the header of a GGUF file at a URL: how much is downloaded, and errors of the server."""

import ssl
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Event, current_thread

import httpx
import pytest

from sharing.printable import MOST_QUOTED
from stacks.model_files import web
from stacks.model_files.errors import UnreadableModelError
from stacks.model_files.gguf_file import Contents, read
from stacks.model_files.web import shown
from tests.stacks.model_files.gguf_files import write

URL = "https://files.example/me/m.gguf?signature=secret#x"
Answer = Callable[[httpx.Request], httpx.Response]


def starts(content: bytes | Iterator[bytes], size: int) -> httpx.Response:
    """The answer to a request for the start of a file of this size."""
    return httpx.Response(206, content=content, headers={"content-range": f"bytes 0-{size - 1}/{size}"})


def answers(status: int, **headers: str) -> Answer:
    return lambda request: httpx.Response(status, headers=headers, content=b"<html>")


def read_url(url: str, answer: Answer) -> Contents:
    """Reads the URL from a server that answers so."""
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv(web.OFFLINE)
        patch.setattr(web, "open_client", lambda: httpx.Client(transport=httpx.MockTransport(answer)))
        return web.read_url(url)


def refusal(answer: Answer) -> str:
    with pytest.raises(UnreadableModelError) as refused:
        read_url(URL, answer)
    return str(refused.value)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return write(tmp_path / "m.gguf")


@pytest.mark.parametrize("size", [1, 7, 1000, 10**6])
def test_a_url_is_read_like_the_file_however_it_arrives(size: int, path: Path) -> None:
    content, asked = path.read_bytes(), []

    def answer(request: httpx.Request) -> httpx.Response:
        asked.append(request.headers["range"])
        pieces = (content[place : place + size] for place in range(0, len(content), size))
        return starts(pieces, len(content))

    assert read_url(URL, answer) == read(path)
    assert asked == ["bytes=0-268435455"]


def test_only_the_header_is_downloaded(path: Path) -> None:
    content, sent = path.read_bytes(), []

    def pieces() -> Iterator[bytes]:
        yield content[:16384]
        sent.append("more")
        yield b""

    assert read_url(URL, lambda request: starts(pieces(), 2**40)).tensors
    assert sent == []


@pytest.mark.parametrize(
    ("url", "to", "count", "is_followed"),
    [
        # The largest port, and as many redirects as Ollama follows: v0.32.15 server/download.go.
        (URL, "https://cdn.example:65535/blob", 10, True),
        (URL, "https://cdn.example/blob", 11, False),
        ("http://files.example/m.gguf", "http://cdn.example/blob", 1, True),
    ],
)
def test_redirects_are_followed(url: str, to: str, count: int, is_followed: bool, path: Path) -> None:
    left = iter(range(count))

    def redirected(request: httpx.Request) -> httpx.Response:
        if next(left, None) is not None:
            return httpx.Response(302, headers={"location": to})
        return starts(path.read_bytes(), 2**20)

    if is_followed:
        assert read_url(url, redirected).tensors
    else:
        with pytest.raises(UnreadableModelError, match="was redirected more than 10 times"):
            read_url(url, redirected)


def away(request: httpx.Request) -> httpx.Response:
    raise httpx.ConnectError("no route\x1b[2J")


def breaks(request: httpx.Request) -> httpx.Response:
    raise httpx.ReadError("cut")


TO_CDN = answers(302, location="https://cdn.example/blob")
REFUSED: dict[str, tuple[Answer, str]] = {
    "no such file": (answers(404), "answered with 404 Not Found. The file does not exist. Name another one."),
    "a login": (
        answers(401),
        "answered with 401 Unauthorized. It needs a login. Download the file, and pass its path instead.",
    ),
    "no permission": (answers(403), "answered with 403 Forbidden. It needs a login."),
    "an error of the server": (answers(503), "answered with 503 Service Unavailable. Try again later."),
    "a server without ranges": (answers(200), "It sends the whole file instead of the requested range."),
    "no range in the answer": (answers(206), "answered with another range than requested. Download the file"),
    "another range": (answers(206, **{"content-range": "bytes 7-9/10"}), "answered with another range than requested"),
    "a compressed answer": (
        lambda request: httpx.Response(
            206, content=iter([b"GGUF"]), headers={"content-range": "bytes 0-9/10", "content-encoding": "gzip, gzip"}
        ),
        "answered with a compressed body, which nobody asked for. Download the file, and pass its path instead.",
    ),
    "a compressed redirect": (
        lambda request: httpx.Response(
            302, content=iter([b"GGUF"]), headers={"location": "/other", "content-encoding": "gzip, gzip"}
        ),
        "answered with a compressed body, which nobody asked for.",
    ),
    "a compressed error": (answers(404, **{"content-encoding": "unknown"}), "answered with 404 Not Found."),
    "an unknown length": (answers(206, **{"content-range": "bytes 0-9/*"}), "answered with another range"),
    "a file that ends early": (
        lambda request: starts(b"GGUF\3\0\0\0", 1000),
        "stopped at byte 8. Run the command again.",
    ),
    "a web page": (
        lambda request: starts(b"<html>" + b" " * 99, 105),
        "is not a GGUF file. It is a web page. For a file on Hugging Face, write the URL with `/resolve/`",
    ),
    "a redirect out of TLS": (answers(302, location="http://cdn.example/blob"), "was redirected to an address without"),
    "nothing that answers": (
        away,
        "cannot be reached (no route[2J). Check the URL and the network, or download the file elsewhere and pass its",
    ),
    "a long reason": (
        lambda request: httpx.Response(503, extensions={"reason_phrase": b"R" * 3000}),
        f" answered with 503 {'R' * MOST_QUOTED}. Try again later.",
    ),
    "a connection that breaks": (breaks, "stopped (cut). Run the command again."),
    "a redirect to nothing that answers": (
        lambda request: away(request) if request.url.host == "cdn.example" else TO_CDN(request),
        "cannot be reached at cdn.example (no route[2J). Check the URL and the network",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_server_that_does_not_return_the_header_is_named_without_secrets(case: str) -> None:
    answer, says = REFUSED[case]
    printed = refusal(answer)
    assert printed.startswith("https://files.example/me/m.gguf ")
    assert says in printed
    assert "secret" not in printed


def test_a_url_that_is_none_is_corrected() -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv(web.OFFLINE)
        for url in ("https://", "https://\x7f.example/m.gguf"):
            with pytest.raises(UnreadableModelError, match=r" cannot be reached \(.+\)\. Correct the URL\.$"):
                web.read_url(url)


def test_passwords_and_signatures_are_not_shown() -> None:
    assert shown("https://me:word@x.example/a%20b.gguf?token=1") == "https://x.example/a%20b.gguf"
    assert shown("https://me:1/word@x.example/b.gguf") == "https://…@x.example/b.gguf"
    with pytest.raises(UnreadableModelError, match="the URL is invalid"):
        shown("https://[::1")


@pytest.mark.parametrize("host", ["huggingface.co", "www.huggingface.co", "hf.co"])
def test_the_page_of_a_file_on_hugging_face_is_refused_without_a_request(host: str) -> None:
    says = f"https://{host}/me/m/blob/main/blob/m.gguf is the web page of a file. Write the URL of the file itself: "
    with pytest.raises(UnreadableModelError) as refused:
        web.read_url(f"https://{host}/me/m/blob/main/blob/m.gguf?signature=secret")
    assert str(refused.value) == f"{says}https://{host}/me/m/resolve/main/blob/m.gguf."


@pytest.mark.parametrize("path", ["me/m/resolve/blob/m.gguf", "blob/m/main/m.gguf"])
def test_other_urls_may_have_the_word_blob(path: str) -> None:
    with pytest.raises(web.UnreachableError, match="TANDEM_OFFLINE is set"):
        web.read_url(f"https://huggingface.co/{path}")
    with pytest.raises(web.UnreachableError, match="TANDEM_OFFLINE is set"):
        web.read_url("https://files.example/me/m/blob/m.gguf")


def test_no_request_is_made_offline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(web, "open_client", lambda: pytest.fail("it opens a connection"))
    with pytest.raises(web.UnreachableError, match=r"is not read: TANDEM_OFFLINE is set\. Unset it\."):
        web.read_url(URL)


@pytest.mark.parametrize("host", ["a..b", "127.0.0.1:99999"])
def test_a_host_that_cannot_be_is_named(host: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(web.OFFLINE)
    with pytest.raises(UnreadableModelError) as refused:
        web.read_url(f"https://{host}/x/y", "m")
    assert str(refused.value) == f"the host {host} is not valid. Correct the name."


def test_an_answer_that_trickles_in_ends_at_the_limit(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(web, "WHOLE_SECONDS", 0.3)
    content = path.read_bytes()

    def pieces() -> Iterator[bytes]:
        for place in range(50):
            time.sleep(0.1)
            yield content[place : place + 1]

    assert "did not arrive within 0.3 s. Run the command again" in refusal(lambda request: starts(pieces(), 2**30))


def test_an_answer_that_does_not_begin_ends_at_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(web, "WHOLE_SECONDS", 0.1)
    ended, waiting = Event(), []

    def wait(request: httpx.Request) -> httpx.Response:
        waiting.append(current_thread())
        ended.wait(9)
        return away(request)

    assert "did not arrive within 0.1 s." in refusal(wait)
    ended.set()
    assert waiting[0].daemon, "the process ends without it"


def test_the_client_waits_half_a_minute_and_takes_nothing_compressed(monkeypatch: pytest.MonkeyPatch) -> None:
    assert web.WHOLE_SECONDS == 180
    # Without arguments, it has the certificates of the system; httpx itself would name a file of its own.
    of_the_system = ssl.create_default_context()
    monkeypatch.setattr(ssl, "create_default_context", lambda: of_the_system)
    with web.open_client() as client:
        assert client.timeout == httpx.Timeout(30, connect=10)
        assert (client.follow_redirects, client.headers["accept-encoding"]) == (False, "identity")


def test_the_package_httpx_may_be_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(web.OFFLINE)
    monkeypatch.setitem(sys.modules, "httpx", None)
    with pytest.raises(UnreadableModelError, match=r"without the package httpx\. Run `pip install httpx`"):
        web.read_url(URL)
