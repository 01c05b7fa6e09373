"""A kubeconfig, reduced to the one context that is used, with its certificates in files of our own.

kr8s leaves the certificates and keys that it finds inside a kubeconfig behind as temporary files, takes an unreadable
kubeconfig for none, and then tries to be a pod. So it gets nothing to unpack and nothing to choose.
"""

import base64
import binascii
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import yaml

from tandem.connection import NotConnectedError

FILES = {
    "certificate-authority": "cluster",
    "client-certificate": "user",
    "client-key": "user",
}
"""Settings that name a file, or hold its base64 under `<name>-data`."""


@dataclass(frozen=True, slots=True)
class Chosen:
    """One context: where the cluster is, and who asks."""

    context: str
    cluster: Mapping[str, Any]
    user: Mapping[str, Any]
    folder: Path
    """What relative paths in it begin at."""

    @property
    def host(self) -> str:
        """The API server, as people call it."""
        return urlsplit(str(self.cluster.get("server", ""))).netloc or "no server"

    def for_kr8s(self, folder: Path) -> dict[str, Any]:
        """The kubeconfig with what it holds inline written to `folder`, which must be private and go in the end."""
        parts = {"cluster": dict(self.cluster), "user": dict(self.user)}
        for name, part in FILES.items():
            holder = parts[part]
            inline = holder.pop(f"{name}-data", None)
            if inline:
                path = folder / name
                path.touch(mode=0o600)
                path.write_bytes(_decoded(str(inline), name))
                holder[name] = str(path)
            elif holder.get(name):
                holder[name] = str(self.folder / holder[name])
        parts["user"] = {"exec": _run(parts["user"]["exec"], self.folder)} if "exec" in self.user else parts["user"]
        return {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "cluster", "cluster": parts["cluster"]}],
            "users": [{"name": "user", "user": parts["user"]}],
            "contexts": [{"name": "context", "context": {"cluster": "cluster", "user": "user"}}],
            "current-context": "context",
        }


def read(path: Path, context: str | None) -> Chosen:
    """The context (the current one by default) of the file at `path`; raises `NotConnectedError`."""
    try:
        text = path.expanduser().read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is no text"
        raise NotConnectedError(f"cannot read the kubeconfig {path}: {why}.") from None
    return parse(text, str(path), context, path.expanduser().absolute().parent)


def parse(text: str, name: str, context: str | None = None, folder: Path = Path("/")) -> Chosen:
    """The same for its text; `name` is what messages call it. No message shows what stands in it."""
    try:
        config = yaml.safe_load(text)
    except yaml.YAMLError:
        raise NotConnectedError(f"{name} is neither YAML nor JSON.") from None
    if not isinstance(config, dict):
        raise NotConnectedError(f"{name} is no kubeconfig.")
    contexts, wanted = _named(config, "context"), context or config.get("current-context")
    if not wanted:
        raise NotConnectedError(f"{name} has no current context: say --context NAME ({_names(contexts)}).")
    if wanted not in contexts:
        raise NotConnectedError(f"{name} has no context '{wanted}'. It has {_names(contexts)}: say --context NAME.")
    chosen = contexts[wanted]
    clusters, users = _named(config, "cluster"), _named(config, "user")
    cluster, user = clusters.get(chosen.get("cluster")), users.get(chosen.get("user"))
    if not (cluster and cluster.get("server")) or user is None:
        missing = "cluster with a server" if not (cluster and cluster.get("server")) else "user"
        raise NotConnectedError(f"{name}: context '{wanted}' names no {missing} that stands there.")
    return Chosen(str(wanted), cluster, user, folder)


def _named(config: Mapping[str, Any], kind: str) -> dict[Any, dict[str, Any]]:
    entries = config.get(f"{kind}s")
    found = [entry for entry in entries if isinstance(entry, dict)] if isinstance(entries, list) else []
    return {entry.get("name"): entry.get(kind) or {} for entry in found}


def _names(contexts: Mapping[Any, Any]) -> str:
    return ", ".join(map(str, contexts)) or "none"


def _decoded(text: str, name: str) -> bytes:
    try:
        return base64.b64decode(text, validate=False)
    except (binascii.Error, ValueError):
        raise NotConnectedError(f"the kubeconfig's {name}-data is no base64.") from None


def _run(exec_: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """The program that gives a token: with a slash in it, it is a path from the file's folder, as for kubectl."""
    command = str(exec_.get("command", ""))
    return {**exec_, "command": str(folder / command) if "/" in command else command}
