"""Versions of the run of the real eks provider that `sandbox.cloud.eks.cluster` repeats."""

PULUMI_EKS = "4.4.0"
AWS = "7.25.0"
"""Sent as `version` with each child; it decides the default provider where none is passed down."""
KUBERNETES = "4.19.0"
