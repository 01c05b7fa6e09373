"""One pod more than there are free shares: it waits, or an expectation fails. It is always deleted afterwards."""

from dataclasses import replace
from typing import Any

import pytest

from tandem.deployed.endpoints import NotConnectedError
from tandem.deployed.objects import Facts
from tandem.verify.checks import Check
from tandem.verify.overfill import MARK, PLACE_SECONDS, free_shares, overfill, pod
from tests.tandem.deployed.pretended import TOO_FEW, Clock, Cluster, well
from tests.tandem.seen import NODE, changed, facts, node, planned
from tests.tandem.seen import pod as model_pod


def nodes_with(shares: int) -> Facts:
    return replace(facts(), nodes=[node(shares=shares)])


def overfilled(cluster: Cluster, clock: Clock | None = None) -> Check:
    pretended: Any = cluster
    clock = clock or Clock()
    [check] = overfill(
        pretended, planned().config.pools[0], cluster.facts.nodes, "ollama", clock=clock, sleep=clock.sleep
    )
    return check


NO_SHARE = "0/3 nodes are available: 1 Insufficient nvidia.com/gpu"
FULL = "0/3 nodes are available: 1 Too many pods"


@pytest.mark.parametrize(
    ("offered", "shares", "words", "free", "held", "found"),
    [
        (2, 2, TOO_FEW, 0, True, f"Pending: {NO_SHARE}"),
        (4, 4, TOO_FEW, 2, True, f"Pending: {NO_SHARE}"),
        (2, 3, TOO_FEW, 0, False, "1 pods got one of 0 free shares"),
        (3, 2, TOO_FEW, 1, False, f"0 of 1 free shares were available: {NO_SHARE}"),
        (2, 2, f"{FULL}. preemption: none", 0, None, f"Pending for another reason: {FULL}"),
        (2, 2, "", 0, None, "no message from the scheduler"),
    ],
    ids=["all are taken", "free ones are filled", "one too many runs", "one is not there", "another reason", "silence"],
)
def test_a_pool_is_judged_by_one_pod_more_than_it_has_shares(
    offered: int, shares: int, words: str, free: int, held: bool | None, found: str
) -> None:
    """A node that offers this many shares, and a scheduler that gives this many."""
    cluster = Cluster(nodes_with(offered), shares)
    cluster.words = words
    clock = Clock()
    check = overfilled(cluster, clock)
    assert (clock() > PLACE_SECONDS) == (not words), "it waits only for a scheduler that has not answered"
    assert (check.held, check.found) == (held, found)
    assert check.what == f"one pod too many stays Pending for nvidia.com/gpu ({free} free)"
    assert (len(cluster.deleted), cluster.made) == (free + 1, [])


@pytest.mark.parametrize("ended", [NotConnectedError("gone"), KeyboardInterrupt(), SystemExit(143)])
def test_no_pod_is_left_however_the_command_ends(ended: BaseException) -> None:
    """SIGTERM and SIGHUP are a SystemExit (`tandem.main.end_on_signals`)."""
    cluster = well()

    def end() -> None:
        raise ended

    cluster.on_create = end
    with pytest.raises(type(ended)):
        overfilled(cluster)
    assert (len(cluster.deleted), cluster.made) == (1, [])


def test_pods_of_a_call_that_was_killed_are_removed_first() -> None:
    cluster = Cluster(nodes_with(3), shares=3)
    left = pod("tandem-overfill-old", "ollama", "gpu", "nvidia.com/gpu", [node()])
    left["spec"]["nodeName"] = NODE
    cluster.made.append(left)
    check = overfilled(cluster)
    assert (check.held, check.what) == (True, "one pod too many stays Pending for nvidia.com/gpu (1 free)")
    assert "tandem-overfill-old" in cluster.deleted


@pytest.mark.parametrize(("seconds", "is_left"), [(5.0, False), (1000.0, True)])
def test_a_pod_that_is_still_ending_is_deleted_again_for_a_while(
    seconds: float, is_left: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its container may take a while to end (Kubernetes, Pod Lifecycle, Termination of Pods), or never does."""
    cluster, clock = well(), Clock()
    remove = cluster.delete_pod
    tried: list[str] = []

    def delete(name: str, namespace: str) -> None:
        tried.append(name)
        assert len(tried) < 300, "it never stops"
        if clock() >= seconds:
            remove(name, namespace)

    monkeypatch.setattr(cluster, "delete_pod", delete)
    assert overfilled(cluster, clock).held
    assert bool(cluster.made) is is_left
    assert (60 < clock() < 90) is is_left
    assert set(clock.slept) == {0.5}


def test_the_pod_asks_for_one_share_on_the_nodes_that_are_there() -> None:
    """A real API server says whether it is restricted (tests/cluster/test_looking.py)."""
    made = pod("x", "ollama", "gpu", "nvidia.com/gpu", [node("one"), node("two")])
    spec = made["spec"]
    assert made["metadata"]["labels"] == {MARK: "gpu"}
    assert made["metadata"]["namespace"] == "ollama"
    [container] = spec["containers"]
    assert container["resources"] == {"limits": {"nvidia.com/gpu": "1"}}
    # kubernetes.io, Pod Security Standards, Restricted.
    assert spec["securityContext"] == {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}
    assert container["securityContext"] == {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
    assert (spec["restartPolicy"], spec["automountServiceAccountToken"]) == ("Never", False)
    assert [each["key"] for each in spec["tolerations"]] == ["nvidia.com/gpu", "tandem/mode"]
    assert spec["nodeSelector"] == {"tandem/pool": "gpu"}
    # Otherwise an autoscaler would launch a node for it, at a cost.
    terms = spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    assert terms == [
        {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": ["one", "two"]}]}
    ]
    assert PLACE_SECONDS < spec["activeDeadlineSeconds"] <= 5 * 60


@pytest.mark.parametrize(
    ("ranks", "expected"),
    [
        ([(None, None), (None, None)], None),
        ([(0, "high"), (-5, "normal")], "normal"),
        ([(-10, "low"), (-5, "normal")], "low"),
        # As important as a pod without a class, or more.
        ([(0, "high"), (1000, "theirs")], None),
    ],
)
def test_its_pods_are_as_important_as_the_least_important_one_that_holds_a_share(
    ranks: list[tuple[int | None, str | None]], expected: str | None
) -> None:
    cluster = well()
    for holder, (priority, its_class) in zip(cluster.facts.pods, ranks, strict=True):
        holder["spec"].update({} if priority is None else {"priority": priority, "priorityClassName": its_class})
    elsewhere = model_pod("other", on="another-node")
    elsewhere["spec"].update(priority=-100, priorityClassName="elsewhere")
    without_share = model_pod("sidecar", shares=0)
    without_share["spec"].update(priority=-100, priorityClassName="without-share")
    cluster.made += [elsewhere, without_share]
    tried: list[str | None] = []
    cluster.on_create = lambda: tried.append(cluster.made[-1]["spec"].get("priorityClassName"))
    overfilled(cluster)
    assert tried == [expected]


def test_a_pod_that_a_rule_of_the_cluster_refuses_shows_nothing_and_says_so() -> None:
    cluster = well()
    cluster.refuses = "exceeded quota: small"
    check = overfilled(cluster)
    assert (check.held, check.found) == (False, "not admitted: exceeded quota: small")
    assert check.fix.startswith("A quota or a policy of namespace ollama refuses another pod")
    assert cluster.made == []


def test_each_resource_of_a_mixed_pool_has_its_own_row() -> None:
    cluster: Any = well()
    cluster.refuses = "not of interest"
    rows = [check.what for check in overfill(cluster, planned("mig-mixed").config.pools[0], [], "ollama")]
    assert rows == [
        "one pod too many stays Pending for nvidia.com/mig-1g.24gb (0 free)",
        "one pod too many stays Pending for nvidia.com/mig-2g.48gb (0 free)",
    ]


def test_a_share_is_held_until_its_pod_has_ended() -> None:
    two = [model_pod("a"), model_pod("b")]
    assert free_shares("nvidia.com/gpu", [node()], two) == 0
    for phase in ("Succeeded", "Failed"):
        assert free_shares("nvidia.com/gpu", [node()], [two[0], changed(two[1], "status", "phase", to=phase)]) == 1
    assert free_shares("nvidia.com/gpu", [node()], [two[0], model_pod("b", on="elsewhere")]) == 1
    assert free_shares("nvidia.com/gpu", [node()], [*two, model_pod("c")]) == 0
