"""What the parts of a stack stand on: the cluster, and for optional features also the models."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pulumi
import pulumi_aws as aws

from components import GpuCluster, OllamaPair, pull_from
from sharing.stack.pools import GpuPool
from sharing.stack.zones import pool_demand
from stacks.asleep_pools import Parking
from stacks.stack_file.judge import Plan


@dataclass(frozen=True, kw_only=True)
class Base:
    """The foundation of every part of a stack."""

    plan: Plan
    provider: aws.Provider
    cluster: GpuCluster
    tags: Mapping[str, str]
    mode_taints: Mapping[str, pulumi.Output[str]]
    """Value of the taint `tandem/mode` of each pool's nodes, by the pool's name."""
    volume_zones: Mapping[str, pulumi.Output[str]]
    """The zone of the models' volumes, by the name of each pool with volumes."""
    parking: Parking

    def zones(self, pool: GpuPool) -> pulumi.Output[list[str]]:
        """The zones of a pool's nodes."""
        return self.cluster.zones_of_pool(pool.name, pool_demand(pool), self.volume_zones.get(pool.name))

    @property
    def security_groups(self) -> Sequence[str]:
        """Security groups of the stack file, for nodes."""
        settings = self.plan.config.cluster
        given = settings.vpc or settings.existing
        return given.security_groups if given else ()

    def inside(self, *needs: pulumi.Resource) -> pulumi.ResourceOptions:
        """Options of a component in the cluster."""
        registry = self.plan.config.registry
        return pulumi.ResourceOptions(
            providers=[self.provider, self.cluster.kubernetes_provider],
            depends_on=[*needs],
            transformations=[pull_from(registry)] if registry else None,
        )


@dataclass(frozen=True, kw_only=True)
class Serving:
    """A stack with models, to which its optional features are added."""

    base: Base
    nodes: Mapping[str, pulumi.Resource]
    """The provisioner of the GPU nodes, by pool: a node group, or Karpenter."""
    models: OllamaPair
