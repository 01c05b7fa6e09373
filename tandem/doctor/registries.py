"""Checks of registries: logins of this machine that break Helm's pulls, and images that nodes pull from Docker Hub."""

import base64
import datetime
import json
import os
import platform
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from sandbox.graph import plain
from sharing import artifacts
from tandem.doctor.case import RELEASE, Case
from tandem.doctor.finding import Finding, ok, stops, unknown, warning

OCI = "oci://"
RENEWING = ("ecr-login",)
"""Credential helpers that fetch a new token on every call."""
PULLS = 100
"""Pulls per address in six hours, without a login (docker/docs, docker-hub/usage, 2025-03-27)."""
HUB = "docker.io/"
PULL_FIX = (
    "If a pull fails with `toomanyrequests`, wait up to six hours until the pod starts. Before the first `up`, you can "
    "set `nat: none` to give each node an address; later this replaces all node groups."
)
DOCKER_HUB = ("docker.io", "index.docker.io", "registry-1.docker.io")


def pulls_from_registries(case: Case) -> bool:
    """Whether Helm pulls a chart of the stack from a registry."""
    return bool(_registries(case))


def _registries(case: Case) -> list[str]:
    """Hosts of the registries from which Helm pulls charts."""
    charts = [str(release.inputs.get("chart", "")) for release in case.planned_stack.resources(RELEASE)]
    return sorted({chart.removeprefix(OCI).partition("/")[0] for chart in charts if chart.startswith(OCI)})


def check_logins(case: Case) -> Iterator[Finding]:
    """No login on this machine has expired for a registry from which Helm pulls charts."""
    # Helm sends an expired one anyway, and public charts are then refused (403).
    for host in _registries(case):
        found = (_judge(host, path, f"{logout} {host}", case.now) for path, logout in _login_files())
        findings = [finding for finding in found if finding]
        yield from findings or [ok(f"no login for {host}, and none is needed")]


def _login_files() -> list[tuple[Path, str]]:
    """Helm's own file, then Docker's, in which Helm looks next (helm, pkg/registry/client.go); and how to log out."""
    docker = Path(os.environ.get("DOCKER_CONFIG") or Path.home() / ".docker") / "config.json"
    return [(_helm_file(), "helm registry logout"), (docker, "docker logout")]


def _helm_file() -> Path:
    """Where the kubernetes provider makes Helm look (pulumi-kubernetes, provider.go; helm, pkg/helmpath)."""
    for name in ("PULUMI_K8S_HELM_REGISTRY_CONFIG_PATH", "HELM_REGISTRY_CONFIG"):
        if path := os.environ.get(name):
            return Path(path)
    if home := os.environ.get("HELM_CONFIG_HOME"):
        return Path(home) / "registry" / "config.json"
    if home := os.environ.get("XDG_CONFIG_HOME"):
        return Path(home) / "helm" / "registry" / "config.json"
    own = Path("Library", "Preferences") if platform.system() == "Darwin" else Path(".config")
    return Path.home() / own / "helm" / "registry" / "config.json"


def _judge(host: str, path: Path, logout: str, now: datetime.datetime) -> Finding | None:
    """The finding for the login for `host`; None if the file at `path` has none."""
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return None
    try:
        config = json.loads(text)
        logins, helpers = dict(config.get("auths") or {}), dict(config.get("credHelpers") or {})
    except (ValueError, AttributeError, TypeError):
        return unknown(f"{path} is not valid JSON", "Repair it, or move it to another folder.")
    if helper := helpers.get(host):
        if helper in RENEWING:
            return ok(f"{host}: {helper} renews the login")
        return warning(f"{host}: the login in the credential helper {helper} may have expired", logout)
    if host not in logins:
        return None
    expires = _expiry(logins[host])
    if expires is None:
        return warning(f"{host}: the login in {path} may have expired", logout)
    if expires <= now:
        return stops(f"{host}: the login in {path} expired at {expires:%Y-%m-%d %H:%M} UTC", logout)
    return ok(f"{host}: the login in {path} lasts until {expires:%Y-%m-%d %H:%M} UTC")


def _expiry(login: object) -> datetime.datetime | None:
    """When the token expires; None if unknown.

    The password of ECR is base64 of JSON with `expiration` (aws-controllers-k8s/code-generator#196 reads it so); that
    of others may be a JWT, whose second part has `exp`.
    """
    try:
        auth = login["auth"] if isinstance(login, dict) else ""
        password = _decoded(auth).partition(b":")[2]
        parts = password.split(b".")
        claims = json.loads(_decoded(parts[1] if len(parts) == 3 else password))
        return datetime.datetime.fromtimestamp(float(claims.get("expiration", claims.get("exp"))), datetime.UTC)
    except (ValueError, TypeError, KeyError, AttributeError, OverflowError, OSError):
        return None


def _decoded(text: str | bytes) -> bytes:
    raw = text.encode() if isinstance(text, str) else text
    return base64.urlsafe_b64decode(raw.replace(b"+", b"-").replace(b"/", b"_") + b"=" * (-len(raw) % 4))


def check_images(case: Case) -> Iterator[Finding]:
    """Docker Hub's limit for pulls without a login is enough for the nodes."""
    stack = case.planned_stack
    images = sorted({image for resource in stack.planned.graph for image in _hub_images(plain(resource.inputs))})
    if not images:
        yield ok("no image comes from Docker Hub")
        return
    config = stack.plan.config
    nodes = sum(pool.max for pool in config.pools) if config.cluster.nat != "none" else 1
    # Pods without a share run once, on a system node.
    once = {artifact.name.removeprefix(HUB) for artifact in artifacts.known() if not artifact.compressed_mib}
    needed = sum(1 if image in once else nodes for image in images)
    named = f"{', '.join(images)} from Docker Hub without a login"
    if needed <= PULLS:
        yield ok(f"{named}: at most {needed} of the {PULLS} pulls per address in six hours")
    else:
        yield warning(
            f"{named}: {nodes} GPU nodes behind one address need {needed} of its {PULLS} pulls in six hours",
            PULL_FIX,
        )


def _hub_images(inputs: Any) -> Iterator[str]:
    """Images in a resource's inputs, at any depth, that come from Docker Hub."""
    if isinstance(inputs, Mapping):
        chart = str(inputs.get("chart", ""))
        if chart and "repository" not in (inputs.get("values", {}).get("image") or {}):
            yield from _images_of_chart(chart)
        for key, value in inputs.items():
            if key == "image":
                yield from _hub_image(value)
            yield from _hub_images(value)
    elif isinstance(inputs, list | tuple):
        for value in inputs:
            yield from _hub_images(value)


def _images_of_chart(chart: str) -> Iterator[str]:
    """Images from Docker Hub in the values of a chart, which we do not change."""
    for artifact in artifacts.known():
        if artifact.kind == "image" and chart in artifact.charts and artifact.name.startswith(HUB):
            yield artifact.name.removeprefix(HUB)


def _hub_image(image: Any) -> Iterator[str]:
    if isinstance(image, Mapping):
        parts = [str(image[key]) for key in ("registry", "repository") if image.get(key)]
        image = "/".join(parts) if "repository" in image else ""
    if not isinstance(image, str) or not image:
        return
    name = image.partition("@")[0]
    host, slash, rest = name.partition("/")
    elsewhere = slash and ("." in host or ":" in host or host == "localhost") and host not in DOCKER_HUB
    if not elsewhere:
        yield (rest if host in DOCKER_HUB else name).partition(":")[0]
