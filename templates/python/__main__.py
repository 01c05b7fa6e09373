"""Deploys what the stack file says."""

from tandem.stacks.program import run

run()
