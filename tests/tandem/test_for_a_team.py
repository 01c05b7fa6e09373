"""`--slots`: requests at the same time, in `tandem init`, `plan` and `choose`, and what a plan says of them."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from stacks.stack_file.judge import judge_file
from tests.command import call
from tests.tandem.init.test_init_command import project

__all__ = ["project"]
pytestmark = pytest.mark.slow

CODING = ("--recipe", "coding", "--region", "us-east-1", "--hours", "8-20 America/New_York")
PAIR = ("qwen3:8b", "nomic-embed-text")
ONE_AT_A_TIME = "Ollama serves nomic-embed-text one request at a time: --slots leaves it out."


def make(project: Path, name: str, *flags: str) -> Path:
    ended = call("init", name, "--yes", *flags, cwd=project)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return project / f"Pulumi.{name}.yaml"


def changed(file: Path, model: dict[str, Any], **sections: Any) -> Path:
    """The stack file with more keys of each model, and other sections."""
    values = yaml.safe_load(file.read_text(encoding="utf-8"))
    config = values["config"]
    config["tandem:models"] = [{**each, **model} for each in config["tandem:models"]]
    for name, section in sections.items():
        if section is None:
            del config[f"tandem:{name}"]
        else:
            config[f"tandem:{name}"] = section
    other = file.with_name("Pulumi.changed.yaml")
    other.write_text(yaml.safe_dump(values), encoding="utf-8")
    return other


@pytest.mark.parametrize("command", ["init", "plan", "choose", "choose-stack"])
def test_slots_are_those_of_models_that_ollama_gives_several(command: str, project: Path) -> None:
    tags = [word for tag in PAIR for word in ("--model", tag)]
    file = make(project, "one", *tags, "--budget", "5")
    calls = {
        "init": ["init", "mine", *tags, "--yes"],
        "plan": ["plan", *PAIR, "--write", "mine"],
        "choose": ["choose", *PAIR, "--write", "mine"],
        "choose-stack": ["choose", "--stack", str(file), "--write", "mine"],
    }
    ended = call(*calls[command], "--slots", "8", cwd=project)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert (ONE_AT_A_TIME in " ".join(ended.stdout.split())) is (command != "choose-stack")
    reading = judge_file(project / "Pulumi.mine.yaml")
    assert [served.slots for served in reading.config.models] == [8, 1]
    assert reading.verdict.warnings == ()


def test_a_shorter_context_makes_room_for_slots_at_the_price_of_one(project: Path) -> None:
    """As `docs/recipes/coding.md` says."""
    [one, four, whole] = (
        call("init", name, *CODING, *flags, "--json", cwd=project).json["usd_per_month"]
        for name, flags in (
            ("one", ()),
            ("four", ("--slots", "4", "--context", "8192")),
            ("whole", ("--slots", "4")),
        )
    )
    assert one == four < whole


@pytest.mark.parametrize(
    "words", ["init --model qwen3:8b --yes", "init --recipe coding", "plan qwen3:8b", "choose llama2"]
)
def test_slots_have_a_bound(words: str, project: Path) -> None:
    ended = call(*words.split(), "--slots", "65", cwd=project)
    assert (ended.returncode, ended.stdout) == (2, "")
    assert ended.stderr.startswith("error: --slots: must be at most 64, not 65. Leave it out")
    assert ended.stderr.count("--slots") == 1


def test_each_slot_has_the_whole_context_and_a_request_gets_its_part_of_the_speed(project: Path) -> None:
    make(project, "alone", *CODING)
    make(project, "team", *CODING, "--slots", "8")
    alone, team = (call("plan", name, "--json", cwd=project).json["models"] for name in ("alone", "team"))
    # A cache of 8 bits: the eight slots need eight times the memory of one.
    assert [model["kv_mib"] / one["kv_mib"] for model, one in zip(team, alone, strict=True)] == pytest.approx(
        [8, 8], 0.01
    )
    each = [round(model["speed"]["full_tokens_per_s"] / 8) for model in team]
    words = " ".join(call("plan", "team", "-v", cwd=project, columns=80).stdout.split())
    ranges = re.findall(
        r"8 requests to each model: (\d+) \(\d+–\d+\) and (\d+) \(\d+–\d+\) tokens/s per request", words
    )
    assert [tuple(map(str, each))] == ranges
    busy = r"in 8 slots while all are in use: (\d+) \(\d+–\d+\) per request"
    assert re.findall(busy, words) == [*map(str, each)]
    assert "per request" not in call("plan", "alone", "-v", cwd=project).stdout


def test_only_models_with_several_slots_are_named_where_they_differ(project: Path) -> None:
    file = make(project, "pair", "--model", "llama3.2:3b", "--model", "llama3.2:1b")
    changed(file, {}, models=[{"name": "llama3.2:3b", "slots": 2}, {"name": "llama3.2:1b"}])
    [line] = [one for one in call("plan", "changed", cwd=project).stdout.splitlines() if "per request" in one]
    assert re.fullmatch(r"  all slots in use, tokens/s per request: llama3\.2:3b \d+ \(\d+–\d+\)", line)


@pytest.mark.parametrize(
    ("tags", "last", "hints"),
    [
        (("qwen3:8b", "llama3.2:1b"), "500-token prompt", False),
        (("qwen3-coder:30b", "qwen2.5-coder:1.5b"), "prompt", False),
        (("llama3.1:8b-instruct-q8_0", "qwen2.5-coder:1.5b"), "all busy", True),
    ],
)
def test_a_row_of_a_model_is_one_line_of_80_columns(tags: tuple[str, str], last: str, hints: bool) -> None:
    """A range of the last column goes first, then the column."""
    screen = call("plan", *tags, "--slots", "8", "--context", "16384", cwd=Path.cwd(), columns=80).stdout.splitlines()
    head = next(place for place, line in enumerate(screen) if line.lstrip().startswith("GiB"))
    assert screen[head].endswith(last)
    assert [line.split()[0] for line in screen[head + 1 : head + 3]] == [*tags]
    assert max(map(len, screen)) <= 80
    assert ("hint: a wider terminal also shows 500-token prompt" in screen) is hints


def test_a_time_that_rounds_to_nothing_is_less_than_a_tenth_of_a_second(project: Path) -> None:
    make(project, "team", *CODING, "--slots", "8")
    large, small = call("plan", "team", "--json", cwd=project).json["models"]
    assert small["speed"]["first_token_high"] < 100 <= large["speed"]["first_token_high"]
    screen = call("plan", "team", cwd=project, columns=120).stdout
    assert [line.endswith("  <0.1 s") for line in screen.splitlines() if "8 × " in line] == [False, True]


def test_an_error_about_memory_names_what_fits_above_the_budget(project: Path) -> None:
    file = changed(make(project, "coding", *CODING), {"slots": 8})
    [problem] = judge_file(file).problems
    found = re.search(
        r"; or, above your budget, `(gpu-nodes\.instance-types): \[(\S+)\]` "
        r"\(\$([\d.]+) per hour, \$(\d+) per month\)\.$",
        problem.fix,
    )
    assert found, problem.fix
    nodes = yaml.safe_load(file.read_text(encoding="utf-8"))["config"]["tandem:gpu-nodes"]
    larger = judge_file(changed(file, {}, **{"gpu-nodes": {**nodes, "instance-types": [found[2]]}}))
    assert {one.path.partition(".")[0] for one in larger.problems} == {"budget"}
    bill = larger.verdict.cost
    assert bill is not None
    assert (f"{bill.usd_per_hour:.3f}", f"{bill.usd_per_month:.0f}") == (found[3], found[4])
    unlimited = judge_file(changed(file, {}, budget=None, **{"gpu-nodes": nodes}))
    assert "above your budget" not in unlimited.problems[0].fix
    assert f"instance-types: [{found[2]}]" in unlimited.problems[0].fix


def test_where_no_change_is_within_the_budget_one_above_it_is_named(project: Path) -> None:
    file = changed(make(project, "coding", *CODING), {}, models=[{"name": "llama3.3:70b"}])
    [problem, *_] = judge_file(file).problems
    assert re.search(
        r"Above the budget, this would: `.*` \(\$.* per hour, \$.* per month\)\. "
        r"Use a smaller model, or raise the budget\.$",
        problem.fix,
    ), problem.fix


def test_two_limits_are_raised_as_keys_or_by_one_flag(project: Path) -> None:
    changed(make(project, "coding", *CODING), {"slots": 8})
    said = " ".join(call("choose", "--stack", "changed", cwd=project).stdout.split())
    found = re.search(
        r"Write `budget\.max-usd-per-month: (\d+)` and `budget\.max-usd-per-hour: ([\d.]+)` in the stack file, "
        r"or pass --budget (\d+)/month\.$",
        said,
    )
    assert found, said
    month, hour = int(found[1]), float(found[2])
    assert found[3] == found[1]
    assert call("choose", "--stack", "changed", "--budget", f"{month}/month", cwd=project).returncode == 0
    for limits, code in (((month, hour), 0), ((month - 1, hour), 1), ((month, round(hour - 0.01, 2)), 1)):
        keys = dict(zip(("max-usd-per-month", "max-usd-per-hour"), limits, strict=True))
        changed(project / "Pulumi.coding.yaml", {"slots": 8}, budget=keys)
        assert call("choose", "--stack", "changed", cwd=project).returncode == code, limits


def test_choose_says_how_to_name_a_stack(project: Path) -> None:
    make(project, "coding", *CODING)
    ended = call("choose", "coding", cwd=project)
    assert (ended.returncode, ended.stdout) == (2, "")
    assert ended.stderr.startswith("error: coding is a stack. Run `tandem choose --stack coding`.")
    make(project, "mistral", "--model", "llama2:7b")
    assert call("choose", "mistral", "--json", cwd=project).json["models"] == ["mistral:latest"]


def test_the_setup_above_the_budget_is_the_one_that_a_larger_budget_gets(project: Path) -> None:
    said = " ".join(call("init", "less", "--yes", *CODING, "--budget", "200/month", cwd=project).stdout.split())
    found = re.search(r"fits the models is (\d × \S+) in us-east-1, (\S+), (\S+):", said)
    assert found, said
    head = make(project, "more", *CODING).read_text(encoding="utf-8")
    assert f"{found[1]}, {found[2]}, {found[3]}, $" in head


@pytest.mark.parametrize("command", ["init", "plan"])
def test_the_time_zone_of_hours_without_one_is_shown(command: str, project: Path) -> None:
    hours = ("--hours", "9-17", "--region", "eu-central-1")
    calls = {
        "init": ["init", "mine", "--model", "llama2:7b", "--yes", *hours],
        "plan": ["plan", "llama2:7b", "--write", "mine", *hours],
    }
    ended = call(*calls[command], cwd=project)
    assert ended.returncode == 0
    assert "Europe/Berlin" in ended.stdout
    always = call(*calls[command][:-4], "--force", cwd=project).stdout
    assert "America/New_York" not in always
