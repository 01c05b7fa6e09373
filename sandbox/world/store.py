"""The world's state as one JSON file: read whole, written whole, by one process at a time, and never reset silently."""

import json
import os
import pickle
from contextlib import suppress
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, BinaryIO, Literal

from sandbox.world.things import Key, Thing
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """Something that happened to the cards of a node."""

    kind: Literal["stop", "mode", "prove", "start", "clash"]
    """A process of a pod ended, the device plugin took another configuration, a Job completed, a process of a pod
    began, or two device plugins run on the node."""
    node: str
    config: str
    """The plugin's config: of `stop` the one under which the process began, of `mode` the new one."""
    who: str = ""
    """Id of the pod or Job; of `clash` those of the releases."""
    before: str = ""
    """Of `mode` the config until then; empty for a node that has just come."""


@dataclass(slots=True, kw_only=True)
class State:
    """What outlives a process."""

    serial: int = 0
    """Last one given to a thing or a name."""
    things: list[Thing] = field(default_factory=list)
    recycled: dict[str, int] = field(default_factory=dict)
    """Nodes that were replaced by an update of their group, by the group's name."""
    quotas: dict[str, int] = field(default_factory=dict)
    """vCPUs that the account may run, by code of the quota; one that is not here is no limit."""
    peaks: dict[str, int] = field(default_factory=dict)
    """Most vCPUs that ever ran at once, by code of the quota."""
    buried: dict[Key, str] = field(default_factory=dict)
    """Kubernetes objects that went with their cluster, and its API server."""
    journal: list[Event] = field(default_factory=list)
    """What happened to cards, in this order."""
    offers: dict[str, list[str]] = field(default_factory=dict)
    """Zones that sell an instance type, where somebody has changed them."""


def copied(state: State) -> State:
    """The same state of things of its own. A tenth of the time of `copy.deepcopy`."""
    found: State = pickle.loads(pickle.dumps(state))
    return found


class Store:
    """The file, and the lock beside it. Without a path nothing is kept."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._lock: BinaryIO | None = None
        if path is not None:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._lock = _locked(path)

    def load(self) -> State:
        """The state, empty when there is no file. Raises StateError for one that cannot be used."""
        if self._path is None or not self._path.exists():
            return State()
        try:
            return _state(self._path)
        except StateError:
            self.close()
            raise

    def save(self, state: State) -> None:
        """Puts the state on the disk."""
        if self._path is None:
            return
        if self._lock is None:
            raise StateError(f"{self._path} was closed: open the world again before changing it.")
        write_whole(self._path, json.dumps(_written(state), separators=(",", ":")))

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


def _written(state: State) -> dict[str, Any]:
    return {
        "format": FORMAT,
        "version": VERSION,
        **_as_dict(state),
        "buried": [[*key, cluster] for key, cluster in state.buried.items()],
        "things": [_as_dict(thing) for thing in state.things],
        "journal": [_as_dict(event) for event in state.journal],
    }


def _as_dict(one: State | Thing | Event) -> dict[str, Any]:
    """Not `dataclasses.asdict`: its copies of everything took most of the time of a call."""
    return {field.name: getattr(one, field.name) for field in fields(one)}


def _state(path: Path) -> State:
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
        return State(
            serial=int(raw["serial"]),
            things=[Thing(**{**one, "owner": tuple(one["owner"]) if one["owner"] else None}) for one in raw["things"]],
            recycled={str(group): int(count) for group, count in raw["recycled"].items()},
            quotas=dict(raw["quotas"]),
            peaks=dict(raw["peaks"]),
            buried={(str(token), str(identity)): str(cluster) for token, identity, cluster in raw["buried"]},
            journal=[Event(**one) for one in raw["journal"]],
            offers={str(name): [str(zone) for zone in zones] for name, zones in raw["offers"].items()},
        )
    raise wrong("lacks parts of the state, as if edited by hand")
