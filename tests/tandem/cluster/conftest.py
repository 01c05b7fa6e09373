"""The servers of the two models, real if small."""

from collections.abc import Iterator

import pytest

from tests.tandem.cluster.fake_ollama import FakeOllama, serving


@pytest.fixture
def llama() -> Iterator[FakeOllama]:
    with serving(FakeOllama("llama2:7b")) as server:
        yield server


@pytest.fixture
def mistral() -> Iterator[FakeOllama]:
    with serving(FakeOllama("mistral:7b")) as server:
        yield server
