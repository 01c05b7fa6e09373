"""Models of a registry that speaks Ollama's protocol, as registry.ollama.ai and hf.co do: manifest and header.

Source: ollama v0.32.15 server/images.go (pullModelManifest, PullModel) and types/model/name.go.
"""

from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from sharing.models.catalogue import DEFAULT_TAG, LIBRARY, LIBRARY_HOST, Model
from sharing.models.metadata import UnclearModelError, derive_model
from sharing.printable import quoted
from stacks.model_files.description import Description, first_of
from stacks.model_files.errors import ContentError, UnknownModelError, UnreadableModelError
from stacks.model_files.gguf_file import Contents
from stacks.model_files.web import UnreachableError, in_time, open_answer, read_url, status_of

ACCEPT = {"Accept": "application/vnd.docker.distribution.manifest.v2+json"}
MODEL = "application/vnd.ollama.image.model"
PROJECTOR = "application/vnd.ollama.image.projector"
ADAPTER = "application/vnd.ollama.image.adapter"
TENSOR = "application/vnd.ollama.image.tensor"
"""A layer of a model that is stored as safetensors, which llama.cpp cannot load."""
MOST_MANIFEST = 2**20
"""Bytes of a manifest. Those of the library have about 1 KiB."""
MOST_ERROR = 2**16
MOST_PROJECTORS = 4
"""Models have one at most, and each is one more request."""
FOUND, BAD_REQUEST, NO_LOGIN, FORBIDDEN, MISSING = 200, 400, 401, 403, 404
BY_FILE = "Download its GGUF file, and write `gguf: FILE.gguf`."
OTHER = "Correct the name, or write `gguf: FILE.gguf` for a model of your own."
ANOTHER = "Choose another tag, or write `gguf: FILE.gguf`."
LATER = "Try again later, or write `gguf: FILE.gguf`."


@dataclass(frozen=True, slots=True)
class Reference:
    """A model's name in its parts."""

    host: str
    namespace: str
    model: str
    tag: str

    @classmethod
    def of(cls, name: str) -> "Reference":
        """The parts of a valid name, with Ollama's defaults."""
        *place, last = name.split("/")
        model, _, tag = last.partition(":")
        namespace = place[-1] if place else LIBRARY
        return cls(place[0] if len(place) > 1 else LIBRARY_HOST, namespace, model, tag or DEFAULT_TAG)

    def __str__(self) -> str:
        return f"{self.host}/{self.namespace}/{self.model}:{self.tag}"

    def url(self, kind: str, what: str) -> str:
        """The address of its manifest or of one of its layers."""
        return f"https://{self.host}/v2/{self.namespace}/{self.model}/{kind}/{what}"


class _Layer(BaseModel):
    model_config = ConfigDict(strict=True)

    kind: str = Field(alias="mediaType")
    digest: str = Field(pattern=r"^sha256:[0-9a-f]{64}$")


class _Manifest(BaseModel):
    model_config = ConfigDict(strict=True)

    layers: list[_Layer]

    def digests(self, kind: str) -> list[str]:
        """Digests of the layers of that kind."""
        return [layer.digest for layer in self.layers if layer.kind == kind]


def read_name(name: str) -> Description:
    """The description of the model that Ollama would pull for `name`. Raises `UnreadableModelError`."""
    reference = Reference.of(name)
    try:
        return in_time(str(reference), lambda: _read(reference))
    except UnreachableError as error:
        raise type(error)(error.what, ways(name)) from None


def _read(reference: Reference) -> Description:
    manifest = _read_manifest(reference)
    digest = _only_model(reference, manifest)
    projectors = [_read_layer(reference, each) for each in manifest.digests(PROJECTOR)]
    model = describe(str(reference), _read_layer(reference, digest), sum(each.bytes for each in projectors))
    return Description.of(model, digest=digest)


def ways(name: str) -> str:
    """What to do for a model that is in a registry which this machine does not reach."""
    return (
        f"Connect once and run `tandem models inspect {name}`; or run it elsewhere with `--write FILE.json` and write "
        "`gguf: FILE.json`; or write `gguf: FILE.gguf`."
    )


def describe(source: str, contents: Contents, projector_bytes: int = 0) -> Model:
    """The model that a file describes. Raises `UnreadableModelError`."""
    try:
        return derive_model(contents.metadata, contents.tensors, projector_bytes=projector_bytes, source=source)
    except UnclearModelError as error:
        raise UnreadableModelError(f"{source} cannot be described", str(error)) from None


def _read_manifest(reference: Reference) -> _Manifest:
    with open_answer(reference.url("manifests", reference.tag), reference.host, ACCEPT) as response:
        _check_status(reference, response)
        content = b""
        for part in response.iter_bytes():
            content += part
            if len(content) > MOST_MANIFEST:
                what = f"{reference.host} answered with a manifest of more than {MOST_MANIFEST // 2**20} MiB"
                raise UnreadableModelError(what, BY_FILE)
    try:
        return _Manifest.model_validate_json(content)
    except ValidationError as error:
        what = f"{reference.host} answered with no manifest of Ollama ({quoted(first_of(error))})"
        raise UnreadableModelError(what, OTHER) from None


def _check_status(reference: Reference, response: Any) -> None:
    status, host = response.status_code, reference.host
    if status == FOUND:
        return
    if status == MISSING:
        raise UnknownModelError(f"{host} has no {reference.namespace}/{reference.model}:{reference.tag}", OTHER)
    if status in (NO_LOGIN, FORBIDDEN):
        # Hugging Face answers 401 for a repository that does not exist, too: huggingface_hub src/huggingface_hub/
        # utils/_http.py, hf_raise_for_status.
        what = f"{host} wants a login for {reference.namespace}/{reference.model}:{reference.tag}"
        raise UnreadableModelError(what, f"Correct the name, or {BY_FILE[0].lower()}{BY_FILE[1:]}")
    if status == BAD_REQUEST:  # Hugging Face's answer for a tag that it does not have, with the reason
        raise UnreadableModelError(f"{host} refuses {reference}: {_said(response) or status_of(response)}", OTHER)
    raise UnreadableModelError(f"{host} answered with {status_of(response)}", LATER)


def _said(response: Any) -> str:
    """The reason in an error of Hugging Face: `{"error": "…"}`."""
    content = b""
    for part in response.iter_bytes():
        content += part
        if len(content) > MOST_ERROR:
            return ""
    try:
        return quoted(_Failure.model_validate_json(content).error).rstrip(". ")
    except ValidationError:
        return ""


class _Failure(BaseModel):
    error: str


def _only_model(reference: Reference, manifest: _Manifest) -> str:
    """The digest of the model's one GGUF file."""
    models = manifest.digests(MODEL)
    if manifest.digests(ADAPTER):
        what = f"{reference} has an adapter, which no rule covers"
        raise UnreadableModelError(what, "Merge it into the model, and write `gguf: FILE.gguf`.")
    if manifest.digests(TENSOR):
        what = f"{reference} is stored as safetensors, which llama.cpp cannot load"
        raise UnreadableModelError(what, ANOTHER)
    if (count := len(manifest.digests(PROJECTOR))) > MOST_PROJECTORS:
        raise UnreadableModelError(f"{reference} has {count} projectors", ANOTHER)
    if len(models) == 1:
        return models[0]
    if models:
        raise UnreadableModelError(f"{reference} has {len(models)} GGUF files", ANOTHER)
    what = f"{reference} has no GGUF file: it runs in Ollama's cloud, not on your GPU"
    raise UnreadableModelError(what, "Choose a tag that you can pull.")


def _read_layer(reference: Reference, digest: str) -> Contents:
    try:
        return read_url(reference.url("blobs", digest), str(reference))
    except ContentError as error:
        raise UnreadableModelError(error.what, ANOTHER) from None
