"""Asks a running Ollama for the description of a model that it has pulled."""

from collections.abc import Iterator, Sequence

from sharing.models.metadata import Tensor
from sharing.models.tensor_types import BY_NAME
from sharing.printable import printable
from stacks.model_files.errors import UnreadableModelError
from stacks.model_files.gguf_file import Contents, tensor_bytes
from tandem.deployed import ollama_replies
from tandem.deployed.ollama import Ollama, same_tag
from tandem.deployed.ollama_replies import Shown

SAFETENSORS = "safetensors"


def read_tag(server: Ollama) -> tuple[Contents, int]:
    """A server's description of its endpoint's model, and an upper bound of its projector's bytes.

    Raises `UnreadableModelError`, and `tandem.deployed.ollama.OllamaError` if the server does not answer.
    """
    tag, answer = server.endpoint.model, server.show()
    contents = _contents(tag, answer)
    return contents, _projector_bytes(tag, contents, server.models()) if answer.projector_info else 0


def _contents(tag: str, answer: Shown) -> Contents:
    if answer.remote_host:
        raise UnreadableModelError(
            f"{tag} runs in Ollama's cloud, not on your GPU", "Choose a model that you can pull."
        )
    if answer.details and answer.details.format == SAFETENSORS:
        raise UnreadableModelError(f"{tag} is stored as safetensors, which llama.cpp cannot load", "Pull a GGUF of it.")
    if answer.model_info is None or answer.tensors is None:
        raise UnreadableModelError(
            f"Ollama describes {tag} without metadata or tensors", "Update Ollama, then pull the model again."
        )
    kept = {key: value for key, value in answer.model_info.items() if not key.startswith("tokenizer.")}
    return Contents(kept, tuple(_tensors(tag, answer.tensors)))


def _tensors(tag: str, listed: Sequence[ollama_replies.Tensor]) -> Iterator[Tensor]:
    for each in listed:
        try:
            yield Tensor(each.name, tuple(each.shape), tensor_bytes(BY_NAME[each.type], each.shape))
        except (KeyError, ValueError) as error:
            raise UnreadableModelError(
                f"Ollama describes a tensor of {tag} in an unknown way ({printable(str(error))[:80]})",
                "Read its GGUF file instead.",
            ) from None


def _projector_bytes(tag: str, contents: Contents, listed: Sequence[ollama_replies.Model]) -> int:
    """All bytes of the tag besides its tensors. Ollama does not report the projector's size."""
    for model in listed:
        if same_tag(model.name, tag) and model.size is not None:
            return max(0, model.size - contents.bytes)
    raise UnreadableModelError(f"Ollama does not report the size of {tag}", "Pass its projector with `--projector`.")
