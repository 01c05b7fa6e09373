"""Rules of EKS for node groups that are not ACTIVE."""

from sandbox.world import tokens
from sandbox.world.rules.rule import Case, Rule

UPDATED_BY_EKS = (
    *("launchTemplate", "releaseVersion", "version"),  # UpdateNodegroupVersion
    *("labels", "scalingConfig", "taints", "updateConfig", "nodeRepairConfig"),  # UpdateNodegroupConfig
)


def _inactive(case: Case) -> str | None:
    """Tags have a call of their own, TagResource.

    Pessimistic for DEGRADED: whether EKS refuses is contested where only capacity or quota is missing. By its
    message for other issues (repost.aws/knowledge-center/eks-managed-node-group-update), UpdateNodegroupVersion
    goes on with these, and in aws/containers-roadmap#2326 somebody scaled such a group to zero. Live question:
    `degraded-spot-group`.
    """
    group = case.thing
    if group is None or not group.status:
        return None
    if all(group.inputs.get(key) == case.inputs.get(key) for key in UPDATED_BY_EKS):
        return None
    return "Nodegroup cannot be updated as it is currently not in Active State"


RULES: tuple[Rule, ...] = (
    # aws/containers-roadmap issue 2204 has the words, for a group without capacity; its title says CREATE_FAILED.
    Rule(
        (tokens.NODE_GROUP,),
        ("update",),
        "ResourceInUseException",
        "https://docs.aws.amazon.com/eks/latest/APIReference/API_UpdateNodegroupConfig.html",
        _inactive,
    ),
)
