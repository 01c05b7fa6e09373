"""A certificate authority for API servers of clusters."""

import datetime
from collections.abc import Mapping, Sequence
from functools import cache

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec


@cache
def make_authority() -> dict[str, str]:
    """A certificate authority, and what it signed for the endpoints of clusters in us-east-1."""
    now = datetime.datetime.now(datetime.UTC)
    authority, own = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    endpoints = x509.SubjectAlternativeName([x509.DNSName("*.gr7.us-east-1.eks.amazonaws.com")])
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


def _named(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
