"""The real config-manager on the real API server: without a label, it links the one configuration and signals nobody.

Build it from NVIDIA/k8s-device-plugin at the pinned version, `go build ./cmd/config-manager`, and put it on the PATH.
"""

import re
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.control_plane.kept import StartError
from tests.control_plane.running import ControlPlane

PROGRAM = "config-manager"
LABEL = "nvidia.com/device-plugin.config"
EFFECTS = re.compile(r"Successfully (?:updated to config: (\S+)|sent signal)|error finding pid|does not exist")
"""Lines of its log after it linked a configuration, signalled a process, or crashed."""


@pytest.fixture(scope="module", autouse=True)
def program() -> None:
    if shutil.which(PROGRAM) is None:
        pytest.skip(f"`{PROGRAM}` of the device plugin is not on the PATH")


class Pod:
    """The init container and the sidecar of one pod, which share the ConfigMap and the link."""

    def __init__(self, plane: ControlPlane, folder: Path, config: str) -> None:
        self._plane, self._folder, self._config = plane, folder, config
        self._node = folder.name.replace("_", "-").lower()
        (folder / "available").mkdir(parents=True)
        (folder / "available" / config).write_text("version: v1\n")
        (folder / "config").mkdir()
        node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": self._node}}
        plane.api.call("POST", "/api/v1/nodes", node)

    def boot(self) -> list[str]:
        """Runs the init container; returns its effects."""
        log = self._folder / "init.log"
        assert self._run(log, oneshot=True).wait() == 0
        return effects(log)

    def start(self, name: str) -> list[str]:
        """The effects of the sidecar's start, and of the default's label that the node then gets.

        The sidecar ignores a node without a label. Once it reports the new label, it has handled all earlier events.
        """
        log = self._folder / f"{name}.log"
        with self._sidecar(log) as sidecar:
            self._wait(log, sidecar, "Waiting for change")
            self._label(self._config)
            self._wait(log, sidecar, f"Label change detected: {LABEL}={self._config}\n", "Waiting for change")
        self._label(None)
        return effects(log)

    @property
    def link(self) -> str:
        return (self._folder / "config" / "config.yaml").readlink().name

    @contextmanager
    def _sidecar(self, log: Path) -> Iterator[subprocess.Popen[bytes]]:
        sidecar = self._run(log, oneshot=False)
        try:
            yield sidecar
        finally:
            sidecar.kill()
            sidecar.wait()

    def _run(self, log: Path, *, oneshot: bool) -> subprocess.Popen[bytes]:
        environment = {
            "ONESHOT": str(oneshot).lower(),
            "KUBECONFIG": str(self._plane.kubeconfig),
            "NODE_NAME": self._node,
            "NODE_LABEL": LABEL,
            "CONFIG_FILE_SRCDIR": str(self._folder / "available"),
            "CONFIG_FILE_DST": str(self._folder / "config" / "config.yaml"),
            "DEFAULT_CONFIG": self._config,
            "FALLBACK_STRATEGIES": "named,single",
            "SEND_SIGNAL": str(not oneshot).lower(),
            "SIGNAL": "" if oneshot else str(int(signal.SIGHUP)),
            "PROCESS_TO_SIGNAL": "" if oneshot else f"plugin-of-{self._node}",
        }
        path = shutil.which(PROGRAM)
        assert path is not None
        with log.open("w") as output:
            return subprocess.Popen([path], env=environment, stderr=output, stdout=output)

    def _wait(self, log: Path, sidecar: subprocess.Popen[bytes], *words: str) -> None:
        """Waits until the log says the words, one after the other."""

        def said() -> bool:
            if sidecar.poll() is not None:
                raise StartError(log.read_text())
            return re.search(".*".join(map(re.escape, words)), log.read_text(), re.DOTALL) is not None

        self._plane.wait_for(f"{PROGRAM} said {words}", said)

    def _label(self, value: str | None) -> None:
        self._plane.api.patch(f"/api/v1/nodes/{self._node}", {"metadata": {"labels": {LABEL: value}}})


def effects(log: Path) -> list[str]:
    return [found[1] or found[0] for found in EFFECTS.finditer(log.read_text())]


@pytest.mark.real_world(
    behaviour="config-manager starts with the default configuration, and never signals where no label names another.",
    source="k8s-device-plugin v0.20.0, cmd/config-manager/main.go, run",
)
@pytest.mark.parametrize("config", ["exclusive", "mps-2", "timeslice-2"])
def test_one_configuration_is_linked_once_and_nobody_is_signalled(
    plane: ControlPlane, tmp_path: Path, config: str
) -> None:
    for number in range(2):
        pod = Pod(plane, tmp_path / f"{config}-{number}", config)
        assert pod.boot() == [config]
        assert pod.start("started") == pod.start("restarted") == []
        assert pod.link == config
