"""Every row of a verdict, whole, for each way in which a stack differs from its file: what was expected, what was found
and what repairs it. `--regen` writes `tests/golden/verdicts.txt`.
"""

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

from tandem.deployed.objects import Facts
from tandem.deployed.ollama import Memory
from tandem.verify.checks import Check, model_checks, pool_checks, server_checks, stack_checks
from tandem.verify.servers import Outcome, Server
from tests.tandem.seen import (
    NODE,
    changed,
    daemon_set,
    deployment,
    facts,
    node,
    pending,
    pod,
    promise,
    ready,
    restarting,
)
from tests.tandem.verify.test_checks import STEPS, deployed

GOLDEN = Path(__file__).resolve().parents[2] / "golden" / "verdicts.txt"
GIB = 2**30
PLUGIN = "nvidia-device-plugin"
OLD, NEW = (changed(pod("llama2-7b", name), "metadata", "deletionTimestamp", to="now") for name in ("old", "new"))
NO_SPACE = "0/3 nodes are available: 1 {}. preemption: not helpful."


def nodes(*some: dict[str, Any]) -> Facts:
    return replace(facts(), nodes=[*some])


def pods(*some: dict[str, Any]) -> Facts:
    return replace(facts(), pods=[*some, pod("mistral-7b")])


def sick(status: str, message: str) -> dict[str, Any]:
    return changed(node(), "status", "conditions", to=[{"type": "Ready", "status": status, "message": message}])


def without(thing: dict[str, Any], *path: str) -> dict[str, Any]:
    *above, last = path
    place = made = changed(thing, "metadata", "name", to=thing["metadata"]["name"])
    for part in above:
        place = place[part]
    del place[last]
    return made


def empty(**deployed: Any) -> Facts:
    """The model has no pod."""
    made = deployment("llama2-7b")
    made["spec"].update(deployed)
    return replace(pods(), deployments=[made])


SEEN = {
    "well": facts(),
    "another cluster": Facts([], {}, []),
    "no node": nodes(),
    "node without its label": nodes(without(node(), "metadata", "labels", "tandem/pool")),
    "node of another pool": nodes(node(labels={"tandem/pool": "other"})),
    "node without a taint": nodes(without(node(), "spec")),
    "node of another mode": nodes(node(mode="mps-2")),
    "node not ready": nodes(sick("False", "PLEG is not healthy.")),
    "node silent": nodes(sick("Unknown", "Kubelet stopped posting node status")),
    "node going": nodes(changed(node(), "metadata", "deletionTimestamp", to="now")),
    "two nodes, one ready": nodes(node(), changed(node("b"), "status", "conditions", to=ready(False)["conditions"])),
    "other labels": nodes(node(labels={"nvidia.com/gpu.replicas": "4", "nvidia.com/mps.capable": "true"})),
    "no shares": nodes(node(shares=0)),
    "other shares on one": nodes(node(), node("b", shares=4)),
    "no plugin": replace(facts(), daemon_sets={}),
    "plugin nowhere": replace(facts(), daemon_sets={PLUGIN: [daemon_set(f"{PLUGIN}-gpu", desired=0, ready=0)]}),
    "plugin not ready": replace(facts(), daemon_sets={PLUGIN: [daemon_set(f"{PLUGIN}-gpu", desired=2)]}),
    "no pod, no release": pods(),
    "no pod, scaled to 0": empty(),
    "no pod, refused": replace(
        empty(replicas=1),
        deployments=[
            {
                **deployment("llama2-7b"),
                "spec": {"replicas": 1},
                "status": {"conditions": [{"type": "ReplicaFailure", "status": "True", "message": "exceeded quota"}]},
            }
        ],
    ),
    **{
        f"pending: {why}": pods(pending("llama2-7b", NO_SPACE.format(why)))
        for why in (
            *("Insufficient nvidia.com/gpu", "Insufficient memory", "Insufficient cpu", "node(s) were unschedulable"),
            *("node(s) had volume node affinity conflict", "node(s) had untolerated taint(s)", "something else"),
        )
    },
    "pending on a cordoned node": replace(
        pods(pending("llama2-7b", NO_SPACE.format("node(s) were unschedulable"))),
        nodes=[changed(node(), "spec", "unschedulable", to=True)],
    ),
    **{
        f"restarting: {why}": pods(restarting("llama2-7b", why))
        for why in (
            *("", "llama2:7b spilled: some layers are on the CPU.", "llama2:7b did not load", "cannot pull llama2:7b"),
            *("ImagePullBackOff: 429 toomanyrequests", "ImagePullBackOff: no such host", "InvalidImageName"),
        )
    },
    "two pods, the old one going": pods(OLD, pending("llama2-7b", "Insufficient nvidia.com/gpu")),
    "both pods going": pods(OLD, NEW),
    "pod elsewhere": pods(pod("llama2-7b", on="system-1")),
    "no share": pods(pod("llama2-7b", shares=0)),
    "two shares": pods(pod("llama2-7b", shares=2)),
    "other settings": pods(pod("llama2-7b", settings={"OLLAMA_CONTEXT_LENGTH": "4096", "OLLAMA_NUM_PARALLEL": ""})),
    "another batch": pods(pod("llama2-7b", batch="1024")),
}


def memory(part: float, context: int = 2048, size: int = 5 * GIB) -> Memory:
    return Memory(size=size, size_vram=int(size * part), context=context, expires="")


def until(step: str, why: str) -> Server:
    """All steps before went well."""
    done = {before: Outcome(True, f"{before} well") for before in STEPS[: STEPS.index(step)]}
    return Server({**done, step: Outcome(False, why)})


ALL_WELL = {step: Outcome(True, f"{step} well") for step in STEPS}
SERVERS = {
    "not asked": None,
    "well": Server(ALL_WELL, memory(1)),
    "another context": Server(ALL_WELL, memory(1, context=4096)),
    "spilled a little": Server(ALL_WELL, memory(0.98)),
    "spilled": Server(ALL_WELL, memory(0.4)),
    "on the CPU": Server(ALL_WELL, memory(0)),
    "of no size": Server(ALL_WELL, memory(1, size=0)),
    "gone": Server(ALL_WELL),
    **{f"fails at {step}": until(step, "why not") for step in STEPS},
    "out of memory": until("loaded", "CUDA out of memory"),
    "forbidden": until("version", "port-forward was refused (403)"),
}


def rows(checks: Iterable[Check]) -> list[str]:
    """With the fix where there is something to do."""
    words = {True: "ok    ", False: "BROKEN", None: "open  "}
    return [
        f"{words[check.held]} {check.about}, {check.what}: {check.found} (promised: {check.promised})"
        + (f"\n       {check.fix}" if check.held is False else "")
        for check in checks
    ]


def of_cluster(seen: Facts, stack: str = "timeslice") -> list[str]:
    made = promise(stack)
    model = made.models[0]
    return rows([*(check for pool in made.pools for check in pool_checks(pool, seen)), *model_checks(model, seen)])


def found() -> dict[str, list[str]]:
    """All rows where all is well; elsewhere those that differ from them."""
    well, model = of_cluster(facts()), promise().models[0]
    parked = replace(model, running=False)
    asleep = Facts([], {}, [], [deployment(model.id, settings={"OLLAMA_CONTEXT_LENGTH": "4096"})])
    return {
        **{name: [row for row in of_cluster(seen) if name == "well" or row not in well] for name, seen in SEEN.items()},
        **{f"{stack} without nodes": of_cluster(nodes(), stack) for stack in ("karpenter", "mps", "mig", "exclusive")},
        **{f"server {name}": rows(server_checks(model, server)) for name, server in SERVERS.items()},
        "parked": rows(model_checks(parked, asleep)),
        "parked and there": rows(model_checks(parked, facts())),
        "stack as its file": rows(stack_checks(promise(), deployed())),
        "stack of another mode": rows(stack_checks(promise(), deployed(mode="mps", config="mps-2"))),
        "stack of another program": rows(stack_checks(promise(), {"mode": "x"})),
        "stack not asked": rows([*stack_checks(promise(), None), *server_checks(parked, None)]),
    }


def test_every_row_is_as_in_the_golden(regen: bool) -> None:
    said = "\n".join(f"{name}\n" + "".join(f"  {row}\n" for row in rows) for name, rows in found().items())
    if regen:
        GOLDEN.write_text(said, encoding="utf-8")
    assert said == GOLDEN.read_text(encoding="utf-8")
    assert NODE in said
