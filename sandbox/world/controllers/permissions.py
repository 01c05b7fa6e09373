"""Permissions of roles in the emulated cloud: what their attached policies allow."""

import json
from fnmatch import fnmatchcase

from sandbox.world import tokens
from sandbox.world.entities import Entities, Entity, values_at


def allows(entities: Entities, role: Entity, action: str, arn: str | None = None) -> bool:
    """Whether a policy of the role allows an action on a resource, or (None) on any. Conditions are ignored."""
    attached = [entity.inputs.get("policyArn") for entity in entities.having(tokens.ATTACHED_POLICY, role=role.id)]
    policies = [one for policy in attached if (one := entities.get(tokens.POLICY, policy)) is not None]
    statements = [
        one for policy in policies for one in values_at(json.loads(policy.inputs.get("policy") or "{}"), "Statement")
    ]
    return any(
        statement.get("Effect") == "Allow"
        and any(fnmatchcase(action, pattern) for pattern in values_at(statement, "Action"))
        and (arn is None or any(fnmatchcase(arn, pattern) for pattern in values_at(statement, "Resource")))
        for statement in statements
    )
