"""Results of AWS's functions (data sources), and of the engine's own."""

from sandbox.cloud.aws.offers import OFFERINGS, ZONES, offerings
from sandbox.cloud.aws.places import Place
from sandbox.cloud.identity import ACCOUNT
from sandbox.cloud.protocol import Answer, Question, Values


def _place(question: Question) -> Place:
    return Place.of(question.provider)


def _zones(question: Question) -> Values:
    place, args = _place(question), question.args
    hidden = args.get("excludeZoneIds") or ()
    zones = {name: code for name, code in place.zones.items() if code not in hidden}
    return {"names": list(zones), "zoneIds": list(zones.values())}


def _partition(question: Question) -> Values:
    place = _place(question)
    return {"partition": place.partition}


def _caller(question: Question) -> Values:
    arn = _place(question).arn("iam", "user/sandbox", regional=False)
    return {"accountId": ACCOUNT, "arn": arn}


def _session(question: Question) -> Values:
    """The result for a user (terraform-provider-aws, internal/service/iam/session_context_data_source.go)."""
    return {"issuerArn": question.args["arn"]}


ANSWERS: dict[str, Answer | Values] = {
    ZONES: _zones,
    "aws:index/getPartition:getPartition": _partition,
    "aws:index/getCallerIdentity:getCallerIdentity": _caller,
    "aws:iam/getSessionContext:getSessionContext": _session,
    OFFERINGS: lambda question: offerings(question, {}),
    # Before the first `up`, there are no clusters and no outputs. A world has its own.
    "aws:eks/getClusters:getClusters": {"names": []},
    # Of clusters and subnets that others own, nothing is known.
    "aws:eks/getCluster:getCluster": {},
    "aws:ec2/getSubnet:getSubnet": {},
    "pulumi:pulumi:readStackOutputs": {"outputs": {}},
}
