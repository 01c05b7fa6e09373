"""The stand-in of the other tests replies as the real server does: the same fields of the same types."""

import json
import urllib.error
import urllib.request
from typing import Any

from tests.ollama.test_model_start import OWN, FakeGpu, fake_gpu
from tests.tandem.fake_ollama import ollama

__all__ = ["fake_gpu"]
MESSAGES = [{"role": "user", "content": "hi"}]
SHORT: dict[str, Any] = {"model": OWN, "options": {"num_predict": 2}}
QUESTIONS: tuple[tuple[str, dict[str, Any] | None], ...] = (
    ("/api/generate", {"model": OWN, "stream": False}),  # which loads it
    ("/api/version", None),
    ("/api/tags", None),
    ("/api/ps", None),
    ("/api/generate", {**SHORT, "prompt": "hi"}),
    ("/api/generate", {**SHORT, "prompt": "hi", "stream": False}),
    ("/api/chat", {**SHORT, "messages": MESSAGES}),
    ("/api/generate", {"model": "none", "prompt": "hi"}),
    ("/api/none", None),
)
NOT_READ = {"context", "capabilities", "modified_at"}
DETAILS = ("format", "family", "parameter_size", "quantization_level")
"""Of the details of a model, what a command reads."""


def shape(value: Any) -> Any:
    if isinstance(value, dict):
        if "parameter_size" in value:
            return {key: type(value[key]).__name__ for key in DETAILS}
        return {key: shape(each) for key, each in value.items() if key not in NOT_READ}
    return [shape(each) for each in value] if isinstance(value, list) else type(value).__name__


def asked(url: str, path: str, body: dict[str, Any] | None) -> tuple[int, Any]:
    content = None if body is None else json.dumps(body).encode()
    try:
        with urllib.request.urlopen(urllib.request.Request(url + path, content)) as reply:
            return reply.status, [shape(json.loads(line)) for line in reply]
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode().replace(": ", ":")


def test_the_stand_in_replies_as_the_real_server(fake_gpu: FakeGpu) -> None:
    real = f"http://{fake_gpu('full', 14900).environment['OLLAMA_HOST']}"
    with ollama(OWN) as fake:
        for path, body in QUESTIONS:
            assert asked(fake.url, path, body) == asked(real, path, body), path
