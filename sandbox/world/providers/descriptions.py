"""What AWS says about a cluster, even one of others, and the token for a cluster's API server.

Fields are those of pulumi-aws 7.51.1 (`eks/get_cluster.py`, `get_cluster_auth.py`). Errors have
the words of the bridge (pulumi-terraform-bridge, pkg/tfbridge/provider.go, Invoke) and of terraform-provider-aws
(internal/service/eks/cluster_data_source.go; internal/retry, NotFoundError).
"""

from sandbox.cloud.aws.places import Place
from sandbox.cloud.protocol import Question, Values
from sandbox.world import tokens
from sandbox.world.entities import CloudError, Entities
from sandbox.world.providers.callers import Callers, session

CLUSTER = "aws:eks/getCluster:getCluster"
TOKEN = "aws:eks/getClusterAuth:getClusterAuth"
MISSING = "couldn't find resource"
_SOURCE = "https://github.com/hashicorp/terraform-provider-aws/tree/main/internal/service/eks"


def describe(entities: Entities, question: Question, callers: Callers) -> Values | None:
    """The result of one of these functions, or None for any other. Raises CloudError in the provider's words."""
    answer = {CLUSTER: _cluster, TOKEN: _token}.get(question.token)
    return answer(entities, question, callers) if answer else None


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
    found = entities.get(tokens.CLUSTER, name)
    denied = forbidden(question, callers, "eks:DescribeCluster", f"cluster/{name}")
    if denied or found is None or found.outputs["region"] != Place.of(question.provider).region:
        raise failed(question, f"reading EKS Cluster ({name}): {denied or MISSING}")
    return {
        **found.outputs,
        "id": name,
        "certificateAuthorities": [found.outputs["certificateAuthority"]],
        # EKS's default, if the program that made the cluster chose none (API_CreateAccessConfigRequest.html).
        "accessConfigs": [{"authenticationMode": "CONFIG_MAP", **(found.outputs.get("accessConfig") or {})}],
        "tags": found.outputs.get("tagsAll") or {},
    }


def _token(entities: Entities, question: Question, callers: Callers) -> Values:
    """The provider does not ask AWS: it signs a request of the caller. Here, the token is the caller's ARN."""
    return {"token": callers.of(question.provider)}
