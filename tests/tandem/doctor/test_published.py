"""The digests that registries and chart repositories have for the stack's artifacts, and the doctor's findings."""

from collections.abc import Callable
from dataclasses import replace

import httpx
import pytest

from sharing import artifacts
from sharing.artifacts import Artifact
from tandem.doctor import published
from tandem.doctor.finding import Finding
from tests.tandem.doctor.conftest import Cases
from tests.tandem.doctor.findings import findings, summary

OLLAMA = "docker.io/ollama/ollama"
OPERATOR = "nvcr.io/nvidia/gpu-operator"
CHART = "https://helm.otwld.com/ollama"
EMPTY = "sha256:44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a"
"""Of `{}` (opencontainers/image-spec, manifest.md, guidance for an empty descriptor)."""
CHALLENGE = (
    'Bearer realm="https://auth.docker.io/token",service="registry.docker.io",scope="repository:ollama/ollama:pull"'
)
"""Docker Hub's answer to an anonymous request (distribution, spec/auth/token.md)."""
INDEX = """
apiVersion: v1
entries:
  ollama:
  - digest: c774da018360e5c34fd8fc135f712bdba8741aaff9d06639a20b5e04e96b0bab
    version: 1.77.0
  - digest: 2839bf03b410bcfb5855390f374045ea85d9b46fe627a3a23cf958121f6fe1e2
    version: 0.42.0
"""
"""Two entries of otwld/ollama-helm, gh-pages, index.yaml."""
Handler = Callable[[httpx.Request], httpx.Response]


@pytest.fixture
def quiet_registries() -> None:
    """Replaces the fixture that answers for every registry."""


def judged(artifact: Artifact, handler: Handler) -> Finding | None:
    with httpx.Client(transport=httpx.MockTransport(handler), follow_redirects=True) as asking:
        return published.judge(asking, artifact)


def wrong(artifact: Artifact, handler: Handler) -> Finding:
    found = judged(artifact, handler)
    assert found is not None
    return found


def answering(status: int = 200, text: str = "{}") -> Handler:
    return lambda request: httpx.Response(status, text=text)


def by_version(name: str, digest: str) -> Artifact:
    return replace(artifacts.find(name), pinned_by="version", digest=digest)


def test_a_manifest_is_read_with_an_anonymous_token() -> None:
    asked: list[tuple[str, str | None]] = []

    def registry(request: httpx.Request) -> httpx.Response:
        asked.append((str(request.url), request.headers.get("authorization")))
        if request.url.host == "auth.docker.io":
            return httpx.Response(200, json={"token": "t"})
        if "authorization" not in request.headers:
            return httpx.Response(401, headers={"www-authenticate": CHALLENGE})
        assert "application/vnd.oci.image.index.v1+json" in request.headers["accept"]
        return httpx.Response(200, text="{}")

    assert judged(by_version(OLLAMA, EMPTY), registry) is None
    manifest = "https://registry-1.docker.io/v2/ollama/ollama/manifests/0.32.15"
    token = "https://auth.docker.io/token?service=registry.docker.io&scope=repository%3Aollama%2Follama%3Apull"
    assert asked == [(manifest, None), (token, None), (manifest, "Bearer t")]


def test_an_image_pinned_by_digest_is_requested_by_digest_without_a_pull() -> None:
    asked: list[tuple[str, str]] = []

    def registry(request: httpx.Request) -> httpx.Response:
        asked.append((request.method, request.url.path))
        return httpx.Response(404)

    assert wrong(artifacts.find(OLLAMA), registry).verdict == "stops"
    pinned = "sha256:57d60e686821ea81a7748a3ec8141308c8b8f95b27105713954abf7a6529e700"
    assert asked == [("HEAD", f"/v2/ollama/ollama/manifests/{pinned}")]
    assert judged(artifacts.find(OLLAMA), lambda request: httpx.Response(200)) is None


def test_changed_content_of_a_version_is_found_despite_a_wrong_header() -> None:
    known = "sha256:" + "a" * 64
    found = judged(
        by_version(OLLAMA, known),
        lambda request: httpx.Response(200, text="{}", headers={"docker-content-digest": known}),
    )
    assert found is not None
    assert found.verdict == "warning"
    assert found.found.startswith(f"{OLLAMA} 0.32.15 was republished: its registry has {EMPTY}")


def test_a_digest_missing_from_the_table_is_filled_in() -> None:
    found = judged(replace(artifacts.find(OPERATOR), digest=""), answering())
    assert found == Finding(
        verdict="warning",
        found=f"{OPERATOR} v26.7.0 has no digest in sharing/data/artifacts.csv; its registry has {EMPTY}",
        fix="Add it to sharing/data/artifacts.csv.",
    )


def test_the_index_of_a_chart_repository_has_the_digest_of_the_package() -> None:
    chart = artifacts.find(CHART)
    assert judged(chart, answering(text=INDEX)) is None
    changed = wrong(replace(chart, version="0.42.0"), answering(text=INDEX))
    assert "2839bf03b410bcfb5855390f374045ea85d9b46fe627a3a23cf958121f6fe1e2" in changed.found
    assert wrong(replace(chart, version="9.9.9"), answering(text=INDEX)).verdict == "stops"


@pytest.mark.parametrize(
    ("name", "handler"),
    [
        (OLLAMA, answering(500)),
        (OLLAMA, answering(429)),
        (OLLAMA, answering(401)),
        (OLLAMA, lambda request: httpx.Response(401, headers={"www-authenticate": 'Bearer realm="http://a/token"'})),
        (OLLAMA, lambda request: (_ for _ in ()).throw(httpx.ConnectError("no route"))),
        (CHART, answering(text="entries: [")),
        (CHART, answering(text="entries: {ollama: 3}")),
        (CHART, answering(text="[]")),
    ],
)
def test_a_useless_answer_counts_as_none(name: str, handler: Handler) -> None:
    with pytest.raises(published.NoAnswerError):
        judged(artifacts.find(name), handler)


def test_an_endless_answer_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(published, "MOST_BYTES", 1000)
    with pytest.raises(published.NoAnswerError, match="too long"):
        judged(artifacts.find(OLLAMA), answering(text="x" * 1001))


def test_an_answer_of_the_greatest_length_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(published, "MOST_BYTES", 1000)
    with httpx.Client(transport=httpx.MockTransport(answering(text="x" * 1000))) as asking:
        _, body = published._ask(asking, "https://registry.example", {})
    assert len(body) == 1000


def test_the_same_failure_of_several_registries_is_one_line(case: Cases, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(asking: httpx.Client, artifact: Artifact) -> str:
        raise published.NoAnswerError("no answer" if artifact.kind == "chart" else "the registry answered 500")

    monkeypatch.setattr(published, "published_digest", refuse)
    first, second = sorted(found.found for found in findings("digests", case("timeslice")))
    assert first.endswith(" and 4 more: the registry answered 500")
    assert second.endswith(" and 2 more: no answer")


def test_the_doctor_requests_only_what_the_stack_uses(case: Cases) -> None:
    timeslice = {each.name for each in published.used_by(case("timeslice"))}
    assert timeslice == {
        OLLAMA,
        CHART,
        "public.ecr.aws/docker/library/python",
        "registry.k8s.io/pause",
        "nvcr.io/nvidia/k8s-device-plugin",
        "registry.k8s.io/nfd/node-feature-discovery",
        "https://nvidia.github.io/k8s-device-plugin/nvidia-device-plugin",
        "oci://registry.k8s.io/nfd/charts/node-feature-discovery",
    }
    assert OPERATOR in {each.name for each in published.used_by(case("mig"))}


def test_the_doctor_requests_the_image_of_the_web_page_where_there_is_one(case: Cases) -> None:
    plain = case("timeslice")
    assert plain.stack
    plan = replace(plain.stack.plan, setup=replace(plain.stack.plan.setup, ui=True))
    with_page = replace(plain, stack=replace(plain.stack, plan=plan))
    more = {each.name for each in published.used_by(with_page)} - {each.name for each in published.used_by(plain)}
    assert more == {"ghcr.io/open-webui/open-webui"}


def test_the_doctor_counts_matches_and_shows_differences(case: Cases, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(published, "published_digest", lambda asking, artifact: artifact.digest or EMPTY)
    (line,) = summary("digests", case("timeslice"))
    assert line == ("ok", "8 of 8 images and charts are published with the digests of sharing/data/artifacts.csv")
    assert [found.verdict for found in findings("digests", case("mig"))] == ["warning", "ok"]
    known = "10 of 11 images and charts are published with the digests of sharing/data/artifacts.csv"
    assert summary("digests", case("mig"))[-1] == ("ok", known)
