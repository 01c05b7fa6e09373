"""Reads the header of a GGUF file at a URL: it receives the file from its start, and stops after the header."""

import io
import re
from collections.abc import Iterator
from functools import partial

import httpx

from sharing.printable import address, printable
from tandem.models.gguf_file import MOST_HEADER, Contents, UnreadableModelError, read_header
from tandem.terminal import CallError

SILENCE_SECONDS = 60.0
CONTENT_RANGE = re.compile(r"bytes 0-\d{1,20}/(\d{1,20})")
BY_HAND = "Download the file, and pass its path instead."
WHY = {
    401: f"It needs a login. {BY_HAND}",
    403: f"It needs a login. {BY_HAND}",
    404: "The file does not exist. Correct the URL.",
    200: f"It sends the whole file instead of the requested range. {BY_HAND}",
}
"""The fix for an answer that is not a range."""


def read_url(url: str, transport: httpx.BaseTransport | None = None) -> Contents:
    """The content of the GGUF file at `url`; raises `UnreadableModelError`."""
    try:
        name = shown(url)
    except httpx.InvalidURL:
        # Its text repeats a part of a password with `/`, `?` or `#` in it.
        raise CallError("the URL is invalid. Correct its host or port.") from None
    asked = {"Range": f"bytes=0-{MOST_HEADER - 1}", "Accept-Encoding": "identity"}
    try:
        with (
            httpx.Client(
                follow_redirects=True,
                timeout=SILENCE_SECONDS,
                transport=transport,
                event_hooks={"response": [partial(_refuse_compressed, name)]},
            ) as client,
            client.stream("GET", url, headers=asked) as response,
        ):
            size = _size(name, response)
            return read_header(name, io.BufferedReader(_Body(name, response)), size)
    except httpx.HTTPError as error:
        reason = printable(str(error)) or type(error).__name__
        raise UnreadableModelError(f"{name} cannot be reached ({reason}). Correct the URL.") from None


def shown(url: str) -> str:
    """The URL without possible secrets: a password, a signature."""
    parsed = httpx.URL(url)
    return printable(address(str(parsed.copy_with(userinfo=b"", query=None, fragment=None))))


def _refuse_compressed(name: str, response: httpx.Response) -> None:
    """httpx would unpack a part as a whole, also of a redirect: a few kilobytes may become gigabytes."""
    if not response.is_error and response.headers.get("content-encoding", "identity").lower() != "identity":
        raise UnreadableModelError(f"{name} answered with a compressed body, which nobody asked for. {BY_HAND}")


def _size(name: str, response: httpx.Response) -> int:
    """The size of the whole file; raises `UnreadableModelError` unless the answer is its start."""
    status = response.status_code
    if status != httpx.codes.PARTIAL_CONTENT:
        why = WHY.get(status, "Try again later.")
        raise UnreadableModelError(f"{name} answered with {status} {response.reason_phrase}. {why}")
    start = CONTENT_RANGE.fullmatch(response.headers.get("content-range", ""))
    if not start:
        raise UnreadableModelError(f"{name} answered with another range than requested. {BY_HAND}")
    return int(start[1])


class _Body(io.RawIOBase):
    """An answer as a file; reading raises `UnreadableModelError` if it ends early."""

    def __init__(self, name: str, response: httpx.Response) -> None:
        self._name, self._parts = name, self._arriving(response)
        self._rest = b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        self._rest = self._rest or next(self._parts)
        count = min(len(buffer), len(self._rest))
        buffer[:count], self._rest = self._rest[:count], self._rest[count:]
        return count

    def _arriving(self, response: httpx.Response) -> Iterator[bytes]:
        received = 0
        for part in response.iter_bytes():
            received += len(part)
            if part:
                yield part
        raise UnreadableModelError(f"{self._name} stopped at byte {received:,}. Run the command again.")
