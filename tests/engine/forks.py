"""Runs each Python program of the engine as a fork of a process that has imported the SDKs already.

The imports are most of the time of a program. Pulumi calls `bin/python` of a virtual environment: that of `make_python`
passes its arguments, environment and open files to the server below, waits, and ends as the fork ends. Commands in a
process of their own (`command_line.py`) run the usual Python.
"""

import atexit
import gc
import json
import os
import runpy
import select
import signal
import socket
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NoReturn

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = "pulumi-language-python-exec"
LENGTH = 8
"""Bytes of the number before a message."""
CLIENT = """#!{python} -IS
import json, os, signal, socket, sys

def receive():
    return int.from_bytes(server.recv({length}), "big", signed=True)

arguments = sys.argv[1:]
if arguments[:2] == ["-m", "pip"]:
    # As in the folder `quick`.
    print({packages!r} if "list" in arguments else "pip 25.0")
elif not any(each.endswith({program!r}) for each in arguments):
    os.execv({python!r}, [{python!r}, *arguments])
else:
    server = socket.socket(socket.AF_UNIX)
    server.connect({address!r})
    message = json.dumps([arguments, os.getcwd(), dict(os.environ)]).encode()
    socket.send_fds(server, [len(message).to_bytes({length}, "big")], [0, 1, 2])
    server.sendall(message)
    process = receive()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda number, _: os.kill(process, number))
    code = receive()
    if code < 0:
        signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    sys.exit(code)
"""


@contextmanager
def make_python(folder: Path) -> Iterator[Path]:
    """A virtual environment whose programs are forks of one server, which ends with the context."""
    address = str(folder / "server")
    found = Path(sysconfig.get_path("purelib")).glob("pulumi*.dist-info")
    parts = [package.name.removesuffix(".dist-info").partition("-") for package in found]
    packages = json.dumps([{"name": name, "version": version} for name, _, version in parts])
    python = folder / "bin" / "python"
    python.parent.mkdir()
    values = {"address": address, "length": LENGTH, "packages": packages, "program": PROGRAM, "python": sys.executable}
    python.write_text(CLIENT.format(**values), encoding="utf-8")
    python.chmod(0o755)
    command = [sys.executable, __file__, address]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as server:
        assert server.stdin
        assert server.stdout
        assert server.stdout.readline()
        try:
            yield folder
        finally:
            server.stdin.close()


def serve(address: str) -> None:
    """Answers each client with a fork, until standard input ends."""
    own = sys.path.pop(0)
    usual = [*sys.path]
    gc.disable()
    sys.path.insert(0, str(ROOT))
    _import_all()
    sys.path[:] = usual
    gc.freeze()
    assert Path(own) == Path(__file__).parent
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(address)
    listener.listen()
    signal.signal(signal.SIGCHLD, _reap)
    print("ready", flush=True)
    while sys.stdin not in select.select([listener, sys.stdin], [], [])[0]:
        client, _ = listener.accept()
        if os.fork() == 0:
            listener.close()
            _mind(client)
        client.close()


def _reap(*_: object) -> None:
    """No fork that has ended stays as a zombie."""
    with suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def _import_all() -> None:
    import components
    import stacks.program

    for names in components.PUBLIC.values():
        for name in names:
            getattr(components, name)
    assert stacks.program


def _mind(client: socket.socket) -> NoReturn:
    """Runs the program in a fork of its own, which dies if the client dies."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    length, files, _, _ = socket.recv_fds(client, LENGTH, 3)
    message = b""
    while len(message) < int.from_bytes(length, "big"):
        message += client.recv(2**16)
    lives, is_alive = os.pipe()
    process = os.fork()
    if process == 0:
        os.close(lives)
        _run(files, *json.loads(message))
    for descriptor in (*files, is_alive):
        os.close(descriptor)
    client.sendall(process.to_bytes(LENGTH, "big"))
    if client.fileno() in select.select([client.fileno(), lives], [], [])[0]:
        os.kill(process, signal.SIGKILL)
    _, status = os.waitpid(process, 0)
    client.sendall(os.waitstatus_to_exitcode(status).to_bytes(LENGTH, "big", signed=True))
    os._exit(0)


def _run(files: list[int], arguments: list[str], folder: str, environment: dict[str, str]) -> NoReturn:
    """The program, in the state in which a new Python would start it."""
    for number, descriptor in enumerate(files):
        os.dup2(descriptor, number)
    sys.stdout, sys.stderr = (os.fdopen(number, "w", buffering=1) for number in (1, 2))
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(folder)
    # As `sitecustomize` of `tandem.sandbox.pulumi`.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    [place] = [index for index, each in enumerate(arguments) if each.endswith(PROGRAM)]
    script, sys.argv = arguments[place], arguments[place:]
    if Path(folder) != ROOT:
        # It may be another version of the project.
        for name in [name for name, module in sys.modules.items() if _is_ours(module)]:
            del sys.modules[name]
    paths = [path for path in environment.get("PYTHONPATH", "").split(os.pathsep) if path]
    sys.path[:0] = [str(Path(script).parent), *paths]
    code: Any = 0
    try:
        runpy.run_path(script, run_name="__main__")
    except SystemExit as ended:
        code = ended.code
    except BaseException:
        sys.excepthook(*sys.exc_info())
        code = 1
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code if isinstance(code, int) else 0 if code is None else 1)


def _is_ours(module: object) -> bool:
    file = getattr(module, "__file__", None)
    return bool(file) and Path(str(file)).is_relative_to(ROOT) and ".venv" not in Path(str(file)).parts


if __name__ == "__main__":
    serve(sys.argv[1])
