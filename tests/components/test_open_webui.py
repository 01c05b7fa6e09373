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
