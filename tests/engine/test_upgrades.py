"""The effect of a newer pin on a deployed stack: each row of `docs/upgrades.yaml` is true and in the guide."""

import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.engine.emulated import ROOT, Raise, Stack

ROWS: list[dict[str, Any]] = yaml.safe_load((ROOT / "docs" / "upgrades.yaml").read_text(encoding="utf-8"))
KEPT = (
    *("aws:ec2/vpc:Vpc", "aws:eks/cluster:Cluster", "aws:eks/nodeGroup:NodeGroup", "aws:ebs/volume:Volume"),
    *(
        "kubernetes:core/v1:Namespace",
        "kubernetes:core/v1:PersistentVolume",
        "kubernetes:core/v1:PersistentVolumeClaim",
    ),
)
"""Types that an upgrade must not replace, according to the guide."""


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row["upgrade"])
@pytest.mark.real_world(
    behaviour="A newer AMI release recycles the nodes of a managed node group and keeps the group",
    source="https://docs.aws.amazon.com/eks/latest/userguide/managed-node-update-behavior.html",
)
def test_a_newer_pin_does_to_a_deployed_stack_what_the_guide_says(
    raised: Raise, tmp_path: Path, row: dict[str, Any]
) -> None:
    stack = raised(row.get("stack", "timeslice"))
    recycled, kept = stack.recycled(), identities(stack)
    use_program(stack, program_with(tmp_path, row["pins"]))
    done = {"update": row["updated"], "replace": row.get("replaced", ())}
    assert stack.comes_up().changed == {operation: frozenset(names) for operation, names in done.items() if names}
    assert stack.recycled() - recycled == Counter(row.get("recycled", {}))
    assert identities(stack) == kept


def identities(stack: Stack) -> set[tuple[str, str]]:
    """Type and id of resources that hold data or that all others need; without the disks of nodes."""
    kept = [entity for kind in KEPT for entity in stack.entities(kind)]
    return {(entity.type, entity.id) for entity in kept if entity.made_by == "pulumi"}


def program_with(folder: Path, pins: dict[str, Any]) -> Path:
    """A copy of the program with other pins."""
    for room in ("sharing", "components", "stacks"):
        shutil.copytree(ROOT / room, folder / room)  # with the compiled files, which save two CPU seconds
    shutil.copy(ROOT / "__main__.py", folder)
    lines = [f"{name} {'|' if isinstance(value, dict) else ''}= {value!r}" for name, value in pins.items()]
    with (folder / "sharing" / "versions.py").open("a", encoding="utf-8") as versions:
        versions.write("\n".join(["", *lines, ""]))
    return folder


def use_program(stack: Stack, folder: Path) -> None:
    """The next commands run the program in `folder`."""
    file = stack.folder / "Pulumi.yaml"
    project = yaml.safe_load(file.read_text(encoding="utf-8"))
    file.write_text(yaml.safe_dump({**project, "main": str(folder)}), encoding="utf-8")
