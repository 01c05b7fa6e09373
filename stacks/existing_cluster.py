"""Reads the cluster of `cluster.existing` and judges it, before any resource is registered."""

from copy import copy
from typing import Any

import pulumi
import pulumi_aws as aws

from components.device_plugin_sharing import discovery_chart
from sharing.existing.cluster import (
    ClusterFacts,
    There,
    judge_cluster,
    not_admitted,
    not_described,
    not_found,
    not_reached,
    warn_of_cluster,
)
from sharing.existing.objects import Installed, read_installed
from sharing.existing.vpc import judge_network, network_around
from sharing.names import OWNER_LABEL, POOL_LABEL, cluster_name
from sharing.printable import quoted
from sharing.problems import Problem, format_errors
from stacks.existing_vpc import read_vpc
from stacks.kubernetes_api import KubernetesApi, NotAdmittedError, NotReachedError
from stacks.stack_file.judge import Plan

ON_OUR_NODES = {"matchExpressions": [{"key": POOL_LABEL, "operator": "Exists"}]}
DISCOVERY_VALUES = {
    discovery_chart.CHART.name: {
        "worker": {
            "affinity": {
                "nodeAffinity": {
                    "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [ON_OUR_NODES]}
                }
            }
        }
    }
}
"""Keeps feature discovery off the nodes of others: their labels would stay after `destroy`."""
MARKED = (
    "kubernetes:core/v1:Namespace",
    "kubernetes:rbac.authorization.k8s.io/v1:ClusterRole",
    "kubernetes:scheduling.k8s.io/v1:PriorityClass",
)
"""Types whose objects have a name of their own in the cluster. Helm marks those of its releases itself."""


def look_into_cluster(plan: Plan, provider: aws.Provider) -> There | None:
    """What is installed in the existing cluster; None if the stack creates one.

    Raises `pulumi.RunError` if the existing cluster does not suit the stack.
    """
    existing, options = plan.config.cluster.existing, pulumi.InvokeOptions(provider=provider)
    found = _describe(existing.name, plan.config.region, options) if existing else None
    if existing is None or found is None:
        return None
    facts = _read_facts(found, options)
    problems = [*judge_cluster(facts, plan.config, plan.stack)]
    if facts.installed is None:
        raise _error(existing.name, problems)
    there = There(facts.installed, plan.config, plan.stack)
    place = found.vpc_config
    network = network_around(
        existing, place.vpc_id, place.subnet_ids, has_private_api=bool(place.endpoint_private_access)
    )
    warnings = [*warn_of_cluster(facts, plan.config, plan.stack)]
    if vpc := read_vpc(network, plan.config, options):
        errors, doubts = judge_network(network, vpc, plan.config, deployed_in=network.vpc if there.is_deployed else "")
        problems += errors
        warnings += doubts
    if problems:
        raise _error(existing.name, problems)
    for warning in warnings:
        pulumi.log.warn(str(warning))
    return there


def mark(stack: str) -> pulumi.ResourceTransformation:
    """Labels objects that belong to the stack, so that the next `up` knows them from those of others."""

    def transform(args: pulumi.ResourceTransformationArgs) -> pulumi.ResourceTransformationResult | None:
        if args.type_ not in MARKED:
            return None
        metadata: Any = copy(args.props["metadata"])
        metadata.labels = {**(metadata.labels or {}), OWNER_LABEL: cluster_name(stack)}
        return pulumi.ResourceTransformationResult({**args.props, "metadata": metadata}, args.opts)

    return transform


def _describe(name: str, region: str, options: pulumi.InvokeOptions) -> Any:
    """EKS's description of the cluster; None under Pulumi's mocks."""
    try:
        # A list, because describing a missing cluster fails, and mocks list none.
        names = aws.eks.get_clusters(opts=options).names
        found = aws.eks.get_cluster(name=name, opts=options) if name in (names or ()) else None
    except Exception as error:  # the SDK raises no narrower one for a function that fails
        raise _error(name, [not_described(name, quoted(error))]) from None
    if names is not None and found is None:
        raise _error(name, [not_found(name, region)])
    return found


def _read_facts(found: Any, options: pulumi.InvokeOptions) -> ClusterFacts:
    is_active = found.status == "ACTIVE"
    authentication = next((each.authentication_mode for each in found.access_configs), "CONFIG_MAP")
    return ClusterFacts(
        name=found.name,
        status=found.status,
        version=found.version,
        authentication=authentication,
        is_automatic=any(each.enabled for each in found.compute_configs or ()),
        ip_family=next((each.ip_family for each in found.kubernetes_network_configs or ()), "ipv4"),
        installed=_read_installed(found, authentication, options) if is_active else None,
    )


def _read_installed(found: Any, authentication: str, options: pulumi.InvokeOptions) -> Installed:
    # Valid for 15 minutes. Unlike `aws eks get-token`, it is for the identity of the provider, whatever that is.
    token = aws.eks.get_cluster_auth(name=found.name, opts=options).token
    api = KubernetesApi(endpoint=found.endpoint, authority=found.certificate_authorities[0].data, token=token)
    try:
        return read_installed(api.read)
    except NotAdmittedError as error:
        raise _error(found.name, [not_admitted(found.name, str(error), authentication)]) from None
    except NotReachedError as error:
        raise _error(found.name, [not_reached(found.name, str(error))]) from None


def _error(name: str, problems: list[Problem]) -> Exception:
    # Pulumi adds its own `error: ` before it.
    return pulumi.RunError("\n".join(format_errors(f"cluster {name}", problems)).removeprefix("error: "))
