"""A cluster that a stack uses but does not own: its facts, and what they rule out for the stack."""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from sharing.existing.objects import Installed, Workload
from sharing.existing.scheduling import Node, Taint, may_run
from sharing.models.importance import priority_class, used
from sharing.names import (
    DEVICE_PLUGIN_NAMESPACE,
    DISCOVERY_NAMESPACE,
    GPU_EXPORTER,
    GPU_PRESENT_LABEL,
    GPU_TAINT,
    GPU_TAINT_VALUE,
    KEDA_NAMESPACE,
    MODE_TAINT,
    MONITORING_NAMESPACE,
    OLLAMA_NAMESPACE,
    OPERATOR_NAMESPACE,
    POOL_LABEL,
    PROJECT,
    TYPE_LABEL,
    UI_NAMESPACE,
    cluster_name,
)
from sharing.problems import Problem
from sharing.sections.config import StackConfig
from sharing.sections.pools import GpuPool
from sharing.versions import AMI_KUBERNETES

PATH = "cluster.existing.name"
MOST_MINORS_OLDER = 3
"""How far a kubelet may be behind the API server (kubernetes.io/releases/version-skew-policy, "kubelet"). EKS creates
managed node groups of the control plane's version only (EKS API reference, CreateNodegroup, `version`)."""
CNI_FOLDERS = ("/etc/cni/net.d", "/opt/cni/bin")
"""Every network plugin puts its configuration or its binaries there (containerd's defaults)."""
CHAINED = ("install-cni", "linkerd", "multus")
"""Parts of the images of plugins that do the same, and need another network plugin. `install-cni` is that of Istio."""
PLUGIN_FOLDERS = ("/var/lib/kubelet/device-plugins", "/run/nvidia/mps")
"""Where a device plugin registers with the kubelet (Kubernetes documentation, "Device Plugins"), and where the MPS
daemon of NVIDIA's chart listens (k8s-device-plugin v0.20.0, templates/daemonset-mps-control-daemon.yml)."""
NVIDIA_PLUGINS = ("nvidia", "/k8s-device-plugin", "hami", "vgpu")
"""Parts of the images of device plugins that register NVIDIA GPUs."""
QUEUE = f"{PROJECT}-karpenter-interruptions"
"""How the interruption queue of a Karpenter of ours is called."""
MAYBE = re.compile(
    r"(?!nvidia\.com/gpu\.deploy\.|node-role\.)([\w-]+\.)*(nvidia\.com|kubernetes\.io|k8s\.(io|aws)|amazonaws\.com|sh)/"
)
"""Labels that nodes get from the kubelet, EKS, Karpenter (`karpenter.sh`) and feature discovery. Those of the GPU
Operator's operands never are on nodes of ours: `ENTIRE_GPU_LABELS` makes it delete them (gpu-operator v26.7.0,
controllers/state_manager.go, removeAllGPUStateLabels). With MIG, there is no other operator."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterFacts:
    """An EKS cluster, as EKS and its Kubernetes API describe it."""

    name: str
    status: str
    version: str
    authentication: str
    """`API`, `API_AND_CONFIG_MAP` or `CONFIG_MAP`."""
    is_automatic: bool
    """Whether it has EKS Auto Mode, which includes a Karpenter."""
    ip_family: str = "ipv4"
    """Or `ipv6`."""
    installed: Installed | None
    """None if the Kubernetes API was not asked, because the cluster is not ACTIVE."""


def not_found(name: str, region: str) -> Problem:
    """No cluster has the name."""
    fix = f"Write a name that `aws eks list-clusters --region {region}` prints."
    return Problem(PATH, f"'{name}'", f"is no EKS cluster of this account in {region}", fix)


def not_described(name: str, why: str) -> Problem:
    """AWS does not describe the cluster."""
    rule = f"cannot be described by EKS ({why})"
    return Problem(PATH, f"'{name}'", rule, "Allow your role `eks:ListClusters` and `eks:DescribeCluster`.")


def not_admitted(name: str, why: str, authentication: str) -> Problem:
    """The Kubernetes API rejects the caller. With the mode CONFIG_MAP, a cluster has no access entries."""
    fix = (
        "Map your role to the group system:masters in the ConfigMap `aws-auth` of kube-system."
        if authentication == "CONFIG_MAP"
        else f"Create an access entry: `aws eks create-access-entry --cluster-name {name} --principal-arn ROLE`, and "
        "associate the policy AmazonEKSClusterAdminPolicy with it."
    )
    return Problem(PATH, f"'{name}'", f"does not admit you ({why})", fix)


def not_reached(name: str, why: str) -> Problem:
    """The Kubernetes API does not answer."""
    fix = "Run `up` where its endpoint is reachable: inside its VPC, or from an address that it allows."
    return Problem(PATH, f"'{name}'", f"has a Kubernetes API that cannot be reached ({why})", fix)


def judge_cluster(facts: ClusterFacts, config: StackConfig, stack: str) -> Iterator[Problem]:
    """What keeps the stack from working in the cluster, or would break something that is there."""
    if facts.status != "ACTIVE":
        yield Problem(PATH, f"'{facts.name}'", f"is {facts.status}, so EKS refuses changes", "Wait until it is ACTIVE.")
        return
    if facts.ip_family != "ipv4":
        rule = f"gives pods {facts.ip_family} addresses, which the stack's nodes cannot assign"
        yield Problem(PATH, f"'{facts.name}'", rule, "Use a cluster with the IP family ipv4.")
    yield from _judge_version(facts, config, creates_groups=_creates_groups(facts, config, stack))
    yield from _judge_authentication(facts, config)
    if facts.installed:
        there = There(facts.installed, config, stack)
        for check in CHECKS:
            yield from check(there)
        yield from _judge_karpenter(facts, there)


def warn_of_cluster(facts: ClusterFacts, config: StackConfig, stack: str) -> Iterator[Problem]:
    """What may keep a part of the stack waiting, or stop a later change."""
    if not _creates_groups(facts, config, stack) and not [*_judge_version(facts, config, creates_groups=False)]:
        # Groups that exist may stay older. What replaces one is known only to Pulumi.
        yield from _judge_version(facts, config, creates_groups=_has_groups(config))
    if facts.installed and not facts.installed.has_untainted_node:
        rule = "has no node without taints now, on which the stack's pods without a GPU could run"
        yield Problem(PATH, f"'{facts.name}'", rule, "Add a node without taints, if nothing adds one on demand.")


class There:
    """What is installed in the cluster, without what this stack installed itself."""

    def __init__(self, installed: Installed, config: StackConfig, stack: str) -> None:
        self.installed, self.config, own = installed, config, cluster_name(stack)
        self.owners = {key: owner for key, owner in installed.owners.items() if owner != own}
        self.workloads = [
            each
            for each in installed.workloads
            if installed.owners.get(("namespace", each.namespace)) != own
            and not each.variable("INTERRUPTION_QUEUE").startswith(QUEUE)
        ]

    @property
    def is_deployed(self) -> bool:
        """Whether the stack has been deployed, or was while an `up` failed."""
        return self.owners != self.installed.owners

    @property
    def has_discovery(self) -> bool:
        """Whether node feature discovery labels the nodes."""
        return bool(self.controllers("node-feature-discovery"))

    def on(self, pools: list[GpuPool], is_wanted: Callable[[Workload], bool]) -> list[Workload]:
        """DaemonSets whose pods may run on nodes of these pools."""
        nodes = [node for pool in pools for node in describe_nodes(pool)]
        found = [each for each in self.workloads if each.kind == "DaemonSet" and is_wanted(each)]
        return [each for each in found if any(may_run(each.pod, node) for node in nodes)]

    def controllers(self, *images: str) -> list[Workload]:
        """Deployments with one of these images."""
        return [each for each in self.workloads if each.kind == "Deployment" and each.uses(*images)]


def describe_nodes(pool: GpuPool) -> list[Node]:
    """A node of each type of a pool, whatever creates it."""
    taints = (
        Taint(key=GPU_TAINT, value=GPU_TAINT_VALUE, effect="NoSchedule"),
        # The rest of the value is random.
        Taint(key=MODE_TAINT, value=f"{pool.sharing.config_name}-", effect="NoExecute"),
    )
    same = {POOL_LABEL: pool.name, GPU_PRESENT_LABEL: "true", "kubernetes.io/os": "linux"}
    return [
        Node(
            labels={
                **same,
                **pool.sharing.node_labels(kind.gpu),
                TYPE_LABEL: kind.name,
                "kubernetes.io/arch": kind.arch,
            },
            taints=taints,
            maybe=MAYBE,
        )
        for kind in pool.known_types
    ]


def find_names(config: StackConfig, *, discovery: bool) -> Iterator[tuple[str, str]]:
    """Kind and name of each object with a name of its own in the cluster that the stack creates."""
    whole = [pool for pool in config.pools if not pool.sharing.needs_mig_manager]
    monitoring = config.monitoring
    namespaces = {
        OLLAMA_NAMESPACE: True,
        DEVICE_PLUGIN_NAMESPACE: bool(whole),
        OPERATOR_NAMESPACE: len(whole) < len(config.pools),
        DISCOVERY_NAMESPACE: discovery,
        UI_NAMESPACE: config.ui.enabled,
        KEDA_NAMESPACE: config.scale_to_zero.enabled,
        GPU_EXPORTER: monitoring.has_metrics and bool(whole),
        MONITORING_NAMESPACE: monitoring.store == "builtin",
    }
    yield from (("namespace", name) for name, is_created in namespaces.items() if is_created)
    for pool in config.pools:
        if config.proof and not config.unproved(pool):
            yield "namespace", f"share-proof-{pool.name}"
            yield "ClusterRole", f"share-proof-{pool.name}-node-prober"
    for importance in used(served.importance for served in config.models):
        yield "PriorityClass", priority_class(OLLAMA_NAMESPACE, importance)


def _has_groups(config: StackConfig) -> bool:
    return any(pool.provisioner == "node-group" for pool in config.pools)


def _creates_groups(facts: ClusterFacts, config: StackConfig, stack: str) -> bool:
    """Whether it is certain that this `up` creates node groups: the first one does."""
    installed = facts.installed
    return _has_groups(config) and installed is not None and not There(installed, config, stack).is_deployed


def _judge_version(facts: ClusterFacts, config: StackConfig, *, creates_groups: bool) -> Iterator[Problem]:
    """Nodes are not newer than the control plane, and not much older. New node groups have its version."""
    wanted, newest = config.cluster.kubernetes, _minor(facts.version)
    fits = range(newest - (0 if creates_groups else MOST_MINORS_OLDER), newest + 1)
    if _minor(wanted) in fits:
        return
    rule = f"does not match the control plane of '{facts.name}', which has {facts.version}"
    rule += ", and EKS creates node groups of that version only" * creates_groups
    fitting = [each for each in AMI_KUBERNETES if _minor(each) in fits]
    if fitting:
        fix = f'Write `kubernetes: "{max(fitting, key=_minor)}"`.'
    elif newest < min(map(_minor, AMI_KUBERNETES)):
        fix = f"Upgrade the cluster to {min(AMI_KUBERNETES, key=_minor)} or newer."
    else:
        fix = f"Install a release of tandem that has {facts.version}."
    yield Problem("cluster.kubernetes", wanted, rule, fix)


def _minor(version: str) -> int:
    return int(version.split(".")[1])


def _judge_authentication(facts: ClusterFacts, config: StackConfig) -> Iterator[Problem]:
    # EKS admits the role of a managed node group itself, in every mode.
    if facts.authentication == "CONFIG_MAP" and config.karpenter_pools:
        rule = f"needs an access entry for its nodes, and '{facts.name}' has the authentication mode CONFIG_MAP"
        fix = "Write `provisioner: node-group`, or change the mode to API_AND_CONFIG_MAP, which cannot be undone."
        yield Problem(f"{config.karpenter_pools[0].path}.provisioner", "karpenter", rule, fix)


def _judge_network(there: There) -> Iterator[Problem]:
    """Each node needs a network plugin, and pods need DNS and the addresses of Services."""
    for pool in there.config.pools:
        plugins = there.on([pool], lambda each: each.mounts(*CNI_FOLDERS) and not each.uses(*CHAINED))
        proxies = there.on([pool], lambda each: each.uses("kube-proxy"))
        if not plugins:
            fix = f"Install the EKS add-on vpc-cni, or let your network plugin tolerate the taint {MODE_TAINT}."
            yield Problem(PATH, "", f"no network plugin would run on the nodes of pool {pool.name}", fix)
        # Other plugins may replace kube-proxy, as Cilium does.
        elif all(each.uses("amazon-k8s-cni") for each in plugins) and not proxies:
            fix = "Install the EKS add-on kube-proxy."
            yield Problem(PATH, "", f"no kube-proxy would run on the nodes of pool {pool.name}", fix)
    if not there.installed.services & {"kube-dns", "coredns"}:
        yield Problem(PATH, "", "no DNS for pods is installed in kube-system", "Install the EKS add-on coredns.")


def _judge_volumes(there: There) -> Iterator[Problem]:
    """Volumes with model files need the EBS CSI driver on their nodes, and the page's volume on any node."""
    for served in there.config.models:
        pool = next(pool for pool in there.config.pools if pool.name == served.pool)
        if served.cache == "volume" and not there.on([pool], lambda each: each.uses("ebs-csi-driver")):
            rule = f"needs the EBS CSI driver, and it would not run on the nodes of pool {pool.name}"
            fix = "Install the EKS add-on aws-ebs-csi-driver, or write `cache: node`."
            yield Problem(f"{served.path}.cache", "volume", rule, fix)
    if (gib := there.config.ui.kept_gib) and not any(each.uses("ebs-csi-driver") for each in there.workloads):
        rule = "needs the EBS CSI driver, which the cluster does not have"
        fix = "Install the EKS add-on aws-ebs-csi-driver, or write `storage-gib: 0`."
        yield Problem("ui.storage-gib", str(gib), rule, fix)


def _judge_identity(there: There) -> Iterator[Problem]:
    """Karpenter gets its role from the Pod Identity agent."""
    pools = there.config.karpenter_pools
    if pools and not any(each.uses("eks-pod-identity-agent") for each in there.workloads):
        rule = "needs the Pod Identity agent, which the cluster does not have"
        fix = "Install the EKS add-on eks-pod-identity-agent, or write `provisioner: node-group`."
        yield Problem(f"{pools[0].path}.provisioner", "karpenter", rule, fix)


def _judge_plugins(there: There) -> Iterator[Problem]:
    """Two device plugins on a node register its GPUs twice, and the last one decides how many shares there are."""
    for each in there.on(list(there.config.pools), _is_gpu_plugin):
        fix = f"Add `{{key: {POOL_LABEL}, operator: DoesNotExist}}` to its required node affinity."
        yield Problem(PATH, "", f"the device plugin of {each.label} would also run on the stack's GPU nodes", fix)


def _is_gpu_plugin(workload: Workload) -> bool:
    return workload.mounts(*PLUGIN_FOLDERS) and workload.uses(*NVIDIA_PLUGINS)


def _judge_operator(there: There) -> Iterator[Problem]:
    """MIG needs a GPU Operator with our settings, and a cluster can have only one."""
    partitioned = [pool for pool in there.config.pools if pool.sharing.needs_mig_manager]
    if not partitioned:
        return
    for each in there.controllers("nvidia/gpu-operator", "cloud-native/gpu-operator"):
        rule = f"needs a GPU Operator of its own, and the cluster has one: {each.label}"
        fix = "Write `mode: timeslice` or `mode: mps`, or use a cluster without it."
        yield Problem(f"{partitioned[0].sharing_path}.mode", "mig", rule, fix)
    if there.installed.gpu_nodes:
        rule = f"installs the GPU Operator, which would also manage other GPU nodes: {there.installed.gpu_nodes[0]}"
        fix = "Write `mode: timeslice` or `mode: mps`, or use a cluster without other GPU nodes."
        yield Problem(f"{partitioned[0].sharing_path}.mode", "mig", rule, fix)
    if there.has_discovery and not there.on(partitioned, lambda each: each.uses("node-feature-discovery")):
        rule = "needs node feature discovery on its nodes, and the one in the cluster would not run there"
        fix = f"Let its worker tolerate the taints {GPU_TAINT} and {MODE_TAINT}."
        yield Problem(f"{partitioned[0].sharing_path}.mode", "mig", rule, fix)


def _judge_features(there: There) -> Iterator[Problem]:
    """A cluster has at most one KEDA. Monitors of metrics need the Prometheus Operator."""
    if there.config.scale_to_zero.enabled and (keda := there.controllers("keda")):
        rule = f"installs KEDA, and the cluster has one: {keda[0].label}"
        yield Problem("scale-to-zero.enabled", "true", rule, "Remove `scale-to-zero`, or use a cluster without KEDA.")
    if there.config.monitoring.service_monitors and not there.installed.has_monitors:
        rule = "needs the Prometheus Operator, which the cluster does not have"
        yield Problem("monitoring.service-monitors", "true", rule, "Write `store: builtin` instead, or install it.")


def _judge_names(there: There) -> Iterator[Problem]:
    """The names of what the stack creates are free."""
    for kind, name in find_names(there.config, discovery=not there.has_discovery):
        if (kind, name) in there.owners:
            owner = there.owners[kind, name]
            whose = f"belongs to stack {owner.removeprefix(f'{PROJECT}-')}" if owner else "is not from this stack"
            rule = f"the {kind} '{name}' exists and {whose}"
            yield Problem(PATH, "", rule, "Delete it, or use another cluster: the stack needs the name.")


def _judge_karpenter(facts: ClusterFacts, there: There) -> Iterator[Problem]:
    """Two controllers would fight over the same NodePools. Auto Mode has its own, but the same definitions."""
    pools = there.config.karpenter_pools
    found = there.controllers("karpenter/controller")
    rules = [f"installs Karpenter, and the cluster has one: {each.label}" for each in found]
    rules += ["installs custom resource definitions that EKS Auto Mode already has"] * facts.is_automatic
    if pools and rules:
        yield Problem(f"{pools[0].path}.provisioner", "karpenter", rules[0], "Write `provisioner: node-group`.")


CHECKS: tuple[Callable[[There], Iterator[Problem]], ...] = (
    _judge_network,
    _judge_volumes,
    _judge_identity,
    _judge_plugins,
    _judge_operator,
    _judge_features,
    _judge_names,
)
