"""Reads small facts from the answers of `kubectl` and `aws`, without names or ids of an account."""

import json
import re
from datetime import datetime
from typing import Any

Answer = dict[str, Any]


def advertised_gpus(said: str) -> Answer:
    """GPUs that nodes have and offer; an offer of 0 shows the race of the plugin's configuration."""
    nodes = json.loads(said)["items"]
    counts = [(_count(node, "capacity"), _count(node, "allocatable")) for node in nodes]
    return {"capacity": [one for one, _ in counts], "allocatable": [one for _, one in counts]}


def _count(node: Any, key: str) -> int:
    return sum(int(count) for name, count in node["status"][key].items() if name.startswith("nvidia.com/"))


def restarts(said: str) -> Answer:
    """The highest number of restarts of each container in any pod."""
    found: dict[str, int] = {}
    for pod in json.loads(said)["items"]:
        status = pod["status"]
        for one in (*status.get("initContainerStatuses", ()), *status.get("containerStatuses", ())):
            found[one["name"]] = max(found.get(one["name"], 0), int(one["restartCount"]))
    return {"restarts": found}


def seconds_until_ready(said: str) -> Answer:
    """The longest time from a pod's creation until it is ready."""
    times = [
        _seconds(condition["lastTransitionTime"]) - _seconds(pod["metadata"]["creationTimestamp"])
        for pod in json.loads(said)["items"]
        for condition in pod["status"].get("conditions", ())
        if condition["type"] == "Ready" and condition["status"] == "True"
    ]
    return {"pods": len(times), "longest_seconds": max(times, default=None)}


def one_patch(said: str) -> Answer:
    """Whether one call wrote labels and taints of a node last, according to the fields' managers."""
    nodes = []
    for node in json.loads(said)["items"]:
        written = {"f:labels": "", "f:taints": ""}
        for entry in node["metadata"].get("managedFields", ()):
            fields = entry.get("fieldsV1", {})
            parts = {**fields.get("f:metadata", {}), **fields.get("f:spec", {})}
            for key in written.keys() & parts.keys():
                written[key] = max(written[key], f"{entry['time']} {entry['manager']}")
        nodes.append({"labels": written["f:labels"], "taints": written["f:taints"]})
    return {"nodes": nodes, "one_patch": all(one["labels"] == one["taints"] for one in nodes)}


def nodes_after_update(nodes: str, state: str) -> Answer:
    """Seconds from the end of the node group's update to the last write on its nodes."""
    taints = [node["taints"].partition(" ")[0] for node in one_patch(nodes)["nodes"]]
    groups = [
        resource for resource in json.loads(state)["deployment"]["resources"] if resource["type"].endswith(":NodeGroup")
    ]
    ended = [group["modified"] for group in groups if "gpu" in group["urn"].rpartition("::")[2]]
    if not (all(taints) and taints and ended):
        return {"seconds": None}
    return {"seconds": max(map(_seconds, taints)) - max(map(_seconds, ended))}


def proved_memory(said: str) -> Answer:
    """The measurements of the proof of the shares."""
    lines = [json.loads(line) for line in said.splitlines() if line.startswith('{"proved"')]
    keys = ("total_mib", "info_total_mib", "held_mib", "refused_mib")
    return {key: [line.get(key) for line in lines] for key in keys}


def on_the_gpu(said: str) -> Answer:
    """The processors on which models run, according to `ollama ps`."""
    return {"processor": re.findall(r"\d+%(?:/\d+%)? (?:GPU|CPU(?:/GPU)?)", said)}


def used_memory(said: str) -> Answer:
    """Memory of each process on the GPU in MiB, by `nvidia-smi --query-compute-apps=used_memory`."""
    return {"used_mib": sorted(map(int, re.findall(r"(\d+) MiB", said)))}


def compute_mode(said: str) -> Answer:
    """Compute modes of the GPUs, by `nvidia-smi --query-gpu=compute_mode`."""
    return {"modes": sorted({line.strip() for line in said.splitlines() if line.strip()})}


def answered(said: str) -> Answer:
    """Whether a model gave an answer."""
    return {"answered": bool(said.strip())}


def lines_with(pattern: str, said: str) -> int:
    """How many lines match."""
    return sum(bool(re.search(pattern, line, re.IGNORECASE)) for line in said.splitlines())


def reboots(events: str, nodes: str, logs: str) -> Answer:
    """Reboots of nodes: the kubelet's events, whether a node still has the boot that one names, and the MIG manager's
    log before it.

    Kubernetes, pkg/kubelet/nodestatus/setters.go: "Node %s has been rebooted, boot id: %s"
    """
    messages = [item["message"] for item in json.loads(events)["items"]]
    boots = [item["status"]["nodeInfo"]["bootID"] for item in json.loads(nodes)["items"]]
    return {
        "events": len(messages),
        "since_last_reboot": [any(boot in message for message in messages) for boot in boots],
        "reboot_lines": lines_with(r"\breboot", logs),
    }


def hook_processes(said: str) -> Answer:
    """Processes that run the script of the hook, by the files under /proc that name it."""
    return {"processes": lines_with(r"^/proc/\d+/cmdline$", said)}


def kernel_cache(before: str, seconds: str, after: str) -> Answer:
    """Compiled kernels before and after a restart, as a number and MiB; more after it were compiled again."""
    counts = [[int(number) for number in said.split()] for said in (before, after)]
    return {"kernels": [count[0] for count in counts], "mib": [count[1] for count in counts], "seconds": int(seconds)}


def update_errors(said: str) -> Answer:
    """Updates of a node group, by lines of kind, status and codes of errors."""
    return {
        "updates": len(said.splitlines()),
        "failed": lines_with(r'"Failed"', said),
        "pod_eviction_failures": said.count("PodEvictionFailure"),
    }


def init_errors(state: str) -> Answer:
    """Node groups in the state, and those with errors of their last update."""
    groups = [
        resource for resource in json.loads(state)["deployment"]["resources"] if resource["type"].endswith(":NodeGroup")
    ]
    return {"groups": len(groups), "with_init_errors": sum(bool(group.get("initErrors")) for group in groups)}


def rate_limits(said: str) -> Answer:
    """Pulls that a registry refused."""
    return {"too_many_requests": lines_with(r"toomanyrequests|429", said)}


def failed_jobs(said: str) -> Answer:
    """Failed pods of the proof's Jobs, and failed Jobs."""
    jobs = [item["status"] for item in json.loads(said)["items"]]
    reasons = [c["reason"] for job in jobs for c in job.get("conditions", ()) if c["type"] == "Failed"]
    return {"failed_pods": sum(int(job.get("failed", 0)) for job in jobs), "failed_jobs": reasons}


def zones(said: str) -> Answer:
    """In how many zones a type is sold."""
    return {"zones": len(json.loads(said)["InstanceTypeOfferings"])}


def builds(said: str) -> Answer:
    """The offered builds of an add-on, newest first."""
    found = [version["addonVersion"] for addon in json.loads(said)["addons"] for version in addon["addonVersions"]]
    return {"count": len(found), "newest": found[:3]}


def reachable(said: str) -> Answer:
    """Whether a registry gave the chart."""
    return {"fetched": "apiVersion" in said}


def reached(stranger: str, neighbour: str, pods: str, forwarded: str) -> Answer:
    """Who reached a model: pods of two namespaces, kubelet with its probes, and a forwarded port."""
    conditions = [condition for pod in json.loads(pods)["items"] for condition in pod["status"].get("conditions", ())]
    return {
        "stranger": "HTTP 200" in stranger,
        "neighbour": "HTTP 200" in neighbour,
        "kubelet": [condition["status"] == "True" for condition in conditions if condition["type"] == "Ready"],
        "port_forward": "HTTP 200" in forwarded,
    }


def health(said: str) -> Answer:
    """Status of a node group, and the codes of its health issues."""
    group = json.loads(said)["nodegroup"]
    return {"status": group["status"], "issues": [issue["code"] for issue in group["health"]["issues"]]}


def scaling(said: str) -> Answer:
    """How many nodes Auto Scaling groups want and have, and which of their processes are suspended."""
    groups = json.loads(said)["AutoScalingGroups"]
    return {
        "desired": [group["DesiredCapacity"] for group in groups],
        "instances": [len(group["Instances"]) for group in groups],
        "suspended": sorted(process["ProcessName"] for group in groups for process in group["SuspendedProcesses"]),
    }


def update_refused(said: str) -> Answer:
    """The answer of EKS to an update of a degraded group."""
    return {"refused": "ResourceInUseException" in said, "accepted": '"InProgress"' in said}


def repeated_calls(said: str) -> Answer:
    """Calls of schedules in the dead-letter queue: the code of the refusal, and how often the call was repeated.

    https://docs.aws.amazon.com/scheduler/latest/UserGuide/configuring-schedule-dlq.html
    """
    messages = json.loads(said)["Messages"] if said.strip() else []
    given = [message["MessageAttributes"] for message in messages]
    return {
        "repeated": sorted([one[name]["StringValue"] for name in ("ERROR_CODE", "RETRY_ATTEMPTS")] for one in given)
    }


def duration(said: str) -> Answer:
    """Seconds that a step took."""
    return {"seconds": round(float(said))}


def _seconds(time: str) -> int:
    return round(datetime.fromisoformat(time.replace("Z", "+00:00")).timestamp())
