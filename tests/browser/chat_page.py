"""Open WebUI with the settings of our pod, and two real Ollama servers with a stand-in for their engines."""

import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx

from components.open_webui import DATA, deployment_spec
from tests.browser.chromium import Browser
from tests.gpu.engine import free_port
from tests.ollama.test_model_start import OWN, on_a_gpu

PROGRAM, VERSION = "open-webui", "0.11.4"
MAIL, PASSWORD = "ops@example.com", "p" * 32
MODELS = ("llama2:7b", "mistral:7b")
START_SECONDS = 300
FREE_MIB, MOST_TOKENS = 14900, 20


@dataclass(frozen=True)
class ChatPage:
    """A page that answers."""

    url: str

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


def find_program() -> str | None:
    return shutil.which(PROGRAM)


@contextmanager
def running(program: str, folder: Path) -> Iterator[ChatPage]:
    """The page while the block runs; skips a test without a fitting `ollama`."""
    with ExitStack() as servers:
        urls = [servers.enter_context(_model(folder / name.replace(":", "-"), name)) for name in MODELS]
        yield servers.enter_context(_page(program, folder, urls))


@contextmanager
def _model(folder: Path, name: str) -> Iterator[str]:
    folder.mkdir()
    with on_a_gpu(folder, "full", FREE_MIB) as server:
        url = f"http://{server.environment['OLLAMA_HOST']}"
        # The stand-in answers without an end.
        short = {"model": name, "from": OWN, "parameters": {"num_predict": MOST_TOKENS}, "stream": False}
        httpx.post(f"{url}/api/create", json=short).raise_for_status()
        httpx.request("DELETE", f"{url}/api/delete", json={"model": OWN}).raise_for_status()
        yield url


@contextmanager
def _page(program: str, folder: Path, urls: list[str]) -> Iterator[ChatPage]:
    [container] = deployment_spec(";".join(urls), "")["template"]["spec"]["containers"]
    data = folder / "data"
    (data / "static").mkdir(parents=True)
    settings = {one["name"]: one["value"].replace(DATA, str(data)) for one in container["env"]}
    secrets = {"WEBUI_SECRET_KEY": "k" * 32, "WEBUI_ADMIN_EMAIL": MAIL, "WEBUI_ADMIN_PASSWORD": PASSWORD}
    port = free_port()
    with (folder / "log").open("w") as log:
        process = subprocess.Popen(
            [program, "serve", "--host", "127.0.0.1", "--port", str(port)],
            env={"PATH": os.environ["PATH"], **settings, **secrets},
            stdout=log,
            stderr=log,
        )
    page = ChatPage(f"http://127.0.0.1:{port}")
    try:
        for _ in range(START_SECONDS):
            assert process.poll() is None, (folder / "log").read_text()[-2000:]
            try:
                if httpx.get(f"{page.url}/health").is_success:
                    break
            except httpx.TransportError:
                time.sleep(1)
        yield page
    finally:
        process.terminate()
        process.wait()
