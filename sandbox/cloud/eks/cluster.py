"""Builds `eks:index:Cluster` like the real provider, for the arguments that our stacks use.

Types, names, parents, inputs, dependencies and options are from a run of the real provider (pulumi-eks, source of
2026-08-12, v4.3.0 and later) under the real engine (CLI 3.260, SDK 3.272), with stand-ins for aws and kubernetes. A
Construct that only repeated them led to the same previews and state, an `up` without changes, and the same order of
`destroy`. The component has only the outputs that stacks read.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from sandbox.cloud.eks import versions
from sandbox.cloud.eks.kubeconfig import kubeconfig, text
from sandbox.cloud.protocol import Constructed, Refused, Registered, Registrar, Values
from sandbox.graph import Ref, Registration, plain, references

CLUSTER = "eks:index:Cluster"
ADDON = "aws:eks/addon:Addon"
TRUST = (
    '{"Version":"2012-10-17","Statement":[{"Action":["sts:AssumeRole","sts:TagSession"],"Effect":"Allow",'
    '"Principal":{"Service":["eks.amazonaws.com"]}}]}'
)
CNI_ENVIRONMENT = {
    "AWS_VPC_ENI_MTU": "9001",
    "AWS_VPC_K8S_CNI_CUSTOM_NETWORK_CFG": "false",
    "AWS_VPC_K8S_CNI_EXTERNALSNAT": "false",
    "AWS_VPC_K8S_CNI_LOGLEVEL": "DEBUG",
    "AWS_VPC_K8S_CNI_LOG_FILE": "/host/var/log/aws-routed-eni/ipamd.log",
    "AWS_VPC_K8S_CNI_VETHPREFIX": "eni",
    "AWS_VPC_K8S_PLUGIN_LOG_FILE": "/var/log/aws-routed-eni/plugin.log",
    "AWS_VPC_K8S_PLUGIN_LOG_LEVEL": "DEBUG",
    "ENABLE_POD_ENI": "false",
    "WARM_ENI_TARGET": "1",
}
CNI_INIT_ENVIRONMENT = {"DISABLE_TCP_EARLY_DEMUX": "false"}

FIXED: Values = {
    "authenticationMode": "API",
    "bootstrapSelfManagedAddons": False,
    "corednsAddonOptions.enabled": False,
    "createOidcProvider": False,
    "skipDefaultNodeGroup": True,
    "skipDefaultSecurityGroups": True,
}
"""Arguments that determine the children. The component is only emulated with these values."""
NEEDED = ("kubeProxyAddonOptions.version", "vpcCniOptions.addonVersion", "vpcId", "subnetIds")
TAKEN = (
    *("accessEntries", "enabledClusterLogTypes", "endpointPrivateAccess", "endpointPublicAccess"),
    *("name", "publicAccessCidrs", "subnetIds", "tags", "upgradePolicy", "version"),
    "vpcId",
)
CONFLICTS = ("resolveConflictsOnCreate", "resolveConflictsOnUpdate")
OPTIONS = {
    "corednsAddonOptions": {"enabled", *CONFLICTS},
    "kubeProxyAddonOptions": {"version", *CONFLICTS},
    "vpcCniOptions": {"addonVersion", "configurationValues", "enableNetworkPolicy", *CONFLICTS},
}


@dataclass(frozen=True, slots=True)
class Known:
    """A value, or None, and the URNs on which it depends."""

    value: Any
    dependencies: frozenset[str] = frozenset()


def construct(urn: str, component: Registration, registrar: Registrar) -> Constructed:
    """Registers the children of an `eks.Cluster` and returns its outputs. Raises Refused for unsupported arguments."""
    _check(component.name, plain(component.inputs))
    return _Builder(urn, component, registrar).build()


class _Builder:
    def __init__(self, urn: str, component: Registration, registrar: Registrar) -> None:
        self._urn, self._component, self._registrar = urn, component, registrar
        self._name = component.name

    def build(self) -> Constructed:
        service_role, role, attachment = self._role()
        cluster = self._control_plane(role, attachment)
        self._addon("kube-proxy", "kubeProxyAddonOptions", "version", cluster, self._urn)
        config = Known(text(kubeconfig(cluster.outputs)), frozenset({cluster.urn}))
        provider = self._child(
            "pulumi:providers:kubernetes", "eks-k8s", {"kubeconfig": config}, options={"version": versions.KUBERNETES}
        )
        entries = self._access_entries(cluster)
        cni = self._child(
            "eks:index:VpcCniAddon", "vpc-cni", depends_on=entries, providers={"kubernetes": provider.urn}
        )
        # It only waits for the access entries because its parent does.
        configuration = self._cni_configuration()
        addon = self._addon("vpc-cni", "vpcCniOptions", "addonVersion", cluster, cni.urn, configuration)
        own_role = Ref(role.urn, role.id or None)
        self._registrar.register_outputs(service_role.urn, {"directRole": own_role, "resolvedRole": own_role})
        self._registrar.register_outputs(cni.urn, {"addon": Ref(addon.urn, addon.id or None)})
        outputs = {"kubeconfigJson": config.value, "eksCluster": Ref(cluster.urn, cluster.id or None)}
        return Constructed(outputs, dict.fromkeys(outputs, (cluster.urn,)))

    def _role(self) -> tuple[Registered, Registered, Registered]:
        component = self._child("eks:index:ServiceRole", "eksRole")
        role = self._child(
            "aws:iam/role:Role",
            "eksRole-role",
            {
                "assumeRolePolicy": Known(TRUST),
                "description": Known("Allows EKS to manage clusters on your behalf."),
                "tags": self._argument("tags"),
            },
            parent=component.urn,
        )
        provider = self._component.providers.get("aws", "")
        partition = self._registrar.ask("aws:index/getPartition:getPartition", {}, provider)["partition"]
        attachment = self._child(
            "aws:iam/rolePolicyAttachment:RolePolicyAttachment",
            # Start of the SHA-1 of arn:aws:iam::aws:policy/AmazonEKSClusterPolicy, in every partition.
            "eksRole-4b490823",
            {
                "policyArn": Known(f"arn:{partition}:iam::aws:policy/AmazonEKSClusterPolicy"),
                # Sent as a reference, which the provider receives as the role's id.
                "role": _reference(role),
            },
            parent=component.urn,
        )
        return component, role, attachment

    def _control_plane(self, role: Registered, attachment: Registered) -> Registered:
        network = ("subnetIds", "endpointPrivateAccess", "endpointPublicAccess", "publicAccessCidrs")
        plain_arguments = ("name", "bootstrapSelfManagedAddons", "version", "enabledClusterLogTypes", "upgradePolicy")
        access = {
            "authenticationMode": self._argument("authenticationMode"),
            "bootstrapClusterCreatorAdminPermissions": Known(True),
        }
        return self._child(
            "aws:eks/cluster:Cluster",
            "eksCluster",
            {
                **{key: self._argument(key) for key in plain_arguments},
                "roleArn": _output(role, "arn"),
                "accessConfig": _mapping(access),
                "vpcConfig": _mapping({key: self._argument(key) for key in network}),
                "tags": self._named_tags(f"{self._name}-eksCluster"),
            },
            depends_on=(attachment,),
            options={
                "ignoreChanges": ["accessConfig.bootstrapClusterCreatorAdminPermissions", "bootstrapSelfManagedAddons"]
            },
        )

    def _named_tags(self, name: str) -> Known:
        tags = self._argument("tags")
        return Known({"Name": name, **(tags.value or {})}, tags.dependencies)

    def _addon(
        self,
        addon: str,
        options: str,
        version: str,
        cluster: Registered,
        parent: str,
        configuration: Known | None = None,
    ) -> Registered:
        given = self._argument(options).value
        return self._child(
            ADDON,
            addon,
            {
                "addonName": Known(addon),
                "addonVersion": self._argument(f"{options}.{version}"),
                "clusterName": _output(cluster, "name"),
                "configurationValues": configuration or Known(None),
                "preserve": Known(True),
                **{key: Known(given.get(key) or "OVERWRITE") for key in CONFLICTS},
                "tags": self._argument("tags"),
            },
            parent=parent,
        )

    def _cni_configuration(self) -> Known:
        """Environment variables in `configurationValues` take precedence."""
        options = self._argument("vpcCniOptions")
        given = dict(options.value.get("configurationValues") or {})
        if options.value.get("enableNetworkPolicy") is not None:
            given["enableNetworkPolicy"] = str(options.value["enableNetworkPolicy"]).lower()
        given |= {"env": {**CNI_ENVIRONMENT, **(given.get("env") or {})}, "init": {"env": CNI_INIT_ENVIRONMENT}}
        return Known(json.dumps(given, sort_keys=True, separators=(",", ":")), options.dependencies)

    def _access_entries(self, cluster: Registered) -> list[Registered]:
        """Registers the access entries, which do not get the component's tags."""
        argument = self._argument("accessEntries")
        registered = []
        for key, entry in sorted((argument.value or {}).items()):
            who = {
                "clusterName": _output(cluster, "name"),
                "principalArn": Known(entry.get("principalArn"), argument.dependencies),
            }
            own = {name: Known(entry.get(name), argument.dependencies) for name in ("kubernetesGroups", "tags")}
            made = self._child("aws:eks/accessEntry:AccessEntry", key, {**who, **own})
            registered.append(made)
            for name, policy in sorted((entry.get("accessPolicies") or {}).items()):
                granted = {of: Known(policy.get(of), argument.dependencies) for of in ("policyArn", "accessScope")}
                self._child(
                    "aws:eks/accessPolicyAssociation:AccessPolicyAssociation",
                    f"{key}-{name}",
                    {**who, **granted},
                    parent=made.urn,
                    depends_on=[made],
                )
        return registered

    def _argument(self, path: str) -> Known:
        """An argument of the component, e.g. `vpcCniOptions.addonVersion`."""
        top, args = path.partition(".")[0], self._component.inputs
        value = _at(args, path)
        if value is None:
            return Known(None)
        urns = frozenset(self._component.property_dependencies.get(top, ())) | references(args.get(top))
        return Known(value, urns)

    def _child(
        self,
        type: str,
        suffix: str,
        inputs: Mapping[str, Known] | None = None,
        *,
        parent: str = "",
        depends_on: Iterable[Registered] = (),
        options: Values | None = None,
        providers: Mapping[str, str] | None = None,
    ) -> Registered:
        given = {key: one for key, one in (inputs or {}).items() if one.value is not None}
        package = type.partition(":")[0]
        is_component = package == "eks"
        version = {"version": versions.AWS} if package == "aws" else {}
        explicit = frozenset(one.urn for one in depends_on)
        return self._registrar.register(
            Registration(
                type=type,
                name=f"{self._name}-{suffix}",
                parent=parent or self._urn,
                inputs={key: one.value for key, one in given.items()},
                custom=not is_component,
                dependencies=tuple(sorted(explicit.union(*(one.dependencies for one in given.values())))),
                property_dependencies={
                    key: tuple(sorted(one.dependencies)) for key, one in given.items() if one.dependencies
                },
                provider="" if is_component else self._component.providers.get(package, ""),
                providers={**self._component.providers, **(providers or {})} if is_component else {},
                options={**(options or {}), **version},
            )
        )


def _reference(child: Registered) -> Known:
    return Known(Ref(child.urn, child.id or None), frozenset({child.urn}))


def _output(child: Registered, path: str) -> Known:
    return Known(_at(child.outputs, path), frozenset({child.urn}))


def _mapping(parts: Mapping[str, Known]) -> Known:
    given = {key: part for key, part in parts.items() if part.value is not None}
    return Known(
        {key: part.value for key, part in given.items()},
        frozenset().union(*(part.dependencies for part in given.values())),
    )


def _at(value: Any, path: str) -> Any:
    """The value at a path such as `vpcCniOptions.addonVersion`, or None."""
    for step in path.split("."):
        value = value.get(step) if isinstance(value, Mapping) else None
    return value


def _check(name: str, args: Values) -> None:
    """Raises Refused as the provider does, in its words, and for arguments that are not emulated."""
    if args.get("publicAccessCidrs") and args.get("endpointPublicAccess") is False:
        raise Refused(
            f"{CLUSTER} resource {name!r} has a problem: "
            "`publicAccessCidrs` can only be set when `endpointPublicAccess` is true"
        )
    wrong = [key for key in args.keys() - {*TAKEN, *FIXED, *OPTIONS} if args[key]]
    wrong += [path for path, value in FIXED.items() if _at(args, path) != value]
    wrong += [path for path in NEEDED if not _at(args, path)]
    wrong += [f"{one}.{key}" for one, known in OPTIONS.items() for key in (args.get(one) or {}).keys() - known]
    if wrong:
        raise Refused(
            f"the sandbox does not emulate {CLUSTER} {name!r} with these arguments: {', '.join(sorted(wrong))}"
        )
