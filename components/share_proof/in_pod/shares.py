"""Runs in each pod of a share proof, one pod per share, and checks that all shares work at the same time.

It runs in the cluster and uses only Python's standard library and the driver's libcuda.

Pod 0 is the judge. The other pods connect to it by the host name that an Indexed Job gives it, so no pod needs access
to the Kubernetes API. Each pod keeps its device open until the judge has asked all questions and sends the same verdict
to all. So the log of every pod shows the verdict.

A pod that is evicted or interrupted is replaced, perhaps on another node. The others wait for the replacement, and the
judge asks all questions again. A replaced judge is found by its name.

Environment: EXPECTATION (JSON, see `PodExpectation`), JOB_COMPLETION_INDEX, JUDGE (host of pod 0), SERVICE (host that
resolves to every running pod), PORT, LIMIT_SECONDS (for all pods to start), BACK_SECONDS (for an interrupted pod to
start again), STEP_SECONDS (for one reply), EXCLUSIVE_SECONDS (for the GPU to leave EXCLUSIVE_PROCESS mode). With limits
of their own, also CUDA_MPS_PIPE_DIRECTORY, the directory of the node's MPS daemon.
"""

import contextlib
import json
import os
import socket
import sys
import threading
import time
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, Protocol

from .cuda import FULL, CudaError, Share
from .verdict import (
    Answer,
    PodExpectation,
    find_misplaced,
    find_missized,
    format_failure,
    format_pods,
    format_verdict,
    group_by_finding,
)

PIPE_VARIABLE = "CUDA_MPS_PIPE_DIRECTORY"
MEMORY_VARIABLE = "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"
"""CUDA reads both once, when a process starts to use the GPU."""
UNAVAILABLE = "CUDA_ERROR_DEVICE_UNAVAILABLE"
INTERRUPTED = "interrupted"
HELLO_SECONDS = 5
PAUSE_SECONDS = 0.2


class Pod(Protocol):
    """A pod that the judge questions. `ask` returns immediately; `receive` waits for the reply."""

    def ask(self, question: str) -> None: ...
    def receive(self, until: float | None = None) -> Answer: ...


class LocalPod:
    """The pod of this process. A reply has `error` if the driver failed, and then the judge stops asking."""

    def __init__(self, expected: PodExpectation, exclusive: float, index: int) -> None:
        self._expected, self._exclusive, self._index = expected, exclusive, index
        self._share: Share | None = None
        self.question = ""
        """The last question, to report it if the driver hangs."""

    def ask(self, question: str) -> None:
        self.question = question

    def receive(self, until: float | None = None) -> Answer:
        del until
        try:
            if self._expected.own_limits and not Path(os.environ[PIPE_VARIABLE], "control").is_socket():
                return {"error": f"no MPS daemon at {os.environ[PIPE_VARIABLE]}"}
            self._share = self._share or open_share(self._exclusive)
            if self.question == "look":
                # Frees memory that an interrupted round allocated.
                self._share.free()
                return asdict(self._share.look())
            if self.question == "within":
                return {"refused": self._share.allocate(self._expected.within_mib(self._index))}
            refused = self._share.allocate(self._expected.above_mib(self._index))
            self._share.free()
            return {"refused": refused}
        except CudaError as error:
            return {"error": str(error)}


def open_share(exclusive: float) -> Share:
    """Opens the pod's share. Retries for `exclusive` seconds while the GPU is still in EXCLUSIVE_PROCESS mode after
    MPS.
    """
    until = time.monotonic() + exclusive
    while True:
        try:
            return Share()
        except CudaError as error:
            if UNAVAILABLE not in str(error) or time.monotonic() > until:
                raise
            time.sleep(PAUSE_SECONDS)


class Interrupted(Exception):
    """Pods stopped before they replied."""

    def __init__(self, indexes: list[int]) -> None:
        super().__init__(indexes)
        self.indexes = indexes


class RemotePod:
    """Another pod, over a connection with one JSON object per line."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._stream = connection.makefile("rw", encoding="utf-8", newline="\n")

    def send(self, message: Mapping[str, Any]) -> None:
        with contextlib.suppress(OSError):  # `receive` notices that a pod has stopped
            self._stream.write(json.dumps(message) + "\n")
            self._stream.flush()

    def ask(self, question: str) -> None:
        self.send({"question": question})

    def receive(self, until: float | None = None) -> Answer:
        self._connection.settimeout(None if until is None else max(until - time.monotonic(), 0.01))
        try:
            answer = json.loads(self._stream.readline() or "null")
        except TimeoutError:
            return {"error": "hung and did not reply"}
        except (OSError, ValueError):
            answer = None
        return answer if isinstance(answer, dict) else {"error": INTERRUPTED}

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._stream.close()
        self._connection.close()


def run_judge(expected: PodExpectation, here: LocalPod, port: int, limit: float, back: float, step: float) -> Answer:
    """Acts as the judge: waits for the pods, questions them, and sends all of them the verdict. Returns the verdict."""
    others: dict[int, RemotePod] = {}
    patience, lost = Patience(limit, back), list[int]()
    with socket.create_server(("", port), backlog=expected.pods) as server:
        while True:
            gather(server, expected.pods, patience.until, others)
            pods: dict[int, Pod] = {0: here, **dict(sorted(others.items()))}
            missing = [index for index in range(expected.pods) if index not in pods]
            if missing:
                found, seen = [patience.exhausted(missing, lost)], dict[int, Answer]()
                break
            try:
                found, seen = examine(expected, pods, step)
                break
            except Interrupted as interrupted:
                lost = interrupted.indexes
                print(f"{format_pods(lost)}: {INTERRUPTED}; waiting for the replacement", file=sys.stderr, flush=True)
                patience.renew()
                for index in lost:
                    others.pop(index).close()
    verdict = {"kept": not found, "text": format_verdict(expected, found, seen, len(pods))}
    for other in others.values():
        other.send({"verdict": verdict})
        other.close()
    return verdict


class Patience:
    """The deadline for pods to start: `limit` seconds at first, and `back` seconds once after an interruption."""

    def __init__(self, limit: float, back: float) -> None:
        self._limit, self._back = limit, back
        self.until = time.monotonic() + limit
        self._is_renewed = False

    def renew(self) -> None:
        """Extends the deadline after the first interruption. Further interruptions do not extend it again."""
        if not self._is_renewed:
            self.until, self._is_renewed = time.monotonic() + self._back, True

    def exhausted(self, missing: list[int], lost: list[int]) -> str:
        """The finding about pods that did not start in time."""
        if set(missing) & set(lost):
            were = "were" if len(missing) > 1 else "was"
            return f"{format_pods(missing)} {were} {INTERRUPTED} and did not start again within {self._back:g} s"
        return f"{format_pods(missing)} did not start within {self._limit:g} s"


def gather(server: socket.socket, wanted: int, until: float, came: dict[int, RemotePod]) -> None:
    """Accepts pods until all are connected or the time is up. A new pod replaces the old one with its index."""
    while len(came) < wanted - 1:
        server.settimeout(max(until - time.monotonic(), 0.01))
        try:
            connection, _ = server.accept()
        except TimeoutError:
            break
        pod = RemotePod(connection)
        index = pod.receive(min(until, time.monotonic() + HELLO_SECONDS)).get("index")
        if isinstance(index, int) and 0 < index < wanted:
            if index in came:
                came[index].close()
            came[index] = pod
        else:
            pod.close()


def examine(expected: PodExpectation, pods: Mapping[int, Pod], step: float) -> tuple[list[str], dict[int, Answer]]:
    """Questions the pods. Returns the findings, and each pod's reply about its device. Raises `Interrupted`."""

    def ask(question: str, chosen: Iterable[int]) -> dict[int, Answer]:
        for index in chosen:
            pods[index].ask(question)
        until = time.monotonic() + step
        answers = {index: pods[index].receive(until) for index in chosen}
        if stopped := [index for index, answer in answers.items() if answer.get("error") == INTERRUPTED]:
            raise Interrupted(stopped)
        return answers

    # All pods at once: from now on, each of them holds a context.
    seen = ask("look", list(pods))
    found = _failed(seen) or [*find_misplaced(expected, seen), *find_missized(expected, seen)]
    if found:
        return found, seen
    if expected.limits_mib:
        # One pod at a time: without limits, the first allocation could make the second one fail.
        above: dict[int, Answer] = {}
        for index in pods:
            above |= ask("above", [index])
        found += _failed(above) or group_by_finding(
            {
                index: f"allocated {expected.above_mib(index):,} MiB, more than its share"
                if answer["refused"] is None
                else f"expected {FULL} for an allocation beyond its share, but got {answer['refused']}"
                for index, answer in above.items()
                if answer["refused"] != FULL
            }
        )
    if not found:
        # All pods hold their memory at the end, so the shares exist at the same time.
        within = ask("within", list(pods))
        found = _failed(within) or group_by_finding(
            {
                index: f"could not allocate {expected.within_mib(index):,} MiB of its share: {answer['refused']}"
                for index, answer in within.items()
                if answer["refused"] is not None
            }
        )
    return found, seen


def _failed(answers: Mapping[int, Answer]) -> list[str]:
    return group_by_finding({index: answer["error"] for index, answer in answers.items() if "error" in answer})


def run_member(
    expected: PodExpectation,
    here: LocalPod,
    index: int,
    judge: tuple[str, int],
    service: str,
    limit: float,
    back: float,
) -> Answer:
    """Acts as any other pod: connects to the judge, answers its questions, and returns its verdict.

    A judge that stops is replaced like every pod, so this connects again.
    """
    patience, found = Patience(limit, back), f"pod 0, which collects the results, did not start within {limit:g} s"
    while (there := connect(judge, patience.until)) is not None:
        there.send({"index": index})
        verdict = answer(there, here)
        there.close()
        if verdict is not None:
            return verdict
        patience.renew()
        found = f"pod 0, which collects the results, was {INTERRUPTED} and did not start again within {back:g} s"
        time.sleep(PAUSE_SECONDS)
    facts = [f"{_running(service)} of {expected.pods} pods are running"]
    return {"kept": False, "text": format_failure(expected, facts, [found])}


def answer(judge: RemotePod, here: LocalPod) -> Answer | None:
    """Answers the judge's questions. Returns its verdict, or None if the judge stops."""
    while True:
        message = judge.receive()
        if "question" in message:
            here.ask(message["question"])
            judge.send(here.receive())
        elif "verdict" in message:
            verdict: Answer = message["verdict"]
            return verdict
        else:
            return None


def connect(judge: tuple[str, int], until: float) -> RemotePod | None:
    """A connection to the judge, or None if it does not start in time. Until it starts, DNS does not know it."""
    while time.monotonic() < until:
        try:
            return RemotePod(socket.create_connection(judge, timeout=HELLO_SECONDS))
        except OSError:
            time.sleep(PAUSE_SECONDS)
    return None


def _running(service: str) -> int:
    """Number of pods with an address: a headless Service resolves to all of them."""
    try:
        return len(socket.gethostbyname_ex(service)[2])
    except OSError:
        return 0


def watch(seconds: float, here: LocalPod, expected: PodExpectation, index: int) -> None:
    """Ends this process after `seconds` if a call of the driver never returns, because nothing else can stop it."""

    def give_up() -> None:
        found = [f"pod {index} hung in the driver during step {here.question!r}"]
        print(format_failure(expected, [f"no verdict within {seconds:g} s"], found), file=sys.stderr, flush=True)
        os._exit(1)

    timer = threading.Timer(seconds, give_up)
    timer.daemon = True
    timer.start()


def main(environment: Mapping[str, str]) -> int:
    """Returns 0 if all shares are as expected, else 1. The last output is the proof or the reason."""
    given = json.loads(environment["EXPECTATION"])
    lists = {key: tuple(given[key]) for key in ("sees_mib", "limits_mib")}
    expected = PodExpectation(**{**given, **lists})
    index, port = int(environment["JOB_COMPLETION_INDEX"]), int(environment["PORT"])
    limit, step = float(environment["LIMIT_SECONDS"]), float(environment["STEP_SECONDS"])
    back, exclusive = float(environment["BACK_SECONDS"]), float(environment["EXCLUSIVE_SECONDS"])
    if expected.own_limits:
        os.environ[MEMORY_VARIABLE] = f"0={expected.limits_mib[index]}M"
    here = LocalPod(expected, exclusive, index)
    # Three questions and a verdict, all of them twice because of a possible interruption.
    watch(limit + back + 8 * step, here, expected, index)
    if index == 0:
        verdict = run_judge(expected, here, port, limit, back, step)
    else:
        judge = environment["JUDGE"], port
        verdict = run_member(expected, here, index, judge, environment["SERVICE"], limit, back)
    print(verdict["text"], file=sys.stdout if verdict["kept"] else sys.stderr, flush=True)
    return 0 if verdict["kept"] else 1


if __name__ == "__main__":
    sys.exit(main(os.environ))
