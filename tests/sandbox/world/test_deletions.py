"""What AWS and Kubernetes refuse to delete while it is in use, and which refusals wait.

tests/program/test_order.py shows that a resource without users can be deleted: it deletes every stack in every order.
"""

import pytest

from sandbox.world import RULES, tokens
from tests.sandbox.world.whole import IN_USE, MANAGED, Whole
from tests.sandbox.world_pieces import refused

VIOLATION, CONFLICT = "DependencyViolation", "DeleteConflict"
HELD: list[tuple[str, str, str, str]] = [
    (tokens.CLUSTER, "c", IN_USE, "nodegroups attached"),
    (tokens.SUBNET, "{subnet}", VIOLATION, "eni-"),
    (tokens.SUBNET, "{second}", VIOLATION, "eni-"),  # without a node, but with the control plane
    (tokens.SUBNET, "{far subnet}", VIOLATION, "nat-"),
    (tokens.SECURITY_GROUP, "{security group}", VIOLATION, "eni-"),
    (tokens.ADDRESS, "{address}", "InvalidIPAddress.InUse", "nat-"),
    (tokens.GATEWAY, "{gateway}", VIOLATION, "eni-"),
    (tokens.GATEWAY, "{far gateway}", VIOLATION, "nat-"),
    (tokens.VOLUME, "{root}", "VolumeInUse", "i-"),
]


@pytest.mark.parametrize(("token", "identity", "code", "by"), HELD)
@pytest.mark.real_world(
    behaviour="EKS does not delete a cluster that has node groups",
    source="docs.aws.amazon.com/eks/latest/APIReference/API_DeleteCluster.html",
)
def test_a_deletion_is_refused(whole: Whole, token: str, identity: str, code: str, by: str) -> None:
    with refused(code, by):
        whole.drop(token, whole.filled(identity))


USERS: list[tuple[str, str, str, str]] = [
    *((tokens.VPC, by, "vpcId", VIOLATION) for by in (tokens.SUBNET, tokens.GATEWAY, tokens.ROUTE_TABLE)),
    *((tokens.VPC, by, "vpcId", VIOLATION) for by in (tokens.SECURITY_GROUP, tokens.ENDPOINT)),
    (tokens.SUBNET, tokens.ENDPOINT, "subnetIds", VIOLATION),
    (tokens.SECURITY_GROUP, tokens.ENDPOINT, "securityGroupIds", VIOLATION),
    (tokens.ROUTE_TABLE, tokens.ASSOCIATION, "routeTableId", VIOLATION),
    (tokens.ROLE, tokens.ATTACHED_POLICY, "role", CONFLICT),
    (tokens.ROLE, tokens.PROFILE, "role", CONFLICT),
    (tokens.POLICY, tokens.ATTACHED_POLICY, "policyArn", CONFLICT),
    (tokens.EVENT_RULE, tokens.EVENT_TARGET, "rule", "ValidationException"),
]


@pytest.mark.parametrize(("held", "by", "key", "code"), USERS)
def test_a_used_resource_stays_until_its_user_is_deleted(whole: Whole, held: str, by: str, key: str, code: str) -> None:
    identity = whole.make(held, "held", vpcId=whole.vpc)
    more = {"vpcId": whole.vpc, "policyArn": MANAGED, "role": "bare", "subnetId": whole.detached}
    user = whole.make(by, "user", **more | {key: [identity] if key.endswith("Ids") else identity})
    with refused(code):
        whole.drop(held, identity)
    whole.drop(by, user)
    whole.drop(held, identity)
    assert whole.world.read(held, identity) is None


def test_a_group_is_deleted_with_its_schedules_and_an_association_with_its_subnet(whole: Whole) -> None:
    whole.drop(tokens.SCHEDULE_GROUP, "nights")
    assert whole.of(tokens.SCHEDULE) == []
    whole.make(tokens.ASSOCIATION, "far", subnetId=whole.detached, routeTableId=whole.table)
    whole.drop(tokens.SUBNET, whole.detached)


def test_attaching_a_policy_twice_has_no_further_effect(whole: Whole) -> None:
    assert len({whole.make(tokens.ATTACHED_POLICY, role="bare", policyArn=MANAGED) for _ in range(2)}) == 1


WAITS = {
    # The AWS provider polls until nothing depends on the resource (terraform-provider-aws, internal/service).
    *((token, VIOLATION) for token in (tokens.VPC, tokens.SUBNET, tokens.SECURITY_GROUP, tokens.GATEWAY)),
    (tokens.ROUTE_TABLE, VIOLATION),  # not there: the emulated cloud makes no exception
    (tokens.VOLUME, "VolumeInUse"),
    (tokens.ROLE, CONFLICT),
    (tokens.POLICY, CONFLICT),
    # The kubernetes provider awaits objects, and Helm its hooks and workloads (pulumi-kubernetes, provider/pkg/await).
    *((token, "Timeout") for token in (tokens.CLAIM, tokens.PERSISTENT_VOLUME, tokens.RELEASE)),
    *((token, "Timeout") for token in (tokens.NODE_CLASS, tokens.NODE_POOL, tokens.NODE_OVERLAY)),
    *((tokens.JOB, reason) for reason in ("DeadlineExceeded", "BackoffLimitExceeded")),
}


def test_these_refusals_wait_and_every_rule_names_its_source() -> None:
    assert {(token, rule.code) for rule in RULES for token in rule.types if rule.waits} == WAITS
    for rule in RULES:
        assert rule.source.startswith("https://"), rule
