"""Runs in each pod of a share proof, one pod a share: do all of them get what was promised, at the same time?

Shipped to the cluster as it is, so it needs nothing but Python's standard library and the driver's libcuda.

Pod 0 is the judge. The others come to it by the name that an Indexed Job gives it, for which no pod needs access to the
Kubernetes API. Each opens its device and keeps it open until the judge has asked everything and tells all of them the
same verdict: whichever pod's log is read, and whichever ends first, it says the same.

Environment: PROMISE (JSON, see `Promise`), JOB_COMPLETION_INDEX, JUDGE (host of pod 0), SERVICE (host that resolves to
every pod that runs), PORT, LIMIT_SECONDS (for all pods to come), STEP_SECONDS (for one answer).
"""

import contextlib
import json
import os
import socket
import sys
import threading
import time
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Protocol

from components.cuda_share import FULL, CudaError, Share

SMALL_MIB = 64
"""Allocated where no limit is promised: the share works at all."""
CONTEXT_MIB = 400
"""Left of an MPS share for the context itself, which counts against the limit; a guess above what contexts take."""
MOST_LINES = 8
"""Findings told one by one: of a failed container's log, Kubernetes keeps 2,048 bytes."""
HELLO_SECONDS = 5
PAUSE_SECONDS = 0.2

Answer = dict[str, Any]
WAYS_OUT = (
    (
        "did not come",
        "Fewer shares are free than promised. Look at what holds the others: `kubectl get pods -A -o wide`.",
    ),
    (
        "cannot load",
        "The container got no driver: the nodes need the NVIDIA variant of the AMI, whose runtime mounts it.",
    ),
    ("CUDA_ERROR_MPS", "Look at the log of the MPS control daemon on that node."),
    ("hung", "Under MPS a process waits while another user's processes hold the server. Stop them."),
    (
        "CUDA_ERROR_DEVICE_UNAVAILABLE",
        "Another process holds the card, which admits one: stop the pods of the old mode.",
    ),
    ("CUDA_ERROR_NO_DEVICE", "The device plugin gave the pod no card: look at its log on that node."),
    ("were promised", "The device plugin shares cards in another way: look at the node's labels nvidia.com/*."),
    ("of memory visible", "The node has another GPU, or other slices, than planned."),
    ("devices visible", "The pod got devices that it did not ask for: look at the device plugin's log on that node."),
    ("more than its share", "Memory is not limited: the pod does not go through the MPS daemon that sets the limit."),
    ("of its share", "Something else holds memory of the card, or the shares are too small: use fewer replicas."),
)
"""What to do, by words of a finding."""


@dataclass(frozen=True)
class Promise:
    """What the pods are to find."""

    told: str
    """The promise in words."""
    shares: int
    """Shares of the resource on the node."""
    pods: int
    """Pods of this proof: one a share, or fewer where the node takes no more."""
    per_device: int
    """Shares of one card, or of one MIG slice."""
    sees_mib: tuple[int, int]
    """Least and most memory that a pod may see."""
    limit_mib: int | None
    """What one process may allocate, where that is enforced by MPS."""

    @property
    def above_mib(self) -> int:
        """An allocation that must fail."""
        return (self.limit_mib or 0) + SMALL_MIB

    @property
    def within_mib(self) -> int:
        """An allocation that must succeed in all pods at once."""
        if self.limit_mib is None:
            return SMALL_MIB
        return max(min(self.limit_mib * 4 // 5, self.limit_mib - CONTEXT_MIB), self.limit_mib // 4)


class Pod(Protocol):
    """A pod that the judge questions: `ask` returns at once, `hear` when the answer is there."""

    def ask(self, question: str) -> None: ...
    def hear(self, until: float | None = None) -> Answer: ...


class Here:
    """The pod of this process. Answers hold `error` where the driver failed, which ends the questions."""

    def __init__(self, promise: Promise) -> None:
        self._promise = promise
        self._share: Share | None = None
        self.question = ""
        """The last one: what hangs, if anything does."""

    def ask(self, question: str) -> None:
        self.question = question

    def hear(self, until: float | None = None) -> Answer:
        del until
        try:
            self._share = self._share or Share()
            if self.question == "look":
                return asdict(self._share.look())
            if self.question == "within":
                return {"refused": self._share.allocate(self._promise.within_mib)}
            refused = self._share.allocate(self._promise.above_mib)
            self._share.free()
            return {"refused": refused}
        except CudaError as error:
            return {"error": str(error)}


class There:
    """Another pod, at the end of a connection with one JSON object a line."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._stream = connection.makefile("rw", encoding="utf-8", newline="\n")

    def tell(self, message: Mapping[str, Any]) -> None:
        with contextlib.suppress(OSError):  # a pod that is gone is noticed when it is heard
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
        return answer if isinstance(answer, dict) else {"error": "went away"}

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._stream.close()
        self._connection.close()


def preside(promise: Promise, here: Here, port: int, limit: float, step: float) -> Answer:
    """The judge's part: waits for the pods, questions them, tells all the verdict and returns it."""
    with socket.create_server(("", port), backlog=promise.pods) as server:
        others = gather(server, promise.pods, time.monotonic() + limit)
    pods: dict[int, Pod] = {0: here, **dict(sorted(others.items()))}
    missing = [index for index in range(promise.pods) if index not in pods]
    if missing:
        found, seen = [f"{_pods(missing)} did not come within {limit:g} s"], dict[int, Answer]()
    else:
        found, seen = examine(promise, pods, step)
    verdict = {"kept": not found, "text": told(promise, found, seen, len(pods))}
    for other in others.values():
        other.tell({"verdict": verdict})
        other.close()
    return verdict


def gather(server: socket.socket, wanted: int, until: float) -> dict[int, There]:
    """The pods that come in time, by index. Whoever else connects is sent away."""
    came: dict[int, There] = {}
    while len(came) < wanted - 1:
        server.settimeout(max(until - time.monotonic(), 0.01))
        try:
            connection, _ = server.accept()
        except TimeoutError:
            break
        pod = There(connection)
        index = pod.hear(min(until, time.monotonic() + HELLO_SECONDS)).get("index")
        if isinstance(index, int) and 0 < index < wanted and index not in came:
            came[index] = pod
        else:
            pod.close()
    return came


def examine(promise: Promise, pods: Mapping[int, Pod], step: float) -> tuple[list[str], dict[int, Answer]]:
    """Questions the pods; returns what is not as promised, in words, and what each saw."""

    def ask(question: str, chosen: Iterable[int]) -> dict[int, Answer]:
        for index in chosen:
            pods[index].ask(question)
        until = time.monotonic() + step
        return {index: pods[index].hear(until) for index in chosen}

    # All at once: from here on every pod holds its context.
    seen = ask("look", list(pods))
    found = _failed(seen) or [*_misplaced(promise, seen), *_missized(promise, seen)]
    if found:
        return found, seen
    if promise.limit_mib is not None:
        # One after the other: on a card without limits the first would take what then refuses the second.
        above: dict[int, Answer] = {}
        for index in pods:
            above |= ask("above", [index])
        found += _failed(above) or _grouped(
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
        found = _failed(within) or _grouped(
            {
                index: f"could not take {promise.within_mib:,} MiB of its share: {answer['refused']}"
                for index, answer in within.items()
                if answer["refused"] is not None
            }
        )
    return found, seen


def _failed(answers: Mapping[int, Answer]) -> list[str]:
    return _grouped({index: answer["error"] for index, answer in answers.items() if "error" in answer})


def _misplaced(promise: Promise, seen: Mapping[int, Answer]) -> list[str]:
    """Pods with more than one device, and devices with another number of pods than was promised."""
    found = _grouped(
        {
            index: f"{one['devices']} devices visible instead of one"
            for index, one in seen.items()
            if one["devices"] != 1
        }
    )
    all_taken = promise.pods == promise.shares
    for id, pods in _by_device(seen).items():
        if len(pods) > promise.per_device or (all_taken and len(pods) < promise.per_device):
            found.append(
                f"{id} has {len(pods)} of the pods ({_pods(pods)}), {promise.per_device} were promised on each"
            )
    return found


def _missized(promise: Promise, seen: Mapping[int, Answer]) -> list[str]:
    least, most = promise.sees_mib
    wrong = {}
    for index, one in seen.items():
        sizes = [size for size in (one["total_mib"], one["info_total_mib"]) if not least <= size <= most]
        if sizes:
            wrong[index] = f"{sizes[0]:,} MiB of memory visible, not {least:,} to {most:,}"
    return _grouped(wrong)


def told(promise: Promise, found: list[str], seen: Mapping[int, Answer], came: int) -> str:
    """The verdict in words: one line of JSON when the promise is kept, else promise, fact and what to do."""
    looked = {index: one for index, one in seen.items() if "uuid" in one}
    by_device = _by_device(looked)
    if not found:
        measured = ("total_mib", "info_total_mib", "info_free_mib")
        return json.dumps(
            {
                "proved": promise.told,
                "devices": {id: {"name": seen[pods[0]]["name"], "pods": pods} for id, pods in by_device.items()},
                **{key: sorted({one[key] for one in seen.values()}) for key in measured},
                "held_mib": promise.within_mib,
                "refused_mib": None if promise.limit_mib is None else promise.above_mib,
            }
        )
    devices = [f"{looked[pods[0]]['name']} {id} with {_pods(pods)}" for id, pods in by_device.items()]
    facts = [f"{came} of {promise.pods} pods", *devices[:MOST_LINES]]
    more = [f"and {len(found) - MOST_LINES} more"] if len(found) > MOST_LINES else []
    return failure(promise, facts, [*found[:MOST_LINES], *more])


def failure(promise: Promise, facts: list[str], found: list[str]) -> str:
    """Promise, fact, what differs, what to do."""
    ways = [way for word, way in WAYS_OUT if any(word in one for one in found)]
    lines = [f"promised: {promise.told}", f"saw: {'; '.join(facts)}", *(f"- {one}" for one in found), *ways]
    return "\n".join([*lines, "Then run `pulumi up` again: it proves anew."])


def _by_device(seen: Mapping[int, Answer]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for index, one in seen.items():
        found.setdefault(one["uuid"], []).append(index)
    return found


def _grouped(statements: Mapping[int, str]) -> list[str]:
    """The same said of several pods is said once."""
    said: dict[str, list[int]] = {}
    for index, statement in statements.items():
        said.setdefault(statement, []).append(index)
    return [f"{_pods(pods)}: {statement}" for statement, pods in said.items()]


def _pods(indexes: list[int]) -> str:
    return f"pod{'s' if len(indexes) > 1 else ''} {', '.join(map(str, indexes))}"


def testify(promise: Promise, here: Here, index: int, judge: tuple[str, int], service: str, limit: float) -> Answer:
    """The part of every other pod: comes to the judge, answers it, and returns its verdict."""
    there = come(judge, time.monotonic() + limit)
    if there is None:
        facts = [f"{_running(service)} of {promise.pods} pods run"]
        return {"kept": False, "text": failure(promise, facts, [f"pod 0, the judge, did not come within {limit:g} s"])}
    there.tell({"index": index})
    while True:
        message = there.hear()
        if "question" in message:
            here.ask(message["question"])
            there.tell(here.hear())
        elif "verdict" in message:
            verdict: Answer = message["verdict"]
            return verdict
        else:
            found = ["pod 0, the judge, went away without a verdict"]
            return {"kept": False, "text": failure(promise, [f"pod {index} was asked {here.question!r}"], found)}


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
    here = Here(promise)
    # Three questions, and one more step to be told the verdict by.
    watch(limit + 4 * step, here, promise, index)
    if index == 0:
        verdict = preside(promise, here, port, limit, step)
    else:
        judge = environment["JUDGE"], port
        verdict = testify(promise, here, index, judge, environment["SERVICE"], limit)
    print(verdict["text"], file=sys.stdout if verdict["kept"] else sys.stderr, flush=True)
    return 0 if verdict["kept"] else 1


if __name__ == "__main__":
    sys.exit(main(os.environ))
