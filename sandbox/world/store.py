"""The world's state as one JSON file: read whole, written whole, by one process at a time, and never reset silently."""

import json
import os
import pickle
from contextlib import suppress
from dataclasses import fields
from pathlib import Path
from typing import Any, BinaryIO

from sandbox.world.things import Event, Thing, Things
from sharing.files import lock, write_whole

FORMAT = "tandem sandbox world"
VERSION = 1


class StateError(Exception):
    """The state cannot be used as it is; the text names the file and the way out."""


class InUseError(StateError):
    """Another process has the state."""

    def __init__(self, path: Path, holder: str) -> None:
        super().__init__(f"{path} is in use by process {holder}. Wait for its command to end, or end it.")
        self.holder = holder


KEPT = ("serial", "recycled", "quotas", "peaks", "offers")
"""What the file has of `Things` as it is."""


def copied(things: Things) -> Things:
    """The same things once more. A tenth of the time of `copy.deepcopy`."""
    found: Things = pickle.loads(pickle.dumps(things))
    return found


class Store:
    """The file, and the lock beside it. Without a path nothing is kept."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._lock: BinaryIO | None = None
        if path is not None:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._lock = _locked(path)

    def load(self) -> Things:
        """What the file has, nothing when there is no file. Raises StateError for one that cannot be used."""
        if self._path is None or not self._path.exists():
            return Things()
        try:
            return _read(self._path)
        except StateError:
            self.close()
            raise

    def save(self, things: Things) -> None:
        """Puts everything on the disk."""
        if self._path is None:
            return
        if self._lock is None:
            raise StateError(f"{self._path} was closed: open the world again before changing it.")
        write_whole(self._path, json.dumps(_written(things)))

    def close(self) -> None:
        """Lets the next process in."""
        if self._lock is not None:
            self._lock.close()
            self._lock = None


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


def _written(things: Things) -> dict[str, Any]:
    return {
        "format": FORMAT,
        "version": VERSION,
        **{name: getattr(things, name) for name in KEPT},
        "buried": [[*key, cluster] for key, cluster in things.buried.items()],
        "things": [_as_dict(thing) for thing in things],
        "journal": [_as_dict(event) for event in things.journal],
    }


def _as_dict(one: Thing | Event) -> dict[str, Any]:
    """Not `dataclasses.asdict`: its copies of everything took most of the time of a call."""
    return {field.name: getattr(one, field.name) for field in fields(one)}


def _read(path: Path) -> Things:
    def wrong(what: str) -> StateError:
        aside = path.with_name(path.name + ".broken")
        return StateError(
            f"{path} {what}. It is the emulated cloud and nothing real is lost with it, but the Pulumi state of this "
            f"sandbox speaks of what was in it. Either put back a copy of the file, or begin anew: move it away "
            f"(mv {path} {aside}) and then remove that Pulumi state too, or let `pulumi refresh` find it gone."
        )

    try:
        raw = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise StateError(
            f"{path} cannot be read ({error.strerror}). Give this user the right to, or move it."
        ) from None
    except (UnicodeDecodeError, json.JSONDecodeError) as error:
        raise wrong(f"is not JSON, as if half-written or edited by hand ({error})") from None
    if not isinstance(raw, dict) or raw.get("format") != FORMAT:
        raise wrong("is no state of the sandbox")
    if raw.get("version") != VERSION:
        found = raw.get("version")
        raise wrong(f"was written by another version of tandem (state format {found!r}, this one has {VERSION})")
    with suppress(KeyError, TypeError, ValueError, AttributeError):
        return Things(
            [Thing(**{**one, "owner": tuple(one["owner"]) if one["owner"] else None}) for one in raw["things"]],
            serial=int(raw["serial"]),
            recycled={str(group): int(count) for group, count in raw["recycled"].items()},
            quotas=dict(raw["quotas"]),
            peaks=dict(raw["peaks"]),
            buried={(str(token), str(identity)): str(cluster) for token, identity, cluster in raw["buried"]},
            journal=[Event(**one) for one in raw["journal"]],
            offers={str(name): [str(zone) for zone in zones] for name, zones in raw["offers"].items()},
        )
    raise wrong("lacks parts of the state, as if edited by hand")
