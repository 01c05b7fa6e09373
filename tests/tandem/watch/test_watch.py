"""Repeated looks: their content, the changes since the last one, and the display at every width."""

from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from tandem.deployed import connection
from tandem.deployed.endpoints import NotConnectedError
from tandem.watch import screen, watch
from tandem.watch.watch import Look, looks, lost, with_events
from tests.command import call
from tests.tandem.deployed.pretended import Cluster, connected, reaching, well
from tests.tandem.fake_ollama import GIB, FakeOllama, loaded
from tests.tandem.seen import NODE, facts, pending, pod, restarting, under_mps
from tests.tandem.shown import NOON, after, memory, model


def with_plugin(cluster: Cluster) -> Cluster:
    plugin = pod("plugin", "nvidia-device-plugin-x1")
    plugin["spec"]["containers"] = [{"name": "nvidia-device-plugin-ctr"}]
    cluster.facts = replace(cluster.facts, pods=[*cluster.facts.pods, plugin])
    return cluster


def watched(cluster: Cluster, llama: FakeOllama, mistral: FakeOllama, **how: Any) -> Iterator[Look]:
    reach = reaching(llama2_7b=llama, mistral_7b=mistral)
    return looks(connected(cluster), interval=0, reach=reach, sleep=lambda _: None, **how)


def test_a_look_has_models_gpus_and_pods(llama: FakeOllama, mistral: FakeOllama) -> None:
    mistral.answers["/api/ps"] = {"models": []}
    [look] = watched(with_plugin(well()), llama, mistral, once=True)
    one, other = look.models
    assert (one.id, one.state, one.restarts, one.node) == ("llama2-7b", "ready", 0, NODE)
    assert one.memory is not None
    assert (one.memory.size, one.memory.context) == (5 * GIB, 2048)
    assert other.memory is None
    assert [(gpu.name, gpu.used_mib) for gpu in look.gpus] == [("Tesla T4", 9300)]
    assert look.trouble == ()


def test_a_stack_without_nodes_and_pods_says_so(llama: FakeOllama, mistral: FakeOllama) -> None:
    plain = connected(Cluster(replace(facts(), nodes=[], pods=[])))
    config = plain.plan.config
    parked = replace(plain.plan, config=config.changed(pools=[config.pools[0].changed(desired=0)]))
    reach = reaching(llama2_7b=llama, mistral_7b=mistral)
    for plan, state in ((plain.plan, "no pod"), (parked, "parked")):
        fits = tuple(replace(fit, pool=plan.config.pools[0]) for fit in plan.verdict.fits)
        known = replace(plain, plan=replace(plan, verdict=replace(plan.verdict, fits=fits)))
        [look] = looks(known, interval=0, reach=reach, once=True)
        shown = [(model.state, model.pod, model.node, model.ready, model.restarts) for model in look.models]
        assert shown == [(state, "", "", False, 0)] * 2
        assert look.trouble == ("no GPU node",)
    assert llama.asked == []


def test_speed_is_measured_only_when_asked_and_only_of_a_loaded_model(llama: FakeOllama, mistral: FakeOllama) -> None:
    mistral.answers["/api/ps"] = {"models": []}
    [look] = watched(well(), llama, mistral, once=True)
    assert {model.tokens_per_s for model in look.models} == {None}
    [look] = watched(well(), llama, mistral, once=True, probe=True)
    assert [model.tokens_per_s for model in look.models] == [50.0, None]
    assert "/api/generate" not in [path for path, _ in mistral.asked], "a request would load it"


def test_a_model_that_waits_for_a_more_important_one_says_so(llama: FakeOllama, mistral: FakeOllama) -> None:
    cluster = well()
    waits = pending("llama2-7b", "0/3 nodes are available: 1 Insufficient nvidia.com/gpu.")
    waits["spec"]["priority"] = -10
    cluster.facts = replace(cluster.facts, pods=[waits, pod("mistral-7b")])
    [look] = watched(cluster, llama, mistral, once=True)
    assert look.models[0].state.endswith(", more important models hold the shares: mistral-7b")
    assert not look.models[0].ready


def test_a_pod_that_is_not_ready_is_shown_and_not_asked(llama: FakeOllama, mistral: FakeOllama) -> None:
    cluster = Cluster(replace(facts(), pods=[restarting("llama2-7b", "spilled"), pod("mistral-7b")]))
    [look] = watched(cluster, llama, mistral, once=True)
    assert "3 restarts, the last: spilled" in look.models[0].state
    assert look.models[0].restarts == 3
    assert llama.asked == []


def test_a_replaced_pod_and_a_dropped_connection_are_reported_and_survived(
    llama: FakeOllama, mistral: FakeOllama
) -> None:
    cluster = well()
    seen = watched(cluster, llama, mistral)
    assert next(seen).events == ()
    llama.answers["/api/ps"] = b"half an answ"
    look = next(seen)
    [event] = look.events
    assert event.startswith("llama2-7b: lost the connection: does not answer /api/ps as Ollama does (")
    assert next(seen).events == ()
    llama.answers["/api/ps"] = {"models": [loaded("llama2:7b")]}
    cluster.facts = replace(facts(), pods=[pod("llama2-7b", "llama2-7b-new"), pod("mistral-7b")])
    look = next(seen)
    assert look.events == (
        "llama2-7b: pod llama2-7b-5d4 was replaced by llama2-7b-new",
        "llama2-7b: connected again",
    )
    assert look.models[0].memory is not None


def test_a_port_that_leads_nowhere_says_why() -> None:
    ways: Any = dict.fromkeys(("llama2-7b", "mistral-7b"), SimpleNamespace(url="http://127.0.0.1:1", trouble="no pod"))
    [look] = looks(connected(well()), interval=0, reach=lambda _: nullcontext(ways), once=True)
    assert [model.trouble for model in look.models] == ["no pod"] * 2


def test_a_lost_cluster_is_reported_and_no_old_number_is_shown(llama: FakeOllama, mistral: FakeOllama) -> None:
    cluster = with_plugin(well())
    seen = watched(cluster, llama, mistral)
    first = next(seen)
    assert first.gpus
    cluster.fails = [NotConnectedError("cannot be reached"), NotConnectedError("cannot be reached")]
    for _ in range(2):
        look = next(seen)
        assert look.trouble == ("cluster: cannot be reached",)
        assert look.gpus == ()
        assert {model.memory for model in look.models} == {None}
        assert look.events == ()
    look = next(seen)
    assert look.events == ("the cluster answers again",)
    assert look.gpus


def test_a_cluster_that_is_unavailable_at_first_ends_it(llama: FakeOllama, mistral: FakeOllama) -> None:
    cluster = well()
    cluster.fails = [NotConnectedError("cannot be reached", passing=True)]
    with pytest.raises(NotConnectedError):
        next(watched(cluster, llama, mistral))


MODEL = model("llama2-7b")
LOOK = Look(at=NOON, stack="timeslice", models=(MODEL,), gpus=(), trouble=())


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        (7_199, "119 min"),
        (7_200, "2 h"),
        (172_799, "47 h"),
        (172_800, "2 days"),
        (63_071_999, "729 days"),
        (63_072_000, "2 years"),
    ],
)
def test_a_time_has_the_largest_unit_of_which_there_are_two(seconds: int, said: str) -> None:
    known = memory(after(seconds=seconds))
    assert f"  context 4,096, until in {said}" in screen.lines(replace(LOOK, models=(replace(MODEL, memory=known),)))


def test_the_options_decide_what_is_looked_at_and_how_often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every two seconds by the reference of the command line."""
    given: list[dict[str, Any]] = []

    def look(connected: Any, **how: Any) -> Iterator[Look]:
        given.append(how)
        yield LOOK

    monkeypatch.setattr(connection, "reached", lambda *_: nullcontext())
    monkeypatch.setattr(watch, "looks", look)
    assert call("watch", "timeslice").stdout.startswith("timeslice at ")
    assert watch.now().microsecond == 0
    ended = call("watch", "timeslice", "--once", "--probe", "--interval", "7", "--json")
    assert (ended.json["stack"], ended.stdout.count("\n")) == ("timeslice", 1), "a line for each look"
    assert given == [
        {"probe": False, "interval": 2, "once": False},
        {"probe": True, "interval": 7, "once": True},
    ]


def test_of_a_lost_cluster_only_names_are_known(monkeypatch: pytest.MonkeyPatch) -> None:
    later = NOON.replace(hour=13)
    monkeypatch.setattr(watch, "now", lambda: later)
    busy = replace(MODEL, trouble="no answer", outside_mps="no daemon", tokens_per_s=9.0)
    away = lost(replace(LOOK, models=(busy,), events=("llama2-7b: connected again",)), "why")
    known = replace(MODEL, state="unknown", ready=False, memory=None, tokens_per_s=None)
    assert away == Look(at=later, stack="timeslice", models=(known,), gpus=(), trouble=("cluster: why",))


def test_looks_are_an_interval_apart(llama: FakeOllama, mistral: FakeOllama) -> None:
    slept: list[float] = []
    reach = reaching(llama2_7b=llama, mistral_7b=mistral)
    seen = looks(connected(well()), interval=7, reach=reach, sleep=slept.append)
    for _ in range(3):
        next(seen)
    assert slept == [7, 7]


def test_a_restart_in_the_same_pod_is_an_event() -> None:
    again = replace(MODEL, restarts=1, state="ready, 1 restart, the last: Error")
    [event] = with_events(LOOK, replace(LOOK, models=(again,))).events
    assert event == "llama2-7b: its container restarted (ready, 1 restart, the last: Error)"
    gone = replace(MODEL, ready=False, state="Running, not ready", memory=None)
    assert with_events(LOOK, replace(LOOK, models=(gone,))).events == (
        "llama2-7b: no longer ready (Running, not ready)",
    )
    assert with_events(replace(LOOK, models=(gone,)), LOOK).events == ("llama2-7b: ready",)


def test_a_model_outside_mps_is_shown_and_is_an_event(llama: FakeOllama, mistral: FakeOllama) -> None:
    cluster = Cluster(under_mps())
    reach = reaching(llama2_7b=llama, mistral_7b=mistral)
    seen = looks(connected(cluster, stack="mps"), interval=0, reach=reach, sleep=lambda _: None)
    assert {model.outside_mps for model in next(seen).models} == {""}
    cluster.facts = under_mps("10:01")
    look = next(seen)
    outside = f"the MPS daemon on {NODE} started at 2026-11-26T10:01:00Z, after the server"
    assert look.events == (f"llama2-7b: outside MPS ({outside})", f"mistral-7b: outside MPS ({outside})")
    assert f"mistral-7b is outside MPS: {outside}" in list(screen.lines(look))
    cluster.facts = under_mps("10:01", "10:02")
    assert {model.outside_mps for model in next(seen).models} == {""}
