"""Errors of connections in plain words."""

import errno
import os
import socket
import ssl

import httpx
import pytest

from stacks.network_errors import reason_of

UNKNOWN = socket.gaierror(socket.EAI_NONAME, "Name or service not known")
REFUSED = OSError(errno.ECONNREFUSED, os.strerror(errno.ECONNREFUSED))
CERTIFICATE = ssl.SSLCertVerificationError(1, "[SSL: CERTIFICATE_VERIFY_FAILED] self-signed")


def caused(text: str, cause: Exception) -> Exception:
    """An error of httpx, which itself has the cause of a library between them."""
    between = RuntimeError(text)
    between.__cause__ = cause
    outer = httpx.ConnectError(text)
    outer.__cause__ = between
    return outer


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (UNKNOWN, "no network, or DNS does not know the host"),
        (caused("[Errno -2] Name or service not known", UNKNOWN), "no network, or DNS does not know the host"),
        (caused("[Errno 111] Connection refused", REFUSED), "Connection refused"),
        (caused("[SSL: CERTIFICATE_VERIFY_FAILED] self-signed", CERTIFICATE), "[SSL: CERTIFICATE_VERIFY_FAILED] self"),
        (httpx.ConnectError("one\nline\x1b[2J"), "one line"),
        (httpx.ReadTimeout(""), "ReadTimeout"),
        (OSError("without a number"), "without a number"),
    ],
    ids=lambda value: str(value)[:30],
)
def test_a_reason_has_no_number_of_the_system(error: Exception, words: str) -> None:
    assert reason_of(error).startswith(words)


def test_httpx_keeps_the_cause_of_a_failed_connection() -> None:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))  # without `listen`, so nothing answers there
        with pytest.raises(httpx.ConnectError) as failed:
            httpx.get(f"http://127.0.0.1:{bound.getsockname()[1]}/", trust_env=False)
    assert reason_of(failed.value) == "Connection refused"
