"""Functions whose result depends on existing resources, or on the instance types offered to this account."""

from sandbox.cloud.aws.offers import OFFERINGS, offerings
from sandbox.cloud.protocol import Question, Values
from sandbox.world import tokens
from sandbox.world.entities import CloudError, Entities, Entity
from sandbox.world.providers import networks

CLUSTERS = "aws:eks/getClusters:getClusters"
GROUPS = "aws:eks/getNodeGroups:getNodeGroups"
GROUP = "aws:eks/getNodeGroup:getNodeGroup"
INSTANCES = "aws:ec2/getInstances:getInstances"
API = "https://docs.aws.amazon.com/eks/latest/APIReference/"


def answer(entities: Entities, question: Question) -> Values | None:
    """The function's result, or None if it does not depend on this state. Raises CloudError as AWS does."""
    args = question.args
    if question.token == OFFERINGS:
        return offerings(question, entities.offers)
    if question.token == CLUSTERS:
        return {"names": [entity.id for entity in entities.of(tokens.CLUSTER)]}
    if question.token == GROUPS:
        if entities.get(tokens.CLUSTER, args["clusterName"]) is None:
            message = f"No cluster found for name: {args['clusterName']}."
            raise CloudError("ResourceNotFoundException", message, API + "API_ListNodegroups.html")
        names = [
            entity.outputs["nodeGroupName"]
            for entity in entities.having(tokens.NODE_GROUP, clusterName=args["clusterName"])
        ]
        return {"names": names}
    if question.token == INSTANCES:
        # By the tag that Karpenter's instances have, the name of their pool.
        owner = (tokens.NODE_POOL, args["instanceTags"]["karpenter.sh/nodepool"])
        return {"ids": [entity.id for entity in entities.of(tokens.INSTANCE) if entity.owner == owner]}
    if question.token == GROUP:
        return _described(entities, f"{args['clusterName']}:{args['nodeGroupName']}")
    return networks.answer(entities, question)


def _described(entities: Entities, identity: str) -> Values:
    group: Entity | None = entities.get(tokens.NODE_GROUP, identity)
    if group is None:
        message = f"No node group found for name: {identity.partition(':')[2]}."
        raise CloudError("ResourceNotFoundException", message, API + "API_DescribeNodegroup.html")
    tags = group.outputs.get("tagsAll") or {}
    return {**group.outputs, "tags": tags, "scalingConfigs": [group.outputs["scalingConfig"]]}
