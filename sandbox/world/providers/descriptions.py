"""What AWS says about clusters and subnets, even of others, and the token for a cluster's API server.

Fields are those of pulumi-aws 7.51.1 (`eks/get_cluster.py`, `get_cluster_auth.py`, `ec2/get_subnet.py`). Errors have
the words of the bridge (pulumi-terraform-bridge, pkg/tfbridge/provider.go, Invoke) and of terraform-provider-aws
(internal/service/eks/cluster_data_source.go; internal/retry, NotFoundError).
"""

import base64

from sandbox.cloud.aws.places import Place
from sandbox.cloud.protocol import Question, Values
from sandbox.world import tokens
from sandbox.world.entities import CloudError, Entities, Entity
from sandbox.world.providers.callers import Callers, session

CLUSTER = "aws:eks/getCluster:getCluster"
SUBNET = "aws:ec2/getSubnet:getSubnet"
TOKEN = "aws:eks/getClusterAuth:getClusterAuth"
MISSING = "couldn't find resource"
_SOURCE = "https://github.com/hashicorp/terraform-provider-aws/tree/main/internal/service/eks"
_PREFIX = "k8s-aws-v1."
"""Beginning of a token (aws-iam-authenticator, pkg/token/token.go). Its rest says here who calls."""
_BLOCKS = {
    "accessConfig": "accessConfigs",
    "certificateAuthority": "certificateAuthorities",
    "computeConfig": "computeConfigs",
}
"""Blocks of the resource, and their names in the function's result, where each is a list of one."""
_PLAIN = {
    CLUSTER: ("arn", "endpoint", "name", "region", "roleArn", "status", "version", "vpcConfig"),
    SUBNET: ("arn", "availabilityZone", "cidrBlock", "mapPublicIpOnLaunch", "region", "vpcId"),
}
"""Values that the function shows as the resource has them."""


def describe(entities: Entities, question: Question, callers: Callers) -> Values | None:
    """The result of one of these functions, or None for any other. Raises CloudError in the provider's words."""
    answer = {CLUSTER: _cluster, SUBNET: _subnet, TOKEN: _token}.get(question.token)
    return answer(entities, question, callers) if answer else None


def caller_of(token: str) -> str:
    """ARN of the role or user who got the token; "" for any other text."""
    try:
        return base64.urlsafe_b64decode(token.removeprefix(_PREFIX)).decode() if token.startswith(_PREFIX) else ""
    except ValueError:
        return ""


def failed(question: Question, why: str) -> CloudError:
    """The error of a function that fails for this reason."""
    return CloudError(f"invoking {question.token}", f"1 error occurred:\n\t* {why}\n\n", _SOURCE)


def forbidden(question: Question, callers: Callers, call: str, resource: str) -> str:
    """Why the caller may not make a call of AWS; "" if it may. Words as in eksctl-io/eksctl#5831."""
    if call not in callers.forbidden:
        return ""
    service, _, operation = call.partition(":")
    arn = Place.of(question.provider).arn(service, resource)
    return (
        f"operation error {service.upper()}: {operation}, https response error StatusCode: 403, RequestID: "
        f"8e10d6df-0000-0000-0000-000000000000, api error AccessDeniedException: User: "
        f"{session(callers.of(question.provider))} is not authorized to perform: {call} on resource: {arn}"
    )


def _cluster(entities: Entities, question: Question, callers: Callers) -> Values:
    name = str(question.args["name"])
    found = _in_region(entities.get(tokens.CLUSTER, name), question)
    denied = forbidden(question, callers, "eks:DescribeCluster", f"cluster/{name}")
    if denied or found is None:
        raise failed(question, f"reading EKS Cluster ({name}): {denied or MISSING}")
    blocks = {plural: [dict(found.outputs[one])] for one, plural in _BLOCKS.items() if found.outputs.get(one)}
    # EKS's default, if the program that made the cluster chose none (API_CreateAccessConfigRequest.html).
    blocks["accessConfigs"] = [{"authenticationMode": "CONFIG_MAP", **blocks.get("accessConfigs", [{}])[0]}]
    return {**_shown(found, CLUSTER), **blocks}


def _subnet(entities: Entities, question: Question, callers: Callers) -> Values:
    found = _in_region(entities.get(tokens.SUBNET, question.args["id"]), question)
    if found is None:
        # internal/service/ec2/vpc_subnet_data_source.go, with internal/tfresource, SingularDataSourceFindError.
        raise failed(question, "no matching EC2 Subnet found")
    return _shown(found, SUBNET)


def _shown(found: Entity, function: str) -> Values:
    plain = {key: found.outputs[key] for key in _PLAIN[function] if key in found.outputs}
    return {**plain, "id": found.id, "tags": found.outputs.get("tagsAll") or {}}


def _token(entities: Entities, question: Question, callers: Callers) -> Values:
    """The provider does not ask AWS: it signs a request of the caller, which the API server then sends."""
    signed = base64.urlsafe_b64encode(callers.of(question.provider).encode()).decode()
    return {"id": question.args["name"], "name": question.args["name"], "token": f"{_PREFIX}{signed}"}


def _in_region(found: Entity | None, question: Question) -> Entity | None:
    region = Place.of(question.provider).region
    return found if found is not None and found.outputs.get("region") == region else None
