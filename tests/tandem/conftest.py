"""What commands of several rooms need."""

import gc

import pytest


@pytest.fixture(autouse=True)
def without_the_garbage_of_others(request: pytest.FixtureRequest) -> None:
    """A benchmark collects garbage before it measures: half a second where that goes through all of the test run."""
    if "bench" in request.path.name:
        gc.freeze()
