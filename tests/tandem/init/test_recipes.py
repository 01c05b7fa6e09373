"""`tandem init --recipe`: each recipe writes a whole stack whose plan has no warning, or says why it cannot."""

import itertools
import re
from pathlib import Path

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sharing.models.catalogue import find
from stacks.stack_file.judge import judge_file
from tandem.init import recipes
from tandem.lookup import regions
from tests.command import ROOT, call, on_screen
from tests.tandem.init.test_init_command import Answers, answers, project, written

__all__ = ["answers", "project"]
pytestmark = pytest.mark.slow

WANTED: dict[str, dict[str, int]] = {
    "chat": {"qwen3.5:9b": 16384, "gemma4:e4b": 16384},
    "rag": {"qwen3.5:9b": 32768, "embeddinggemma:300m": 2048},
    "coding": {"qwen3-coder:30b": 32768, "qwen2.5-coder:1.5b": 4096},
    "vision": {"qwen3-vl:8b": 16384, "granite4:3b": 16384},
    "private": {"gemma4:12b": 32768, "embeddinggemma:300m": 2048},
}
"""The models of each recipe with their contexts."""
WITHOUT_PAGE = {"coding"}
FLAGS = ("--ui", "ops@example.com", "--allow-cidr", "203.0.113.7/32", "--hours", "8-20 Europe/Berlin")
OF_TABLES = ("tandem does not know whether", "price")
"""Warnings about a region that no table of ours covers."""


def make(project: Path, recipe: str, *flags: str) -> Path:
    ended = call("init", "mine", "--recipe", recipe, "--yes", "--force", *flags, cwd=project)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return project / "Pulumi.mine.yaml"


def test_these_are_the_recipes() -> None:
    assert recipes.names() == sorted(WANTED)


@pytest.mark.parametrize("name", WANTED)
def test_a_recipe_writes_a_whole_stack_whose_plan_has_no_warning(name: str, project: Path) -> None:
    flags = FLAGS[2:] if name in WITHOUT_PAGE else FLAGS
    reading = judge_file(make(project, name, *flags))
    assert (reading.problems, reading.verdict.warnings) == ((), ())
    config, bill = reading.config, reading.verdict.cost
    assert {served.model.name: served.effective_context for served in config.models} == WANTED[name]
    assert (config.ui.enabled, config.ui.admin_email) == (
        (False, None) if name in WITHOUT_PAGE else (True, "ops@example.com")
    )
    assert config.park is not None
    assert (config.park.schedule, config.park.wake) == ("0 20 * * MON-FRI", "0 8 * * MON-FRI")
    assert config.park.timezone == "Europe/Berlin"
    assert config.cluster.public_access_cidrs == ["203.0.113.7/32"]
    assert (config.cluster.nat, config.cluster.logs) == (("single", True) if name == "private" else ("none", False))
    limit = config.budget.max_usd_per_month
    assert bill is not None
    assert limit is not None
    assert bill.usd_per_month * 1.2 <= limit < bill.usd_per_month * 1.2 + 10


@pytest.mark.parametrize("name", WANTED)
def test_the_limit_of_a_recipe_refuses_a_second_gpu_node(name: str, project: Path) -> None:
    file = make(project, name, *FLAGS)
    text = file.read_text(encoding="utf-8")
    more = project / "Pulumi.more.yaml"
    more.write_text(text.replace("    max: 1\n", "    max: 2\n"), encoding="utf-8")
    assert {problem.path for problem in judge_file(more).problems} >= {"budget.max-usd-per-month"}


@pytest.mark.parametrize(("region", "name"), list(zip(regions(), itertools.cycle(WANTED))), ids=str)
def test_in_every_region_a_recipe_plans_without_a_warning_or_says_why_it_cannot(
    region: str, name: str, project: Path
) -> None:
    ended = call("init", "mine", "--recipe", name, "--yes", "--region", region, *FLAGS, "--json", cwd=project)
    if ended.returncode:
        assert (ended.returncode, written(project)) == (1, [])
        assert re.search(
            r"fits the models is offered in \S+\. Use `--region \S+`|Use a smaller model", ended.json["error"]
        )
        return
    reading = judge_file(project / "Pulumi.mine.yaml")
    assert reading.problems == ()
    said = [warning.sentence for warning in reading.verdict.warnings]
    assert [one for one in said if not any(known in one for known in OF_TABLES)] == []


def test_a_program_gets_the_recipe_and_no_speed_of_models_that_embed(project: Path) -> None:
    assert call("init", "mine", "--recipe", "chat", *FLAGS, "--json", cwd=project).json["recipe"] == "chat"
    embeds = call("init", "mine", "--force", "--model", "bge-m3", "--json", cwd=project).json
    assert (embeds["recipe"], embeds["tokens_per_second"]) == (None, None)


def test_flags_replace_the_values_of_a_recipe(project: Path) -> None:
    flags = ["--model=qwen3:4b", "--model=qwen3-coder:30b", "--context=8192", "--hours=always", "--ui=none"]
    flags += ["--budget=3", "--region=us-west-2"]
    reading = judge_file(make(project, "coding", *flags))
    config = reading.config
    assert [(served.model.name, served.context, served.kv_type) for served in config.models] == [
        ("qwen3:4b", 8192, "f16"),
        ("qwen3-coder:30b", 8192, "q8_0"),
    ]
    assert (config.park, config.ui.enabled, config.region) == (None, False, "us-west-2")
    assert (config.budget.max_usd_per_hour, config.budget.max_usd_per_month) == (3, None)
    assert reading.problems == ()


def test_a_model_that_a_recipe_does_not_have_gets_its_longest_context(project: Path) -> None:
    config = judge_file(make(project, "rag", "--model=qwen3:4b", *FLAGS)).config
    assert [(served.model.name, served.context) for served in config.models] == [("qwen3:4b", 32768)]


def test_a_budget_of_the_user_is_the_only_one_and_none_is_none(project: Path) -> None:
    assert judge_file(make(project, "chat", *FLAGS, "--budget", "400/month")).config.budget.max_usd_per_month == 400
    budget = judge_file(make(project, "chat", *FLAGS, "--budget", "none")).config.budget
    assert (budget.max_usd_per_hour, budget.max_usd_per_month) == (None, None)


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (
            ["--budget=100/month"],
            ["Without any GPU, this stack costs $", "Raise the budget to ", "docs/explanation/alternatives.md"],
        ),
        (["--budget=150/month", "--hours=always"], ["(`tandem init --hours`) run the stack for at most 40 hours"]),
        (["--region=ap-southeast-4"], ["Use `--region ap-southeast-2`, the nearest region that has one."]),
        (["--model=llama3.3:70b", "--region=af-south-1"], ["the nearest region that has one, or a smaller model."]),
    ],
)
@pytest.mark.parametrize("form", [(), ("--json",)], ids=["screen", "json"])
def test_a_recipe_that_does_not_fit_is_one_error_with_the_next_step(
    flags: list[str], said: list[str], form: tuple[str, ...], project: Path
) -> None:
    ended = call("init", "--recipe", "rag", "--ui", "ops@example.com", *flags, *form, cwd=project)
    assert (ended.returncode, written(project)) == (1, [])
    text = " ".join(ended.json["error"].split() if form else ended.stdout.split())
    assert form or ended.stdout.count("error:") == 1
    for words in said:
        assert words in text


def test_the_budget_that_the_error_names_is_the_smallest_that_works(project: Path) -> None:
    def end(budget: int) -> str:
        ended = call("init", "--recipe", "rag", *FLAGS, f"--budget={budget}/month", cwd=project)
        assert (ended.returncode == 0) == bool(written(project))
        return " ".join(ended.stdout.split())

    least = int(re.findall(r"Raise the budget to (\d+)/month", end(100))[0])
    assert f"Raise the budget to {least}/month" in end(least - 1)
    assert "Wrote Pulumi.rag.yaml" in end(least)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["rag"], "the recipe `rag` needs --ui EMAIL. Pass it,"),
        (["chat"], "the recipe `chat` needs --ui EMAIL. Pass it,"),
        (["vision"], "the recipe `vision` needs --ui EMAIL. Pass it,"),
        (["private"], "needs --ui EMAIL and --allow-cidr CIDR."),
        (["private", "--ui", "none"], "needs --allow-cidr CIDR."),
        (["rga"], "--recipe: unknown value `rga`. Did you mean rag?"),
    ],
)
@pytest.mark.parametrize("yes", [(), ("--yes",)], ids=["piped", "yes"])
def test_what_only_the_user_knows_is_asked_for_by_flag(
    arguments: list[str], said: str, yes: tuple[str, ...], project: Path
) -> None:
    ended = call("init", "--recipe", *arguments, *yes, cwd=project)
    assert (ended.returncode, ended.stdout, written(project)) == (2, "", [])
    assert said in ended.stderr


def test_without_a_page_the_section_is_left_out(project: Path) -> None:
    config = yaml.safe_load(make(project, "rag", "--ui", "none").read_text(encoding="utf-8"))["config"]
    assert "tandem:ui" not in config


def test_a_recipe_asks_only_what_it_leaves_open(project: Path, answers: Answers) -> None:
    asked = answers("private", "", "eu-central-1", "", "203.0.113.7", "", "", "ops@example.com", "")
    code, screen = on_screen("init", cwd=project)
    assert code == 0
    assert [" ".join(question.split()) for question in asked] == [
        "A recipe, or `own` for models that you name [own]:",
        "Name of the stack [private]:",
        "AWS region [us-east-1]:",
        "Networks (CIDR) that may reach the Kubernetes API, or `none`:",
        "Networks (CIDR) that may reach the Kubernetes API, or `none`:",
        "Hours with GPU nodes, Monday to Friday, as in `8-20 Europe/Paris`, or `always` [8-20 Europe/Berlin]:",
        "E-mail address of the administrator of a chat page, or `none`:",
        "E-mail address of the administrator of a chat page, or `none`:",
        "Budget in dollars: `1` per hour, `350/month`, or `none` [price + 20 %]:",
    ]
    listed = screen.partition("What do you want to run?\n")[2].splitlines()[: len(WANTED)]
    assert [line.split()[0] for line in listed] == sorted(WANTED)
    assert max(map(len, (*listed, *itertools.chain(*map(str.splitlines, asked))))) < 80
    assert screen.count("the answer is empty, and there is no default.") == 2
    config = judge_file(project / "Pulumi.private.yaml").config
    assert (config.region, config.cluster.public_access_cidrs) == ("eu-central-1", ["203.0.113.7/32"])
    assert config.park is not None
    assert config.park.timezone == "Europe/Berlin"
    assert "GPU nodes run 8:00 to 20:00, Monday to Friday (Europe/Berlin). --hours changes it." in " ".join(
        screen.split()
    )
    assert "`tandem choose --stack private`" in screen


def test_a_recipe_asks_again_for_the_budget_alone(project: Path, answers: Answers) -> None:
    asked = answers("100/month", "400/month")
    flags = ("--recipe=rag", "--region=us-east-1", "--allow-cidr=none", "--hours=always", "--ui=none")
    code, screen = on_screen("init", "mine", *flags, cwd=project)
    assert (code, len(asked)) == (0, 2)
    assert asked[1].endswith("[100/month]: ")
    assert "Change the budget." in screen


def test_a_recipe_ends_where_no_budget_would_help(project: Path, answers: Answers) -> None:
    answers("")
    flags = ("--recipe=rag", "--region=ap-southeast-4", "--allow-cidr=none", "--hours=always", "--ui=none")
    assert on_screen("init", "mine", *flags, cwd=project)[0] == 1
    assert written(project) == []


TAGS = ["qwen3:8b", "nomic-embed-text", "gemma3:4b", "llama2:7b", "mistral:7b", "qwen3.5:4b", "qwen3-vl:4b", "bge-m3"]
TAGS += ["gpt-oss:20b", "qwen2.5:14b", "qwen3-embedding:0.6b", "granite4:micro-h", "llama3.2:1b", "phi4:14b"]


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    tags=st.lists(st.sampled_from(TAGS), min_size=1, max_size=3),
    context=st.sampled_from(["256", "2048", "8192", "32768", "200000"]),
    region=st.sampled_from(["us-east-1", "eu-central-1", "us-gov-west-1", "sa-east-1", "ap-southeast-2"]),
    budget=st.sampled_from(["none", "1.5", "350/month", "1000/month"]),
    hours=st.sampled_from(["always", "8-20 Europe/Berlin", "0-6"]),
    page=st.sampled_from(["none", "ops@example.com"]),
)
def test_the_plan_of_a_written_file_has_no_warning_that_was_not_beside_its_setup(
    tags: list[str], context: str, region: str, budget: str, hours: str, page: str, project: Path
) -> None:
    assert all(map(find, tags))
    flags = [f"--model={tag}" for tag in tags] + [f"--context={context}", f"--region={region}", f"--hours={hours}"]
    file = project / "Pulumi.mine.yaml"
    file.unlink(missing_ok=True)
    ended = call("init", "mine", "--yes", *flags, f"--budget={budget}", f"--ui={page}", cwd=project)
    assert (ended.returncode == 0) == file.exists(), ended.stdout + ended.stderr
    if file.exists():
        reading = judge_file(file)
        assert reading.problems == ()
        beside = " ".join(ended.stdout.partition("Wrote")[0].split())
        said = [warning.sentence for warning in reading.verdict.warnings]
        assert [one for one in said if not any(known in one for known in OF_TABLES) and one not in beside] == [], flags


def test_a_recipe_is_a_file_and_a_page() -> None:
    """A new recipe is these two; the package data of the wheel has the first."""
    pages = {path.stem for path in (ROOT / "docs" / "recipes").glob("*.md")} - {"index"}
    files = {path.stem for path in (ROOT / "tandem" / "init" / "data").iterdir()}
    assert files == pages == set(WANTED)
