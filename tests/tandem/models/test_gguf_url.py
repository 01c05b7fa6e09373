"""Reading the header of a GGUF file at a URL: the downloaded parts, and errors of the server."""

import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest

from tandem.models import gguf_url
from tandem.models.gguf_file import UnreadableModelError, read
from tandem.models.gguf_url import read_url, shown
from tandem.terminal import CallError
from tests.tandem.models.gguf_files import write

URL = "https://files.example/me/m.gguf?signature=secret#x"
Answer = Callable[[httpx.Request, int, int], httpx.Response]


class Server:
    """Answers range requests for a file, unless `instead` does."""

    def __init__(self, content: bytes, instead: Answer | None = None, size: int = 0) -> None:
        self.content, self.size = content, size or len(content)
        self.asked: list[tuple[int, int]] = []
        self._instead = instead

    def __call__(self, request: httpx.Request) -> httpx.Response:
        found = re.fullmatch(r"bytes=(\d+)-(\d+)", request.headers["range"])
        assert found
        start, last = int(found[1]), min(int(found[2]), self.size - 1)
        self.asked.append((start, last))
        return self._instead(request, start, last) if self._instead else self.part(start, last)

    def part(self, start: int, last: int, **headers: str) -> httpx.Response:
        content = self.content[start : last + 1].ljust(last + 1 - start, b"\0")
        return httpx.Response(
            206, content=content, headers={"content-range": f"bytes {start}-{last}/{self.size}", **headers}
        )


def transport(server: Callable[[httpx.Request], httpx.Response]) -> httpx.MockTransport:
    return httpx.MockTransport(server)


@pytest.fixture
def content(tmp_path: Path) -> bytes:
    return write(tmp_path / "m.gguf").read_bytes()


def test_a_url_is_read_like_the_file(content: bytes, tmp_path: Path) -> None:
    assert read_url(URL, transport(Server(content))) == read(tmp_path / "m.gguf")


def test_only_the_header_is_downloaded_piece_by_piece(
    content: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gguf_url, "FIRST_PIECE", 1024)
    server = Server(content)
    assert read_url(URL, transport(server)) == read(tmp_path / "m.gguf")
    assert server.asked[:3] == [(0, 1023), (1024, 2047), (2048, 4095)]
    assert server.asked[-1][1] < 16384 < len(content) / 8, "the tensors are not downloaded"


def test_a_file_of_any_size_takes_no_disk_space(content: bytes) -> None:
    """A terabyte, of which the tensors use the beginning: a sparse file has the length, not the blocks."""
    server = Server(content, size=2**40)
    assert read_url(URL, transport(server)).tensors
    assert sum(last + 1 - start for start, last in server.asked) < 4 * 2**20


def test_an_endless_piece_is_cut_off(content: bytes, tmp_path: Path) -> None:
    sent: list[int] = []

    def going_on(start: int) -> Iterator[bytes]:
        yield content[start:]
        while True:
            sent.append(65536)
            yield b"\0" * 65536

    def endless(request: httpx.Request, start: int, last: int) -> httpx.Response:
        headers = {"content-range": f"bytes {start}-{last}/{len(content)}"}
        return httpx.Response(206, content=going_on(start), headers=headers)

    assert read_url(URL, transport(Server(content, endless))) == read(tmp_path / "m.gguf")
    assert sum(sent) <= 65536


def test_a_piece_that_arrives_too_slowly_is_given_up(content: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: clock[0])

    def dripping(start: int) -> Iterator[bytes]:
        while True:
            clock[0] += 59
            yield content[start : start + 1]

    def drips(request: httpx.Request, start: int, last: int) -> httpx.Response:
        return httpx.Response(206, content=dripping(start), headers={"content-range": f"bytes {start}-{last}/{2**30}"})

    with pytest.raises(UnreadableModelError, match="stopped at byte 11"):
        read_url(URL, transport(Server(content, drips)))
    assert clock[0] == 11 * 59


def answers(status: int, **headers: str) -> Answer:
    return lambda request, start, last: httpx.Response(status, headers=headers, content=b"<html>")


def test_a_redirect_is_followed(content: bytes) -> None:
    server = Server(content)

    def redirected(request: httpx.Request) -> httpx.Response:
        if request.url.host == "files.example":
            return httpx.Response(302, headers={"location": "https://cdn.example/blob"})
        return server(request)

    assert read_url(URL, transport(redirected)).tensors


REFUSED: dict[str, tuple[Answer, str]] = {
    "no such file": (answers(404), "answered with 404 Not Found. The file does not exist. Correct the URL."),
    "a login": (
        answers(401),
        "answered with 401 Unauthorized. It needs a login. Download the file, and pass its path instead.",
    ),
    "an error of the server": (answers(503), "answered with 503 Service Unavailable. Try again later."),
    "a server without ranges": (answers(200), "It sends the whole file instead of the requested range."),
    "no range in the answer": (answers(206), "answered with another range than requested"),
    "another range": (answers(206, **{"content-range": "bytes 7-9/10"}), "answered with another range than requested"),
    "an unknown length": (
        answers(206, **{"content-range": "bytes 0-9/*"}),
        "answered with another range than requested",
    ),
    "a length of no model": (
        answers(206, **{"content-range": f"bytes 0-9/{2**60}"}),
        "answered with another range than requested",
    ),
    "less than announced": (
        answers(206, **{"content-range": "bytes 0-99/1000"}),
        "stopped at byte 6. Run the command again.",
    ),
    "a packed piece": (
        lambda request, start, last: httpx.Response(
            206, headers={"content-encoding": "gzip", "content-range": "bytes 0-5/6"}, content=iter([b"x"])
        ),
        "compressed its answer without a request. Download the file, and pass its path instead.",
    ),
    "a web page": (
        answers(206, **{"content-range": "bytes 0-5/6"}),
        "is not a GGUF file. It is a web page. For a file on Hugging Face, write the URL with `/resolve/`",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_server_that_does_not_return_the_header_is_named_without_secrets(case: str) -> None:
    instead, printed = REFUSED[case]
    with pytest.raises(UnreadableModelError) as refusal:
        read_url(URL, transport(Server(b"", instead, size=1000)))
    assert printed in str(refusal.value)
    assert str(refusal.value).startswith("https://files.example/me/m.gguf ")
    assert "secret" not in str(refusal.value)


def test_more_bytes_than_asked_for_are_not_kept(content: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gguf_url, "FIRST_PIECE", 1024)
    server = Server(content)

    def too_many(request: httpx.Request, start: int, last: int) -> httpx.Response:
        range_ = {"content-range": f"bytes {start}-{last}/{len(content)}"}
        return httpx.Response(206, content=content[start : last + 1] + b"\xff" * 5000, headers=range_)

    assert read_url(URL, transport(Server(content, too_many))) == read_url(URL, transport(server))


def test_versions_of_a_changing_file_are_not_mixed(content: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gguf_url, "FIRST_PIECE", 1024)
    server = Server(content)

    def changing(request: httpx.Request) -> httpx.Response:
        response = server(request)
        response.headers["etag"] = str(len(server.asked))
        return response

    with pytest.raises(UnreadableModelError, match=r"changed during the download\. Run the command again"):
        read_url(URL, transport(changing))


def test_a_server_that_is_unavailable_is_named() -> None:
    def away(request: httpx.Request) -> httpx.Response:
        raise httpx.ConnectError("no route\x1b[2J")

    with pytest.raises(UnreadableModelError, match=r"cannot be reached \(no route\[2J\)\. Correct the URL\."):
        read_url(URL, transport(away))


def test_a_disk_without_sparse_files_is_named(content: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: object, size: int) -> None:
        raise OSError(27, "File too large")

    monkeypatch.setattr(gguf_url._Remote, "_truncate", refuse)
    with pytest.raises(UnreadableModelError, match=r"\(File too large\)\. Set TMPDIR to a folder of another"):
        read_url(URL, transport(Server(content)))


def test_passwords_and_signatures_are_not_shown() -> None:
    assert shown("https://me:word@x.example/a%20b.gguf?token=1") == "https://x.example/a%20b.gguf"
    assert shown("https://me:1/word@x.example/b.gguf") == "https://…@x.example/b.gguf"
    with pytest.raises(CallError, match="the URL is invalid"):
        read_url("https://[::1", transport(Server(b"")))
