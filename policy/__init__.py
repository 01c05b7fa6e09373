"""Pulumi policies for GPU nodes that serve language models, for programs in any language."""
