"""A server of a test that answers as long as a block runs."""

import http.server
import threading
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def listening(server: http.server.ThreadingHTTPServer) -> Iterator[None]:
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
