"""The remote component `eks.Cluster` of pulumi-eks."""
