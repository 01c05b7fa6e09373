"""The real config-manager of the device plugin, run as the containers of a pod run it, and what it did."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.control_plane.running import ControlPlane

PROGRAM = "config-manager"
LABEL = "nvidia.com/device-plugin.config"
DETECTED = f"Label change detected: {LABEL}="
LINES = {
    re.compile(r"Successfully updated to config: (\S+)"): "link {}",
    re.compile(r"Successfully sent signal"): "signal",
    re.compile(r"error finding pid: (no process found)"): "crash: {}",
    re.compile(r"(specified config .* does not exist)"): "crash: {}",
}
"""What a line of its log means, in the words of the traces."""
STARTS = 5
"""Times that a sidecar is started which crashes every time."""
PATIENCE_SECONDS = 30
QUIET_SECONDS = 2.0
"""How long nothing may be heard of a node without a label, until it counts as all that there is."""
STRANGER = "error getting cmdline"
"""It also dies when any process ends while it reads /proc: here those of other tests. Then the start is repeated."""


class StrangerError(Exception):
    """The change of a label met the end of a stranger's process, and cannot be repeated."""


@dataclass
class Pod:
    """The init container and the sidecar of one pod, with their ConfigMap and the link that they share."""

    plane: ControlPlane
    folder: Path
    node: str
    configs: list[str]
    default: str
    process: str
    """argv[0] of the process that is to be signalled; it runs while `plugin` does."""
    looked_for: str
    """What the sidecar looks for."""
    sidecar: subprocess.Popen[str] | None = None
    plugin: subprocess.Popen[bytes] | None = None
    events: list[str] = field(default_factory=list)
    logs: int = 0

    def __post_init__(self) -> None:
        for name in self.configs:
            (self.folder / "available").mkdir(parents=True, exist_ok=True)
            (self.folder / "available" / name).write_text("version: v1\n")
        (self.folder / "config").mkdir()

    def boot(self, label: str) -> None:
        """The init container, then the sidecar, then the plugin; a sidecar that crashed is started again."""
        done = self._run(oneshot=True)
        assert done.wait(PATIENCE_SECONDS) == 0
        self._read(self._log)
        self.start(label)

    def start(self, label: str) -> None:
        """The sidecar starts, and again while it crashes."""
        starts = 0
        while starts < STARTS:
            link = self.link
            self.sidecar = self._run(oneshot=False)
            alive = self._settled(label)
            if STRANGER in self._text(self._log):
                self._relink(link)
                continue
            starts += 1
            self._read(self._log)
            self._begin_plugin()
            if alive:
                return

    def restart(self, label: str) -> None:
        """The sidecar's container restarts."""
        self._end(self.sidecar)
        self.start(label)

    def change(self, label: str) -> None:
        """The node's label changes."""
        link = self.link
        before = len(self._text(self._log))
        self.plane.api.call(
            "PATCH",
            f"/api/v1/nodes/{self.node}",
            {"metadata": {"labels": {LABEL: label or None}}},
            content="merge-patch+json",
        )
        alive = self._settled(label, before)
        if STRANGER in self._text(self._log):
            self._relink(link)
            raise StrangerError(STRANGER)
        self._read(self._log, before)
        if not alive:
            self.start(label)

    @property
    def link(self) -> str:
        return Path(os.readlink(self.folder / "config" / "config.yaml")).name

    def end(self) -> None:
        self._end(self.sidecar)
        self._end(self.plugin)

    def _run(self, *, oneshot: bool) -> subprocess.Popen[str]:
        self.logs += 1
        environment = {
            "ONESHOT": str(oneshot).lower(),
            "KUBECONFIG": str(self.plane.kubeconfig),
            "NODE_NAME": self.node,
            "NODE_LABEL": LABEL,
            "CONFIG_FILE_SRCDIR": str(self.folder / "available"),
            "CONFIG_FILE_DST": str(self.folder / "config" / "config.yaml"),
            "DEFAULT_CONFIG": self.default,
            "FALLBACK_STRATEGIES": "named,single",
            "SEND_SIGNAL": str(not oneshot).lower(),
            "SIGNAL": "" if oneshot else str(int(signal.SIGHUP)),
            "PROCESS_TO_SIGNAL": "" if oneshot else self.looked_for,
        }
        program = shutil.which(PROGRAM)
        assert program is not None
        with self._log.open("w") as log:
            return subprocess.Popen([program], env=environment, stderr=log, stdout=log, text=True)

    @property
    def _log(self) -> Path:
        return self.folder / f"{self.logs}.log"

    @staticmethod
    def _text(log: Path) -> str:
        return log.read_text() if log.exists() else ""

    def _settled(self, label: str, begin: int = 0) -> bool:
        """Waits until the sidecar has dealt with the label, or has ended; returns whether it lives."""
        assert self.sidecar is not None
        quiet = time.monotonic() + QUIET_SECONDS
        while self.sidecar.poll() is None:
            _, found, after = self._text(self._log)[begin:].partition(f"{DETECTED}{label}\n")
            # A node without a label is no news to it.
            if found and "Waiting for change" in after and (label or time.monotonic() > quiet):
                return True
            time.sleep(0.02)
        return False

    def _relink(self, name: str) -> None:
        (self.folder / "config" / "config.yaml").unlink()
        (self.folder / "config" / "config.yaml").symlink_to(self.folder / "available" / name)

    def _read(self, log: Path, begin: int = 0) -> None:
        for line in self._text(log)[begin:].splitlines():
            for pattern, meaning in LINES.items():
                if found := pattern.search(line):
                    self.events.append(meaning.format(*found.groups()))

    def _begin_plugin(self) -> None:
        if self.plugin is None:
            script = "trap : HUP; while :; do sleep 3600 & wait; done"
            self.plugin = subprocess.Popen([self.process, "-c", script], executable="/bin/sh", start_new_session=True)

    @staticmethod
    def _end(process: subprocess.Popen[Any] | None) -> None:
        if process is not None and process.poll() is None:
            with suppress(ProcessLookupError):
                process.kill()
            process.wait(PATIENCE_SECONDS)


def play(plane: ControlPlane, folder: Path, scenario: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """What the pods of each node of a scenario did: their events, and the link that is left."""
    pods: list[Pod] = []
    try:
        for number in range(scenario["nodes"]):
            name = f"{folder.name.replace('_', '-')}-{number}".lower()
            labels = {LABEL: scenario["label"]} if scenario["label"] else {}
            plane.api.call(
                "POST",
                "/api/v1/nodes",
                {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}},
            )
            # A name of its own: other tests run on this machine, and a sidecar signals the first that it finds.
            process = f"plugin-of-{name}"
            looked_for = process if scenario["process"] == "found" else f"/usr/bin/{process}"
            pod = Pod(plane, folder / name, name, scenario["configs"], scenario["default"], process, looked_for)
            pods.append(pod)
            label = scenario["label"]
            for step in scenario["steps"]:
                verb, _, value = step.partition(" ")
                if verb == "boot":
                    pod.boot(label)
                elif verb == "restart":
                    pod.restart(label)
                elif verb == "label":
                    label = value
                    pod.change(value)
            assert pod.link
        yield from ({"events": pod.events, "link": pod.link} for pod in pods)
    finally:
        for pod in pods:
            pod.end()
