"""`tandem plan`, for people and programs."""

import json
import os
import re
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from sandbox.graph import MASK
from tests.command import Ended, call, on_screen

ROOT = Path(__file__).parents[3]
STACKS = ("dev", "exclusive", "karpenter", "timeslice", "mps", "per-model")
ANSI = re.compile(r"\x1b\[[0-9;]*m")
REFUSED = """\
config:
  aws:region: us-east-1
  tandem:sharing: {mode: timeslice}
  tandem:gpu-nodes: {instance-types: [g4dn.extra]}
  tandem:models: [{name: "llama3.2:1b"}]
  tandem:cluster: {kubernetes: "1.2"}
"""
"""Two errors of the rules, and warnings."""
TANDEM = (sys.executable, "-m", "tandem")


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


def test_a_plan_with_several_instance_types_shows_the_range_of_its_cost() -> None:
    # One g4dn.xlarge ($0.2158 spot in us-east-1) or g4dn.2xlarge ($0.3269); the rest of the bill is $0.2485: control
    # plane 0.1, two t3.medium 0.0832, 140 GiB of gp3 0.0153, NAT gateway 0.045, its address 0.005.
    assert "$0.464–0.575 per hour" in planned("timeslice").stdout
    found = report("timeslice")["cost"]
    assert (found["cheapest_usd_per_hour"], found["usd_per_hour"]) == (0.4643, 0.5754)


@pytest.mark.slow
@pytest.mark.parametrize("stack", STACKS)
def test_a_report_adds_up_and_its_resources_form_one_tree(stack: str) -> None:
    facts = report(stack)
    cost, way, resources = facts["cost"], facts["time_to_ready"], facts["resources"]
    assert cost["usd_per_hour"] == pytest.approx(sum(line["usd_per_hour"] for line in cost["lines"]), abs=1e-3)
    # No node has a schedule, and old and new nodes run side by side for half an hour.
    replaced = (cost["replacing_usd_per_hour"] - cost["usd_per_hour"]) / 2
    assert cost["usd_per_month"] == pytest.approx(cost["usd_per_hour"] * 730 + replaced, abs=0.1)
    assert cost["usd_per_month_unparked"] == cost["usd_per_month"]
    assert cost["per_model_hour"] == pytest.approx(cost["usd_per_hour"] / 2, abs=1e-3)
    assert way["minutes"] == pytest.approx(sum(step["minutes"] for step in way["path"]), abs=0.2)
    for model in facts["models"]:
        assert abs(model["needs_mib"] - model["weights_mib"] - model["kv_mib"] - model["buffers_mib"]) <= 1
        assert model["fits"] is (model["share_mib"] is None or model["needs_mib"] <= model["share_mib"])
    urns = [resource["urn"] for resource in resources]
    assert len(urns) == len(set(urns))
    assert [resource["type"] for resource in resources if not resource["parent"]] == ["pulumi:pulumi:Stack"]
    named = {urn for one in resources for urn in (one["parent"], one["provider"], *one["depends_on"])}
    assert any(one["depends_on"] for one in resources)
    assert named | {step["urn"] for step in way["path"]} <= {"", *urns}


@pytest.mark.parametrize("stack", STACKS)
def test_no_secret_is_shown(stack: str) -> None:
    providers = [one for one in report(stack)["resources"] if one["type"] == "pulumi:providers:kubernetes"]
    # pulumi-eks gives the provider inside eks.Cluster its kubeconfig as plain text; it holds no credential.
    ours = [one for one in providers if "eks:index:Cluster$" not in one["urn"]]
    assert [one["inputs"]["kubeconfig"] for one in ours] == [MASK]
    for text in (
        json.dumps([one for one in report(stack)["resources"] if one not in providers]),
        planned(stack).stdout,
    ):
        assert "certificate-authority-data" not in text
        assert "get-token" not in text


def test_a_refusal_needs_neither_pulumi_nor_rich(refused: Path) -> None:
    program = (
        "import sys; from tandem.main import main; code = main(['plan', sys.argv[1]]); "
        "print(code, sorted({name.split('.')[0] for name in sys.modules} & "
        "{'pulumi', 'pulumi_aws', 'pulumi_eks', 'pulumi_kubernetes', 'rich', 'grpc', 'sandbox'}))"
    )
    ended = subprocess.run([sys.executable, "-c", program, refused], cwd=ROOT, capture_output=True, text=True)
    assert ended.stdout.splitlines()[-1] == "1 []", ended.stderr


@pytest.mark.slow
@pytest.mark.parametrize("stack", ["timeslice", "karpenter"])
def test_a_plan_loads_no_component_and_no_service_that_the_stack_lacks(stack: str) -> None:
    """The SDK of a service loads as a whole with its first class. CloudWatch's alone is 45 modules."""
    program = (
        "import sys; from tandem.main import main; main(['plan', sys.argv[1], '--json']); "
        "print(*(name for name in sys.modules if name.startswith(('pulumi_', 'components.'))))"
    )
    ended = subprocess.run([sys.executable, "-c", program, stack], cwd=ROOT, capture_output=True, text=True)
    printed, _, names = ended.stdout.strip().rpartition("\n")
    loaded = {tuple(name.split(".")) for name in names.split()}
    # `aws:ec2/vpc:Vpc` is in pulumi_aws.ec2, and `kubernetes:core/v1:Service` in pulumi_kubernetes.core.v1.
    types = [resource["type"].split(":") for resource in json.loads(printed)["resources"]]
    needed = {(f"pulumi_{sdk}", module.partition("/")[0].partition(".")[0]) for sdk, module, _ in types}
    # All objects have metadata. The module of Helm's Release imports that of YAML, which knows custom resources.
    needed |= {("pulumi_kubernetes", one) for one in ("meta", "apiextensions")}
    # A service that is only named is a module without those of its classes, which are below the version of an API.
    depths = {"pulumi_aws": 3, "pulumi_kubernetes": 4}
    services = {name[:2] for name in loaded if len(name) >= depths.get(name[0], len(name) + 1)}
    assert ("pulumi_aws", "ec2") in services <= needed
    optional = {"cost_alert", "monitoring", "open_webui", "scale_to_zero", "scheduled_parking", "spot_job"}
    parts = {name[1] for name in loaded if name[0] == "components"}
    assert parts & {*optional, "karpenter_gpu_pool"} == ({"karpenter_gpu_pool"} if stack == "karpenter" else set())


def test_help_needs_neither_pydantic_nor_yaml() -> None:
    program = (
        "import sys\nfrom tandem.main import main\ntry: main(['--help'])\nexcept SystemExit: pass\n"
        "print({'pydantic', 'yaml', 'pulumi', 'rich'} & set(sys.modules))"
    )
    ended = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True)
    assert ended.stdout.splitlines()[-1] == "set()", ended.stderr


def test_an_error_is_folded_in_a_terminal_and_one_line_in_a_pipe(refused: Path) -> None:
    code, screen = on_screen("plan", refused.name, cwd=refused.parent)
    assert screen.startswith("\x1b[1;31merror:\x1b[0m Pulumi.refused.yaml has 2 errors\n")
    folded = ANSI.sub("", screen).splitlines()
    assert code == 1
    assert max(len(line) for line in folded) <= 80
    assert {len(line) - len(line.lstrip()) for line in folded} == {0, 2, 4}, "what goes on is further in"
    piped = call("plan", refused.name, cwd=refused.parent).stdout.splitlines()
    assert piped[1].startswith("  Pulumi.refused.yaml:4:39  gpu-nodes.instance-types[0]: ")
    assert piped[1].endswith("Did you mean g4dn.metal, g4dn.xlarge or g4dn.8xlarge?")
    command = f"tandem plan {refused.name} --verbose"
    assert piped[3:] == [f"hint: `{command}` also shows 2 warnings."], "errors must not drown in warnings"
    every = call("plan", refused.name, "-v", cwd=refused.parent).stdout.splitlines()
    assert [line.split()[0] for line in every[3:]] == ["warning:", "warning:"]
    assert "".join("\n".join(folded).split()) == "".join("\n".join(piped).split())


def test_an_unreadable_file_is_reported_in_80_columns() -> None:
    code, screen = on_screen("plan", "a-stack-with-a-name-that-is-much-too-long-for-a-line")
    assert code == 2
    lines = screen.replace("\r\n", "\n").splitlines()
    assert len(lines) > 1
    assert sum(len(line) > 80 for line in lines) <= 1, "a path alone may be longer"


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


def test_timeslice_is_planned_by_default_and_two_plans_are_equal() -> None:
    assert call("plan", "--json").stdout == printed_report("timeslice")


def test_strict_fails_on_warnings_and_shows_the_same() -> None:
    """`mps` has a warning: Ollama does not support it officially."""
    for stack, code in {"mps": 1, "timeslice": 0}.items():
        lenient, strict = (call("plan", stack, *more) for more in ((), ("--strict",)))
        assert (lenient.returncode, strict.returncode) == (0, code)
        assert lenient.stdout == strict.stdout
        assert strict.stderr == "error: --strict refuses this plan: it has 1 warning.\n" * code
        assert ("is not officially supported by Ollama" in strict.stdout) == (code == 1)
        shown = call("plan", stack, "--strict", "--json")
        assert (shown.returncode, shown.json["verdict"], len(shown.json["warnings"])) == (code, "ok", code)


@pytest.mark.parametrize("command", [("modes",), ("choose", "--stack")])
def test_other_commands_also_show_where_a_wrong_value_stands(command: tuple[str, ...], tmp_path: Path) -> None:
    file = tmp_path / "Pulumi.x.yaml"
    text = (ROOT / "Pulumi.timeslice.yaml").read_text(encoding="utf-8")
    file.write_text(text + "  tandem:tags: {team: a*b}\n", encoding="utf-8")
    lines = len(text.splitlines()) + 1
    done = call(*command, str(file))
    assert f"Pulumi.x.yaml:{lines}:23  tags.team: " in done.stderr


def test_a_stack_whose_name_pulumi_refuses_is_refused_but_its_file_is_planned(tmp_path: Path) -> None:
    """pulumi 3.260, sdk/go/common/tokens/names.go: letters, digits, hyphens, underscores and periods."""
    (tmp_path / "Pulumi.x y.yaml").write_bytes((ROOT / "Pulumi.timeslice.yaml").read_bytes())
    done = call("plan", "x y", cwd=tmp_path)
    rule = "error: the stack name `x y` is not valid. Use letters, digits, dashes, dots and underscores.\n"
    assert (done.returncode, done.stderr) == (2, rule)
    assert call("init", "x y", "--yes", cwd=tmp_path).stderr == rule
    assert call("plan", "Pulumi.x y.yaml", cwd=tmp_path).returncode == 0


def test_a_missing_stack_file_is_answered_with_the_stacks_of_the_folder(tmp_path: Path) -> None:
    for name in ("Pulumi.yaml", "Pulumi.mine.yaml"):
        (tmp_path / name).write_text("name: tandem\n")
    done = call("plan", cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr.endswith("Pulumi.timeslice.yaml. Name one of the stacks there: mine.\n")


def test_json_and_workflow_commands_list_problems_in_the_order_of_the_file(tmp_path: Path) -> None:
    file = tmp_path / "Pulumi.wrong.yaml"
    # Keys of the provider are checked first.
    file.write_text(REFUSED.replace("[g4dn.extra]", "7") + "  aws:secretKey: x\n")
    found = [
        (one["place"]["line"], one["place"]["column"]) for one in call("plan", str(file), "--json").json["problems"]
    ]
    commands = call("plan", str(file), "--format", "github").stdout
    assert len(found) > 1
    assert found == sorted(found)
    assert [int(line) for line in re.findall(r"^::error .*?,line=(\d+)", commands, re.MULTILINE)] == [
        line for line, _ in found
    ]


def test_a_graph_in_a_missing_folder_is_refused_before_the_plan(tmp_path: Path) -> None:
    done = call("plan", "dev", "--graph", str(tmp_path / "missing" / "x.svg"))
    assert (done.returncode, done.stdout) == (2, "")
    assert "is in a folder that does not exist" in done.stderr
