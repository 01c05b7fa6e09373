"""Every optional feature has all its parts: a section, its pods, a line or a page or hours, a block."""

from typing import Any

import pytest

from sharing import tables
from sharing.cost.bill import cost
from sharing.sections.config import StackConfig
from sharing.verdict.features import FEATURES, SCALE_TO_ZERO, UI, features_of, find_system_pods
from sharing.verdict.features.feature import Feature
from stacks.features import BLOCKS
from stacks.stack_file import form_errors
from stacks.stack_file.judge import judge
from stacks.stack_file.yaml import Source

KEYS = [feature.key for feature in FEATURES]
PAGE = {"enabled": True, "admin-email": "ops@example.com"}
KARPENTER: dict[str, Any] = {"gpu-nodes": {"instance-types": ["g4dn.xlarge"], "provisioner": "karpenter"}}


def judged(**sections: Any) -> StackConfig:
    values = {"sharing": {"mode": "timeslice"}, "models": [{"name": "llama2:7b", "context": 2048}], **sections}
    return judge(Source(values, {"aws:region": "us-east-1"}), "Pulumi.dev.yaml").config


def with_example(feature: Feature) -> StackConfig:
    """A stack with the section's own example, on nodes of Karpenter: all features work there."""
    *above, key = feature.key.split(".")
    values: dict[str, Any] = {key: (form_errors.fields()[feature.key].examples or [None])[0]}
    for section in reversed(above):
        values = {section: values}
    return judged(**values, **KARPENTER)


def test_a_stack_has_only_the_features_that_its_file_asks_for() -> None:
    assert features_of(judged()) == ()


@pytest.mark.parametrize("feature", FEATURES, ids=KEYS)
def test_the_example_of_a_section_turns_its_feature_on(feature: Feature) -> None:
    assert features_of(with_example(feature)) == (feature,)


@pytest.mark.parametrize("feature", FEATURES, ids=KEYS)
def test_a_feature_shows_itself_on_the_screen_of_the_plan(feature: Feature) -> None:
    """By a line, by a page, or by the hours in which the stack costs less."""
    config = with_example(feature)
    bill = cost(config)
    assert any((feature.line(config), feature.pages(config), [*feature.cheaper_hours(bill)]))
    assert bool(feature.line(config)) is bool(feature.word)


def test_models_of_parked_pools_have_no_idle_time_to_show() -> None:
    nodes = {**KARPENTER["gpu-nodes"], "desired": 0}
    assert SCALE_TO_ZERO.line(judged(**{"gpu-nodes": nodes, "scale-to-zero": {"enabled": True}})) == ""


def test_every_kind_of_pod_on_system_nodes_is_that_of_a_feature_or_of_the_nodes() -> None:
    rows = {row["when"] for row in tables.read("node_pods").rows if row["nodes"] == "system"}
    added = set[str]().union(*(find_system_pods(with_example(feature)) for feature in FEATURES))
    assert added == rows - {"", "mig", "karpenter"}


def test_every_feature_has_a_block() -> None:
    # KEDA comes before the models, all other features after them.
    assert sorted([*BLOCKS, SCALE_TO_ZERO.key]) == sorted(KEYS)


WHOLE = "no embedding model: documents go into the prompt whole"
"""What Open WebUI does with BYPASS_EMBEDDING_AND_RETRIEVAL (v0.11.4 backend/open_webui/config.py)."""


@pytest.mark.parametrize(
    ("models", "ui", "said"),
    [
        (["llama2:7b"], {}, f"stay on 4 GiB until `destroy` deletes them; {WHOLE}"),
        (["llama2:7b"], {"storage-gib": 0}, f"are lost with the page's pod; {WHOLE}"),
        (
            ["llama2:7b", "nomic-embed-text", "all-minilm:22m"],
            {"storage-gib": 9},
            "stay on 9 GiB until `destroy` deletes them; documents are searched with nomic-embed-text",
        ),
    ],
)
def test_the_line_of_the_page_says_what_deletes_documents_and_what_searches_them(
    models: list[str], ui: dict[str, int], said: str
) -> None:
    sections = {"models": [{"name": name, "context": 512} for name in models], "ui": {**PAGE, **ui}}
    line = UI.line(judged(**{**sections, "sharing": {"mode": "timeslice", "replicas": 3}}))
    assert line == f"accounts, chats and documents {said}"
