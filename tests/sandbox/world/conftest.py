"""An account with one of each resource, for the rules of AWS and Kubernetes."""

import pytest

from tests.sandbox.world.whole import Whole


@pytest.fixture(scope="session")
def made() -> Whole:
    return Whole()


@pytest.fixture
def whole(made: Whole) -> Whole:
    """A copy for one test."""
    return made.copied()
