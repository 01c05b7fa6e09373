"""Rules of access inside a cluster: EKS's access entries and access policies."""

from sandbox.world import tokens
from sandbox.world.controllers.nodes import cluster_at
from sandbox.world.entities import Entities, Entity
from sandbox.world.rules.iam import role_named
from sandbox.world.rules.rule import Case, Moments, Rule, taken

API = "https://docs.aws.amazon.com/eks/latest/APIReference/"
GUIDE = "https://docs.aws.amazon.com/eks/latest/userguide/"
UNAUTHORIZED = "the server has asked for the client to provide credentials"
"""client-go's message for status 401."""


def _stranger(case: Case) -> str | None:
    """The API server does not know a caller without an access entry."""
    cluster = cluster_at(case.entities, case.cluster)
    if cluster is None or case.entities.get(tokens.ACCESS_ENTRY, f"{cluster.id}:{case.caller}"):
        return None
    return f"configured Kubernetes cluster is unreachable: unable to load schema information: {UNAUTHORIZED}"


def _powerless(case: Case) -> str | None:
    cluster = cluster_at(case.entities, case.cluster)
    if cluster is None:
        return None
    if may_do_all(case.entities, cluster, case.caller):
        return None
    return f'User "{case.caller}" cannot change {case.type} at the cluster scope'


def may_do_all(entities: Entities, cluster: Entity, caller: str) -> bool:
    """Whether an access policy makes the caller an admin of the cluster."""
    granted = entities.having(tokens.ACCESS_POLICY, clusterName=cluster.id, principalArn=caller)
    return any(str(one.inputs["policyArn"]).endswith("/AmazonEKSClusterAdminPolicy") for one in granted)


def _no_principal(case: Case) -> str | None:
    arn = str(case.inputs.get("principalArn"))
    if ":sts:" in arn:
        # Wording: aws-samples/appmod-blueprints#319
        return "The principalArn parameter format is not valid"
    role = arn.partition(":role/")[2]
    if role.startswith("AWSReservedSSO_"):
        # Wording: terraform-aws-modules/terraform-aws-eks#2969
        return "The specified principalArn is invalid: invalid principal."
    if case.inputs.get("type") is None or role_named(case.entities, arn):
        # No stack contains roles of people, so they are assumed to exist.
        return None
    return f"Role provided in the request does not exist: {arn}"


def _no_entry(case: Case) -> str | None:
    arn = case.inputs.get("principalArn")
    if case.entities.get(tokens.ACCESS_ENTRY, f"{case.inputs.get('clusterName')}:{arn}"):
        return None
    return f"The specified principalArn could not be found. You can view your available access entries ({arn})"


TAKEN = taken(
    "clusterName",
    "principalArn",
    words="The specified access entry resource is already in use on this cluster. (made by {made_by})",
)
CALLS: Moments = ("create", "update", "delete")
FIRST: tuple[Rule, ...] = (
    Rule(("kubernetes:",), CALLS, "Unauthorized", GUIDE + "troubleshooting.html#unauthorized", _stranger),
    Rule(("kubernetes:",), CALLS, "Forbidden", GUIDE + "access-policy-permissions.html", _powerless),
)
RULES: tuple[Rule, ...] = tuple(
    Rule((token,), ("create",), code, API + page, refuses)
    for token, code, page, refuses in (
        (tokens.ACCESS_ENTRY, "ResourceInUseException", "API_CreateAccessEntry.html", TAKEN),
        (tokens.ACCESS_ENTRY, "InvalidParameterException", "API_CreateAccessEntry.html", _no_principal),
        (tokens.ACCESS_POLICY, "ResourceNotFoundException", "API_AssociateAccessPolicy.html", _no_entry),
    )
)
