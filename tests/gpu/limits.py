"""Limits of two clients of the node's MPS daemon: unequal, filled, refused above; and a client without a limit."""

import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack

from sharing.modes.mps_clients import MEMORY_VARIABLE, PIPE_VARIABLE
from tests.gpu.daemon_restart import list_files
from tests.gpu.machine import Machine
from tests.gpu.mps_client import ENDED, WAYS, Client, client
from tests.gpu.node_daemon import PID_FILE, NodeDaemon, node_daemon
from tests.gpu.progress import FailedError, Result

PARTS = ((0.6, 1.0), (0.3, 0.5))
"""Of the GPU's memory and of its threads, for each client. Limits of threads may overlap."""
OUT_OF_MEMORY = "CUDA_ERROR_OUT_OF_MEMORY"
CONTEXT_MIB = 400
"""Memory of a limit that CUDA itself may take, as in components/share_proof/in_pod/verdict.py."""
MOST_OF_HALF = 0.6
"""Part of the multiprocessors that a client with half of the threads has at most. On an H100 it was half of 132."""
BIND = 'mount --bind "$0" "$1" && mount -o remount,bind,ro "$1" && shift && exec "$@"'
"""Shows a folder in another place, where it is read-only, and runs a program that sees it."""


def measure_limits(machine: Machine, total_mib: int) -> Result:
    """Two clients that take all they get, at the same time. Raises `FailedError` where a limit is not enforced."""
    with node_daemon() as daemon, ExitStack() as opened:
        limits = [int(total_mib * part) for part, _ in PARTS]
        environments = [daemon.client(limit, part) for limit, (_, part) in zip(limits, PARTS, strict=True)]
        clients = [opened.enter_context(client(environment)) for environment in environments]
        found = [
            {"limit_mib": limit, "threads": part, **_answer(one, "look")}
            for one, limit, (_, part) in zip(clients, limits, PARTS, strict=True)
        ]
        contexts = {one["pid"]: one["mib"] for one in machine.processes()}
        for one, row in zip(clients, found, strict=True):
            row["context_mib"] = contexts.get(one.process.pid)
        held = {}
        for way in WAYS:
            for one, row in zip(clients, found, strict=True):
                row[way] = _answer(one, f"fill {way}")
            # Both hold all of their memory now.
            held[way] = machine.used_mib()
            for one in clients:
                _answer(one, "free")
        servers = [one["mib"] for one in machine.processes() if "mps-server" in one["program"]]
        without = {**environments[0]}
        del without[MEMORY_VARIABLE]
        files = daemon.files()
        result: Result = {
            "files": files,
            "pid_file": PID_FILE in files,
            "server_mib": servers[0] if servers else None,
            "clients": found,
            "held_mib": held,
            "without_limit": _outsider(without),
            "read_only_mount": _read_only(daemon, environments[1]),
        }
    if wrong := [*not_enforced(found)]:
        raise FailedError("; ".join(wrong))
    return result


def not_enforced(found: Sequence[Result]) -> Iterator[str]:
    """What is wrong with the limits of these clients."""
    most = max(row["multiprocessors"] for row in found)
    for row in found:
        limit, who = row["limit_mib"], f"a client with a limit of {row['limit_mib']:,} MiB"
        if row["free_mib"] > limit:
            yield f"{who} saw {row['free_mib']:,} MiB free"
        for way in WAYS:
            got, refused = row[way]["allocated_mib"], row[way]["refused"]
            if got > limit:
                yield f"{who} allocated {got:,} MiB by {way}: the limit is not enforced"
            elif got < limit - CONTEXT_MIB or refused != OUT_OF_MEMORY:
                yield f"{who} allocated only {got:,} MiB by {way}: {refused}"
        if row["threads"] <= 0.5 and row["multiprocessors"] > MOST_OF_HALF * most:
            yield f"{who} and {row['threads']:.0%} of the threads saw {row['multiprocessors']} of {most} SMs"


def _answer(one: Client, question: str) -> Result:
    answer = one.ask(question)
    if "error" in answer:
        raise FailedError(f"`{question}`: {answer['error']}")
    return answer


def _outsider(environment: Mapping[str, str]) -> Result:
    """What a client without a limit gets: why a pod must not start without one."""
    with client(environment) as one:
        return {**_answer(one, "look"), "allocated_mib": _answer(one, f"fill {WAYS[0]}")["allocated_mib"]}


def _read_only(daemon: NodeDaemon, environment: Mapping[str, str]) -> Result:
    """Whether a client needs to write into the daemon's directory: it gets it read-only, as a pod could."""
    if shutil.which("unshare") is None:
        return {"skipped": "the program `unshare` is missing"}
    place = daemon.folder / "read-only"
    place.mkdir()
    before = ("unshare", "--mount", "sh", "-c", BIND, str(daemon.pipe), str(place))
    with client({**environment, PIPE_VARIABLE: str(place)}, *before) as one:
        answer = one.ask("look")
    if answer.get("error", "").startswith(ENDED):
        return {"skipped": f"mounts are not permitted here: {answer['error']}"}
    return answer


def describe_limits(found: Mapping[str, Result]) -> Iterator[str]:
    """The report's section about the clients, of the step's result."""
    if not (result := found.get("enforced")):
        return
    yield "\n## Limits of a client's own\n"
    yield "The MPS daemon as a node runs it, without default limits. Two clients took all they got at once. MiB.\n"
    yield f"| limit | threads | free | {' | '.join(WAYS)} | multiprocessors |"
    yield "| --- | --- | --- | --- | --- | --- |"
    for row in result["clients"]:
        got = " | ".join(f"{row[way]['allocated_mib']:,}" for way in WAYS)
        yield (
            f"| {row['limit_mib']:,} | {row['threads']:.0%} | {row['free_mib']:,} | {got} | {row['multiprocessors']} |"
        ).replace("%", " %")
    yield ""
    none, mount = result["without_limit"], result["read_only_mount"]
    yield f"- a client without a limit: {none['free_mib']:,} MiB free, {none['allocated_mib']:,} MiB allocated."
    yield f"- {_of_mount(mount, result['clients'][1]['limit_mib'])}"
    contexts = ", ".join(str(row["context_mib"] or "unknown") for row in result["clients"])
    yield f"- MiB of a client without allocations: {contexts}; of the MPS server: {result['server_mib'] or 'unknown'}."
    yield f"- files of the daemon: {list_files(result['files'])}."


def _of_mount(mount: Result, limit: int) -> str:
    if "skipped" in mount:
        return f"a read-only directory was not tried: {mount['skipped']}."
    if "error" in mount:
        return f"with a read-only directory, a client fails: {mount['error']}."
    if mount["free_mib"] > limit:
        return f"with a read-only directory, a client finds no daemon: {mount['free_mib']:,} MiB free."
    return f"a read-only directory is enough for a client: {mount['free_mib']:,} MiB free."
