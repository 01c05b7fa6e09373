"""Open WebUI with the settings of our pod. Behind it are two real Ollama servers with a stand-in for their engines, and
one with a real engine and an embedding model of random weights.
"""

import json
import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest

from components.open_webui import DATA, OpenWebUIArgs, deployment_spec
from tests.browser.chromium import Browser
from tests.gpu.engine import free_port
from tests.gpu.gguf_file import write_model
from tests.gpu.shapes import SHAPES, shrunk
from tests.ollama.test_model_start import OWN, Server, ollama_on_path, on_a_gpu, serve

PROGRAM, VERSION = "open-webui", "0.11.4"
ENGINE = "llama-server"
MAIL, PASSWORD = "ops@example.com", "p" * 32
MODELS, EMBEDDING = ("llama2:7b", "mistral:7b"), "nomic-embed-text"
START_SECONDS = 300
FREE_MIB, MOST_TOKENS = 14900, 20
CHUNK = 400
OK = 200


@dataclass
class ChatPage:
    """A page that answers, and its Ollama servers."""

    program: str
    folder: Path
    chatting: dict[str, Server]
    embedding: Server
    url: str = ""
    process: subprocess.Popen[bytes] | None = None
    settings: dict[str, str] = field(default_factory=dict)

    def start(self) -> None:
        """Starts the page, and waits until it answers."""
        port = free_port()
        self.url = f"http://127.0.0.1:{port}"
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen(
                [self.program, "serve", "--host", "127.0.0.1", "--port", str(port)],
                env={"PATH": os.environ["PATH"], **self.settings},
                stdout=log,
                stderr=log,
            )
        for _ in range(START_SECONDS):
            assert self.process.poll() is None, (self.folder / "log").read_text()[-2000:]
            try:
                if httpx.get(f"{self.url}/health").is_success:
                    return
            except httpx.TransportError:
                time.sleep(1)
        raise AssertionError((self.folder / "log").read_text()[-2000:])

    def stop(self) -> None:
        if self.process:
            self.process.terminate()
            self.process.wait()

    def restart(self) -> None:
        """Another process with the same folder, as in a new pod with the same volume."""
        self.stop()
        self.start()

    def log_in(self, email: str, password: str) -> dict[str, str]:
        """The headers of a logged-in user."""
        answer = httpx.post(f"{self.url}/api/v1/auths/signin", json={"email": email, "password": password})
        return {"Authorization": f"Bearer {answer.raise_for_status().json()['token']}"}

    def log_in_with(self, browser: Browser) -> None:
        """Logs the administrator in on the open page, and closes the release notes."""
        browser.wait_for("document.querySelector('#password')")
        browser.type("#email", MAIL)
        browser.type("#password", PASSWORD)
        browser.evaluate("document.querySelector('button[type=submit]').click()")
        close = "[...document.querySelectorAll('button')].find(one => one.innerText.startsWith('Okay'))"
        browser.wait_for(close)
        browser.evaluate(f"{close}.click()")

    def upload(self, headers: dict[str, str], name: str, content: bytes) -> str:
        """The id of an uploaded document, once the page has read it."""
        answer = httpx.post(f"{self.url}/api/v1/files/", headers=headers, files={"file": (name, content)}, timeout=120)
        id = str(answer.raise_for_status().json()["id"])
        for _ in range(START_SECONDS):
            status = (
                httpx.get(f"{self.url}/api/v1/files/{id}/process/status", headers=headers).raise_for_status().json()
            )
            if status["status"] != "pending":
                assert status["status"] == "completed", status
                return id
            time.sleep(0.2)
        raise AssertionError("the document is still being read")

    def ask(self, headers: dict[str, str], model: str, question: str, *documents: str) -> list[dict[str, Any]]:
        """Asks about documents, and returns the sources that the answer names."""
        body = {
            "model": model,
            "messages": [{"role": "user", "content": question}],
            "files": [{"type": "file", "id": id} for id in documents],
            "stream": True,
        }
        answer = httpx.post(f"{self.url}/api/chat/completions", headers=headers, json=body, timeout=120)
        lines = answer.raise_for_status().text.splitlines()
        events = [json.loads(line[len("data: ") :]) for line in lines if line.startswith("data: {")]
        return [source for event in events for source in event.get("sources") or ()]

    def prompts(self, model: str) -> list[str]:
        """What the engine of a model was asked."""
        file = self.chatting[model].folder / "lib" / "ollama" / "prompts"
        return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []

    def embeddings(self) -> int:
        """How many requests for embeddings succeeded."""
        lines = (self.embedding.folder / "server.log").read_text(errors="replace").splitlines()
        return sum(f"| {OK} |" in line and '"/api/embed"' in line for line in lines)

    def memory_mib(self) -> float:
        """Memory of the page's process, as the kernel counts it."""
        assert self.process
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(status.partition("VmHWM:")[2].split()[0]) / 1024


def find_program() -> str | None:
    return shutil.which(PROGRAM)


@contextmanager
def running(program: str, folder: Path) -> Iterator[ChatPage]:
    """The page while the block runs; skips a test without a fitting `ollama`."""
    with ExitStack() as servers:
        chatting = {name: servers.enter_context(_model(folder / name.replace(":", "-"), name)) for name in MODELS}
        embedding = servers.enter_context(_embedding(folder / EMBEDDING))
        page = ChatPage(program, folder, chatting, embedding)
        page.settings = _settings(folder / "data", [*map(_url, chatting.values())], _url(embedding))
        servers.callback(page.stop)
        page.start()
        yield page


def _url(server: Server) -> str:
    return f"http://{server.environment['OLLAMA_HOST']}"


@contextmanager
def _model(folder: Path, name: str) -> Iterator[Server]:
    folder.mkdir()
    with on_a_gpu(folder, "full", FREE_MIB) as server:
        # The stand-in answers without an end.
        short = {"model": name, "from": OWN, "parameters": {"num_predict": MOST_TOKENS}, "stream": False}
        httpx.post(f"{_url(server)}/api/create", json=short).raise_for_status()
        httpx.request("DELETE", f"{_url(server)}/api/delete", json={"model": OWN}).raise_for_status()
        yield server


@contextmanager
def _embedding(folder: Path) -> Iterator[Server]:
    """A server with a real engine on the CPU, and a small model of nomic-embed-text's architecture."""
    engine = shutil.which(ENGINE)
    if engine is None:
        pytest.skip(f"no `{ENGINE}` on the PATH")
    program, engines = folder / "bin" / "ollama", folder / "lib" / "ollama"
    engines.mkdir(parents=True)
    program.parent.mkdir()
    shutil.copy(ollama_on_path(), program)
    shutil.copy(engine, engines / ENGINE)
    (engines / "llama-quantize").write_text('#!/bin/sh\ncp "$2" "$3"\n')
    (engines / "llama-quantize").chmod(0o755)
    with serve(folder, program, {"CUDA_VISIBLE_DEVICES": "-1", "OLLAMA_VULKAN": "0"}) as server:
        write_model(shrunk(SHAPES["nomic-embed-text:latest"]), folder / "embedding.gguf")
        (folder / "Modelfile").write_text(f"FROM {folder}/embedding.gguf\n")
        server.ollama("create", EMBEDDING, "-f", str(folder / "Modelfile"))
        yield server


def _settings(data: Path, urls: list[str], embedding_url: str) -> dict[str, str]:
    """The environment of the page's process: that of the pod, with its folder here."""
    args = OpenWebUIArgs(
        model_urls=urls,
        admin_email=MAIL,
        embedding_url=embedding_url,
        embedding_model=EMBEDDING,
        chunk_characters=CHUNK,
    )
    [container] = deployment_spec(args, ";".join(urls), "", None)["template"]["spec"]["containers"]
    (data / "static").mkdir(parents=True)
    settings = {one["name"]: str(one["value"]).replace(DATA, str(data)) for one in container["env"]}
    return {
        **settings,
        "WEBUI_SECRET_KEY": "k" * 32,
        "WEBUI_ADMIN_EMAIL": MAIL,
        "WEBUI_ADMIN_PASSWORD": PASSWORD,
    }
