"""Models of registries: which requests are made, how much arrives, and errors with their next step.

The names of paths and layers are those of ollama v0.32.15 server/images.go.
"""

import os
import struct
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from stacks.model_files import registry as registries
from stacks.model_files import web
from stacks.model_files.errors import UnreadableModelError
from stacks.model_files.registry import Reference, read_name, ways
from tests.stacks.model_files.gguf_files import BLOCK, EMBEDDING, LAYERS, tensor, write
from tests.stacks.model_files.local_registry import CDN, Registry, running

NAME = "hf.co/me/mine-GGUF:Q8_0"
VOCABULARIES = os.environ.get("TANDEM_VOCABULARIES", "")
"""The folder `vendor/llama.cpp/models` of the source package of llama-cpp-python 0.3.35, unpacked."""


@pytest.fixture
def registry(tmp_path: Path) -> Iterator[Registry]:
    with running(tmp_path / "cache") as started:
        yield started


@pytest.fixture
def gguf(tmp_path: Path) -> bytes:
    return write(tmp_path / "m.gguf").read_bytes()


@pytest.mark.parametrize(
    ("name", "asked"),
    [
        ("qwen9", "registry.ollama.ai/v2/library/qwen9/manifests/latest"),
        ("qwen9:8b-q8_0", "registry.ollama.ai/v2/library/qwen9/manifests/8b-q8_0"),
        ("me/mine:1b", "registry.ollama.ai/v2/me/mine/manifests/1b"),
        ("hf.co/me/mine-GGUF", "hf.co/v2/me/mine-GGUF/manifests/latest"),
        ("huggingface.co/me/mine-GGUF:IQ3_M", "huggingface.co/v2/me/mine-GGUF/manifests/IQ3_M"),
        ("host.example:5000/me/mine:1b", "host.example:5000/v2/me/mine/manifests/1b"),
    ],
)
def test_a_name_is_looked_up_where_ollama_pulls_it(name: str, asked: str, registry: Registry) -> None:
    with pytest.raises(UnreadableModelError, match=" has no "):
        read_name(name)
    assert registry.asked == [asked]


def test_a_model_is_described_by_the_header_of_its_layer(registry: Registry, gguf: bytes) -> None:
    [digest, _] = registry.push(NAME, ("model", gguf), ("template", b"{{ .Prompt }}"))
    description = read_name(NAME)
    assert (description.digest, description.source) == (digest, NAME)
    model = description.named(NAME)
    assert (model.weights_bytes, model.layers, model.kv_heads) == (EMBEDDING + LAYERS * BLOCK, LAYERS, 2)
    assert registry.asked == [
        "hf.co/v2/me/mine-GGUF/manifests/Q8_0",
        f"hf.co/v2/me/mine-GGUF/blobs/{digest}",
        f"{CDN}/v2/me/mine-GGUF/blobs/{digest}",
    ]


@pytest.mark.parametrize("count", [1, 4])
def test_a_projector_in_a_layer_of_its_own_is_counted(
    count: int, registry: Registry, gguf: bytes, tmp_path: Path
) -> None:
    projector = write(tmp_path / "p.gguf", "clip", layers=2).read_bytes()
    registry.push(NAME, ("model", gguf), *[("projector", projector)] * count)
    assert read_name(NAME).named(NAME).projector_bytes == count * (EMBEDDING + 2 * BLOCK)


def test_one_limit_of_time_holds_for_all_answers_about_a_model(
    registry: Registry, gguf: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """None of them is slow."""
    registry.push(NAME, ("model", gguf), *[("projector", gguf)] * 4)
    monkeypatch.setattr(web, "WHOLE_SECONDS", 0.5)
    answer = registry.answer

    def answer_late(host: str, path: str, wanted: str | None, is_head: bool) -> tuple[int, dict[str, str], bytes]:
        time.sleep(0.1)
        return answer(host, path, wanted, is_head)

    monkeypatch.setattr(registry, "answer", answer_late)
    with pytest.raises(UnreadableModelError) as refusal:
        read_name(NAME)
    assert str(refusal.value) == f"{NAME} did not arrive within 0.5 s. Run the command again with a faster connection."


def padded(header: bytes) -> bytes:
    """A file with 8 MiB of weights, of which a reader of the header needs none."""
    return header + bytes(8 * 2**20)


def test_the_weights_are_not_downloaded(registry: Registry, gguf: bytes) -> None:
    registry.push(NAME, ("model", padded(gguf)))
    read_name(NAME)
    # What the kernel's buffers take before the connection is closed.
    assert registry.sent < 6 * 2**20


SAID = b'{"error": "no."}'
FAILURES: dict[str, tuple[str, int, bytes, str]] = {
    "a tag that does not exist": ("manifests", 404, b"", "hf.co has no me/mine-GGUF:Q8_0. Correct the name, or write"),
    "a login": (
        "manifests",
        401,
        b"{}",
        "hf.co wants a login for me/mine-GGUF:Q8_0. Correct the name, or download its GGUF file, and write "
        "`gguf: FILE.gguf`.",
    ),
    "no permission": ("manifests", 403, b"", "hf.co wants a login for me/mine-GGUF:Q8_0."),
    # The text: github.com/ollama/ollama/issues/8326.
    "a file in parts": (
        "manifests",
        400,
        b'{"error":"The specified repository contains sharded GGUF. Ollama does not support this yet."}',
        f"hf.co refuses {NAME}: The specified repository contains sharded GGUF. Ollama does not support this yet. "
        "Correct the name, or",
    ),
    "a refusal without a reason": ("manifests", 400, b"<html>", f"hf.co refuses {NAME}: 400 Bad Request. Correct"),
    "a refusal of 64 KiB": ("manifests", 400, SAID.ljust(2**16), f"hf.co refuses {NAME}: no. Correct"),
    "a refusal that is too long": ("manifests", 400, SAID.ljust(2**16 + 1), f"hf.co refuses {NAME}: 400 Bad Request. "),
    "a registry that is down": ("manifests", 503, b"", "hf.co answered with 503 Service Unavailable. Try again later,"),
    "no manifest": ("manifests", 200, b"<html>", "hf.co answered with no manifest of Ollama (Invalid JSON: "),
    "a huge manifest": ("manifests", 200, b" " * (2**20 + 1), "hf.co answered with a manifest of more than 1 MiB. Dow"),
    "a manifest with a path for a digest": (
        "manifests",
        200,
        b'{"layers": [{"mediaType": "application/vnd.ollama.image.model", "digest": "../../x"}]}',
        "answered with no manifest of Ollama (layers.0.digest: String should match",
    ),
    "a layer that is missing": ("blobs", 404, b"", f"{NAME} answered with 404 Not Found. The file does not exist"),
    "a layer behind a login": (
        "blobs",
        401,
        b"",
        f"{NAME} answered with 401 Unauthorized. It needs a login. Download the file",
    ),
    "a layer without ranges": ("blobs", 200, b"", f"{NAME} answered with 200 OK. It sends the whole file instead of"),
    "a layer of a server that is down": ("blobs", 500, b"", f"{NAME} answered with 500 Internal Server Error. Try aga"),
}


@pytest.mark.parametrize("case", FAILURES)
def test_a_registry_that_does_not_answer_is_one_error_with_the_next_step(
    case: str, registry: Registry, gguf: bytes
) -> None:
    where, status, body, said = FAILURES[case]
    registry.push(NAME, ("model", gguf))
    registry.failures[where] = status, body
    with pytest.raises(UnreadableModelError) as refusal:
        read_name(NAME)
    assert str(refusal.value).startswith(said) or said in str(refusal.value)
    assert str(refusal.value).endswith(".")


def cut(content: bytes) -> bytes:
    return content[:300]


WRONG_LAYERS: dict[str, tuple[tuple[str, ...], Callable[[bytes], bytes], str]] = {
    "a cut header": (
        ("model",),
        cut,
        f"{NAME} ends at byte 300, in the middle of its metadata. Choose another tag, or write `gguf: FILE.gguf`.",
    ),
    "another file": (("model",), lambda content: b"PK" + content, f"{NAME} is not a GGUF file. Choose another tag, or"),
    "an adapter": (("model", "adapter"), bytes, f"{NAME} has an adapter, which no rule covers. Merge it into the mod"),
    "five projectors": (("model", *["projector"] * 5), bytes, f"{NAME} has 5 projectors. Choose another tag, or"),
    "two models": (("model", "model"), bytes, f"{NAME} has 2 GGUF files. Choose another tag, or"),
    "a model of the cloud": ((), bytes, f"{NAME} has no GGUF file: it runs in Ollama's cloud, not on your GPU. Choose"),
    "safetensors": (("tensor", "tensor"), bytes, f"{NAME} is stored as safetensors, which llama.cpp cannot load. Ch"),
}


@pytest.mark.parametrize("case", WRONG_LAYERS)
def test_a_model_that_nobody_can_judge_is_refused(case: str, registry: Registry, gguf: bytes) -> None:
    kinds, change, said = WRONG_LAYERS[case]
    registry.push(NAME, *((kind, change(gguf)) for kind in kinds))
    with pytest.raises(UnreadableModelError) as refusal:
        read_name(NAME)
    assert str(refusal.value).startswith(said)


def test_an_unknown_architecture_is_described_by_hand(registry: Registry, tmp_path: Path) -> None:
    registry.push(NAME, ("model", write(tmp_path / "w.gguf", "warp9").read_bytes()))
    with pytest.raises(UnreadableModelError, match=r"cannot be described\. Its architecture `warp9` is unknown\. "):
        read_name(NAME)


def test_offline_the_error_has_three_ways(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UnreadableModelError) as refusal:
        read_name("qwen9:8b")
    assert str(refusal.value) == f"registry.ollama.ai is not read: TANDEM_OFFLINE is set. {ways('qwen9:8b')}"
    assert [way in ways("qwen9:8b") for way in ("inspect qwen9:8b`", "`gguf: FILE.json`", "`gguf: FILE.gguf`")] == [
        True,
        True,
        True,
    ]


def test_a_manifest_may_be_as_large_as_the_limit(registry: Registry, gguf: bytes) -> None:
    registry.push(NAME, ("model", gguf))
    manifest = registry.manifests[NAME]
    registry.manifests[NAME] = manifest + b" " * (registries.MOST_MANIFEST - len(manifest))
    assert read_name(NAME).digest


def test_the_parts_of_a_name_are_those_of_ollama() -> None:
    """ollama v0.32.15 types/model/name.go: DefaultName."""
    assert str(Reference.of("mine")) == "registry.ollama.ai/library/mine:latest"
    assert str(Reference.of("a.b:1/c/d:e")) == "a.b:1/c/d:e"


SHAPES = {
    # As gguf's own reader prints them: architecture, tokens, layers, width, and layers with a window.
    "qwen2": ("qwen2", 151_936, 32, 4096, 0),
    "llama-bpe": ("llama", 128_256, 32, 4096, 0),
    "phi-3": ("phi3", 32_064, 32, 3072, 0),
    "gemma-4": ("gemma4", 262_144, 30, 2816, 25),
}


@pytest.mark.parametrize("name", SHAPES)
def test_a_real_vocabulary_is_read_past(name: str, registry: Registry) -> None:
    """Headers of real models: their metadata and vocabulary, followed by tensors of that model's shape."""
    source = Path(VOCABULARIES) / f"ggml-vocab-{name}.gguf"
    if not VOCABULARIES or not source.is_file():
        pytest.skip("TANDEM_VOCABULARIES names no folder with vocabularies of llama.cpp")
    architecture, rows, layers, width, windowed = SHAPES[name]
    shapes = {"token_embd.weight": (width, rows)} | {
        f"blk.{layer}.ffn_up.weight": (width, width) for layer in range(layers)
    }
    content = source.read_bytes()
    _, version, _, keys = struct.unpack("<4sIQQ", content[:24])
    infos = b"".join(tensor(each, shape, kind=1) for each, shape in shapes.items())
    header = b"GGUF" + struct.pack("<IQQ", version, len(shapes), keys) + content[24:] + infos
    registry.push(NAME, ("model", padded(header) + bytes(2 * width * max(rows, width))))
    model = read_name(NAME).named(NAME)
    assert (model.architecture, model.layers, model.vocabulary, model.width) == (architecture, layers, rows, width)
    assert (model.quant, model.swa_layers) == ("F16", windowed)
    assert model.weights_bytes == 2 * width * (rows + layers * width)
