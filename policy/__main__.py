"""The policy pack: `pulumi preview --policy-pack policy`."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pulumi_policy import (
    EnforcementLevel,
    PolicyConfigSchema,
    PolicyPack,
    PolicyResource,
    ReportViolation,
    StackValidationArgs,
    StackValidationPolicy,
)
from pulumi_policy.proxy import UnknownValueError

# Pulumi starts this folder, and the rules are beside it.
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from policy.program import GROUP, Resource, plain
from policy.rules import POLICY_RULES, Rule, find_violations

EXCEPT = {
    "type": "array",
    "items": {"type": "string"},
    "default": [],
    "description": "Names or URNs of resources that the rule ignores; `*` stands for any text.",
}


def _resource(given: PolicyResource) -> Resource:
    region = plain(given.provider.props, UnknownValueError).get("region") if given.provider else None
    return Resource(
        urn=given.urn,
        type=given.resource_type,
        name=given.name,
        props=plain(given.props, UnknownValueError),
        needs={key: [each.urn for each in needed] for key, needed in given.property_dependencies.items()},
        region=region if isinstance(region, str) else "",
        cluster=_cluster_of(given),
    )


def _cluster_of(given: PolicyResource) -> str:
    """The provider of an object; of a node group, the cluster's name, or the new cluster that has none yet."""
    if given.resource_type != GROUP:
        return given.provider.urn if given.provider else ""
    name = plain(given.props, UnknownValueError).get("clusterName")
    needed = given.property_dependencies.get("clusterName", [])
    clusters = [each.urn for each in needed if each.resource_type == "aws:eks/cluster:Cluster"]
    return name if isinstance(name, str) else "".join(clusters)


def _validation(rule: Rule) -> Callable[[StackValidationArgs, ReportViolation], None]:
    def validate(args: StackValidationArgs, report_violation: ReportViolation) -> None:
        exceptions: list[Any] = args.get_config().get("except", [])
        for found in find_violations(rule, [_resource(each) for each in args.resources], exceptions):
            report_violation(found.message, found.urn)

    return validate


PolicyPack(
    name="tandem",
    policies=[
        StackValidationPolicy(
            name=rule.name,
            description=rule.description,
            validate=_validation(rule),
            enforcement_level=EnforcementLevel.MANDATORY if rule.refuses else EnforcementLevel.ADVISORY,
            config_schema=PolicyConfigSchema(properties={"except": EXCEPT}),
        )
        for rule in POLICY_RULES
    ],
)
