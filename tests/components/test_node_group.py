"""Node groups that EKS failed to create."""

from dataclasses import replace

import pulumi
import pytest

from sandbox.cloud.answers import Cloud
from sandbox.cloud.protocol import Created, Creation
from sandbox.preview.program import run
from sharing.modes.modes import TimeSlicing
from tandem import SpotGpuNodeGroup

GROUP = "aws:eks/nodeGroup:NodeGroup"


class Failing(Cloud):
    """EKS without capacity: it keeps a group that it could not create."""

    def created(self, creation: Creation) -> Created:
        made = super().created(creation)
        return replace(made, outputs={**made.outputs, "status": "CREATE_FAILED"}) if creation.type == GROUP else made


def test_a_failed_group_stops_the_update_with_its_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    """After `pulumi refresh`, nothing else would say why there are no nodes (tests/engine/test_failed_groups.py)."""
    logged: list[str] = []
    monkeypatch.setattr(pulumi.log, "error", logged.append)

    def program() -> None:
        SpotGpuNodeGroup("gpu", cluster_name="c", subnet_ids=["s"], sharing=TimeSlicing())

    with pytest.raises(pulumi.RunError) as refused:
        run(program, project="test", stack="test", preview=False, cloud=Failing())
    assert logged == [str(refused.value)]
    urn = f"urn:pulumi:test::test::tandem:index:SpotGpuNodeGroup${GROUP}::gpu-group"
    assert logged[0].startswith("node group gpu-group is in status CREATE_FAILED, ")
    assert logged[0].endswith(f"Replace it with `pulumi up --replace '{urn}'`.")
    run(program, project="test", stack="test", preview=False)
