"""The world's state as one JSON file. One process at a time reads and writes it. It is never reset silently."""

import json
import os
from contextlib import suppress
from dataclasses import fields
from pathlib import Path
from typing import Any, BinaryIO

from sandbox.world.entities import Entities, Entity, Event, GpuState, Process
from sharing.files import lock, write_whole

FORMAT = "tandem sandbox world"
VERSION = 1


class StateError(Exception):
    """The state cannot be used. The message names the file and a fix."""


class InUseError(StateError):
    """Another process uses the state."""

    def __init__(self, path: Path, holder: str) -> None:
        super().__init__(f"{path} is in use by process {holder}. Wait until it ends, or stop it.")
        self.holder = holder


KEPT = ("serial", "recycled", "quotas", "peaks", "offers", "templates")
"""Fields of `Entities` that the file stores unchanged."""


class Store:
    """The file and its lock file. Without a path, the state is only in memory."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._lock: BinaryIO | None = None
        if path is not None:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._lock = _locked(path)

    def load(self) -> Entities:
        """Reads the file. If it does not exist, the state is empty. Raises StateError if the file cannot be used."""
        if self._path is None or not self._path.exists():
            return Entities()
        try:
            return _read(self._path)
        except StateError:
            self.close()
            raise

    def save(self, entities: Entities) -> None:
        """Writes the entire state to the disk."""
        if self._path is None:
            return
        if self._lock is None or self._lock.closed:
            raise StateError(f"{self._path} was closed. Open the state again before you change it.")
        write_whole(self._path, json.dumps(_written(entities)))

    def close(self) -> None:
        """Releases the lock."""
        if self._lock is not None:
            self._lock.close()


def _locked(path: Path) -> BinaryIO:
    beside = path.with_name(path.name + ".lock")
    try:
        held = lock(beside)
    except BlockingIOError:
        raise InUseError(path, beside.read_text().strip() or "unknown") from None
    held.truncate(0)
    held.write(str(os.getpid()).encode())
    held.flush()
    return held


def _written(entities: Entities) -> dict[str, Any]:
    return {
        "format": FORMAT,
        "version": VERSION,
        **{name: getattr(entities, name) for name in KEPT},
        "buried": [[*key, cluster] for key, cluster in entities.buried.items()],
        "things": [_as_dict(entity) for entity in entities],
        "journal": [_as_dict(event) for event in entities.journal],
        "gpus": {node: _as_dict(state) for node, state in entities.gpus.items()},
        "processes": {pod: _as_dict(process) for pod, process in entities.processes.items()},
    }


def _as_dict(one: Entity | Event | GpuState | Process) -> dict[str, Any]:
    """Faster than `dataclasses.asdict`, whose copies took most of the time of a call."""
    return {field.name: getattr(one, field.name) for field in fields(one)}


def _read(path: Path) -> Entities:
    def wrong(what: str) -> StateError:
        aside = path.with_name(path.name + ".broken")
        return StateError(
            f"{path} {what}. It contains the emulated cloud, so no real resource is lost, but the sandbox's Pulumi "
            f"state refers to its resources. Restore a copy of the file. Or start again: move it with "
            f"`mv {path} {aside}`, and then remove the Pulumi state too or run `pulumi refresh`."
        )

    try:
        raw = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise StateError(
            f"{path} cannot be read ({error.strerror}). Give this user read access, or move the file."
        ) from None
    except (UnicodeDecodeError, json.JSONDecodeError) as error:
        raise wrong(f"is not valid JSON ({error})") from None
    if not isinstance(raw, dict) or raw.get("format") != FORMAT:
        raise wrong("is not a state file of the sandbox")
    if raw.get("version") != VERSION:
        found = raw.get("version")
        raise wrong(f"was written by another version of tandem (state format {found!r}; this version uses {VERSION})")
    with suppress(KeyError, TypeError, ValueError, AttributeError):
        return Entities(
            [Entity(**{**one, "owner": tuple(one["owner"]) if one["owner"] else None}) for one in raw["things"]],
            serial=int(raw["serial"]),
            recycled={str(group): int(count) for group, count in raw["recycled"].items()},
            quotas=dict(raw["quotas"]),
            peaks=dict(raw["peaks"]),
            buried={(str(token), str(identity)): str(cluster) for token, identity, cluster in raw["buried"]},
            journal=[Event(**one) for one in raw["journal"]],
            # Files of earlier versions lack these.
            gpus={node: GpuState(**state) for node, state in raw.get("gpus", {}).items()},
            processes={pod: Process(**process) for pod, process in raw.get("processes", {}).items()},
            templates=dict(raw.get("templates", {})),
            offers={str(name): [str(zone) for zone in zones] for name, zones in raw["offers"].items()},
        )
    raise wrong("is incomplete")
