"""A kubeconfig, reduced to the context in use, with its certificates in our own files.

kr8s leaves a kubeconfig's inline certificates and keys behind as temporary files, treats an unreadable kubeconfig as
none, and then acts as a pod. So it gets nothing to unpack, nothing to choose, and nothing broken.
"""

import base64
import binascii
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from sharing.printable import address, one_line
from tandem.deployed.endpoints import NotConnectedError

FILES = {
    "certificate-authority": "cluster",
    "client-certificate": "user",
    "client-key": "user",
}
"""Settings that name a file, or contain its base64 under `<name>-data`."""
OLD_EXEC = "client.authentication.k8s.io/v1alpha1"


class _Part(BaseModel):
    model_config = ConfigDict(extra="allow", strict=True, alias_generator=lambda name: name.replace("_", "-"))


class _Cluster(_Part):
    server: str = ""
    certificate_authority: str | None = None
    certificate_authority_data: str | None = None
    insecure_skip_tls_verify: bool | None = None
    tls_server_name: str | None = None
    proxy_url: str | None = None


class _Variable(_Part):
    name: str
    value: str


class _Exec(_Part):
    api_version: str = Field(alias="apiVersion")
    command: str = Field(min_length=1)
    args: list[str] | None = None
    env: list[_Variable] | None = None


class _User(_Part):
    token: str | None = None
    token_file: str | None = Field(default=None, alias="tokenFile")
    client_certificate: str | None = None
    client_certificate_data: str | None = None
    client_key: str | None = None
    client_key_data: str | None = None
    exec: _Exec | None = None


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
        return str((self.user.get("exec") or {}).get("command", ""))

    def for_kr8s(self, folder: Path) -> dict[str, Any]:
        """The kubeconfig, with its inline files written to `folder`, which must be private and temporary.

        Raises `NotConnectedError` if a file that it names is unusable.
        """
        parts = {"cluster": dict(self.cluster), "user": dict(self.user)}
        for name, part in FILES.items():
            holder = parts[part]
            inline = holder.pop(f"{name}-data", None)
            if inline:
                path = folder / name
                path.touch(mode=0o600)
                path.write_bytes(_decoded(inline, name))
                holder[name] = str(path)
            elif holder.get(name):
                holder[name] = str(self._readable(name, holder[name]))
            else:
                holder.pop(name, None)
        self._check_certificates(parts["cluster"], parts["user"])
        if self.user.get("exec"):
            parts["user"] = {"exec": _run(self.user["exec"], self.folder)}
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "cluster", "cluster": parts["cluster"]}],
            "users": [{"name": "user", "user": parts["user"]}],
            "contexts": [{"name": "context", "context": {"cluster": "cluster", "user": "user"}}],
            "current-context": "context",
        }
        self.renew_token(config)
        return config

    def renew_token(self, config: Mapping[str, Any]) -> None:
        """Puts the current content of the user's `tokenFile` into the result of `for_kr8s`: kr8s ignores such files.

        It takes precedence over `token`, and others rewrite it (client-go tools/clientcmd/api/v1/types.go).
        """
        if not self.user.get("tokenFile") or self.user.get("exec"):
            return
        path = self._readable("tokenFile", self.user["tokenFile"])
        config["users"][0]["user"]["token"] = self.usable(path.read_text(encoding="utf-8", errors="replace").strip())

    def usable(self, token: str) -> str:
        """The token, if it can be sent; otherwise raises `NotConnectedError`, which does not show it."""
        if not token or not token.isascii() or not token.isprintable() or " " in token:
            why = "is empty" if not token else "contains invalid characters"
            raise NotConnectedError(f"the token of context '{self.context}' {why}. Log in again.")
        return token

    def _readable(self, name: str, text: str) -> Path:
        path = self.folder / text
        try:
            path.read_bytes()
        except (OSError, ValueError) as error:
            why = getattr(error, "strerror", None) or "not a path"
            raise NotConnectedError(
                f"the {name} of context '{self.context}' cannot be read: {one_line(str(path))}: {why}. "
                "Restore the file, or pass another --kubeconfig."
            ) from None
        return path

    def _check_certificates(self, cluster: Mapping[str, Any], user: Mapping[str, Any]) -> None:
        """Checks certificates on which kr8s would fail, or ask for a password at the terminal."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        certificate, key = user.get("client-certificate"), user.get("client-key")
        what = "certificate-authority"
        try:
            if authority := cluster.get("certificate-authority"):
                context.load_verify_locations(authority)
            what = "client-certificate and client-key"
            if certificate and key:
                context.load_cert_chain(certificate, key, password=lambda: b"")
        except (OSError, ValueError) as error:
            why = getattr(error, "reason", None) or "not a PEM certificate"
            raise NotConnectedError(
                f"the {what} of context '{self.context}' cannot be used ({one_line(str(why))}). Get a new kubeconfig."
            ) from None
        if bool(certificate) != bool(key):
            raise NotConnectedError(
                f"the user of context '{self.context}' has only one of client-certificate and client-key. Set both."
            )


def read(path: Path, context: str | None) -> Chosen:
    """The context (the current one by default) of the file at `path`; raises `NotConnectedError`."""
    try:
        text = path.expanduser().read_text(encoding="utf-8")
    except (OSError, ValueError, RuntimeError) as error:
        why = (isinstance(error, OSError) and error.strerror) or "not text"
        raise NotConnectedError(f"cannot read the kubeconfig {one_line(str(path))}: {why}. Pass another one.") from None
    return parse(text, one_line(str(path)), context, path.expanduser().absolute().parent)


def parse(text: str, name: str, context: str | None = None, folder: Path = Path("/")) -> Chosen:
    """The same for its text; messages use `name`, and none shows the content."""
    try:
        config = yaml.safe_load(text)
    # Not only YAMLError: PyYAML also fails on a date like 2026-99-99, on a mapping as a key, and on deep nesting.
    except (yaml.YAMLError, ValueError, TypeError, AttributeError, LookupError, RecursionError):
        raise NotConnectedError(f"{name} is neither YAML nor JSON. Get a new kubeconfig.") from None
    if not isinstance(config, dict):
        raise NotConnectedError(f"{name} is not a kubeconfig. Get a new one.")
    contexts, wanted = _named(config, "context"), context or config.get("current-context")
    if not wanted or not isinstance(wanted, str):
        raise NotConnectedError(f"{name} has no current context. Pass --context NAME ({_names(contexts)}).")
    if wanted not in contexts:
        shown = one_line(wanted)
        raise NotConnectedError(f"{name} has no context '{shown}'. Pass --context NAME ({_names(contexts)}).")
    chosen, where = contexts[wanted], f"{name}: context '{one_line(wanted)}'"
    cluster = _named(config, "cluster").get(_text(chosen.get("cluster")))
    user = _named(config, "user").get(_text(chosen.get("user")))
    if not (cluster and cluster.get("server")) or user is None:
        missing = "cluster with a server" if not (cluster and cluster.get("server")) else "user"
        raise NotConnectedError(f"{where} has no {missing}. Get a new kubeconfig.")
    _check(where, cluster, user)
    return Chosen(one_line(wanted), cluster, user, folder)


def _check(where: str, cluster: Mapping[str, Any], user: Mapping[str, Any]) -> None:
    for what, shape, part in (("cluster", _Cluster, cluster), ("user", _User, user)):
        try:
            shape.model_validate(part)
        except ValidationError as error:
            first = error.errors()[0]
            key = one_line(".".join(map(str, first["loc"])))
            raise NotConnectedError(f"{where}: {key} of its {what} is invalid: {first['msg']}. Correct it.") from None
    if not _is_address(cluster["server"]):
        raise NotConnectedError(f"{where}: the server of its cluster is not an address. Write https://HOST:PORT.")
    if cluster.get("proxy-url") and not _is_address(cluster["proxy-url"]):
        raise NotConnectedError(f"{where}: the proxy-url of its cluster is not an address. Write http://HOST:PORT.")
    if refused := next((key for key in map(str, user) if key == "as" or key.startswith("as-")), None):
        raise NotConnectedError(f"{where}: {one_line(refused)} (impersonation) is not supported. Use another user.")
    if "username" in user or "password" in user or user.get("auth-provider"):
        kind = "auth-provider" if user.get("auth-provider") else "a password"
        raise NotConnectedError(f"{where}: {kind} is not supported. Use a user with a token or `exec`.")
    if (user.get("exec") or {}).get("apiVersion") == OLD_EXEC:
        raise NotConnectedError(
            f"{where}: its exec has apiVersion v1alpha1, which no client supports. Get a new kubeconfig."
        )


def _is_address(text: str) -> bool:
    try:
        parts = urlsplit(text)
        return parts.scheme in ("http", "https", "socks5") and bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:
        return False


def _named(config: Mapping[str, Any], kind: str) -> dict[str, dict[str, Any]]:
    entries = config.get(f"{kind}s")
    found = [entry for entry in entries if isinstance(entry, dict)] if isinstance(entries, list) else []
    return {
        _text(entry.get("name")): entry.get(kind) or {} for entry in found if isinstance(entry.get(kind) or {}, dict)
    }


def _text(name: object) -> str:
    """The name as text; YAML reads 1 as a number."""
    return "" if name is None else str(name)


def _names(contexts: Mapping[str, Any]) -> str:
    return one_line(", ".join(contexts)) or "none"


def _decoded(text: str, name: str) -> bytes:
    try:
        return base64.b64decode(text, validate=False)
    except (binascii.Error, ValueError):
        raise NotConnectedError(f"the kubeconfig's {name}-data is not base64. Get a new kubeconfig.") from None


def _run(exec_: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """The program that provides a token: with a slash, a path relative to the file's folder, as for kubectl."""
    command = exec_["command"]
    return {**exec_, "command": str(folder / command) if "/" in command else command}
