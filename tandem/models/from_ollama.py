"""Asks a running Ollama for the description of a model that it has pulled."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import httpx
from gguf import GGMLQuantizationType

from sharing.metadata import Tensor
from sharing.printable import printable
from tandem.connection import Endpoint
from tandem.models.gguf_file import MOST_DIMENSIONS, MOST_TENSORS, Contents, UnreadableModelError, tensor_bytes
from tandem.ollama import Ollama

SAFETENSORS = "safetensors"


def read_tag(tag: str, url: str, transport: httpx.BaseTransport | None = None) -> tuple[Contents, int]:
    """What the Ollama at `url` says about `tag`, and at most how many bytes its projector has in a file of its own.

    Raises `UnreadableModelError`, and `tandem.ollama.OllamaError` where the server does not answer.
    """
    with Ollama(Endpoint("Ollama", url, tag), transport=transport) as server:
        answer = server.show(tag)
        contents = _contents(tag, answer)
        projector = _projector_bytes(tag, contents, server.models()) if answer.get("projector_info") else 0
    return contents, projector


def _contents(tag: str, answer: Mapping[str, Any]) -> Contents:
    details = answer.get("details")
    if answer.get("remote_host"):
        raise UnreadableModelError(f"{tag} runs in Ollama's cloud, on no GPU of yours. Name a model that you can pull.")
    if isinstance(details, dict) and details.get("format") == SAFETENSORS:
        raise UnreadableModelError(f"{tag} is stored as safetensors, which llama.cpp cannot load. Pull a GGUF of it.")
    metadata, tensors = answer.get("model_info"), answer.get("tensors")
    if not isinstance(metadata, dict) or not isinstance(tensors, list) or len(tensors) > MOST_TENSORS:
        raise UnreadableModelError(
            f"Ollama describes {tag} without metadata or tensors. Update Ollama, and pull it again."
        )
    kept = {key: value for key, value in metadata.items() if not key.startswith("tokenizer.")}
    return Contents(kept, tuple(_tensors(tag, tensors)))


def _tensors(tag: str, listed: Sequence[Any]) -> Iterator[Tensor]:
    for each in listed:
        try:
            shape = [int(edge) for edge in each["shape"]]
            if len(shape) > MOST_DIMENSIONS:
                raise ValueError(f"{len(shape)} dimensions")
            yield Tensor(str(each["name"]), tuple(shape), tensor_bytes(GGMLQuantizationType[each["type"]], shape))
        except (KeyError, TypeError, ValueError) as error:
            raise UnreadableModelError(
                f"Ollama describes a tensor of {tag} in an unknown way ({printable(str(error))[:80]}). Read its "
                "GGUF file instead."
            ) from None


def _projector_bytes(tag: str, contents: Contents, listed: Sequence[Mapping[str, Any]]) -> int:
    """All that the tag has besides its tensors. Ollama does not say how large the projector alone is."""
    for model in listed:
        if model.get("name") in (tag, f"{tag}:latest") and isinstance(model.get("size"), int):
            return max(0, int(model["size"]) - contents.bytes)
    raise UnreadableModelError(f"Ollama does not say how large {tag} is. Name its projector with `--projector`.")
