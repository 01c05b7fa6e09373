"""What is known of the open ports of a stack: in a file that their process writes, and that later calls read."""

import argparse
import hashlib
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from sharing.files import lock, write_whole
from sharing.models.served import ServedModel
from tandem.lookup import accepted, existing, find_served_model, state_folder

FOLDER = "forwards"


class Port(BaseModel):
    """The local port of a model."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    id: str
    model: str
    """Its tag."""
    url: str
    """Without a slash at the end."""

    @property
    def number(self) -> int:
        """The TCP port."""
        return int(self.url.rpartition(":")[2])


class Record(BaseModel):
    """The file. It stays when the ports are closed, so that the next process opens the same ones."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    schema_version: Literal[1] = 1
    stack: str
    pid: int
    kubeconfig: str | None
    context: str | None
    log: str
    ports: tuple[Port, ...]
    """Empty while the process connects."""

    def port_of(self, parsed: argparse.Namespace) -> Port:
        """The port of the model that the user named; raises `CallError` with the nearest names."""
        served = find_served_model(accepted(parsed.stack), parsed.model)
        return next(port for port in self.ports if port.id == served.id)

    def serves(self, models: list[ServedModel], kubeconfig: str | None, context: str | None) -> bool:
        """Whether these are the ports of the models, by the way that the user names, or any way without one."""
        same_way = kubeconfig is None or (kubeconfig, context) == (self.kubeconfig, self.context)
        return same_way and [(port.id, port.model) for port in self.ports] == [
            (one.id, one.model.name) for one in models
        ]

    def as_dict(self) -> dict[str, Any]:
        """For `--json`."""
        ports = [
            {"id": port.id, "model": port.model, "ollama_host": port.url, "openai_base_url": f"{port.url}/v1"}
            for port in self.ports
        ]
        return {"schema_version": 1, "stack": self.stack, "pid": self.pid, "log": self.log, "models": ports}


class Place:
    """Where the record of a stack file is, with its lock and its log."""

    def __init__(self, stack: str) -> None:
        """Raises `CallError` if there is no such stack file."""
        file = existing(stack).absolute()
        self.stack = file.stem.removeprefix("Pulumi.")
        folder = state_folder(FOLDER)
        base = f"{self.stack}-{hashlib.sha256(str(file).encode()).hexdigest()[:8]}"
        self._lock, self._file, self.log = (folder / f"{base}.{kind}" for kind in ("lock", "json", "log"))

    @property
    def lock_path(self) -> Path:
        """The file whose lock the process with the ports has. The kernel drops it, however the process ends."""
        return self._lock

    def is_held(self) -> bool:
        """Whether a process has the ports, or is about to."""
        try:
            lock(self._lock, mode=0o600).close()
        except BlockingIOError:
            return True
        return False

    def read(self) -> Record | None:
        """The record; None if there is none, or a broken one."""
        with suppress(OSError, ValidationError):
            return Record.model_validate_json(self._file.read_bytes())
        return None

    def write(self, record: Record) -> None:
        """Replaces the record."""
        write_whole(self._file, record.model_dump_json(), mode=0o600)
