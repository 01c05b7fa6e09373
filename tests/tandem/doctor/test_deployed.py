"""What `up` finds where the stack is up, or half up: cluster, node groups, add-ons, Helm releases."""

import json
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from moto.eks.models import eks_backends

from tandem.deployed.endpoints import NotConnectedError
from tandem.doctor.finding import Finding, ok, unknown, warning
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
TOLD = ": AsgInstanceLaunchFailures (Could not launch Spot Instances. UnfulfillableCapacity)"
REPLACE = f"pulumi up --stack timeslice --replace '{GROUP_URN}'"
WAIT = "Wait until it is ACTIVE: until then it refuses updates."
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


def exported(*resources: Any, pending: Any = ()) -> str:
    """What `pulumi stack export` prints (pulumi 3.260; sdk/go/common/apitype/core.go)."""
    deployment = {"manifest": {}, "resources": list(resources), "pending_operations": list(pending)}
    return json.dumps({"version": 3, "deployment": deployment})


def failed(urn: str) -> dict[str, Any]:
    type_ = urn.split("::")[2].rpartition("$")[2]
    return {"urn": urn, "type": type_, "id": "x", "initErrors": ["waiting for EKS Node Group create: CREATE_FAILED"]}


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
        f"node group {own} failed to create; it may still start nodes, which cost money and use the quota{TOLD}"
    )
    assert broken.fix == (
        "Remove the cause: the next `pulumi up` replaces it. If the quota has no room for a second group, first run "
        "`aws eks delete-nodegroup --region us-east-1 --cluster-name tandem-timeslice "
        f"--nodegroup-name {own}`."
    )


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


ADDON_URN = "urn:pulumi:timeslice::tandem::tandem:index:GpuCluster$aws:eks/addon:Addon::tandem-coredns"
FINE = {"urn": "urn:a::b::c::fine", "type": "c"}


@pytest.mark.real_world(
    behaviour="The engine marks a resource alike after a failed creation and after a failed update.",
    source="pulumi pkg/resource/deploy/step.go and step_generator.go, initErrorSpecialKey",
)
@pytest.mark.parametrize(
    ("urn", "found"),
    [
        (GROUP_URN, "tandem-gpu-group: its creation or last update failed, and the next `up` replaces it"),
        (ADDON_URN, "tandem-coredns: its creation or last update failed, and the next `up` uninstalls and installs it"),
    ],
)
def test_a_failed_update_is_found_in_the_state_with_the_command_that_keeps_the_group(
    case: Cases, machine: Machine, urn: str, found: str
) -> None:
    machine("pulumi", exported(FINE, failed(urn)))
    fix = "To keep it where it is ACTIVE, and finish the update: pulumi up --refresh --stack timeslice"
    assert findings("state", case("timeslice")) == [warning(found, fix)]


LOGGED_OUT = "Run `pulumi login`, or `pulumi login --local` to keep the state on this machine."
TO_SEE = "Log in with `pulumi login`, or see `pulumi stack ls`."
NOT_SHOWN = "Pulumi does not show the state: "
KILLED = {"type": "creating", "resource": {"urn": GROUP_URN}}


@pytest.mark.parametrize(
    ("prints", "says", "code", "found"),
    [
        (exported(), "", 0, ok("not deployed yet")),
        (exported(FINE), "", 0, ok("no failed resource, no unfinished operation")),
        (
            exported(pending=[KILLED]),
            "",
            0,
            warning(
                "an `up` was killed, or is still running: creating tandem-gpu-group",
                "pulumi refresh --stack timeslice",
            ),
        ),
        ("{}", "", 0, unknown("`pulumi stack export` printed no state", TO_SEE)),
        ("error", "", 0, unknown("`pulumi stack export` printed no state", TO_SEE)),
        ("", "", 255, unknown(f"{NOT_SHOWN}it gave no reason", TO_SEE)),
        ("", "error: no stack named 'timeslice' found\n", 6, ok("not deployed yet")),
        (
            "",
            "error: PULUMI_ACCESS_TOKEN must be set.\n",
            255,
            unknown("you are not logged in to a Pulumi backend", LOGGED_OUT),
        ),
        ("", "error: passphrase must be set.\n", 255, unknown(f"{NOT_SHOWN}passphrase must be set", TO_SEE)),
    ],
)
def test_what_the_state_says_is_told(
    case: Cases, machine: Machine, tmp_path: Path, prints: str, says: str, code: int, found: Finding
) -> None:
    pulumi(tmp_path, prints=prints, says=says, code=code)
    assert findings("state", case("timeslice")) == [found]


def test_without_pulumi_the_state_is_not_known(case: Cases, machine: Machine) -> None:
    why = "there is no `pulumi` on the PATH to ask for the state"
    assert findings("state", case("timeslice")) == [
        unknown(why, "Install Pulumi: https://www.pulumi.com/docs/install/")
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
    ("status", "issues", "verdict", "found", "fix"),
    [
        ("ACTIVE", [], "ok", "{own} is ACTIVE", ""),
        ("DELETE_FAILED", [], "warning", "failed to delete", "Remove the cause, then run `pulumi up` again."),
        ("UPDATING", [], "warning", "is UPDATING", WAIT),
        ("CREATING", [], "warning", "is CREATING", WAIT),
        ("ACTIVE", [NO_CAPACITY], "warning", f"is ACTIVE{TOLD}", f"Remove the cause. Where it stays: {REPLACE}"),
    ],
)
def test_a_node_group_in_another_state_is_a_warning(
    up: Creation, case: Cases, status: str, issues: list[Any], verdict: str, found: str, fix: str
) -> None:
    own = group(up, status, *issues)
    found = found.format(own=own) if verdict == "ok" else f"node group {own} {found}"
    (one,) = findings("node-groups", case("timeslice"))
    assert (one.verdict, one.found, one.fix) == (verdict, found, fix)


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

    kept: Sequence[Any] = ()
    error: NotConnectedError | None = None
    chosen: Any = None

    def secrets(self, labels: Any) -> Sequence[Any]:
        assert labels == {"owner": "helm"}
        if self.error:
            raise self.error
        return self.kept


@pytest.fixture
def api(up: Creation, monkeypatch: pytest.MonkeyPatch) -> Cluster:
    pretended = Cluster()

    def cluster(chosen: Any) -> Any:
        pretended.chosen = chosen
        return nullcontext(pretended)

    monkeypatch.setattr("tandem.deployed.kubernetes.cluster", cluster)
    return pretended


def test_releases_that_have_ended_are_fine_and_helm_looks_at_the_newest_revision_alone(
    api: Cluster, case: Cases
) -> None:
    old = [secret("llama2-7b", 1, "pending-install"), secret("llama2-7b", 2, "superseded")]
    api.kept = [*old, secret("llama2-7b", 3, "deployed"), secret("nfd", 1, "failed")]
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
