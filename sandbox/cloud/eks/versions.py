"""Versions in the run of the real eks provider on which `sandbox.cloud.eks.cluster` is based."""

AWS = "7.25.0"
"""Sent as `version` with each child. It selects the default provider if none is passed down."""
KUBERNETES = "4.19.0"
