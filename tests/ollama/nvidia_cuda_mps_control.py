#!/usr/bin/env python3
"""Stands in for `nvidia-cuda-mps-control`, without a GPU: the daemon with `-f`, else the program that asks it.

The files of the daemon in CUDA_MPS_PIPE_DIRECTORY are the socket `control` and `nvidia-cuda-mps-control.pid`. `quit`
removes the second one and leaves the first one. A new daemon makes both again. Without a daemon, the program ends
with 1. SIGTERM, as systemd sends it, removes both. Sources: man nvidia-cuda-mps-control; k8s-device-plugin v0.20.0
cmd/mps-control-daemon/mps/daemon.go (EchoPipeToControl), and its issue 762 for exit status 1; for the files
docs/decisions/0153, and amazon-ecs-agent, checkOnce of its resource mpsdaemon: a stop leaves the directory alone.

A file `busy` there keeps the next question from an answer, as a node under load does. WITHOUT_PID_FILE is for a daemon
that writes no such file in the foreground: NVIDIA documents it only for the background.
"""

import os
import signal
import socket
import sys
import time
from pathlib import Path

folder = Path(os.environ["CUDA_MPS_PIPE_DIRECTORY"])
control, pid, busy = folder / "control", folder / "nvidia-cuda-mps-control.pid", folder / "busy"


def stop(*_: object) -> None:
    for file in (control, pid):
        file.unlink(missing_ok=True)
    sys.exit(0)


def serve() -> None:
    signal.signal(signal.SIGTERM, stop)
    control.unlink(missing_ok=True)
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(control))
        listening.listen()
        if "WITHOUT_PID_FILE" not in os.environ:
            pid.write_text(f"{os.getpid()}\n")
        while True:
            with listening.accept()[0] as client:
                order = client.recv(100).decode().strip()
                # A client of CUDA connects and asks nothing (tests/components/libcuda.c).
                if order:
                    client.sendall(b"50.0\n")
            if order.startswith("quit"):
                pid.unlink(missing_ok=True)
                return


def ask() -> None:
    if busy.exists():
        busy.unlink()
        time.sleep(60)
    with socket.socket(socket.AF_UNIX) as asking:
        try:
            asking.connect(str(control))
        except OSError:
            sys.exit("Cannot find MPS control daemon process")
        asking.sendall(sys.stdin.buffer.read())
        print(asking.recv(100).decode().strip())


if __name__ == "__main__":
    serve() if sys.argv[-1] == "-f" else ask()
