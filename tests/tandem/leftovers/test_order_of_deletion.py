"""The order of `leftovers --delete`, against the rules of the emulated cloud, through boto3."""

from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest
from botocore.exceptions import ClientError

from sandbox.world import tokens
from tandem.aws.resources import Resource as Left
from tandem.aws.session import Account
from tandem.leftovers import inventory
from tests.rows import read_rows
from tests.tandem.aws.cleaning import Cleaning
from tests.tandem.aws.creation import KINDS as TITLES
from tests.tandem.aws.emulated import Emulated
from tests.tandem.aws.laws import Laws

pytestmark = pytest.mark.slow

KINDS = (
    *("node groups", "instances", "add-ons", "EKS clusters", "launch templates", "VPC endpoints"),
    *("network interfaces", "NAT gateways", "elastic IPs", "snapshots", "volumes", "security groups", "route tables"),
    *("subnets", "internet gateways", "VPCs", "log groups", "EventBridge rules", "schedule groups", "SQS queues"),
    *("instance profiles", "IAM roles", "IAM policies", "budgets"),
)
"""Every kind of AWS resource with its own lifecycle that a stack, Karpenter or the VPC CNI creates: the types in
tests/golden. They are listed here so that a missing one is noticed."""


def rows(name: str) -> list[dict[str, str]]:
    """Rows of a table beside this file."""
    return read_rows(Path(__file__).with_name(f"{name}.csv"))


ORDER = [(row["first"], row["then"], row["says"]) for row in rows("order_of_deletion")]
EDGES = [(first, then, says) for first, then, says in ORDER if says]
CALLS = {row["kind"]: row for row in rows("calls_of_deletion")}
USERS: dict[str, tuple[str, ...]] = {
    **{kind: (type,) for type, kind in TITLES.items()},
    "instances": (tokens.INSTANCE, tokens.INTERFACE),
    "instance profiles": (tokens.PROFILE,),
    "IAM roles": (tokens.ATTACHED_POLICY,),
    "EventBridge rules": (tokens.EVENT_TARGET,),
    "schedule groups": (tokens.SCHEDULE,),
}
"""The entities of a kind that the emulated cloud's rules use."""
ALL_DELETED = {*((kind, "deleted", "") for kind in KINDS), ("instances", "gone already", "")}
"""The last one. For instances, that is the node group's, which is deleted with the group."""


def test_the_kinds_are_these() -> None:
    assert tuple(kind.title for kind in inventory.KINDS) == KINDS


def test_kinds_that_must_be_deleted_first_are_declared() -> None:
    after = {(first, kind.title) for kind in inventory.KINDS for first in kind.after}
    assert after == {(first, then) for first, then, _ in ORDER}
    for first, then in after:
        assert KINDS.index(first) < KINDS.index(then), (first, then)


def test_a_whole_stack_is_deleted_and_aws_refuses_nothing(laws: Laws, emulated: Emulated, cleaning: Cleaning) -> None:
    found = cleaning.look()
    assert {resource.kind for resource in found.resources} == set(KINDS)
    outcomes = cleaning.delete(found)
    assert (laws.refused, laws.harmed) == ([], [])
    assert {(one.resource.kind, one.what, one.why) for one in outcomes} == ALL_DELETED
    assert cleaning.resources() == []
    # An add-on is deleted with its cluster, and DeleteAddon then returns ResourceNotFoundException.
    calls = [call for call in emulated.calls if call in ("DeleteNodegroup", "DeleteAddon", "DeleteCluster")]
    assert calls == ["DeleteNodegroup", "DeleteAddon", "DeleteCluster"]


def call(account: Account, resource: Left) -> None:
    """Deletes without the checks that the command makes first."""
    how = CALLS[resource.kind]
    id = resource.raw["Associations"][0]["RouteTableAssociationId"] if resource.kind == "route tables" else resource.id
    named: dict[str, object] = {how["id"]: id} if how["id"][-1] != "]" else {how["id"][:-2]: [id]}
    with suppress(ClientError):
        getattr(account.client(how["service"]), how["operation"])(
            **named, **({how["more"]: how["value"]} if how["more"] else {})
        )


def test_every_other_order_is_refused_or_breaks_something(laws: Laws, cleaning: Cleaning) -> None:
    """One edge at a time: only resources of the first kind can cause the refusal or harm."""
    found = cleaning.look()
    laws.dry = True
    for first, then, says in EDGES:
        for users in (USERS[first], ()):
            laws.refused, laws.harmed = [], []
            laws.seen = lambda one, users=users: one.type in users  # type: ignore[misc]
            for resource in found.resources:
                if resource.kind == then:
                    call(cleaning.account, resource)
            said = [*laws.refused, *laws.harmed]
            assert any(says in line for line in said) is bool(users), (first, then, users, said)


def test_the_reverse_order_is_noticed(laws: Laws, cleaning: Cleaning, monkeypatch: pytest.MonkeyPatch) -> None:
    found = cleaning.look()
    backwards = tuple(replace(kind, after=(), minutes=1) for kind in reversed(inventory.KINDS))
    monkeypatch.setattr(inventory, "KINDS", backwards)
    outcomes = cleaning.delete(found)
    assert {"DependencyViolation", "VolumeInUse"} <= {line.split(": ")[1] for line in laws.refused}
    assert len({line.partition(":")[0] for line in laws.harmed}) >= 4
    assert any(one.left for one in outcomes)
