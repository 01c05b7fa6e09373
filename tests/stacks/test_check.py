"""`tandem.check`: the verdict of a stack file, for programs and tests without one."""

import subprocess
import sys
from collections.abc import Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest

from sharing.models.catalogue import require_model
from sharing.models.served import ServedModel
from stacks.stack_file.judge import judge
from stacks.stack_file.yaml import Source
from tandem import Exclusive, Mig, Mps, OllamaModel, TimeSlicing, check
from tests.descriptions import write_description

PAIR: list[str | dict[str, Any]] = ["llama2:7b", {"name": "mistral:7b", "context": 2048}]


def of_a_file(models: list[Any], sharing: Mapping[str, Any], **nodes: Any) -> tuple[str, ...]:
    sections = {"models": models, "sharing": sharing, "gpu-nodes": nodes}
    judged = judge(Source(sections=sections, provider={"aws:region": "us-east-1"}), "Pulumi.same.yaml")
    return tuple(problem.message for problem in judged.problems)


def test_a_setup_that_fits_is_true_and_says_how_much_memory_each_model_needs() -> None:
    mode = TimeSlicing(replicas=2, allocation_policy="distributed")
    verdict = check(models=PAIR, sharing=mode, instance_types=["g4dn.xlarge"])
    assert verdict
    assert (verdict.errors, verdict.warnings) == ((), ())
    assert str(verdict) == "no errors and no warnings"
    assert list(verdict.memory) == ["llama2-7b", "mistral-7b"]
    llama = verdict.memory["llama2-7b"]
    # Pods that take turns share all memory of the GPU.
    assert (llama.share_mib, llama.fits) == (None, True)
    # 3.6 GiB of weights (ollama.com/library/llama2) and 2 GiB of KV cache: 4096 tokens, 32 layers, 4096 values, twice.
    assert 3_600 + 2_048 < llama.gpu_mib < 6_400
    # An MPS client has half of the 15,360 MiB of a T4 (nvidia-smi).
    assert check(models=PAIR, sharing=Mps()).memory["llama2-7b"].share_mib == 7680
    assert llama.ram_mib > 128


def with_arguments(text: str) -> str:
    """A message with the names of arguments in place of keys."""
    for joined in ("with", "and"):
        text = text.replace(f"`gpu-nodes.desired: 2` {joined} `gpu-nodes.max: 2`", "`nodes: 2`")
    return text.replace("gpu-nodes.instance-types", "instance_types")


SAME: dict[str, tuple[list[Any], dict[str, Any], dict[str, Any], Any]] = {
    "too large": (["llama3.3:70b", "mistral:7b"], {"mode": "timeslice"}, {}, TimeSlicing()),
    "equal shares": (["llama2:13b", "mistral:7b"], {"mode": "mps"}, {}, Mps()),
    "a slice": (["llama2:13b"], {"mode": "mig"}, {"instance_types": ["p4d.24xlarge"]}, Mig()),
    "more models than shares": (["llama2:7b", "mistral:7b"], {"mode": "exclusive"}, {}, Exclusive()),
    "another GPU": (PAIR, {"mode": "mps"}, {"instance_types": ["g4dn.xlrge", "g6.xlarge"]}, Mps()),
    "RAM": (
        [{"name": name, "prompt-cache-mib": 8192} for name in ("llama2:7b", "mistral:7b")],
        {"mode": "timeslice"},
        {},
        TimeSlicing(),
    ),
    "form": ([{"nme": "llama2:7b"}, "mistral"], {"mode": "mpss"}, {}, {"mode": "mpss"}),
}


@pytest.mark.parametrize("name", SAME)
def test_errors_are_those_of_a_stack_file(name: str) -> None:
    models, mode, nodes, sharing = SAME[name]
    verdict = check(models=models, sharing=sharing, **nodes)
    assert not verdict
    named = [{"name": model} if isinstance(model, str) else model for model in models]
    expected = of_a_file(named, mode, **{key.replace("_", "-"): value for key, value in nodes.items()})
    assert verdict.errors == tuple(map(with_arguments, expected))
    assert check(models=models, sharing=mode, **nodes).errors == verdict.errors


def test_messages_name_the_arguments() -> None:
    [wrong] = check(models=PAIR, sharing=Mps(), instance_types=["g4dn.xlrge"]).errors
    assert wrong.startswith("instance_types[0]: unknown GPU instance type 'g4dn.xlrge'. Did you mean g4dn.xlarge")
    [more] = check(models=["llama2:7b", "mistral:7b"], sharing=Exclusive()).errors
    assert more.startswith("models: every model needs a share; found 2 models for 1 share. Write `nodes: 2`;")
    assert check(models=["llama2:7b", "mistral:7b"], sharing=Exclusive(), nodes=2)
    [region] = check(models=PAIR, sharing=Mps(), region="here").errors
    assert region.startswith("region: 'here' is not valid. Write `region: us-east-1`")
    [types] = check(models=PAIR, sharing=Mps(), instance_types="g4dn.xlarge").errors
    assert types.startswith("instance_types: must be a list, not 'g4dn.xlarge'.")
    [sharing] = check(models=PAIR, sharing="mps").errors  # type: ignore[arg-type]  # wrong on purpose
    assert sharing.startswith("sharing: must be a mapping, not 'mps'. Write `sharing: {mode: timeslice}`")
    [text] = check(models="llama2:7b", sharing=Mps()).errors
    assert text.startswith("models: must be a list, not 'llama2:7b'.")
    wrong_models: list[Any] = [5]
    assert check(models=wrong_models, sharing=Mps()).errors[0].startswith("models[0]: must be a mapping, not 5.")


def test_a_warning_leaves_a_setup_true_and_says_nothing_about_the_cluster() -> None:
    verdict = check(models=[{"model": "llama2:7b", "context": 99999}], sharing=TimeSlicing())
    assert verdict
    assert verdict.warnings == (
        "models[0].context: 99999 is more than the 4,096 tokens that llama2:7b supports. Write `context: 4096`.",
    )
    assert str(verdict) == f"warning: {verdict.warnings[0]}"


def test_memory_is_known_where_models_do_not_fit_and_unknown_after_an_error_of_form() -> None:
    large = check(models=["llama3.3:70b"], sharing=Exclusive())
    assert not large.memory["llama3-3-70b"].fits
    assert str(large).startswith(f"error: {large.errors[0]}")
    assert check(models=["nothing:1b"], sharing=Exclusive()).memory == {}


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"nodes": "2"}, "nodes: must be a whole number, not '2'. Write `nodes: 2` without quotes."),
        ({"nodes": 0}, "nodes: must be at least 1, not 0. Write `nodes: 1`."),
        ({"nodes": -1}, "nodes: must be at least 1, not -1. Write `nodes: 1`."),
        ({"nodes": 200}, "nodes: must be at most 100, not 200. Remove the argument for the default, 1."),
        (
            {"region": "us-east-9"},
            "region: 'us-east-9' is not an AWS region known on 2026-10-16. "
            "Did you mean us-east-2, us-east-1 or us-west-2?",
        ),
    ],
)
def test_a_wrong_argument_is_one_error_whose_fix_is_an_argument(arguments: dict[str, Any], said: str) -> None:
    assert check(models=PAIR, sharing=TimeSlicing(), **arguments).errors == (said,)


OWN = replace(require_model("llama2:7b"), name="acme/own:7b")


def test_advice_names_no_key_that_a_check_lacks() -> None:
    # Melbourne has no G4dn (docs/how-to/pick-a-region.md), and the file has a key against an old table.
    sections = {"models": [{"name": "llama2:7b"}], "sharing": {"mode": "timeslice"}}
    [in_a_file] = judge(Source(sections, {"aws:region": "ap-southeast-4"}), "Pulumi.x.yaml").problems
    [said] = check(models=["llama2:7b"], sharing=TimeSlicing(), region="ap-southeast-4").errors
    assert "`gpu-nodes.check-offers: false`" in in_a_file.message
    assert (said.startswith("instance_types[0]: "), "check-offers" in said) == (True, False)


OF_PROGRAMS = {each.name for each in fields(OllamaModel)} - {*ServedModel.model_fields, "model", "id", "pool"}
"""Arguments of `OllamaModel` that no entry of `models` has."""


@pytest.mark.parametrize(
    ("argument", "setting"),
    [
        ({"model": "llama2:7b", "kv_type": "q8_0"}, {"name": "llama2:7b", "kv-type": "q8_0"}),
        (
            {"model": "llama2:7b", "batch": None, **dict.fromkeys(OF_PROGRAMS - {"spill_pools"}, "any")},
            {"name": "llama2:7b"},
        ),
        (OllamaModel("llama2:7b", kv_type="q8_0", slots=2), {"name": "llama2:7b", "kv-type": "q8_0", "slots": 2}),
        (OllamaModel("llama2:7b", context=2048, packed=True), {"name": "llama2:7b", "context": 2048}),
        (OllamaModel("llama2:7b", id="one"), {"name": "llama2:7b", "id": "one"}),
        # It supports less than the default context.
        (OllamaModel("nomic-embed-text"), {"name": "nomic-embed-text:latest"}),
    ],
)
def test_a_model_of_ollama_pair_is_that_of_a_stack_file(argument: Any, setting: dict[str, Any]) -> None:
    expected = check(models=[setting], sharing=TimeSlicing())
    assert (check(models=[argument], sharing=TimeSlicing()), expected.errors) == (expected, ())


def test_a_model_that_the_program_describes_is_not_looked_up() -> None:
    """It is llama2:7b under another name, so that its memory is that of llama2:7b."""
    [own], [known] = (
        check(models=[OllamaModel(model)], sharing=TimeSlicing()).memory.values() for model in (OWN, "llama2:7b")
    )
    assert own == known
    assert check(models=["llama2:7b", OllamaModel(OWN)], sharing=TimeSlicing()).errors == ()


def test_a_dictionary_may_name_a_description(tmp_path: Path) -> None:
    file = tmp_path / write_description(tmp_path, weights_bytes=2**30)
    verdict = check(models=[{"name": "acme/own:1b", "gguf": file}], sharing=TimeSlicing())
    assert verdict.memory["acme-own-1b"].fits


def test_messages_about_a_model_of_ollama_pair_name_its_arguments() -> None:
    wrong = [
        {"model": "llama2:7b", "kv_type": "q9"},
        {"model": "llama2:7b", "kv_typ": "f16"},
        {"model": "llama2:7b", "spill_pools": "other"},
    ]
    assert check(models=wrong, sharing=TimeSlicing()).errors == (
        "models[0].kv_type: unknown value 'q9'. Known: f16, q8_0, q4_0.",
        "models[1].kv_typ: unknown key. Did you mean kv_type?",
        "models[2].spill: must be a list, not 'other'. Write the names of other pools: `spill: [rest]`.",
    )
    [name] = check(models=[{"model": "lama2:7b"}], sharing=TimeSlicing()).errors
    assert name.startswith("models[0].model: unknown model 'lama2:7b'.")


@pytest.mark.slow
def test_it_works_without_pulumi() -> None:
    code = (
        "import sys; from tandem import TimeSlicing, check; "
        "verdict = check(models=['llama2:7b', 'mistral:7b'], sharing=TimeSlicing()); "
        "print(bool(verdict), [name for name in sys.modules if name.startswith(('pulumi', 'boto', 'rich', 'httpx'))])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "True []\n"
