"""Reading the header of a GGUF file at a URL: how much is downloaded, and errors of the server."""

from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest

from tandem.models.gguf_file import UnreadableModelError, read
from tandem.models.gguf_url import read_url, shown
from tandem.terminal import CallError
from tests.tandem.models.gguf_files import write

URL = "https://files.example/me/m.gguf?signature=secret#x"
Answer = Callable[[httpx.Request], httpx.Response]


def starts(content: bytes | Iterator[bytes], size: int) -> httpx.Response:
    """The answer to a request for the start of a file of this size."""
    return httpx.Response(206, content=content, headers={"content-range": f"bytes 0-{size - 1}/{size}"})


def answers(status: int, **headers: str) -> Answer:
    return lambda request: httpx.Response(status, headers=headers, content=b"<html>")


def refusal(answer: Answer) -> str:
    with pytest.raises(UnreadableModelError) as refused:
        read_url(URL, httpx.MockTransport(answer))
    return str(refused.value)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return write(tmp_path / "m.gguf")


@pytest.mark.parametrize("size", [1, 7, 1000, 10**6])
def test_a_url_is_read_like_the_file_however_it_arrives(size: int, path: Path) -> None:
    content, asked = path.read_bytes(), []

    def answer(request: httpx.Request) -> httpx.Response:
        asked.append((request.headers["range"], request.headers["accept-encoding"]))
        pieces = (content[place : place + size] for place in range(0, len(content), size))
        return starts(pieces, len(content))

    assert read_url(URL, httpx.MockTransport(answer)) == read(path)
    assert asked == [("bytes=0-268435455", "identity")]


def test_only_the_header_is_downloaded(path: Path) -> None:
    content, sent = path.read_bytes(), []

    def pieces() -> Iterator[bytes]:
        yield content[:16384]
        sent.append("more")
        yield b""

    assert read_url(URL, httpx.MockTransport(lambda request: starts(pieces(), 2**40))).tensors
    assert sent == []


def test_a_redirect_is_followed(path: Path) -> None:
    def redirected(request: httpx.Request) -> httpx.Response:
        if request.url.host == "files.example":
            return httpx.Response(302, headers={"location": "https://cdn.example/blob"})
        return starts(path.read_bytes(), 2**20)

    assert read_url(URL, httpx.MockTransport(redirected)).tensors


def away(request: httpx.Request) -> httpx.Response:
    raise httpx.ConnectError("no route\x1b[2J")


REFUSED: dict[str, tuple[Answer, str]] = {
    "no such file": (answers(404), "answered with 404 Not Found. The file does not exist. Correct the URL."),
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
    "nothing that answers": (away, "cannot be reached (no route[2J). Correct the URL."),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_server_that_does_not_return_the_header_is_named_without_secrets(case: str) -> None:
    answer, says = REFUSED[case]
    printed = refusal(answer)
    assert printed.startswith("https://files.example/me/m.gguf ")
    assert says in printed
    assert "secret" not in printed


def test_passwords_and_signatures_are_not_shown() -> None:
    assert shown("https://me:word@x.example/a%20b.gguf?token=1") == "https://x.example/a%20b.gguf"
    assert shown("https://me:1/word@x.example/b.gguf") == "https://…@x.example/b.gguf"
    with pytest.raises(CallError, match="the URL is invalid"):
        read_url("https://[::1", httpx.MockTransport(away))
