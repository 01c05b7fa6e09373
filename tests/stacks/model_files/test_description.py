"""The JSON that describes a model: what it has, and what is refused in it."""

import json
import os
from dataclasses import asdict, fields, replace
from pathlib import Path
from typing import Any

import pytest

from sharing.models.catalogue import Model, models
from stacks.model_files.description import MOST_JSON, Description
from stacks.model_files.errors import MissingFileError, UnreadableModelError
from stacks.model_files.find import describe_place

LEAST: dict[str, Any] = {"weights_bytes": 2**31, "layers": 32, "kv_heads": 8, "head_dim": 64}
LIMITS = {
    "weights_bytes": (1, 2**41),
    "layers": (1, 1024),
    "kv_heads": (1, 1024),
    "head_dim": (1, 4096),
    "heads": (0, 1024),
    "value_dim": (0, 4096),
    "max_context": (0, 2**31),
    "swa_window": (0, 2**31),
    "swa_layers": (0, 1024),
    "swa_kv_heads": (0, 1024),
    "swa_head_dim": (0, 4096),
    "shared_kv_layers": (0, 1024),
    "recurrent_layers": (0, 1024),
    "recurrent_state_bytes": (0, 2**41),
    "mla_rank": (0, 65_536),
    "width": (0, 1_048_576),
    "feed_forward": (0, 16_777_216),
    "vocabulary": (0, 4_194_304),
    "experts": (0, 4096),
    "experts_used": (0, 4096),
    "expert_bytes": (0, 2**41),
    "embedding_bytes": (0, 2**41),
    "projector_bytes": (0, 2**41),
    "weights_spread": (0, 2**41),
}


def of(tmp_path: Path, **shape: Any) -> Description:
    """The description in a file with `LEAST` and these numbers; those that are None are left out."""
    values = {key: value for key, value in {**LEAST, **shape}.items() if value is not None}
    path = tmp_path / "m.json"
    # As large as a description may be.
    path.write_text(json.dumps({"schema_version": 1, "model": values}).ljust(MOST_JSON))
    return describe_place("m.json", tmp_path)


def refusal(tmp_path: Path, **shape: Any) -> str:
    with pytest.raises(UnreadableModelError) as refused:
        of(tmp_path, **shape)
    said = str(refused.value)
    assert said.startswith("m.json does not describe a model (")
    assert said.endswith("). Write it again with `tandem models inspect NAME --write FILE.json`.")
    return said.removeprefix("m.json does not describe a model (").removeprefix("model").partition("). Write")[0]


def test_four_numbers_are_enough(tmp_path: Path) -> None:
    model = of(tmp_path).named("mine")
    assert model == Model(
        name="mine:latest",
        source="a description",
        max_context=0,
        vocabulary=max(each.vocabulary for each in models().values()),
        **LEAST,
    )
    for key in LEAST:
        assert refusal(tmp_path, **{key: None}) == f".{key}: Field required"


def test_every_number_has_limits(tmp_path: Path) -> None:
    numbers = {field.name for field in fields(Model) if field.type in (int, "int")}
    assert numbers == set(LIMITS)
    for key, (least, most) in LIMITS.items():
        assert refusal(tmp_path, **{key: least - 1}).startswith(f".{key}: Input should be greater than or equal to")
        assert refusal(tmp_path, **{key: most + 1}) == f".{key}: Input should be less than or equal to {most}"
        assert refusal(tmp_path, **{key: "8"}) == f".{key}: Input should be a valid integer"


@pytest.mark.parametrize(
    ("shape", "said"),
    [
        ({"layer": 3}, ".layer: Extra inputs are not permitted"),
        ({"encoder": 1}, ".encoder: Input should be a valid boolean"),
        ({"architecture": "a b"}, ".architecture: String should match pattern"),
        ({"quant": "Q4 K"}, ".quant: String should match pattern"),
        ({"swa_layers": 2}, "`swa_layers` 2 has no effect without `swa_window`"),
        ({"swa_window": 512}, "`swa_window` 512 has no effect without `swa_layers`"),
        ({"recurrent_layers": 2}, "`recurrent_layers` 2 has no effect without `recurrent_state_bytes`"),
        ({"recurrent_state_bytes": 4}, "`recurrent_state_bytes` 4 has no effect without `recurrent_layers`"),
        ({"experts": 8}, "`experts` 8 has no effect without `experts_used`"),
        ({"experts_used": 8}, "`experts_used` 8 has no effect without `experts`"),
        ({"swa_kv_heads": 1}, "`swa_kv_heads` 1 has no effect without `swa_layers`"),
        ({"swa_head_dim": 64}, "`swa_head_dim` 64 has no effect without `swa_layers`"),
        ({"heads": 4}, "`kv_heads` 8 is more than `heads` 4"),
        ({"experts": 8, "experts_used": 9}, "`experts_used` 9 is more than `experts` 8"),
        ({"embedding_bytes": 2**31 + 1}, "`embedding_bytes` 2147483649 is more than `weights_bytes` 2147483648"),
        ({"expert_bytes": 2**31 + 1}, "`expert_bytes` 2147483649 is more than `weights_bytes` 2147483648"),
        (
            {"swa_layers": 2, "swa_window": 4096, "max_context": 2048},
            "`swa_window` 4096 is more than `max_context` 2048",
        ),
        (
            {"heads": 8, "swa_layers": 2, "swa_window": 512, "swa_kv_heads": 9},
            "`swa_kv_heads` 9 is more than `heads` 8",
        ),
        (
            {
                "swa_layers": 11,
                "swa_window": 9,
                "shared_kv_layers": 11,
                "recurrent_layers": 11,
                "recurrent_state_bytes": 9,
            },
            "`layers` 32 is less than the sum of 11 `swa_layers` and 11 `shared_kv_layers` and 11 `recurrent_layers`",
        ),
    ],
)
def test_numbers_that_contradict_each_other_are_refused(shape: dict[str, Any], said: str, tmp_path: Path) -> None:
    assert refusal(tmp_path, **shape).startswith(said)


def test_numbers_that_agree_are_accepted(tmp_path: Path) -> None:
    shape = {"swa_layers": 20, "swa_window": 2048, "shared_kv_layers": 12, "max_context": 2048, "heads": 8}
    assert of(tmp_path, **shape, embedding_bytes=2**31, experts=8, experts_used=8).model.swa_layers == 20


def test_every_model_of_the_catalogue_can_be_described(tmp_path: Path) -> None:
    path = tmp_path / "any name"
    for name, model in models().items():
        path.write_text(json.dumps(Description.of(model).as_dict()))
        assert asdict(describe_place(str(path)).named(name)) == asdict(model)


def test_a_model_that_contradicts_itself_has_no_description() -> None:
    odd = replace(models()["llama2:7b"], heads=1, source="m.gguf")
    with pytest.raises(UnreadableModelError) as refusal:
        Description.of(odd)
    said = "m.gguf contradicts itself (`kv_heads` 32 is more than `heads` 1). Download it again."
    assert str(refusal.value) == said


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("{", "m.json does not describe a model (Invalid JSON: "),
        ('{"model": {}}', "m.json does not describe a model (schema_version: Field required)"),
        (
            '{"schema_version": 2, "model": {}}',
            "m.json does not describe a model (schema_version: Input should be less than or equal to 1). Upda",
        ),
        ('{"schema_version": true, "model": {}}', "(schema_version: Input should be a valid integer). Write it again"),
        ('{"schema_version": 1.0, "model": {}}', "(schema_version: Input should be a valid integer). Write it again"),
        ('{"schema_version": 0, "model": {}}', "(schema_version: Input should be greater than or equal to 1). Write"),
        ('\ufeff{"model": {}}', "m.json does not describe a model (schema_version: Field required)"),
        ('{"schema_version": 1, "digest": "x", "model": {}}', "m.json does not describe a model (digest: String "),
        ("{" + " " * MOST_JSON, "m.json has more than 64 KiB, the limit for a description. Write it again with"),
        ("", "m.json does not describe a model (Invalid JSON: "),
        ("[]", "m.json does not describe a model (Input should be an object). Write it again with"),
    ],
)
def test_another_file_is_no_description(content: str, said: str, tmp_path: Path) -> None:
    (tmp_path / "m.json").write_text(content, encoding="utf-8")
    with pytest.raises(UnreadableModelError) as refusal:
        describe_place("m.json", tmp_path)
    assert said in str(refusal.value)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("none.json", "cannot be read (No such file or directory)"),
        ("none\0.json", "cannot be read (no file has that name)"),
        (".", ". is a folder. Choose a file in it."),
        ("pipe", "pipe is a device or a pipe. Choose a file."),
    ],
)
def test_a_file_that_is_missing_is_named(name: str, said: str, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(MissingFileError, match=r"\. (Write the path of a file|Choose a file( in it)?)\.$") as refusal:
        describe_place(name, tmp_path)
    assert said in str(refusal.value)


@pytest.mark.parametrize(
    "place",
    [
        "HTTPS://user:hunter2@localhost/m.gguf?sig=hunter2",
        "https:/user:hunter2@localhost/m.gguf",
        "ftp://user:hunter 2@localhost/m.gguf",
        "user:hunter2@localhost/m.gguf",
    ],
)
def test_no_message_has_a_password(place: str) -> None:
    with pytest.raises(UnreadableModelError) as refusal:
        describe_place(place)
    assert "hunter" not in str(refusal.value) + refusal.value.what
    assert "localhost/m.gguf" in str(refusal.value)


def test_the_source_has_no_password(tmp_path: Path) -> None:
    content = {"schema_version": 1, "source": "https://u:hunter2@h/x?sig=hunter2", "model": LEAST}
    (tmp_path / "m.json").write_text(json.dumps(content))
    found = describe_place("m.json", tmp_path)
    assert found.named("mine").source == found.as_dict()["source"] == "https://…@h/x?…"
