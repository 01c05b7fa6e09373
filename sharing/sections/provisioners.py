"""What launches GPU nodes. Cheap to import: commands have it as an argument."""

from typing import Literal, get_args

Provisioner = Literal["node-group", "karpenter"]
PROVISIONERS: tuple[Provisioner, ...] = get_args(Provisioner)
