"""OpenWebUI: the settings of its container, and which values are secrets."""

import json
from typing import Any

import pytest

from components import OpenWebUI, OpenWebUIArgs
from sandbox.graph import Graph, holds_secret, masked, plain
from sandbox.preview.program import run

MAIL = "ops@example.com"
URLS = ["http://llama2-7b.ollama:11434", "http://mistral-7b.ollama:11434"]


@pytest.fixture(scope="module")
def graph() -> Graph:
    args = OpenWebUIArgs(model_urls=URLS, admin_email=MAIL)
    return run(lambda: OpenWebUI("page", args), project="test", stack="test")


@pytest.fixture(scope="module")
def keeping() -> Graph:
    """A page with a volume and an embedding model."""
    args = OpenWebUIArgs(
        model_urls=URLS,
        admin_email=MAIL,
        storage_gib=7,
        zone="us-east-1b",
        embedding_url="http://nomic-embed-text.ollama:11434",
        embedding_model="nomic-embed-text",
        chunk_characters=800,
        tags={"team": "ml"},
    )
    return run(lambda: OpenWebUI("page", args), project="test", stack="test")


def only(graph: Graph, kind: str) -> dict[str, Any]:
    """The inputs of the only resource of a kind."""
    [found] = graph.of_type(kind)
    return dict(plain(found.inputs))


def pod(graph: Graph) -> dict[str, Any]:
    return dict(only(graph, "kubernetes:apps/v1:Deployment")["spec"]["template"]["spec"])


def settings(graph: Graph) -> dict[str, str]:
    return {one["name"]: one["value"] for one in pod(graph)["containers"][0]["env"]}


@pytest.mark.real_world(
    behaviour="Open WebUI reads the addresses of all Ollama servers from one variable, separated by semicolons",
    source="open-webui 0.11.4, open_webui/config.py, OLLAMA_BASE_URLS",
)
def test_all_models_are_in_one_list(graph: Graph) -> None:
    assert settings(graph)["OLLAMA_BASE_URLS"] == ";".join(URLS)


@pytest.mark.real_world(
    behaviour="By default, Open WebUI lets the first visitor become administrator, asks api.openai.com for models and "
    "checks for updates, and keeps the settings of its first start",
    source="open-webui 0.11.4, open_webui/env.py and open_webui/config.py",
)
def test_nobody_can_sign_up_and_the_page_asks_no_other_service(graph: Graph) -> None:
    found = settings(graph)
    off = ("ENABLE_SIGNUP", "ENABLE_OPENAI_API", "ENABLE_PERSISTENT_CONFIG", "ENABLE_VERSION_UPDATE_CHECK")
    assert {found[name] for name in off} == {"false"}
    assert found["ANONYMIZED_TELEMETRY"] == found["ENABLE_COMMUNITY_SHARING"] == "false"
    assert found["OFFLINE_MODE"] == found["DO_NOT_TRACK"] == found["SCARF_NO_ANALYTICS"] == "true"


@pytest.mark.real_world(
    behaviour="By default, only administrators of Open WebUI see a model, and no program can log in with a key. With "
    "endpoint restrictions, a key is valid for the listed paths and what is below them",
    source="open-webui 0.11.4, open_webui/utils/models.py, get_filtered_models, and utils/auth.py, "
    "get_current_user_by_api_key",
)
def test_all_users_see_the_models_and_keys_are_for_models_and_chats_alone(graph: Graph) -> None:
    found = settings(graph)
    on = ("BYPASS_MODEL_ACCESS_CONTROL", "ENABLE_API_KEYS", "USER_PERMISSIONS_FEATURES_API_KEYS")
    assert {found[name] for name in (*on, "ENABLE_API_KEYS_ENDPOINT_RESTRICTIONS")} == {"true"}
    assert found["API_KEYS_ALLOWED_ENDPOINTS"] == "/api/models,/api/chat/completions"


def test_key_address_and_password_are_only_in_a_secret(graph: Graph) -> None:
    [secret] = graph.of_type("kubernetes:core/v1:Secret")
    assert holds_secret(secret.inputs["stringData"])
    values = plain(secret.inputs)["stringData"]
    assert {*values} == {"WEBUI_SECRET_KEY", "WEBUI_ADMIN_EMAIL", "WEBUI_ADMIN_PASSWORD"}
    assert values["WEBUI_ADMIN_EMAIL"] == MAIL
    assert values["WEBUI_SECRET_KEY"] != values["WEBUI_ADMIN_PASSWORD"]
    assert len(values["WEBUI_SECRET_KEY"]) == len(values["WEBUI_ADMIN_PASSWORD"]) == 32
    shown = json.dumps([[masked(one.inputs), masked(graph.outputs.get(one.urn, {}))] for one in graph])
    assert [value for value in values.values() if value in shown] == []
    [container] = pod(graph)["containers"]
    assert container["envFrom"] == [{"secretRef": {"name": "page-credentials-0000000"}}]


def test_without_a_volume_everything_is_in_the_pod(graph: Graph) -> None:
    [volume] = pod(graph)["volumes"]
    assert volume == {"name": "data", "emptyDir": {"sizeLimit": "2Gi"}}
    assert {one.type for one in graph if "olume" in one.type} == set()


def test_accounts_and_documents_are_on_a_volume_that_pulumi_deletes(keeping: Graph) -> None:
    [volume] = pod(keeping)["volumes"]
    assert volume == {"name": "data", "persistentVolumeClaim": {"claimName": "data"}}
    [mount] = pod(keeping)["containers"][0]["volumeMounts"]
    assert (mount["name"], mount["mountPath"]) == ("data", settings(keeping)["DATA_DIR"])
    disk, persistent = only(keeping, "aws:ebs/volume:Volume"), only(keeping, "kubernetes:core/v1:PersistentVolume")
    assert (disk["availabilityZone"], disk["size"], disk["encrypted"]) == ("us-east-1b", 7, True)
    assert disk["tags"]["team"] == "ml"
    assert persistent["spec"]["claimRef"] == {"name": "data", "namespace": "open-webui"}
    terms = persistent["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"]
    assert terms[0]["matchExpressions"][0]["values"] == ["us-east-1b"]
    [made] = keeping.of_type("aws:ebs/volume:Volume")
    assert persistent["spec"]["csi"]["volumeHandle"] == made.id
    strategy = only(keeping, "kubernetes:apps/v1:Deployment")["spec"]["strategy"]
    assert strategy == {"type": "Recreate"}, "two pods cannot mount the volume"


@pytest.mark.real_world(
    behaviour="The EBS driver enlarges a file system when it mounts a larger volume; a static claim cannot grow",
    source="aws-ebs-csi-driver pkg/driver/node.go, NodeStageVolume; kubernetes.io/docs/concepts/storage/"
    "persistent-volumes, Expanding Persistent Volumes Claims",
)
def test_a_larger_volume_restarts_the_pod_and_keeps_its_claim(keeping: Graph) -> None:
    args = OpenWebUIArgs(model_urls=URLS, admin_email=MAIL, storage_gib=9, zone="us-east-1b")
    larger = run(lambda: OpenWebUI("page", args), project="test", stack="test")
    claims = [only(each, "kubernetes:core/v1:PersistentVolumeClaim") for each in (keeping, larger)]
    assert claims[0] == claims[1]
    pods = [only(each, "kubernetes:apps/v1:Deployment")["spec"]["template"] for each in (keeping, larger)]
    assert [each["metadata"]["annotations"] for each in pods] == [
        {"tandem/storage-gib": "7"},
        {"tandem/storage-gib": "9"},
    ]


def test_without_an_embedding_model_documents_go_into_the_prompt(graph: Graph) -> None:
    assert settings(graph)["BYPASS_EMBEDDING_AND_RETRIEVAL"] == "true"
    assert [name for name in settings(graph) if name.startswith(("CHUNK", "RAG_OLLAMA", "RAG_EMBEDDING_MODEL"))] == []


@pytest.mark.real_world(
    behaviour="By default, Open WebUI sends each passage in a request of its own, and all at once; Ollama queues 512",
    source="open-webui 0.11.4, open_webui/config.py, RAG_EMBEDDING_BATCH_SIZE and RAG_EMBEDDING_CONCURRENT_REQUESTS; "
    "ollama v0.32.15 envconfig/config.go, OLLAMA_MAX_QUEUE",
)
def test_documents_are_searched_with_the_embedding_model_which_is_none_to_chat_with(keeping: Graph) -> None:
    found = settings(keeping)
    assert "BYPASS_EMBEDDING_AND_RETRIEVAL" not in found
    assert (found["RAG_EMBEDDING_ENGINE"], found["RAG_EMBEDDING_MODEL"]) == ("ollama", "nomic-embed-text")
    assert found["RAG_OLLAMA_BASE_URL"] == "http://nomic-embed-text.ollama:11434"
    assert found["OLLAMA_BASE_URLS"] == ";".join(URLS)
    assert (found["CHUNK_SIZE"], found["CHUNK_OVERLAP"]) == ("800", "100")
    assert (found["RAG_EMBEDDING_BATCH_SIZE"], found["RAG_EMBEDDING_CONCURRENT_REQUESTS"]) == ("16", "1")
