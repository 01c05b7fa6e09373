"""Serves the emulated cloud as providers to the real `pulumi`."""

from sandbox.engine.serving import DEBUG_PROVIDERS, serving

__all__ = ["DEBUG_PROVIDERS", "serving"]
