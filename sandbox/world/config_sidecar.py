"""NVIDIA's config-manager: which configuration a plugin's pod links, whom it signals, and how often it crashes.

Source: k8s-device-plugin v0.20.0, cmd/config-manager/main.go. The traces of that binary, in
tests/sandbox/config_manager.json, are what this must reproduce.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field

CRASHES_UNTIL_LOOP = 5
"""Crashes after which this emulation calls it a loop: by then the real one alternates for ever."""


@dataclass(slots=True)
class ConfigSidecar:
    """The init container and the sidecar of one pod, which share the link `config.yaml` as long as the pod lives."""

    available: Collection[str]
    """Keys of the ConfigMap."""
    default: str
    signals_found: bool
    """Whether the sidecar finds the process that it signals. The MPS daemon's never does: the chart has it look for
    `/usr/bin/mps-control-daemon`, and the process is `mps-control-daemon` (daemonset-mps-control-daemon.yml).
    """
    link: str = ""
    """The configuration that the link names; empty until the init container has run."""
    signals: int = 0
    crashes: int = 0
    """Of the sidecar, each followed by a restart."""
    loops: bool = False
    """Whether it crashes for ever (CrashLoopBackOff), and the link alternates."""
    events: list[str] = field(default_factory=list)
    """What it did, in this order."""

    def initialize(self) -> bool:
        """The init container: it reads the label before it has listed the node, so it always takes the default.

        `SyncableConfig.Get` returns "" on its first call. Returns whether the pod goes on.
        """
        return self._take("", process_runs=True, sends=False)

    def start(self, label: str, *, process_runs: bool) -> None:
        """The sidecar: first the default, as above; then what the label says, if it says anything."""
        for _ in range(CRASHES_UNTIL_LOOP):
            if self._take("", process_runs=process_runs) and (
                not label or self._take(label, process_runs=process_runs)
            ):
                return
            self.crashes += 1
            # By the time of the restart the plugin runs: its container starts after the sidecar's.
            process_runs = True
        self.loops = True

    def change(self, label: str) -> None:
        """The label of the node changes while everything runs."""
        if not self._take(label, process_runs=True):
            self.crashes += 1
            self.start(label, process_runs=True)

    def _take(self, label: str, *, process_runs: bool, sends: bool = True) -> bool:
        """Links the configuration and signals; returns whether the container survives."""
        wanted = label or self.default
        if wanted not in self.available:
            self.events.append(f"crash: specified config {label} does not exist")
            return False
        if wanted == self.link:
            return True
        self.link = wanted
        self.events.append(f"link {wanted}")
        if not sends:
            return True
        if not (process_runs and self.signals_found):
            self.events.append("crash: no process found")
            return False
        self.signals += 1
        self.events.append("signal")
        return True
