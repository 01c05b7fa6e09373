"""One control plane for the whole tier, emptied after each test."""

import datetime
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from sandbox.control_plane.build import BuildError, GoMissingError, built
from sandbox.control_plane.running import ControlPlane, control_plane
from sandbox.graph import Graph
from sharing.setup import Setup
from tests.cluster.deployment import Deployment
from tests.program.conftest import STACKS, VARIANTS, config_of, graph_of


@pytest.fixture(scope="session")
def plane(request: pytest.FixtureRequest) -> Iterator[ControlPlane]:
    plugins = request.config.pluginmanager
    reporter: Any = plugins.get_plugin("terminalreporter")
    capture: Any = plugins.get_plugin("capturemanager")

    def tell(line: str) -> None:
        if reporter is not None and capture is not None:  # neither is there in a worker of xdist
            with capture.global_and_fixture_disabled():
                reporter.write_line(line)

    try:
        programs = built(tell)
    except GoMissingError as error:
        pytest.skip(str(error))
    except BuildError as error:
        pytest.exit(str(error), returncode=1)  # once, not for each test
    with control_plane(programs) as running:
        yield running


@pytest.fixture
def cluster(plane: ControlPlane) -> Iterator[Deployment]:
    plane.check()
    deployment = Deployment(plane)
    yield deployment
    deployment.clear()


# Karpenter's own objects need its CRDs, which no chart brings here.
@pytest.fixture(params=[name for name in (*STACKS, *VARIANTS) if not name.startswith("karpenter")])
def any_stack(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="session")
def graphs() -> Callable[[str], Graph]:
    return graph_of


@pytest.fixture(scope="session")
def setups() -> Callable[[str], Setup]:
    return lambda name: config_of(name).setup(datetime.date.today())
