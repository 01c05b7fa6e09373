"""`tandem init` with a new user's answers: wrong answers, Ctrl-C, and no terminal at all."""

import json
import re
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yaml

from stacks.stack_file.judge import judge_file
from stacks.stack_file.schema import stack_schema
from tests.command import ROOT, call, on_screen
from tests.shipped import FILES, STACKS

Answers = Callable[..., list[str]]
pytestmark = pytest.mark.slow


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A checkout with the files that the command checks."""
    (tmp_path / "Pulumi.yaml").write_bytes((ROOT / "Pulumi.yaml").read_bytes())
    return tmp_path


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch) -> Answers:
    """Gives these answers at a terminal; returns the list of questions."""

    def give(*said: str | type[BaseException]) -> list[str]:
        questions: list[str] = []
        left: Iterator[str | type[BaseException]] = iter(said)

        def answer(question: str) -> str:
            questions.append(question)
            text = next(left)
            if not isinstance(text, str):
                raise text
            return text

        monkeypatch.setattr("sys.stdin.isatty", lambda: True)
        monkeypatch.setattr("builtins.input", answer)
        return questions

    return give


def written(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if path.name != "Pulumi.yaml")


def test_the_answers_make_a_stack_file_and_its_plan_is_shown(project: Path, answers: Answers) -> None:
    said = ("", "", "eu-west-1", "203.0.113.7", "8-20 Europe/Paris", "ops@example.com", "llama2:7b, mistral:7b", "2048")
    questions = answers(*said, "400/month", "2")
    code, screen = on_screen("init", cwd=project)
    assert code == 0
    assert [re.split(r"[,:(\[]", question)[0].strip() for question in questions] == [
        "A recipe",
        "Name of the stack",
        "AWS region",
        "Networks",
        "Hours with GPU nodes",
        "E-mail address of the administrator of a chat page",
        "Models",
        "Context in tokens",
        "Budget in dollars",
        "Setup",
    ]
    reading = judge_file(project / "Pulumi.mine.yaml")
    assert (reading.problems, reading.verdict.warnings) == ((), ())
    assert reading.config.region == "eu-west-1"
    assert reading.config.cluster.public_access_cidrs == ["203.0.113.7/32"]
    assert [model.name for model in reading.config.models] == ["llama2:7b", "mistral:7b"]
    assert reading.config.budget.max_usd_per_month == 400
    assert reading.config.ui.admin_email == "ops@example.com"
    assert {model.context for model in reading.config.models} == {2048}
    assert reading.config.park is not None
    assert (reading.config.park.times.running_hours, reading.config.park.timezone) == (5 * 12, "Europe/Paris")
    rows = re.findall(r"^([1-3]) +\d+  1 × \S+ +(\S+).* \d+ \(\d+–\d+\)", screen, re.MULTILINE)
    assert [number for number, _ in rows] == ["1", "2", "3"]
    assert reading.config.pools[0].sharing.mode == rows[1][1]
    assert (
        screen.index("\n\nWrote Pulumi.mine.yaml")
        < screen.index(". This is its plan:\n\n")
        < screen.index("GPU memory")
    )
    deploy = "`pulumi stack init mine`, `tandem doctor mine`, `pulumi up --stack mine`, `tandem open mine`"
    assert " ".join(screen.split()).endswith(f" Next, at no cost: `tandem sandbox up mine` On AWS: {deploy}")


def test_the_proposed_setup_has_no_warning_though_an_equally_cheap_one_is_faster(
    project: Path, answers: Answers
) -> None:
    """MPS is faster and not officially supported (ollama#9765)."""
    questions = answers(*[""] * 10)
    _, screen = on_screen("init", cwd=project)
    assert re.search(r"^1 +(\d+\.\d{3})  1 × \S+ +mps .*\n2 +\1  1 × \S+ +timeslice ", screen, re.MULTILINE)
    assert "\nSetup 2 is proposed: as cheap as setup 1, and without a warning.\n" in screen
    assert questions[-1] == "Setup [2]: "
    assert judge_file(project / "Pulumi.mine.yaml").config.pools[0].sharing.mode == "timeslice"


def test_without_questions_the_setup_that_is_written_has_its_reason_too(project: Path) -> None:
    said = "\nSetup 2 is written: as cheap as setup 1, and without a warning.\n"
    assert said in call("init", "--yes", cwd=project).stdout
    isolated = call("init", "--yes", "--force", "--isolation", "memory", cwd=project)
    assert " is written: " not in isolated.stdout, "the first is, though it has a warning: no other is as cheap"
    assert judge_file(project / "Pulumi.mine.yaml").config.pools[0].sharing.mode == "mps"


def test_a_large_and_a_small_model_may_have_limits_per_model(project: Path, answers: Answers) -> None:
    """8.4 and 1.8 GiB of weights (Ollama's library) on a T4 with 14.6: equal shares would be too small."""
    answers(*[""] * 6, "qwen2.5:14b qwen2.5:3b", "", "", "1")
    code, screen = on_screen("init", cwd=project)
    assert code == 0
    assert re.search(r"^1 +\d+\.\d{3}  1 × g4dn.xlarge +mps-per-model ", screen, re.MULTILINE)
    assert "MPS with limits per model" in " ".join(screen.split())
    file = project / "Pulumi.mine.yaml"
    assert judge_file(file).problems == ()
    config = yaml.safe_load(file.read_text(encoding="utf-8"))["config"]
    assert config["tandem:sharing"] == {"mode": "mps", "limits": "per-model", "replicas": 2}


def test_a_wrong_answer_is_explained_and_the_question_asked_again(project: Path, answers: Answers) -> None:
    (project / "Pulumi.old.yaml").write_text("old", encoding="utf-8")
    wrong = ["rga", "own", "a b", "old", "n", "new", "us-est-1", "us-east-1", "10.0.0.1/8", "nonsense", "none"]
    wrong += ["20-8", "8-24", "8-20 Paris", "always", "me", "none", "lama2:7b", "llama2:7b", "much", "100", ""]
    questions = answers(*wrong, "-1", "1/year", "350", "llama2:7b", "4096", "none", "0", "4", "x", "1")
    code, screen = on_screen("init", cwd=project, columns=200)
    assert code == 0
    assert written(project) == ["Pulumi.new.yaml", "Pulumi.old.yaml"]
    assert (project / "Pulumi.old.yaml").read_text(encoding="utf-8") == "old"
    assert len(questions) == len(wrong) + 10
    assert questions[-5].endswith("[350/month]: "), "the unit that was meant"
    assert "Name of the stack [mine]: " in questions, "a name without a file"
    assert re.search(r"^\S*hint:\S* Nothing was written. Choose another name", screen, re.MULTILINE)
    for hint in (
        "Did you mean us-west-1",
        "has host bits set",
        "Did you mean llama2:7b",
        "number from 1 to 3",
        "350 per hour is $255,500",
    ):
        assert hint in screen
    assert "unknown recipe 'rga'. Did you mean rag?" in screen
    for hint in ("the hours must be like 8-20 Europe/Paris", "Europe/Paris?", "must be an e-mail", "at least 256"):
        assert hint in screen
    assert judge_file(project / "Pulumi.new.yaml").config.cluster.public_access_cidrs == []


def test_the_user_may_change_models_and_budget_while_nothing_fits(project: Path, answers: Answers) -> None:
    questions = answers("", "", "", "qwen2.5:32b", "", "0.1", "llama3.2:1b", "", "2", "1")
    code, screen = on_screen("init", "mine", "--region", "us-east-1", "--allow-cidr", "none", cwd=project)
    assert (code, len(questions)) == (0, 10)
    assert "no setup fits" in screen
    assert questions[6] == "Models, separated by spaces [qwen2.5:32b]: "
    assert questions[8] == "Budget in dollars: `1` per hour, `350/month`, or `none` [0.1]: "
    assert "Change the models or the budget." in screen
    assert [model.name for model in judge_file(project / "Pulumi.mine.yaml").config.models] == ["llama3.2:1b"]


def test_the_defaults_of_a_second_round_are_the_flags_and_then_the_answers(project: Path, answers: Answers) -> None:
    questions = answers("", "8192", "146/month", "llama3.2:1b", "", "1460/month", "1")
    flags = ["--region=us-east-1", "--allow-cidr=none", "--hours=always", "--ui=none"]
    flags += ["--model=qwen2.5:32b", "--context=2048", "--budget=0.1"]
    assert on_screen("init", "mine", *flags, cwd=project)[0] == 0
    defaults = [re.findall(r"\[(.*)\]: $", question)[0] for question in questions]
    assert defaults == ["qwen2.5:32b", "2048", "0.1", "qwen2.5:32b", "8192", "146/month", "1"]
    assert judge_file(project / "Pulumi.mine.yaml").config.budget.max_usd_per_month == 1460


@pytest.mark.parametrize("model", ["nomic-embed-text", "gemma3:4b"])
def test_the_plan_of_the_file_has_no_warning(model: str, project: Path) -> None:
    """Whatever the model supports: 2,048 tokens (nomic-embed-text), or no fewer (gemma3, with its projector)."""
    for context in ("256", "8192"):
        flags = ("--model", "qwen3:8b", "--model", model, "--region", "eu-central-1", "--budget", "350/month")
        ended = call("init", "mine", *flags, "--context", context, "--yes", "--force", cwd=project)
        assert ended.returncode == 0, ended.stdout + ended.stderr
        reading = judge_file(project / "Pulumi.mine.yaml")
        assert (reading.problems, reading.verdict.warnings) == ((), ())
        assert "costs up to $" in " ".join(ended.stdout.split()), "the peak, which the file limits"
        assert reading.config.budget.max_usd_per_month == 350


def test_a_context_that_a_model_does_not_support_is_lowered_and_said(project: Path) -> None:
    flags = ("--model=llama2:7b", "--model=mistral:7b", "--context=999999", "--yes")
    said = "A context of 999,999 is more than some models support; they get less: llama2:7b 4,096, mistral:7b 32,768."
    assert said in call("init", "mine", *flags, cwd=project).stdout
    assert said in call("init", "json", *flags, "--json", cwd=project).stderr
    assert "is more than" not in call("init", "fits", "--yes", cwd=project).stdout


@pytest.mark.parametrize("place", [0, 9])
def test_nothing_is_written_after_ctrl_c(place: int, project: Path, answers: Answers) -> None:
    answers(*[""] * place, KeyboardInterrupt)
    assert on_screen("init", cwd=project)[0] == 130
    assert written(project) == []


def test_nothing_is_written_if_the_input_ends(project: Path, answers: Answers) -> None:
    answers("", EOFError)
    code, screen = on_screen("init", cwd=project)
    assert (code, written(project)) == (2, [])
    assert re.search(r"^\n\S*error:.* Nothing was written", screen, re.MULTILINE), "below the question"


@pytest.mark.parametrize("stack", [(), ("mine",)])
def test_a_file_is_kept_and_nothing_else_asked_if_the_input_ends(
    stack: tuple[str, ...], project: Path, answers: Answers
) -> None:
    path = project / "Pulumi.mine.yaml"
    path.write_text("mine", encoding="utf-8")
    questions = answers(*["", "mine"] * (not stack), EOFError)
    code, screen = on_screen("init", *stack, cwd=project, columns=200)
    assert (code, path.read_text(encoding="utf-8")) == (2, "mine")
    assert len(questions) == (1 if stack else 3)
    refusal = f"{path} exists. Use another name, such as mine-2, or --force to overwrite it."
    assert re.search(rf"^\n\S*error:\S* {re.escape(refusal)}\n\Z", screen, re.MULTILINE), "below the question"


def test_without_a_terminal_one_error_names_the_flags(project: Path) -> None:
    ended = call("init", cwd=project)
    assert (ended.returncode, ended.stdout, written(project)) == (2, "", [])
    assert ended.stderr.count("\n") == 1
    for flag in ("--model", "--region", "--budget", "--allow-cidr", "--context", "--hours", "--ui", "--yes"):
        assert flag in ended.stderr


@pytest.mark.parametrize(
    ("flags", "hint"),
    [
        (("--region", "us-est-1"), "Did you mean us-west-1, us-east-1"),
        (("--model", "lama2:7b"), "--model: unknown model 'lama2:7b'. Did you mean llama2:7b"),
        (("--model", "foo:1b"), "Connect once and run `tandem models inspect foo:1b`"),
        (("--allow-cidr", "1.2.3"), "--allow-cidr: must be a CIDR block, as in 203.0.113.7/32, not '1.2.3'"),
        (("../x.yaml",), "ends in Pulumi.NAME.yaml"),
        (("--allow-cidr", "10.0.0.0/8"), "private range"),
        (("--budget", "much"), "must be a number above 0"),
        (("--context", "100"), "--context: must be at least 256, not 100"),
        (("--slots", "65"), "--slots: must be at most 64, not 65"),
        (("--hours", "8-20 Paris"), "unknown time zone 'Paris'. Did you mean Europe/Paris?"),
        (("--hours", "20-8"), "the hours 20-8 must end later than they start. Make the second number larger."),
        (("--hours", "8-8"), "the hours 8-8 must end later than they start."),
        (("--region", "Frankfurt"), "unknown region 'Frankfurt'. Frankfurt is eu-central-1."),
        (("--ui", "me"), "must be an e-mail address, or none"),
        (("a b",), "letters, digits"),
    ],
)
def test_a_wrong_flag_is_an_immediate_error(flags: tuple[str, ...], hint: str, project: Path) -> None:
    ended = call("init", "--yes", *flags, cwd=project)
    assert (ended.returncode, ended.stdout, written(project)) == (2, "", [])
    assert hint in ended.stderr


def test_flags_answer_every_question(project: Path) -> None:
    flags = ("--model", "llama3.2:1b", "--model", "llama3.2:3b", "--budget", "2", "--region", "us-west-2")
    ended = call(
        "init", "small", *flags, "--allow-cidr", "203.0.113.7/32", "--allow-cidr", "198.51.100.0/24", cwd=project
    )
    assert ended.returncode == 0, ended.stderr
    config = judge_file(project / "Pulumi.small.yaml").config
    assert [model.name for model in config.models] == ["llama3.2:1b", "llama3.2:3b"]
    assert config.cluster.public_access_cidrs == ["203.0.113.7/32", "198.51.100.0/24"]
    assert (config.region, config.budget.max_usd_per_hour) == ("us-west-2", 2)


@pytest.mark.parametrize(
    "words",
    [("init", "--yes", "--force", "--budget"), ("choose", "llama2:7b", "--budget"), ("plan", "llama2:7b", "--under")],
)
def test_a_number_alone_that_was_meant_per_month_is_an_error(words: tuple[str, ...], project: Path) -> None:
    """350 dollars × 730 hours = 255,500."""
    ended = call(*words, "350", cwd=project)
    said = "error: 350 per hour is $255,500 per month. Did you mean 350/month? If not, write 350/hour.\n"
    assert (ended.returncode, ended.stderr, written(project)) == (2, said, [])
    # Up to about $0.81 per hour while nodes are replaced: 20 times that is $16.
    assert [call(*words, limit, cwd=project).returncode for limit in ("350/hour", "$350/month", "14", "20")] == [
        0,
        0,
        0,
        2,
    ]


def test_nights_off_are_hours_of_the_region(project: Path) -> None:
    ended = call("init", "--yes", "--nights-off", "--region", "eu-central-1", cwd=project)
    park = judge_file(project / "Pulumi.mine.yaml").config.park
    assert park is not None
    assert (park.schedule, park.wake, park.timezone) == ("0 20 * * MON-FRI", "0 8 * * MON-FRI", "Europe/Berlin")
    assert "\n\nWrote Pulumi.mine.yaml. This is its plan:\n\n✓ mine: " in ended.stdout
    assert "\n\nGPU nodes run 8:00 to 20:00, Monday to Friday (Europe/Berlin).\n" in ended.stdout
    assert call("init", "--yes", "--nights-off", "--hours=8-9", cwd=project).returncode == 2


def test_an_existing_name_has_the_next_free_one_as_the_default(project: Path, answers: Answers) -> None:
    for name in ("mine", "mine-2"):
        (project / f"Pulumi.{name}.yaml").touch()
    questions = answers("own", KeyboardInterrupt)
    on_screen("init", cwd=project)
    assert questions[1] == "Name of the stack [mine-3]: "
    assert "exists. Use another name, such as mine-3, or --force to" in call("init", "--yes", cwd=project).stderr


def test_a_page_needs_a_model_to_chat_with_in_words_of_the_call(project: Path) -> None:
    page = ("init", "--yes", "--ui", "ops@example.com", "--model", "bge-m3")
    recipe = call(*page, "--recipe", "rag", cwd=project).stderr
    assert recipe == (
        "error: --model replaces all models of the recipe, and the page then has none to chat with. "
        "Add --model qwen3.5:9b.\n"
    )
    own = call(*page, cwd=project).stderr
    assert own == "error: --model: the page has no model to chat with. Add --model llama2:7b.\n"
    assert call(*page, "--model", "qwen3:4b", cwd=project).returncode == 0


def test_nothing_is_written_if_no_setup_fits(project: Path) -> None:
    ended = call("init", "--yes", "--budget", "0.1", cwd=project)
    assert (ended.returncode, written(project)) == (1, [])
    assert "Raise the budget to" in " ".join(ended.stdout.split())
    assert call("init", "--yes", "--budget", "0.1", "--json", cwd=project).json["error"]


def test_programs_get_one_object(project: Path) -> None:
    ended = call("init", "--yes", "--json", cwd=project)
    found, path = ended.json, project / "Pulumi.mine.yaml"
    setup = yaml.safe_load(path.read_text(encoding="utf-8"))["config"]
    nodes = setup["tandem:gpu-nodes"]
    plan = call("plan", "mine", "--json", cwd=project).json
    assert ended.returncode == 0
    assert found == {
        "schema_version": 1,
        "written": [str(path)],
        "stack": "mine",
        "recipe": None,
        "mode": setup["tandem:sharing"]["mode"],
        "instance_type": nodes["instance-types"][0],
        "nodes": nodes["desired"],
        "capacity": nodes["capacity"],
        "usd_per_hour": plan["cost"]["usd_per_hour"],
        "usd_per_month": plan["cost"]["usd_per_month"],
        "tokens_per_second": min(model["speed"]["busy_tokens_per_s"] for model in plan["models"]),
    }


def test_an_empty_folder_becomes_a_project(tmp_path: Path) -> None:
    ended = call("init", "--yes", cwd=tmp_path)
    assert ended.returncode == 0
    assert written(tmp_path) == ["Pulumi.mine.yaml", "__main__.py", "stack.schema.json"]
    assert yaml.safe_load((tmp_path / "Pulumi.yaml").read_text(encoding="utf-8"))["name"] == "tandem"
    assert "from stacks.program import run\n\nrun()\n" in (tmp_path / "__main__.py").read_text(encoding="utf-8")
    assert json.loads((tmp_path / "stack.schema.json").read_text(encoding="utf-8")) == stack_schema()
    first = (tmp_path / "Pulumi.mine.yaml").read_text(encoding="utf-8").splitlines()[0]
    assert first == "# yaml-language-server: $schema=stack.schema.json"


def test_in_a_checkout_the_editor_reads_the_schema_of_the_documentation(project: Path) -> None:
    for schema in (project / "docs" / "stack.schema.json", project / "stack.schema.json"):
        schema.parent.mkdir(exist_ok=True)
        schema.write_text("{}", encoding="utf-8")
    assert call("init", "--yes", cwd=project).returncode == 0
    first, then, *_ = (project / "Pulumi.mine.yaml").read_text(encoding="utf-8").splitlines()
    assert first == "# yaml-language-server: $schema=docs/stack.schema.json"
    assert then.startswith("# Written by `tandem init`: 1 × g4dn.xlarge, timeslice, spot, $")


def test_the_project_of_another_program_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "Pulumi.yaml").write_text("name: web\nruntime: go\n", encoding="utf-8")
    ended = call("init", "--yes", cwd=tmp_path)
    assert (ended.returncode, written(tmp_path)) == (2, [])
    assert "is of the project `web`" in ended.stderr
    (tmp_path / "Pulumi.yaml").unlink()
    (tmp_path / "__main__.py").touch()
    assert call("init", "--yes", cwd=tmp_path).returncode == 2
    assert written(tmp_path) == ["__main__.py"]


def test_a_file_elsewhere_is_written_without_a_project(project: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    file = tmp_path_factory.mktemp("elsewhere") / "Pulumi.own.yaml"
    assert call("init", str(file), "--yes", cwd=project).returncode == 0
    assert [path.name for path in file.parent.iterdir()] == ["Pulumi.own.yaml"]


def test_git_ignores_the_users_stack_file_and_tracks_the_shipped_ones() -> None:
    def ignored(*names: str) -> list[str]:
        files = [f"Pulumi.{name}.yaml" for name in names]
        done = subprocess.run(["git", "check-ignore", "--no-index", *files], cwd=ROOT, capture_output=True, text=True)
        return done.stdout.split()

    assert ignored("mine", "prod") == ["Pulumi.mine.yaml", "Pulumi.prod.yaml"]
    assert ignored(*STACKS) == []
    tracked = subprocess.run(["git", "ls-files", "Pulumi.*.yaml"], cwd=ROOT, capture_output=True, text=True, check=True)
    assert sorted(tracked.stdout.split()) == sorted(path.name for path in FILES)


def test_the_suggested_budgets_suffice_and_replacement_is_suggested_if_it_helps(project: Path) -> None:
    help_text = " ".join(call("init", "--help").stdout.split())
    examples = re.search(r"per hour \((\S+)\), also while nodes are replaced, or per month \((\S+)\)", help_text)
    assert examples
    for budget in examples.groups():
        ended = call("init", "--yes", "--force", "--budget", budget, cwd=project)
        assert ended.returncode == 0, ended.stdout
    # One spot g4dn.xlarge less than with the new nodes beside the old ones: $0.81 without it.
    assert "delete-first" in call("init", "--yes", "--force", "--budget", "0.6", cwd=project).stdout
    assert "delete-first" not in call("init", "--yes", "--force", "--budget", "0.2", cwd=project).stdout


def test_the_stack_file_names_a_second_instance_type_that_the_budget_allows(project: Path) -> None:
    """A g4dn.2xlarge has the T4 of a g4dn.xlarge, and $0.327 instead of $0.216 per hour (spot, us-east-1)."""
    path, tip = (
        project / "Pulumi.mine.yaml",
        r"# EC2 types with the same GPU\. With g4dn\.2xlarge as a second one, .*: up to\s+(?:# )?\$(\S+) per hour\.$",
    )
    assert call("init", "--yes", "--budget", "400/month", cwd=project).returncode == 0
    text = path.read_text(encoding="utf-8")
    [usd] = re.findall(tip, text, re.MULTILINE)
    path.write_text(text.replace("[g4dn.xlarge]", "[g4dn.xlarge, g4dn.2xlarge]"), encoding="utf-8")
    bill = judge_file(path).verdict.cost
    assert bill is not None
    assert (f"{bill.usd_per_hour:.3f}", judge_file(path).problems) == (usd, ())
    # $278 per month with a g4dn.xlarge.
    assert call("init", "--yes", "--force", "--budget", "300/month", cwd=project).returncode == 0
    assert not re.search(tip, path.read_text(encoding="utf-8"), re.MULTILINE)
