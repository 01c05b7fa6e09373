"""The pods of a share proof and their judge, over real connections in this process."""

import json
import os
import socket
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import asdict
from functools import partial
from typing import Any

import pytest

from components.share_proof.in_pod import shares
from components.share_proof.in_pod.shares import RemotePod, main, run_judge, run_member, watch
from components.share_proof.in_pod.verdict import Answer
from sharing.modes.modes import Exclusive
from tests.components.test_share_prober import free_port
from tests.components.test_share_verdict import ENFORCED, MPS, OWN_LIMITS, TIME_SLICES, Pod, expected_of

SHORT, LONG = 0.05, 60.0
"""Limits in seconds: one that a test reaches, and one that no test reaches."""
EXPECTED = TIME_SLICES.to_pods()


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shares, "PAUSE_SECONDS", 0.001)


class Aside(threading.Thread):
    """A call on another thread. All of them end with the test."""

    def __init__(self, call: Callable[[], Any]) -> None:
        super().__init__(daemon=True)
        self._call = call
        self.start()

    def run(self) -> None:
        self.result = self._call()

    def ends(self) -> Any:
        self.join(10)
        return self.result


def opened(index: int, fake: Mapping[str, str] | None = None) -> Pod:
    """A pod that has opened its share already, so that threads change no module."""
    pod = Pod(MPS if fake else TIME_SLICES, index, fake or {})
    pod.ask("look")
    assert "error" not in pod.receive()
    return pod


def member(port: int, index: int, pod: Pod, limit: float = LONG, back: float = LONG) -> Answer:
    return run_member(EXPECTED, pod, index, ("127.0.0.1", port), "localhost", limit, back)


def connect(port: int) -> socket.socket:
    found = shares.connect(("127.0.0.1", port), float("inf"))
    assert found
    return found._connection


class Slow(Pod):
    """A pod whose driver needs a while."""

    def receive(self, until: float | None = None) -> Answer:
        time.sleep(SHORT)
        return super().receive(until)


def test_the_judge_waits_for_all_pods_and_sends_them_its_verdict() -> None:
    port, pods = free_port(), [opened(0), Slow(TIME_SLICES, 1, {}), opened(2)]
    pods[1].ask("look")
    pods[1].receive()
    others = [Aside(partial(member, port, index, pods[index])) for index in (1, 2)]
    verdict = run_judge(EXPECTED, pods[0], port, LONG, LONG, LONG)
    assert verdict["kept"] is True
    assert json.loads(verdict["text"])["proved"] == EXPECTED.summary
    assert [other.ends() for other in others] == [verdict, verdict]


def test_a_pod_answers_the_judge_and_returns_its_verdict() -> None:
    port, pods = free_port(), [opened(index, ENFORCED) for index in range(3)]
    judge = Aside(lambda: run_judge(MPS.to_pods(), pods[0], port, LONG, LONG, LONG))
    Aside(lambda: member(port, 2, pods[2]))
    verdict = member(port, 1, pods[1])
    assert verdict == judge.ends()
    assert verdict["kept"]
    assert [pod.driver.ledger for pod in pods] == [[4096]] * 3


def test_a_pod_that_never_starts_is_named() -> None:
    verdict = run_judge(EXPECTED, opened(0), free_port(), SHORT, LONG, LONG)
    assert verdict["kept"] is False
    assert "found: 1 of 3 pods\n- pods 1, 2 did not start within 0.05 s\n" in verdict["text"]
    assert "Too few shares are free" in verdict["text"]


def test_a_judge_that_never_starts_is_named_with_the_running_pods(monkeypatch: pytest.MonkeyPatch) -> None:
    verdict = member(free_port(), 1, opened(1), limit=SHORT)
    assert verdict["kept"] is False
    assert "found: 1 of 3 pods are running" in verdict["text"]
    assert "- pod 0, which collects the results, did not start within 0.05 s" in verdict["text"]
    paused: list[float] = []
    monkeypatch.setattr("time.sleep", paused.append)
    nowhere = run_member(EXPECTED, opened(1), 1, ("127.0.0.1", free_port()), "no.such.invalid", SHORT, SHORT)
    assert "found: 0 of 3 pods are running" in nowhere["text"]
    assert set(paused) == {0.001}, "it tries again after a pause"


def test_a_pod_that_stops_and_is_not_replaced_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    port = free_port()
    Aside(lambda: member(port, 2, opened(2)))

    def stop() -> None:
        with closing(connect(port)) as stopping:
            stopping.sendall(b'{"index": 1}\n')
            stopping.recv(100)

    Aside(stop)
    verdict = run_judge(EXPECTED, opened(0), port, LONG, SHORT, LONG)
    assert "- pod 1 was interrupted and did not start again within 0.05 s" in verdict["text"]
    assert capsys.readouterr().err == "pod 1: interrupted; waiting for the replacement\n"


def test_an_interrupted_pod_is_replaced_and_asked_again() -> None:
    port, pods = free_port(), [opened(index) for index in range(3)]
    Aside(lambda: member(port, 2, pods[2]))

    def stop_and_come_back() -> Answer:
        with closing(connect(port)) as stopping:
            stopping.sendall(b'{"index": 1}\n')
            stopping.recv(100)
        return member(port, 1, pods[1])

    replaced = Aside(stop_and_come_back)
    verdict = run_judge(EXPECTED, pods[0], port, LONG, LONG, LONG)
    assert verdict["kept"]
    assert replaced.ends() == verdict


def test_a_judge_that_stops_is_found_again_or_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def stop() -> Any:
            connection, _ = server.accept()
            with connection, server:
                return json.loads(connection.makefile().readline())

        stopping = Aside(stop)
        server_port = server.getsockname()[1]
        verdict = run_member(EXPECTED, opened(2), 2, ("127.0.0.1", server_port), "localhost", LONG, SHORT)
        assert stopping.ends() == {"index": 2}
    assert verdict["kept"] is False
    assert "pod 0, which collects the results, was interrupted and did not start again within 0.05 s" in verdict["text"]


def test_a_pod_that_says_no_index_of_a_pod_is_none() -> None:
    came: dict[int, RemotePod] = {}
    port = free_port()
    # Pod 0 is the judge itself, and there are three; the second 1 replaces the first.
    said = [b'{"index": 0}\n', b'{"index": 3}\n', b'{"index": "1"}\n', b"[]\n", b"\n"]
    said += [b'{"index": 1}\n', b'{"index": 1}\n', b'{"index": 2}\n']
    with socket.create_server(("", port), backlog=16) as server:
        connections = []
        for words in said:
            connections.append(connect(port))
            connections[-1].sendall(words)
        shares.gather(server, 3, time.monotonic() + LONG, came)
    assert sorted(came) == [1, 2]
    for connection in connections[:6]:
        assert connection.recv(1) == b"", "the judge has closed it"
    came[1].send({"question": "look"})
    assert b"look" in connections[6].recv(100)


def test_a_second_interruption_gives_no_more_time(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    patience = shares.Patience(limit=10, back=60)
    ends = [patience.until]
    for now[0] in (5, 20):
        patience.renew()
        ends.append(patience.until)
    assert ends == [10, 65, 65]


def test_several_interrupted_pods_are_named_together() -> None:
    patience = shares.Patience(1, 2)
    assert patience.exhausted([1, 2], [2]) == "pods 1, 2 were interrupted and did not start again within 2 s"
    assert patience.exhausted([1], [2]) == "pod 1 did not start within 1 s"


def test_a_pod_that_hangs_has_another_reason_than_one_that_stopped() -> None:
    ours, theirs = socket.socketpair()
    pod = RemotePod(ours)
    assert pod.receive(0) == {"error": "hung and did not reply"}
    theirs.close()
    pod.ask("look")
    assert RemotePod(ours).receive(time.monotonic() + LONG) == {"error": "interrupted"}


def test_a_hanging_driver_ends_the_process_with_a_reason(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    ended: list[Any] = []
    monkeypatch.setattr(os, "_exit", ended.append)
    monkeypatch.setattr(threading, "Timer", Timer)
    pod = opened(2)
    pod.ask("within")
    watch(7, pod, EXPECTED, 2)
    assert (Timer.last.seconds, Timer.last.daemon, Timer.last.is_started) == (7, True, True)
    Timer.last.call()
    assert ended == [1]
    said = capsys.readouterr().err
    assert "found: no verdict within 7 s\n- pod 2 hung in the driver during step 'within'\n" in said
    assert "another user's processes use the MPS server" in said


class Timer:
    """A timer that nobody waits for."""

    last: "Timer"

    def __init__(self, seconds: float, call: Callable[[], None]) -> None:
        self.seconds, self.call, self.daemon, self.is_started = seconds, call, False, False
        Timer.last = self

    def start(self) -> None:
        self.is_started = True


def settings(expected: Any, index: int, **more: str) -> dict[str, str]:
    return {
        "EXPECTATION": json.dumps(asdict(expected.to_pods())),
        "JOB_COMPLETION_INDEX": str(index),
        "JUDGE": "127.0.0.1",
        "SERVICE": "localhost",
        "PORT": str(free_port()),
        "LIMIT_SECONDS": "0.05",
        "BACK_SECONDS": "2",
        "STEP_SECONDS": "3",
        "EXCLUSIVE_SECONDS": "0",
        **more,
    }


def test_the_program_ends_with_the_verdict(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(threading, "Timer", Timer)
    monkeypatch.setattr("ctypes.CDLL", Pod(MPS, 0, {}).load)
    one = expected_of(Exclusive())
    assert main(settings(one, 0)) == 0
    # Two attempts of three questions and a verdict, each after all pods have started.
    assert Timer.last.seconds == pytest.approx(0.05 + 2 + 8 * 3)
    said = capsys.readouterr()
    assert (json.loads(said.out)["proved"], said.err) == (one.summary, "")
    for index, missing in ((0, "pods 1, 2 did not start within 0.05 s"), (1, "pod 0, which collects")):
        assert main(settings(TIME_SLICES, index)) == 1
        said = capsys.readouterr()
        assert said.out == ""
        assert missing in said.err


def test_a_pod_sets_its_own_limit_before_it_uses_the_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threading, "Timer", Timer)
    monkeypatch.setenv("CUDA_MPS_PINNED_DEVICE_MEM_LIMIT", "")
    assert main(settings(OWN_LIMITS, 1)) == 1
    assert os.environ["CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"] == "0=3000M"
