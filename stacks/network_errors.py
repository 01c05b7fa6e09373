"""Says in plain words why a server cannot be reached. Needs no package, as the errors of all clients have a cause."""

import socket
import ssl

from sharing.printable import quoted

UNKNOWN_HOST = "no network, or DNS does not know the host"


def reason_of(error: BaseException) -> str:
    """The reason without the numbers of the operating system: of the failed connection, or else its own text."""
    cause: BaseException | None = error
    while cause:
        if isinstance(cause, socket.gaierror):
            return UNKNOWN_HOST
        if isinstance(cause, OSError) and not isinstance(cause, ssl.SSLError) and cause.strerror:
            return quoted(cause.strerror)
        cause = cause.__cause__ or cause.__context__
    return quoted(error) or type(error).__name__
