"""Reading from a Kubernetes API: what it gets, and one error for everything else."""

import socket

import pytest

from stacks import kubernetes_api
from stacks.kubernetes_api import KubernetesApi, NotAdmittedError, NotReachedError
from tests.authority import identify_server, show_authority
from tests.components.json_server import Answer, serve

PATH = "/apis/apps/v1/daemonsets"
STATUS = {"kind": "Status", "message": "no"}


def read(answer: Answer) -> tuple[object, str | None]:
    with serve(lambda _: answer, identify_server()) as server:
        endpoint = f"https://127.0.0.1:{server.server_port}"
        api = KubernetesApi(endpoint=endpoint, authority=show_authority(), token="secret")
        found = api.read(PATH)
        [asked] = server.asked
    assert (asked.method, asked.path) == ("GET", PATH)
    return found, asked.authorization


def test_a_list_is_read_with_the_token() -> None:
    assert read((200, {"items": []})) == ({"items": []}, "Bearer secret")


def test_a_path_that_the_server_does_not_know_is_no_error() -> None:
    assert read((404, STATUS))[0] is None


@pytest.mark.parametrize(
    ("answer", "error", "said"),
    [
        ((401, STATUS), NotAdmittedError, f"401 for {PATH}"),
        ((403, STATUS), NotAdmittedError, f"403 for {PATH}"),
        ((503, STATUS), NotReachedError, f"503 for {PATH}"),
        ((200, ["items"]), NotReachedError, f"the answer to {PATH} is no object of Kubernetes"),
        # HTTP has statuses of three digits: RFC 9110, 15.
        ((1000, STATUS), NotReachedError, "HTTP/1.0 1000"),
    ],
)
def test_any_other_answer_is_an_error(answer: Answer, error: type[Exception], said: str) -> None:
    with pytest.raises(error, match=f"^{said}$"):
        read(answer)


def test_a_server_that_is_silent_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kubernetes_api, "SECONDS", 0.01)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        endpoint = f"https://127.0.0.1:{silent.getsockname()[1]}"
        with pytest.raises(NotReachedError, match="timed out"):
            KubernetesApi(endpoint=endpoint, authority=show_authority(), token="").read(PATH)


@pytest.mark.parametrize("endpoint", ["https://127.0.0.1:1", "nowhere"])
def test_a_server_that_does_not_answer_is_an_error(endpoint: str) -> None:
    with pytest.raises(NotReachedError):
        KubernetesApi(endpoint=endpoint, authority=show_authority(), token="").read(PATH)
