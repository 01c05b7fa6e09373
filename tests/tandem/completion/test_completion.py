"""The completions of the Tab key, in the real shells on the PATH."""

import io
import os
import re
import shutil
import subprocess
import sys
from functools import partial
from pathlib import Path

import argcomplete
import pytest
from argcomplete import finders

from sharing.models.catalogue import models
from tandem import main
from tandem.completion.suggestions import offered_models
from tests.command import ROOT, call

BASH = """
eval "$(tandem completion bash)"
COMP_LINE=$1 COMP_POINT=${#1} COMP_TYPE=9
_python_argcomplete tandem
printf '%s\\n' "${COMPREPLY[@]}"
"""
ZSH = """
compdef() { : }
eval "$(tandem completion zsh)"
_describe() { print -rl -- "${(@P)2}" }
BUFFER=$1 CURSOR=${#1} words=(tandem)
_python_argcomplete
"""
FISH = """
tandem completion fish | source
complete -C $argv[1]
"""
SHELLS = {"bash": ["bash", "-c", BASH, "bash"], "zsh": ["zsh", "-fc", ZSH, "zsh"], "fish": ["fish", "-c", FISH]}
OFFERED = {
    "tandem pl": {"plan"},
    "tandem sandbox de": {"destroy", "delete"},
    "tandem plan --out": {"--outputs"},
    "tandem leftovers --": {"--help", "--json", "--profile", "--region", "--delete", "--yes"},
    "tandem plan my-": {"my-first", "my-second"},
    "tandem plan dir/": {"dir/Pulumi.other.yaml"},
    "tandem modes --type p5.": {"p5.4xlarge", "p5.48xlarge"},
    "tandem modes --mode mig-": {"mig-single", "mig-mixed"},
    "tandem choose mixtral": {"mixtral:8x7b", "mixtral:8x22b"},
    "tandem models --fits g4dn.x": {"g4dn.xlarge"},
    "tandem models --fits l4": {"l4", "l40s"},
    "tandem models --quant q5_k": {"q5_k_s", "q5_k_m"},
    "tandem plan my-first mixtral": {"mixtral:8x7b", "mixtral:8x22b"},
    "tandem quota --region eu-c": {"eu-central-1", "eu-central-2"},
    "tandem run good m": {"mistral:7b", "mistral-7b"},
    "tandem env good l": {"llama2:7b", "llama2-7b"},
    "tandem run my-first l": set(),
    "tandem run nowhere l": set(),
    "tandem run broken l": set(),
    "tandem plan --graph dir/": {"dir/Pulumi.other.yaml"},
    "tandem plan --measured dir/": {"dir/Pulumi.other.yaml"},
    "tandem models inspect m --projector dir/": {"dir/Pulumi.other.yaml"},
    "tandem verify my-f": {"my-first"},
    "tandem init --recipe r": {"rag"},
    "tandem models inspect gpt-oss": {"gpt-oss:20b", "gpt-oss:120b"},
    "tandem choose --context ": set(),
}
"""The exact completions of the shell for the line. Names are from AWS's and Ollama's lists."""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A project with stacks, of which one has a name that no shell may show."""
    stacks = ("my-first", "my-second", "my-\x1b[2J")
    for name in ("Pulumi.yaml", *(f"Pulumi.{stack}.yaml" for stack in stacks), "dir/Pulumi.other.yaml"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    (tmp_path / "Pulumi.broken.yaml").write_text("config: [", encoding="utf-8")
    shutil.copy(ROOT / "Pulumi.timeslice.yaml", tmp_path / "Pulumi.good.yaml")
    return tmp_path


class Ended(Exception):
    """In place of the end of the process."""


def end(code: int) -> None:
    raise Ended(code)


@pytest.mark.parametrize("line", OFFERED)
def test_tab_offers_commands_options_stacks_types_models_and_regions(
    line: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    # What the code of a shell sets (argcomplete, bash_completion.d); it completes at the cursor.
    for name, value in {
        "_ARGCOMPLETE": "1",
        "_ARGCOMPLETE_COMP_WORDBREAKS": " ",
        "_ARGCOMPLETE_IFS": "\n",
        "COMP_LINE": f"{line}zzz",
        "COMP_POINT": f"{len(line)}",
        "COMP_TYPE": "9",
    }.items():
        monkeypatch.setenv(name, value)
    out = io.BytesIO()
    answer = partial(argcomplete.autocomplete, exit_method=end, output_stream=io.TextIOWrapper(out))
    monkeypatch.setattr(argcomplete, "autocomplete", answer)
    # It would take the file descriptor 9 for its own.
    monkeypatch.setattr(finders.CompletionFinder, "_init_debug_stream", lambda _: None)
    with pytest.raises(Ended):
        main._suggest()
    assert {word.strip() for word in out.getvalue().decode().split("\n")} - {""} == OFFERED[line]


@pytest.mark.slow
@pytest.mark.parametrize("shell", SHELLS)
def test_a_shell_offers_the_same(shell: str, folder: Path) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"`{shell}` is not on the PATH")
    program = folder / "bin" / "tandem"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m tandem "$@"\n', encoding="utf-8")
    program.chmod(0o755)
    env = {**os.environ, "PATH": f"{program.parent}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT), "LC_ALL": "C.UTF-8"}
    for line, offered in [*OFFERED.items()][1:6]:
        done = subprocess.run([*SHELLS[shell], line], cwd=folder, env=env, capture_output=True, text=True)
        # fish adds a description after a tab, and zsh after a colon, so zsh escapes other colons as `\:`.
        behind = {"bash": r"$", "zsh": r"(?<!\\):", "fish": r"\t"}[shell]
        words = [re.split(behind, word)[0] for word in done.stdout.splitlines()]
        assert ({word.replace("\\", "").strip() for word in words} - {""}, done.stderr) == (offered, ""), line
        assert "None" not in done.stdout


def test_other_quantizations_are_offered_after_the_size_of_a_model() -> None:
    # https://ollama.com/library/qwen3/tags. Some shells complete only what follows the colon, so this asks without one.
    assert [name for name in offered_models("qwen3:8b-") if name.startswith("qwen3:8b-")] == [
        "qwen3:8b-fp16",
        "qwen3:8b-q8_0",
    ]
    assert offered_models("gpt-oss:") == offered_models("") == [*models()]


@pytest.mark.slow
@pytest.mark.parametrize("shell", SHELLS)
def test_the_code_of_each_shell_is_printed_without_reading_a_stack(shell: str, tmp_path: Path) -> None:
    ended = call("completion", shell, cwd=tmp_path)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert "tandem" in ended.stdout
