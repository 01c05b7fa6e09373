"""Networks and clients in a stack file, validated as EKS, VPC and Kubernetes do."""

import ipaddress
import re
from typing import Annotated

from pydantic import AfterValidator

from sharing.section import WrongFormError

PRIVATE_NETWORKS = [
    ipaddress.IPv4Network(block)
    for block in ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "127.0.0.0/8", "169.254.0.0/16")
]
"""RFC 1918, loopback and link-local. Python's `is_private` also includes addresses for documentation."""


def _public_network(text: str) -> str:
    """A network that EKS accepts in `publicAccessCidrs`.

    EKS API reference, VpcConfigRequest: no IPv6 block for a cluster of IPv4. EKS user guide, "Configure
    network access to cluster API server endpoint": a block cannot include reserved addresses.
    """
    if "/" not in text:
        raise WrongFormError("must be a CIDR block, as in 203.0.113.7/32")
    network = ipaddress.ip_network(text)
    if isinstance(network, ipaddress.IPv6Network):
        raise ValueError("is IPv6, but the cluster is IPv4")
    if any(network.subnet_of(private) for private in PRIVATE_NETWORKS):
        raise ValueError("is a private range, which EKS refuses here")
    return text


def vpc_network(text: str) -> str:
    """The range of a VPC, e.g. `10.0.0.0/16`. Raises `ValueError` for another."""
    network = ipaddress.ip_network(text)
    if network.version != 4 or not 16 <= network.prefixlen <= 22:
        raise WrongFormError("must be an IPv4 network between /16 and /22")
    return text


# Kubernetes, apimachinery pkg/util/validation: IsDNS1123Label, IsQualifiedName, IsValidLabelValue.
_LABEL_NAME = r"[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?"
_DOMAIN = r"[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*"


def _namespace_name(text: str) -> str:
    if not re.fullmatch(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?", text):
        raise WrongFormError("must be 1 to 63 lower-case letters, digits or dashes, with no dash at either end")
    return text


def _label_key(key: str) -> str:
    domain, slash, name = key.rpartition("/")
    if slash and not (len(domain) <= 253 and re.fullmatch(_DOMAIN, domain)):
        raise WrongFormError("must have a DNS name in front of the slash, as in example.com/team")
    if not re.fullmatch(_LABEL_NAME, name):
        raise WrongFormError("must be 1 to 63 letters, digits or ._-, with a letter or digit at both ends")
    return key


def _label_value(text: str) -> str:
    if text and not re.fullmatch(_LABEL_NAME, text):
        raise WrongFormError("must be at most 63 letters, digits or ._-, with a letter or digit at both ends")
    return text


Cidr = Annotated[str, AfterValidator(_public_network)]
VpcCidr = Annotated[str, AfterValidator(vpc_network)]
NamespaceName = Annotated[str, AfterValidator(_namespace_name)]
LabelKey = Annotated[str, AfterValidator(_label_key)]
LabelValue = Annotated[str, AfterValidator(_label_value)]
