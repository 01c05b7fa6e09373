"""Code in pods, and the program, call the API server of a cluster whose authority has no key identifiers.

They do so under Python 3.13, too.

Clusters that EKS created before Kubernetes 1.17 have such an authority, which upgrades keep
(aws/containers-roadmap#2638, kubernetes-client/python#2394).
"""

import base64
import datetime
import ipaddress
import ssl
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from components.scheduled_parking.scale_models import caller
from components.share_proof.in_pod.node import reader
from stacks.kubernetes_api import KubernetesApi, NotReachedError
from tests.components.json_server import serve

NOW = datetime.datetime.now(datetime.UTC)
DAY = datetime.timedelta(days=1)
THERE = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])


def named(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])


def write_certificates(folder: Path) -> None:
    """An authority, `ca.crt`, and what it signed for 127.0.0.1, `server.pem`, both without key identifiers."""
    authority, own = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    basic = x509.BasicConstraints(ca=True, path_length=None)
    for name, key, extension in (("kubernetes", authority, basic), ("kube-apiserver", own, THERE)):
        certificate = (
            x509.CertificateBuilder(named("kubernetes"), named(name), key.public_key(), x509.random_serial_number())
            .not_valid_before(NOW - DAY)
            .not_valid_after(NOW + DAY)
            .add_extension(extension, critical=True)
            .sign(authority, hashes.SHA256())
        )
        text = certificate.public_bytes(serialization.Encoding.PEM)
        if name == "kubernetes":
            (folder / "ca.crt").write_bytes(text)
    written = own.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    (folder / "server.pem").write_bytes(written + text)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[str]:
    write_certificates(tmp_path)
    (tmp_path / "token").write_text("secret\n", encoding="utf-8")
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(tmp_path / "server.pem")
    with serve(lambda asked: (200, {"asked": asked.path}), tls) as server:
        yield f"https://127.0.0.1:{server.server_port}"


@pytest.fixture
def strict(monkeypatch: pytest.MonkeyPatch) -> None:
    """The default flags of Python 3.13 (docs.python.org, `ssl.create_default_context`)."""
    create = ssl.create_default_context

    def create_as_python_3_13(*given: Any, **more: Any) -> ssl.SSLContext:
        found = create(*given, **more)
        found.verify_flags |= ssl.VERIFY_X509_STRICT | ssl.VERIFY_X509_PARTIAL_CHAIN
        return found

    monkeypatch.setattr(ssl, "create_default_context", create_as_python_3_13)


def read_node(server: str, folder: Path) -> Any:
    return reader(server, folder, "gpu-0")()


def read_list(server: str, folder: Path) -> Any:
    authority = base64.b64encode((folder / "ca.crt").read_bytes()).decode()
    return KubernetesApi(endpoint=server, authority=authority, token="secret").read("/api/v1/nodes/gpu-0")


def read_scale(server: str, folder: Path) -> Any:
    return caller(server, folder)("/api/v1/nodes/gpu-0")


@pytest.mark.usefixtures("strict")
@pytest.mark.parametrize("read", [read_node, read_scale, read_list])
def test_an_api_server_of_an_old_authority_is_read(
    server: str, tmp_path: Path, read: Callable[[str, Path], Any]
) -> None:
    assert read(server, tmp_path) == {"asked": "/api/v1/nodes/gpu-0"}


@pytest.mark.usefixtures("strict")
@pytest.mark.parametrize("read", [read_node, read_scale, read_list])
def test_an_api_server_of_another_authority_is_refused(
    server: str, tmp_path: Path, read: Callable[[str, Path], Any]
) -> None:
    write_certificates(tmp_path)
    with pytest.raises((OSError, NotReachedError), match="CERTIFICATE_VERIFY_FAILED"):
        read(server, tmp_path)
