"""The parts of the Kubernetes API that the tests need to read and apply objects."""

import http.client
import json
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit

Object = Mapping[str, Any]
FIELD_MANAGER = "tandem"
TIMEOUT_SECONDS = 30
WATCH_SECONDS = 3
"""The server sends past changes at once, and keeps the answer open for later ones."""


class ApiError(RuntimeError):
    """The API server refused; `status` is HTTP's, the text is the server's."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


@dataclass(frozen=True)
class Api:
    """One API server, with the credentials to do anything."""

    url: str
    certificate: Path
    """The server's self-signed certificate."""
    token: str
    _kinds: dict[tuple[str, str], tuple[str, bool]] = field(default_factory=dict, repr=False, compare=False)
    """Plural, and whether namespaced, by apiVersion and kind."""

    @cached_property
    def _tls(self) -> ssl.SSLContext:
        return ssl.create_default_context(cafile=str(self.certificate))

    def call(self, method: str, path: str, body: object = None, *, content: str = "json", **query: str) -> Any:
        """Sends one request; returns the answer as JSON, or as text if it is none. Raises `ApiError` or `OSError`."""
        text = self._ask(method, path, body, content, query)
        return json.loads(text) if text.startswith(("{", "[")) else text

    def changes(self, path: str, since: str) -> list[dict[str, Any]]:
        """Every change of the objects of a collection after a resource version, the oldest first."""
        query = {"watch": "true", "resourceVersion": since, "timeoutSeconds": str(WATCH_SECONDS)}
        return [json.loads(line) for line in self._ask("GET", path, None, "json", query).splitlines()]

    def _ask(self, method: str, path: str, body: object, content: str, query: Mapping[str, str]) -> str:
        host = urlsplit(self.url)
        connection = http.client.HTTPSConnection(
            host.hostname or "", host.port, context=self._tls, timeout=TIMEOUT_SECONDS
        )
        headers = {"Authorization": f"Bearer {self.token}", "Content-Type": f"application/{content}"}
        try:
            connection.request(
                method,
                f"{path}?{urlencode(query)}" if query else path,
                None if body is None else json.dumps(body),
                headers,
            )
            answer = connection.getresponse()
            text = answer.read().decode()
        finally:
            connection.close()
        if answer.status >= 400:
            raise ApiError(answer.status, _message(text))
        return text

    def apply(self, wanted: Object, *, dry_run: bool = False) -> dict[str, Any]:
        """Applies an object on the server's side: unknown fields and fields of other managers are refused."""
        query = {"fieldManager": FIELD_MANAGER, "force": "false", "fieldValidation": "Strict"}
        if dry_run:
            query["dryRun"] = "All"
        applied: dict[str, Any] = self.call("PATCH", self.path(wanted), wanted, content="apply-patch+yaml", **query)
        return applied

    def patch(self, path: str, change: Object) -> None:
        """Merges a change into the object at `path`."""
        self.call("PATCH", path, change, content="merge-patch+json")

    def get(self, api_version: str, kind: str, name: str, namespace: str = "default") -> dict[str, Any] | None:
        """The object, or None if it does not exist."""
        try:
            found: dict[str, Any] = self.call("GET", f"{self.collection(api_version, kind, namespace)}/{name}")
        except ApiError as error:
            if error.status == 404:
                return None
            raise
        return found

    def list(self, api_version: str, kind: str, namespace: str = "", **query: str) -> list[dict[str, Any]]:
        """The objects of a kind, in one namespace or (with none given) in all of them."""
        found: list[dict[str, Any]] = self.call("GET", self.collection(api_version, kind, namespace), **query)["items"]
        return found

    def path(self, wanted: Object) -> str:
        """The path of an object."""
        metadata = wanted["metadata"]
        namespace = metadata.get("namespace", "default")
        return f"{self.collection(wanted['apiVersion'], wanted['kind'], namespace)}/{metadata['name']}"

    def collection(self, api_version: str, kind: str, namespace: str = "") -> str:
        """The path of the objects of a kind."""
        root = f"/apis/{api_version}" if "/" in api_version else f"/api/{api_version}"
        if (api_version, kind) not in self._kinds:
            for known in self.call("GET", root)["resources"]:
                if "/" not in known["name"]:
                    self._kinds[api_version, known["kind"]] = known["name"], known["namespaced"]
        if (api_version, kind) not in self._kinds:
            raise ApiError(404, f"the server knows no {kind} in {api_version}")
        plural, namespaced = self._kinds[api_version, kind]
        return f"{root}/namespaces/{namespace}/{plural}" if namespaced and namespace else f"{root}/{plural}"


def _message(text: str) -> str:
    try:
        return str(json.loads(text)["message"])
    except (ValueError, KeyError, TypeError):
        return text
