"""Reads the header of a GGUF file at a URL: a few megabytes of many gigabytes, with HTTP range requests."""

import re
import tempfile
import time
from pathlib import Path
from typing import IO

import httpx

from sharing.models.metadata import MOST_BYTES
from sharing.printable import address, printable
from tandem.models.gguf_file import Contents, UnreadableModelError, check_start, read_mapped
from tandem.terminal import CallError

FIRST_PIECE = 2**20
"""Bytes of the first request; each further one doubles them."""
LARGEST_PIECE = 2**24
SECONDS = 60.0
PIECE_SECONDS = 600.0
"""For a whole piece: at 16 MiB, 28 KB/s."""
CONTENT_RANGE = re.compile(r"bytes (\d{1,20})-(\d{1,20})/(\d{1,20})")
BY_HAND = "Download the file, and pass its path instead."
WHY = {
    401: f"It needs a login. {BY_HAND}",
    403: f"It needs a login. {BY_HAND}",
    404: "The file does not exist. Correct the URL.",
    200: f"It sends the whole file instead of the requested range. {BY_HAND}",
}
"""The fix for an answer that is not a range."""


def read_url(url: str, transport: httpx.BaseTransport | None = None) -> Contents:
    """The content of the GGUF file at `url`; raises `UnreadableModelError`.

    gguf needs a file of full length: the received part is in a sparse one.
    """
    try:
        name = shown(url)
    except httpx.InvalidURL:
        # Its text repeats a part of a password with `/`, `?` or `#` in it.
        raise CallError("the URL is invalid. Correct its host or port.") from None
    with (
        httpx.Client(follow_redirects=True, timeout=SECONDS, transport=transport) as client,
        tempfile.NamedTemporaryFile(prefix="tandem-", suffix=".gguf") as file,
    ):
        remote = _Remote(client, url, name, file)
        remote.need(1)
        file.seek(0)
        check_start(name, file.read(32))
        return read_mapped(name, Path(file.name), remote.need)


def shown(url: str) -> str:
    """The URL without possible secrets: a password, a signature."""
    parsed = httpx.URL(url)
    return printable(address(str(parsed.copy_with(userinfo=b"", query=None, fragment=None))))


class _Remote:
    """A file at a URL, whose beginning is in a local file of the same length."""

    def __init__(self, client: httpx.Client, url: str, name: str, file: IO[bytes]) -> None:
        self._client, self._url, self._name, self._file = client, url, name, file
        self._here = 0
        """The number of received bytes."""
        self._tag = ""
        self.size = 0

    def need(self, end: int) -> None:
        """Fetches the missing bytes before byte `end`, and some more."""
        while self._here < end:
            piece = min(max(FIRST_PIECE, self._here), LARGEST_PIECE)
            self._fetch(self._here, max(end, self._here + piece))

    def _fetch(self, start: int, end: int) -> None:
        asked = {"Range": f"bytes={start}-{end - 1}", "Accept-Encoding": "identity"}
        try:
            with self._client.stream("GET", self._url, headers=asked) as response:
                last = self._check(response, start)
                self._keep(response, start, min(end, last + 1))
        except httpx.HTTPError as error:
            reason = printable(str(error)) or type(error).__name__
            raise UnreadableModelError(f"{self._name} cannot be reached ({reason}). Correct the URL.") from None

    def _check(self, response: httpx.Response, start: int) -> int:
        """The last byte of the answer; raises `UnreadableModelError` unless it is the requested range."""
        if response.headers.get("content-encoding", "identity") != "identity":
            # httpx would unpack it to any size.
            raise UnreadableModelError(f"{self._name} compressed its answer without a request. {BY_HAND}")
        status = response.status_code
        if status != httpx.codes.PARTIAL_CONTENT:
            why = WHY.get(status, "Try again later.")
            raise UnreadableModelError(f"{self._name} answered with {status} {response.reason_phrase}. {why}")
        found = CONTENT_RANGE.fullmatch(response.headers.get("content-range", ""))
        first, last, size = map(int, found.groups()) if found else (-1, -1, -1)
        if not (first == start <= last < size <= MOST_BYTES):
            raise UnreadableModelError(f"{self._name} answered with another range than requested. {BY_HAND}")
        tag = response.headers.get("etag", "")
        if self.size and (size, tag) != (self.size, self._tag):
            raise UnreadableModelError(f"{self._name} changed during the download. Run the command again.")
        if not self.size:
            self.size, self._tag = size, tag
            self._make_room(size)
        return last

    def _truncate(self, size: int) -> None:
        self._file.truncate(size)

    def _make_room(self, size: int) -> None:
        try:
            self._truncate(size)
        except OSError as error:
            why = f"A sparse file of {size:,} bytes is not possible in {tempfile.gettempdir()} ({error.strerror})"
            raise UnreadableModelError(f"{why}. Set TMPDIR to a folder of another file system.") from None

    def _keep(self, response: httpx.Response, start: int, end: int) -> None:
        """Writes the received bytes, and no more than requested."""
        late = time.monotonic() + PIECE_SECONDS
        self._file.seek(start)
        for part in response.iter_bytes():
            self._here += self._file.write(part[: end - self._here])
            if self._here >= end or time.monotonic() > late:
                break
        self._file.flush()
        if self._here < end:
            raise UnreadableModelError(f"{self._name} stopped at byte {self._here:,}. Run the command again.")
