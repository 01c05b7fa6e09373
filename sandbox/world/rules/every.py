"""Every rule, in the order in which they are asked."""

from sandbox.world.rules import access, ec2, eks, iam, karpenter, kubernetes

RULES = (
    *kubernetes.FIRST,
    *access.FIRST,
    *ec2.RULES,
    *iam.RULES,
    *eks.RULES,
    *access.RULES,
    *kubernetes.RULES,
    *karpenter.RULES,
)
"""In this order: who cannot reach an API server learns nothing else from it."""
