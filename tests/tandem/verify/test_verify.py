"""All of `verify`: it repeats its checks until every expectation holds or time is up. Servers are small but real."""

from contextlib import nullcontext
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from sharing.sections.scale_to_zero import ScaleToZeroSettings
from tandem.deployed import connection
from tandem.deployed.connection import Reach
from tandem.deployed.endpoints import NotConnectedError
from tandem.deployed.patience import Patience
from tandem.verify.sleep import WAKERS
from tandem.verify.verify import Verdict, facts_of, verify
from tests.command import call
from tests.tandem.deployed.pretended import Clock, Cluster, connected, reaching, well
from tests.tandem.fake_ollama import GIB, FakeOllama, loaded
from tests.tandem.seen import deployment, facts, node, pending, planned, pod, under_mps


@pytest.fixture
def reach(llama: FakeOllama, mistral: FakeOllama) -> Reach:
    return reaching(llama2_7b=llama, mistral_7b=mistral)


def verified(cluster: Cluster, reach: Reach, wait: float = 0, *, overfill: bool = False) -> tuple[Verdict, list[str]]:
    shown: list[str] = []
    clock = Clock()
    patience = Patience(wait, tell=shown.append, clock=clock, sleep=clock.sleep)
    return verify(connected(cluster), patience=patience, overfill=overfill, reach=reach), shown


def test_a_healthy_stack_passes(reach: Reach) -> None:
    verdict, shown = verified(well(), reach)
    assert verdict.holds
    assert shown == ["Checking nodes and pods …", "Loading llama2-7b and mistral-7b …"]
    assert {check.held for check in verdict.checks} == {True}
    assert len(verdict.checks) == 9 + 2 * 10
    assert verdict.as_dict()["verdict"] == "holds"
    assert verdict.as_dict()["first_broken"] is None


def test_objects_are_read_where_the_stack_has_some() -> None:
    for stack, seen in (("timeslice", facts()), ("mps", under_mps())):
        cluster = Cluster(seen)
        found = facts_of(connected(cluster, stack=stack))
        assert cluster.looked_in == ["ollama"]
        assert {pod["metadata"]["namespace"] for pod in found.pods} == {"ollama"}
        assert [pod["metadata"]["namespace"] for pod in found.mps_pods] == ["nvidia-device-plugin"] * len(seen.mps_pods)
        assert [bool(sets) for sets in found.daemon_sets.values()] == [True]


def test_json_says_what_holds_and_what_is_in_the_cluster(llama: FakeOllama, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = well()
    monkeypatch.setattr(connection, "reached", lambda *_: nullcontext(connected(cluster)))
    cluster.url, llama.models = llama.url, ("llama2:7b", "mistral:7b")
    ended = call("verify", "timeslice", "--json")
    assert ended.returncode == 0
    shown = ended.json
    checks, waited_s = shown.pop("checks"), shown.pop("waited_s")
    assert (round(waited_s, 1), len(checks)) == (waited_s, 29)
    assert shown == {
        "schema_version": 1,
        "stack": "timeslice",
        "cluster": "api.example",
        "verdict": "holds",
        "first_broken": None,
    }
    assert {tuple(check) for check in checks} == {("about", "what", "held", "promised", "found", "fix")}
    assert call("verify", "timeslice").stdout.endswith(
        "passed: timeslice on api.example: 29 of 29 checks passed, 0 failed\n"
    )


def test_a_spill_is_found_and_explained(reach: Reach, mistral: FakeOllama) -> None:
    mistral.answers["/api/ps"] = {"models": [loaded("mistral:7b", 5 * GIB, 4 * GIB)]}
    verdict, _ = verified(well(), reach)
    [broken] = verdict.broken
    assert (broken.about, broken.what) == ("model mistral-7b", "all layers on the GPU")
    shown = verdict.as_dict()
    assert shown["verdict"] == "broken"
    assert shown["first_broken"]["fix"] == broken.fix != ""
    assert {check["fix"] for check in shown["checks"] if check["held"]} == {""}


def test_a_stack_that_has_scaled_to_zero_passes_while_keda_runs(reach: Reach, llama: FakeOllama) -> None:
    keda = [{"metadata": {"name": name}, "status": {"readyReplicas": 1}} for name in WAKERS]
    asleep = [deployment(id) for id in ("llama2-7b", "mistral-7b")]
    plan = planned()
    plan = replace(plan, config=plan.config.changed(scale_to_zero=ScaleToZeroSettings(enabled=True)))
    for deployments, holds in ([*keda, *asleep], True), (asleep, False):
        cluster = Cluster(replace(facts(), nodes=[], pods=[], deployments=deployments))
        verdict = verify(replace(connected(cluster), plan=plan), patience=Patience(0), reach=reach)
        assert verdict.holds is holds
        assert [check.what for check in verdict.checks if check.about.startswith("model")] == ["scaled to zero"] * 2
        assert cluster.looked_in == ["keda", "ollama"]
        assert {check.about for check in verdict.broken} == (set() if holds else {"scale-to-zero"})
    assert llama.asked == []


def test_a_server_is_asked_only_when_its_pod_is_ready(reach: Reach, llama: FakeOllama, mistral: FakeOllama) -> None:
    seen = replace(facts(), pods=[pod("llama2-7b"), pending("mistral-7b", "Insufficient nvidia.com/gpu")])
    verdict, _ = verified(Cluster(seen), reach)
    assert llama.asked
    assert not mistral.asked
    about = [check.held for check in verdict.checks if check.about == "model mistral-7b"]
    assert about == [True, False, None, True, None, None, None, None, None, None]


def test_a_server_that_cannot_be_reached_is_reported_with_the_reason_of_its_forwarded_port(llama: FakeOllama) -> None:
    ways: Any = {
        "llama2-7b": SimpleNamespace(url=llama.url, trouble=""),
        "mistral-7b": SimpleNamespace(url="http://127.0.0.1:1", trouble="the pod has just been deleted"),
    }
    verdict, _ = verified(well(), lambda _: nullcontext(ways))
    assert [check.about for check in verdict.broken if "the pod has just been deleted" in check.found] == [
        "model mistral-7b"
    ]


def test_with_wait_it_looks_again_until_all_holds(reach: Reach) -> None:
    cluster = Cluster(replace(facts(), nodes=[], pods=[]))
    steps = [replace(facts(), pods=[]), facts()]

    class Changing(Clock):
        def sleep(self, seconds: float) -> None:
            super().sleep(seconds)
            cluster.facts = steps.pop(0)

    clock, shown = Changing(), list[str]()
    patience = Patience(60, tell=shown.append, clock=clock, sleep=clock.sleep)
    verdict = verify(connected(cluster), patience=patience, reach=reach)
    assert verdict.holds
    assert verdict.waited_s == sum(clock.slept) == 10
    waiting = [line for line in shown if "waiting for" in line]
    assert waiting[0].endswith("waiting for pool gpu, nodes ready: 0")
    assert waiting[1].endswith("waiting for model llama2-7b, pod ready: no pod")


@pytest.mark.parametrize("seconds", [0, 12])
def test_time_is_up_when_it_is_up(seconds: float, reach: Reach) -> None:
    verdict, shown = verified(Cluster(replace(facts(), nodes=[node(shares=1)])), reach, wait=seconds)
    assert (verdict.holds, verdict.waited_s) == (False, seconds)
    progress = "28 of 29 checks passed; waiting for pool gpu, nvidia.com/gpu per node: 1 on ip-10-0-1-2"
    assert {line for line in shown if "waiting" in line} == ({progress} if seconds else set())


def test_only_a_cluster_that_is_unavailable_for_a_moment_is_waited_for(reach: Reach) -> None:
    cluster = well()
    cluster.fails = [NotConnectedError("cannot be reached", passing=True)]
    verdict, shown = verified(cluster, reach, wait=60)
    assert verdict.holds
    assert "cannot be reached" in shown
    for error, wait in ((NotConnectedError("cannot be reached", passing=True), 0), (NotConnectedError("no"), 60)):
        cluster.fails = [error]
        with pytest.raises(NotConnectedError, match=str(error)):
            verified(cluster, reach, wait=wait)


@pytest.mark.slow
def test_overfill_is_one_more_expectation(reach: Reach) -> None:
    cluster = well()
    verdict, _ = verified(cluster, reach, overfill=True)
    assert verdict.holds
    cluster = Cluster(facts(), shares=3)
    verdict, _ = verified(cluster, reach, overfill=True)
    assert not verdict.holds
    assert cluster.made == []


@pytest.mark.slow
def test_the_pods_of_overfill_come_from_the_registry_of_the_stack(reach: Reach) -> None:
    cluster, used = well(), set[str]()
    cluster.on_create = lambda: used.add(cluster.made[-1]["spec"]["containers"][0]["image"])
    plan = planned()
    plan = replace(plan, config=plan.config.changed(registry="registry.example.com/tandem"))
    verify(replace(connected(cluster), plan=plan), patience=Patience(0), overfill=True, reach=reach)
    digest = "sha256:ee6521f290b2168b6e0935a181d4cff9be1ac3f505666ef0e3c98fae8199917a"
    assert used == {f"registry.example.com/tandem/pause:3.10@{digest}"}


def test_a_pool_that_breaks_an_expectation_is_not_overfilled(reach: Reach) -> None:
    cluster = Cluster(replace(facts(), nodes=[node(shares=1)]))
    verdict, shown = verified(cluster, reach, overfill=True)
    assert verdict.checks[-1].found == "not tried: another check of the pool failed"
    assert shown[-1] == "Starting one pod too many …"
    assert cluster.deleted == []
