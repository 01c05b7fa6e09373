"""Which of the catalogue, the cache, a registry and a file describes a model."""

import json
import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

import tandem
from sharing.models.catalogue import models
from stacks.model_files import cache, web
from stacks.model_files.errors import UnreadableModelError
from stacks.model_files.find import find_model
from stacks.stack_file.judge import judge_file
from tests.stacks.model_files.gguf_files import LAYERS, write
from tests.stacks.model_files.local_registry import Registry, running

NAME = "hf.co/me/mine-GGUF:Q8_0"
URL = "https://files.example/v2/me/x/blobs/m.gguf?signature=secret"


@pytest.fixture
def registry(tmp_path: Path) -> Iterator[Registry]:
    with running(tmp_path / "cache") as started:
        yield started


@pytest.fixture
def gguf(tmp_path: Path) -> Path:
    return write(tmp_path / "m.gguf")


def test_programs_find_models_by_the_same_function() -> None:
    assert tandem.find_model is find_model
    assert "find_model" in dir(tandem)


def test_the_catalogue_answers_first(registry: Registry) -> None:
    assert find_model("llama2:7b") == models()["llama2:7b"]
    assert registry.asked == []


def test_a_model_is_looked_up_once_and_found_offline_afterwards(
    registry: Registry, gguf: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    [digest] = registry.push(NAME, ("model", gguf.read_bytes()))
    found = find_model(NAME)
    assert (found.name, found.layers, found.source) == (NAME, LAYERS, NAME)
    asked = len(registry.asked)
    monkeypatch.setenv(web.OFFLINE, "1")
    assert find_model(NAME) == found
    assert len(registry.asked) == asked
    [kept] = cache.home().iterdir()
    assert kept == cache.place_of(NAME)
    assert json.loads(kept.read_text())["digest"] == digest
    assert kept.stat().st_mode & 0o777 == 0o600


def test_a_name_without_defaults_is_kept_once(registry: Registry, gguf: Path) -> None:
    registry.push("registry.ollama.ai/library/mine:latest", ("model", gguf.read_bytes()))
    assert find_model("mine") == find_model("registry.ollama.ai/library/mine:latest") == find_model("library/mine")
    assert len([path for path in registry.asked if "manifests" in path]) == 1


@pytest.mark.parametrize("kind", ["broken", "pipe"])
def test_a_kept_file_that_is_broken_is_read_again(kind: str, registry: Registry, gguf: Path) -> None:
    registry.push(NAME, ("model", gguf.read_bytes()))
    found = find_model(NAME)
    if kind == "pipe":
        cache.place_of(NAME).unlink()
        os.mkfifo(cache.place_of(NAME))
    else:
        cache.place_of(NAME).write_text('{"schema_version": 1')
    assert find_model(NAME) == found
    assert json.loads(cache.place_of(NAME).read_text())["digest"]


def test_a_cache_that_cannot_be_written_is_no_error(
    registry: Registry, gguf: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    registry.push(NAME, ("model", gguf.read_bytes()))
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    assert find_model(NAME).layers == LAYERS


def test_a_file_describes_a_model_whatever_the_catalogue_says(gguf: Path) -> None:
    found = find_model("llama2:7b", gguf.name, folder=gguf.parent)
    assert (found.name, found.layers, found.source) == ("llama2:7b", LAYERS, "m.gguf")
    assert found.projector_bytes == 0
    assert find_model("llama2:7b", gguf) == find_model("llama2:7b", str(gguf), folder=Path("/elsewhere"))


def test_a_url_is_read_once_and_its_secrets_are_not_kept(
    registry: Registry, gguf: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    registry.blobs["m.gguf"] = gguf.read_bytes()
    monkeypatch.setattr("tests.stacks.model_files.local_registry.CDN", "files.example")
    found = find_model("mine:1b", URL)
    assert (found.layers, found.source) == (LAYERS, URL.partition("?")[0])
    assert find_model("mine:1b", URL) == found
    assert len(registry.asked) == 1
    [kept] = cache.home().iterdir()
    assert "secret" not in kept.name + kept.read_text()


def test_a_long_name_has_a_place_in_the_cache(registry: Registry) -> None:
    long = f"{'h' * 350}.example/{'n' * 80}/{'m' * 80}:{'t' * 80}"
    assert len(cache.place_of(long).name) == 64 + len(".json")
    assert cache.place_of("a/b/c:d").name == "a%2Fb%2Fc:d.json"
    at_limit = "a" * 200
    assert cache.place_of(at_limit).stem == at_limit
    assert len(cache.place_of(f"{at_limit}a").stem) == 64


def test_nothing_is_kept_of_a_model_that_was_not_found(registry: Registry) -> None:
    with pytest.raises(UnreadableModelError):
        find_model("nothing:1b")
    assert not cache.home().exists()


GUIDE = Path(__file__).parents[3] / "docs" / "how-to" / "use-a-model-of-your-own.md"


def blocks(kind: str) -> list[str]:
    return re.findall(rf"^```{kind}\n(.*?)^```", GUIDE.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)


def test_the_names_of_the_guide_are_planned(registry: Registry, gguf: Path, tmp_path: Path) -> None:
    [section] = blocks("yaml")
    models = yaml.safe_load(section)["tandem:models"]
    registry.push(models[0]["name"], ("model", gguf.read_bytes()))
    file = tmp_path / "Pulumi.x.yaml"
    settings = {"aws:region": "us-east-1", "tandem:sharing": {"mode": "exclusive"}, "tandem:models": models}
    file.write_text(yaml.safe_dump({"config": settings}))
    assert [served.model.name for served in judge_file(file).config.models] == [each["name"] for each in models]


def test_the_program_of_the_guide_runs_with_its_description(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    [description], [program] = blocks("json"), blocks("python")
    (tmp_path / "my-model.json").write_text(description)
    monkeypatch.chdir(tmp_path)
    exec(compile(program, "guide", "exec"), {})
    assert capsys.readouterr().out == "no errors and no warnings\n"
