"""What the remote component `eks.Cluster` of pulumi-eks makes."""
