"""`tandem models`, `tandem models inspect` and `tandem gpus`, for people and programs."""

import json
import re
import sys
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from stacks.model_files import cache
from stacks.model_files.errors import UnreadableModelError
from stacks.model_files.gguf_file import Contents, read
from stacks.stack_file.check import check
from stacks.stack_file.judge import judge_file
from tandem.deployed.ollama import Ollama
from tests.command import call, on_screen
from tests.descriptions import write_description
from tests.stacks.model_files.gguf_files import BLOCK, EMBEDDING, LAYERS, write
from tests.stacks.model_files.local_registry import running

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
    explained = {name for name, cells in by_name.items() if "+" in cells[-1]}
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


@pytest.mark.parametrize("place", ["t4", "G4DN.12xlarge"])
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
    listed = {name for quant in ("fp16", "q8_0", "q4_K_M") for name in names("--fits", place, "--quant", quant)}
    assert {*asked} & listed == accepted


def test_the_last_column_is_of_the_gpu_that_the_models_fit_on() -> None:
    shown = printed("models", "llama3.2", "--fits", "l4")
    # The pinned engine does not load mllama, so no GPU holds llama3.2-vision.
    assert names("llama3.2", "--fits", "l4") == ["llama3.2:1b", "llama3.2:3b"]
    assert "Last column: GPU memory on one L4 with context 4096" in shown
    assert "Each of these models fits there alone" in shown
    assert report("models", "llama3.2", "--fits", "g6.xlarge")["gpu"] == "l4"
    assert "llama3.3:70b" in names("--fits", "h100")
    assert "--fits: 'g4ad.xlarge' is unknown." in refused(2, "models", "--fits", "g4ad.xlarge"), "it has an AMD GPU"
    said = "error: --fits: 'rtx4090' is unknown. Did you mean rtx-pro-4500? Run `tandem gpus` for the list.\n"
    assert refused(2, "models", "--fits", "rtx4090") == said


GUIDE = (ROOT / "docs" / "how-to" / "choose-a-quantization.md").read_text(encoding="utf-8")
BLOCKS = [block.strip() for block in GUIDE.split("```")[1::2]]
COMMANDS = [line.split()[1:] for block in BLOCKS if block.startswith("tandem ") for line in block.splitlines()]


def test_the_guide_shows_what_its_first_command_prints() -> None:
    shown = printed(*COMMANDS[0]).splitlines()
    lines = BLOCKS[1].removeprefix("text\n").splitlines()
    assert [line for line in lines if line != "…"] == [line for line in lines if line in shown]
    assert (len(lines), lines[3], shown[len(shown) - 5]) == (6, "…", lines[-1])


@pytest.mark.parametrize("arguments", [each for each in COMMANDS[1:] if each[0] == "models"], ids=" ".join)
def test_the_other_commands_of_the_guide_list_models_that_fit(arguments: list[str]) -> None:
    assert [each[0] for each in COMMANDS].count("models") == 4
    assert "Each of these models fits there alone" in printed(*arguments)


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return write(tmp_path / "m.gguf", attention__sliding_window=0)


@pytest.mark.parametrize(
    ("columns", "left_out"),
    # The longest name has 42 characters, the other columns 6, 9, 11 and 11, the mark 1, with 2 between them.
    [(90, ""), (89, "quant"), (82, "quant"), (81, "files GiB and quant"), (70, "max context, files GiB and quant")],
)
def test_a_narrow_terminal_lacks_the_columns_that_it_names(columns: int, left_out: str) -> None:
    _, coloured = on_screen("models", "--quant", "q5_K_M", "--fits", "t4", columns=columns)
    shown = re.sub(r"\x1b\[[\d;]*m", "", coloured)
    hints = " ".join(shown.split()).partition("hint: ")[2]
    assert hints.startswith(f"a wider terminal also shows {left_out} hint: " if left_out else "for another model")
    assert max(map(len, shown.splitlines())) <= columns


def test_a_pipe_gets_all_columns() -> None:
    head, *rows = printed("models", "--quant", "q8_0").splitlines()
    assert head.split() == ["model", "quant", "files", "GiB", "max", "context", "GiB", "at", "4096"]
    assert max(map(len, rows[: rows.index("")])) > 80


@pytest.mark.parametrize(
    ("name", "text"), [("qwen2.5-coder:7b", "qwen2.5-coder:7b-instruct"), ("qwen3:8b", "qwen3:8b-"), ("gpt-oss", "")]
)
def test_a_model_of_the_catalogue_has_a_hint_at_other_quantizations(name: str, text: str) -> None:
    """ollama.com/library has 14 others of qwen2.5-coder:7b-instruct, two of qwen3:8b, and none of gpt-oss."""
    shown = printed("models", name)
    assert ("other quantizations of" in shown) == bool(text)
    if text:
        assert f"hint: for other quantizations of {name}, run `tandem models {text}`\n" in shown
        assert len(names(text)) == {"qwen3:8b": 2}.get(name, 14)
        assert "other quantizations of" not in printed("models", text)


def test_the_memory_of_a_model_is_that_of_the_gpu_with_the_least() -> None:
    """The models of the list may be larger than a T4: llama3.3:70b is. A B300 takes 617 MiB more than a T4."""
    [row, _, note, *_] = printed("models", "llama3.3").splitlines()[1:]
    assert note.startswith(
        "Last column: GPU memory with context 4096 and one slot, smallest first; up to 0.61 GiB more on a larger GPU."
    )
    assert f"GPU memory       {row.split()[4]} GiB with context 4096, up to 0.61 GiB more on a larger GPU\n" in printed(
        "models", "inspect", "llama3.3:70b"
    )


def test_a_file_is_described(model: Path) -> None:
    shown = printed("models", "inspect", str(model), "--name", "me/mine:1b")
    assert re.sub(r"\d+\.\d\d GiB", "# GiB", shown) == (
        f"model            me/mine:1b\nfrom             file: {model}\narchitecture     llama\n"
        "files            # GiB\nlayers           4\nlongest context  8,192 tokens\n"
        "GPU memory       # GiB with context 4096, up to # GiB more on a larger GPU\n"
        "Write it to a stack file with `--write STACK`, or to a file of its own with `--write FILE.json`.\n"
    )


def test_the_report_is_a_description(model: Path, tmp_path: Path) -> None:
    ended = call("models", "inspect", str(model), "--name", "me/mine:1b", "--json")
    found = ended.json
    assert (found["name"], found["by"], found["source"]) == ("me/mine:1b", "file", str(model))
    assert found["model"]["weights_bytes"] == EMBEDDING + LAYERS * BLOCK
    assert (found["model"]["kv_heads"], found["notes"], found["written"]) == (2, [], None)
    (tmp_path / "found.json").write_text(ended.stdout)
    again = report("models", "inspect", str(tmp_path / "found.json"))
    assert (again["name"], again["model"], again["source"]) == (None, found["model"], str(model))
    assert printed("models", "inspect", str(model)).startswith("model            (none: pass --name)\n")


def stack_in(folder: Path) -> Path:
    stack = folder / "Pulumi.mine.yaml"
    text = (ROOT / "Pulumi.dev.yaml").read_text(encoding="utf-8").replace("mistral:7b", "me/mine:1b")
    stack.write_text(text, encoding="utf-8")
    return stack


def test_the_plan_uses_the_written_description(model: Path, tmp_path: Path) -> None:
    stack = stack_in(tmp_path)
    shown = printed("models", "inspect", str(model), "--name", "me/mine:1b", "--write", str(stack))
    assert shown.endswith(f"{stack} and me-mine-1b.json describe the model. Run `tandem plan {stack}`.\n")
    reading = judge_file(stack)
    assert reading.problems == ()
    served = reading.config.models[1].model
    assert (served.weights_bytes, served.layers, served.max_context) == (EMBEDDING + LAYERS * BLOCK, 4, 8192)
    model.unlink()
    assert call("plan", str(stack)).returncode == 0, "the plan never reads the model"
    description = (tmp_path / "me-mine-1b.json").read_text()
    assert description.startswith('{\n "'), "people read it, and compare its lines"
    json.loads(description)


def test_a_description_may_have_a_file_of_its_own(model: Path, tmp_path: Path) -> None:
    file = tmp_path / "other.json"
    shown = printed("models", "inspect", str(model), "--name", "me/mine:1b", "--write", str(file))
    assert 'Write `gguf: other.json` beside `name: "me/mine:1b"`, with the file in the folder' in shown
    assert report("models", "inspect", str(file), "--write", str(file))["written"] == str(file)
    file.write_text("{}")
    said = refused(2, "models", "inspect", str(model), "--write", str(file))
    assert said == f"error: {file} is a file with another content. Move it, or write to another file.\n"
    assert file.read_text() == "{}"
    said = refused(2, "models", "inspect", str(model), "--write", str(tmp_path / "none" / "a.json"))
    assert "a.json cannot be written: No such file or directory. Choose another folder." in said


def test_the_catalogue_answers_first_and_without_a_network() -> None:
    shown = printed("models", "inspect", "llama3.2")
    assert shown.startswith("model            llama3.2\nfrom             catalogue: ")
    assert shown.endswith("Write `name: llama3.2` in a stack file. The catalogue has the rest.\n")
    # `ollama show llama3.2` prints this quantization.
    assert "\narchitecture     llama Q4_K_M\n" in shown
    assert report("models", "inspect", "llama2:7b")["model"]["layers"] == 32
    assert call("models", "--json", "inspect", "llama2:7b").json["by"] == "catalogue"
    assert report("models", "inspect", "llama2:7b")["by"] == "catalogue"


def test_a_path_without_a_file_is_no_tag() -> None:
    for place in ("nowhere.gguf", "nowhere.json", "./nowhere", "../nowhere", "/nowhere", "~/nowhere"):
        assert "No such file" in refused(2, "models", "inspect", place)


@pytest.mark.slow
def test_a_tag_is_looked_up_once(model: Path, tmp_path: Path) -> None:
    name = "hf.co/me/mine-GGUF:Q8_0"
    with running(tmp_path / "cache") as registry:
        [digest] = registry.push(name, ("model", model.read_bytes()))
        first, then = (report("models", "inspect", name) for _ in range(2))
        assert (first["by"], first["digest"], then["by"]) == ("registry", digest, "cache")
        assert first["model"] == then["model"]
        kept = f"Its description is kept in {cache.place_of(name)}."
        assert kept in printed("models", "inspect", name)
        stack = stack_in(tmp_path)
        stack.write_text(stack.read_text().replace("me/mine:1b", name))
        assert call("plan", str(stack)).returncode == 0
        asked = ["choose", name, "--region", "us-east-1"]
        assert call(*asked).returncode == 0
        assert len([path for path in registry.asked if "manifests" in path]) == 1
        said = refused(1, "models", "inspect", "llama2:77b")
        assert said.startswith("error: unknown model 'llama2:77b'. Did you mean llama2:7b")
        assert "registry.ollama.ai has no library/llama2:77b. Correct the name" in said
        registry.failures["slow"] = 429, b""
        said = refused(1, "models", "inspect", "hf.co/me/slow")
        looked_up = "'hf.co/me/slow' cannot be looked up. hf.co answered with 429 Too Many Requests. Try again later,"
        assert said.startswith(f"error: model {looked_up}")
        stack.write_text(stack.read_text().replace(name, "hf.co/me/slow"))
        [problem] = judge_file(stack).problems
        assert "'hf.co/me/slow' (hf.co/me/slow:latest in Ollama) cannot be looked up. hf.co answered" in str(problem)


def test_a_description_that_cannot_be_kept_is_not_said_to_be(model: Path, tmp_path: Path) -> None:
    with running(tmp_path / "cache") as registry:
        registry.push("hf.co/me/mine:Q8_0", ("model", model.read_bytes()))
        (tmp_path / "cache").touch()
        assert printed("models", "inspect", "hf.co/me/mine:Q8_0").endswith('"` in a stack file.\n')


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("qw\u0435n3:8b", "'qw\u0435n3:8b' is not a tag. It contains U+0435 CYRILLIC SMALL LETTER IE. Write one as in"),
        ("\u200fqwen3:8b", "It contains U+200F RIGHT-TO-LEFT MARK. Write one as in"),
        ("qwen3:8b ", "'qwen3:8b' is not a tag. It contains a space. Write one as in"),
        ("user:hunter2@localhost/a/b", "'…@localhost/a/b' is not a tag. Write one as in"),
    ],
)
def test_a_name_that_is_no_tag_is_named_without_secrets(name: str, said: str) -> None:
    assert said in refused(2, "models", "inspect", name)


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
        f"{unknown} cannot be described. Its architecture `warp9` is unknown. Describe it by hand, and write" in listed
    )
    odd = write(tmp_path / "odd.gguf", expert_count=2, expert_used_count=3)
    listed = refused(1, "models", "inspect", str(odd))
    assert "contradicts itself (`experts_used` 3 is more than `experts` 2)" in listed
    wide = write(tmp_path / "wide.gguf", attention__key_length=100_000)
    listed = refused(1, "models", "inspect", str(wide))
    assert "contradicts itself (model.head_dim: Input should be less than or equal to 4096)" in listed


def test_a_server_is_asked_only_if_it_is_named(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, ...]] = []

    def from_tag(server: Ollama) -> tuple[Contents, int]:
        asked.append((server.endpoint.model, server.endpoint.url))
        return read(model), 123

    monkeypatch.setattr("tandem.models.from_ollama.read_tag", from_tag)
    tag = report("models", "inspect", "llama2:7b", "--ollama", "http://h:1/")
    assert (tag["name"], tag["by"], tag["source"]) == ("llama2:7b", "ollama", "llama2:7b of Ollama")
    assert tag["model"]["projector_bytes"] == 123
    assert tag["notes"] == [
        "projector_bytes is an upper bound: Ollama does not report the projector's size.",
        "The catalogue has llama2:7b: `name` alone is enough, unless you have changed the model.",
    ]
    assert asked == [("llama2:7b", "http://h:1")]
    mine = "models", "inspect", "mine:1b", "--ollama", "http://h:1"
    assert "\nwarning: projector_bytes is an upper bound" in printed(*mine)
    for name, is_known in (("llama3.2", True), ("registry.ollama.ai/library/llama3.2", True), ("mine:1b", False)):
        notes = report("models", "inspect", name, "--ollama", "http://h:1")["notes"]
        assert any(note.startswith(f"The catalogue has {name}:") for note in notes) is is_known
    monkeypatch.setattr("tandem.models.from_ollama.read_tag", lambda server: (read(model), 0))
    assert report("models", "inspect", "mine:1b", "--ollama", "http://h:1")["notes"] == []
    assert "is not read: TANDEM_OFFLINE is set" in refused(1, "models", "inspect", "mine:1b")
    assert "--ollama h:1: " in refused(2, "models", "inspect", "mine:1b", "--ollama", "h:1")


def test_an_error_names_tags_alone_as_models(monkeypatch: pytest.MonkeyPatch) -> None:
    no_tensors = UnreadableModelError("Ollama describes mine:1b without tensors", "Update Ollama.")
    monkeypatch.setattr("tandem.models.from_ollama.read_tag", Mock(side_effect=no_tensors))
    for given in (["mine:1b", "--ollama", "http://h:1"], ["https://h/mine.gguf"], [str(ROOT / "README.md")]):
        assert "error: model" not in refused(1, "models", "inspect", *given)


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


def test_a_description_is_not_left_behind_if_the_stack_file_cannot_be_changed(model: Path, tmp_path: Path) -> None:
    stack = tmp_path / "Pulumi.mine.yaml"
    stack.write_text("config: {}\n")
    call("models", "inspect", str(model), "--name", "mine", "--write", str(stack))
    assert not (tmp_path / "mine.json").exists()
    write_description(tmp_path).replace("own", "mine")
    (tmp_path / "own.json").rename(tmp_path / "mine.json")
    before = (tmp_path / "mine.json").read_text()
    call("models", "inspect", str(model), "--name", "mine", "--write", str(stack))
    assert (tmp_path / "mine.json").read_text() == before


def test_a_name_is_needed_for_a_stack_file(model: Path, tmp_path: Path) -> None:
    said = refused(2, "models", "inspect", str(model), "--write", str(stack_in(tmp_path)))
    assert "Pass `--name TAG`, the tag that its pods pull." in said


def test_the_extra_is_named_where_it_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in [name for name in sys.modules if name.startswith(("httpx", "tandem.deployed", "tandem.models.from"))]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, "httpx", None)
    said = refused(2, "models", "inspect", "mine:1b", "--ollama", "http://h:1")
    assert "`tandem models inspect` needs httpx. Run " in said
    assert report("models", "inspect", "llama2:7b")["by"] == "catalogue"
