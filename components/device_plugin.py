"""The chart of the NVIDIA device plugin, for cards that stay whole."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from components import versions
from components.names import tolerations
from sharing.gpus import Gpu
from sharing.modes import Exclusive, Sharing, plugin_configs


@dataclass(frozen=True, kw_only=True)
class Chart:
    """A chart and where it comes from. The release is named after it: what it makes is named after the release."""

    name: str
    version: str
    repository: str


CHART = Chart(
    name="nvidia-device-plugin",
    version=versions.DEVICE_PLUGIN_CHART,
    repository=versions.DEVICE_PLUGIN_REPOSITORY,
)
DEFAULT_CONFIG = Exclusive().config_name
"""For a node without the label."""


def configs(pools: Sequence[tuple[Sharing, Gpu]]) -> dict[str, str]:
    """The plugin's configs for all pools, by name, as the text that charts want. JSON is YAML."""
    texts = {name: json.dumps(config) for name, config in plugin_configs(pools).items()}
    return {DEFAULT_CONFIG: json.dumps(Exclusive().plugin_config()), **texts}


def values(pools: Sequence[tuple[Sharing, Gpu]]) -> dict[str, Any]:
    """Values of the chart. No chart value `migStrategy` and the like: as environment it would beat every config."""
    return {
        "config": {"default": DEFAULT_CONFIG, "map": configs(pools)},
        # It stays while the mode of its node changes: it is what changes it.
        "tolerations": tolerations(None),
        # Feature discovery sets the label on which the MPS daemon is scheduled.
        "gfd": {"enabled": True},
        "nfd": {
            # Its Job needs a node without a taint when everything is being destroyed, and hangs without one.
            "postDeleteCleanup": False,
            # The chart tolerates only the taint value `present`.
            "worker": {"tolerations": tolerations(None)},
        },
    }
