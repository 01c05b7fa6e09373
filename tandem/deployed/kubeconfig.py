"""A kubeconfig, reduced to the context in use, with its certificates in our own files.

kr8s leaves a kubeconfig's inline certificates and keys behind as temporary files, treats an unreadable kubeconfig as
none, and then acts as a pod (0.20.15). So this file has nothing to unpack and nothing to choose. Only if a login
program returns a client certificate instead of a token, kr8s writes it and its key to temporary files.
"""

import base64
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import yaml

from sharing.printable import address, one_line
from tandem.deployed.endpoints import NotConnectedError

CLUSTER_FILES = ("certificate-authority",)
USER_FILES = ("client-certificate", "client-key")
"""Settings that name a file, or contain its base64 under `<name>-data`."""
NEW_ONE = "Get a new kubeconfig."


@dataclass(frozen=True, slots=True)
class Chosen:
    """One context: a cluster and a user."""

    context: str
    cluster: Mapping[str, Any]
    user: Mapping[str, Any]
    folder: Path
    """The base of its relative paths."""

    @property
    def host(self) -> str:
        """The name of the API server."""
        return address(one_line(urlsplit(self.cluster["server"]).netloc))

    @property
    def program(self) -> str:
        """The program that provides a token; empty if none does."""
        login = self.user.get("exec")
        return str(login.get("command", "")) if isinstance(login, dict) else ""

    def for_kr8s(self, folder: Path) -> dict[str, Any]:
        """The kubeconfig, with its inline files written to `folder`, which must be private and temporary.

        Raises `NotConnectedError` if a file that it names is unusable.
        """
        cluster = self._with_files(self.cluster, CLUSTER_FILES, folder)
        user = self._with_files(self.user, USER_FILES, folder)
        if "/" in self.program:  # relative to the file's folder, as for kubectl
            user["exec"] = {**user["exec"], "command": str(self.folder / self.program)}
        if "tokenFile" in user:  # kr8s ignores it
            user["token"] = self._read("tokenFile", user["tokenFile"]).decode(errors="replace").strip()
        return {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "cluster", "cluster": cluster}],
            "users": [{"name": "user", "user": user}],
            "contexts": [{"name": "context", "context": {"cluster": "cluster", "user": "user"}}],
            "current-context": "context",
        }

    def _with_files(self, part: Mapping[str, Any], names: tuple[str, ...], folder: Path) -> dict[str, Any]:
        part = dict(part)
        for name in names:
            if inline := part.pop(f"{name}-data", None):
                path = folder / name
                path.touch(mode=0o600)
                path.write_bytes(self._decode(f"{name}-data", inline))
                part[name] = str(path)
            elif name in part:
                self._read(name, part[name])
                part[name] = str(self.folder / part[name])
        return part

    def _read(self, name: str, path: str) -> bytes:
        try:
            return (self.folder / path).read_bytes()
        except (OSError, TypeError, ValueError) as error:
            why = getattr(error, "strerror", None) or "not a path"
            raise NotConnectedError(
                f"the {name} of context '{self.context}' cannot be read: {one_line(str(path))}: {why}. "
                "Restore the file, or pass another --kubeconfig."
            ) from None

    def _decode(self, name: str, inline: str) -> bytes:
        try:
            return base64.b64decode(inline)
        except (TypeError, ValueError):
            raise NotConnectedError(f"the {name} of context '{self.context}' is not base64. {NEW_ONE}") from None


def read(path: Path, context: str | None) -> Chosen:
    """The context (the current one by default) of the file at `path`; raises `NotConnectedError`."""
    try:
        path = path.expanduser()
        text = path.read_text(encoding="utf-8")
    except (OSError, ValueError, RuntimeError) as error:
        why = (isinstance(error, OSError) and error.strerror) or "not text"
        raise NotConnectedError(f"cannot read the kubeconfig {one_line(str(path))}: {why}. Pass another one.") from None
    return parse(text, one_line(str(path)), context, path.absolute().parent)


def parse(text: str, name: str, context: str | None = None, folder: Path = Path("/")) -> Chosen:
    """The same for its text; messages use `name`, and none shows the content."""
    try:
        config = yaml.safe_load(text)
    # Not only YAMLError: PyYAML also fails on a date like 2026-99-99, on a mapping as a key, and on deep nesting.
    except Exception:
        raise NotConnectedError(f"{name} is neither YAML nor JSON. {NEW_ONE}") from None
    try:
        contexts, clusters, users = (_named(config, kind) for kind in ("context", "cluster", "user"))
        wanted = str(context or config.get("current-context") or "")
    # Any error of a text that is another YAML.
    except Exception:
        raise NotConnectedError(f"{name} is not a kubeconfig. {NEW_ONE}") from None
    if wanted not in contexts:
        what = f"context '{one_line(wanted)}'" if wanted else "current context"
        names = one_line(", ".join(contexts)) or "none"
        raise NotConnectedError(f"{name} has no {what}. Pass --context NAME ({names}).")
    where, chosen = f"{name}: context '{one_line(wanted)}'", contexts[wanted]
    cluster, user = clusters.get(str(chosen.get("cluster"))), users.get(str(chosen.get("user")))
    if not cluster or "server" not in cluster:
        raise NotConnectedError(f"{where} has no cluster with a server. {NEW_ONE}")
    if user is None:
        raise NotConnectedError(f"{where} has no user. {NEW_ONE}")
    if not _is_address(cluster["server"]):
        raise NotConnectedError(f"{where}: the server of its cluster is not an address. Write https://HOST:PORT.")
    if "as" in user:  # kr8s would act as the user itself
        raise NotConnectedError(f"{where}: `as` (impersonation) is not supported. Use another user.")
    return Chosen(one_line(wanted), cluster, user, folder)


def _named(config: Mapping[str, Any], kind: str) -> dict[str, dict[str, Any]]:
    return {str(entry["name"]): dict(entry.get(kind) or {}) for entry in config.get(f"{kind}s") or []}


def _is_address(server: object) -> bool:
    try:
        parts = urlsplit(str(server))
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False
