"""What the parts of a stack stand on: the cluster, and for optional features also the models."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import pulumi
import pulumi_aws as aws

from components import ExistingCluster, GpuCluster, OllamaPair, pull_from
from sharing.sections.pools import GpuPool
from sharing.sections.zones import pool_demand
from stacks.asleep_pools import Parking
from stacks.existing_cluster import mark
from stacks.stack_file.judge import Plan


@dataclass(frozen=True, kw_only=True)
class Base:
    """The foundation of every part of a stack."""

    plan: Plan
    provider: aws.Provider
    cluster: GpuCluster | ExistingCluster
    discovery: bool
    """Whether the stack installs node feature discovery."""
    untainted_zones: Sequence[str]
    """Zones of the nodes without taints of an existing cluster."""
    tags: Mapping[str, str]
    mode_taints: Mapping[str, pulumi.Output[str]]
    """Value of the taint `tandem/mode` of each pool's nodes, by the pool's name."""
    volume_zones: Mapping[str, pulumi.Output[str]]
    """The zone of the models' volumes, by the name of each pool with volumes."""
    parking: Parking

    def zones(self, pool: GpuPool) -> pulumi.Output[list[str]]:
        """The zones of a pool's nodes."""
        return self.cluster.zones_of_pool(pool.name, pool_demand(pool), self.volume_zones.get(pool.name))

    def parts(
        self, *names: Literal["system_nodes", "pod_identity_agent", "dns", "storage_driver"]
    ) -> list[pulumi.Resource]:
        """These parts of the cluster, if the stack creates it: an existing cluster has its own."""
        return [getattr(self.cluster, name) for name in names] if isinstance(self.cluster, GpuCluster) else []

    @property
    def security_groups(self) -> Sequence[str]:
        """Security groups of the stack file, for nodes."""
        settings = self.plan.config.cluster
        given = settings.vpc or settings.existing
        return given.security_groups if given else ()

    def inside(self, *needs: pulumi.Resource) -> pulumi.ResourceOptions:
        """Options of a component in the cluster."""
        registry, is_foreign = self.plan.config.registry, isinstance(self.cluster, ExistingCluster)
        changes = [*([pull_from(registry)] if registry else []), *([mark(self.plan.stack)] if is_foreign else [])]
        return pulumi.ResourceOptions(
            providers=[self.provider, self.cluster.kubernetes_provider],
            depends_on=[*needs],
            transformations=changes,
        )


@dataclass(frozen=True, kw_only=True)
class Serving:
    """A stack with models, to which its optional features are added."""

    base: Base
    nodes: Mapping[str, pulumi.Resource]
    """The provisioner of the GPU nodes, by pool: a node group, or Karpenter."""
    models: OllamaPair
