"""Sharing modes, and how MIG partitions a GPU."""
