"""The dashboard in a browser: each panel shows its lines, with the names that Grafana gets."""

from collections.abc import Iterator

import pytest

from tests.browser import dashboard
from tests.browser.chromium import Browser
from tests.browser.dashboard import HEIGHT, WIDTH, find_store, read_legends, running

PODS, MODELS = ["llama", "mistral"], ["llama2:7b", "mistral:7b"]


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    tools = find_store()
    if tools is None:
        pytest.skip("the metrics store is not built; `make test-cluster` builds it")
    with running(tools, tmp_path_factory.mktemp("store")) as address:
        yield address


def test_each_panel_has_one_line_for_each_pod_model_and_gpu(browser: Browser, page: str) -> None:
    visit = browser.visit(page, width=WIDTH, height=HEIGHT)
    browser.wait_for(dashboard.DRAWN)
    assert read_legends(browser) == {
        "GPU memory": ["All of n1, GPU 0", "Used on n1, GPU 0", *PODS],
        "Model on the GPU": MODELS,
        "Tokens per second": ["All models", *MODELS],
        "Speed while generating": MODELS,
        "Requests": ["llama2:7b", "llama2:7b, waiting", "mistral:7b", "mistral:7b, waiting"],
        "Time in which the GPU is busy": [*PODS, "n1, GPU 0"],
        "Use of the GPU's units": ["n1, GPU 0", "n1, GPU 0, tensor cores"],
        "Cost per hour": ["All"],
    }
    assert visit.errors == []
