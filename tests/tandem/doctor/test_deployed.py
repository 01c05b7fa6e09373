"""What `up` finds where the stack is up, or half up: cluster, node groups, add-ons, Helm releases."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from moto.eks.models import eks_backends

from tandem.deployed.endpoints import NotConnectedError
from tests.tandem.account.creation import Creation
from tests.tandem.account.emulated import OURS, REGION, Emulated
from tests.tandem.doctor.conftest import Cases
from tests.tandem.doctor.findings import finding, findings, summary
from tests.tandem.fake_pulumi import pulumi

CLUSTER = "tandem-timeslice"
Machine = Callable[..., None]
GROUP_URN = "urn:pulumi:timeslice::tandem::tandem:index:SpotGpuNodeGroup$aws:eks/nodeGroup:NodeGroup::tandem-gpu-group"
NO_CAPACITY = {
    "code": "AsgInstanceLaunchFailures",
    "message": "Could not launch Spot Instances. UnfulfillableCapacity",
    "resourceIds": ["eks-1"],
}
"""An issue as the EKS API reference has it (Nodegroup.health.issues)."""
DEPLOYED = ("node-groups", "add-ons", "helm-releases")


@pytest.fixture
def up(creation: Creation) -> Creation:
    creation.EKS_clusters(OURS, CLUSTER)
    return creation


def group(creation: Creation, status: str, *issues: Any, name: str = "tandem-gpu-group") -> str:
    """A node group in this state; moto's own are always ACTIVE and without issues."""
    own = creation.node_groups({**OURS, "Name": name}, CLUSTER).partition("/")[2]
    raw = eks_backends["123456789012"][REGION].clusters[CLUSTER].nodegroups[own]
    raw.status, raw.health = status, {"issues": list(issues)}
    return own


def test_before_up_a_cluster_that_does_not_exist_is_fine(emulated: Emulated, case: Cases) -> None:
    assert summary("cluster", case("timeslice")) == [("ok", f"not deployed yet: `up` creates {CLUSTER}")]
    for check in DEPLOYED:
        assert summary(check, case("timeslice")) == [("ok", "not deployed yet")]


def test_a_cluster_of_that_name_that_is_anothers_stops_up(creation: Creation, case: Cases) -> None:
    creation.EKS_clusters({"owner": "another"}, CLUSTER)
    found = finding("cluster", case("timeslice"))
    assert (found.verdict, "not of this stack" in found.found) == ("stops", True)
    for check in DEPLOYED:
        assert summary(check, case("timeslice")) == [("ok", "not deployed yet")]


@pytest.mark.parametrize(
    ("status", "verdict"), [("ACTIVE", "ok"), ("FAILED", "stops"), ("CREATING", "warning"), ("DELETING", "warning")]
)
def test_the_state_of_the_cluster_is_told(up: Creation, case: Cases, status: str, verdict: str) -> None:
    eks_backends["123456789012"][REGION].clusters[CLUSTER].status = status
    assert finding("cluster", case("timeslice")).verdict == verdict


def test_a_healthy_node_group_is_fine(up: Creation, case: Cases) -> None:
    own = group(up, "ACTIVE")
    assert summary("node-groups", case("timeslice")) == [("ok", f"{own} is ACTIVE")]


@pytest.mark.slow
@pytest.mark.real_world(
    behaviour="EKS keeps a node group that failed to create, and never heals it.",
    source="aws/containers-roadmap#764; EKS API reference, Nodegroup.status",
)
def test_a_node_group_that_failed_to_create_is_named_and_the_next_up_replaces_it(
    up: Creation, case: Cases, machine: Machine
) -> None:
    machine("pulumi", exported(failed(GROUP_URN)))
    group(up, "ACTIVE")
    own = group(up, "CREATE_FAILED", NO_CAPACITY)
    broken, healthy = findings("node-groups", case("timeslice"))
    assert (broken.verdict, healthy.verdict) == ("warning", "ok")
    assert broken.found == (
        f"node group {own} failed to create; it may still start nodes, which cost money and use the quota: "
        "AsgInstanceLaunchFailures (Could not launch Spot Instances. UnfulfillableCapacity)"
    )
    assert broken.fix == (
        "Remove the cause: the next `pulumi up` replaces it. If the quota has no room for a second group, first run "
        "`aws eks delete-nodegroup --region us-east-1 --cluster-name tandem-timeslice "
        f"--nodegroup-name {own}`."
    )


REPLACE = f"pulumi up --stack timeslice --replace '{GROUP_URN}'"


@pytest.mark.real_world(
    behaviour="`pulumi refresh` takes the mark of a failed creation out of the state, and EKS keeps the failed group.",
    source="pulumi pkg/resource/deploy/step.go, RefreshStep; tests/engine/test_failed_groups.py",
)
def test_a_failed_group_that_a_refresh_has_seen_stops_up(up: Creation, case: Cases, machine: Machine) -> None:
    machine("pulumi", exported({"urn": GROUP_URN, "type": "aws:eks/nodeGroup:NodeGroup"}))
    group(up, "CREATE_FAILED", NO_CAPACITY)
    found = finding("node-groups", case("timeslice"))
    assert found.verdict == "stops"
    assert found.fix.startswith(f"Remove the cause, then: {REPLACE}. If the quota has no room")


def test_without_the_state_both_ways_are_named(up: Creation, case: Cases, machine: Machine) -> None:
    machine("pulumi", "", code=255)
    group(up, "CREATE_FAILED", NO_CAPACITY)
    found = finding("node-groups", case("timeslice"))
    assert found.verdict == "warning"
    assert f"after a refresh: {REPLACE}. " in found.fix


def exported(*resources: Any, pending: Any = ()) -> str:
    """What `pulumi stack export` prints (pulumi 3.260; sdk/go/common/apitype/core.go)."""
    deployment = {"manifest": {}, "resources": list(resources), "pending_operations": list(pending)}
    return json.dumps({"version": 3, "deployment": deployment})


def failed(urn: str) -> dict[str, Any]:
    type_ = urn.split("::")[2].rpartition("$")[2]
    return {"urn": urn, "type": type_, "id": "x", "initErrors": ["waiting for EKS Node Group create: CREATE_FAILED"]}


@pytest.mark.real_world(
    behaviour="The engine marks a resource alike after a failed creation and after a failed update.",
    source="pulumi pkg/resource/deploy/step.go and step_generator.go, initErrorSpecialKey",
)
def test_a_failed_update_is_found_in_the_state_with_the_command_that_keeps_the_group(
    case: Cases, machine: Machine
) -> None:
    machine("pulumi", exported({"urn": "urn:a::b::c::fine", "type": "c"}, failed(GROUP_URN)))
    found = finding("state", case("timeslice"))
    assert found.verdict == "warning"
    assert found.found.startswith("tandem-gpu-group: its creation or last update failed")
    assert found.fix.endswith(": pulumi up --refresh --stack timeslice")


def test_a_failed_add_on_in_the_state_is_uninstalled_by_a_plain_up(case: Cases, machine: Machine) -> None:
    urn = "urn:pulumi:timeslice::tandem::tandem:index:GpuCluster$aws:eks/addon:Addon::tandem-coredns"
    machine("pulumi", exported(failed(urn)))
    found = finding("state", case("timeslice"))
    assert found.found.endswith("the next `up` uninstalls and installs it")
    assert found.fix.endswith(": pulumi up --refresh --stack timeslice")


def test_an_operation_that_never_ended_is_found_in_the_state(case: Cases, machine: Machine) -> None:
    machine("pulumi", exported(pending=[{"type": "creating", "resource": {"urn": GROUP_URN}}]))
    found = finding("state", case("timeslice"))
    assert (found.verdict, found.fix) == ("warning", "pulumi refresh --stack timeslice")
    assert "creating tandem-gpu-group" in found.found


@pytest.mark.parametrize(
    ("printed", "code", "verdict", "told"),
    [
        (exported(), 0, "ok", "not deployed yet"),
        (exported({"urn": "urn:a::b::c::fine", "type": "c"}), 0, "ok", "no failed resource, no unfinished operation"),
        ("{}", 0, "unknown", "`pulumi stack export` printed no state"),
        ("error", 0, "unknown", "`pulumi stack export` printed no state"),
        ("", 255, "unknown", "Pulumi does not show the state: it gave no reason"),
    ],
)
def test_what_the_state_says_is_told(
    case: Cases, machine: Machine, printed: str, code: int, verdict: str, told: str
) -> None:
    machine("pulumi", printed, code)
    assert summary("state", case("timeslice")) == [(verdict, told)]


def test_a_state_that_nobody_shows_is_not_fine(case: Cases, machine: Machine, tmp_path: Path) -> None:
    assert finding("state", case("timeslice")).verdict == "unknown"
    pulumi(tmp_path, says="error: no stack named 'timeslice' found\n", code=6)
    assert summary("state", case("timeslice")) == [("ok", "not deployed yet")]
    pulumi(tmp_path, says="error: PULUMI_ACCESS_TOKEN must be set.\n", code=255)
    assert summary("state", case("timeslice")) == [("unknown", "you are not logged in to a Pulumi backend")]
    assert "pulumi login --local" in finding("state", case("timeslice")).fix
    pulumi(tmp_path, says="error: passphrase must be set.\n", code=255)
    assert summary("state", case("timeslice")) == [
        ("unknown", "Pulumi does not show the state: passphrase must be set")
    ]


@pytest.mark.real_world(
    behaviour="An update of a node group goes on with four health issues, of capacity and reach, and with no other.",
    source="repost.aws/knowledge-center/eks-managed-node-group-update, error message of UpdateNodegroupVersion",
)
@pytest.mark.parametrize(
    "code",
    ["AsgInstanceLaunchFailures", "InstanceLimitExceeded", "InsufficientFreeAddresses", "ClusterUnreachable"],
)
def test_a_degraded_node_group_that_lacks_capacity_may_refuse_updates(up: Creation, case: Cases, code: str) -> None:
    own = group(up, "DEGRADED", {**NO_CAPACITY, "code": code})
    found = finding("node-groups", case("timeslice"))
    assert found.verdict == "warning"
    assert found.found.startswith(f"node group {own} is DEGRADED and may refuse updates: {code}")
    assert found.fix == f'Run `pulumi up`. If it fails with "not in Active State": {REPLACE}'


@pytest.mark.slow
@pytest.mark.real_world(
    behaviour="An update of a node group goes on with four health issues, of capacity and reach, and with no other.",
    source="repost.aws/knowledge-center/eks-managed-node-group-update, error message of UpdateNodegroupVersion",
)
@pytest.mark.parametrize(
    "issues", [[{"code": "Ec2LaunchTemplateNotFound"}], [NO_CAPACITY, {"code": "AccessDenied"}], []]
)
def test_a_node_group_that_is_degraded_otherwise_is_named_with_the_command_that_replaces_it(
    up: Creation, case: Cases, issues: list[Any]
) -> None:
    own = group(up, "DEGRADED", *issues)
    found = finding("node-groups", case("timeslice"))
    assert (found.verdict, found.fix) == ("stops", REPLACE)
    assert found.found.startswith(f"node group {own} is DEGRADED and refuses updates")


@pytest.mark.parametrize(
    ("status", "told"),
    [
        ("DELETE_FAILED", "failed to delete"),
        ("UPDATING", "Wait until it is ACTIVE"),
        ("CREATING", "Wait until it is ACTIVE"),
    ],
)
def test_a_node_group_in_another_state_is_a_warning(up: Creation, case: Cases, status: str, told: str) -> None:
    group(up, status)
    found = finding("node-groups", case("timeslice"))
    assert (found.verdict, told in f"{found.found} {found.fix}") == ("warning", True)


def test_an_active_node_group_with_an_issue_is_a_warning(up: Creation, case: Cases) -> None:
    group(up, "ACTIVE", NO_CAPACITY)
    assert finding("node-groups", case("timeslice")).verdict == "warning"


def test_a_group_that_pulumi_does_not_know_by_name_is_looked_up_there(up: Creation, case: Cases) -> None:
    group(up, "DEGRADED", name="another")
    assert "pulumi stack --show-urns" in finding("node-groups", case("timeslice")).fix


@pytest.mark.slow
@pytest.mark.parametrize(
    ("status", "verdict", "told"),
    [
        ("ACTIVE", "ok", "coredns is ACTIVE"),
        ("CREATE_FAILED", "warning", "replaces it, but after a refresh: pulumi up --stack timeslice --replace"),
        ("DEGRADED", "warning", "tandem:index:GpuCluster$aws:eks/addon:Addon::tandem-coredns'"),
        ("UPDATE_FAILED", "warning", "pulumi up --refresh --stack timeslice. If that fails, uninstall and install it"),
    ],
)
def test_the_health_of_add_ons_is_told(
    up: Creation, emulated: Emulated, machine: Machine, case: Cases, status: str, verdict: str, told: str
) -> None:
    emulated.addons[CLUSTER, "coredns"] = OURS
    emulated.addon_status["coredns"] = status
    found = finding("add-ons", case("timeslice"))
    assert (found.verdict, told in f"{found.found} {found.fix}") == (verdict, True)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("check", "operation"),
    [
        ("cluster", "DescribeCluster"),
        ("node-groups", "DescribeCluster"),
        ("node-groups", "ListNodegroups"),
        ("node-groups", "DescribeNodegroup"),
        ("add-ons", "ListAddons"),
        ("helm-releases", "DescribeCluster"),
    ],
)
def test_a_question_that_aws_does_not_answer_is_not_fine(
    up: Creation, emulated: Emulated, case: Cases, check: str, operation: str
) -> None:
    group(up, "ACTIVE")
    emulated.denied[operation] = "AccessDeniedException"
    found = finding(check, case("timeslice"))
    assert (found.verdict, "AccessDeniedException" in found.found) == ("unknown", True)


def secret(name: str, version: int, status: str, namespace: str = "ollama") -> dict[str, Any]:
    """A revision as Helm keeps it (helm pkg/storage/driver/secrets.go, newSecretsObject)."""
    return {
        "metadata": {
            "name": f"sh.helm.release.v1.{name}.v{version}",
            "namespace": namespace,
            "labels": {"owner": "helm", "name": name, "status": status, "version": str(version)},
        },
        "type": "helm.sh/release.v1",
        "data": {"release": "secret"},
    }


class Cluster:
    """Answers with these Secrets, or with this error."""

    def __init__(self) -> None:
        self.kept: list[dict[str, Any]] = []
        self.error: NotConnectedError | None = None
        self.chosen: Any = None

    def secrets(self, labels: Any) -> list[dict[str, Any]]:
        assert labels == {"owner": "helm"}
        if self.error:
            raise self.error
        return self.kept


@pytest.fixture
def api(up: Creation, monkeypatch: pytest.MonkeyPatch) -> Cluster:
    pretended = Cluster()

    @contextmanager
    def cluster(chosen: Any) -> Iterator[Cluster]:
        pretended.chosen = chosen
        yield pretended

    monkeypatch.setattr("tandem.deployed.kubernetes.cluster", cluster)
    return pretended


def test_releases_that_have_ended_are_fine(api: Cluster, case: Cases) -> None:
    api.kept = [secret("llama2-7b", 1, "superseded"), secret("llama2-7b", 2, "deployed"), secret("nfd", 1, "failed")]
    assert summary("helm-releases", case("timeslice")) == [("ok", "none of 2 is pending")]


LOGIN = "aws eks update-kubeconfig --region us-east-1 --name tandem-timeslice"


@pytest.mark.real_world(
    behaviour="Helm refuses to upgrade a release that a killed process left pending; `helm rollback` does not mind.",
    source="helm pkg/action/upgrade.go, errPending; pkg/action/rollback.go, prepareRollback",
)
@pytest.mark.parametrize(
    ("kept", "fix"),
    [
        (
            [secret("llama2-7b", 1, "pending-install")],
            "kubectl delete secret sh.helm.release.v1.llama2-7b.v1 --namespace ollama",
        ),
        (
            # As the API server lists them, by name.
            [secret("llama2-7b", 10, "pending-upgrade"), secret("llama2-7b", 9, "deployed")],
            "helm rollback llama2-7b 9 --namespace ollama",
        ),
        (
            [
                secret("llama2-7b", 3, "superseded"),
                secret("llama2-7b", 4, "deployed"),
                secret("llama2-7b", 5, "failed"),
                secret("llama2-7b", 6, "pending-rollback"),
            ],
            "helm rollback llama2-7b 4 --namespace ollama",
        ),
    ],
)
def test_a_release_that_is_pending_stops_up_and_the_exact_command_is_given(
    api: Cluster, case: Cases, kept: list[dict[str, Any]], fix: str
) -> None:
    api.kept = [secret("mistral-7b", 1, "deployed"), *kept]
    found = finding("helm-releases", case("timeslice"))
    assert found.verdict == "stops"
    assert found.found.startswith("llama2-7b in namespace ollama is pending-")
    assert found.fix == f"{LOGIN} && {fix}"


def test_an_old_revision_that_is_pending_is_passed_over(api: Cluster, case: Cases) -> None:
    """Helm looks at the newest one alone."""
    api.kept = [secret("llama2-7b", 1, "pending-install"), secret("llama2-7b", 2, "deployed")]
    assert finding("helm-releases", case("timeslice")).verdict == "ok"


def test_the_cluster_is_reached_without_outputs_since_a_killed_up_has_written_none(api: Cluster, case: Cases) -> None:
    finding("helm-releases", case("timeslice", profile=None))
    assert api.chosen.context == CLUSTER
    assert api.chosen.cluster["server"].startswith("https://")
    assert api.chosen.user["exec"]["args"][:4] == ["--region", "us-east-1", "eks", "get-token"]


def test_a_kubernetes_api_that_cannot_be_reached_is_not_fine(api: Cluster, case: Cases) -> None:
    api.error = NotConnectedError("api.example cannot be reached (timed out). Is the stack up?", passing=True)
    found = finding("helm-releases", case("timeslice"))
    assert found.verdict == "unknown"
    assert found.found == "the Kubernetes API could not be asked: api.example cannot be reached (timed out)"
    assert "cluster.public-access-cidrs" in found.fix
