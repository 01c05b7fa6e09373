"""A program that has its own folder `components`, and uses our components."""

from components import Bucket
from tandem import GpuCluster, GpuClusterArgs

import pulumi

Bucket("theirs")
cluster = GpuCluster("gpu", GpuClusterArgs(cluster_name="foreign"))
pulumi.export("cluster", cluster.cluster_name)
