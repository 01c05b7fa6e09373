"""A kubeconfig, reduced to the context in use, and the errors that name their fix."""

import base64
import json
import stat
from pathlib import Path
from typing import Any

import pytest

from tandem.deployed import kubeconfig
from tandem.deployed.endpoints import NotConnectedError
from tandem.deployed.kubeconfig import Chosen
from tests.tandem.deployed.errors import ERRORS

SECRET = "very-secret-token"
HOST = {"server": "https://x"}


def config(**changes: Any) -> dict[str, Any]:
    return {
        "clusters": [{"name": "c", "cluster": {"server": "https://api.example:6443"}}],
        "users": [{"name": "u", "user": {"token": SECRET}}],
        "contexts": [
            {"name": "one", "context": {"cluster": "c", "user": "u"}},
            {"name": "two", "context": {"cluster": "c", "user": "nobody"}},
        ],
        "current-context": "one",
        **changes,
    }


def chosen(cluster: dict[str, Any], user: dict[str, Any], folder: Path = Path("/")) -> Chosen:
    entries = {"clusters": [{"name": "c", "cluster": cluster}], "users": [{"name": "u", "user": user}]}
    return kubeconfig.parse(json.dumps(config(**entries)), "FILE", folder=folder)


def given_to_kr8s(cluster: dict[str, Any], user: dict[str, Any], folder: Path) -> dict[str, Any]:
    """The settings of the cluster and of the user that kr8s gets."""
    made = chosen(cluster, user, folder).for_kr8s(folder)
    return {**made["clusters"][0]["cluster"], **made["users"][0]["user"]}


def test_the_current_context_is_used_unless_another_is_named(tmp_path: Path) -> None:
    users = [{"name": "u", "user": {"token": SECRET}}, {"name": "nobody", "user": {"token": "other"}}]
    path = tmp_path / "config"
    path.write_text(json.dumps(config(users=users)))
    assert kubeconfig.read(path, None).user == {"token": SECRET}
    chosen = kubeconfig.read(path, "two")
    assert (chosen.context, chosen.user, chosen.host) == ("two", {"token": "other"}, "api.example:6443")


@pytest.mark.parametrize(("text", "context", "says"), ERRORS["kubeconfigs"])
def test_an_error_is_one_line_without_secrets(text: Any, context: str | None, says: str) -> None:
    text = text if isinstance(text, str) else json.dumps(config(**text))
    with pytest.raises(NotConnectedError) as error:
        kubeconfig.parse(text, "FILE", context)
    assert str(error.value).startswith("FILE")
    assert says in str(error.value)
    assert "\n" not in str(error.value)
    assert SECRET not in str(error.value)


def test_kr8s_gets_one_context_with_its_cluster_and_user(tmp_path: Path) -> None:
    """Keys of a kubeconfig: client-go tools/clientcmd/api/v1/types.go, Config."""
    made = chosen(HOST, {"token": SECRET}).for_kr8s(tmp_path)
    [context], [cluster], [user] = made["contexts"], made["clusters"], made["users"]
    assert (made["apiVersion"], made["kind"], made["current-context"]) == ("v1", "Config", context["name"])
    assert context["context"] == {"cluster": cluster["name"], "user": user["name"]}
    assert (cluster["cluster"], user["user"]) == (HOST, {"token": SECRET})


def test_an_unreadable_file_is_reported(tmp_path: Path) -> None:
    (tmp_path / "bytes").write_bytes(b"\xff\xfe\x00")
    for name, why in (("nowhere", "No such file"), ("", "Is a directory"), ("bytes", "not text")):
        with pytest.raises(NotConnectedError, match=f"cannot read the kubeconfig .*{name}: {why}"):
            kubeconfig.read(tmp_path / name, None)
    with pytest.raises(NotConnectedError, match="cannot read the kubeconfig ~nobody-has-this-name/x: "):
        kubeconfig.read(Path("~nobody-has-this-name/x"), None)


def test_inline_data_is_written_to_private_files(tmp_path: Path) -> None:
    names = ("certificate-authority", "client-certificate", "client-key")
    inline = {f"{name}-data": base64.b64encode(name.encode()).decode() for name in names}
    ca = inline.pop("certificate-authority-data")
    given = given_to_kr8s({**HOST, "certificate-authority-data": ca}, inline, tmp_path)
    assert given == {**HOST, **{name: str(tmp_path / name) for name in names}}
    for name in names:
        assert (tmp_path / name).read_text() == name
        assert stat.S_IMODE((tmp_path / name).stat().st_mode) == 0o600


@pytest.mark.parametrize("inline", ["abc", 7])
def test_broken_base64_is_reported_without_showing_it(inline: object, tmp_path: Path) -> None:
    with pytest.raises(NotConnectedError) as refused:
        given_to_kr8s(HOST, {"client-key-data": inline}, tmp_path)
    assert str(refused.value) == "the client-key-data of context 'one' is not base64. Get a new kubeconfig."


def test_relative_paths_are_relative_to_the_file(tmp_path: Path) -> None:
    for name in ("ca.pem", "key.pem"):
        (tmp_path / name).touch()
    given = given_to_kr8s({**HOST, "certificate-authority": "ca.pem"}, {"client-key": "key.pem"}, tmp_path)
    assert given == {**HOST, "certificate-authority": f"{tmp_path}/ca.pem", "client-key": f"{tmp_path}/key.pem"}


@pytest.mark.parametrize(
    ("command", "becomes"), [("./login", "/home/me/login"), ("aws", "aws"), ("/bin/aws", "/bin/aws")]
)
def test_a_login_program_with_a_slash_is_relative_to_the_file(command: str, becomes: str, tmp_path: Path) -> None:
    made = chosen(HOST, {"exec": {"command": command, "args": ["x"]}}, Path("/home/me"))
    assert made.program == command
    assert made.for_kr8s(tmp_path)["users"][0]["user"] == {"exec": {"command": becomes, "args": ["x"]}}


@pytest.mark.parametrize("name", ["certificate-authority", "client-certificate", "client-key", "tokenFile"])
@pytest.mark.parametrize(
    ("path", "why"), [("moved", "No such file or directory"), ("a\0b", "not a path"), (7, "not a path")]
)
def test_a_missing_file_is_named(name: str, path: Any, why: str, tmp_path: Path) -> None:
    """kr8s would fail with an AttributeError, because it looks for the folder of a kubeconfig without a file."""
    settings = {name: path}
    cluster, user = ({**HOST, **settings}, {}) if name == "certificate-authority" else (HOST, settings)
    with pytest.raises(NotConnectedError, match=f"the {name} of context 'one' cannot be read: .*: {why}. Restore"):
        given_to_kr8s(cluster, user, tmp_path)


def test_a_token_file_overrides_a_token(tmp_path: Path) -> None:
    """Like kubectl: client-go tools/clientcmd/api/v1/types.go, AuthInfo.TokenFile."""
    (tmp_path / "token").write_bytes(b"new\xff\n")
    assert given_to_kr8s(HOST, {"token": "old", "tokenFile": "token"}, tmp_path)["token"] == "new\ufffd"
