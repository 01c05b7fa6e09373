"""NVIDIA's real device plugin and feature discovery on a fake driver, with the configuration of one of our stacks."""

import os
import shutil
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import grpc  # type: ignore[import-untyped]
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

PLUGIN, DISCOVERY = "nvidia-device-plugin", "gpu-feature-discovery"
DRIVER = Path(__file__).with_name("libnvidia_ml.c")
SOCKETS = "/var/lib/kubelet/device-plugins"
"""Where the plugin makes its sockets; no flag changes that (internal/plugin/server.go, getPluginSocketPath)."""
APART = ["unshare", "--user", "--map-root-user", "--mount"]
"""Gives a program its own mounts (util-linux), so that a kubelet of this machine keeps its sockets."""
START_SECONDS = 20
SERVICE = "v1beta1.DevicePlugin"
MESSAGES: Mapping[str, Mapping[str, str]] = {
    "Empty": {},
    "Device": {"id": "", "health": ""},
    "ListAndWatchResponse": {"devices": "Device"},
    "ContainerAllocateRequest": {"devices_ids": ""},
    "AllocateRequest": {"container_requests": "ContainerAllocateRequest"},
    "Pair": {"key": "", "value": ""},
    "Mount": {"container_path": "", "host_path": ""},
    "ContainerAllocateResponse": {"envs": "Pair", "mounts": "Mount"},
    "AllocateResponse": {"container_responses": "ContainerAllocateResponse"},
}
"""The fields of kubelet's messages in their order, each a text or another message, that we read or write.

Source: kubernetes v1.36 staging/src/k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1/api.proto. Every field is read as
repeated: in the bytes, one text is a list of one, and a map is a list of pairs.
"""


def _classes() -> dict[str, Any]:
    field_types = descriptor_pb2.FieldDescriptorProto
    file = descriptor_pb2.FileDescriptorProto(name="api.proto", package="v1beta1", syntax="proto3")
    for name, fields in MESSAGES.items():
        message = file.message_type.add(name=name)
        for number, (field, kind) in enumerate(fields.items(), 1):
            made = message.field.add(name=field, number=number, label=field_types.LABEL_REPEATED)
            made.type = field_types.TYPE_MESSAGE if kind else field_types.TYPE_STRING
            if kind:
                made.type_name = f".v1beta1.{kind}"
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    found = {name: pool.FindMessageTypeByName(f"v1beta1.{name}") for name in MESSAGES}
    return {name: message_factory.GetMessageClass(one) for name, one in found.items()}


class Plugin:
    """A device plugin that serves, as its kubelet sees it."""

    def __init__(self, channel: grpc.Channel) -> None:
        self._channel, self._classes = channel, _classes()

    def devices(self) -> list[str]:
        """The shares that it offers, by their IDs."""
        call = self._call(self._channel.unary_stream, "ListAndWatch", "ListAndWatchResponse")
        stream = call(self._classes["Empty"](), timeout=START_SECONDS)
        offered = next(stream)
        stream.cancel()
        assert all([*one.health] == ["Healthy"] for one in offered.devices)
        return [id for one in offered.devices for id in one.id]

    def allocate(self, *devices: str) -> tuple[dict[str, str], list[str]]:
        """The variables and mounts of a container that gets these shares. Raises `grpc.RpcError` for a refusal."""
        asked = self._classes["ContainerAllocateRequest"](devices_ids=devices)
        call = self._call(self._channel.unary_unary, "Allocate", "AllocateResponse")
        response = call(self._classes["AllocateRequest"](container_requests=[asked]), timeout=START_SECONDS)
        [given] = response.container_responses
        variables = {pair.key[0]: pair.value[0] for pair in given.envs}
        return variables, [path for mount in given.mounts for path in mount.container_path]

    def _call(self, kind: Any, name: str, response: str) -> Any:
        return kind(
            f"/{SERVICE}/{name}",
            request_serializer=lambda message: message.SerializeToString(),
            response_deserializer=self._classes[response].FromString,
        )


def build_driver(folder: Path) -> None:
    """Builds the fake driver into a folder."""
    subprocess.run(["cc", "-shared", "-fPIC", "-o", folder / "libnvidia-ml.so.1", DRIVER], check=True)


def missing() -> str:
    """Why the programs cannot run here; empty if they can."""
    for program in (PLUGIN, DISCOVERY, "cc", APART[0]):
        if shutil.which(program) is None:
            return f"`{program}` is not on the PATH"
    if subprocess.run([*APART, "true"], capture_output=True).returncode:
        return f"`{' '.join(APART)}` does not work here"
    return ""


def _environment(driver: Path) -> dict[str, str]:
    # Its check of health needs more of a driver than there is.
    return {**os.environ, "LD_LIBRARY_PATH": str(driver), "DP_DISABLE_HEALTHCHECKS": "all"}


def _flags(folder: Path, config: str) -> Sequence[str]:
    path = folder / "config"
    path.write_text(config, encoding="utf-8")
    return f"--config-file={path}", "--driver-root-ctr-path=/"


@contextmanager
def plugin(folder: Path, driver: Path, config: str) -> Iterator[Plugin]:
    """The plugin while the block runs. `folder` must have a short path: that of a socket has at most 107 letters."""
    sockets = folder / "sockets"
    sockets.mkdir()
    mount = f"mount -t tmpfs none /var/lib && mkdir -p {SOCKETS} && mount --bind '{sockets}' {SOCKETS}"
    program = [PLUGIN, *_flags(folder, config), "--kubelet-socket="]
    command = [*APART, "sh", "-c", f'{mount} && exec "$@"', "sh", *program]
    log = folder / "log"
    with log.open("w") as output:
        running = subprocess.Popen(command, env=_environment(driver), stdout=output, stderr=output)
    try:
        socket = sockets / "nvidia-gpu.sock"
        until = time.monotonic() + START_SECONDS
        while not socket.exists():
            is_slow = time.monotonic() > until
            assert not is_slow, log.read_text(encoding="utf-8")
            assert running.poll() is None, log.read_text(encoding="utf-8")
            time.sleep(0.05)
        with grpc.insecure_channel(f"unix:{socket}") as channel:
            yield Plugin(channel)
    finally:
        running.terminate()
        running.wait()


def discovered(folder: Path, driver: Path, config: str) -> dict[str, str]:
    """The labels that feature discovery gives the node."""
    labels = folder / "labels"
    once = "--oneshot", "--no-timestamp", "--use-node-feature-api=false", f"--output-file={labels}"
    command = [DISCOVERY, *_flags(folder, config), *once, "--machine-type-file="]
    done = subprocess.run(command, env=_environment(driver), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return dict(line.split("=", 1) for line in labels.read_text(encoding="utf-8").splitlines())
