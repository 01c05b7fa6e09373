"""A certificate authority for API servers of clusters."""

import base64
import datetime
import ipaddress
import ssl
import tempfile
from collections.abc import Mapping, Sequence
from functools import cache

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec


@cache
def make_authority() -> dict[str, str]:
    """A certificate authority, and what it signed: for endpoints of clusters in us-east-1, and for this machine."""
    now = datetime.datetime.now(datetime.UTC)
    authority, own = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    here = x509.IPAddress(ipaddress.ip_address("127.0.0.1"))
    endpoints = x509.SubjectAlternativeName([x509.DNSName("*.gr7.us-east-1.eks.amazonaws.com"), here])
    identifier = x509.SubjectKeyIdentifier.from_public_key(authority.public_key())
    extensions: Mapping[str, Sequence[x509.ExtensionType]] = {
        "kubernetes": [x509.BasicConstraints(ca=True, path_length=None), identifier],
        "kube-apiserver": [endpoints, x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(identifier)],
    }
    texts: list[str] = []
    for name, key in (("kubernetes", authority), ("kube-apiserver", own)):
        builder = x509.CertificateBuilder(_named("kubernetes"), _named(name), key.public_key(), 1 + len(texts))
        builder = builder.not_valid_before(now).not_valid_after(now + datetime.timedelta(days=1))
        for extension in extensions[name]:
            builder = builder.add_extension(extension, critical=isinstance(extension, x509.BasicConstraints))
        signed = builder.sign(authority, hashes.SHA256())
        texts.append(signed.public_bytes(serialization.Encoding.PEM).decode())
    written = own.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return {"certificate": texts[0], "server": written.decode() + texts[1]}


def show_authority() -> str:
    """The certificate of the authority, as EKS describes it."""
    return base64.b64encode(make_authority()["certificate"].encode()).decode()


def identify_server() -> ssl.SSLContext:
    """For a server on this machine that the authority vouches for."""
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    with tempfile.NamedTemporaryFile("w", suffix=".pem") as keys:
        keys.write(make_authority()["server"])
        keys.flush()
        tls.load_cert_chain(keys.name)
    return tls


def _named(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
