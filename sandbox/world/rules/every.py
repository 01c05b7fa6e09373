"""Every rule, in the order in which they are asked."""

from sandbox.world.rules import access, ec2, eks, iam, karpenter, kubernetes, node_groups
from sandbox.world.rules import jobs as job_rules

RULES = (
    *kubernetes.FIRST,
    *access.FIRST,
    *ec2.RULES,
    *iam.RULES,
    *node_groups.RULES,
    *eks.RULES,
    *access.RULES,
    *kubernetes.RULES,
    *job_rules.RULES,
    *karpenter.RULES,
)
"""In this order: who cannot reach an API server learns nothing else from it."""
