"""`tandem choose` for people and programs. Every row agrees with `tandem plan` for the same stack."""

import argparse
import json
import random
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from sharing.models.catalogue import models
from sharing.verdict.choices import choose
from stacks.stack_file.judge import Judged, judge, judge_file
from stacks.stack_file.yaml import Source
from tandem.choose.command import as_dict
from tandem.search import base_stack
from tests.command import call, on_screen
from tests.descriptions import write_description
from tests.sharing.builders import TODAY

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[3]
PAIR = ("llama2:7b", "mistral:7b", "--context", "2048")


@pytest.fixture(autouse=True)
def here(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A project, as far as the command asks."""
    (tmp_path / "Pulumi.yaml").write_bytes((ROOT / "Pulumi.yaml").read_bytes())
    monkeypatch.chdir(tmp_path)


def answered(*arguments: str) -> tuple[int, str, str]:
    ended = call("choose", *arguments, cwd=Path.cwd(), columns=80)
    return ended.returncode, ended.stdout, ended.stderr


def report(*arguments: str) -> dict[str, Any]:
    parsed: dict[str, Any] = json.loads(answered(*arguments, "--json")[1])
    return parsed


def planned(base: base_stack.BaseStack, sections: base_stack.Values) -> Judged:
    text = yaml.safe_load(yaml.safe_dump(sections))
    return judge(Source(text, base.provider), "row", today=TODAY)


# Every row agrees with the plan.


@pytest.mark.parametrize("seed", range(6))
def test_every_row_written_as_a_stack_file_has_the_same_verdict_and_cost(seed: int) -> None:
    dice = random.Random(seed)
    names = dice.choices(list(models()), k=dice.randint(1, 4))
    settings = {"context": dice.choice([512, 4096, 16384]), "slots": dice.choice([1, 2, 4])}
    region = dice.choice(["us-east-1", "eu-west-3", "eu-central-1", "eu-central-2", "sa-east-1"])
    per_hour, per_month = "max-usd-per-hour", "max-usd-per-month"
    limits: dict[str, float] = dice.choice(
        [{}, {per_hour: 0.9}, {per_hour: 3}, {per_hour: 8}, {per_month: 400}, {per_month: 2000}]
    )
    parks = {"park": {"schedule": "0 20 * * MON-FRI", "wake": "0 8 * * MON-FRI", "timezone": "UTC"}}
    base = base_stack.of_models(
        [{"name": name, **settings} for name in names], region, limits, TODAY, others=dice.choice([{}, parks])
    )
    found = choose(base.config, dice.choice([base_stack.CAPACITIES, ("spot",), ("on-demand",)]))
    rows = [(choice.cell, True) for choice in dice.sample(found.fitting, min(12, len(found.fitting)))]
    rows += [(choice.cell, True) for choice in dice.sample(found.not_judged, min(4, len(found.not_judged)))]
    rows += [(choice.cell, False) for choice in dice.sample(found.over_budget, min(4, len(found.over_budget)))]
    rows += [(cell, False) for cell in dice.sample(found.refused, min(4, len(found.refused)))]
    assert rows
    for cell, accepted in rows:
        reading = planned(base, base.sections_of(cell.config))
        assert (not reading.problems) is accepted, (
            cell.instance.name,
            cell.way,
            [str(one) for one in reading.problems],
        )
        if accepted:
            open_ = any(one.path.startswith("budget.max-usd") for one in reading.verdict.warnings)
            assert open_ is any(choice.cell is cell for choice in found.not_judged)
            assert reading.verdict.cost is not None
            assert cell.verdict.cost is not None
            assert reading.verdict.cost.usd_per_hour == pytest.approx(cell.verdict.cost.usd_per_hour, abs=1e-9)
            assert reading.verdict.cost.usd_per_month == pytest.approx(cell.verdict.cost.usd_per_month, abs=1e-6)


# The output.


def test_context_slots_region_and_capacity_are_those_of_the_arguments() -> None:
    small = report("llama2:7b")["setups"][0]["margin_mib"]
    large = report("llama2:7b", "--slots", "2")["setups"][0]["margin_mib"]
    # llama2:7b: 32 layers × 4,096 values × 2 × 2 bytes are 0.5 MiB per token; the second slot has 4,096 of them.
    assert small - large >= 2_048
    only = report("llama2:7b", "--capacity", "on-demand", "--region", "us-west-2")
    assert {one["capacity"] for one in only["setups"]} == {"on-demand"}
    assert only["region"] == "us-west-2"


def test_a_margin_is_of_the_memory_that_its_model_may_use() -> None:
    ways = {one["way"]: one["margin_of_mib"] for one in report(*PAIR)["setups"] if one["instance_type"] == "g6.xlarge"}
    # nvidia-smi reports 23,034 MiB for an L4; MPS limits each of two models to half of that.
    assert ways["mps"] == 23_034 // 2
    assert 22_000 < ways["timeslice"] == ways["exclusive"] < 23_034


@pytest.mark.parametrize(
    ("budget", "found", "least"), [("0.2", r"(\d+\.\d\d)\.\n$", 0.01), ("200/month", r"(\d+)/month", 1)]
)
def test_the_error_names_the_smallest_sufficient_budget(budget: str, found: str, least: float) -> None:
    text = answered(*PAIR, "--budget", budget)[1]
    assert ("per hour" in text) is ("month" not in text)
    enough = re.search(r"Raise\s+the\s+budget\s+to\s+" + found, text)
    assert enough
    period = "/month" * ("month" in budget)
    assert answered(*PAIR, "--budget", f"{enough[1]}{period}")[0] == 0
    assert answered(*PAIR, "--budget", f"{float(enough[1]) - least:.2f}{period}")[0] == 1


def test_programs_get_the_nearest_of_what_fails_only_where_nothing_fits() -> None:
    base = base_stack.of_models([{"name": "llama2:7b"}], "us-east-1", {}, TODAY)
    found = choose(base.config, ("spot",))
    options = ("region", "capacity", "by", "isolation", "min_tokens_per_second")
    parsed = argparse.Namespace(**dict.fromkeys(options))
    nothing = replace(found, fitting=())
    assert as_dict(base, nothing, parsed, None)["nearest_miss"]["rule"]
    some = found.fitting[:1]
    for group in ("fitting", "over_budget", "not_judged", "too_slow"):
        only: dict[str, Any] = {group: some}
        assert as_dict(base, replace(nothing, **only), parsed, None)["nearest_miss"] is None
    missed = replace(nothing, over_budget=some, too_slow=some)
    for fitting, is_given in (((), True), (some, False)):
        answer = as_dict(base, replace(missed, fitting=fitting), parsed, None)
        for key in ("cheapest_over_budget", "fastest_too_slow"):
            assert (answer[key] is not None) is is_given


# Speed.


def slowest(setup: dict[str, Any]) -> float:
    return min(float(model["speed"]["busy_tokens_per_s"]) for model in setup["models"] if model["speed"])


def per_token(setup: dict[str, Any]) -> float:
    return float(setup["usd_per_million_tokens"]["full_load"]["value"])


def test_speed_and_price_per_token_are_those_of_the_plan() -> None:
    arguments = (*PAIR, "--slots", "2", "--by", "tokens", "--budget", "3")
    first = report(*arguments)["setups"][0]
    assert answered(*arguments, "--write", "fast")[0] == 0
    plan = call("plan", "fast", "--json", cwd=Path.cwd()).json
    assert [model["speed"] for model in first["models"]] == [model["speed"] for model in plan["models"]]
    assert first["usd_per_million_tokens"] == plan["usd_per_million_tokens"]
    # All tokens of an hour, for the price of an hour.
    millions = sum(model["speed"]["full_tokens_per_s"] for model in first["models"]) * 3600 / 1e6
    assert per_token(first) == pytest.approx(first["usd_per_hour"] / millions, rel=0.01)


@pytest.mark.parametrize(
    ("by", "value"),
    [
        ("price", lambda setup: (setup["usd_per_month"], -slowest(setup))),
        ("tokens", lambda setup: -slowest(setup)),
        ("per-token", per_token),
    ],
)
def test_setups_are_ranked_by_price_speed_or_both(by: str, value: Callable[[dict[str, Any]], Any]) -> None:
    ranked = [value(setup) for setup in report("nomic-embed-text", *PAIR, "--by", by)["setups"]]
    assert len(set(ranked)) > 20
    assert ranked == sorted(ranked)


def test_every_model_of_every_setup_reaches_the_least_speed() -> None:
    every = report(*PAIR)["setups"]
    fast = report(*PAIR, "--min-tokens-per-second", "20")["setups"]
    assert fast == [setup for setup in every if slowest(setup) >= 20]
    assert 0 < len(fast) < len(every)


@pytest.mark.parametrize("budget", [(), ("--budget", "0.9")])
def test_the_error_names_a_speed_that_a_setup_reaches(budget: tuple[str, ...]) -> None:
    code, text, _ = answered(*PAIR, *budget, "--min-tokens-per-second", "500")
    enough = re.search(r"lower --min-tokens-per-second to (\d+)", " ".join(text.split()))
    assert code == 1
    assert enough
    assert answered(*PAIR, *budget, "--min-tokens-per-second", enough[1])[0] == 0
    assert answered(*PAIR, *budget, "--min-tokens-per-second", str(int(enough[1]) + 1))[0] == 1
    found = report(*PAIR, *budget, "--min-tokens-per-second", "500")
    assert found["setups"] == []
    assert int(enough[1]) <= slowest(found["fastest_too_slow"]) < int(enough[1]) + 1


def test_a_least_speed_is_for_models_that_generate_text() -> None:
    code, _, wrong = answered("nomic-embed-text", "--min-tokens-per-second", "20")
    assert (code, wrong.count("\n")) == (2, 1)
    assert "these only embed. Leave it out." in wrong
    assert answered("nomic-embed-text", "--capacity", "spot")[0] == 0


# Paris, for which the tables have no price of G5, and no spot price at all.

PARIS = (*PAIR, "--region", "eu-west-3")


def test_a_setup_without_a_known_price_is_neither_first_nor_written(tmp_path: Path) -> None:
    assert answered(*PARIS, "--budget", "0.41", "--write", "mine")[0] == 1
    assert not (tmp_path / "Pulumi.mine.yaml").exists()
    found = report(*PARIS, "--budget", "0.41")
    assert found["setups"] == []
    assert {one["price_known"] for one in found["not_judged"]} == {False}
    assert found["cheapest_over_budget"]["price_known"] is True


@pytest.mark.parametrize("cents", [1, 60])
def test_a_budget_that_is_cents_too_small_is_shown_with_them(cents: int) -> None:
    usd = report(*PAIR)["setups"][0]["usd_per_month"]
    text = " ".join(answered(*PAIR, "--budget", f"{usd - cents / 100:.2f}/month")[1].split())
    [budget, price] = re.findall(r"\$([\d.]+) per month", text)
    assert float(budget) < float(price) == (usd if "." in price else round(usd))


def test_a_monthly_budget_that_is_too_small_names_the_hours_that_it_pays_for(tmp_path: Path) -> None:
    text = " ".join(answered(*PAIR, "--budget", "200/month")[1].split())
    [hours] = re.findall(
        r"or let `park` \(`tandem init --hours`\) run the stack for at most (\d+) hours per week\.", text
    )
    cheapest = report(*PAIR)["setups"][0]
    # What is left while the GPU node is deleted, as in the test of a schedule below.
    parked = 0.10 + 0.0416 + 0.005 + 20 * 0.08 / 730
    month = {
        each: parked * 730 + (cheapest["usd_per_hour"] - parked) * each * 730 / 168
        for each in (int(hours), int(hours) + 1)
    }
    replaced = cheapest["usd_per_month"] - 730 * cheapest["usd_per_hour"]
    assert month[int(hours)] + replaced <= 200.1
    assert month[int(hours) + 1] + replaced > 199.9
    assert "`park`" not in answered(*PAIR, "--budget", "0.2")[1]


def test_a_budget_may_be_monthly() -> None:
    found = report(*PAIR, "--budget", "730/month")
    assert (found["budget_usd_per_hour"], found["budget_usd_per_month"]) == (None, 730)
    assert report(*PAIR, "--budget", "0.5/hour")["budget_usd_per_hour"] == 0.5


# A stack file.


def test_the_first_setup_is_written_as_a_stack_file_that_plans_without_a_warning(tmp_path: Path) -> None:
    code, text, _ = answered(*PAIR, "--budget", "2", "--write", "cheap")
    path = tmp_path / "Pulumi.cheap.yaml"
    assert (code, "\n\nWrote Pulumi.cheap.yaml. " in text) == (0, True)
    text = " ".join(text.split())
    assert "Wrote Pulumi.cheap.yaml. Run `tandem plan cheap` for the whole plan. It is setup 2; the first has" in text
    assert path.read_text(encoding="utf-8").startswith(
        "# Written by `tandem choose`: 1 × g4dn.xlarge, timeslice, spot, $"
    )
    lines = path.read_text(encoding="utf-8").splitlines()
    assert re.fullmatch(r"# GPU prices of us-east-1, \d{4}-\d\d-\d\d\.", lines[1])
    assert "Restrict `public-access-cidrs`" in lines[2]
    assert max(map(len, lines)) <= 120
    reading = judge_file(path)
    assert (reading.problems, reading.verdict.warnings) == ((), ())
    assert reading.config.budget.max_usd_per_hour == 2
    assert [one.context for one in reading.config.models] == [2048, 2048]


def test_a_file_that_exists_is_overwritten_with_force_only(tmp_path: Path) -> None:
    path = tmp_path / "Pulumi.mine.yaml"
    path.write_text("mine", encoding="utf-8")
    code, out, wrong = answered(*PAIR, "--write", str(path))
    assert (code, out) == (2, "")
    assert wrong == f"error: {path} exists. Use another name, such as mine-2, or --force to overwrite it.\n"
    assert path.read_text(encoding="utf-8") == "mine"
    code, out, _ = answered(*PAIR, "--write", str(path), "--force")
    assert (code, "Wrote Pulumi.mine.yaml (overwritten)." in out) == (0, True), out
    assert path.read_text(encoding="utf-8") != "mine"


@pytest.mark.parametrize(("answer", "code"), [("y", 0), ("", 2)])
def test_on_a_terminal_the_user_is_prompted(
    answer: str, code: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    path = tmp_path / "Pulumi.mine.yaml"
    path.write_text("mine", encoding="utf-8")
    monkeypatch.setattr("sys.stdin.isatty", lambda: True)
    monkeypatch.setattr("builtins.input", lambda _: answer)
    assert on_screen("choose", *PAIR, "--write", "mine", cwd=tmp_path)[0] == code
    assert (path.read_text(encoding="utf-8") == "mine") is (code == 2)


def test_nobody_is_asked_where_the_question_would_go_to_a_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "Pulumi.mine.yaml").write_text("mine", encoding="utf-8")
    monkeypatch.setattr("sys.stdin.isatty", lambda: True)
    monkeypatch.setattr("builtins.input", lambda _: pytest.fail("asked"))
    assert answered(*PAIR, "--write", "mine")[2].endswith(", or --force to overwrite it.\n")


@pytest.mark.parametrize("place", ["my.yaml", "../mine", "Pulumi.a b.yaml"])
def test_a_file_that_pulumi_does_not_read_is_refused_even_with_force(place: str, tmp_path: Path) -> None:
    before = {file: file.read_bytes() for file in tmp_path.iterdir()}
    code, out, wrong = answered(*PAIR, "--force", "--write", place)
    assert (code, out, wrong.count("\n")) == (2, "", 1)
    assert "ends in Pulumi.NAME.yaml" in wrong or "Use letters, digits" in wrong
    assert {file: file.read_bytes() for file in tmp_path.iterdir()} == before


def test_a_file_without_a_project_is_refused(tmp_path: Path) -> None:
    for folder in (tmp_path / "there", tmp_path / "not there"):
        place = folder / "Pulumi.mine.yaml"
        (tmp_path / "there").mkdir(exist_ok=True)
        code, _, wrong = answered(*PAIR, "--write", str(place))
        assert (code, place.exists()) == (2, False)
        assert wrong.startswith(f"error: {place} would have no Pulumi.yaml beside it")
        assert "`tandem init`" in wrong


def test_a_stacks_own_models_and_cluster_are_kept(tmp_path: Path) -> None:
    own = {
        "config": {
            "aws:region": "us-west-2",
            "tandem:sharing": {"mode": "mps", "replicas": 2},
            "tandem:gpu-nodes": [{"name": "a", "instance-types": ["g6.xlarge"]}, {"name": "b"}],
            "tandem:cluster": {"nat": "single", "public-access-cidrs": ["203.0.113.7/32"]},
            "tandem:models": [
                {"name": "mine", "gguf": write_description(tmp_path), "pool": "a"},
                {"name": "llama3.2:1b", "pool": "b", "context": 1024},
            ],
        }
    }
    (tmp_path / "Pulumi.own.yaml").write_text(yaml.safe_dump(own), encoding="utf-8")
    found = report("--stack", "own", "--write", "chosen")
    assert (found["region"], found["models"]) == ("us-west-2", ["mine:latest", "llama3.2:1b"])
    reading = judge_file(tmp_path / "Pulumi.chosen.yaml")
    assert reading.problems == ()
    assert reading.config.cluster.nat == "single"
    assert [one.context for one in reading.config.models] == [4096, 1024]
    assert reading.verdict.cost is not None
    assert reading.verdict.cost.usd_per_hour == pytest.approx(found["setups"][0]["usd_per_hour"], abs=1e-4)


def test_models_that_spill_are_tried_on_one_pool(tmp_path: Path) -> None:
    """The example of docs/how-to/rank-models.md: its pools disappear, and with them what names them."""
    guide = (ROOT / "docs/how-to/rank-models.md").read_text(encoding="utf-8")
    [example] = re.findall(r"```yaml\n(.*?)```", guide, re.DOTALL)
    (tmp_path / "Pulumi.rank.yaml").write_text(example, encoding="utf-8")
    assert report("--stack", "rank", "--write", "chosen")["models"] == ["llama3.1:8b", "llama2:7b", "qwen2.5:3b"]
    reading = judge_file(tmp_path / "Pulumi.chosen.yaml")
    assert reading.problems == ()
    assert [(each.spill, each.importance) for each in reading.config.models] == [
        ([], "high"),
        ([], None),
        ([], "low"),
    ]


@pytest.mark.parametrize(
    "section",
    [
        {"scale-to-zero": {"enabled": True}},
        {"park": {"schedule": "0 20 * * MON-FRI", "wake": "0 8 * * MON-FRI"}},
        {},
    ],
    ids=str,
)
def test_karpenter_still_launches_the_nodes_of_a_stack(section: dict[str, Any], tmp_path: Path) -> None:
    """Karpenter has no MIG (gpu-operator#2415), and no number of nodes but its limit."""
    values = yaml.safe_load((ROOT / "Pulumi.karpenter.yaml").read_text(encoding="utf-8"))
    values["config"] |= {f"tandem:{key}": value for key, value in section.items()}
    (tmp_path / "Pulumi.k.yaml").write_text(yaml.safe_dump(values), encoding="utf-8")
    found = report("--stack", "k", "--write", "chosen")
    assert {one["sharing"]["mode"] for one in found["setups"]} == {"exclusive", "timeslice", "mps"}
    chosen = yaml.safe_load((tmp_path / "Pulumi.chosen.yaml").read_text(encoding="utf-8"))["config"]
    first = found["setups"][0]
    assert chosen["tandem:gpu-nodes"] == {
        "provisioner": "karpenter",
        "instance-types": [first["instance_type"]],
        "capacity": first["capacity"],
        "max": first["nodes"],
    }
    reading = judge_file(tmp_path / "Pulumi.chosen.yaml")
    assert reading.problems == ()
    assert reading.verdict.cost is not None
    assert reading.verdict.cost.usd_per_hour == pytest.approx(first["usd_per_hour"], abs=1e-4)


def test_with_a_schedule_the_price_and_the_budget_are_those_of_its_month(tmp_path: Path) -> None:
    values = yaml.safe_load((ROOT / "Pulumi.dev.yaml").read_text(encoding="utf-8"))
    # Parked from 20:00 to 08:00 on weekdays, and on weekends: 60 of 168 hours remain.
    values["config"]["tandem:park"] = {"schedule": "0 20 * * MON-FRI", "wake": "0 8 * * MON-FRI"}
    file = tmp_path / "Pulumi.nights.yaml"
    file.write_text(yaml.safe_dump(values), encoding="utf-8")
    first, *_ = report("--stack", str(file))["setups"]
    # Control plane, t3.medium, its address, and its 20 GiB of gp3 at $0.08 per GiB and month: the prices of AWS.
    parked = 0.10 + 0.0416 + 0.005 + 20 * 0.08 / 730
    week = 60 * first["usd_per_hour"] + 108 * parked
    assert first["usd_per_week"] == pytest.approx(week, abs=0.02)
    replaced = (first["replacing_usd_per_hour"] - first["usd_per_hour"]) / 2  # half an hour of the added nodes
    assert first["usd_per_month"] == pytest.approx(week * 730 / 168 + replaced, abs=0.1)
    assert first["usd_per_month_unparked"] == pytest.approx(730 * first["usd_per_hour"] + replaced, abs=0.1)
    screen = answered("--stack", str(file))[1]
    row = re.search(r"^(?:\$/hour  )?\$/month .+ isolation.*\n(.+)", screen, flags=re.MULTILINE)
    assert row, screen
    # The month ranks, so the price per hour is what a narrow terminal lacks first.
    assert f"{first['usd_per_month']:.0f}" in row[1].split()[:2]
    assert "$ for the whole stack, a month with its schedule;" in screen
    # The budget is compared with the same month.
    enough = f"{int(first['usd_per_month']) + 1}/month"
    assert report("--stack", str(file), "--budget", enough)["setups"][0]["usd_per_month"] == first["usd_per_month"]
    refused = answered("--stack", str(file), "--budget", f"{int(first['usd_per_month'])}/month")[1]
    assert f"per month with its schedule. Raise the budget to {enough}, or let `park` " in " ".join(refused.split())
    always = report(*PAIR)["setups"][0]
    assert always["usd_per_week"] == pytest.approx(168 * always["usd_per_hour"], abs=0.02)


# What the screen says of what it leaves out.


@pytest.mark.parametrize("rows", ["2", "99"])
@pytest.mark.parametrize(
    ("region", "said"),
    [
        # The tables have no price of this region, and none of G5 in the other one.
        ("sa-east-1", "warning: the prices of all "),
        ("eu-west-3", r"warning: \d+ setups ranked last: the prices of g5\.xlarge, g5\.2xlarge, g5\.4xlarge and "),
    ],
)
def test_unknown_prices_are_named_whatever_rows_are_shown(region: str, said: str, rows: str) -> None:
    assert re.search(said, answered(*PAIR, "--region", region, "--rows", rows)[1])


def test_setups_that_only_rounding_makes_fast_enough_are_counted() -> None:
    setups = [
        (min(model["speed"]["busy_tokens_per_s"] for model in one["models"]), one["usd_per_hour"])
        for one in report(*PAIR)["setups"]
    ]
    speed = next(speed for speed, _ in setups if 0.1 < round(speed) - speed < 0.4)
    cheapest = min(usd for other, usd in setups if abs(other - speed) < 0.1)
    screen = answered(*PAIR, "--min-tokens-per-second", str(round(speed)), "--rows", "2")[1]
    said = rf"left out just below {round(speed)} tokens/s: \d+ setups?, from \${cheapest:.3f} per hour with [\d.]+"
    assert re.search(said, screen)
    assert "left out" not in answered(*PAIR, "--min-tokens-per-second", str(speed - 0.1), "--rows", "2")[1]


@pytest.mark.parametrize(("by", "head"), [("tokens", "tokens/s"), ("per-token", "$/million")])
def test_the_column_of_the_ranking_stays(by: str, head: str) -> None:
    lines = call("choose", *PAIR, "--by", by, cwd=Path.cwd(), columns=60).stdout.splitlines()
    heads, *rest = (line for line in lines[1:] if "$/hour" in line or not line.startswith(" "))
    assert head in heads
    # The notes are of the columns that are shown.
    for column in ("tokens/s", "$/million"):
        assert any(f"{column}: f" in line or f"{column} at" in line for line in rest) == (column in heads)


# The best setup of each region.


def test_of_all_regions_each_has_one_row_and_the_first_one_is_written(tmp_path: Path) -> None:
    found = report(*PAIR, "--region", "any", "--write", "mine")
    places = [one["region"] for one in found["setups"]]
    assert found["region"] == "any"
    assert len(places) == len(set(places)) > 10
    first = found["setups"][0]
    # The Spot Advisor of 2025-06-28 has 5–10 % for g4dn.xlarge in Ohio.
    risk = {"least_percent": 5, "most_percent": 10, "savings_percent": 64, "date": "2025-06-28"}
    assert first["spot_risk"] == {"instance_type": "g4dn.xlarge", **risk}
    assert found["setups"][-1]["spot_risk"] is None
    # Time-slicing costs the same as MPS, about which there is a warning.
    assert (first["way"], first["warnings"]) == ("timeslice", [])
    written = yaml.safe_load((tmp_path / "Pulumi.mine.yaml").read_text(encoding="utf-8"))["config"]
    assert written["aws:region"] == first["region"] == "us-east-2"
    bill = judge_file(tmp_path / "Pulumi.mine.yaml").plan().verdict.cost
    assert bill
    assert bill.usd_per_hour == pytest.approx(first["usd_per_hour"], abs=1e-4)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--live-prices",), "--live-prices are those of one region. Name it, or leave out --live-prices."),
        (("--budget", "0.2"), "is 1 × g4dn.xlarge in us-east-2, timeslice, spot"),
        (("--capacity", "spot"), "no region has a known offer with a known spot price for these models. Name one"),
    ],
)
def test_what_no_region_can_do_is_said_in_one_line(arguments: tuple[str, ...], said: str) -> None:
    # It needs more than the 96 GiB of g7e, and the tables have no spot price of a larger GPU.
    models = ("llama4:16x17b", "--context", "1048576") if "spot" in arguments else PAIR
    code, shown, errors = answered(*models, "--region", "any", *arguments)
    assert code in (1, 2)
    assert said in " ".join((shown + errors).split())
