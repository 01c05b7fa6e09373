"""`tandem plan MODEL …`: the plan of models without a file is that of the file which it, or `init`, writes."""

import datetime
import re
import shlex
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from pydantic import TypeAdapter

from tandem.plan_json.report import PlanReport
from tests.command import Ended, call, on_screen
from tests.shipped import copy_project
from tests.tandem.bench_results.test_measurements import measured

pytestmark = pytest.mark.slow

PAIR = ("qwen3:8b", "nomic-embed-text")
FRANKFURT = (*PAIR, "--region", "eu-central-1")
RAG = (*FRANKFURT, "--under", "300/month", "--nights-off")


@pytest.fixture(autouse=True)
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    copy_project(folder)
    monkeypatch.chdir(folder)
    return folder


def plan(*words: str) -> Ended:
    return call("plan", *words, cwd=Path.cwd(), columns=80)


def report(*words: str) -> dict[str, Any]:
    ended = plan(*words, "--json")
    assert ended.returncode == 0, ended.stdout
    found: dict[str, Any] = ended.json
    return found


def without_names(facts: dict[str, Any]) -> dict[str, Any]:
    """What two plans of one setup have in common: not the name of the stack, and not how it was found."""
    kept = ("mode", "pools", "models", "cost", "problems", "quotas", "usd_per_million_tokens")
    # A warning about a file has a line of it.
    warnings = [(warning["path"], warning["found"], warning["rule"]) for warning in facts["warnings"]]
    return {key: facts[key] for key in kept} | {"resources": len(facts["resources"]), "warnings": warnings}


@pytest.mark.parametrize(
    "words",
    [
        RAG,
        (*PAIR, "--under", "1", "--context", "2048", "--slots", "2"),
        ("llama3.1:8b", "--hours", "9-18 Asia/Tokyo", "--region", "ap-northeast-1"),
        ("llama2",),
        ("qwen3:14b", "llama3.2:3b", "--isolation", "memory"),
    ],
    ids=["nights-off", "context", "hours", "alias", "isolation"],
)
def test_the_plan_without_a_file_is_that_of_the_files_that_keep_it(words: tuple[str, ...], tmp_path: Path) -> None:
    found = report(*words)
    jsonschema.validate(found, TypeAdapter(PlanReport).json_schema())
    assert (found["stack"], found["choice"]["written"]) == ("mine", None)
    assert not list(Path.cwd().glob("*mine*"))
    written = report(*words, "--write", "kept")
    assert (written["stack"], written["choice"]["written"]) == ("kept", str(Path.cwd() / "Pulumi.kept.yaml"))
    empty = tmp_path / "empty"
    empty.mkdir()
    program, *arguments = shlex.split(found["choice"]["keep"])
    assert program == "tandem"
    assert call(*arguments, cwd=empty).returncode == 0
    kept, begun = report("kept"), report(str(empty / "Pulumi.mine.yaml"))
    assert kept["choice"] is begun["choice"] is None
    assert without_names(found) == without_names(written) == without_names(kept) == without_names(begun)
    files = [yaml.safe_load(path.read_text()) for path in (Path("Pulumi.kept.yaml"), empty / "Pulumi.mine.yaml")]
    (schedule, budget), begun_with = (
        [file["config"].get(f"tandem:{key}") for key in ("park", "budget")] for file in files
    )
    assert [schedule, budget] == begun_with
    assert (schedule is None) is (found["choice"]["hours"] is None)
    assert (budget is None) is ("--under" not in words)


def test_nights_off_are_the_nights_and_weekends_of_the_region() -> None:
    choice, cost = (report(*RAG)[key] for key in ("choice", "cost"))
    assert choice["hours"] == "8-20 Europe/Berlin"
    assert (choice["region"], choice["under_usd_per_month"], choice["under_usd_per_hour"]) == (
        "eu-central-1",
        300,
        None,
    )
    assert cost["week"]["running_hours"] == 5 * 12
    assert cost["usd_per_month"] < 300 < cost["usd_per_month_unparked"]


def test_models_that_support_less_get_less() -> None:
    # nomic-embed-text: context_length 2,048; qwen3:8b: 40,960.
    ended = plan(*PAIR, "--context", "8192")
    assert ended.stdout.startswith("A context of 8,192 is more than some models support; they get less: nomic-embed")
    assert [model["context"] for model in report(*PAIR, "--context", "8192")["models"]] == [8192, 2048]
    assert [model["context"] for model in report(*PAIR)["models"]] == [4096, 2048]


def test_a_screen_has_it_all() -> None:
    code, screen = on_screen("plan", *RAG, cwd=Path.cwd())
    lines = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]|\r", "", screen).splitlines()
    shown = [line for line in lines if "Planning" not in line]
    assert code == 0
    assert len(shown) <= 23  # of 24: the prompt has the last
    assert max(map(len, shown)) <= 80
    assert shown[0] == "Cheapest setup in eu-central-1 under $300 per month; nothing is written."
    assert shown[1] == "GPU nodes run 8:00 to 20:00, Monday to Friday (Europe/Berlin)."
    assert shown[2].startswith("✓ qwen3:8b and nomic-embed-text on 1 × ")
    assert shown[-1] == "To keep it, add `--write NAME`."


def test_outside_a_project_the_screen_has_the_command_that_makes_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    ended = plan("llama2:7b")
    keep = report("llama2:7b")["choice"]["keep"]
    assert ended.stdout.splitlines()[-1] == f"To keep it: {keep}"


def test_a_file_that_was_written_has_a_name_and_is_kept() -> None:
    ended = plan("llama2:7b", "--write", "one")
    lines = ended.stdout.splitlines()
    assert lines[0] == "Wrote Pulumi.one.yaml."
    assert lines[1].startswith("✓ one: llama2:7b on ")
    assert lines[-1] == "Next: `tandem sandbox up one`, or `pulumi stack init one`"
    again = plan("mistral:7b", "--write", "one")
    assert (again.returncode, " or --force to overwrite it." in again.stderr) == (2, True)
    assert "mistral:7b" not in Path("Pulumi.one.yaml").read_text()
    assert plan("mistral:7b", "--write", "one", "--force").returncode == 0
    assert "mistral:7b" in Path("Pulumi.one.yaml").read_text()


# Nothing fits.


def refusal(*words: str) -> str:
    ended = plan(*words)
    assert (ended.returncode, ended.stdout) == (1, "")
    shown = plan(*words, "--json")
    assert (shown.returncode, f"error: {shown.json['error']}\n") == (1, ended.stderr)
    return ended.stderr


@pytest.mark.parametrize(("unit", "least"), [("/month", 1), ("", 0.01)])
def test_the_named_budget_is_the_smallest_that_is_enough(unit: str, least: float) -> None:
    text = refusal(*PAIR, "--under", "2/month" if unit else "0.2")
    found = re.search(rf"[Rr]aise --under to (\d+(?:\.\d+)?){unit}", text)
    assert found, text
    assert plan(*PAIR, "--under", f"{found[1]}{unit}").returncode == 0
    assert plan(*PAIR, "--under", f"{float(found[1]) - least:.2f}{unit}").returncode == 1
    assert ("--nights-off" in text, "--region" in text) == (False, False)  # neither is enough
    assert "The cheapest is 1 × g4dn.xlarge, timeslice, spot: " in text


def test_a_measurement_of_another_setup_is_named(tmp_path: Path) -> None:
    done = plan("llama3.2:1b", "--measured", measured(tmp_path / "r.json"))
    assert "warning: r.json replaces no forecast here" in done.stderr


def test_the_steps_of_the_error_help() -> None:
    usual = report(*FRANKFURT)["cost"]["usd_per_month"]
    home = report(*PAIR)["cost"]["usd_per_month"]
    resting = report(*FRANKFURT, "--nights-off")["cost"]["usd_per_month"]
    assert resting < home < usual
    text = refusal(*FRANKFURT, "--under", f"{(home + usual) / 2:.0f}/month")
    found = re.search(
        r"Add --nights-off \(\$([\d.]+) per month\); or use --region (\S+) \(\$([\d.]+) per month\)", text
    )
    assert found, text
    assert float(found[1]) == pytest.approx(resting, abs=0.01)
    there = report(*PAIR, "--region", found[2])["cost"]["usd_per_month"]
    assert float(found[3]) == pytest.approx(there, abs=0.01)
    assert there <= home
    rested = refusal(*FRANKFURT, "--under", f"{resting - 1:.0f}/month", "--nights-off")
    assert "--nights-off" not in rested
    assert "per month with its schedule" in rested


def test_without_a_gpu_it_costs_more_than_the_budget() -> None:
    # Control plane $0.10, t3.medium $0.0416, its address $0.005 per hour, and 20 GiB of gp3 at $0.08 per month.
    text = refusal(*PAIR, "--under", "108/month")
    assert "Without any GPU, this stack costs $109 per month. The cheapest is 1 × g4dn.xlarge, timeslice, " in text
    assert text.endswith("; or take something cheaper: docs/explanation/alternatives.md.\n")
    assert "Without any GPU, this stack costs $0.149 per hour." in refusal(*PAIR, "--under", "0.14")
    assert "Without any GPU" not in refusal(*PAIR, "--under", "109/month")
    assert "Without any GPU" not in refusal(*PAIR, "--under", "0.15")


def test_smaller_models_are_named_only_where_they_reach_cheaper_nodes() -> None:
    large = refusal("gpt-oss:20b", "qwen3:8b", "--under", "350/month")
    assert "The cheapest is 1 × g6.xlarge, timeslice" in large
    assert "; or use a smaller model or quantization.\n" in large
    # For that price, small models share a T4, but no GPU has a slice for each.
    assert "smaller" not in refusal("gpt-oss:20b", "qwen3:8b", "--under", "350/month", "--isolation", "hardware")
    assert "smaller" not in refusal("qwen3:14b", "llama3.2:3b", "--under", "200/month")


def test_a_limit_per_hour_that_only_replacements_pass_may_be_one_per_month() -> None:
    text = refusal(*PAIR, "--under", "0.5")
    found = re.search(r"Use --under (\d+)/month, which counts replacements as minutes; or raise", text)
    assert found, text
    assert plan(*PAIR, "--under", f"{found[1]}/month").returncode == 0
    assert "/month" not in refusal(*PAIR, "--under", "0.3")


def test_a_region_without_a_type_that_fits_gets_the_nearest_that_has_one() -> None:
    # Melbourne has no GPU of the catalogue; Sydney has G4dn, G5 and G6.
    text = refusal("qwen3:14b", "llama3.2:3b", "--region", "ap-southeast-4")
    said = "no GPU type that fits the models is offered in ap-southeast-4. Use `--region ap-southeast-2`, the nearest"
    assert text.startswith(f"error: {said}")
    assert plan("qwen3:14b", "llama3.2:3b", "--region", "ap-southeast-2").returncode == 0


def test_the_setup_that_isolates_models_at_the_same_price_is_named() -> None:
    lines = [" ".join(line.split()) for line in plan("qwen3:14b", "llama3.2:3b").stdout.splitlines()]
    assert len(lines) <= 23
    said = "Same price, with a limit for each model: `--isolation memory` (mps-per-model, 10 tokens/s). But mps is not"
    assert said in " ".join(lines[-3:-1])
    assert report("qwen3:14b", "llama3.2:3b", "--isolation", "memory")["mode"].startswith("mps")
    assert "Same price" not in plan("qwen3:14b", "llama3.2:3b", "--isolation", "memory").stdout
    assert "Same price" not in plan("llama2:7b").stdout


def test_models_that_no_gpu_holds_get_the_nearest_miss() -> None:
    text = refusal("deepseek-r1:671b")
    assert text.startswith("error: no GPU fits the models. Nearest: ")


def test_a_price_that_nobody_knows_is_not_compared() -> None:
    # The tables have no price of the region.
    text = refusal("llama2:7b", "--region", "ap-southeast-6", "--under", "500/month")
    assert "ap-southeast-6" in text


# Stacks or models?


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("dev qwen3:8b", "the arguments mix models (qwen3:8b) and stacks (dev). Name only models, or only stacks."),
        ("qwen3:8b devv", "Did you mean dev?"),
        ("mistal", "Did you mean the model mistral:7b or "),
        ("qwen3:8x", "MODEL: unknown model 'qwen3:8x'. Did you mean qwen3:8b"),
        (
            "dev --under 1",
            "dev is a stack, and --under is for models. Name models, or run `tandem choose --stack dev`.",
        ),
        ("--under 1 --nights-off", "the models for --under and --nights-off are missing. Name them"),
        (
            "dev --under 1 --hours 8-9 --isolation memory --context 512 --slots 2 --region us-east-1 --write x --force",
            "--under, --hours, --isolation, --context, --slots, --region, --write and --force is for models.",
        ),
        ("devv --under 1", "Did you mean dev?"),
        ("qwen3:8b --running", "models have no stack file, which --running needs. Use --write first."),
        ("qwen3:8b --compare mps --outputs x", "models have no stack file, which --compare and --outputs needs."),
        ("hf.co/me/mine --running", "models have no stack file, "),
        ("huggingface.co/me/mine --running", "models have no stack file, "),
        ("qwen3:8b.yaml", "there is no file qwen3:8b.yaml."),
        ("qwen3:8b.yml", "there is no file qwen3:8b.yml."),
        ("qwen3:8b --format github", "--format github is for stack files. Leave it out."),
        ("qwen3:8b --nights-off --hours 8-9", "not allowed with argument --nights-off"),
        ("qwen3:8b --hours 9-24", "the hours must be like 8-20 Europe/Paris, or always, not '9-24'."),
        ("qwen3:8b --region nowhere", "Write us-east-1 or eu-central-1, for example. All: docs/reference/regions.md."),
        ("qwen3:8b --region any", "only `tandem choose` takes the region `any`."),
        ("qwen3:8b --context 5", "--context: must be at least 256, not 5."),
        ("qwen3:8b --slots 65", "--slots: must be at most 64, not 65."),
        ("qwen3:8b --under 3/day", "must be per hour or per month, not '3/day'."),
        ("qwen3:8b --force", "--force is for --write. Write both."),
        ("nosuch/folder", "there is no file nosuch/folder."),
    ],
)
def test_a_call_that_means_neither_is_a_usage_error(words: str, said: str) -> None:
    ended = plan(*shlex.split(words))
    assert (ended.returncode, ended.stdout) == (2, "")
    assert said in ended.stderr


def test_a_stack_that_has_the_name_of_a_model_is_a_stack() -> None:
    Path("Pulumi.mistral.yaml").write_bytes(Path("Pulumi.dev.yaml").read_bytes())
    assert report("mistral")["stack"] == "mistral"
    assert report("mistral:latest")["stack"] == "mine"
    Path("Pulumi.mistral.yaml").unlink()
    Path("mistral").mkdir()
    assert report("mistral")["models"][0]["name"] == "mistral:latest"


def test_a_name_near_both_kinds_gets_both() -> None:
    Path("Pulumi.mistrel.yaml").write_bytes(Path("Pulumi.dev.yaml").read_bytes())
    assert "Did you mean the stack mistrel, or the model mistral:7b" in plan("mistral1").stderr


def test_prices_of_today_count(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from sharing.hardware.prices import Book
    from tandem import price_cache

    today = datetime.date.today()
    books = {
        "us-east-1": Book(region="us-east-1", date=today, on_demand={"g6.xlarge": 0.01, "g4dn.xlarge": 9.0}, spot={})
    }
    monkeypatch.setattr(price_cache, "of_region", books.get)
    found = report(*PAIR, "--live-prices")
    assert found["choice"]["instance_type"] == "g6.xlarge"
    assert found["cost"]["price_source"] == "aws"
