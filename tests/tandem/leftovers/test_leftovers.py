"""`tandem leftovers`: the resources it finds, their cost, the report, and what must be confirmed."""

import io
import json
from unittest.mock import Mock

import pytest
from botocore.exceptions import ClientError
from moto.eks.models import eks_backends

from tests.tandem.aws import whole_stack
from tests.tandem.aws.cleaning import Cleaning
from tests.tandem.aws.conftest import Answers, Run
from tests.tandem.aws.creation import Creation
from tests.tandem.aws.emulated import ACCOUNT, CLUSTER, OURS, REGION, Emulated

pytestmark = pytest.mark.slow


def test_leftovers_are_reported_with_their_cost_most_expensive_first(creation: Creation, run: Run) -> None:
    whole_stack.make(creation)
    creation.instances(OURS, spot=True)
    code, out, _ = run("--json")
    shown = json.loads(out)
    days = [(one["kind"], one["usd_per_day"]) for one in shown["left"]]
    assert code == 1
    assert days[:9] == [
        *[("instances", round(0.526 * 24, 4))] * 2,
        ("instances", round(0.2158 * 24, 4)),
        ("EKS clusters", 2.4),
        ("NAT gateways", 1.08),
        ("volumes", round(100 * 0.08 / 730 * 24, 4)),
        ("VPC endpoints", 0.24),
        ("snapshots", round(100 * 0.05 / 730 * 24, 4)),
        ("elastic IPs", 0.12),
    ]
    assert {usd for _, usd in days[9:]} == {0.0}
    assert shown["usd_per_day"] == pytest.approx(sum(usd for _, usd in days), abs=0.001)
    assert len(days) == 30
    assert (shown["account"], shown["region"], shown["stack"]) == ("123456789012", REGION, "timeslice")


def test_a_resource_of_unknown_price_precedes_the_free_ones(creation: Creation, cleaning: Cleaning) -> None:
    free, unknown, paid = creation.VPCs(OURS), creation.volumes(OURS, kind="st1"), creation.volumes(OURS)
    assert [id for _, id in cleaning.resources()] == [paid, unknown, free]


def test_resources_of_karpenter_are_found_unless_another_owner_has_a_cluster_of_that_name(
    creation: Creation, cleaning: Cleaning
) -> None:
    made = creation.instances(whole_stack.KARPENTER)
    assert cleaning.resources() == [("instances", made)]
    creation.EKS_clusters({"team": "x"}, CLUSTER)
    creation.log_groups({}, f"/aws/eks/{CLUSTER}/cluster")
    assert cleaning.resources() == []


def test_a_log_group_that_eks_created_again_is_reported_and_left(creation: Creation, cleaning: Cleaning) -> None:
    name = creation.log_groups({}, f"/aws/eks/{CLUSTER}/cluster")
    (outcome,) = cleaning.delete()
    assert (outcome.resource.kind, outcome.resource.id) == ("other", name)
    assert f"aws logs delete-log-group --log-group-name {name}" in outcome.resource.detail
    assert (outcome.what, outcome.why) == ("left alone", "tandem does not delete this kind")
    assert ("log groups", name) in creation.census()


def test_without_permission_for_any_call_no_search_says_that_nothing_is_left(
    creation: Creation, emulated: Emulated, run: Run
) -> None:
    """Each call that the search makes is denied in turn, in an account with another stack."""
    whole_stack.make(creation)
    emulated.calls.clear()
    assert run("another", "--region", REGION)[0] == 0
    calls = {*emulated.calls} - {"GetCallerIdentity"}
    assert {"DescribeCluster", "ListClusters", "DescribeVolumes", "GetResources", "ListQueues"} <= calls
    for call in sorted(calls):
        emulated.denied = {call: "AccessDenied"}
        code, out, _ = run("another", "--region", REGION)
        assert "No leftovers" not in out, call
        assert f"could not be listed: These credentials may not call {call} (AccessDenied)" in out, call
        # Budgets are free, so of them the warning is enough.
        assert code == (0 if call == "DescribeBudgets" else 2), call


def test_an_error_other_than_a_missing_permission_ends_the_search(
    creation: Creation, emulated: Emulated, run: Run
) -> None:
    volume = creation.volumes(OURS)
    emulated.denied["ListQueues"] = "InternalError"
    code, out, _ = run("--delete", "--yes")
    assert (code, out) == (2, "")
    assert ("volumes", volume) in creation.census()


def test_without_permission_to_see_the_cluster_a_name_alone_proves_nothing(
    creation: Creation, emulated: Emulated, cleaning: Cleaning
) -> None:
    """Another stack may have a cluster with that name, so resources with only the name are left alone."""
    volume, instance = creation.volumes(OURS), creation.instances(whole_stack.KARPENTER)
    creation.eks.delete_cluster(name="anyones")  # with no cluster in the region, nothing else is denied
    emulated.denied["DescribeCluster"] = "AccessDeniedException"
    found = cleaning.look()
    assert [(resource.kind, resource.id) for resource in found.resources] == [("volumes", volume)]
    assert [*found.unseen] == ["EKS clusters"]
    cleaning.delete(found)
    assert ("instances", instance) in creation.census()
    emulated.denied["DescribeCluster"] = "InternalError"
    with pytest.raises(ClientError):
        cleaning.look()


def test_every_list_is_read_to_its_last_page(creation: Creation, emulated: Emulated, cleaning: Cleaning) -> None:
    whole_stack.make(creation)
    whole = {*cleaning.resources()}
    emulated.one_per_page = True
    found = cleaning.look()
    assert {(one.kind, one.id) for one in found.resources} == whole
    assert [one for one in cleaning.delete(found) if one.left] == []


@pytest.mark.parametrize("option", [(), ("--json",)])
def test_a_reader_that_closes_the_pipe_does_not_hide_what_is_left(
    creation: Creation, run: Run, monkeypatch: pytest.MonkeyPatch, option: tuple[str, ...]
) -> None:
    creation.volumes(OURS)
    closed = io.StringIO()
    closed.write = Mock(side_effect=BrokenPipeError)  # type: ignore[method-assign]
    monkeypatch.setattr("sys.stdout", closed)
    assert run(*option)[0] == 1


def test_a_stack_whose_file_no_longer_exists_is_found_by_its_name(creation: Creation, run: Run) -> None:
    volume = creation.volumes({**OURS, "tandem:stack": "bygone"})
    code, out, err = run("bygone")
    assert (code, out) == (2, "")
    assert "there is no file" in err
    code, out, _ = run("bygone", "--region", REGION)
    assert code == 1
    assert volume in out


def test_each_kind_needs_a_confirmation_and_no_is_the_default(creation: Creation, answers: Answers, run: Run) -> None:
    volume, address = creation.volumes(OURS), creation.elastic_IPs(OURS)
    group = creation.security_groups(OURS)
    answers("\nyes\nn\n")
    code, out, err = run("--delete")
    assert code == 1
    assert "Delete 1 elastic IP (" in err
    assert "pulumi destroy" in err
    assert "1 deleted" in out
    assert "2 skipped" in out
    there = creation.census()
    assert ("volumes", volume) not in there
    assert {("elastic IPs", address), ("security groups", group)} <= there


def test_without_a_terminal_only_the_yes_option_deletes(creation: Creation, run: Run) -> None:
    volume = creation.volumes(OURS)
    code, out, err = run("--delete")
    assert (code, out) == (2, "")
    assert err == "error: --delete needs a terminal for confirmation. Pass --yes to skip the prompts.\n"
    assert run("--yes")[0] == 2
    assert ("volumes", volume) in creation.census()
    code, out, _ = run("--delete", "--yes", "--json")
    assert code == 0
    assert [one["outcome"] for one in json.loads(out)["outcomes"]] == ["deleted"]


@pytest.mark.parametrize(("answer", "deleted"), [("timeslice\n", True), ("y\n", False), ("", False)])
def test_a_deployed_stack_is_deleted_only_after_its_name_is_typed(
    creation: Creation, answers: Answers, run: Run, answer: str, deleted: bool
) -> None:
    creation.EKS_clusters(OURS, CLUSTER)
    creation.node_groups(OURS, CLUSTER)
    answers(answer)
    code, _, err = run("--delete", "--yes")
    assert (code, "Nothing was deleted." in err) == ((0, False) if deleted else (1, True))
    assert (("EKS clusters", CLUSTER) in creation.census()) is not deleted


@pytest.mark.real_world(
    behaviour="A node group whose creation failed can have instances that run",
    source="botocore 1.44.5 eks/2017-11-01/service-2.json, Issue.code, NodeCreationFailure",
)
@pytest.mark.parametrize("status", ["ACTIVE", "UPDATING", "CREATING", "DEGRADED", "CREATE_FAILED", "DELETE_FAILED"])
def test_a_node_group_in_another_owners_cluster_is_a_running_stack(creation: Creation, run: Run, status: str) -> None:
    """A program may use the components in a cluster of its own."""
    group = creation.node_groups(OURS)
    eks_backends[ACCOUNT][REGION].clusters["anyones"].nodegroups[group.partition("/")[2]].status = status
    code, _, err = run("--delete", "--yes")
    assert ("node groups", group) in creation.census()
    assert code == 1
    assert f"the node group {group} is {status}: the stack is probably running" in err
