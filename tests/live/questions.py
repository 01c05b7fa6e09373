"""What only a real account answers: each question, why it is open, how it is asked, and what its answer changes."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from sharing import versions
from tests.live import readings
from tests.live.readings import Answer

NODES = "kubectl get nodes -l tandem/pool -o json"
PLUGIN = "kubectl get pods -A -l app.kubernetes.io/name=nvidia-device-plugin"
"""Pods of the plugin, of feature discovery and of the MPS daemon: one chart, one label."""
IN_PLUGIN = (
    PLUGIN + " --no-headers -o custom-columns=N:.metadata.namespace,P:.metadata.name,C:.spec.containers[*].name"
    " | grep nvidia-device-plugin-ctr | head -1 | while read -r namespace pod containers; do"
    " kubectl exec -n $namespace $pod -c nvidia-device-plugin-ctr -- {tool}; done"
)
MODEL = "kubectl get deploy -n ollama -o name | head -1 | xargs -I[] kubectl exec -n ollama [] -- "
UPDATES = (
    "for id in $(aws eks list-updates --region <region> --name <cluster> --nodegroup-name <group>"
    " --query updateIds --output text); do"
    " aws eks describe-update --region <region> --name <cluster> --nodegroup-name <group> --update-id $id"
    " --query 'update.[type,status,errors[].errorCode]' --output json | tr -d '\\n'; echo; done"
)
"""A line for each update of the node group."""
NEW_ENTRY = (
    "me=$(aws sts get-caller-identity --region <region> --query Arn --output text);"
    " case $me in *:assumed-role/*) name=$(echo $me | cut -d/ -f2);; *) name=${me##*/};; esac;"
    " arn=$(aws eks list-access-entries --region <region> --cluster-name <cluster> --query accessEntries"
    " --output text | tr '\\t' '\\n' | grep /$name$);"
    " aws eks delete-access-entry --region <region> --cluster-name <cluster> --principal-arn $arn >/dev/null;"
    " for second in $(seq 120); do kubectl get namespaces >/dev/null 2>&1 || break; sleep 1; done;"
    " aws eks create-access-entry --region <region> --cluster-name <cluster> --principal-arn $arn >/dev/null;"
    " aws eks associate-access-policy --region <region> --cluster-name <cluster> --principal-arn $arn"
    " --access-scope type=cluster"
    " --policy-arn arn:aws:eks::aws:cluster-access-policy/AmazonEKSClusterAdminPolicy >/dev/null;"
    " began=$(date +%s);"
    " until kubectl get namespaces >/dev/null 2>&1; do sleep 1; done; echo $(($(date +%s) - began))"
)
"""Deletes the access entry of whoever runs this, waits until that counts, makes it again, and prints the seconds."""
FAILED_UPDATE = (
    "kubectl create poddisruptionbudget -n ollama live --min-available=100%"
    " --selector=app.kubernetes.io/name=ollama >/dev/null;"
    " pulumi config set --path tandem:gpu-nodes.volume-gib 120; pulumi up --yes --skip-preview >/dev/null 2>&1;"
    " kubectl delete poddisruptionbudget -n ollama live >/dev/null; pulumi stack export"
)
"""An update that cannot evict the models' pods."""
ASK_A_MODEL = (
    "service=$(kubectl get services -n ollama -o jsonpath='{.items[0].metadata.name}');"
    f" kubectl run live-client -n {{place}} --rm -i --restart=Never --image={versions.PROBER_IMAGE} -- python -c"
    " \"import urllib.request as u; print('HTTP', u.urlopen('http://$service.ollama:11434/', timeout=10).status)\""
    " 2>&1 || true"
)
"""Asks a model from a pod in a namespace."""
LIVE_AWS = "live-aws, "
"""The review of the program against the sources of what it uses, 2026-11-22: number of the item."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """One question."""

    id: str
    """Name of its answer's file."""
    text: str
    kind: Literal["open", "likely"]
    """`open`: nobody knows. `likely`: sources and reports say so, and nobody has seen it in this program."""
    doubt: str
    """Where the doubt comes from."""
    session: str
    step: str
    """After which step of the session it is asked."""
    ask: tuple[str, ...]
    """Shell commands; the answer is read from what they print. `{{cluster}}` and so on stand for values of the stack.
    None: the question is how long the step took."""
    read: Callable[..., Answer]
    changes: str
    """What to do with the answer."""
    after_failure: bool = False
    """Also asked when the step fails."""
    provokes: bool = False
    """Asking disrupts the stack, so it takes `--provoke`. It belongs to the session's last step."""

    def commands(self, values: dict[str, str]) -> list[str]:
        """The commands with the stack's values; raises KeyError for a value that does not exist."""
        return [_filled(command, values) for command in self.ask]


def _filled(command: str, values: dict[str, str]) -> str:
    return re.sub(r"<(\w+)>", lambda found: values[found[1]], command)


def _in_plugin(tool: str) -> str:
    return IN_PLUGIN.replace("{tool}", tool)


def _question(id: str, text: str, **rest: Any) -> Question:
    return Question(id=id, text=text, **rest)


QUESTIONS: tuple[Question, ...] = (
    _question(
        "type-offerings",
        "In how many zones of the region is g7e.2xlarge sold?",
        kind="likely",
        doubt=LIVE_AWS + "7",
        session="mig",
        step="before",
        ask=(
            "aws ec2 describe-instance-type-offerings --region <region> --location-type availability-zone"
            " --filters Name=instance-type,Values=g7e.2xlarge --output json",
        ),
        read=readings.zones,
        changes="the table of zones per region",
    ),
    _question(
        "addon-builds",
        "Which builds of vpc-cni does EKS still offer for the pinned Kubernetes version?",
        kind="open",
        doubt=LIVE_AWS + "20",
        session="timeslice",
        step="before",
        ask=(
            "aws eks describe-addon-versions --region <region> --addon-name vpc-cni"
            " --kubernetes-version <kubernetes> --output json",
        ),
        read=readings.builds,
        changes="the pins, and how long a pin lasts",
    ),
    _question(
        "public-registry-login",
        "Does the public ECR registry give a chart to somebody with this machine's registry logins?",
        kind="likely",
        doubt=LIVE_AWS + "18",
        session="karpenter",
        step="before",
        ask=("helm show chart oci://public.ecr.aws/karpenter/karpenter-crd",),
        read=readings.reachable,
        changes="the check of `tandem doctor` for stale logins",
    ),
    _question(
        "new-node-shares",
        "Does a new node advertise all its shares without a restart of the device plugin?",
        kind="likely",
        doubt=LIVE_AWS + "1; NVIDIA/k8s-device-plugin issue 1645",
        session="timeslice",
        step="up",
        ask=(NODES,),
        read=readings.advertised_gpus,
        changes="the emulated plugin, and whether the default configuration is enough",
    ),
    _question(
        "plugin-restarts",
        "How often do the containers of the device plugin restart on a new node?",
        kind="likely",
        doubt=LIVE_AWS + "1",
        session="timeslice",
        step="up",
        ask=(PLUGIN + " -o json",),
        read=readings.restarts,
        changes="the emulated plugin",
    ),
    _question(
        "t4-memory",
        "How much memory does CUDA have on a T4 with the driver of the AMI: 14,912 or 15,110 MiB?",
        kind="open",
        doubt=LIVE_AWS + "D",
        session="timeslice",
        step="up",
        ask=("kubectl logs -n share-proof-gpu -l tandem/proof --tail=-1",),
        read=readings.proved_memory,
        changes="cuda_mib and cuda_low_mib of the T4 in gpu_memory.csv",
    ),
    _question(
        "docker-hub-limits",
        "Does Docker Hub refuse pulls of the nodes, which share one address?",
        kind="open",
        doubt=LIVE_AWS + "17",
        session="timeslice",
        step="up",
        ask=("kubectl get events -A",),
        read=readings.rate_limits,
        changes="whether the Ollama image needs a pull-through cache",
    ),
    _question(
        "up-duration",
        "How long does the first `up` take, against the lifetime of the credentials?",
        kind="likely",
        doubt=LIVE_AWS + "13",
        session="timeslice",
        step="up",
        ask=(),
        read=readings.duration,
        changes="durations.csv, and the duration that `tandem doctor` compares",
    ),
    _question(
        "network-policy",
        "Do network policies refuse strangers, and let in the models' namespace, kubelet and `kubectl port-forward`?",
        kind="likely",
        doubt="decision 0045",
        session="timeslice",
        step="up",
        ask=(
            ASK_A_MODEL.replace("{place}", "default"),
            ASK_A_MODEL.replace("{place}", "ollama"),
            "kubectl get pods -n ollama -o json",
            "kubectl port-forward -n ollama $(kubectl get services -n ollama -o name | head -1) 18434:11434"
            " >/dev/null & sleep 5;"
            " curl -s -o /dev/null -w 'HTTP %{http_code}' --max-time 10 http://127.0.0.1:18434/; kill $!",
        ),
        read=readings.reached,
        changes="the policies, or the add-on's configuration",
    ),
    _question(
        "labels-and-taints",
        "Does EKS write labels and taints of an existing node in one patch?",
        kind="open",
        doubt=LIVE_AWS + "D",
        session="timeslice",
        step="mps",
        ask=(NODES + " --show-managed-fields",),
        read=readings.one_patch,
        changes="the order in which the emulated world changes a node",
    ),
    _question(
        "update-before-nodes",
        "Is the update of a node group SUCCESSFUL before all its nodes have the new taint?",
        kind="open",
        doubt=LIVE_AWS + "D",
        session="timeslice",
        step="mps",
        ask=(NODES + " --show-managed-fields", "pulumi stack export"),
        read=readings.nodes_after_update,
        changes="the order in which the emulated world changes a node",
    ),
    _question(
        "mps-daemon-restarts",
        "How often do the containers of the MPS daemon restart?",
        kind="likely",
        doubt=LIVE_AWS + "2; NVIDIA/k8s-device-plugin pull request 1827",
        session="timeslice",
        step="mps",
        ask=(PLUGIN + " -o json",),
        read=readings.restarts,
        changes="the emulated plugin",
    ),
    _question(
        "ollama-under-mps",
        "Do the runners of Ollama find the GPU as clients of the MPS daemon?",
        kind="open",
        doubt=LIVE_AWS + "D; k8s-device-plugin issues 1614, 1595, 679 and 1105",
        session="timeslice",
        step="mps",
        ask=(MODEL + "ollama ps",),
        read=readings.on_the_gpu,
        changes="the word `unverified` in the comparison of the modes",
    ),
    _question(
        "mps-memory-limit",
        "Do the memory allocations of a runner count against the pinned limit of its MPS share?",
        kind="open",
        doubt=LIVE_AWS + "D",
        session="timeslice",
        step="mps",
        ask=(_in_plugin("nvidia-smi --query-compute-apps=used_memory --format=csv,noheader"),),
        read=readings.used_memory,
        changes="whether a share of MPS counts as enforced",
    ),
    _question(
        "model-after-daemon-restart",
        "Does a model answer after a restart of the MPS daemon, or does it become unready and restart?",
        kind="likely",
        doubt=LIVE_AWS + "8; k8s-device-plugin issue 669",
        session="timeslice",
        step="mps",
        ask=(
            "kubectl delete pods -A -l app.kubernetes.io/name=nvidia-device-plugin"
            " --field-selector status.phase=Running >/dev/null && sleep 300 && "
            + MODEL
            + "ollama run <model> 'Say yes.'",
            "kubectl get pods -n ollama -o json",
        ),
        read=lambda said, pods: {**readings.answered(said), **readings.restarts(pods)},
        changes="the thresholds of the sidecar that watches a model's GPU",
    ),
    _question(
        "compute-mode-after-mps",
        "Is the GPU out of EXCLUSIVE_PROCESS mode when the node leaves MPS?",
        kind="likely",
        doubt=LIVE_AWS + "11",
        session="timeslice",
        step="back",
        ask=(_in_plugin("nvidia-smi --query-gpu=compute_mode --format=csv,noheader"),),
        read=readings.compute_mode,
        changes="the emulated card, and how long the proof retries",
    ),
    _question(
        "proof-after-mps",
        "Do pods of the proof fail while the MPS daemon goes?",
        kind="likely",
        doubt=LIVE_AWS + "11",
        session="timeslice",
        step="back",
        ask=("kubectl get jobs -n share-proof-gpu -o json",),
        read=readings.failed_jobs,
        changes="how long the proof retries",
    ),
    _question(
        "hook-process",
        "Does containerd leave the process of a finished postStart hook running?",
        kind="open",
        doubt="decision 0004",
        session="timeslice",
        step="up",
        # The brackets keep the search from finding itself.
        ask=(MODEL + "sh -c 'grep -l [m]odel_start /proc/[0-9]*/cmdline || true'",),
        read=readings.hook_processes,
        changes="how the sidecar ends the server",
    ),
    _question(
        "minimal-one-node",
        "Does an update with the strategy MINIMAL of a group with one node fail to evict pods?",
        kind="open",
        doubt="decision 0010; the evicted pods have no other node",
        session="timeslice",
        step="volume",
        ask=(UPDATES,),
        read=readings.update_errors,
        changes="the strategy of the GPU node groups",
        after_failure=True,
    ),
    _question(
        "failed-update-init-errors",
        "Does a failed update of a node group leave init errors in the state, so that the next `up` repeats it?",
        kind="open",
        doubt="decision 0007; pulumi/pulumi-eks issue 875",
        session="timeslice",
        step="volume",
        ask=(FAILED_UPDATE,),
        read=readings.init_errors,
        changes="the emulated engine's answer to a failed update",
        provokes=True,
    ),
    _question(
        "access-entry-delay",
        "How many seconds does a new access entry take to work?",
        kind="open",
        doubt="decision 0016",
        session="timeslice",
        step="volume",
        ask=(NEW_ENTRY,),
        read=readings.duration,
        changes="whether what follows an access entry has to wait",
        provokes=True,
    ),
    _question(
        "failed-group-starts-nodes",
        "Does the Auto Scaling group of a node group in status CREATE_FAILED go on starting nodes?",
        kind="likely",
        doubt="aws/containers-roadmap issue 764: nodes come up while the status stays CREATE_FAILED",
        session="timeslice",
        step="volume",
        ask=(
            # One node whose type no new account has the quota for; where the quota allows it, it runs until the delete.
            "group='--cluster-name <cluster> --nodegroup-name <group> --output text';"
            " failing='--cluster-name <cluster> --nodegroup-name live-failing';"
            " role=$(aws eks describe-nodegroup --region <region> $group --query nodegroup.nodeRole);"
            " subnets=$(aws eks describe-nodegroup --region <region> $group --query nodegroup.subnets);"
            " aws eks create-nodegroup --region <region> $failing --instance-types g4dn.metal --capacity-type SPOT"
            " --ami-type AL2023_x86_64_NVIDIA --scaling-config minSize=0,maxSize=1,desiredSize=1"
            " --node-role $role --subnets $subnets >/dev/null;"
            " aws eks wait nodegroup-active --region <region> $failing 2>/dev/null;"
            " aws eks describe-nodegroup --region <region> $failing --output json",
            "failing='--cluster-name <cluster> --nodegroup-name live-failing';"
            " aws autoscaling describe-auto-scaling-groups --region <region> --output json"
            " --filters Name=tag:eks:nodegroup-name,Values=live-failing;"
            " aws eks delete-nodegroup --region <region> $failing >/dev/null;"
            " aws eks wait nodegroup-deleted --region <region> $failing",
        ),
        read=lambda group, scaling: {**readings.health(group), **readings.scaling(scaling)},
        changes="what `tandem doctor` and the guide say of a failed group, and the emulated one",
        provokes=True,
    ),
    _question(
        "mig-reboot",
        "Does the change of the MIG mode reboot a g7e node?",
        kind="likely",
        doubt=LIVE_AWS + "4 and D",
        session="mig",
        step="up",
        ask=(
            "kubectl get events -A --field-selector reason=Rebooted -o json",
            NODES,
            # The container ends with the node. Without a reboot there is no previous one.
            "kubectl logs -n gpu-operator -l app=nvidia-mig-manager --previous --tail=-1 || true",
        ),
        read=readings.reboots,
        changes="the deadlines of the proof's Jobs under MIG",
    ),
    _question(
        "mig-proof",
        "Do pods of the proof fail while the node is cut?",
        kind="likely",
        doubt=LIVE_AWS + "4",
        session="mig",
        step="up",
        ask=("kubectl get jobs -n share-proof-gpu -o json",),
        read=readings.failed_jobs,
        changes="the deadlines of the proof's Jobs under MIG",
    ),
    _question(
        "operator-restarts",
        "Do the operator's containers restart on g7e: is its toolkit-only mode flaky with the AMI's driver?",
        kind="open",
        doubt=LIVE_AWS + "D",
        session="mig",
        step="up",
        ask=(
            "kubectl get pods -A -o json"
            " -l 'app in (nvidia-operator-validator, nvidia-mig-manager, gpu-feature-discovery)'",
        ),
        read=readings.restarts,
        changes="which parts of the operator are installed",
    ),
    _question(
        "first-release",
        "How long do the operator's pods take on new system nodes, against the timeout of the release?",
        kind="open",
        doubt=LIVE_AWS + "15",
        session="mig",
        step="up",
        ask=("kubectl get pods -A -l app=gpu-operator -o json",),
        read=readings.seconds_until_ready,
        changes="the timeout of the release, or the number of system nodes",
    ),
    _question(
        "degraded-spot-group",
        "Does a spot node group without capacity become DEGRADED and refuse updates?",
        kind="likely",
        doubt=LIVE_AWS + "5; aws/containers-roadmap issues 2204 and 2326",
        session="timeslice",
        step="volume",
        ask=(
            # More nodes than any new account's quota: what the quota allows starts, and is paid for, until the end.
            "aws eks update-nodegroup-config --region <region> --cluster-name <cluster> --nodegroup-name <group>"
            " --scaling-config minSize=0,maxSize=200,desiredSize=200 >/dev/null && sleep 900;"
            " aws eks update-nodegroup-config --region <region> --cluster-name <cluster> --nodegroup-name <group>"
            " --labels addOrUpdateLabels={live=1} --output json 2>&1 || true",
            "aws eks describe-nodegroup --region <region> --cluster-name <cluster> --nodegroup-name <group>"
            " --output json",
        ),
        read=lambda update, group: {**readings.update_refused(update), **readings.health(group)},
        changes="the emulated node group, and the command that the error names",
        provokes=True,
    ),
)
