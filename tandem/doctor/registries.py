"""The check of logins: those of this machine that break Helm's pulls from registries, or that Helm lacks."""

import base64
import datetime
import json
import os
import platform
from collections.abc import Iterator
from pathlib import Path

from sharing.sections.registry import ecr_region
from tandem.doctor.case import RELEASE, Case
from tandem.doctor.finding import Finding, ok, stops, unknown, warning

OCI = "oci://"
RENEWING = ("ecr-login",)
"""Credential helpers that fetch a new token on every call."""


def pulls_from_registries(case: Case) -> bool:
    """Whether Helm pulls a chart of the stack from a registry."""
    return bool(_registries(case))


def _registries(case: Case) -> list[str]:
    """Hosts of the registries from which Helm pulls charts."""
    charts = [str(release.inputs.get("chart", "")) for release in case.planned_stack.resources(RELEASE)]
    return sorted({chart.removeprefix(OCI).partition("/")[0] for chart in charts if chart.startswith(OCI)})


def check_logins(case: Case) -> Iterator[Finding]:
    """No login on this machine has expired for a registry from which Helm pulls charts, and none is missing."""
    own = (case.planned_stack.plan.config.registry or "").partition("/")[0]
    for host in _registries(case):
        # Helm sends an expired one anyway, and public charts are then refused (403).
        fixes = ((path, _login(host) if host == own else f"{logout} {host}") for path, logout in _login_files())
        findings = [finding for path, fix in fixes if (finding := _judge(host, path, fix, case.now))]
        yield from findings or [_judge_missing(host) if host == own else ok(f"no login for {host}, and none is needed")]


def _judge_missing(host: str) -> Finding:
    """The finding for a registry of the user's own, for which this machine has no login."""
    if ecr_region(host):
        return stops(f"no login for {host}, and ECR requires one", _login(host))
    return warning(f"no login for {host}, which may require one; nodes pull from it without a login", _login(host))


def _login(host: str) -> str:
    """The command that logs Helm in. Source: Amazon ECR User Guide, "Pushing a Helm chart"."""
    login = f"helm registry login {host}"
    region = ecr_region(host)
    token = f"aws ecr get-login-password --region {region} | " if region else ""
    return f"{token}{login}{' --username AWS --password-stdin' if region else ''}"


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


def _judge(host: str, path: Path, fix: str, now: datetime.datetime) -> Finding | None:
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
        return warning(f"{host}: the login in the credential helper {helper} may have expired", fix)
    if host not in logins:
        return None
    expires = _expiry(logins[host])
    if expires is None:
        return warning(f"{host}: the login in {path} may have expired", fix)
    if expires <= now:
        return stops(f"{host}: the login in {path} expired at {expires:%Y-%m-%d %H:%M} UTC", fix)
    return ok(f"{host}: the login in {path} lasts until {expires:%Y-%m-%d %H:%M} UTC")


def _expiry(login: object) -> datetime.datetime | None:
    """When the token expires; None if unknown.

    The password of ECR is base64 of JSON with `expiration` (aws-controllers-k8s/code-generator#196 reads it so).
    """
    try:
        auth = login["auth"] if isinstance(login, dict) else ""
        password = base64.b64decode(auth).partition(b":")[2]
        expires = json.loads(base64.b64decode(password))["expiration"]
        return datetime.datetime.fromtimestamp(float(expires), datetime.UTC)
    except (ValueError, TypeError, KeyError, OverflowError, OSError):
        return None
