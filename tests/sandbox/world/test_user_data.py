"""User data: the text with which a node starts decides whether it runs an MPS daemon of its own."""

from collections.abc import Callable
from typing import Any

import pytest

from components.mps_daemon import user_data
from sandbox.world import tokens
from sandbox.world.controllers.user_data import mps_directory
from tests.sandbox.karpenter_pieces import Karpenter
from tests.sandbox.mode_pieces import MPS, OWN, Switching, job, node_spec, prove, shares_spec
from tests.sandbox.user_data_pieces import ARCHIVE, GREETS, INSTALLS, PIPES, archive, in_base64
from tests.sandbox.world_pieces import GPU_LABELS, Account, meta, refused

CLAIM = "pipes"
ENCODED = archive(in_base64(INSTALLS), headers="Content-Transfer-Encoding: base64\n")
TEXTS = {
    "none": ("", ""),
    "the program's": (user_data(), "/run/tandem-mps"),
    "a daemon": (archive(INSTALLS), PIPES),
    "a daemon after another script": (archive(GREETS, INSTALLS), PIPES),
    "another script": (ARCHIVE, ""),
    "a daemon that is never started": (archive(INSTALLS.replace("enable", "status")), ""),
    "a service that is no daemon": (archive(INSTALLS.replace("-cuda-mps-control", "-smi")), ""),
    "a daemon in CUDA's own directory": (archive(INSTALLS.replace("CUDA_MPS_PIPE", "SOME")), ""),
    "no script but a configuration": (archive(INSTALLS, kind="cloud-config"), ""),
    "a part in base64, which Karpenter passes on without saying so": (ENCODED, ""),
}
"""User data of a node group, and the directory of the daemon."""


def daemons(account: Account) -> list[str]:
    """The directory of the daemon of each GPU node, oldest first."""
    nodes = [one for one in account.of(tokens.NODE) if "tandem/pool" in one.outputs["metadata"]["labels"]]
    return [mps_directory(node) for node in nodes]


@pytest.mark.parametrize("case", TEXTS)
def test_the_scripts_of_the_user_data_decide_and_no_label(account: Account, case: str) -> None:
    text, directory = TEXTS[case]
    account.gpu_nodes(labels={**GPU_LABELS, "tandem/mps": "per-model"}, **account.started_with(text))
    assert daemons(account) == [directory]


@pytest.mark.real_world(
    behaviour="A node starts with the user data of its group's launch template version, and a new version reaches it "
    "only by replacement",
    source="docs.aws.amazon.com/eks/latest/userguide/launch-templates.html#launch-template-versions",
)
def test_a_node_keeps_the_user_data_of_its_template_version(account: Account) -> None:
    template = account.started_with(ARCHIVE)
    group = account.gpu_nodes(**template)
    identity = template["launchTemplate"]["id"]
    account.change(tokens.TEMPLATE, identity, userData=in_base64(archive(INSTALLS)))
    account.change(tokens.NODE_GROUP, group, scalingConfig={"minSize": 0, "desiredSize": 2, "maxSize": 9})
    assert daemons(account) == ["", ""], "the group still has the first version"
    account.change(tokens.NODE_GROUP, group, launchTemplate={"id": identity, "version": "2"})
    assert daemons(account) == [PIPES, PIPES]
    assert account.world.recycled == {"gpu": 2}


@pytest.mark.real_world(
    behaviour="The user data of an EC2NodeClass is plain text: Karpenter encodes it, and takes other text for a script",
    source="karpenter-provider-aws v1.14.1 pkg/providers/amifamily/bootstrap/nodeadm.go",
)
@pytest.mark.parametrize(
    ("text", "directory"), [(INSTALLS, PIPES), (archive(INSTALLS), PIPES), (in_base64(archive(INSTALLS)), "")]
)
def test_a_node_of_karpenter_has_the_plain_text_of_its_class(text: str, directory: str) -> None:
    account = Karpenter()
    node_class = account.node_class()
    spec = account.outputs(tokens.NODE_CLASS, node_class)["spec"]
    account.change(tokens.NODE_CLASS, node_class, spec={**spec, "userData": text})
    account.pool()
    account.model("two", replicaCount=2)
    assert daemons(account) == [directory]
    account.change(tokens.NODE_CLASS, node_class, spec={**spec, "userData": GREETS})
    spec = account.outputs(tokens.NODE_POOL, "gpu")["spec"]
    account.change(tokens.NODE_POOL, "gpu", spec={**spec, "limits": {"nodes": "2"}})
    account.model("third")
    assert daemons(account) == [directory, ""]


# The daemon's directory.


def claim(account: Account, path: str = PIPES, kind: str = "Directory", namespace: str = "default") -> None:
    account.make(tokens.PERSISTENT_VOLUME, metadata=meta(CLAIM), spec={"hostPath": {"path": path, "type": kind}})
    bound = {"storageClassName": "", "volumeName": CLAIM}
    account.make(tokens.CLAIM, metadata=meta(CLAIM, namespace=namespace), spec=bound)


MOUNTED: dict[str, Any] = {"volumes": [{"name": CLAIM, "persistentVolumeClaim": {"claimName": CLAIM}}]}


@pytest.mark.parametrize(
    ("text", "path", "kind", "starts"),
    [
        (archive(INSTALLS), PIPES, "Directory", True),
        (archive(INSTALLS), "/run/elsewhere", "Directory", False),
        (ARCHIVE, PIPES, "Directory", False),
        (ARCHIVE, PIPES, "DirectoryOrCreate", True),
    ],
)
@pytest.mark.real_world(
    behaviour="The kubelet never starts a pod with a hostPath of type Directory that the node does not have",
    source="kubernetes/kubernetes#90263",
)
def test_a_pod_with_a_claim_on_a_missing_directory_does_not_start(
    ready: Account, text: str, path: str, kind: str, starts: bool
) -> None:
    ready.drop(tokens.NODE_GROUP, "c:gpu")
    claim(ready, path, kind)
    ready.nodes("pipes", instanceTypes=["g4dn.xlarge"], labels=GPU_LABELS, **ready.started_with(text))
    if starts:
        ready.model(**MOUNTED)
        return
    with refused("Timeout", f"ContainerCreating on .*FailedMount.*{path} is not a directory"):
        ready.model(**MOUNTED)
    ready.model("other")


# The proof of shares with limits of their own.


def test_a_proof_of_own_limits_completes_where_the_node_has_the_daemon() -> None:
    account = Switching(OWN)
    for name in prove(account, OWN):
        assert account.outputs(tokens.JOB, name)["status"]["conditions"][0]["type"] == "Complete"


def without_mount(account: Switching, spec: dict[str, Any]) -> None:
    pod = spec["template"]["spec"]
    pod["volumes"], pod["containers"][0]["volumeMounts"] = pod["volumes"][:1], pod["containers"][0]["volumeMounts"][:1]


def without_variable(account: Switching, spec: dict[str, Any]) -> None:
    container = spec["template"]["spec"]["containers"][0]
    container["env"] = [one for one in container["env"] if one["name"] != "CUDA_MPS_PIPE_DIRECTORY"]


def with_any_directory(account: Switching, spec: dict[str, Any]) -> None:
    [volume] = account.of(tokens.PERSISTENT_VOLUME)
    account.world.tamper(*volume.key, lambda entity: entity.inputs["spec"]["hostPath"].pop("type"))


NO_DAEMON = "no MPS daemon at /run/tandem-mps"
WRONG: dict[str, tuple[str | None, Callable[[Switching, dict[str, Any]], None] | None, str, str]] = {
    "no daemon": (ARCHIVE, None, "DeadlineExceeded", "FailedMount.*/run/tandem-mps is not a directory"),
    "no daemon, and the kubelet makes the directory": (ARCHIVE, with_any_directory, "BackoffLimitExceeded", NO_DAEMON),
    "a daemon elsewhere": (archive(INSTALLS), with_any_directory, "BackoffLimitExceeded", NO_DAEMON),
    "no mount": (None, without_mount, "BackoffLimitExceeded", NO_DAEMON),
    "no variable": (None, without_variable, "BackoffLimitExceeded", "no MPS daemon at"),
}
"""User data (None: the program's), what is changed, and the error."""


@pytest.mark.parametrize("case", WRONG)
def test_a_proof_of_own_limits_fails_without_daemon_mount_or_variable(case: str) -> None:
    text, change, code, words = WRONG[case]
    account, spec = Switching(OWN, text=text), shares_spec(OWN)
    if change:
        change(account, spec)
    with refused(code, words):
        account.make(tokens.JOB, **job(spec))


def test_a_proof_of_own_limits_fails_where_the_plugin_shares_by_mps() -> None:
    account = Switching(OWN)
    account.reconfigure(MPS)
    with refused("BackoffLimitExceeded", "sharing-strategy is mps, expected time-slicing"):
        account.make(tokens.JOB, **job(node_spec(OWN)))
