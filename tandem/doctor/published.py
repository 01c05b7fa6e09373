"""Whether registries still publish the images and charts of a stack with the digests in the table."""

import hashlib
import json
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from sandbox.graph import plain
from sharing import artifacts, versions
from sharing.artifacts import Artifact
from tandem.doctor.case import RELEASE, Case
from tandem.doctor.finding import Finding, ok, stops, unknown, warning

if TYPE_CHECKING:
    import httpx

TABLE = "sharing/data/artifacts.csv"
WEB_PAGE = versions.OPEN_WEBUI_IMAGE.partition(":")[0]
HOSTS = {"docker.io": "registry-1.docker.io"}
"""Hosts of registries whose name is not their host (distribution/reference, normalize.go)."""
MANIFESTS = ", ".join(
    (
        "application/vnd.oci.image.index.v1+json",
        "application/vnd.docker.distribution.manifest.list.v2+json",
        "application/vnd.oci.image.manifest.v1+json",
        "application/vnd.docker.distribution.manifest.v2+json",
    )
)
"""An index first: the digests of the table are those of all platforms."""
SECONDS = 10.0
MOST_BYTES = 20 * 2**20
"""Of one answer. The index of a chart repository has a few MiB; a registry takes manifests up to 4 MiB."""
NOT_FOUND = 404
TOO_MANY_REQUESTS = 429


class NoAnswerError(Exception):
    """A registry did not answer the question."""


class NotPublishedError(Exception):
    """A registry reports that it does not have it."""


def check_published(case: Case) -> Iterator[Finding]:
    """Registries publish the stack's images and charts with the digests that this version knows; an unknown digest is
    shown.
    """
    import httpx

    used = used_by(case)
    fine = 0
    silent: dict[str, list[Artifact]] = {}
    # It reads only, and sends no login.
    with httpx.Client(follow_redirects=True, timeout=SECONDS) as asking:
        for artifact in used:
            try:
                found = judge(asking, artifact)
            except NoAnswerError as error:
                silent.setdefault(str(error), []).append(artifact)
                continue
            fine += found is None
            if found is not None:
                yield found
    for why, several in silent.items():
        first = f"{several[0].name} {several[0].version}"
        more = f" and {len(several) - 1} more" if len(several) > 1 else ""
        yield unknown(f"{first}{more}: {why}", "Check the network, then try again.")
    if fine:
        yield ok(f"{fine} of {len(used)} images and charts are published with the digests of {TABLE}")


def used_by(case: Case) -> list[Artifact]:
    """The rows of the table that the stack's charts and containers, or `tandem verify`, name."""
    names = {
        chart.rpartition("/")[2]
        for each in case.planned_stack.resources(RELEASE)
        if (chart := str(plain(each.inputs).get("chart", "")))
    }
    unused = set() if case.planned_stack.plan.setup.ui else {WEB_PAGE}
    return [
        each
        for each in artifacts.known()
        if each.name not in unused
        and (
            each.name.rpartition("/")[2] in names if each.kind == "chart" else not each.charts or names & {*each.charts}
        )
    ]


def judge(asking: "httpx.Client", artifact: Artifact) -> Finding | None:
    """The problem with one of them; None if the registry and the table agree. Raises `NoAnswerError`."""
    named = f"{artifact.name} {artifact.version}"
    try:
        digest = published_digest(asking, artifact)
    except NotPublishedError:
        return stops(f"{named} is no longer published as the stack names it", "Update tandem, or pin another version.")

    if digest == artifact.digest:
        return None
    if not artifact.digest:
        return warning(f"{named} has no digest in {TABLE}; its registry has {digest}", f"Add it to {TABLE}.")
    return warning(
        f"{named} was republished: its registry has {digest}, and {TABLE} has {artifact.digest}",
        f"Find out what changed, then update {TABLE}.",
    )


def published_digest(asking: "httpx.Client", artifact: Artifact) -> str:
    """The digest in its registry or chart repository, e.g. `sha256:…`."""
    if artifact.name.startswith("https://"):
        return _package_digest(asking, artifact)
    host, _, repository = artifact.name.removeprefix("oci://").partition("/")
    wanted = artifact.digest if artifact.pinned_by == "digest" else artifact.version
    url = f"https://{HOSTS.get(host, host)}/v2/{repository}/manifests/{wanted}"
    if artifact.pinned_by == "digest":
        # Docker Hub counts a GET as one of 100 pulls in six hours, but not a HEAD (containers/image#1078).
        _manifest(asking, url, "HEAD")
        return artifact.digest
    # The content decides, not a header.
    return f"sha256:{hashlib.sha256(_manifest(asking, url)).hexdigest()}"


def _manifest(asking: "httpx.Client", url: str, method: str = "GET") -> bytes:
    """A manifest, with the token that most registries give anonymous clients (distribution, spec/auth/token.md)."""
    headers = {"Accept": MANIFESTS}
    answer, body = _ask(asking, url, headers, method=method)
    if answer.status_code == 401:
        challenge = dict(re.findall(r'(realm|service|scope)="([^"]*)"', answer.headers.get("www-authenticate", "")))
        realm = challenge.pop("realm", "")
        if not realm.startswith("https://"):
            raise NoAnswerError("the registry requires a login")
        granted, token = _ask(asking, realm, {}, challenge)
        _expect(granted.status_code)
        said = _mapping(token)
        headers["Authorization"] = f"Bearer {said.get('token') or said.get('access_token')}"
        answer, body = _ask(asking, url, headers, method=method)
    _expect(answer.status_code)
    return body


def _package_digest(asking: "httpx.Client", artifact: Artifact) -> str:
    """The package's digest in the index of a chart repository (helm, pkg/repo/index.go)."""
    import yaml

    repository, _, name = artifact.name.rpartition("/")
    answer, body = _ask(asking, f"{repository}/index.yaml", {})
    _expect(answer.status_code)
    try:
        entries = yaml.load(body, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))["entries"][name]
        digests = [str(entry["digest"]) for entry in entries if str(entry["version"]) == artifact.version]
    except (yaml.YAMLError, KeyError, TypeError, ValueError, RecursionError):
        raise NoAnswerError("the index of the chart repository cannot be read") from None
    if not digests:
        raise NotPublishedError
    return f"sha256:{digests[0].removeprefix('sha256:')}"


def _ask(
    asking: "httpx.Client",
    url: str,
    headers: dict[str, str],
    params: dict[str, str] | None = None,
    method: str = "GET",
) -> "tuple[httpx.Response, bytes]":
    import httpx

    body = b""
    try:
        with asking.stream(method, url, headers=headers, params=params) as answer:
            for piece in answer.iter_bytes():
                body += piece
                if len(body) > MOST_BYTES:
                    raise NoAnswerError("the answer is too long")
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        raise NoAnswerError(f"no answer ({str(error) or type(error).__name__})") from None
    return answer, body


def _expect(status: int) -> None:
    if status == NOT_FOUND:
        raise NotPublishedError
    if status == TOO_MANY_REQUESTS:
        raise NoAnswerError("the registry is throttling pulls (429)")
    if status != 200:
        raise NoAnswerError(f"the registry answered {status}")


def _mapping(body: bytes) -> dict[str, Any]:
    try:
        said = json.loads(body)
    except (ValueError, RecursionError):
        said = None
    return said if isinstance(said, dict) else {}
