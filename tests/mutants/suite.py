"""Runs tests in a copy of the project, each time in a new process with the large packages already imported.

Each line of standard input is a request, `{"arguments": [...], "seconds": 60}`. Each answer is pytest's exit code, or
`timeout`.
"""

import contextlib
import json
import os
import resource
import signal
import sys

import pytest

LARGE = ("boto3", "httpx", "hypothesis", "kr8s", "moto", "pulumi_aws", "pulumi_eks", "pulumi_kubernetes", "rich")
MOST_SECONDS = 900
"""Limit of one request by the clock, for tests that wait and use no CPU."""


def serve() -> None:
    # The parent handles Ctrl-C, and then ends this process.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit())
    for name in LARGE:
        __import__(name)
    for line in sys.stdin:
        request = json.loads(line)
        child = os.fork()
        if not child:
            _run(request["arguments"], request["seconds"])
        try:
            status = os.waitpid(child, 0)[1]
        finally:
            # Includes programs that a test started and a fault left running.
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child, signal.SIGKILL)
        print("timeout" if os.WIFSIGNALED(status) else os.waitstatus_to_exitcode(status), flush=True)


def _run(arguments: list[str], seconds: int) -> None:
    """Ends the process with pytest's exit code, or after this many seconds of CPU."""
    os.setsid()
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
    signal.alarm(MOST_SECONDS)
    nothing = os.open(os.devnull, os.O_RDWR)
    output = os.open("../output", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    for stream, file in enumerate((nothing, output, output)):
        os.dup2(file, stream)
    os._exit(int(pytest.main(arguments)))


if __name__ == "__main__":
    serve()
