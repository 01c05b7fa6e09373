"""Builds `eks:index:Cluster` as the real provider does, by interpreting data/eks-cluster-children.json.

The data was taken from a run of the real provider and says by itself how to read it (`about.read`). Here is what it
leaves to words: conditions, variants, and the options of add-ons.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

from sandbox.eks.expressions import Context, Evaluated, at, evaluate
from sandbox.eks.vpc_cni import compact, configuration
from sandbox.graph import Ref, Secret, holds_secret, plain, references
from sandbox.protocol import Constructed, Refused, Registered, Registrar, Registration, Values

CLUSTER = "eks:index:Cluster"
ACCESS_ENTRY = "aws:eks/accessEntry:AccessEntry"
ADDON = "aws:eks/addon:Addon"
CONTROL_PLANE = "aws:eks/cluster:Cluster"
_ADDON_OPTIONS = {
    "coredns": "corednsAddonOptions",
    "kube-proxy": "kubeProxyAddonOptions",
    "vpc-cni": "vpcCniOptions",
}
# Conditions in the data read "<argument> is not <state>".
_STATES: Mapping[str, Callable[[Any], bool]] = {
    "given": lambda value: value is not None,
    "true": lambda value: value is True,
    "false": lambda value: value is False,
}


@cache
def data() -> Values:
    """What the real provider registers and returns."""
    text = resources.files("sandbox").joinpath("data/eks-cluster-children.json").read_text(encoding="utf-8")
    loaded: Values = json.loads(text)
    return loaded


@dataclass(frozen=True, slots=True)
class _Child:
    """One child to be registered: its description, and for which name and access entry it stands."""

    spec: Values
    context: Context

    @property
    def name(self) -> str:
        return self.context.filled(self.spec["name"])

    @property
    def type(self) -> str:
        return str(self.spec["type"])

    @property
    def is_component(self) -> bool:
        return bool(self.spec.get("component"))


class ClusterBuilder:
    """Builds one cluster. Children are registered on demand, so that what they speak of is there before them."""

    def __init__(self, urn: str, component: Registration, registrar: Registrar) -> None:
        self._urn, self._component, self._registrar = urn, component, registrar
        self._args, self._argument_urns = _with_joined_subnets(component)
        self._registered: dict[tuple[str, str], Registered] = {}
        self._top = Context({"name": component.name})
        self._children = [child for spec in self._specs() for child in self._each(spec)]

    def build(self) -> Constructed:
        """Registers all children and returns the outputs."""
        for child in self._children:
            self._register(child)
        for child in self._children:
            if child.is_component:
                outputs = evaluate(child.spec.get("outputs", {}), child.context, self).value
                self._registrar.register_outputs(self._register(child).urn, outputs)
        evaluated = {key: evaluate(one, self._top, self) for key, one in self._outputs().items()}
        return Constructed(
            {key: one.value for key, one in evaluated.items() if one.value is not None},
            {key: tuple(sorted(one.dependencies)) for key, one in evaluated.items() if one.dependencies},
        )

    # What expressions may speak of (eks_expressions.Scope).

    def argument(self, path: str) -> Evaluated:
        top = path.split(".", 1)[0]
        urns = frozenset(self._argument_urns.get(top, ())) | references(self._args.get(top))
        return Evaluated(at(self._args, path), urns)

    def child(self, name: str, token: str | None = None) -> Registered:
        return self._register(self._find(name, token))

    def spread(self, name: str, token: str | None = None) -> frozenset[str]:
        child = self._find(name, token)
        if not child.is_component:
            return frozenset({self._register(child).urn})
        inside = [one for one in self._children if self._is_inside(one, child)]
        return frozenset().union(*(self.spread(one.name, one.type) for one in inside))

    def ask(self, token: str, args: Values | None = None) -> Values:
        return self._registrar.ask(token, args or {}, self._component.providers.get("aws", ""))

    # Which children there are.

    def _option(self, path: str) -> Any:
        return plain(self.argument(path).value)

    def _specs(self) -> Iterator[Values]:
        """Descriptions of the children for these arguments, the variants' among them."""
        variants = data()["variants"]
        specs = [*data()["children"]]
        if self._has_default_groups():
            specs += variants["skipDefaultSecurityGroups not set"]["children"]
        if self._option("corednsAddonOptions.enabled") or self._option("corednsAddonOptions.configurationValues"):
            specs += variants["corednsAddonOptions.enabled true"]["children"]
        for spec in specs:
            argument, _, state = spec.get("when", "").partition(" is not ")
            if not argument or not _STATES[state](self._option(argument)):
                yield spec

    def _has_default_groups(self) -> bool:
        return not self._option("skipDefaultSecurityGroups")

    def _each(self, spec: Values) -> Iterator[_Child]:
        words = self._top.words
        if "each" not in spec:
            yield _Child(spec, self._top)
            return
        entries = self.argument("accessEntries").value or {}
        for key, entry in sorted(entries.items()):
            context = Context({**words, "key": key}, entry)
            if spec["each"] == "accessEntries":
                yield _Child(spec, context)
                continue
            for name, policy in sorted((entry.get("accessPolicies") or {}).items()):
                yield _Child(spec, Context({**context.words, "policy": name}, entry, policy))

    def _find(self, name: str, token: str | None) -> _Child:
        found = [one for one in self._children if one.name == name and token in (None, one.type)]
        if not found:
            raise Refused(f"{self._component.name!r}: these arguments make no child {name!r} ({token or 'any type'})")
        # Two children share a name, the vpc-cni component and its add-on; the data gives their type.
        return found[0]

    def _is_inside(self, child: _Child, component: _Child) -> bool:
        parent = child.spec["parent"]
        if isinstance(parent, Mapping):
            return (child.context.filled(parent["name"]), parent["type"]) == (component.name, component.type)
        return child.context.filled(parent) == component.name

    # Registering them.

    def _register(self, child: _Child) -> Registered:
        key = child.name, child.type
        if key not in self._registered:
            self._registered[key] = self._registrar.register(self._registration(child))
        return self._registered[key]

    def _registration(self, child: _Child) -> Registration:
        spec, context = child.spec, child.context
        expressions = dict(spec.get("inputs", {}))
        if self._option("serviceRole") is not None:
            expressions.pop("roleArn", None)  # it speaks of a role that is not made then
        inputs = {key: evaluate(one, context, self) for key, one in expressions.items()}
        inputs = {key: one for key, one in self._completed(child, inputs).items() if one.value is not None}
        explicit = frozenset().union(*(self._depended(one, context) for one in spec["depends_on"]))
        options = dict(spec["options"])
        package = child.type.split(":", 1)[0]
        given = {one: self.child(context.filled(name)).urn for one, name in options.pop("providers", {}).items()}
        if version := data()["about"]["versions"].get(package):
            options["version"] = version
        return Registration(
            type=child.type,
            name=child.name,
            parent=self._parent(child),
            inputs={key: one.value for key, one in inputs.items()},
            custom=not child.is_component,
            dependencies=tuple(sorted(explicit.union(*(one.dependencies for one in inputs.values())))),
            property_dependencies={
                key: tuple(sorted(one.dependencies)) for key, one in inputs.items() if one.dependencies
            },
            provider="" if child.is_component else self._component.providers.get(package, ""),
            providers={**self._component.providers, **given} if child.is_component else {},
            options=options,
        )

    def _parent(self, child: _Child) -> str:
        parent = child.spec["parent"]
        name, token = (parent["name"], parent["type"]) if isinstance(parent, Mapping) else (parent, None)
        return self._urn if name == "{name}" else self.child(child.context.filled(name), token).urn

    def _depended(self, name: Any, context: Context) -> frozenset[str]:
        if isinstance(name, Mapping):
            return frozenset(self._register(one).urn for one in self._children if one.type == ACCESS_ENTRY)
        if "-eksRole" in name and self._option("serviceRole") is not None:
            return frozenset()
        return frozenset({self.child(context.filled(name)).urn})

    # What the data says in words.

    def _outputs(self) -> Values:
        outputs = dict(data()["outputs"])
        core = dict(outputs["core"])
        if self._option("useDefaultVpcCni"):
            del core["vpcCni"]
        if self._option("serviceRole") is not None:
            core["clusterIamRole"] = {"arg": "serviceRole"}
        if "subnetIds" not in self._component.inputs:
            core |= {key: {"arg": key} for key in ("publicSubnetIds", "privateSubnetIds")}
        if self._has_default_groups():
            group, nodes = "{name}-eksClusterSecurityGroup", "{name}-nodeSecurityGroup"
            rule = "{name}-eksClusterIngressRule"
            core["clusterSecurityGroup"] = {"resource": group}
            outputs |= {
                "clusterSecurityGroup": {"resource": group},
                "clusterSecurityGroupId": {"ref": group, "output": "id"},
                "nodeSecurityGroup": {"resource": nodes},
                "nodeSecurityGroupId": {"ref": nodes, "output": "id"},
                "eksClusterIngressRule": {"resource": rule},
                "clusterIngressRuleId": {"ref": rule, "output": "id"},
            }
        return {**outputs, "core": core}

    def _completed(self, child: _Child, inputs: dict[str, Evaluated]) -> dict[str, Evaluated]:
        if child.type == CONTROL_PLANE:
            return {**inputs, **self._control_plane(inputs)}
        if child.type == ADDON:
            return {**inputs, **self._addon(inputs)}
        if child.name == f"{self._component.name}-nodeSecurityGroup":
            return {**inputs, "tags": self._node_group_tags(inputs["tags"])}
        return inputs

    def _control_plane(self, inputs: dict[str, Evaluated]) -> dict[str, Evaluated]:
        more: dict[str, Evaluated] = {}
        role = self.argument("serviceRole").value
        if isinstance(role, Ref):
            state = self._registrar.ask("pulumi:pulumi:getResource", {"urn": role.urn})["state"]
            more["roleArn"] = Evaluated(state["arn"], frozenset({role.urn}))
        if self._has_default_groups():
            group, network = self.child(f"{self._component.name}-eksClusterSecurityGroup"), inputs["vpcConfig"]
            value = {**network.value, "securityGroupIds": [group.id]}
            more["vpcConfig"] = Evaluated(value, network.dependencies | {group.urn})
        return more

    def _node_group_tags(self, tags: Evaluated) -> Evaluated:
        cluster = self.child(f"{self._component.name}-eksCluster")
        opened = tags.value.value if isinstance(tags.value, Secret) else tags.value
        named = {key.replace("<cluster name>", cluster.outputs["name"]): value for key, value in opened.items()}
        return Evaluated(Secret(named) if opened is not tags.value else named, tags.dependencies | {cluster.urn})

    def _addon(self, inputs: dict[str, Evaluated]) -> dict[str, Evaluated]:
        addon = inputs["addonName"].value
        argument = self.argument(_ADDON_OPTIONS[addon])
        options = plain(argument.value) or {}
        conflicts = ("resolveConflictsOnCreate", "resolveConflictsOnUpdate")
        more = {key: Evaluated(options[key]) for key in conflicts if options.get(key)}
        text = None
        if addon == "vpc-cni":
            text = configuration(inputs["configurationValues"].value, options)
            more["serviceAccountRoleArn"] = Evaluated(options.get("serviceAccountRoleArn"), argument.dependencies)
        elif options.get("configurationValues"):
            text = compact(options["configurationValues"])
        if text is not None:
            secret = holds_secret(at(argument.value, "configurationValues"))
            more["configurationValues"] = Evaluated(Secret(text) if secret else text, argument.dependencies)
        if inputs["addonVersion"].value is None:
            more["addonVersion"] = self._latest(addon)
        return more

    def _latest(self, addon: str) -> Evaluated:
        """The version of an add-on that is not pinned; the real provider asks on every run."""
        cluster = self.child(f"{self._component.name}-eksCluster")
        asked = {"addonName": addon, "kubernetesVersion": cluster.outputs["version"], "mostRecent": True}
        answer = self.ask("aws:eks/getAddonVersion:getAddonVersion", asked)
        return Evaluated(answer["version"], frozenset({cluster.urn}))


def _with_joined_subnets(component: Registration) -> tuple[Values, Mapping[str, tuple[str, ...]]]:
    """The arguments, with public and private subnets, in that order, as `subnetIds` where they are given apart."""
    args, urns = component.inputs, component.property_dependencies
    apart = [key for key in ("publicSubnetIds", "privateSubnetIds") if args.get(key)]
    if not apart:
        return args, urns
    subnets = [subnet for key in apart for subnet in args[key]]
    needed = {urn for key in apart for urn in urns.get(key, ())}
    return {**args, "subnetIds": subnets}, {**urns, "subnetIds": tuple(sorted(needed))}
