"""Deploys what the stack file says."""

from tandem.stacks.program import run  # type: ignore[import-not-found]  # the wheel has it

run()
