"""The remote components of pulumi-eks that are emulated, and which of their arguments are not."""

from __future__ import annotations

from sandbox.eks.children import CLUSTER, ClusterBuilder, data
from sandbox.graph import plain
from sandbox.protocol import Construct, Constructed, Refused, Registrar, Registration, Values

# Arguments that the data's variants and notes speak of, beside the recommended ones.
_MORE_ARGUMENTS = frozenset(
    {
        "clusterSecurityGroupTags",
        "clusterTags",
        "deletionProtection",
        "enabledClusterLogTypes",
        "nodeSecurityGroupTags",
        "privateSubnetIds",
        "publicSubnetIds",
        "serviceRole",
        "useDefaultVpcCni",
    }
)


def cluster(urn: str, component: Registration, registrar: Registrar) -> Constructed:
    """Registers the children of one `eks.Cluster` and returns its outputs."""
    _check(component.name, plain(component.inputs))
    return ClusterBuilder(urn, component, registrar).build()


COMPONENTS: dict[str, Construct] = {CLUSTER: cluster}


def _check(name: str, args: Values) -> None:
    """Refuses what the provider refuses, in its words, and what is not emulated, by the argument's name."""

    def problem(message: str) -> Refused:
        return Refused(f"{CLUSTER} resource {name!r} has a problem: {message}")

    mode = args.get("authenticationMode")
    if mode not in (None, "CONFIG_MAP", "API_AND_CONFIG_MAP", "API"):
        allowed = "CONFIG_MAP, API_AND_CONFIG_MAP, API"
        raise problem(f"Invalid value for authenticationMode: {mode}. Allowed values are: {allowed}.")
    if args.get("subnetIds") and (args.get("publicSubnetIds") or args.get("privateSubnetIds")):
        raise problem(
            "subnetIds, and the use of publicSubnetIds and/or privateSubnetIds are mutually exclusive. "
            "Choose a single approach."
        )
    if args.get("publicAccessCidrs") and args.get("endpointPublicAccess") is False:
        raise problem("`publicAccessCidrs` can only be set when `endpointPublicAccess` is true")
    if mode == "API":
        for argument in ("roleMappings", "userMappings", "instanceRoles"):
            if args.get(argument):
                raise problem(
                    f"The '{argument}' property does not support non-empty values "
                    "when 'authenticationMode' is set to 'API'."
                )
    elif mode in (None, "CONFIG_MAP") and args.get("accessEntries"):
        state = "is not set" if mode is None else f"is set to '{mode}'"
        raise problem(f"The 'accessEntries' property is not supported when 'authenticationMode' {state}.")
    known = data()["arguments"].keys() | _MORE_ARGUMENTS
    unknown = {argument: "not emulated, leave it out" for argument in args if argument not in known and args[argument]}
    if mode != "API":
        unknown["authenticationMode"] = "write 'API'"
    if not args.get("skipDefaultNodeGroup"):
        unknown["skipDefaultNodeGroup"] = "write true"
    if args.get("createOidcProvider"):
        unknown["createOidcProvider"] = "write false"
    if not args.get("vpcId"):
        unknown["vpcId"] = "name a VPC: the account's default one is not emulated"
    if unknown:
        wants = "; ".join(f"{argument}: {way_out}" for argument, way_out in sorted(unknown.items()))
        raise Refused(
            f"the sandbox does not build {CLUSTER} {name!r} with these arguments ({wants}), see sandbox/eks/cluster.py"
        )
