"""Waits until a model answers: wakes it if it is parked or scaled to zero, and if the user agrees to the cost."""

import argparse
import math
import sys
from contextlib import closing, suppress
from dataclasses import dataclass
from typing import Literal

from sharing.cost.bill import Cost
from sharing.models.served import ServedModel
from sharing.names import OLLAMA_NAMESPACE
from sharing.printable import counted
from sharing.sections.pools import GpuPool
from sharing.sections.startup import after_a_reclaim, cold_start
from tandem.deployed import parking
from tandem.deployed.connection import Connected
from tandem.deployed.endpoints import NotConnectedError
from tandem.deployed.objects import INSTANCE_LABEL, is_ready, name, node_of, nodes_of, pod_of, state
from tandem.deployed.parking import KARPENTER
from tandem.deployed.patience import Patience
from tandem.deployed.wire import Wire, WireError
from tandem.terminal import FAILED, CallError, print_line, progress

Kind = Literal["ready", "starting", "parked", "asleep"]
WAIT_SECONDS = 1800.0
"""How long to wait, as `tandem verify --wait` does."""
KNOCK_SECONDS = 5.0
"""How long a request waits that only wakes a model. KEDA's scaler looks for requests twice a second, and a caller that
hangs up does not stop the start (docs/how-to/scale-to-zero.md)."""
SECONDS_PER_MINUTE = 60


class NotWokenError(CallError):
    """The user does not agree, or is not there to be asked."""

    exit_code = FAILED


@dataclass(frozen=True, slots=True)
class Found:
    """Whether a model answers."""

    kind: Kind
    words: str = ""
    """What is missing, for a model that starts."""


NO_NODE = Found("starting", "no GPU node yet")


class Waker:
    """Makes one model of a stack answer."""

    def __init__(self, parsed: argparse.Namespace, connected: Connected, served: ServedModel, url: str) -> None:
        """`url` is a forwarded port to the model, as its clients reach it."""
        self._parsed, self._connected, self._served, self._url = parsed, connected, served, url
        self._plan, self._config = connected.plan, connected.plan.config
        self.woke: Kind | None = None
        """What the model was before it was woken; None if it was not."""

    @property
    def again(self) -> str:
        """How the cost of the GPU ends, for a model that was woken; empty for another."""
        if self.woke == "parked":
            return f"Run `tandem park {self._parsed.stack}` to park it again."
        if self.woke == "asleep":
            idle = counted(self._config.scale_to_zero.idle_minutes, "minute")
            return f"{self._served.model.name} stops after {idle} without requests."
        return ""

    def wake(self) -> float:
        """Returns once the model answers: the seconds that it took.

        Raises `NotWokenError` if the user says no, `NotConnectedError` when patience ends, and what parking raises.
        """
        found = self._look()
        if found.kind == "ready":
            return 0.0
        if found == NO_NODE and self._is_parked():
            found = Found("parked")
        if found.kind != "starting":
            # A model that falls asleep while you think was agreed to before.
            if found.kind == "parked" or self.woke is None:
                self._ask(found.kind)
            self.woke = found.kind
        try:
            if found.kind == "parked":
                parking.resize(self._parsed, self._plan, "wake", self._connected)
            with progress(quiet=self._parsed.json) as tell:
                return self._wait(Patience(WAIT_SECONDS, tell=tell))
        except KeyboardInterrupt:
            print_line(self._left_as_it_is(), sys.stderr)
            raise

    def _look(self) -> Found:
        """The model as Kubernetes shows it."""
        cluster, pool = self._connected.cluster, self._pool
        pod = pod_of(self._served.id, cluster.pods(OLLAMA_NAMESPACE, {INSTANCE_LABEL: self._served.id}))
        if pod and is_ready(pod):
            return Found("ready")
        own = [each for each in cluster.deployments(OLLAMA_NAMESPACE) if name(each) == self._served.id]
        if not own:
            raise NotConnectedError(
                f"the cluster has no Deployment {OLLAMA_NAMESPACE}/{self._served.id}. Run `pulumi up --stack "
                f"{self._plan.stack}`."
            )
        if own[0]["spec"].get("replicas") == 0:
            if self._config.scale_to_zero.enabled:
                return Found("asleep")
            if self._config.park and pool.provisioner == KARPENTER:
                return Found("parked")
            raise NotConnectedError(
                f"the Deployment {OLLAMA_NAMESPACE}/{self._served.id} has 0 replicas. Run `kubectl --namespace "
                f"{OLLAMA_NAMESPACE} scale deployment {self._served.id} --replicas 1`."
            )
        if pod and node_of(pod):
            return Found("starting", state(pod))
        return Found("starting", "no share of a GPU yet") if nodes_of(pool.name, cluster.nodes()) else NO_NODE

    def _is_parked(self) -> bool:
        """Whether the pool has no node because EKS wants none: Kubernetes shows the same while one starts."""
        if not self._config.park or self._pool.provisioner == KARPENTER:
            return False
        groups = [each for each in parking.find_groups(self._parsed, self._plan) if each.pool == self._pool.name]
        return bool(groups) and not any(each.nodes for each in groups)

    @property
    def _pool(self) -> GpuPool:
        return next(pool for pool in self._config.pools if pool.name == self._served.pool)

    @property
    def expected(self) -> tuple[int, int]:
        """Usual minutes until the model answers that has no node, and minutes of a slow start, as in the plan."""
        if self._config.scale_to_zero.enabled:
            minutes, spread = cold_start(self._served)
        else:
            minutes, spread = after_a_reclaim(self._pool, self._config)
        return round(minutes), math.ceil(minutes + spread)

    def _ask(self, kind: Kind) -> None:
        """Raises `NotWokenError` unless the user agrees to the cost."""
        usual, slow = self.expected
        cost = self._plan.verdict.cost
        assert cost is not None, "an accepted stack has a bill"
        what = f"stack {self._plan.stack} is parked" if kind == "parked" else f"{self._served.model.name} sleeps"
        price = f"${cost.usd_per_hour:.3f} per hour instead of ${_resting_usd(cost):.3f}"
        wait = f"takes about {counted(usual, 'minute')}, sometimes {slow}"
        if self._parsed.yes:
            print_line(f"{what}. Waking it {wait}. The stack then costs {price}.", sys.stderr)
        elif not sys.stdin.isatty():
            raise NotWokenError(
                f"{what}. Waking it {wait}, and the stack then costs {price}. Pass --yes to wake it without a question."
            )
        else:
            print_line(f"{what}. Waking it {wait}. The stack then costs {price}.", sys.stderr)
            print_line("Wake it? [y/N]", sys.stderr, end=" ")
            try:
                answer = input()
            except EOFError:
                answer = ""
            if answer.strip().lower() not in ("y", "yes"):
                raise NotWokenError("hint: Nothing was changed.")

    def _wait(self, patience: Patience) -> float:
        while True:
            try:
                found = self._look()
                if found.kind == "ready":
                    return patience.waited
                if found.kind == "asleep":
                    # Again after every look: without requests, a start that takes very long ends.
                    self._knock()
                why = found.words or "its start is requested"
            except NotConnectedError as error:
                if not error.passing:
                    raise
                why = str(error)
            if not patience.lasts(self._progress(why, patience.waited)):
                limit = counted(round(WAIT_SECONDS / SECONDS_PER_MINUTE), "minute")
                raise NotConnectedError(
                    f"{self._served.model.name} did not start within {limit}: {why}. "
                    f"See why with `tandem verify {self._parsed.stack}`."
                )

    def _progress(self, why: str, waited: float) -> str:
        usual, slow = self.expected
        late = " (later than expected)" if waited > slow * SECONDS_PER_MINUTE else ""
        return f"Waiting for {self._served.model.name}: {why}, {_clock(waited)} of about {usual} min{late}"

    def _knock(self) -> None:
        with closing(Wire(self._url)) as wire, suppress(WireError):
            asked = {"model": self._served.model.name}
            with wire.answer("POST", "/api/generate", asked, seconds=KNOCK_SECONDS) as answer:
                answer.body()

    def _left_as_it_is(self) -> str:
        what = "The stack keeps starting" if self.woke != "asleep" else "The model keeps starting"
        return f"{what}. {self.again}".strip() if self.again else f"{what}."


def _resting_usd(cost: Cost) -> float:
    """USD per hour of the stack without its GPU nodes."""
    if cost.idle_usd_per_hour is not None:
        return cost.idle_usd_per_hour
    assert cost.week, "only a stack with a schedule is parked"
    return cost.week.parked_usd_per_hour


def _clock(seconds: float) -> str:
    """E.g. `2:05`; in a pipe, where each new text is a line, whole minutes."""
    minutes, rest = divmod(round(seconds), SECONDS_PER_MINUTE)
    return f"{minutes}:{rest:02}" if sys.stderr.isatty() else str(minutes)
