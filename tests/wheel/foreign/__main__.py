"""A program that has a folder `components`, and uses ours."""

from components import Bucket
from tandem import GpuCluster, GpuClusterArgs

import pulumi

Bucket("theirs")
cluster = GpuCluster("gpu", GpuClusterArgs(cluster_name="foreign"))
pulumi.export("cluster", cluster.cluster_name)
