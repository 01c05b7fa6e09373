"""The vpc-cni add-on's configuration as `eks.Cluster` writes it from its `vpcCniOptions`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from sandbox.protocol import Refused, Values

# Option to environment variable; options that are false, 0 or "" count as not given, as in the provider.
ENVIRONMENT = {
    "cniConfigureRpfilter": "AWS_VPC_K8S_CNI_CONFIGURE_RPFILTER",
    "cniExternalSnat": "AWS_VPC_K8S_CNI_EXTERNALSNAT",
    "cniCustomNetworkCfg": "AWS_VPC_K8S_CNI_CUSTOM_NETWORK_CFG",
    "enablePodEni": "ENABLE_POD_ENI",
    "enablePrefixDelegation": "ENABLE_PREFIX_DELEGATION",
    "eniConfigLabelDef": "ENI_CONFIG_LABEL_DEF",
    "eniMtu": "AWS_VPC_ENI_MTU",
    "externalSnat": "AWS_VPC_K8S_CNI_EXTERNALSNAT",
    "logFile": "AWS_VPC_K8S_CNI_LOG_FILE",
    "logLevel": "AWS_VPC_K8S_CNI_LOGLEVEL",
    "nodePortSupport": "AWS_VPC_CNI_NODE_PORT_SUPPORT",
    "vethPrefix": "AWS_VPC_K8S_CNI_VETHPREFIX",
    "warmEniTarget": "WARM_ENI_TARGET",
    "warmIpTarget": "WARM_IP_TARGET",
    "warmPrefixTarget": "WARM_PREFIX_TARGET",
}
INIT_ENVIRONMENT = {"disableTcpEarlyDemux": "DISABLE_TCP_EARLY_DEMUX"}
# Settings of the add-on itself or of the component, not of the configuration.
OTHERS = frozenset(
    {
        "addonVersion",
        "configurationValues",
        "enableNetworkPolicy",
        "resolveConflictsOnCreate",
        "resolveConflictsOnUpdate",
        "serviceAccountRoleArn",
    }
)


def configuration(defaults: str, options: Values) -> str:
    """The add-on's `configurationValues`, as JSON text with sorted keys.

    `defaults` is the text without any options. Environment variables in the options' own `configurationValues` win over
    single options, and these over the defaults; whatever else is in them is taken over.
    """
    for option in options.keys() - ENVIRONMENT.keys() - INIT_ENVIRONMENT.keys() - OTHERS:
        # customNetworkConfig is overwritten by cniCustomNetworkCfg's default in the provider: it never does anything.
        if option != "customNetworkConfig" and options[option]:
            raise Refused(f"the sandbox does not know vpcCniOptions.{option}; see sandbox/eks/vpc_cni.py")
    usual = json.loads(defaults)
    given = dict(options.get("configurationValues") or {})
    if options.get("enableNetworkPolicy") is not None:
        given.setdefault("enableNetworkPolicy", _text(options["enableNetworkPolicy"]))
    given["env"] = {**usual["env"], **_variables(options, ENVIRONMENT), **_mapping(given.get("env"))}
    init = _mapping(given.get("init"))
    environment = {**usual["init"]["env"], **_variables(options, INIT_ENVIRONMENT), **_mapping(init.get("env"))}
    given["init"] = {**init, "env": environment}
    return compact(given)


def compact(values: Values) -> str:
    """JSON text as the provider writes it: keys sorted at every depth, no spaces."""
    return json.dumps(values, sort_keys=True, separators=(",", ":"))


def _variables(options: Values, names: Mapping[str, str]) -> dict[str, str]:
    # warmEniTarget alone may be 0: the provider asks whether it is there, not whether it is true.
    given = {option: options.get(option) for option in names if options.get(option) or option == "warmEniTarget"}
    return {names[option]: _text(value) for option, value in given.items() if value is not None}


def _mapping(value: Any) -> Values:
    return value if isinstance(value, Mapping) else {}


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
