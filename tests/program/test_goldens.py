"""All resources and outputs of the stacks: every change that AWS, Kubernetes or a user sees appears here.

`make test` compares; `pytest tests/program/test_goldens.py --regen` writes again. Two stacks are kept in full. Of the
others, and of the variants in `variants.yaml`, a golden has one line per resource, and the outputs.
"""

from collections.abc import Callable
from pathlib import Path

from sandbox.graph import Graph
from tests.goldens import describe, in_full, in_lines, line_of

GOLDEN = Path(__file__).resolve().parent.parent / "golden" / "stacks"
IN_FULL = ("timeslice", "karpenter")


def test_a_stack_registers_the_resources_of_its_golden(
    graphs: Callable[[str], Graph], any_stack: str, regen: bool
) -> None:
    now = describe(graphs(any_stack))
    is_full = any_stack in IN_FULL
    file = GOLDEN / f"{any_stack}.{'json' if is_full else 'txt'}"
    text = f"{in_full(now) if is_full else in_lines(now)}\n"
    if regen:
        file.write_text(text, encoding="utf-8")
    before = file.read_text(encoding="utf-8")
    if not is_full and text != before:
        # A hash alone would not say what has changed.
        for urn, resource in now.items():
            if urn != "stack" and line_of(urn, resource) not in before.splitlines():
                print(f"{urn} is now {in_full(resource)}")
    assert text == before, f"{file.name}: see --regen"
