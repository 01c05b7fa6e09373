"""Door 2: the emulated cloud as providers of the real `pulumi`."""

from sandbox.engine.serving import DEBUG_PROVIDERS, serving

__all__ = ["DEBUG_PROVIDERS", "serving"]
