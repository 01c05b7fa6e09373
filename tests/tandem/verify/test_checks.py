"""Every row of a verdict, whole, for each way in which a stack differs from its file: what was expected, what was found
and what repairs it. `--regen` writes `tests/golden/verdicts.txt`: read what it changes there as a user would.

Messages of the scheduler: kubernetes v1.36 pkg/scheduler/framework/plugins (tainttoleration, nodeunschedulable,
noderesources, volumebinding) and types.go, FitError. Of kubelet: pkg/kubelet/images/types.go.
"""

from collections.abc import Iterable
from typing import Any

import pytest

from sharing.sections.park import ParkSettings
from stacks.stack_file.judge import Plan
from tandem.deployed.objects import Facts
from tandem.deployed.ollama import Memory
from tandem.verify.checks import Check, model_checks, pool_checks, server_checks, stack_checks
from tandem.verify.servers import Outcome, Server
from tests.conftest import Golden
from tests.sharing.builders import replace
from tests.tandem.outputs import outputs
from tests.tandem.seen import (
    LIMITS,
    NODE,
    changed,
    daemon_set,
    deployment,
    facts,
    limited,
    node,
    pending,
    planned,
    pod,
    ready,
    restarting,
    under_limits,
    under_mps,
)

GIB = 2**30
PLUGIN = "nvidia-device-plugin"
OLD = changed(pod("llama2-7b", "old"), "metadata", "deletionTimestamp", to="now")
NO_SPACE = "0/3 nodes are available: 1 {}. preemption: not helpful."


def nodes(*some: dict[str, Any]) -> Facts:
    return replace(facts(), nodes=[*some])


def pods(*some: dict[str, Any]) -> Facts:
    return replace(facts(), pods=[*some, pod("mistral-7b")])


def sick(status: str, message: str) -> dict[str, Any]:
    return changed(node(), "status", "conditions", to=[{"type": "Ready", "status": status, "message": message}])


def without(entity: dict[str, Any], *path: str) -> dict[str, Any]:
    *above, last = path
    place = made = changed(entity, "metadata", "name", to=entity["metadata"]["name"])
    for part in above:
        place = place[part]
    del place[last]
    return made


def empty(**deployed: Any) -> Facts:
    """The model has no pod."""
    made = deployment("llama2-7b")
    made["spec"].update(deployed)
    return replace(pods(), deployments=[made])


def tolerating(mode: str) -> dict[str, Any]:
    """The scheduler does not say which taint: the pod's toleration and the node's taint do."""
    tolerations = [
        {"key": "nvidia.com/gpu", "operator": "Exists"},
        {"key": "tandem/mode", "operator": "Equal", "value": mode},
    ]
    waits = pending("llama2-7b", NO_SPACE.format("node(s) had untolerated taint(s)"))
    return changed(waits, "spec", "tolerations", to=tolerations)


def holding(reason: str, message: str, *, sidecar: bool = False) -> Facts:
    """A pod of which one container does not start. The sidecar's image comes from Docker Hub as well."""
    ours = [{"restartCount": 0, "state": {"waiting": {"reason": reason, "message": message}}}]
    later = [{"restartCount": 0, "state": {"waiting": {"reason": "PodInitializing"}}}]
    status = {**ready(False), "phase": "Pending", "containerStatuses": later if sidecar else ours}
    status |= {"initContainerStatuses": ours} if sidecar else {}
    return pods({**pod("llama2-7b"), "status": status})


def running(stack: str, *names: str, **labels: str) -> Facts:
    """The nodes of a mode other than time-slicing, and its DaemonSets."""
    own = {f"nvidia.com/{key.replace('_', '.', 1).replace('_', '-')}": value for key, value in labels.items()}
    made = [node(name, mode=stack, labels=own, shares=1 if stack == "exclusive" else 2) for name in ("a", "b")]
    daemons = [daemon_set(f"{PLUGIN}-gpu{name}", desired=2, ready=2) for name in ("", *names)]
    return replace(facts(), nodes=made, daemon_sets={PLUGIN: daemons})


def ranked(priority: int, *, mistral: int, llama: int) -> Facts:
    """A model that waits for a share, and the priorities of all; one that waits, too, holds none."""
    made = pending("llama2-7b", NO_SPACE.format("Insufficient nvidia.com/gpu")), pod("mistral-7b"), pod("llama3-2-1b")
    some = zip(made, (priority, mistral, llama), strict=True)
    ranks = [changed(each, "spec", "priority", to=rank) for each, rank in some]
    return replace(facts(), pods=[*ranks, changed(pending("qwen", "Insufficient"), "spec", "priority", to=0)])


LIMIT = "failed to pull and unpack image: 429 Too Many Requests - toomanyrequests: You have reached your limit"
DISCOVERY, MPS_DAEMON = "-gpu-feature-discovery", "-mps-control-daemon"
MPS_NODES = {"gpu_sharing_strategy": "mps", "mps_capable": "true"}
OTHER_SETTINGS = {
    "OLLAMA_CONTEXT_LENGTH": "1024",
    "OLLAMA_NUM_PARALLEL": "4",
    "OLLAMA_KV_CACHE_TYPE": "q8_0",
    "LLAMA_ARG_CACHE_RAM": "",
    "OLLAMA_FLASH_ATTENTION": "0",
}
SEEN = {
    "well": facts(),
    "another cluster": Facts([], {}, []),
    "no node": nodes(),
    "node without its label": nodes(without(node(), "metadata", "labels", "tandem/pool")),
    "node without a taint": nodes(without(node(), "spec")),
    "node of another mode": nodes(node(mode="mps-2")),
    "node not ready": nodes(sick("False", "PLEG is not healthy.")),
    "node silent": nodes(sick("Unknown", "Kubelet stopped posting node status")),
    "node going": nodes(changed(node(), "metadata", "deletionTimestamp", to="now")),
    "two nodes, one ready": nodes(node(), changed(node("b"), "status", "conditions", to=ready(False)["conditions"])),
    "other labels": nodes(node(labels={"nvidia.com/gpu.replicas": "4", "nvidia.com/mps.capable": "true"})),
    "other shares on one": nodes(node(), node("b", shares=4)),
    "plugin nowhere": replace(facts(), daemon_sets={PLUGIN: [daemon_set(f"{PLUGIN}-gpu", desired=0, ready=0)]}),
    "plugin just created": replace(facts(), daemon_sets={PLUGIN: [{"metadata": {"name": f"{PLUGIN}-gpu"}}]}),
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
            *("Insufficient nvidia.com/gpu", "Insufficient memory", "node(s) were unschedulable"),
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
            *("cudaMalloc failed: out of memory", "InvalidImageName"),
        )
    },
    "half a switch": pods(tolerating("timeslice-2-ffffffff")),
    "another taint": pods(tolerating("timeslice-2-1a2b3c4d")),
    "too many pods": pods(pending("llama2-7b", "0/3 nodes are available: 3 Too many pods.")),
    "more important models": ranked(-10, mistral=0, llama=-5),
    "models of equal or lower importance": ranked(-5, mistral=-5, llama=-10),
    "image limit": holding("ErrImagePull", LIMIT),
    "image limit of the sidecar": holding("ErrImagePull", LIMIT, sidecar=True),
    "image not found": holding("ImagePullBackOff", 'Back-off pulling image "x": not found'),
    "image with the number of the limit in its digest": holding("ErrImagePull", "x@sha256:0429: not found"),
    "pod starts": holding("ContainerCreating", ""),
    "restarted and ready": pods(changed(restarting("llama2-7b", ""), "status", "conditions", to=ready()["conditions"])),
    "spilled by its settings": pods(
        {**restarting("llama2-7b", "llama2:7b spilled"), "spec": pod("llama2-7b", settings=OTHER_SETTINGS)["spec"]}
    ),
    "two pods, the old one going": pods(OLD, pending("llama2-7b", "Insufficient nvidia.com/gpu")),
    "pod elsewhere": pods(pod("llama2-7b", on="system-1")),
    "no share": pods(pod("llama2-7b", shares=0)),
    "other settings": pods(pod("llama2-7b", settings=OTHER_SETTINGS)),
}


def memory(part: float, context: int = 2048) -> Memory:
    return Memory(size=5 * GIB, size_vram=int(5 * GIB * part), context=context, expires="")


def until(step: str, why: str) -> Server:
    """All earlier steps succeeded."""
    done = {before: Outcome(True, f"{before} well") for before in STEPS[: STEPS.index(step)]}
    return Server({**done, step: Outcome(False, why)})


STEPS = ("version", "held", "loaded", "answered")
ALL_WELL = {step: Outcome(True, f"{step} well") for step in STEPS}
SERVERS = {
    "not asked": None,
    "well": Server(ALL_WELL, memory(1)),
    "another context": Server(ALL_WELL, memory(1, context=4096)),
    "spilled a little": Server(ALL_WELL, memory(0.98)),
    "spilled": Server(ALL_WELL, memory(0.4)),
    "on the CPU": Server(ALL_WELL, memory(0)),
    "gone": Server(ALL_WELL),
    **{f"fails at {step}": until(step, "why not") for step in STEPS},
    "out of memory": until("loaded", "500: cudaMalloc failed: out of memory"),
    "forbidden": until("version", "the cluster refuses to forward a port to llama2-7b-5d4 (403)"),
    "cut off": until("version", "the cluster refuses to forward a port to llama2-7b-5d4 (502)"),
}


def rows(checks: Iterable[Check]) -> list[str]:
    """With the fix where there is something to do."""
    words = {True: "ok    ", False: "BROKEN", None: "open  "}
    return [
        f"{words[check.held]} {check.about}, {check.what}: {check.found} (expected: {check.expected})"
        + (f"\n       {check.fix}" if check.held is False else "")
        for check in checks
    ]


def of_pool(plan: Plan, due: int, seen: Facts) -> list[Check]:
    """With this number of nodes."""
    return [*pool_checks(plan, plan.config.pools[0], due, seen)]


def of_cluster(seen: Facts, stack: str = "timeslice") -> list[str]:
    return of_plan(planned(stack), seen)


def of_plan(plan: Plan, seen: Facts) -> list[str]:
    [pool] = plan.config.pools
    return rows([*of_pool(plan, plan.config.nodes_of(pool), seen), *model_checks(plan, plan.verdict.fits[0], seen)])


def test_with_a_registry_a_missing_image_is_a_missing_copy() -> None:
    plan = planned()
    plan = replace(plan, config=plan.config.changed(registry="registry.example.com/tandem"))
    fixes = {check.fix for check in model_checks(plan, plan.verdict.fits[0], SEEN["image not found"]) if check.fix}
    assert (
        "The image cannot be pulled. Check that `tandem images timeslice --format copy` has copied it, and that nodes "
        "may pull from registry.example.com/tandem."
    ) in fixes


def other_pool(**changes: Any) -> dict[str, Any]:
    """The outputs of the stack according to its file, with some of its pool changed."""
    shown = outputs(planned().config)
    shown["pools"]["gpu"].update(changes)
    return shown


CREATING = changed(
    pod("llama2-7b"),
    "status",
    to={
        **ready(False),
        "phase": "Pending",
        "containerStatuses": [{"restartCount": 0, "state": {"waiting": {"reason": "ContainerCreating"}}}],
    },
)
LIMITED = {
    "another limit": under_limits({**LIMITS, "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT": "0=12288M"}),
    "no variables": under_limits({}),
    "all threads": under_limits({key: LIMITS[key] for key in [*LIMITS][:2]}),
    "not mounted": under_limits(mounted="/run/nvidia-mps"),
    "node of another mode": under_limits(label="no"),
    # The words of model_start.sh.
    "no daemon": under_limits(
        first=restarting(
            "llama2-7b",
            "the MPS daemon did not answer within 900 s, so llama2:7b was not loaded. Check tandem-mps.service on this "
            "node",
        )
    ),
    # Kubelet waits for a directory of a hostPath volume that does not exist (pkg/volume/hostpath/host_path.go).
    "no directory": under_limits(first=CREATING),
}
ENDPOINTS = {"llama2-7b": "http://…", "mistral-7b": "http://…"}
OUTPUTS = {
    "as its file": other_pool(),
    "of another mode": other_pool(mode="mps", config="mps-2"),
    "without a model": {**other_pool(), "endpoints": {"llama2-7b": "x"}},
    "with another model": {**other_pool(), "endpoints": {**ENDPOINTS, "phi": "x"}},
    "of another pool": {**other_pool(), "pools": {"big": other_pool()["pools"]["gpu"]}},
    "of another program": {"mode": "timeslice", "endpoints": ENDPOINTS},
    "not asked": None,
}


def found() -> dict[str, list[str]]:
    """All rows of a healthy stack; of any other, the rows that differ."""
    well, plan = of_cluster(facts()), planned()
    model = plan.verdict.fits[0]
    parked = replace(model, pool=model.pool.changed(desired=0))
    nights = ParkSettings(schedule="0 20 * * *", wake="0 8 * * *", timezone="UTC")
    at_times = replace(plan, config=replace(plan.config, park=nights))
    rest = model.pool.changed(name="rest")
    two = replace(plan, config=plan.config.changed(pools=[model.pool, rest]))
    other = node("b", labels={"tandem/pool": "rest"})
    elsewhere = replace(facts(), nodes=[node(), other], pods=[pod("llama2-7b", on="b")])
    spilling = replace(model, served=model.served.changed(spill=["rest"]))
    asleep, changed_asleep = deployment(model.served.id), deployment(model.served.id, batch="1024")
    under, mps, spilled = of_cluster(under_mps(), "mps"), planned("mps"), SERVERS["spilled a little"]

    answers = rows(server_checks(plan, model, SERVERS["well"]))

    def of_server(name: str) -> list[str]:
        found = rows(server_checks(plan, model, SERVERS[name]))
        return [row for row in found if name == "well" or row not in answers]

    def new(seen: Facts) -> list[str]:
        return [row for row in of_cluster(seen, "mps") if row not in under]

    own = of_plan(limited(), under_limits())

    return {
        **{name: [row for row in of_cluster(seen) if name == "well" or row not in well] for name, seen in SEEN.items()},
        **{f"{stack} without nodes": of_cluster(nodes(), stack) for stack in ("karpenter", "mps", "mig")},
        "mps on nodes of timeslice": new(nodes(node(labels=dict(MPS_NODES)))),
        "mps without its daemon": new(running("mps-2", DISCOVERY, **MPS_NODES)),
        "mps on two nodes": new(running("mps-2", DISCOVERY, MPS_DAEMON, **MPS_NODES)),
        "mps with its daemon": of_cluster(under_mps(), "mps"),
        "mps with a newer daemon": new(under_mps("10:01")),
        "mps with a daemon of the same second": new(under_mps("10:00", "10:00")),
        "mps with a daemon that starts": new(under_mps("")),
        "mps with a daemon that leaves": new(under_mps(deletionTimestamp="now")),
        "mps without a server": new(under_mps(server="")),
        "mps waiting for its daemon": new(
            under_mps(server="", message="llama2:7b is outside MPS: its MPS daemon ended")
        ),
        "mps without a daemon from the plugin": new(
            under_mps(server="", message="the device plugin gave this container no MPS daemon")
        ),
        "limits per model": own,
        **{
            f"limits per model, {name}": [row for row in of_plan(limited(), seen) if row not in own]
            for name, seen in LIMITED.items()
        },
        "exclusive": of_cluster(
            running("exclusive", DISCOVERY, gpu_sharing_strategy="none", gpu_replicas="1"), "exclusive"
        ),
        **{f"server {name}": of_server(name) for name in SERVERS},
        "server spilled a little under mps": rows(server_checks(mps, mps.verdict.fits[0], spilled))[-1:],
        "parked": rows(model_checks(plan, parked, Facts([], {}, [], [asleep]))),
        "parked with another batch": rows(model_checks(plan, parked, Facts([], {}, [], [changed_asleep]))),
        "on a pool to which it may not spill": rows(model_checks(two, model, elsewhere))[2:3],
        "on a pool to which it may spill": rows(model_checks(two, spilling, elsewhere))[2:3],
        "parked and there": rows([*model_checks(plan, parked, facts()), *server_checks(plan, parked, None)]),
        "pool of no nodes": rows(of_pool(plan, 0, nodes())),
        "pool parked by its schedule": rows(of_pool(at_times, 1, nodes())),
        "model parked by its schedule": rows(model_checks(at_times, model, Facts([], {}, [], [asleep]))),
        **{f"stack {name}": rows(stack_checks(planned(), shown)) for name, shown in OUTPUTS.items()},
    }


@pytest.mark.real_world(
    behaviour="Docker Hub allows an address 100 pulls in six hours without a login; nodes behind a NAT share one.",
    source="docker/docs#22326, content/manuals/docker-hub/usage/_index.md, 2025-03-27",
)
def test_every_row_is_as_in_the_golden(golden: Golden) -> None:
    said = "\n".join(f"{name}\n" + "".join(f"  {row}\n" for row in rows) for name, rows in found().items())
    golden("verdicts.txt", said)
    assert NODE in said
