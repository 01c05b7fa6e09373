"""The components' lookups in AWS for trust policies."""

import json
from types import SimpleNamespace
from typing import Any

import pulumi
import pytest

from components import iam


class Provider:
    """A stand-in for an AWS provider."""


def test_the_account_is_looked_up_once_for_all_roles_of_a_provider(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []

    def answer(opts: pulumi.InvokeOptions) -> SimpleNamespace:
        asked.append(opts.parent)
        return SimpleNamespace(account_id=f"{len(asked)}" * 12)

    monkeypatch.setattr("pulumi_aws.get_caller_identity", answer)
    one, other = Provider(), Provider()
    parents: list[Any] = [
        SimpleNamespace(get_provider=lambda _, provider=provider: provider)
        for provider in (one, one, other, None, None)
    ]
    policies = [json.loads(iam.trust(iam.EKS, pulumi.ResourceOptions(parent=parent))) for parent in parents]
    accounts = [policy["Statement"][0]["Condition"]["StringEquals"]["aws:SourceAccount"] for policy in policies]
    # A default provider has no object that could be the key of a cache.
    assert accounts == ["1" * 12, "1" * 12, "2" * 12, "3" * 12, "4" * 12]
    assert asked == [parents[0], parents[2], parents[3], parents[4]]
