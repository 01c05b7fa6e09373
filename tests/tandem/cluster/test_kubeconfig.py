"""A kubeconfig, reduced to what is used; everything that may be wrong with one."""

import base64
import json
import stat
from pathlib import Path
from typing import Any

import pytest

from tandem.cluster import kubeconfig
from tandem.connection import NotConnectedError

SECRET = "very-secret-token"


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


def test_the_current_context_is_taken_unless_another_is_named(tmp_path: Path) -> None:
    users = [{"name": "u", "user": {"token": SECRET}}, {"name": "nobody", "user": {"token": "other"}}]
    path = tmp_path / "config"
    path.write_text(json.dumps(config(users=users)))
    assert kubeconfig.read(path, None).user == {"token": SECRET}
    chosen = kubeconfig.read(path, "two")
    assert (chosen.context, chosen.user, chosen.host) == ("two", {"token": "other"}, "api.example:6443")


@pytest.mark.parametrize(
    ("text", "context", "says"),
    [
        ("a: [", None, "is neither YAML nor JSON"),
        ("- a", None, "is no kubeconfig"),
        ("{}", None, "has no current context: say --context NAME (none)"),
        (json.dumps(config(**{"current-context": ""})), None, "has no current context: say --context NAME (one, two)"),
        (json.dumps(config()), "three", "has no context 'three'. It has one, two"),
        (json.dumps(config()), "two", "context 'two' names no user that stands there"),
        (json.dumps(config(clusters=[])), None, "context 'one' names no cluster with a server"),
        (json.dumps(config(clusters=[{"name": "c", "cluster": {}}])), None, "names no cluster with a server"),
    ],
)
def test_what_is_wrong_is_one_line_that_shows_no_secret(text: str, context: str | None, says: str) -> None:
    with pytest.raises(NotConnectedError) as error:
        kubeconfig.parse(text, "FILE", context)
    assert str(error.value).startswith("FILE")
    assert says in str(error.value)
    assert "\n" not in str(error.value)
    assert SECRET not in str(error.value)


def test_an_unreadable_file_is_told(tmp_path: Path) -> None:
    with pytest.raises(NotConnectedError, match=r"cannot read the kubeconfig .*nowhere: No such file"):
        kubeconfig.read(tmp_path / "nowhere", None)
    with pytest.raises(NotConnectedError, match="Is a directory"):
        kubeconfig.read(tmp_path, None)
    (tmp_path / "bytes").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(NotConnectedError, match="it is no text"):
        kubeconfig.read(tmp_path / "bytes", None)


def test_what_stands_inside_goes_into_private_files_of_ours(tmp_path: Path) -> None:
    def inline(text: str) -> str:
        return base64.b64encode(text.encode()).decode()

    cluster = {"server": "https://x", "certificate-authority-data": inline("the authority")}
    user = {"client-certificate-data": inline("the certificate"), "client-key-data": inline("the key")}
    text = json.dumps(config(clusters=[{"name": "c", "cluster": cluster}], users=[{"name": "u", "user": user}]))
    made = kubeconfig.parse(text, "FILE").for_kr8s(tmp_path)
    assert "-data" not in json.dumps(made)
    given = {**made["clusters"][0]["cluster"], **made["users"][0]["user"]}
    for name, content in (
        ("certificate-authority", "the authority"),
        ("client-certificate", "the certificate"),
        ("client-key", "the key"),
    ):
        path = Path(given[name])
        assert path.parent == tmp_path
        assert path.read_text() == content
        assert stat.S_IMODE(path.stat().st_mode) & 0o077 == 0


def test_broken_base64_is_told_without_showing_it(tmp_path: Path) -> None:
    cluster = {"server": "https://x", "certificate-authority-data": "abc"}
    chosen = kubeconfig.parse(json.dumps(config(clusters=[{"name": "c", "cluster": cluster}])), "FILE")
    with pytest.raises(NotConnectedError, match="certificate-authority-data is no base64"):
        chosen.for_kr8s(tmp_path)


def test_relative_paths_begin_at_the_file(tmp_path: Path) -> None:
    cluster = {"server": "https://x", "certificate-authority": "ca.pem"}
    path = tmp_path / "config"
    for command, becomes in (("./login", str(tmp_path / "login")), ("aws", "aws"), ("/bin/aws", "/bin/aws")):
        user = {"exec": {"command": command, "apiVersion": "client.authentication.k8s.io/v1beta1"}}
        path.write_text(
            json.dumps(config(clusters=[{"name": "c", "cluster": cluster}], users=[{"name": "u", "user": user}]))
        )
        made = kubeconfig.read(path, None).for_kr8s(tmp_path)
        assert made["clusters"][0]["cluster"]["certificate-authority"] == str(tmp_path / "ca.pem")
        assert made["users"][0]["user"]["exec"]["command"] == becomes
