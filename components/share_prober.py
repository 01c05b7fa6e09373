"""Runs in each pod of a share proof, one pod a share: do all of them get what was promised, at the same time?

Shipped to the cluster as it is, so it needs nothing but Python's standard library and the driver's libcuda.

Pod 0 is the judge. The others come to it by the name that an Indexed Job gives it, for which no pod needs access to the
Kubernetes API. Each opens its device and keeps it open until the judge has asked everything and gives all of them the
same verdict: whichever pod's log is read, and whichever ends first, it says the same.

A pod that an eviction or a spot interruption ends comes again, perhaps on another node: the others wait for it, the
judge asks everything once more, and a new judge is looked for by its name.

Environment: PROMISE (JSON, see `Promise`), JOB_COMPLETION_INDEX, JUDGE (host of pod 0), SERVICE (host that resolves to
every pod that runs), PORT, LIMIT_SECONDS (for all pods to come), BACK_SECONDS (for an interrupted one to come again),
STEP_SECONDS (for one answer), EXCLUSIVE_SECONDS (for the GPU to leave EXCLUSIVE_PROCESS mode).
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
from typing import Any, Protocol

from components.cuda_share import FULL, CudaError, Share
from components.share_verdict import Answer, Promise, failure, grouped, misplaced, missized, pods_in_words, told

UNAVAILABLE = "CUDA_ERROR_DEVICE_UNAVAILABLE"
GONE = "interrupted"
HELLO_SECONDS = 5
PAUSE_SECONDS = 0.2


class Pod(Protocol):
    """A pod that the judge questions: `ask` returns at once, `hear` when the answer is there."""

    def ask(self, question: str) -> None: ...
    def hear(self, until: float | None = None) -> Answer: ...


class Here:
    """The pod of this process. Answers hold `error` where the driver failed, which ends the questions."""

    def __init__(self, promise: Promise, exclusive: float) -> None:
        self._promise, self._exclusive = promise, exclusive
        self._share: Share | None = None
        self.question = ""
        """The last one: what hangs, if anything does."""

    def ask(self, question: str) -> None:
        self.question = question

    def hear(self, until: float | None = None) -> Answer:
        del until
        try:
            self._share = self._share or open_share(self._exclusive)
            if self.question == "look":
                # What an interrupted round has taken.
                self._share.free()
                return asdict(self._share.look())
            if self.question == "within":
                return {"refused": self._share.allocate(self._promise.within_mib)}
            refused = self._share.allocate(self._promise.above_mib)
            self._share.free()
            return {"refused": refused}
        except CudaError as error:
            return {"error": str(error)}


def open_share(exclusive: float) -> Share:
    """The pod's share. Tries again while a GPU that was shared by MPS is still in EXCLUSIVE_PROCESS mode."""
    until = time.monotonic() + exclusive
    while True:
        try:
            return Share()
        except CudaError as error:
            if UNAVAILABLE not in str(error) or time.monotonic() > until:
                raise
            time.sleep(PAUSE_SECONDS)


class Interrupted(Exception):
    """Pods that went away while they were asked."""

    def __init__(self, indexes: list[int]) -> None:
        super().__init__(indexes)
        self.indexes = indexes


class There:
    """Another pod, at the end of a connection with one JSON object a line."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._stream = connection.makefile("rw", encoding="utf-8", newline="\n")

    def tell(self, message: Mapping[str, Any]) -> None:
        with contextlib.suppress(OSError):  # a pod that went away is noticed when it is heard
            self._stream.write(json.dumps(message) + "\n")
            self._stream.flush()

    def ask(self, question: str) -> None:
        self.tell({"question": question})

    def hear(self, until: float | None = None) -> Answer:
        self._connection.settimeout(None if until is None else max(until - time.monotonic(), 0.01))
        try:
            answer = json.loads(self._stream.readline() or "null")
        except TimeoutError:
            return {"error": "hung: it gave no answer"}
        except (OSError, ValueError):
            answer = None
        return answer if isinstance(answer, dict) else {"error": GONE}

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._stream.close()
        self._connection.close()


def preside(promise: Promise, here: Here, port: int, limit: float, back: float, step: float) -> Answer:
    """The judge's part: waits for the pods, questions them, gives all the verdict and returns it."""
    others: dict[int, There] = {}
    patience, lost = Patience(limit, back), list[int]()
    with socket.create_server(("", port), backlog=promise.pods) as server:
        while True:
            gather(server, promise.pods, patience.until, others)
            pods: dict[int, Pod] = {0: here, **dict(sorted(others.items()))}
            missing = [index for index in range(promise.pods) if index not in pods]
            if missing:
                found, seen = [patience.exhausted(missing, lost)], dict[int, Answer]()
                break
            try:
                found, seen = examine(promise, pods, step)
                break
            except Interrupted as interrupted:
                lost = interrupted.indexes
                print(f"{pods_in_words(lost)}: {GONE}; waiting for the replacement", file=sys.stderr, flush=True)
                patience.renew()
                for index in lost:
                    others.pop(index).close()
    verdict = {"kept": not found, "text": told(promise, found, seen, len(pods))}
    for other in others.values():
        other.tell({"verdict": verdict})
        other.close()
    return verdict


class Patience:
    """Until when pods may come: at first, and once more when one was interrupted."""

    def __init__(self, limit: float, back: float) -> None:
        self._limit, self._back = limit, back
        self.until = time.monotonic() + limit
        self._is_renewed = False

    def renew(self) -> None:
        """The first interruption gives time for a new node; further ones have what is left of it."""
        if not self._is_renewed:
            self.until, self._is_renewed = time.monotonic() + self._back, True

    def exhausted(self, missing: list[int], lost: list[int]) -> str:
        """Who did not come in time, in words."""
        if set(missing) & set(lost):
            were = "were" if len(missing) > 1 else "was"
            return f"{pods_in_words(missing)} {were} {GONE} and did not start again within {self._back:g} s"
        return f"{pods_in_words(missing)} did not start within {self._limit:g} s"


def gather(server: socket.socket, wanted: int, until: float, came: dict[int, There]) -> None:
    """Adds the pods that come in time, by index. A pod that comes again replaces itself; strangers are sent away."""
    while len(came) < wanted - 1:
        server.settimeout(max(until - time.monotonic(), 0.01))
        try:
            connection, _ = server.accept()
        except TimeoutError:
            break
        pod = There(connection)
        index = pod.hear(min(until, time.monotonic() + HELLO_SECONDS)).get("index")
        if isinstance(index, int) and 0 < index < wanted:
            if index in came:
                came[index].close()
            came[index] = pod
        else:
            pod.close()


def examine(promise: Promise, pods: Mapping[int, Pod], step: float) -> tuple[list[str], dict[int, Answer]]:
    """Questions the pods; returns what is not as expected, in words, and what each saw. Raises `Interrupted`."""

    def ask(question: str, chosen: Iterable[int]) -> dict[int, Answer]:
        for index in chosen:
            pods[index].ask(question)
        until = time.monotonic() + step
        answers = {index: pods[index].hear(until) for index in chosen}
        if away := [index for index, answer in answers.items() if answer.get("error") == GONE]:
            raise Interrupted(away)
        return answers

    # All at once: from here on every pod holds its context.
    seen = ask("look", list(pods))
    found = _failed(seen) or [*misplaced(promise, seen), *missized(promise, seen)]
    if found:
        return found, seen
    if promise.limit_mib is not None:
        # One after the other: on a card without limits the first would take what then refuses the second.
        above: dict[int, Answer] = {}
        for index in pods:
            above |= ask("above", [index])
        found += _failed(above) or grouped(
            {
                index: f"could take {promise.above_mib:,} MiB, more than its share"
                if answer["refused"] is None
                else f"was refused more than it may take by {answer['refused']}, not {FULL}"
                for index, answer in above.items()
                if answer["refused"] != FULL
            }
        )
    if not found:
        # All hold theirs at the end: the shares add up.
        within = ask("within", list(pods))
        found = _failed(within) or grouped(
            {
                index: f"could not take {promise.within_mib:,} MiB of its share: {answer['refused']}"
                for index, answer in within.items()
                if answer["refused"] is not None
            }
        )
    return found, seen


def _failed(answers: Mapping[int, Answer]) -> list[str]:
    return grouped({index: answer["error"] for index, answer in answers.items() if "error" in answer})


def testify(
    promise: Promise, here: Here, index: int, judge: tuple[str, int], service: str, limit: float, back: float
) -> Answer:
    """The part of every other pod: comes to the judge, answers it, and returns its verdict. A judge that goes away is
    replaced, like every pod, so its successor is looked for.
    """
    patience, found = Patience(limit, back), f"pod 0, which collects the results, did not start within {limit:g} s"
    while (there := come(judge, patience.until)) is not None:
        there.tell({"index": index})
        verdict = answer(there, here)
        there.close()
        if verdict is not None:
            return verdict
        patience.renew()
        found = (
            f"pod 0, which collects the results, was {GONE} without a verdict and did not start again within {back:g} s"
        )
        time.sleep(PAUSE_SECONDS)
    return {"kept": False, "text": failure(promise, [f"{_running(service)} of {promise.pods} pods run"], [found])}


def answer(judge: There, here: Here) -> Answer | None:
    """Answers the judge's questions; returns its verdict, or None when it goes away."""
    while True:
        message = judge.hear()
        if "question" in message:
            here.ask(message["question"])
            judge.tell(here.hear())
        elif "verdict" in message:
            verdict: Answer = message["verdict"]
            return verdict
        else:
            return None


def come(judge: tuple[str, int], until: float) -> There | None:
    """A connection to the judge, which may start later and be unknown to DNS until then; None when it does not."""
    while time.monotonic() < until:
        try:
            return There(socket.create_connection(judge, timeout=HELLO_SECONDS))
        except OSError:
            time.sleep(PAUSE_SECONDS)
    return None


def _running(service: str) -> int:
    """Pods that have an address: a headless Service resolves to all of them."""
    try:
        return len(socket.gethostbyname_ex(service)[2])
    except OSError:
        return 0


def watch(seconds: float, here: Here, promise: Promise, index: int) -> None:
    """Ends this process when a call of the driver never returns: nothing else can."""

    def give_up() -> None:
        found = [f"pod {index} hung in the driver when asked {here.question!r}"]
        print(failure(promise, [f"no end within {seconds:g} s"], found), file=sys.stderr, flush=True)
        os._exit(1)

    timer = threading.Timer(seconds, give_up)
    timer.daemon = True
    timer.start()


def main(environment: Mapping[str, str]) -> int:
    """0 when the promise is kept, 1 when it is not; the last thing printed says why."""
    given = json.loads(environment["PROMISE"])
    promise = Promise(**{**given, "sees_mib": tuple(given["sees_mib"])})
    index, port = int(environment["JOB_COMPLETION_INDEX"]), int(environment["PORT"])
    limit, step = float(environment["LIMIT_SECONDS"]), float(environment["STEP_SECONDS"])
    back, exclusive = float(environment["BACK_SECONDS"]), float(environment["EXCLUSIVE_SECONDS"])
    here = Here(promise, exclusive)
    # Three questions and a verdict, and all of it once more after an interruption.
    watch(limit + back + 8 * step, here, promise, index)
    if index == 0:
        verdict = preside(promise, here, port, limit, back, step)
    else:
        judge = environment["JUDGE"], port
        verdict = testify(promise, here, index, judge, environment["SERVICE"], limit, back)
    print(verdict["text"], file=sys.stdout if verdict["kept"] else sys.stderr, flush=True)
    return 0 if verdict["kept"] else 1


if __name__ == "__main__":
    sys.exit(main(os.environ))
