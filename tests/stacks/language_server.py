"""A client of the language server that editors use for YAML, over its standard input and output."""

import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any

SETTINGS = {"yaml": {"schemaStore": {"enable": False}, "completion": True, "hover": True}}


class Editor:
    """One open file."""

    def __init__(self, server: "subprocess.Popen[bytes]", path: Path) -> None:
        self._server, self._uri, self._ids = server, path.as_uri(), count(1)
        self._ask("initialize", {"processId": None, "rootUri": path.parent.as_uri(), "capabilities": {}})
        self._send({"method": "initialized", "params": {}})
        self._send({"method": "workspace/didChangeConfiguration", "params": {"settings": SETTINGS}})
        document = {"uri": self._uri, "version": 1, "languageId": "yaml", "text": path.read_text(encoding="utf-8")}
        self._send({"method": "textDocument/didOpen", "params": {"textDocument": document}})

    def completions(self, line: int, column: int) -> list[str]:
        """The completions that the editor offers there."""
        found = self._ask("textDocument/completion", self._at(line, column))
        return [item["label"] for item in found["items"]]

    def hover(self, line: int, column: int) -> str:
        """The text that the editor shows when the mouse is there."""
        found = self._ask("textDocument/hover", self._at(line, column))
        return str(found["contents"]["value"]) if found else ""

    def _at(self, line: int, column: int) -> dict[str, Any]:
        return {"textDocument": {"uri": self._uri}, "position": {"line": line, "character": column}}

    def _ask(self, method: str, params: object) -> Any:
        number = next(self._ids)
        self._send({"id": number, "method": method, "params": params})
        while True:
            message = self._receive()
            if message.get("id") == number and "method" not in message:
                return message["result"]

    def _receive(self) -> dict[str, Any]:
        """The next message. Requests of the server are answered."""
        assert self._server.stdout
        length = 0
        while (header := self._server.stdout.readline().strip()) != b"":
            name, _, value = header.partition(b":")
            length = int(value) if name.lower() == b"content-length" else length
        message: dict[str, Any] = json.loads(self._server.stdout.read(length))
        if message.get("method") == "workspace/configuration":
            answer = [SETTINGS.get(item["section"], {}) for item in message["params"]["items"]]
            self._send({"id": message["id"], "result": answer})
        elif "method" in message and "id" in message:
            self._send({"id": message["id"], "result": None})
        return message

    def _send(self, message: dict[str, Any]) -> None:
        assert self._server.stdin
        body = json.dumps({"jsonrpc": "2.0", **message}).encode()
        self._server.stdin.write(b"Content-Length: %d\r\n\r\n%s" % (len(body), body))
        self._server.stdin.flush()


@contextmanager
def editor(command: str, path: Path) -> Iterator[Editor]:
    """An editor that has the file at `path` open."""
    with subprocess.Popen([command, "--stdio"], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as server:
        try:
            yield Editor(server, path)
        finally:
            server.kill()
