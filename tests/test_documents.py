"""The documents agree with the code."""

import importlib
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

import tandem
from components.containers import NOBODY
from sharing import versions
from sharing.aws import tags
from sharing.names import MODE_TAINT, OWNER_LABEL, POOL_LABEL
from stacks.stack_file.form_errors import fields
from stacks.stack_file.judge import judge_file
from tandem.main import main
from tests.rows import read_rows

ROOT = Path(__file__).resolve().parent.parent
HOME = "us-east-1"
TITLES = {"timeslice": "time-slicing", "mps": "MPS", "mps`, `limits: per-model": "MPS with limits"}
"""A mode between the first and the last backtick of a cell, and in the title of a plan."""
ALTERNATIVES = "docs/explanation/alternatives.md"
DOCUMENTS = [str(path.relative_to(ROOT)) for path in (*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"))]
CURRENT = [name for name in sorted(DOCUMENTS) if not name.startswith("docs/decisions/0") and name != "CHANGELOG.md"]
"""Documents that describe the current state: decisions and the changelog describe earlier ones."""


def paths(values: object, above: str = "") -> Iterator[str]:
    """Every key as messages about a stack file name it, without the numbers of list items."""
    if isinstance(values, list):
        for item in values:
            yield from paths(item, above)
    elif isinstance(values, dict):
        for key, value in values.items():
            path = f"{above}.{key}".removeprefix(".").removeprefix("tandem:")
            yield path
            yield from paths(value, path)


@pytest.mark.slow
def test_derived_documents_are_up_to_date(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """In this process, so that a fault in what they are derived from counts as noticed by this test."""
    monkeypatch.syspath_prepend(ROOT / "docs")
    generate = importlib.import_module("generate")
    assert (generate.main(["--check"]), capsys.readouterr().out) == (0, "")


def test_the_dev_stack_with_every_comment_switched_on_has_the_same_meaning(tmp_path: Path) -> None:
    text = (ROOT / "Pulumi.dev.yaml").read_text(encoding="utf-8")
    whole = re.sub(r"^( +)# (?=[a-z-]+(:[a-zA-Z-]+)?: )", r"\1", text, flags=re.MULTILINE)
    assert whole.count("\n") == text.count("\n")
    path = tmp_path / "Pulumi.dev.yaml"
    path.write_text(whole, encoding="utf-8")
    shown = set(paths(yaml.safe_load(whole)["config"]))
    keys = {re.sub(r"^sharing\.[a-z]+\.", "sharing.", path.replace("models[].", "models.")) for path in fields()}
    # These sections are off by default, so they have no keys there: their descriptions name them.
    off = ("park.", "budget.alert.", "models.share.", "cluster.vpc.", "cluster.existing.")
    described = {key for key in keys if key.startswith(off)}
    assert all(f"{key.rpartition('.')[2]}:" in text for key in described)
    assert {key for key in keys if "[]" not in key} <= shown | described
    assert judge_file(path).plan().config == judge_file(ROOT / "Pulumi.dev.yaml").plan().config
    assert not text.splitlines()[-1].lstrip().startswith("#")  # `pulumi stack init` would move it out of `config:`


@pytest.mark.parametrize("guide", ["rank-models", "use-several-pools", "use-your-vpc"])
def test_the_stack_file_of_a_guide_has_no_warning(guide: str, tmp_path: Path) -> None:
    text = (ROOT / "docs" / "how-to" / f"{guide}.md").read_text(encoding="utf-8")
    [example] = re.findall(r"```yaml\n(config:\n.*?)```", text, flags=re.DOTALL)
    path = tmp_path / "Pulumi.example.yaml"
    path.write_text(example, encoding="utf-8")
    assert judge_file(path).plan().verdict.warnings == ()


def test_links_of_documents_have_a_target() -> None:
    links = [
        (document, target)
        for document in DOCUMENTS
        for target in re.findall(r"\]\((?!https?://)([^)#]+)", read(document))
    ]
    assert links
    assert [link for link in links if not ((ROOT / link[0]).parent / link[1]).exists()] == []


def test_files_that_documents_name_exist() -> None:
    pattern = r"`((?:docs|components|plugin|stacks|sharing|sandbox|tandem|catalogue|templates|tests)/[\w./]*)`"
    names = [(document, name) for document in CURRENT for name in re.findall(pattern, read(document))]
    assert names
    no_files = (MODE_TAINT, OWNER_LABEL, POOL_LABEL)
    assert [each for each in names if each[1] not in no_files and not (ROOT / each[1]).exists()] == []


def test_make_targets_that_documents_name_exist() -> None:
    targets = set(re.findall(r"^([\w-]+):", read("Makefile"), flags=re.MULTILINE))
    for document in CURRENT:
        assert set(re.findall(r"(?:`|^)make ([\w-]+)", read(document), flags=re.MULTILINE)) <= targets, document


def read(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def rows(table: str) -> list[dict[str, str]]:
    return read_rows(ROOT / "sharing" / "data" / f"{table}.csv")


def test_the_page_about_tags_has_the_limits_and_every_reserved_key() -> None:
    text = (ROOT / "docs" / "how-to" / "people-and-accounts.md").read_text(encoding="utf-8")
    section = text.partition("## Tag the resources\n")[2].rpartition("```\n")[2]
    assert f"**More than {tags.MOST_OF_A_STACK} tags**" in section
    assert f"keep {tags.MOST - len({*tags.STACK, *tags.CLAIMED_VOLUME})}:" in section
    assert set(tags.RESERVED) <= set(re.findall("`([^`]+)`", section))


def test_the_image_of_a_batch_job_is_pinned_and_has_no_root() -> None:
    text = (ROOT / "docs" / "how-to" / "run-a-batch-job-on-spot.md").read_text(encoding="utf-8")
    [dockerfile] = re.findall(r"```dockerfile.*?\n(.*?)```", text, flags=re.DOTALL)
    assert f"FROM {versions.PROBER_IMAGE}\n" in dockerfile
    lock = (ROOT / "requirements-dev.txt").read_text(encoding="utf-8")
    assert set(re.findall(r"pip install --no-cache-dir (\S+)", dockerfile)) <= set(re.findall(r"^\S+==\S+", lock, re.M))
    assert dockerfile.endswith(f"\nUSER {NOBODY}\n")


def test_the_reference_of_the_components_has_every_public_name() -> None:
    named = re.findall(r"^::: (?:components|tandem)\.(\w+)$", read("docs/reference/components.md"), flags=re.MULTILINE)
    described = {"KvType", "Model"}  # text and numbers, which the page of stack files describes
    assert sorted([*named, *described]) == tandem.__all__


def first_screen() -> str:
    return read("README.md").partition("\n## Try it")[0]


def test_the_first_screen_has_what_was_measured() -> None:
    """Errors from the MiB in the report of the run, not from its column of differences."""
    report = read("docs/benchmarks/gpu-nvidia-h100-80gb-hbm3-2026-11-26.md").partition("\n## Memory\n")[2]
    found = re.findall(r"^\| \S+ \| .+ \| ([\d,]+) \| ([\d,]+) \| [+-]", report, flags=re.MULTILINE)
    errors = [abs(int(one.replace(",", "")) / int(two.replace(",", "")) - 1) for one, two in found]
    near = sum(error < 0.01 for error in errors)
    assert (len(errors), near) == (11, 10)
    said = f"the memory of {near} of {len(errors)} model settings was predicted within 1 %, and of the other within 5 %"
    assert said in first_screen()
    assert max(errors) < 0.05
    assert "more than 40,779 MiB was refused" in report
    assert "Under MPS, each of two processes was refused more than its half." in first_screen()


def test_the_first_screen_has_the_price_of_a_pair_of_today_beside_the_classic_one() -> None:
    """AWS asks $0.10 for a control plane and $0.0416 for a t3.medium; disks and one address are less than $0.03."""
    spot = {row["instance_type"]: float(row["usd_per_hour"]) for row in rows("spot_prices") if row["region"] == HOME}
    table = re.findall(
        r"^\| .+: (.+) \| (\d) × (\S+) \| .+ \| (\d\.\d\d) \| (\d\.\d\d) \| \d", first_screen(), flags=re.MULTILINE
    )
    assert [row[0] for row in table][:2] == ["`llama2:7b` and `mistral:7b`", "`qwen3.5:9b` and `gemma4:e4b`"]
    assert len(table) == 4
    for models, nodes, kind, together, alone in table:
        assert 0.1416 < float(together) - int(nodes) * spot[kind] < 0.1716, models
        assert float(alone) > float(together), models


@pytest.mark.slow
def test_the_tables_of_pairs_have_what_the_plan_of_the_same_models_prints(capsys: pytest.CaptureFixture[str]) -> None:
    pair = r"^\| (?:.+: )?`(\S+)` and `(\S+)` \| (\d × \S+) \| "
    first = re.findall(pair + r"`(.+?)` \| (\d\.\d\d) \| (\d\.\d\d) \| (\d+) \| (.+) \|$", first_screen(), re.MULTILINE)
    hosted = re.findall(pair + r"`(.+?)` \| (\d+) \| (\$\S+ \S+) \| ", read(ALTERNATIVES), re.MULTILINE)
    assert (len(first), len(hosted)) == (4, 4)
    for one, other, nodes, mode, hourly, alone, month, speed in first:
        shown = plan_of(one, other, capsys)
        assert f"{nodes} (" in shown
        assert TITLES[mode] in shown
        [(usd, per_month)] = re.findall(r"\$(\d\.\d+) per hour, \$(\d+) per month", shown)
        [dedicated] = re.findall(r"\$(\d\.\d+) with a GPU for each model", shown)
        assert (f"{float(usd):.2f}", f"{float(dedicated):.2f}", per_month) == (hourly, alone, month)
        assert speed in shown
    for one, other, nodes, mode, month, usd in hosted:
        shown = plan_of(one, other, capsys)
        assert f"{nodes} (" in shown
        assert TITLES[mode] in shown
        assert f"${month} per month" in shown
        assert f"  {usd} per million output tokens" in shown


def plan_of(one: str, other: str, capsys: pytest.CaptureFixture[str]) -> str:
    """What a reader sees who asks about the same models."""
    assert main(["plan", one, other]) == 0
    return " ".join(capsys.readouterr().out.split("\n"))


def test_the_prices_of_the_ways_are_those_of_aws() -> None:
    """Half of a T4, 7,680 MiB, is less than the 8.6 GiB of the 14B model's file."""
    spot = {row["instance_type"]: float(row["usd_per_hour"]) for row in rows("spot_prices") if row["region"] == HOME}
    page = read("docs/explanation/ways-to-share.md")
    table = re.findall(r"^\| (`.+) \| .+ \| (\d) × (\S+) \| (\d\.\d\d) \| \d", page, flags=re.MULTILINE)
    nodes = {way: (int(count), kind, float(usd)) for way, count, kind, usd in table}
    assert len(nodes) == 5
    assert [usd for *_, usd in nodes.values()] == [round(count * spot[kind], 2) for count, kind, _ in nodes.values()]
    own, equal = nodes["`mps`, `limits: per-model`"], nodes["`mps`, equal limits"]
    assert own[:2] == nodes["`timeslice`"][:2] == (1, "g4dn.xlarge")
    assert own[2] < min(equal[2], nodes["`exclusive`"][2])
    assert equal[1] != own[1]


def test_the_page_about_alternatives_says_where_a_host_is_cheaper() -> None:
    hosts: dict[str, list[float]] = {}
    for row in rows("hosted_prices"):
        hosts.setdefault(row["model"], []).append(float(row["usd"]))
    table = re.findall(
        r"^\| (`.+`) \| .+ \| .+ \| \d+ \| \$(\S+) .+ \| \$(\S+) .+ \| (.+) \|$", read(ALTERNATIVES), flags=re.MULTILINE
    )
    assert len(table) == 4
    for models, busy, idle, hosted in table:
        known = [hosts[name] for name in re.findall("`([^`]+)`", models)]
        assert hosted == ", ".join(f"${min(usd):.2f}–{max(usd):.2f}" for usd in known)
        assert float(busy) > max(map(max, known)), "the page says that a host is cheaper at any load"
        assert float(idle) == pytest.approx(10 * float(busy), rel=0.01), "a tenth of the tokens for the same hour"


def test_every_decision_record_has_a_number_of_its_own() -> None:
    """`make docs` checks the rest of its head."""
    numbers = [path.name[:4] for path in (ROOT / "docs" / "decisions").glob("[0-9]*.md")]
    assert len(set(numbers)) == len(numbers) > 80


def test_the_changelog_has_the_form_that_readers_know() -> None:
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    versions = re.findall(r"^## (.+)$", text, flags=re.MULTILINE)
    assert versions[0] == "[Unreleased]"
    assert all(re.fullmatch(r"\[\d+\.\d+\.\d+\] - \d{4}-\d\d-\d\d", version) for version in versions[1:])
    kinds = re.findall(r"^### (.+)$", text, flags=re.MULTILINE)
    # https://keepachangelog.com/en/1.1.0/, "Types of changes"
    assert set(kinds) <= {"Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"}
