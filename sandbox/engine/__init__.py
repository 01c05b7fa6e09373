"""Serves the emulated cloud as providers to the real `pulumi`."""

from sandbox.engine.api_server import serving_clusters
from sandbox.engine.serving import DEBUG_PROVIDERS, serving

__all__ = ["DEBUG_PROVIDERS", "serving", "serving_clusters"]
