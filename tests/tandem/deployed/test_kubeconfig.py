"""A kubeconfig, reduced to the parts in use, and all errors that it may have."""

import base64
import datetime
import json
import stat
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
)
from hypothesis import example, given
from hypothesis import strategies as st

from tandem.deployed import kubeconfig
from tandem.deployed.endpoints import NotConnectedError
from tandem.deployed.kubeconfig import Chosen
from tests.tandem.deployed.errors import ERRORS
from tests.tandem.deployed.mutated import JSON, mutated

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


def test_an_unreadable_file_is_reported(tmp_path: Path) -> None:
    with pytest.raises(NotConnectedError, match=r"cannot read the kubeconfig .*nowhere: No such file"):
        kubeconfig.read(tmp_path / "nowhere", None)
    with pytest.raises(NotConnectedError, match="Is a directory"):
        kubeconfig.read(tmp_path, None)
    (tmp_path / "bytes").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(NotConnectedError, match="not text"):
        kubeconfig.read(tmp_path / "bytes", None)


def test_inline_data_is_written_to_private_files(tmp_path: Path, pair: tuple[str, str]) -> None:
    def inline(text: str) -> str:
        return base64.b64encode(text.encode()).decode()

    certificate, key = pair
    cluster = {"server": "https://x", "certificate-authority-data": inline(certificate)}
    user = {"client-certificate-data": inline(certificate), "client-key-data": inline(key)}
    made = chosen(cluster, user).for_kr8s(tmp_path)
    assert "-data" not in json.dumps(made)
    given = {**made["clusters"][0]["cluster"], **made["users"][0]["user"]}
    for name, content in (
        ("certificate-authority", certificate),
        ("client-certificate", certificate),
        ("client-key", key),
    ):
        path = Path(given[name])
        assert path.parent == tmp_path
        assert path.read_text() == content
        assert stat.S_IMODE(path.stat().st_mode) & 0o077 == 0


def test_broken_base64_is_reported_without_showing_it(tmp_path: Path) -> None:
    cluster = {"server": "https://x", "certificate-authority-data": "abc"}
    chosen = kubeconfig.parse(json.dumps(config(clusters=[{"name": "c", "cluster": cluster}])), "FILE")
    with pytest.raises(NotConnectedError, match="certificate-authority-data is not base64"):
        chosen.for_kr8s(tmp_path)


def test_relative_paths_are_relative_to_the_file(tmp_path: Path, pair: tuple[str, str]) -> None:
    (tmp_path / "ca.pem").write_text(pair[0])
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


@pytest.fixture(scope="module")
def pair() -> tuple[str, str]:
    """A self-signed certificate and its key, in PEM."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "somebody")])
    day = datetime.datetime(2026, 1, 1)
    made = x509.CertificateBuilder(name, name, key.public_key(), 1, day, day + datetime.timedelta(days=9000))
    pem = Encoding.PEM
    private = key.private_bytes(pem, PrivateFormat.TraditionalOpenSSL, NoEncryption())
    return made.sign(key, SHA256()).public_bytes(pem).decode(), private.decode()


def chosen(cluster: dict[str, Any], user: dict[str, Any], folder: Path = Path("/")) -> Chosen:
    entries = {"clusters": [{"name": "c", "cluster": cluster}], "users": [{"name": "u", "user": user}]}
    return kubeconfig.parse(json.dumps(config(**entries)), "FILE", folder=folder)


HOST = {"server": "https://x"}


@pytest.mark.parametrize("name", ["certificate-authority", "client-certificate", "client-key", "tokenFile"])
def test_a_missing_file_is_named(name: str, tmp_path: Path) -> None:
    """kr8s would fail with an AttributeError, because it looks for the folder of a kubeconfig without a file."""
    place = {name: str(tmp_path / "moved")}
    made = chosen({**HOST, **place}, {}) if name == "certificate-authority" else chosen(HOST, place)
    with pytest.raises(NotConnectedError, match=f"the {name} of context 'one' cannot be read: .*moved: No such file"):
        made.for_kr8s(tmp_path)


def test_a_name_that_no_file_can_have_is_no_path(tmp_path: Path) -> None:
    with pytest.raises(NotConnectedError, match=r"the tokenFile of context 'one' cannot be read: .*: not a path"):
        chosen(HOST, {"tokenFile": "a\0b"}).for_kr8s(tmp_path)


def test_invalid_certificates_are_reported(tmp_path: Path, pair: tuple[str, str]) -> None:
    certificate, key = tmp_path / "certificate", tmp_path / "key"
    certificate.write_text(pair[0])
    for text in ("", "no PEM", pair[0], "\0"):
        key.write_text(text)
        user = {"client-certificate": str(certificate), "client-key": str(key)}
        with pytest.raises(
            NotConnectedError, match="client-certificate and client-key of context 'one' cannot be used"
        ):
            chosen(HOST, user).for_kr8s(tmp_path)
    with pytest.raises(NotConnectedError, match="certificate-authority of context 'one' cannot be used"):
        chosen({**HOST, "certificate-authority": str(key)}, {}).for_kr8s(tmp_path)
    with pytest.raises(NotConnectedError, match="only one of client-certificate and client-key"):
        chosen(HOST, {"client-certificate": str(certificate)}).for_kr8s(tmp_path)


def test_a_key_with_a_password_is_refused_without_a_prompt(tmp_path: Path, pair: tuple[str, str]) -> None:
    secret = BestAvailableEncryption(b"secret")
    key = ec.generate_private_key(ec.SECP256R1()).private_bytes(Encoding.PEM, PrivateFormat.PKCS8, secret)
    (tmp_path / "key").write_bytes(key)
    (tmp_path / "certificate").write_text(pair[0])
    user = {"client-certificate": str(tmp_path / "certificate"), "client-key": str(tmp_path / "key")}
    with pytest.raises(NotConnectedError, match="cannot be used"):
        chosen(HOST, user).for_kr8s(tmp_path)


@pytest.mark.parametrize("scheme", ["http", "https", "socks5"])
def test_the_proxies_that_kubectl_knows_are_used(scheme: str, tmp_path: Path) -> None:
    """client-go tools/clientcmd/api/v1/types.go, Cluster.ProxyURL."""
    proxy = f"{scheme}://proxy:1080"
    given = chosen({**HOST, "proxy-url": proxy}, {"token": "x"}).for_kr8s(tmp_path)
    assert given["clusters"][0]["cluster"]["proxy-url"] == proxy


def test_a_token_file_is_read_each_time_and_overrides_a_token(tmp_path: Path) -> None:
    """Like kubectl: client-go tools/clientcmd/api/v1/types.go, AuthInfo.TokenFile."""
    (tmp_path / "token").write_text("first\n")
    made = chosen(HOST, {"token": "old", "tokenFile": "token"}, tmp_path)
    given = made.for_kr8s(tmp_path)
    assert given["users"][0]["user"]["token"] == "first"
    (tmp_path / "token").write_text("second")
    made.renew_token(given)
    assert given["users"][0]["user"]["token"] == "second"


@pytest.mark.parametrize("token", ["", "\n", "two words", "a\nb", "\x1b[2J", "é"])
def test_an_invalid_token_is_refused_and_not_shown(token: str, tmp_path: Path) -> None:
    (tmp_path / "token").write_text(token)
    with pytest.raises(NotConnectedError, match="the token of context 'one'") as error:
        chosen(HOST, {"tokenFile": str(tmp_path / "token")}).for_kr8s(tmp_path)
    assert not token.strip() or token not in str(error.value)


EXEC = {"apiVersion": "client.authentication.k8s.io/v1", "command": "aws"}


@pytest.mark.parametrize(("cluster", "user", "says"), ERRORS["contexts"])
def test_unsupported_settings_are_refused_with_their_position(
    cluster: dict[str, Any], user: dict[str, Any], says: str
) -> None:
    with pytest.raises(NotConnectedError) as error:
        chosen(cluster, user)
    assert str(error.value).startswith("FILE: context 'one'")
    assert says in str(error.value)
    assert SECRET not in str(error.value)


WHOLE = config(
    clusters=[{"name": "c", "cluster": {**HOST, "certificate-authority-data": "YQ==", "proxy-url": "http://x"}}],
    users=[{"name": "u", "user": {"token": SECRET, "tokenFile": "x", "exec": {**EXEC, "args": [], "env": []}}}],
)


@pytest.mark.slow
@given(st.data())
def test_no_kubeconfig_causes_a_traceback(data: st.DataObject) -> None:
    """One value is replaced by another, anywhere."""
    text = json.dumps(mutated(WHOLE, data.draw(JSON), data))
    with tempfile.TemporaryDirectory() as folder, suppress(NotConnectedError):
        kubeconfig.parse(text, "FILE").for_kr8s(Path(folder))


@pytest.mark.slow
@given(st.text() | st.binary().map(lambda some: some.decode("latin-1")))
@example("a: 2026-99-99")
@example("{" * 1200)
@example("? [a]\n: b")
@example("!!python/object:os.system x")
def test_no_text_causes_a_traceback(text: str) -> None:
    with pytest.raises(NotConnectedError):
        kubeconfig.parse(text, "FILE")
