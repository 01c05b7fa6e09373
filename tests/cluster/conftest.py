"""One control plane for the whole tier, emptied after each test, and another one with Karpenter."""

import json
import subprocess
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from sandbox.graph import Graph
from sharing import versions
from sharing.sections.config import StackConfig
from tests.cluster.charts import Render
from tests.cluster.deployment import Deployment
from tests.cluster.karpenter import Pools
from tests.control_plane.build import BuildError, GoMissingError, built
from tests.control_plane.karpenter import Karpenter, karpenter
from tests.control_plane.karpenter_types import for_sale
from tests.control_plane.recipe import CONTROL_PLANE, KARPENTER, Recipe
from tests.control_plane.running import ControlPlane, control_plane
from tests.program.conftest import VARIANTS, graph_of, graph_with, judge_with, plan_of
from tests.shipped import STACKS

CHARTS = (
    versions.DEVICE_PLUGIN_REPOSITORY,
    versions.GPU_OPERATOR_REPOSITORY,
    versions.OLLAMA_REPOSITORY,
    versions.GPU_EXPORTER_REPOSITORY,
    versions.STORE_REPOSITORY,
    versions.GRAFANA_REPOSITORY,
    versions.KEDA_REPOSITORY,
)
"""Repositories of the charts that the tests render."""
REACH_SECONDS = 5
PER_MODEL = "mps-per-model"
"""The stack `mps` with the same models, of which one has limits of its own and the other has the rest of the GPU."""
SECTIONS = {
    "sharing": {"mode": "mps", "limits": "per-model", "replicas": 2},
    "models": [
        {"name": "llama2:7b", "context": 2048, "share": {"memory-gib": 6, "compute-percent": 50}},
        {"name": "mistral:7b", "context": 2048},
    ],
}


@pytest.fixture(scope="session")
def programs(request: pytest.FixtureRequest) -> Callable[[Recipe], Path]:
    """Builds a recipe if it is not built yet, and returns the folder of its programs."""
    plugins = request.config.pluginmanager
    reporter: Any = plugins.get_plugin("terminalreporter")
    capture: Any = plugins.get_plugin("capturemanager")

    def tell(line: str) -> None:
        if reporter is not None and capture is not None:  # a worker of xdist has neither
            with capture.global_and_fixture_disabled():
                reporter.write_line(line)

    def made(recipe: Recipe) -> Path:
        try:
            return built(tell, recipe=recipe)
        except GoMissingError as error:
            pytest.skip(str(error))
        except BuildError as error:
            pytest.exit(str(error), returncode=1)  # once, not for each test

    return made


@pytest.fixture(scope="session")
def plane(programs: Callable[[Recipe], Path]) -> Iterator[ControlPlane]:
    with control_plane(programs(CONTROL_PLANE)) as running:
        yield running


@pytest.fixture(scope="module")
def karpenter_at_work(programs: Callable[[Recipe], Path]) -> Iterator[Karpenter]:
    """Karpenter on a control plane of its own: deleting that is faster than having Karpenter delete its nodes."""
    made = programs(CONTROL_PLANE), programs(KARPENTER)
    with control_plane(made[0]) as plane, karpenter(plane, made[1]) as running:
        running.sell(for_sale())
        yield running


@pytest.fixture
def pools(karpenter_at_work: Karpenter) -> Iterator[Pools]:
    pools = Pools(karpenter_at_work)
    yield pools
    pools.clear()


@pytest.fixture
def cluster(plane: ControlPlane) -> Iterator[Deployment]:
    plane.check()
    deployment = Deployment(plane)
    yield deployment
    deployment.clear()


# The objects of Karpenter and of the Prometheus Operator need their CRDs, which no chart installs here.
@pytest.fixture(
    params=[
        name for name in (*STACKS, *VARIANTS, PER_MODEL) if not name.startswith("karpenter") and name != "with-monitors"
    ]
)
def any_stack(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="session")
def graphs() -> Callable[[str], Graph]:
    return cache(lambda name: graph_with("mps", SECTIONS) if name == PER_MODEL else graph_of(name))


@pytest.fixture(scope="session")
def setups() -> Callable[[str], StackConfig]:
    return lambda name: (judge_with("mps", SECTIONS).plan() if name == PER_MODEL else plan_of(name)).config


@pytest.fixture(scope="session")
def render(plane: ControlPlane, request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Render:
    """Renders one of our releases as Pulumi's Helm would."""
    at: str | None = request.config.getoption("--charts")
    if at is None:
        for repository in CHARTS:
            try:
                urllib.request.urlopen(f"{repository}/index.yaml", timeout=REACH_SECONDS).close()
            except OSError as error:
                pytest.skip(f"charts: {repository} is not reachable ({error}), and no --charts FOLDER is given")
    folder = tmp_path_factory.mktemp("charts")

    def rendered(release: Mapping[str, Any]) -> list[dict[str, Any]]:
        values = folder / f"{release['name']}.json"
        values.write_text(json.dumps(release["values"]), encoding="utf-8")
        repository = release.get("repositoryOpts") or {}
        if at is None:
            found = ["--repo", repository["repo"]] if repository else []
            source = [release["chart"], *found, "--version", release["version"]]
        else:
            chart = Path(at) / release["chart"].rpartition("/")[2]
            described = yaml.safe_load((chart / "Chart.yaml").read_text(encoding="utf-8"))
            assert described["version"] == release["version"], chart
            source = [str(chart)]
        command = [plane.programs / "helm", "template", release["name"], *source, "--namespace", release["namespace"]]
        known = ["--kube-version", plane.api.call("GET", "/version")["gitVersion"], "--include-crds", "--no-hooks"]
        done = subprocess.run([*command, *known, "--values", values], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return [one for one in yaml.safe_load_all(done.stdout) if one]

    return rendered
