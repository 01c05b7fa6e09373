"""`tandem plan`, as people and machines call it."""

import json
import os
import re
import signal
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from pydantic import TypeAdapter

from sandbox.graph import MASK
from tandem.planned.report import PlanReport
from tests import readme
from tests.command import Ended, call, on_screen

ROOT = Path(__file__).parents[3]
STACKS = ("dev", "exclusive", "karpenter", "timeslice", "mps")
REFUSED = "config:\n  aws:region: us-east-1\n  tandem:sharing: {mode: timeslice, replicas: 1}\n  tandem:models: []\n"
ANSI = re.compile(r"\x1b\[[0-9;?]*[a-zA-Z]")
TANDEM = (sys.executable, "-m", "tandem")


@pytest.mark.slow
@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
def test_what_the_outputs_encoding_lacks_is_a_question_mark(encoding: str) -> None:
    env = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONIOENCODING": encoding}
    done = subprocess.run([*TANDEM, "plan", "dev"], cwd=ROOT, env=env, capture_output=True, timeout=900)
    assert (done.returncode, done.stderr) == (0, b"")
    sign = {"ascii": b"?", "latin-1": b"\xd7"}[encoding]
    assert b"1 " + sign + b" g4dn.xlarge" in done.stdout


@cache
def planned(stack: str) -> Ended:
    return call("plan", stack)


@cache
def printed_report(stack: str) -> str:
    ended = call("plan", stack, "--json")
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


def report(stack: str) -> dict[str, Any]:
    parsed: dict[str, Any] = json.loads(printed_report(stack))
    return parsed


@pytest.fixture
def refused(tmp_path: Path) -> Path:
    file = tmp_path / "Pulumi.refused.yaml"
    file.write_text(REFUSED)
    return file


@pytest.mark.parametrize("stack", STACKS)
def test_a_plan_begins_with_the_verdict_and_tells_fit_cost_resources_and_time(stack: str) -> None:
    ended = planned(stack)
    assert ended.returncode == 0
    assert re.match(
        rf"ok Pulumi\.{stack}\.yaml: 2 models on [12] × g4dn\.xlarge or g4dn\.2xlarge, \w+, up to \$0\.\d+ per hour "
        r"\(GPU prices of us-east-1, 2026-06-18, \d+ days ago\)\n",
        ended.stdout,
    )
    heads = ["\nFit, in MiB", "\nCost ", " resources\n", "Time to first token: about"]
    places = [ended.stdout.find(head) for head in heads]
    assert -1 not in places
    assert places == sorted(places)
    assert ended.stderr == ""
    assert "\x1b" not in ended.stdout


@pytest.mark.parametrize("stack", STACKS)
def test_the_report_is_what_its_schema_says(stack: str) -> None:
    jsonschema.validate(report(stack), TypeAdapter(PlanReport).json_schema())


@pytest.mark.parametrize("stack", STACKS)
def test_the_bill_is_the_sum_of_its_lines(stack: str) -> None:
    cost = report(stack)["cost"]
    assert cost["usd_per_hour"] == pytest.approx(sum(line["usd_per_hour"] for line in cost["lines"]), abs=1e-3)
    assert cost["usd_per_month"] == pytest.approx(cost["usd_per_hour"] * 730, abs=0.1)
    assert cost["per_model_hour"] == pytest.approx(cost["usd_per_hour"] / 2, abs=1e-3)


@pytest.mark.parametrize("stack", STACKS)
def test_a_models_need_is_the_sum_of_its_parts_and_fits(stack: str) -> None:
    for model in report(stack)["models"]:
        parts = model["weights_mib"] + model["kv_mib"] + model["buffers_mib"]
        assert abs(model["needs_mib"] - parts) <= 1
        assert model["fits"]
        assert model["share_mib"] is None or model["needs_mib"] <= model["share_mib"]


@pytest.mark.parametrize("stack", STACKS)
def test_resources_form_one_tree_and_depend_on_each_other_alone(stack: str) -> None:
    resources = report(stack)["resources"]
    urns = [resource["urn"] for resource in resources]
    assert len(urns) == len(set(urns))
    assert [resource["type"] for resource in resources if not resource["parent"]] == ["pulumi:pulumi:Stack"]
    assert {resource["parent"] for resource in resources} - {""} <= set(urns)
    assert {urn for resource in resources for urn in resource["depends_on"]} <= set(urns)
    assert {resource["provider"] for resource in resources} - {""} <= set(urns)


@pytest.mark.parametrize("stack", STACKS)
def test_the_way_to_the_first_token_is_made_of_the_plans_resources(stack: str) -> None:
    facts = report(stack)
    way = facts["time_to_first_token"]
    assert {step["urn"] for step in way["path"]} <= {resource["urn"] for resource in facts["resources"]}
    assert way["minutes"] == pytest.approx(sum(step["minutes"] for step in way["path"]), abs=0.2)


@pytest.mark.parametrize("stack", STACKS)
def test_people_and_machines_get_the_same_facts(stack: str) -> None:
    facts, text = report(stack), planned(stack).stdout
    assert f"${facts['cost']['usd_per_hour']:.3f} per hour" in text
    assert f"2026-06-18, {facts['cost']['price_age_days']} days ago" in text
    assert f"{len(facts['resources']) - 1} resources" in text
    [told] = re.findall(r"about (\d+) minutes", text)
    assert int(told) == pytest.approx(facts["time_to_first_token"]["minutes"], abs=0.55)  # either is rounded
    assert all(f"{model['needs_mib']:,}" in text for model in facts["models"])
    assert facts["verdict"] == "ok"
    assert facts["stack"] == stack
    assert facts["mode"] in text.splitlines()[0]


def test_a_plan_with_several_instance_types_shows_the_range_of_its_cost() -> None:
    # One g4dn.xlarge ($0.2158 spot in us-east-1) or g4dn.2xlarge ($0.3269); the rest of the bill is $0.2485: control
    # plane 0.1, two t3.medium 0.0832, 140 GiB of gp3 0.0153, NAT gateway 0.045, its address 0.005.
    assert "$0.464–0.575 per hour" in planned("timeslice").stdout
    found = report("timeslice")["cost"]
    assert (found["cheapest_usd_per_hour"], found["usd_per_hour"]) == (0.4643, 0.5754)


@pytest.mark.slow
def test_a_plan_with_one_instance_type_shows_no_range(tmp_path: Path) -> None:
    file = tmp_path / "Pulumi.one.yaml"
    file.write_text(
        (ROOT / "Pulumi.timeslice.yaml").read_text().replace("[g4dn.xlarge, g4dn.2xlarge]", "[g4dn.xlarge]")
    )
    shown = call("plan", str(file)).stdout
    assert "$0.464 per hour" in shown
    assert "cheapest types" not in shown
    found = json.loads(call("plan", str(file), "--json").stdout)["cost"]
    assert (found["cheapest_usd_per_hour"], found["usd_per_hour"]) == (0.4643, 0.4643)


@pytest.fixture
def unpriced(tmp_path: Path) -> Path:
    """A stack with a budget in a region whose prices are unknown."""
    file = tmp_path / "Pulumi.unpriced.yaml"
    file.write_text((ROOT / "Pulumi.dev.yaml").read_text().replace("aws:region: us-east-1", "aws:region: sa-east-1"))
    return file


def test_prices_of_another_region_are_named_in_the_headline(unpriced: Path) -> None:
    first = call("plan", str(unpriced)).stdout.splitlines()[0]
    assert re.search(r", about \$\d\.\d+ per hour \(GPU prices of us-east-1, 2026-07-20, \d+ days ago; ", first)
    assert first.endswith("; no price known for g4dn.xlarge and g4dn.2xlarge in sa-east-1)")
    cost = json.loads(call("plan", str(unpriced), "--json").stdout)["cost"]
    assert (cost["unpriced"], cost["price_region"]) == (["g4dn.xlarge", "g4dn.2xlarge"], "us-east-1")


@pytest.mark.slow
def test_a_strict_plan_refuses_what_is_not_judged(unpriced: Path) -> None:
    said = "budget.max-usd-per-hour: is not judged: the price of g4dn.xlarge and g4dn.2xlarge in sa-east-1 is unknown"
    lenient, strict = call("plan", str(unpriced)), call("plan", str(unpriced), "--strict")
    assert (lenient.returncode, strict.returncode) == (0, 1)
    assert said in lenient.stdout
    assert said in strict.stdout
    assert "\nok " not in f"\n{strict.stdout}"
    ended = call("plan", str(unpriced), "--strict", "--json")
    report = json.loads(ended.stdout)
    assert (ended.returncode, report["verdict"], report["warnings"]) == (1, "refused", [])
    assert [(one["path"], one["judged"]) for one in report["problems"]] == [("budget.max-usd-per-hour", False)]
    assert call("plan", "timeslice", "--strict").returncode == 0, "all of it is judged"


@pytest.mark.parametrize("stack", STACKS)
def test_no_secret_is_shown(stack: str) -> None:
    providers = [one for one in report(stack)["resources"] if one["type"] == "pulumi:providers:kubernetes"]
    # The provider inside eks.Cluster is given its kubeconfig in clear, by pulumi-eks itself; it holds no credential.
    ours = [one for one in providers if "eks:index:Cluster$" not in one["urn"]]
    assert [one["inputs"]["kubeconfig"] for one in ours] == [MASK]
    for text in (
        json.dumps([one for one in report(stack)["resources"] if one not in providers]),
        planned(stack).stdout,
    ):
        assert "certificate-authority-data" not in text
        assert "get-token" not in text


@pytest.fixture
def several(tmp_path: Path) -> Path:
    """The README's stack with several pools, and one that no model uses."""
    text = readme.stack_file().replace("  tandem:models:", "    - {name: spare}\n  tandem:models:")
    file = tmp_path / "Pulumi.several.yaml"
    file.write_text(text)
    return file


def test_a_plan_of_several_pools_tells_each_with_its_nodes_its_sharing_and_its_fit(several: Path) -> None:
    ended = call("plan", str(several))
    assert ended.returncode == 0
    assert re.match(
        r"ok Pulumi\.several\.yaml: 3 models on 1 × g6\.xlarge, exclusive \(steady, on-demand\), "
        r"1 × g4dn\.xlarge or g4dn\.2xlarge, timeslice \(rest, spot\) and "
        r"1 × g4dn\.xlarge, timeslice \(spare, spot\), "
        r"up to \$1\.\d+ per hour \(GPU prices of us-east-1, 2026-06-18, \d+ days ago\)\n",
        ended.stdout,
    )
    assert "gpu-nodes[2]: no model runs on the pool spare." in ended.stdout
    titles = [line.strip() for line in ended.stdout.splitlines() if line.startswith("Fit")]
    assert titles == [
        "Fit on steady, in MiB: L4 with 22,563 for CUDA, 1 share per GPU",
        "Fit on rest, in MiB: T4 with 14,912 for CUDA, 2 shares per GPU",
    ]
    steady, rest = ended.stdout.split("Fit on ")[1:]
    assert "llama3-1-8b" in steady
    assert "llama2-7b" not in steady
    assert "Memory is not divided" not in steady
    assert re.search(r"Memory is not divided: at most 9,646 of 14,912 MiB are taken together\.", " ".join(rest.split()))
    assert "A margin of" in steady
    assert [name for name in ("(steady)", "(rest)", "(spare)") if name in rest] == ["(steady)", "(rest)", "(spare)"]


@pytest.mark.slow
def test_the_report_of_several_pools_has_each_also_one_without_models(several: Path) -> None:
    ended = call("plan", str(several), "--json")
    facts = json.loads(ended.stdout)
    jsonschema.validate(facts, TypeAdapter(PlanReport).json_schema())
    told = [
        (one["name"], one["mode"], one["capacity"], one["nodes"], one["shares"][0]["total"]) for one in facts["pools"]
    ]
    assert told == [
        ("steady", "exclusive", "on-demand", 1, 1),
        ("rest", "timeslice", "spot", 1, 2),
        ("spare", "timeslice", "spot", 1, 2),
    ]
    assert {model["id"]: model["pool"] for model in facts["models"]} == {
        "llama3-1-8b": "steady",
        "llama2-7b": "rest",
        "mistral-7b": "rest",
    }


def test_the_report_of_a_refused_file_has_the_pools_whose_models_were_judged(several: Path) -> None:
    several.write_text(several.read_text().replace("instance-types: [g6.xlarge]", "instance-types: [g6.xlage]"))
    facts = json.loads(call("plan", str(several), "--json").stdout)
    assert [problem["path"] for problem in facts["problems"]] == ["gpu-nodes[0].instance-types[0]"]
    assert [pool["name"] for pool in facts["pools"]] == ["rest"]


def test_a_refused_file_is_reported_by_the_same_schema(refused: Path) -> None:
    ended = call("plan", str(refused), "--json")
    facts = json.loads(ended.stdout)
    assert ended.returncode == 1
    jsonschema.validate(facts, TypeAdapter(PlanReport).json_schema())
    assert (facts["verdict"], facts["stack"], facts["mode"]) == ("refused", "refused", "timeslice")
    assert [problem["path"] for problem in facts["problems"]] == ["sharing.replicas", "models"]
    assert (facts["cost"], facts["time_to_first_token"], facts["resources"]) == (None, None, [])


def test_an_unreadable_file_is_reported_by_the_same_schema() -> None:
    ended = call("plan", "nosuch", "--json")
    assert ended.returncode == 2
    jsonschema.validate(json.loads(ended.stdout), TypeAdapter(PlanReport).json_schema())


@pytest.mark.parametrize(
    ("asked", "hint"),
    [
        ("timeslise", "Did you mean timeslice?"),
        ("MPS", "Did you mean mps?"),
        ("nosuch", "Stacks there: dev, exclusive, karpenter, mig, mig-mixed, mps, timeslice."),
    ],
)
def test_an_unknown_stack_is_answered_with_near_names(asked: str, hint: str) -> None:
    assert call("plan", asked) == Ended(2, "", f"tandem: there is no file {ROOT}/Pulumi.{asked}.yaml. {hint}\n")


def test_a_refusal_needs_neither_pulumi_nor_rich(refused: Path) -> None:
    program = (
        "import sys; from tandem.command import main; code = main(['plan', sys.argv[1]]); "
        "print(code, sorted({name.split('.')[0] for name in sys.modules} & "
        "{'pulumi', 'pulumi_aws', 'pulumi_eks', 'pulumi_kubernetes', 'rich', 'grpc', 'sandbox'}))"
    )
    ended = subprocess.run([sys.executable, "-c", program, refused], cwd=ROOT, capture_output=True, text=True)
    assert ended.stdout.splitlines()[-1] == "1 []", ended.stderr


def test_help_needs_neither_pydantic_nor_yaml() -> None:
    program = (
        "import sys\nfrom tandem.command import main\ntry: main(['--help'])\nexcept SystemExit: pass\n"
        "print({'pydantic', 'yaml', 'pulumi', 'rich'} & set(sys.modules))"
    )
    ended = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True)
    assert ended.stdout.splitlines()[-1] == "set()", ended.stderr


@pytest.mark.parametrize("stack", [*STACKS, "several"])
def test_a_plan_fits_a_terminal_of_80_columns(stack: str, several: Path) -> None:
    code, screen = on_screen("plan", str(several) if stack == "several" else stack)
    assert code == 0
    widths = {line: len(line) for part in ANSI.sub("", screen).split("\n") for line in part.split("\r")}
    assert max(widths.values()) <= 80, max(widths, key=lambda line: widths[line])
    assert "…" not in re.sub("running the program in this process …", "", screen), "nothing is cut off"


def test_a_mistake_is_folded_in_a_terminal_and_one_line_in_a_pipe(refused: Path) -> None:
    code, screen = on_screen("plan", str(refused))
    folded = screen.replace("\r\n", "\n").splitlines()
    assert code == 1
    assert max(len(line) for line in folded) <= 80
    piped = call("plan", str(refused)).stdout.splitlines()
    assert sum(line.startswith("  sharing.replicas: ") for line in piped) == 1
    assert piped[1].endswith("write `mode: exclusive`.")
    assert len(piped) == 6
    assert "".join("\n".join(folded).split()) == "".join("\n".join(piped).split())


def test_an_unreadable_file_is_told_in_80_columns() -> None:
    code, screen = on_screen("plan", "a-stack-with-a-name-that-is-much-too-long-for-a-line")
    assert code == 2
    lines = screen.replace("\r\n", "\n").splitlines()
    assert len(lines) > 1
    assert sum(len(line) > 80 for line in lines) <= 1, "a path alone may be longer"


@pytest.mark.parametrize("arguments", [("--help",), ("plan", "--help")])
def test_help_fits_80_columns_and_names_the_exit_codes(arguments: tuple[str, ...]) -> None:
    ended = call(*arguments, columns=80)
    assert ended.returncode == 0
    assert max(len(line) for line in ended.stdout.splitlines()) <= 80
    assert "plan" in ended.stdout
    assert "Exit codes" in ended.stdout


@pytest.mark.slow
@pytest.mark.parametrize("arguments", [("plan", "timeslice"), ("plan", "timeslice", "--json"), ("plan", "nosuch.yaml")])
def test_a_closed_pipe_ends_without_a_traceback(arguments: tuple[str, ...]) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    process = subprocess.Popen([*TANDEM, *arguments], cwd=ROOT, stdout=writer, stderr=subprocess.PIPE, text=True)
    os.close(writer)
    _, err = process.communicate(timeout=900)
    assert process.returncode == (2 if "nosuch.yaml" in arguments else 0)
    assert "Traceback" not in err
    assert "BrokenPipe" not in err


def test_a_real_ctrl_c_while_the_program_runs_ends_with_130() -> None:
    env = {**os.environ, "PYTHONUNBUFFERED": "1"}
    pipe = subprocess.PIPE
    process = subprocess.Popen([*TANDEM, "plan", "timeslice"], cwd=ROOT, env=env, stdout=pipe, stderr=pipe, text=True)
    assert process.stdout
    while "First start" not in process.stdout.readline():
        pass
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=900)
    assert process.returncode == 130, err
    assert err == "tandem: interrupted\n"


@pytest.mark.slow
def test_a_path_works_from_anywhere_and_a_process_of_its_own_prints_the_same(tmp_path: Path) -> None:
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [*TANDEM, "plan", str(ROOT / "Pulumi.mps.yaml"), "--json"]
    ended = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=900)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert json.loads(ended.stdout) == report("mps")


def test_timeslice_is_what_is_planned_when_nothing_is_said_and_two_plans_are_equal() -> None:
    assert call("plan", "--json").stdout == printed_report("timeslice")
