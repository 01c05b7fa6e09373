"""What commands of several rooms need."""

import gc
from collections.abc import Iterator

import pytest

from tests.tandem.fake_ollama import FakeOllama, serving


@pytest.fixture(autouse=True)
def without_the_garbage_of_others(request: pytest.FixtureRequest) -> None:
    """A benchmark collects garbage before it measures: half a second where that goes through all of the test run."""
    if "bench" in request.path.name:
        gc.freeze()


@pytest.fixture
def llama() -> Iterator[FakeOllama]:
    """The server of a model, real if small."""
    with serving(FakeOllama("llama2:7b")) as server:
        yield server


@pytest.fixture
def mistral() -> Iterator[FakeOllama]:
    """The server of the other."""
    with serving(FakeOllama("mistral:7b")) as server:
        yield server
