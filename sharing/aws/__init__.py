"""Partitions, principals and tags: what AWS accepts, whatever the stack."""
