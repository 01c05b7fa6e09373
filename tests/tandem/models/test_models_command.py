"""`tandem models`, `tandem models inspect` and `tandem gpus`, for people and programs."""

import json
from pathlib import Path
from typing import Any

import pytest

from sharing.models.catalogue import find, models
from sharing.models.served import OWN_KEYS
from stacks.stack_file.check import check
from stacks.stack_file.custom_models import own_keys
from stacks.stack_file.judge import judge_file
from tandem.deployed.ollama import Ollama
from tandem.models.gguf_file import Contents, read
from tests.command import call, on_screen
from tests.tandem.models.gguf_files import BLOCK, EMBEDDING, LAYERS, write

ROOT = Path(__file__).parents[3]


def printed(*arguments: str) -> str:
    ended = call(*arguments)
    assert (ended.returncode, ended.stderr) == (0, "")
    return ended.stdout


def report(*arguments: str) -> dict[str, Any]:
    parsed: dict[str, Any] = json.loads(printed(*arguments, "--json"))
    assert parsed["schema_version"] == 1
    return parsed


def refused(code: int, *arguments: str) -> str:
    """The output for people of a call that exits with `code`, after a check that its JSON agrees."""
    ended, listed = call(*arguments), call(*arguments, "--json")
    assert (ended.returncode, ended.stdout, ended.stderr[:7], listed.returncode) == (code, "", "error: ", code)
    assert listed.json["error"] in ended.stderr.replace("\nerror: ", "\n")
    return ended.stderr


def test_the_list_is_sorted_by_memory_and_explains_a_large_buffer() -> None:
    lines = printed("models").splitlines()
    head, rows = lines[0], lines[1 : lines.index("")]
    assert head.split()[:2] == ["model", "quant"]
    by_name = {row.split()[0]: row.split()[1:] for row in rows}
    memory = [float(cells[3]) for cells in by_name.values()]
    assert memory == sorted(memory)
    # registry.ollama.ai/library/llama3.2:1b is Q8_0, as `ollama show` prints.
    assert (by_name["llama3.2:1b"][0], by_name["llama2:7b"][0]) == ("Q8_0", "Q4_0")
    explained = {name for name, cells in by_name.items() if "+" in cells}
    assert explained == {"qwen3-embedding:0.6b", "qwen3-embedding:4b", "qwen3-embedding:8b"}
    # Logits of 4,096 tokens: 151,669 entries of four bytes each (llama.cpp: n_outputs = n_tokens for embeddings).
    _, files, _, needed, *_ = by_name["qwen3-embedding:0.6b"]
    assert float(needed) - float(files) == pytest.approx(151_669 * 4096 * 4 / 2**30 + 0.5, abs=0.2)
    assert "151,669 × 4,096 tokens are 2.3 GiB. A shorter `context` needs less." in printed("models")
    assert "+" not in printed("models", "--filter", "llama3")
    [one] = report("models", "--filter", "llama3.2:1b")["models"]
    assert one["quantization"] == "Q8_0"


def names(*arguments: str) -> list[str]:
    return [model["name"] for model in report("models", *arguments)["models"]]


def test_a_word_or_a_quantization_selects_models() -> None:
    assert names("QWEN3:8b") == names("--filter", "qwen3:8b") == ["qwen3:8b"]
    # ollama.com/library/qwen3/tags: besides q4_K_M, the tag qwen3:8b, there are these two.
    assert names("qwen3:8b-") == ["qwen3:8b-q8_0", "qwen3:8b-fp16"]
    assert names("llama3.2:1b", "--quant", "q8_0") == ["llama3.2:1b", "llama3.2:1b-text-q8_0"]
    assert names("--quant", "fp16", "--filter", "llama3.2:1b") == ["llama3.2:1b-instruct-fp16", "llama3.2:1b-text-fp16"]
    assert {"gpt-oss:20b", "gpt-oss:120b"} == {*names("--quant", "mxfp4")}


def test_a_size_that_is_derived_is_marked_and_has_its_source() -> None:
    shown = printed("models", "qwen3:8b-q")
    assert shown.splitlines()[1].endswith(" ~")
    assert "~ The size is derived from the model's shape" in shown
    assert "~" not in printed("models", "qwen3:8b")
    [one] = report("models", "qwen3:8b-q")["models"]
    assert (one["source"], one["quantization"]) == ("size: derived; shape: that of qwen3:8b", "Q8_0")
    assert one["weights_spread"] == one["weights_bytes"] // 100


@pytest.mark.parametrize("place", ["t4", "g4dn.xlarge", "G4DN.12xlarge"])
def test_models_that_fit_are_those_that_a_plan_accepts_alone(place: str) -> None:
    """llama2:7b in F16 needs 14.5 GiB of the 14.6 that CUDA can use: only the margin refuses it."""
    asked = ["llama2:7b-chat-fp16", "llama2:7b-chat-q8_0", "mistral-nemo:12b-instruct-2407-q8_0", "llama3.3:70b"]
    accepted = {
        name
        for name in asked
        if check(
            models=[{"name": name, "context": 4096}], sharing={"mode": "exclusive"}, instance_types=["g4dn.xlarge"]
        )
    }
    assert accepted == {"llama2:7b-chat-q8_0", "mistral-nemo:12b-instruct-2407-q8_0"}
    listed = {name for name in asked if name in names("--fits", place, "--quant", find_quantization(name))}
    assert listed == accepted


def find_quantization(name: str) -> str:
    found = find(name)
    assert found
    return found.quant


def test_the_last_column_is_of_the_gpu_that_the_models_fit_on() -> None:
    shown = printed("models", "llama3.2", "--fits", "l4")
    # The pinned engine does not load mllama, so no GPU holds llama3.2-vision.
    assert names("llama3.2", "--fits", "l4") == ["llama3.2:1b", "llama3.2:3b"]
    assert "Last column: GPU memory on one L4 with context 4096" in shown
    assert "Each of these models fits there alone" in shown
    assert report("models", "llama3.2", "--fits", "g6.xlarge")["gpu"] == "l4"
    assert "llama3.3:70b" in names("--fits", "h100")
    assert "--fits: 'g4ad.xlarge' is unknown." in refused(2, "models", "--fits", "g4ad.xlarge"), "it has an AMD GPU"


GUIDE = (ROOT / "docs" / "how-to" / "choose-a-quantization.md").read_text(encoding="utf-8")
BLOCKS = [block.strip() for block in GUIDE.split("```")[1::2]]
COMMANDS = [line.split()[1:] for block in BLOCKS if block.startswith("tandem ") for line in block.splitlines()]


def test_the_guide_shows_what_its_first_command_prints() -> None:
    shown = printed(*COMMANDS[0]).splitlines()
    lines = BLOCKS[1].removeprefix("text\n").splitlines()
    assert [line for line in lines if line != "…"] == [line for line in lines if line in shown]
    assert (len(lines), lines[3], shown[len(shown) - 5]) == (6, "…", lines[-1])


@pytest.mark.parametrize("arguments", COMMANDS[1:], ids=" ".join)
def test_the_other_commands_of_the_guide_list_models_that_fit(arguments: list[str]) -> None:
    assert len(COMMANDS) == 4
    assert "Each of these models fits there alone" in printed(*arguments)


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return write(tmp_path / "m.gguf", attention__sliding_window=0)


@pytest.mark.parametrize(("columns", "is_hinted"), [(79, True), (80, False)])
def test_a_narrow_terminal_learns_of_more_columns(columns: int, is_hinted: bool) -> None:
    _, shown = on_screen("models", columns=columns)
    assert ("a terminal of 80 columns shows more columns" in shown, "files GiB" in shown) == (is_hinted, not is_hinted)


def test_a_file_is_described_by_the_keys_of_a_stack_file(model: Path) -> None:
    weights = round((EMBEDDING + LAYERS * BLOCK) / 2**30, 10)
    assert printed("models", "inspect", str(model)) == (
        f"- name: NAME\n  weights-gib: {weights}\n  layers: 4\n  kv-heads: 2\n  head-dim: 16\n  vocabulary: 300\n"
        "  architecture: llama\n  max-context: 8192\n  heads: 4\n  width: 64\n  feed-forward: 128\n"
        "Add these lines to `tandem:models`, or run the command again with `--write STACK`.\n"
    )


def test_the_report_has_the_whole_model(model: Path) -> None:
    found = report("models", "inspect", str(model), "--name", "me/mine:1b")
    assert (found["model"]["name"], found["model"]["source"]) == ("me/mine:1b", str(model))
    assert found["model"]["weights_bytes"] == EMBEDDING + LAYERS * BLOCK
    assert (found["own_model_keys"]["kv-heads"], found["notes"], found["written"]) == (2, [], None)


def test_the_plan_uses_the_written_description(model: Path, tmp_path: Path) -> None:
    stack = tmp_path / "Pulumi.mine.yaml"
    text = (ROOT / "Pulumi.dev.yaml").read_text(encoding="utf-8").replace("mistral:7b", "me/mine:1b")
    stack.write_text(text, encoding="utf-8")
    shown = printed("models", "inspect", str(model), "--name", "me/mine:1b", "--write", str(stack))
    assert shown.endswith(f"Pulumi.mine.yaml describes the model. Run `tandem plan {stack}`.\n")
    reading = judge_file(stack)
    assert reading.problems == ()
    served = reading.config.models[1].model
    assert (served.weights_bytes, served.layers, served.max_context) == (EMBEDDING + LAYERS * BLOCK, 4, 8192)
    model.unlink()
    assert call("plan", str(stack)).returncode == 0, "the plan never reads the model"


@pytest.mark.parametrize("name", models())
def test_every_model_of_the_catalogue_can_be_described_by_own_model_keys(name: str) -> None:
    assert set(own_keys(models()[name])) <= set(OWN_KEYS)


def test_a_projector_in_a_file_of_its_own_is_counted(model: Path, tmp_path: Path) -> None:
    mmproj = write(tmp_path / "mmproj.gguf", "clip")
    found = report("models", "inspect", str(model), "--projector", str(mmproj))
    assert found["model"]["projector_bytes"] == read(mmproj).bytes
    assert "is not a projector." in refused(1, "models", "inspect", str(model), "--projector", str(model))
    assert "It is a projector, not a language model." in refused(1, "models", "inspect", str(mmproj))


def test_files_that_describe_no_model_are_refused(model: Path, tmp_path: Path) -> None:
    short = tmp_path / "short.gguf"
    short.write_bytes(model.read_bytes()[:-1])
    assert "its tensors need" in refused(1, "models", "inspect", str(short))
    assert "is not a GGUF file" in refused(1, "models", "inspect", str(ROOT / "README.md"))
    unknown = write(tmp_path / "unknown.gguf", "warp9")
    listed = refused(1, "models", "inspect", str(unknown))
    assert (
        f"{unknown} cannot be described. Its architecture `warp9` is unknown. Describe it with the custom-model"
        in listed
    )
    odd = write(tmp_path / "odd.gguf", expert_count=2, expert_used_count=3)
    listed = refused(1, "models", "inspect", str(odd))
    assert "contradicts itself (the model.experts-used: must be at most 2 (`experts`), not 3" in listed
    wide = write(tmp_path / "wide.gguf", attention__key_length=100_000)
    listed = refused(1, "models", "inspect", str(wide))
    assert "contradicts itself (head-dim: Input should be less than or equal to 4096)" in listed


def test_urls_and_tags_are_read_in_their_own_ways(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    contents = read(model)
    asked: list[tuple[str, ...]] = []

    def from_url(url: str) -> Contents:
        asked.append((url,))
        return contents

    def from_tag(server: Ollama) -> tuple[Contents, int]:
        asked.append((server.endpoint.model, server.endpoint.url))
        return contents, 123

    monkeypatch.setattr("tandem.models.inspection.read_url", from_url)
    monkeypatch.setattr("tandem.models.inspection.read_tag", from_tag)
    url = report("models", "inspect", "https://x.example/m.gguf?token=1")
    assert url["model"]["source"] == "https://x.example/m.gguf"
    tag = report("models", "inspect", "llama2:7b", "--ollama", "http://h:1/")
    assert (tag["model"]["name"], tag["model"]["projector_bytes"]) == ("llama2:7b", 123)
    assert tag["notes"] == [
        "projector-bytes is an upper bound: Ollama does not report the projector's size.",
        "The catalogue has llama2:7b: `name` alone is enough, unless you have changed the model.",
    ]
    assert asked == [("https://x.example/m.gguf?token=1",), ("llama2:7b", "http://h:1")]
    assert "\nwarning: projector-bytes is an upper bound" in printed("models", "inspect", "mine:1b")
    for name, is_known in (("llama3.2", True), ("registry.ollama.ai/library/llama3.2", True), ("mine:1b", False)):
        notes = report("models", "inspect", name)["notes"]
        assert any(note.startswith(f"The catalogue has {name}:") for note in notes) is is_known


def test_an_ollama_that_is_unavailable_is_named() -> None:
    listed = refused(1, "models", "inspect", "mine:1b", "--ollama", "http://127.0.0.1:1")
    assert "Ollama (http://127.0.0.1:1) cannot be reached" in listed
    assert listed.endswith("Start it, or forward its port again.\n")


def test_a_stack_file_that_cannot_be_changed_is_left_alone(model: Path, tmp_path: Path) -> None:
    stack = tmp_path / "Pulumi.mine.yaml"
    stack.write_text("config: {}\n")
    listed = refused(2, "models", "inspect", str(model), "--name", "mine", "--write", str(stack))
    assert "Pulumi.mine.yaml has no list of models." in listed
    assert stack.read_text() == "config: {}\n"


def test_the_extra_is_named_where_it_is_missing(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def without(path: Path) -> Contents:
        raise ModuleNotFoundError("No module named 'httpx'", name="httpx")

    monkeypatch.setattr("tandem.models.inspection.read", without)
    assert "`tandem models inspect` needs httpx. Run " in refused(2, "models", "inspect", str(model))
