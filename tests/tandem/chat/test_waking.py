"""`tandem run` on a stack that is parked, asleep or starting: the question, the wait, and how the cost ends."""

import io
import re
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tandem.chat import waking
from tandem.deployed import parking
from tandem.deployed.patience import Patience
from tests.command import Ended, call
from tests.tandem.deployed.fake_kubernetes import CORE
from tests.tandem.deployed.pretended import Clock
from tests.tandem.deployed.reachable import INTERCEPTOR, PODS, Reachable, reachable, types
from tests.tandem.fake_ollama import FakeOllama, ollama
from tests.tandem.seen import NODE, node, pending

pytestmark = pytest.mark.slow

PARK = {"schedule": "0 20 * * MON-FRI", "wake": "0 8 * * MON-FRI"}
GROUPS = {"instance-types": ["g4dn.xlarge"], "max": 1}
KARPENTER = {**GROUPS, "provisioner": "karpenter"}
BATCH = "/apis/batch/v1/namespaces/ollama"


@pytest.fixture
def llama() -> Iterator[FakeOllama]:
    with ollama("llama2:7b", pieces=["Here."]) as server:
        yield server


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Clock:
    """In which no real time passes."""
    clock = Clock()
    for module in (waking, parking):
        monkeypatch.setattr(
            module, "Patience", partial(Patience, clock=clock, sleep=lambda seconds: clock.sleep(seconds))
        )
    monkeypatch.setattr(sys, "stdin", io.StringIO(""))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    return clock


def run(stack: Reachable, *words: str) -> Ended:
    return call("run", str(stack.file), "llama2:7b", *words, *stack.way)


def after(clock: Clock, looks: int, do: Callable[[], object]) -> None:
    """Does something after this many pauses."""
    sleep = clock.sleep

    def pause(seconds: float) -> None:
        sleep(seconds)
        if len(clock.slept) == looks:
            do()

    clock.sleep = pause  # type: ignore[method-assign]


def hurry(clock: Clock) -> None:
    """Five minutes pass between two looks instead of five seconds."""
    sleep = clock.sleep
    clock.sleep = lambda seconds: sleep(60 * seconds)  # type: ignore[method-assign]


@pytest.fixture
def nightly(llama: FakeOllama, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Reachable]:
    """A stack with a schedule, whose node group has no nodes. `resized` has the calls that change it."""
    with reachable(tmp_path, {"llama2-7b": llama}, gpu_nodes=GROUPS, park=PARK) as found:
        found.kubernetes.answers[f"{CORE}/nodes"] = {"items": []}
        group = SimpleNamespace(pool="gpu", nodes=0, name="gpu-1")
        found.kubernetes.answers[PODS] = {"items": [pending("llama2-7b", "0/2 nodes are available")]}
        changed: list[str] = []

        def resize(parsed: Any, plan: Any, verb: str, connected: Any) -> None:
            changed.append(verb)
            group.nodes = 1

        monkeypatch.setattr(parking, "find_groups", lambda parsed, plan: [group])
        monkeypatch.setattr(parking, "resize", resize)
        found.resized = changed  # type: ignore[attr-defined]
        yield found


def resized(stack: Reachable) -> list[str]:
    found: list[str] = stack.resized  # type: ignore[attr-defined]
    return found


def bill(stack: Reachable) -> dict[str, Any]:
    found: dict[str, Any] = call("plan", str(stack.file), "--json").json["cost"]
    return found


def question(stack: Reachable, what: str, resting: float) -> str:
    """What the plan says of the stack: its price while it runs, and without GPU nodes."""
    price = rf"\${bill(stack)['usd_per_hour']:.3f} per hour instead of \${resting:.3f}\."
    return rf"{what}\. Waking it takes about \d+ minutes, sometimes \d+\. The stack then costs {price}"


def test_a_parked_stack_is_woken_after_a_yes_and_says_how_to_park_it_again(
    nightly: Reachable, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    types(monkeypatch, "y")
    after(clock, 3, lambda: nightly.runs("llama2-7b"))
    ended = run(nightly, "Where are you?")
    assert (ended.returncode, ended.stdout, resized(nightly)) == (0, "Here.\n", ["wake"])
    parked = bill(nightly)["week"]["parked_usd_per_hour"]
    asked, *waited = ended.stderr.splitlines()
    assert re.match(question(nightly, "stack mine is parked", parked), asked)
    [progress, *_] = waited
    assert progress == "Wake it? [y/N] Waiting for llama2:7b: no GPU node yet, 0 of about 8 min"
    assert ended.stderr.count("no GPU node yet") == 1, "the same line is not repeated at each look"
    assert ended.stderr.endswith(f"\nRun `tandem park {nightly.file}` to park it again.\n")


@pytest.mark.parametrize("answer", ["n", "", None])
def test_without_a_yes_nothing_is_changed(
    answer: str | None, nightly: Reachable, monkeypatch: pytest.MonkeyPatch
) -> None:
    types(monkeypatch, *([] if answer is None else [answer or " "]))
    ended = run(nightly, "Where are you?")
    assert (ended.returncode, ended.stdout, resized(nightly)) == (1, "", [])
    assert ended.stderr.endswith("hint: Nothing was changed.\n")


def test_without_a_terminal_only_yes_wakes_a_stack(nightly: Reachable, clock: Clock) -> None:
    ended = run(nightly, "Where are you?")
    assert (ended.returncode, resized(nightly)) == (1, [])
    assert ended.stderr.startswith("error: stack mine is parked. Waking it takes about ")
    assert ended.stderr.endswith(". Pass --yes to wake it without a question.\n")

    def start() -> None:
        clock.now += 0.26
        nightly.runs("llama2-7b")

    after(clock, 1, start)
    ended = run(nightly, "Where are you?", "--yes", "--json")
    assert (ended.returncode, ended.json["text"], ended.json["waited_s"], resized(nightly)) == (
        0,
        "Here.",
        5.3,
        ["wake"],
    )


def test_a_node_group_that_has_nodes_on_their_way_is_only_waited_for(
    nightly: Reachable, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    group = SimpleNamespace(pool="gpu", nodes=1, name="gpu-1")
    monkeypatch.setattr(parking, "find_groups", lambda parsed, plan: [group])
    answers = nightly.kubernetes.answers
    after(clock, 1, lambda: answers.update({f"{CORE}/nodes": {"items": [node(NODE)]}}))
    after(clock, 2, lambda: answers.update({PODS: {"items": [starting()]}}))
    after(clock, 3, lambda: nightly.runs("llama2-7b"))
    hurry(clock)
    ended = run(nightly, "Where are you?")
    assert (ended.returncode, ended.stdout, resized(nightly)) == (0, "Here.\n", [])
    assert ended.stderr.splitlines()[:3] == [
        "Waiting for llama2:7b: no GPU node yet, 0 of about 8 min",
        "Waiting for llama2:7b: no share of a GPU yet, 5 of about 8 min",
        "Waiting for llama2:7b: Pending, ContainerCreating, 10 of about 8 min",
    ]
    assert "to park it again" not in ended.stderr


def starting() -> dict[str, Any]:
    made = pending("llama2-7b", "")
    made["spec"]["nodeName"] = NODE
    waiting = {"restartCount": 0, "state": {"waiting": {"reason": "ContainerCreating"}}}
    made["status"] = {"phase": "Pending", "containerStatuses": [waiting]}
    return made


def test_a_start_that_takes_too_long_ends_with_the_reason(nightly: Reachable, clock: Clock) -> None:
    hurry(clock)
    ended = run(nightly, "Where are you?", "--yes")
    assert ended.returncode == 2
    assert sum(clock.slept) == 1800
    assert " min (later than expected)\n" in ended.stderr
    assert ended.stderr.endswith(
        "error: llama2:7b did not start within 30 minutes: no GPU node yet. See why with "
        f"`tandem verify {nightly.file}`.\n"
    )


@pytest.mark.parametrize(
    ("status", "code", "said"),
    [(503, 0, "Waiting for llama2:7b: 127.0.0.1:"), (403, 2, "denied access: no. Request an EKS access entry")],
)
def test_a_cluster_that_does_not_answer_for_a_moment_is_waited_for(
    status: int, code: int, said: str, nightly: Reachable, clock: Clock
) -> None:
    fake = nightly.kubernetes

    def fail() -> None:
        fake.answers[PODS], fake.status[PODS] = {"message": "no"}, status

    def answer() -> None:
        fake.status.clear()
        nightly.runs("llama2-7b")

    after(clock, 1, fail)
    after(clock, 2, answer)
    ended = run(nightly, "Where are you?", "--yes")
    assert (ended.returncode, said in ended.stderr) == (code, True)


def test_a_stack_without_a_schedule_is_only_waited_for(
    llama: FakeOllama, clock: Clock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing asks AWS for the nodes of such a stack."""
    monkeypatch.setattr(parking, "find_groups", None)
    with reachable(tmp_path, {"llama2-7b": llama}) as found:
        found.kubernetes.answers |= {f"{CORE}/nodes": {"items": []}, PODS: {"items": []}}
        after(clock, 1, lambda: found.runs("llama2-7b"))
        ended = run(found, "Where are you?")
    assert (ended.returncode, ended.stdout) == (0, "Here.\n")
    assert ended.stderr.startswith("Waiting for llama2:7b: no GPU node yet, 0 of about ")


def interrupt() -> None:
    raise KeyboardInterrupt


def test_ctrl_c_leaves_the_start_as_it_is_and_says_how_to_park_it(nightly: Reachable, clock: Clock) -> None:
    after(clock, 1, interrupt)
    ended = run(nightly, "Where are you?", "--yes")
    assert (ended.returncode, resized(nightly)) == (130, ["wake"])
    assert ended.stderr.endswith(
        f"\nThe stack keeps starting. Run `tandem park {nightly.file}` to park it again.\nInterrupted.\n"
    )


def test_karpenters_models_are_woken_by_the_job_of_the_schedule(
    llama: FakeOllama, clock: Clock, tmp_path: Path
) -> None:
    with reachable(tmp_path, {"llama2-7b": llama}, gpu_nodes=KARPENTER, park=PARK) as found:
        found.runs(replicas=0)
        name = "tandem-parking-wake"
        cron_job = {
            "metadata": {"name": name, "namespace": "ollama", "uid": "u"},
            "spec": {"jobTemplate": {"spec": {}}},
        }
        done = {"metadata": {"name": f"{name}-1"}, "status": {"conditions": [{"type": "Complete", "status": "True"}]}}
        found.kubernetes.answers |= {
            f"{BATCH}/cronjobs": {"items": [cron_job]},
            f"{BATCH}/jobs": {**done, "items": [done]},
        }
        after(clock, 1, lambda: found.runs("llama2-7b"))
        ended = run(found, "Where are you?", "--yes")
    assert (ended.returncode, ended.stdout) == (0, "Here.\n")
    assert [path for path, _ in found.kubernetes.created] == [f"{BATCH}/jobs"]
    assert ended.stderr.endswith("to park it again.\n")


@pytest.fixture
def sleepy(llama: FakeOllama, tmp_path: Path) -> Iterator[Reachable]:
    """A stack whose model scales to zero. The interceptor's port leads to the server of the model."""
    # The plan shows the slowest start, so there is one model.
    sections = {"gpu_nodes": KARPENTER, "models": [{"name": "llama2:7b"}], "scale_to_zero": {"enabled": True}}
    with reachable(tmp_path, {}, **sections) as found:
        found.runs(replicas=0)
        interceptor = {
            "metadata": {
                "name": "interceptor-0",
                "namespace": "keda",
                "labels": {"app.kubernetes.io/component": "interceptor", "app.kubernetes.io/name": "http-add-on"},
            },
            "status": {"conditions": [{"type": "Ready", "status": "True"}]},
        }
        found.kubernetes.answers[INTERCEPTOR] = {"items": [interceptor]}
        found.kubernetes.leads[f"{INTERCEPTOR}/interceptor-0"] = int(llama.url.rpartition(":")[2])
        yield found


def test_a_sleeping_model_is_woken_by_a_request_and_asked_through_the_interceptor(
    sleepy: Reachable, llama: FakeOllama, clock: Clock
) -> None:
    after(clock, 2, lambda: sleepy.runs("llama2-7b"))
    ended = run(sleepy, "Where are you?", "--yes")
    assert (ended.returncode, ended.stdout) == (0, "Here.\n")
    assert [path for path, _ in llama.asked] == ["/api/generate", "/api/generate", "/api/chat"]
    assert llama.requests[0] == {"model": "llama2:7b"}
    idle = call("plan", str(sleepy.file), "--json").json["scale_to_zero"]["idle_usd_per_hour"]
    assert re.match(question(sleepy, "llama2:7b sleeps", idle), ended.stderr)
    # What the plan says of a request for a stopped model.
    plan = " ".join(call("plan", str(sleepy.file)).stdout.split())
    waits = re.search(r"the next request waits (about \d+ minutes, sometimes \d+)", plan)
    assert waits
    assert f"Waking it takes {waits[1]}." in ended.stderr
    assert "Waiting for llama2:7b: its start is requested, 0 of about" in ended.stderr
    assert ended.stderr.endswith("\nllama2:7b stops after 15 minutes without requests.\n")


def test_ctrl_c_leaves_the_start_of_a_sleeping_model_as_it_is(sleepy: Reachable, clock: Clock) -> None:
    after(clock, 1, interrupt)
    ended = run(sleepy, "Where are you?", "--yes")
    assert ended.returncode == 130
    assert ended.stderr.endswith(
        "\nThe model keeps starting. llama2:7b stops after 15 minutes without requests.\nInterrupted.\n"
    )


def test_a_model_that_falls_asleep_during_a_conversation_is_woken_without_another_question(
    sleepy: Reachable, llama: FakeOllama, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    types(monkeypatch, "yes", "Hello?", "Still there?")
    after(clock, 1, lambda: sleepy.runs("llama2-7b"))
    answered: Any = waking.Waker.wake
    calls: list[float] = []

    def wake(waker: waking.Waker) -> float:
        if len(calls) == 2:
            sleepy.runs(replicas=0)
            after(clock, len(clock.slept) + 1, lambda: sleepy.runs("llama2-7b"))
        calls.append(answered(waker))
        return calls[-1]

    monkeypatch.setattr(waking.Waker, "wake", wake)
    ended = run(sleepy)
    assert (ended.returncode, ended.stderr.count("Wake it? ")) == (0, 1)
    assert calls == [5.0, 0.0, 5.0]
    assert "Ready after 5 s.\n" in ended.stderr
    assert [path for path, _ in llama.asked if path == "/api/chat"] == ["/api/chat"] * 2


@pytest.mark.parametrize(
    ("items", "says"),
    [
        ([], "error: the cluster has no Deployment ollama/llama2-7b. Run `pulumi up --stack mine`.\n"),
        (
            None,
            "error: the Deployment ollama/llama2-7b has 0 replicas. Run `kubectl --namespace ollama scale deployment "
            "llama2-7b --replicas 1`.\n",
        ),
    ],
)
def test_a_model_that_nothing_starts_is_one_line(
    items: list[Any] | None, says: str, llama: FakeOllama, tmp_path: Path
) -> None:
    with reachable(tmp_path, {"llama2-7b": llama}) as found:
        found.runs(replicas=0)
        if items is not None:
            found.kubernetes.answers["/apis/apps/v1/namespaces/ollama/deployments"] = {"items": items}
        assert run(found, "Where are you?") == Ended(2, "", says)
