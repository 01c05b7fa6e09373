"""Logins that break Helm's pulls, and images from Docker Hub."""

import base64
import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tandem.doctor.case import RELEASE, Case, Stack
from tandem.doctor.checks import checks_for
from tests.tandem.doctor.conftest import Cases, planned
from tests.tandem.doctor.findings import finding, findings, summary

PUBLIC = "public.ecr.aws"


@pytest.fixture(autouse=True)
def home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    for name in ("DOCKER_CONFIG", "HELM_CONFIG_HOME", "HELM_REGISTRY_CONFIG", "XDG_CONFIG_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.delenv("PULUMI_K8S_HELM_REGISTRY_CONFIG_PATH", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr("platform.system", lambda: "Linux")
    return tmp_path


def token(claims: dict[str, Any]) -> str:
    """A login as `aws ecr-public get-login-password | docker login` leaves it."""
    password = base64.b64encode(json.dumps({"payload": "p", "datakey": "d", **claims}).encode()).decode()
    return base64.b64encode(f"AWS:{password}".encode()).decode()


def jwt(expires: int) -> str:
    claims: list[dict[str, int]] = [{}, {"exp": expires}]
    parts = [base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=") for part in claims]
    return base64.b64encode(f"someone:{'.'.join([*parts, 'signature'])}".encode()).decode()


def write(path: Path, config: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(config if isinstance(config, str) else json.dumps(config))


PAST, FUTURE = 1_700_000_000, 4_100_000_000
"""2023, and 2099-12-04: before and after the time of the tests."""


def with_charts(case: Case, *charts: str) -> Case:
    """The case with releases of these charts alone."""
    assert case.stack
    releases: Any = [SimpleNamespace(type=RELEASE, inputs={"chart": chart}) for chart in charts]
    case.stack = Stack(case.stack.plan, replace(case.stack.planned, graph=releases))
    return case


def test_only_charts_that_come_from_a_registry_are_checked(case: Cases) -> None:
    assert "registry-logins" not in [check.name for check in checks_for(with_charts(case("timeslice"), "ollama"))]
    there = with_charts(case("timeslice"), "ollama", "oci://a.example/b", "oci://a.example/c", "oci://d.example/e")
    assert "registry-logins" in [check.name for check in checks_for(there)]
    assert summary("registry-logins", there) == [
        ("ok", "no login for a.example, and none is needed"),
        ("ok", "no login for d.example, and none is needed"),
    ]


def test_karpenters_charts_come_from_public_ecr(case: Cases) -> None:
    assert ("ok", f"no login for {PUBLIC}, and none is needed") in summary("registry-logins", case("karpenter"))


@pytest.fixture
def karpenter(case: Cases) -> Case:
    return with_charts(case("karpenter"), f"oci://{PUBLIC}/karpenter/karpenter")


@pytest.mark.real_world(
    behaviour="Public ECR refuses a public chart (403) to a login that has expired; Helm sends Docker's logins, too.",
    source="aws/karpenter-provider-aws#3441 and #3880; helm pkg/registry/client.go",
)
@pytest.mark.parametrize(
    ("login", "verdict"),
    [
        ({"auth": token({"expiration": PAST})}, "stops"),
        ({"auth": token({"expiration": FUTURE})}, "ok"),
        ({"auth": jwt(PAST)}, "stops"),
        ({"auth": jwt(FUTURE)}, "ok"),
        ({"auth": base64.b64encode(b"AWS:password").decode()}, "warning"),
        ({"auth": "%%%"}, "warning"),
        ({}, "warning"),
        ("text", "warning"),
    ],
)
@pytest.mark.parametrize(
    ("path", "logout"),
    [
        (".docker/config.json", f"docker logout {PUBLIC}"),
        (".config/helm/registry/config.json", f"helm registry logout {PUBLIC}"),
    ],
)
def test_a_login_that_has_expired_stops_up(
    karpenter: Case, home: Path, login: Any, verdict: str, path: str, logout: str
) -> None:
    write(home / path, {"auths": {PUBLIC: login, "other": {}}})
    found = finding("registry-logins", karpenter)
    assert found.verdict == verdict
    assert found.fix == ("" if verdict == "ok" else logout)


@pytest.mark.parametrize(("helper", "verdict"), [("ecr-login", "ok"), ("desktop", "warning")])
def test_a_helper_that_renews_the_login_is_fine(karpenter: Case, home: Path, helper: str, verdict: str) -> None:
    write(home / ".docker" / "config.json", {"credHelpers": {PUBLIC: helper}})
    assert finding("registry-logins", karpenter).verdict == verdict


@pytest.mark.parametrize(
    ("variable", "path"),
    [
        ("DOCKER_CONFIG", "elsewhere/config.json"),
        ("HELM_CONFIG_HOME", "elsewhere/registry/config.json"),
        ("XDG_CONFIG_HOME", "elsewhere/helm/registry/config.json"),
    ],
)
def test_logins_are_found_where_the_environment_says(
    karpenter: Case, home: Path, monkeypatch: pytest.MonkeyPatch, variable: str, path: str
) -> None:
    monkeypatch.setenv(variable, str(home / "elsewhere"))
    write(home / path, {"auths": {PUBLIC: {"auth": token({"expiration": PAST})}}})
    assert finding("registry-logins", karpenter).verdict == "stops"


@pytest.mark.parametrize("text", ["{", "[]", '{"auths": 3}'])
def test_a_file_of_logins_that_cannot_be_read_is_not_fine(karpenter: Case, home: Path, text: str) -> None:
    write(home / ".docker" / "config.json", text)
    assert finding("registry-logins", karpenter).verdict == "unknown"


def test_a_token_is_never_shown(karpenter: Case, home: Path) -> None:
    secret = token({"expiration": PAST})
    write(home / ".docker" / "config.json", {"auths": {PUBLIC: {"auth": secret}}})
    assert all(secret[:12] not in each.found + each.fix for each in findings("registry-logins", karpenter))


def test_the_images_of_a_shipped_stack_are_far_from_docker_hubs_limit(case: Cases) -> None:
    found = finding("images", case("timeslice"))
    assert found.verdict == "ok"
    assert "ollama/ollama" in found.found


@pytest.mark.real_world(
    behaviour="Docker Hub allows an address 100 pulls without a login in six hours; nodes behind a NAT share theirs.",
    source="docker/docs#22326, content/manuals/docker-hub/usage/_index.md, 2025-03-27",
)
@pytest.mark.parametrize(("nat", "verdict"), [("single", "warning"), ("none", "ok")])
def test_many_nodes_behind_one_address_are_a_warning(case: Cases, nat: Any, verdict: str) -> None:
    stack = planned("timeslice")
    setup = stack.plan.setup
    pools = (replace(setup.pools[0], max=101),)
    crowded = case("timeslice")
    crowded.stack = Stack(replace(stack.plan, setup=replace(setup, pools=pools, nat=nat)), stack.planned)
    found = finding("images", crowded)
    assert found.verdict == verdict
    if verdict == "warning":
        assert found.fix.startswith("Where a pull fails with `toomanyrequests`, wait")
        assert found.fix.endswith(
            "Before the first `up`, `nat: none` gives each node an address; later it replaces all node groups."
        )


@pytest.mark.parametrize(
    ("image", "hub"),
    [
        ("python:3.13@sha256:abc", "python"),
        ("ollama/ollama:0.1", "ollama/ollama"),
        ("docker.io/library/python:3", "library/python"),
        ("public.ecr.aws/docker/library/python:3", ""),
        ("localhost:5000/a", ""),
        ("localhost/a", ""),
        ({"repository": "nvcr.io/nvidia/k8s-device-plugin", "tag": "1"}, ""),
        ({"registry": "docker.io", "repository": "a/b"}, "a/b"),
        ({"tag": "1"}, ""),
        ("", ""),
        (3, ""),
    ],
)
def test_an_image_without_a_registry_comes_from_docker_hub(image: Any, hub: str) -> None:
    from tandem.doctor.registries import _hub_images

    assert list(_hub_images({"spec": [{"containers": [{"image": image}]}]})) == ([hub] if hub else [])
