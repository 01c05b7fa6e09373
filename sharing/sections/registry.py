"""The registry from which a stack takes its images and charts, as its file names it."""

import re
from typing import Annotated

from pydantic import AfterValidator

from sharing.section import WrongFormError

# distribution/reference v0.6.0, regexp.go: domainAndPort, pathComponent. Capital letters in a host mean the same as
# small ones, and clients differ in what they do with them.
_LABEL = "[a-z0-9](?:[a-z0-9-]*[a-z0-9])?"
_HOST = rf"{_LABEL}(?:\.{_LABEL})*(?::[0-9]{{1,5}})?"
_PART = "[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*"
# Without a dot or a port, the first part would be a folder of Docker Hub (normalize.go, splitDockerDomain).
_REGISTRY = re.compile(rf"(?=[^/]*[.:]|localhost(?:/|$)){_HOST}(?:/{_PART})*")
_ECR = re.compile(
    r"[0-9]{12}\.dkr[.-]ecr(?:-fips)?\.([a-z0-9-]+)\."
    r"(?:amazonaws\.(?:com(?:\.cn)?|eu)|on\.(?:aws|amazonwebservices\.com\.cn))(?:/|$)"
)
"""Hosts of private registries on ECR. Source: amazon-ecr-credential-helper, ecr-login/api/client.go, ecrPattern."""
LONGEST = 200
"""Characters: a repository has at most 255 (distribution/reference v0.6.0, RepositoryNameTotalLengthMax)."""
RULE = f"must be the host of a registry and a path, in small letters, of at most {LONGEST} characters"
FAULTS = (
    (r"[a-z0-9+.-]+:/", "begins with a scheme"),
    (r".*@sha256:", "has a digest"),
    (r".*\s", "contains a space"),
    (r".*[A-Z]", "contains capital letters"),
    (r".*/[^/]*:[^/]*$", "has a tag"),
    (r"[^/]*:(?![0-9]{1,5}(/|$))", "has a port that is not a number"),
    (r".*/$", "ends with a slash"),
)
"""Patterns of wrong texts, and what is wrong with them."""


class FaultError(ValueError):
    """What is wrong with a text, which is the subject of the sentence."""

    def __init__(self, fault: str, fix: str) -> None:
        super().__init__(fault)
        self.fix = fix


def is_registry(text: str) -> bool:
    """Whether images can have this text in front of their own names."""
    return len(text) <= LONGEST and _REGISTRY.fullmatch(text) is not None


def correct(text: str) -> str:
    """What was probably meant by a wrong text; empty if that is unclear, as with a space within a name."""
    plain = re.sub(r"^[a-z0-9+.-]+:/+", "", re.sub(r"\s*/\s*", "/", text.strip()).lower())
    plain = plain.partition("@sha256")[0].rpartition("@")[2].strip("/")
    untagged = re.sub(r"(/[^/]*):[^/]*$", r"\1", re.sub("/+", "/", plain))
    return untagged if is_registry(untagged) else ""


def ecr_region(registry: str) -> str:
    """The region of a private registry on ECR; empty for other registries."""
    found = _ECR.match(registry)
    return found[1] if found else ""


def _registry(text: str) -> str:
    if not is_registry(text):
        meant = correct(text)
        fix = f"Write `tandem:registry: {meant}`." if meant else ""
        fault = next((fault for pattern, fault in FAULTS if re.match(pattern, text)), "")
        raise FaultError(fault, fix) if fault else WrongFormError(RULE, fix)
    return text


Registry = Annotated[str, AfterValidator(_registry)]
