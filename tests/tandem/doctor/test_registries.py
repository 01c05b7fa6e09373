"""Logins that break Helm's pulls, and images from Docker Hub."""

from typing import Any

import pytest

from tandem.doctor.case import Stack
from tandem.doctor.checks import checks_for
from tandem.dry_run.program import run
from tests.program.conftest import plan_of
from tests.sharing.builders import replace
from tests.tandem.doctor.conftest import Cases, planned
from tests.tandem.doctor.findings import finding, summary
from tests.tandem.doctor.scenes import PUBLIC, Play, Scene, scenes, with_charts


@pytest.mark.real_world(
    behaviour="Public ECR refuses a public chart (403) if the login has expired; Helm also sends Docker's logins.",
    source="aws/karpenter-provider-aws#3441 and #3880; helm pkg/registry/client.go",
)
@scenes("expired logins")
def test_a_login_that_has_expired_stops_up(play: Play, scene: Scene) -> None:
    play(scene)


@scenes("logins")
def test_another_login_is_reported_and_no_token_is_ever_shown(play: Play, scene: Scene) -> None:
    play(scene)


def test_only_charts_that_come_from_a_registry_are_checked(case: Cases) -> None:
    asked = [check.name for check in checks_for(with_charts(case("timeslice"), "ollama"))]
    assert "registry-logins" not in asked
    asked = [check.name for check in checks_for(with_charts(case("timeslice"), "ollama", "oci://a.example/b"))]
    assert "registry-logins" in asked


def test_karpenters_charts_come_from_public_ecr(case: Cases) -> None:
    assert ("ok", f"no login for {PUBLIC}, and none is needed") in summary("registry-logins", case("karpenter"))


def test_the_images_of_a_shipped_stack_are_far_below_docker_hubs_limit(case: Cases) -> None:
    found = finding("images", case("timeslice"))
    assert found.verdict == "ok"
    assert "ollama/ollama" in found.text


def test_the_store_and_the_dashboards_come_from_docker_hub_as_well_once_for_each_stack(case: Cases) -> None:
    """Their images' registries: values.yaml of both charts. Only the models run on each of the 60 GPU nodes."""
    plan = plan_of("monitored")
    pools = (replace(plan.config.pools[0], max=60),)
    crowded = case("dev")
    crowded.stack = Stack(replace(plan, config=replace(plan.config, pools=pools, nat="single")), run(plan))
    found = finding("images", crowded)
    names = "grafana/grafana, ollama/ollama, victoriametrics/victoria-metrics from Docker Hub without a login"
    assert (found.verdict, found.text) == ("ok", f"{names}: at most 62 of the 100 pulls per address in six hours")


@pytest.mark.real_world(
    behaviour="Docker Hub allows an address 100 pulls in six hours without a login; nodes behind a NAT share one.",
    source="docker/docs#22326, content/manuals/docker-hub/usage/_index.md, 2025-03-27",
)
@pytest.mark.parametrize(
    ("nat", "nodes", "verdict"), [("single", 101, "warning"), ("single", 100, "ok"), ("none", 101, "ok")]
)
def test_many_nodes_behind_one_address_are_a_warning(case: Cases, nat: Any, nodes: int, verdict: str) -> None:
    stack = planned("timeslice")
    setup = stack.plan.config
    pools = (replace(setup.pools[0], max=nodes),)
    crowded = case("timeslice")
    crowded.stack = Stack(replace(stack.plan, config=replace(setup, pools=pools, nat=nat)), stack.planned)
    found = finding("images", crowded)
    assert found.verdict == verdict
    if verdict == "warning":
        assert found.fix.startswith("If a pull fails with `toomanyrequests`, wait")
        assert found.fix.endswith(
            "you can set `nat: none` to give each node an address; later this replaces all node groups."
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


@pytest.mark.parametrize(
    ("chart", "values", "pulled"),
    [
        ("ollama", {}, ["ollama/ollama"]),
        ("ollama", {"image": None}, ["ollama/ollama"]),
        ("ollama", {"image": {"tag": "0.32.15"}}, ["ollama/ollama"]),
        ("ollama", {"image": {"repository": "quay.io/a/ollama"}}, []),
        ("ollama", {"image": {"repository": "a/ollama"}}, ["a/ollama"]),
        ("grafana", {"resources": {}}, ["grafana/grafana"]),
        ("victoria-metrics-single", {}, ["victoriametrics/victoria-metrics"]),
        ("nvidia-device-plugin", {}, []),
    ],
)
def test_a_chart_pulls_its_own_image_unless_the_values_name_one(
    chart: str, values: dict[str, Any], pulled: list[str]
) -> None:
    from tandem.doctor.registries import _hub_images

    assert list(_hub_images({"chart": chart, "values": values})) == pulled
