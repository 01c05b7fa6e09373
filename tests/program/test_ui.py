"""The page of a whole stack: which model it chats with, which one searches documents, and what it keeps."""

from typing import Any

import pytest

from sandbox.graph import Graph, masked, plain
from tests.program.conftest import graph_with

MAIL = "ops@example.com"
CHAT = {"name": "llama3.2:3b", "context": 2048}
NOMIC, SMALL = {"name": "nomic-embed-text", "context": 2048}, {"name": "all-minilm:22m", "context": 300}


def page(*models: dict[str, Any], **ui: Any) -> Graph:
    sections = {"models": [*models], "sharing": {"mode": "timeslice", "replicas": max(2, len(models))}}
    return graph_with("dev", {**sections, "ui": {"enabled": True, "admin-email": MAIL, **ui}})


def settings(graph: Graph) -> dict[str, str]:
    spec = plain(graph.named("tandem-ui-server").inputs)["spec"]["template"]["spec"]
    return {one["name"]: one["value"] for one in spec["containers"][0]["env"]}


@pytest.mark.parametrize(
    ("models", "embedding", "characters"),
    [
        ((CHAT, NOMIC, SMALL), "nomic-embed-text", "1000"),
        ((SMALL, CHAT, NOMIC), "all-minilm-22m", "600"),
    ],
)
def test_the_first_embedding_model_searches_documents_in_passages_that_fit_its_context(
    models: tuple[dict[str, Any], ...], embedding: str, characters: str
) -> None:
    found = settings(page(*models))
    assert found["OLLAMA_BASE_URLS"] == "http://llama3-2-3b.ollama:11434"
    assert found["RAG_OLLAMA_BASE_URL"] == f"http://{embedding}.ollama:11434"
    assert found["RAG_EMBEDDING_MODEL"].partition(":")[0] == embedding.removesuffix("-22m")
    assert found["CHUNK_SIZE"] == characters


def test_models_that_chat_are_all_in_the_list() -> None:
    found = settings(page(CHAT, {"name": "llama3.2:1b", "context": 2048}))
    assert found["OLLAMA_BASE_URLS"] == "http://llama3-2-3b.ollama:11434;http://llama3-2-1b.ollama:11434"
    assert found["BYPASS_EMBEDDING_AND_RETRIEVAL"] == "true"


def test_a_page_keeps_accounts_by_default_and_the_outputs_say_what_destroy_deletes() -> None:
    graph = page(CHAT)
    volume = graph.named("tandem-ui-accounts-and-documents-volume")
    assert plain(volume.inputs)["size"] == 4
    outputs = masked(graph.stack_outputs)
    assert outputs["ui_volume_id"] == volume.id
    assert outputs["destroy_deletes"] == "accounts, chats and documents of the page"


def test_a_page_without_storage_has_no_volume() -> None:
    graph = page(CHAT, **{"storage-gib": 0})
    assert [one.name for one in graph if one.name.startswith("tandem-ui") and "volume" in one.name] == []
    assert "destroy_deletes" not in graph.stack_outputs
