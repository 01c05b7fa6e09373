"""Names that are derived from other names."""

import re

import pytest

from sharing import names
from sharing.names import model_id, safe_name


def test_a_plain_name_that_fits_stays_as_it_is() -> None:
    assert safe_name("a" * 40, 40) == "a" * 40
    assert len(safe_name("a" * 41, 40)) == 40, "another one has as much of it as fits"


@pytest.mark.parametrize("text", ["a" * 41, "a" * 32 + "-b" * 9, "a" * 40 + ".", "A" * 40, "tandem-dev_1"])
def test_any_other_name_is_made_to_fit_and_stays_unique(text: str) -> None:
    # A label of a name in DNS, RFC 1123 section 2.1.
    found = safe_name(text, 40)
    assert re.fullmatch(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?", found)
    assert len(found) <= 40
    assert "--" not in found
    assert found not in {safe_name(text + more, 40) for more in ("a", "-")}


def test_a_cluster_is_named_after_its_stack_and_leaves_room_for_the_roles_named_after_it() -> None:
    assert names.cluster_name("dev") == "tandem-dev"
    # IAM: 64 characters for the name of a role.
    assert len(names.cluster_name("a" * 100)) + len("-controller-role") <= 64


def test_the_longest_pool_has_a_release_whose_name_the_chart_takes() -> None:
    # nvidia-device-plugin 0.20.0 templates/_helpers.tpl: 63 characters, of which its longest suffix takes 22.
    assert names.plugin_release("p" * 20) == "nvidia-device-plugin-" + "p" * 20
    assert len(names.plugin_release("p" * 20)) <= 63 - len("-gpu-feature-discovery")


def test_a_pod_tolerates_one_mode_or_all() -> None:
    gpu = {"key": "nvidia.com/gpu", "operator": "Exists"}
    assert names.tolerations(None) == [gpu, {"key": "tandem/mode", "operator": "Exists"}]
    assert names.tolerations("mps-2") == [gpu, {"key": "tandem/mode", "operator": "Equal", "value": "mps-2"}]


@pytest.mark.parametrize(
    ("tag", "expected"),
    [
        ("llama2:7b", "llama2-7b"),
        ("qwen2.5:0.5b", "qwen2-5-0-5b"),
        ("7b-model", "m-7b-model"),
        ("o1:1b", "o1-1b"),
        ("library/Llama_3:Q4_K_M", "library-llama-3-q4-k-m"),
        ("a" * 60, "a" * 36),
        ("a" * 35 + ".bcd", "a" * 35),
        ("hf.co/bartowski/Llama-3.2-1B-Instruct-GGUF", "hf-co-bartowski-llama-3-2-1b-instruc"),
    ],
)
def test_an_id_begins_with_a_letter_and_has_no_dots(tag: str, expected: str) -> None:
    assert model_id(tag) == expected


def test_the_console_shows_a_resource_by_its_tag_name() -> None:
    assert names.with_name({"a": "b"}, "x") == {"a": "b", "Name": "x"}
