"""Reads the start of a file at a URL, and small answers, with limits of time and size. All requests go through here."""

import io
import os
import re
import ssl
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar
from urllib.parse import urlsplit

from sharing.printable import address, one_line, printable, quoted
from stacks.model_files.errors import UnknownModelError, UnreadableModelError
from stacks.model_files.gguf_file import MOST_HEADER, Contents, read_header
from stacks.network_errors import reason_of

if TYPE_CHECKING:
    import httpx

T = TypeVar("T")
OFFLINE = "TANDEM_OFFLINE"
"""Variable that forbids all of these requests, for machines without a network, and for tests."""
CONNECT_SECONDS = 10.0
SILENCE_SECONDS = 30.0
WHOLE_SECONDS = 180.0
"""For all answers about one model. 16 MB, the largest header that we met, take 128 s at 1 Mbit/s."""
CONTENT_RANGE = re.compile(r"bytes 0-\d{1,20}/(\d{1,20})")
LATER = "Try again later."
ELSEWHERE = "Check the URL and the network, or download the file elsewhere and pass its path."
HUGGING_FACE = ("huggingface.co", "www.huggingface.co", "hf.co")
BY_HAND = "Download the file, and pass its path instead."
WHY = {
    401: f"It needs a login. {BY_HAND}",
    403: f"It needs a login. {BY_HAND}",
    404: "The file does not exist. Name another one.",
    200: f"It sends the whole file instead of the requested range. {BY_HAND}",
}
"""The fix for an answer that is not a range."""
PARTIAL = 206
MOST_PORT = 65_535
MOST_REDIRECTS = 10
"""As Ollama for layers (v0.32.15 server/download.go)."""
IDENTITY = {"Accept-Encoding": "identity"}


class UnreachableError(UnreadableModelError):
    """No server answers."""


class OfflineError(UnreachableError, UnknownModelError):
    """No server may be asked, so only the catalogue says which models there are."""


def open_client() -> "httpx.Client":
    """A client with a limit for each silence. A proxy is that of the environment."""
    import httpx  # 150 ms, which a plan without such a model does without

    timeout = httpx.Timeout(SILENCE_SECONDS, connect=CONNECT_SECONDS)
    # The certificates of the system, which may include a company's own.
    return httpx.Client(timeout=timeout, verify=ssl.create_default_context(), headers=IDENTITY)


def read_url(url: str, name: str = "") -> Contents:
    """The content of the GGUF file at `url` before its tensors; `name` is for messages.

    Raises `UnreadableModelError`.
    """
    name = name or shown(url)
    _refuse_page(url, name)
    return in_time(name, lambda: _read_start(url, name))


def _read_start(url: str, name: str) -> Contents:
    with open_answer(url, name, {"Range": f"bytes=0-{MOST_HEADER - 1}"}) as response:
        size = _size(name, response)
        return read_header(name, io.BufferedReader(_Body(name, response)), size)


def in_time(name: str, read: Callable[[], T]) -> T:
    """What `read` returns, or raises; raises `UnreadableModelError` if it takes more than `WHOLE_SECONDS`.

    The limits of httpx are for one silence each: they hold for no name server, and for no byte every few seconds.
    """
    outcome: Future[T] = Future()

    def run() -> None:
        try:
            outcome.set_result(read())
        except BaseException as error:  # which the caller raises
            outcome.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    try:
        return outcome.result(WHOLE_SECONDS)
    except TimeoutError:
        what = f"{name} did not arrive within {WHOLE_SECONDS:g} s"
        raise UnreadableModelError(what, "Run the command again with a faster connection.") from None


@contextmanager
def open_answer(url: str, name: str, headers: Mapping[str, str]) -> "Iterator[httpx.Response]":
    """The answer to a GET request, whose body arrives while the block runs; raises `UnreadableModelError`."""
    if os.environ.get(OFFLINE):
        raise OfflineError(f"{name} is not read: {OFFLINE} is set", "Unset it.")
    try:
        import httpx
    except ModuleNotFoundError:
        what = f"{name} cannot be read without the package httpx"
        raise UnreadableModelError(what, "Run `pip install httpx`.") from None
    try:
        with open_client() as client:
            request = client.build_request("GET", url, headers=headers)
            yield from _follow(client, request, name)
    except (httpx.InvalidURL, httpx.UnsupportedProtocol) as error:
        raise UnreadableModelError(f"{name} cannot be reached ({reason_of(error)})", "Correct the URL.") from None
    except httpx.HTTPError as error:
        asked = error.request.url.netloc
        where = f" at {one_line(asked)}" if asked != request.url.netloc else ""
        what = f"{where} ({reason_of(error)})"
        if isinstance(error, httpx.ConnectError | httpx.ConnectTimeout | httpx.ProxyError):
            raise UnreachableError(f"{name} cannot be reached{what}", ELSEWHERE) from None
        raise UnreadableModelError(f"{name} stopped{what}", "Run the command again.") from None


def _follow(client: "httpx.Client", request: "httpx.Request", name: str) -> "Iterator[httpx.Response]":
    """The first answer that is no redirect. Nobody reads the bodies of the others, as httpx itself would."""
    secure = request.url.scheme == "https"
    for _ in range(MOST_REDIRECTS + 1):
        try:
            # A larger port would wrap around, in the C library.
            response = client.send(request, stream=True) if (request.url.port or 0) <= MOST_PORT else None
        except UnicodeError:  # of Python's resolver, for `a..b`
            response = None
        if response is None:
            what = f"the host {one_line(request.url.netloc)} is not valid"
            raise UnreadableModelError(what, "Correct the name.")
        try:
            # httpx would unpack a part as a whole: a few kilobytes may become gigabytes.
            if not response.is_error and response.headers.get("content-encoding", "identity").lower() != "identity":
                raise UnreadableModelError(f"{name} answered with a compressed body, which nobody asked for", BY_HAND)
            if response.next_request is None:
                yield response
                return
            request = response.next_request
        finally:
            response.close()
        if secure and request.url.scheme != "https":
            raise UnreadableModelError(f"{name} was redirected to an address without TLS", BY_HAND)
    raise UnreadableModelError(f"{name} was redirected more than {MOST_REDIRECTS} times", BY_HAND)


def shown(url: str) -> str:
    """The URL without possible secrets: a password, a signature. Raises `UnreadableModelError` if it is none."""
    try:
        parts = urlsplit(url)
        host = f"{parts.hostname}:{parts.port}" if parts.port else parts.hostname
    except ValueError:
        # Its text repeats a part of a password with `/`, `?` or `#` in it.
        raise UnreadableModelError("the URL is invalid", "Correct its host or port.") from None
    return printable(address(f"{parts.scheme}://{host or ''}{parts.path}"))


def _refuse_page(url: str, name: str) -> None:
    """Raises `UnreadableModelError` for the page of a file on Hugging Face: `/OWNER/MODEL/blob/REVISION/FILE`."""
    parts = urlsplit(url)
    if parts.hostname in HUGGING_FACE and parts.path.split("/")[3:4] == ["blob"]:
        file = name.replace("/blob/", "/resolve/", 1)
        raise UnreadableModelError(f"{name} is the web page of a file", f"Write the URL of the file itself: {file}.")


def _size(name: str, response: "httpx.Response") -> int:
    """The size of the whole file; raises `UnreadableModelError` unless the answer is its start."""
    status = response.status_code
    if status != PARTIAL:
        raise UnreadableModelError(f"{name} answered with {status_of(response)}", WHY.get(status, LATER))
    start = CONTENT_RANGE.fullmatch(response.headers.get("content-range", ""))
    if not start:
        raise UnreadableModelError(f"{name} answered with another range than requested", BY_HAND)
    return int(start[1])


def status_of(response: "httpx.Response") -> str:
    """The status of an answer and its reason, which the server chooses."""
    return f"{response.status_code} {quoted(response.reason_phrase)}".strip()


class _Body(io.RawIOBase):
    """An answer as a file; reading raises `UnreadableModelError` if it ends early."""

    def __init__(self, name: str, response: "httpx.Response") -> None:
        self._name, self._parts = name, self._arriving(response)
        self._rest = b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        self._rest = self._rest or next(self._parts)
        count = min(len(buffer), len(self._rest))
        buffer[:count], self._rest = self._rest[:count], self._rest[count:]
        return count

    def _arriving(self, response: "httpx.Response") -> Iterator[bytes]:
        received = 0
        for part in response.iter_bytes():
            received += len(part)
            if part:
                yield part
        raise UnreadableModelError(f"{self._name} stopped at byte {received:,}", "Run the command again.")
