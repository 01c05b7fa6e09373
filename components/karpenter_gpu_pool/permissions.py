"""AWS permissions of Karpenter's controller: the statements of its official policies, scoped to one cluster.

Source: aws/karpenter-provider-aws v1.14.1, getting-started cloudformation.yaml, which has six managed policies. The two
of `data/permissions.json` with the same statements fit IAM's limit of 6,144 characters per policy. A test compares them
statement by statement. Without `iam:ListInstanceProfiles`, an EC2NodeClass is never deleted
(karpenter-provider-aws#9185).
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from importlib.resources import files
from string import Template

from components.iam import Statement, tls_only


@dataclass(frozen=True)
class Scope:
    """The resources on which the controller can act."""

    cluster: str
    """Name of the EKS cluster."""
    node_role_arn: str
    queue_arn: str
    """`arn:PARTITION:sqs:REGION:ACCOUNT:…`, from which partition, region and account are taken."""


def statements(policy: str, scope: Scope) -> list[Statement]:
    """The statements of a policy in `data/permissions.json`."""
    text = files(__package__).joinpath("data", "permissions.json").read_text(encoding="utf-8")
    _, partition, _, region, account, _ = scope.queue_arn.split(":")
    filled = Template(text).substitute(asdict(scope), partition=partition, region=region, account=account)
    found: list[Statement] = json.loads(filled)[policy]
    return found


PARTS: dict[str, Callable[[Scope], list[Statement]]] = {
    policy: partial(statements, policy) for policy in ("nodes", "account")
}
"""The statements of the controller's two policies."""


def queue_statements(queue_arn: str, rule_arns: Sequence[str]) -> list[Statement]:
    """The queue's policy: only EventBridge can send messages, only for these rules, and only over TLS.

    Karpenter's template is wider: it allows rules of every account, and sqs.amazonaws.com, which sends nothing here.
    EventBridge passes a rule's ARN and account (EventBridge User Guide, cross-service-confused-deputy-prevention).
    """
    account = queue_arn.split(":")[4]
    return [
        {
            "Effect": "Allow",
            "Principal": {"Service": "events.amazonaws.com"},
            "Action": "sqs:SendMessage",
            "Resource": queue_arn,
            "Condition": {
                "StringEquals": {"aws:SourceAccount": account},
                "ArnEquals": {"aws:SourceArn": [*rule_arns]},
            },
        },
        tls_only(queue_arn),
    ]
