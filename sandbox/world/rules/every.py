"""All rules, in the order in which they are checked."""

from sandbox.world.rules import access, ec2, eks, iam, karpenter, keda, kubernetes, tags

RULES = (
    *kubernetes.FIRST,
    *access.FIRST,
    *tags.RULES,
    *ec2.RULES,
    *iam.RULES,
    *eks.RULES,
    *access.RULES,
    *kubernetes.RULES,
    *karpenter.RULES,
    *keda.RULES,
)
"""In this order, because a caller without access to an API server gets no other error from it."""
