"""The screen of every command, each once, most at 80 columns: a line, a column or a figure that is lost shows here.

`make test` compares; `pytest tests/tandem/test_screens.py --regen` writes the files of `tests/golden/screens`.
"""

import contextlib
import io
import json
import re
import sys
from collections.abc import Callable
from pathlib import Path

import jsonschema
import pytest
from pydantic import TypeAdapter

from tandem.plan_json.report import PlanReport
from tests.command import ROOT, Screen, call, on_screen
from tests.conftest import Golden
from tests.goldens import in_full
from tests.sharing.builders import pair, pool, setup, tenants
from tests.shipped import copy_project
from tests.tandem.json_lines import laid_out
from tests.tandem.outputs import outputs
from tests.tandem.shown import NOON, SHOWN, findings, runs

PAIR = ("choose", "llama2:7b", "mistral:7b", "--context", "2048")
PARIS = (*PAIR, "--region", "eu-west-3")
"""The tables have no price of G5 there, and no spot price at all."""
LONG = ("choose", "llama4:16x17b", "--context", "1048576", "--capacity", "spot")
RAG = ("qwen3:8b", "nomic-embed-text", "--under", "300/month", "--nights-off", "--region", "eu-central-1")
SCREENS = {
    **{
        f"plan-{name}": ("plan", name)
        for name in ("timeslice", "mps", "per-model", "mig-mixed", "karpenter", "pools.yaml")
    },
    **{f"plan-{name}": ("plan", f"{name}.yaml") for name in ("parked", "refused")},
    "plan-verbose": ("plan", "mig-mixed", "--verbose", "--resources"),
    "plan-verbose-pools": ("plan", "pools.yaml", "-v"),
    "plan-verbose-exclusive": ("plan", "exclusive", "-v"),
    "plan-verbose-parked": ("plan", "parked.yaml", "-v"),
    "plan-verbose-rare": ("plan", "rare.yaml", "-v"),
    "plan-unpriced": ("plan", "unpriced.yaml"),
    "plan-narrow": ("plan", "timeslice"),
    "plan-compare": ("plan", "one.yaml", "--compare", "timeslice,mps,exclusive,mig"),
    "plan-stacks": ("plan", "one.yaml", "parked.yaml", "pools.yaml", "refused.yaml", "mig-mixed"),
    "plan-stacks-wide": ("plan", "one.yaml", "parked.yaml", "pools.yaml", "refused.yaml", "exclusive"),
    "plan-stacks-narrow": ("plan", "one.yaml", "scheduled.yaml"),
    "plan-stacks-embeds": ("plan", "embeds.yaml", "embeds.yaml"),
    "plan-scheduled-verbose": ("plan", "scheduled.yaml", "-v"),
    "plan-scheduled-compare": ("plan", "scheduled.yaml", "--compare", "timeslice,exclusive"),
    "plan-strict": ("plan", "unpriced.yaml", "--strict"),
    "plan-models": ("plan", *RAG),
    "plan-models-nothing": ("plan", *RAG[:2], "--region", "eu-central-1", "--under", "300/month"),
    "plan-switch": ("plan", "mps", "--outputs", "outputs.json"),
    "plan-switch-none": ("plan", "timeslice", "--outputs", "outputs.json"),
    "plan-switch-pools": ("plan", "pools.yaml", "--outputs", "outputs.json"),
    "plan-switch-mig": ("plan", "mig", "--outputs", "large.json"),
    "choose": PAIR,
    "choose-wide": (*PAIR, "--rows", "5"),
    "choose-narrow": (*PAIR, "--rows", "5"),
    "choose-embeds": ("choose", "nomic-embed-text", "--rows", "2"),
    "choose-any": (*PAIR, "--region", "any"),
    "choose-too-little": (*PAIR, "--budget", "0.2"),
    "choose-too-slow": (*PAIR, "--min-tokens-per-second", "5000", "--budget", "0.9"),
    "choose-per-token": (*PAIR, "--by", "per-token", "--rows", "4"),
    "choose-too-large": ("choose", "qwen2.5:32b", "--context", "32768", "--slots", "64"),
    "choose-cannot-run": ("choose", "llama3.2-vision:11b"),
    "choose-paris": PARIS,
    "choose-paris-budget": (*PARIS, "--budget", "2"),
    "choose-paris-too-little": (*PARIS, "--budget", "0.41"),
    "choose-budget": ("choose", "llama3.1:70b", "llama3.1:8b", "--budget", "5", "--context", "8192"),
    "choose-nothing": (*LONG, "--slots", "64"),
    "choose-json": (*LONG, "--json"),
    "choose-setups-json": (
        "choose",
        "llama3.1:70b",
        "--context",
        "8192",
        "--budget",
        "3.8",
        "--isolation",
        "hardware",
        "--json",
    ),
    "modes": ("modes",),
    "modes-all": ("modes", "--all"),
    "modes-tokens": ("modes", "--by", "tokens"),
    "modes-pools": ("modes", "mig-mixed", "--provisioner", "karpenter"),
    "modes-group": ("modes", "--provisioner", "node-group", "--mode", "mig"),
    "modes-amd": ("modes", "--type", "g4ad.xlarge", "--mode", "mps"),
    "modes-type-both": ("modes", "--type", "g7e.2xlarge"),
    "modes-region": ("modes", "--region", "eu-central-2", "--mode", "exclusive"),
    "modes-refused-json": ("modes", "--type", "g4dn.xlarge", "--mode", "mig-single", "--json"),
    "modes-type": ("modes", "--type", "g4dn.xlarge"),
    "modes-type-mig": ("modes", "--type", "p4d.24xlarge", "--region", "eu-west-1"),
    "modes-slices-json": ("modes", "--type", "p5.4xlarge", "--mode", "mig", "--provisioner", "node-group", "--json"),
    "models": ("models", "--filter", "qwen3-e"),
    # Ollama 0.32.15 loads no `mllama` (integration/reg_release_test.go): it is marked.
    "models-not-loaded": ("models", "--filter", "vision"),
    "models-json": ("models", "--filter", "llama3.2", "--json"),
    "gpus": ("gpus", "--filter", "g4"),
    "gpus-narrow": ("gpus", "--filter", "g4"),
    "gpus-abroad": ("gpus", "--region", "eu-central-2", "--filter", "g6"),
    # AWS's P3 instances are retired; the regions of China have no P5 (Karpenter's tables).
    "gpus-in-china": ("gpus", "--region", "cn-north-1", "--filter", "p"),
    "gpus-json": ("gpus", "--filter", "g4ad", "--json"),
}
COLUMNS = {
    **dict.fromkeys(("plan-stacks-wide", "choose-wide"), 200),
    **{"plan-narrow": 50, "plan-stacks-narrow": 45, "choose-narrow": 45, "gpus-narrow": 45},
}
"""Of the terminal, where it is not one of 80."""
REFUSED = """config:
  aws:region: us-east-1
  tandem:sharing: {mode: mps, replicas: 4}
  tandem:gpu-nodes: {instance-types: [g4dn.xlarge, p3.2xlarge], max: 2}
  tandem:models: [{name: "llama2:7b"}, {name: "mistral:7b", context: 99000}]
  tandem:budget: {max-usd-per-hour: 0.2}
"""
PARKED = """config:
  aws:region: us-east-1
  tandem:sharing: {mode: mps, replicas: 2}
  tandem:gpu-nodes: {instance-types: [g4dn.xlarge], desired: 0}
  tandem:models: [{name: "llama2:7b"}, {name: "mistral:7b"}]
  tandem:cluster: {public-access-cidrs: [0.0.0.0/0]}
"""
SCHEDULED = """config:
  aws:region: us-east-1
  tandem:sharing: {mode: timeslice}
  tandem:gpu-nodes: {instance-types: [g4dn.xlarge, g4dn.2xlarge]}
  tandem:models: [{name: "llama2:7b", context: 2048}, {name: "mistral:7b", context: 2048, cache: volume}]
  tandem:cluster: {nat: none, public-access-cidrs: [192.0.2.1/32]}
  tandem:park: {schedule: "0 20 * * MON-FRI", wake: "0 8 * * 1-5", timezone: Europe/Paris}
"""
POOLS = """config:
  aws:region: us-east-1
  tandem:sharing: {mode: timeslice, replicas: 2}
  tandem:gpu-nodes:
    - {name: small, instance-types: [g4dn.xlarge], capacity: on-demand, max: 3}
    - {name: big, instance-types: [g6.xlarge], sharing: {mode: mps, replicas: 3}}
    - {name: spare}
  tandem:models:
    - {name: "llama2:7b", pool: small, cache: volume}
    - {name: "mistral:7b", pool: big, slots: 2, context: 4096}
    - {name: "nomic-embed-text", pool: big}
  tandem:cluster: {nat: per-zone, zones: 3, logs: true}
"""
RARE = """config:
  aws:region: us-east-1
  tandem:sharing: {mode: timeslice}
  tandem:gpu-nodes: {instance-types: [p5.48xlarge, p5.4xlarge]}
  tandem:models: [{name: "llama2:7b", slots: 2}, {name: "mistral:7b", slots: 3}]
  tandem:cluster: {nat: none, public-access-cidrs: [0.0.0.0/0]}
"""
"""The tables have a spot rate of one type, and a spot price of none."""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A project with the shipped stack files, others, what `timeslice` and another one report."""
    copy_project(tmp_path)
    shipped, dev = ((ROOT / f"Pulumi.{name}.yaml").read_text(encoding="utf-8") for name in ("timeslice", "dev"))
    up = setup(models=tenants(*pair()), pools=(pool(types=("g4dn.xlarge", "g4dn.2xlarge")),))
    large = outputs(setup(models=tenants(*pair()), pools=(pool(types=("g7e.2xlarge", "g7e.4xlarge")),)))["pools"]["gpu"]
    served = {"qwen2-5-14b": "http://a", "llama2-7b": "http://b"}
    for name, text in {
        "refused.yaml": REFUSED,
        "pools.yaml": POOLS,
        "parked.yaml": PARKED,
        "scheduled.yaml": SCHEDULED,
        "rare.yaml": RARE,
        "embeds.yaml": re.sub(r"models: .*", "models: [{name: nomic-embed-text}]", PARKED.replace(", desired: 0", "")),
        "wrong.yaml": POOLS.replace("[g6.xlarge]", "[g6.xlage]"),
        "one.yaml": shipped.replace("[g4dn.xlarge, g4dn.2xlarge]", "[g4dn.xlarge]"),
        "unpriced.yaml": dev.replace("aws:region: us-east-1", "aws:region: sa-east-1"),
        "outputs.json": json.dumps(outputs(up)),
        "large.json": json.dumps({"pools": {"gpu": large, "old": large}, "endpoints": served}),
    }.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    return tmp_path


@pytest.mark.slow
@pytest.mark.parametrize("name", SCREENS)
def test_a_command_prints_what_its_golden_says(name: str, folder: Path, golden: Golden) -> None:
    done = call(*SCREENS[name], cwd=folder, columns=COLUMNS.get(name, 80))
    shown = f"{laid_out(done.json)}\n" if "--json" in SCREENS[name] else done.stdout
    said = re.sub(r"\d+ days\s+ago", "N days ago", f"{shown}{done.stderr}exit code {done.returncode}\n")
    golden(f"screens/{name}.txt", said.replace(str(folder), "FOLDER"))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "code", "verdict"),
    [
        ("timeslice", 0, "ok"),
        ("karpenter", 0, "ok"),
        ("parked.yaml", 0, "ok"),
        ("unpriced.yaml", 0, "ok"),
        ("unpriced.yaml --strict", 1, "refused"),  # nobody can judge its budget
        ("wrong.yaml", 1, "refused"),
        ("refused.yaml", 1, "refused"),
        ("scheduled.yaml", 0, "ok"),
    ],
)
def test_a_plan_for_programs_has_its_schema_and_its_verdict(
    arguments: str, code: int, verdict: str, folder: Path
) -> None:
    ended = call("plan", *arguments.split(), "--json", cwd=folder)
    jsonschema.validate(ended.json, TypeAdapter(PlanReport).json_schema())
    assert (ended.returncode, ended.json["verdict"]) == (code, verdict)


@pytest.mark.slow
@pytest.mark.parametrize(
    "arguments", ["pools.yaml", "mps --outputs outputs.json", "llama2 --under 300/month --nights-off"]
)
def test_a_plan_says_to_programs_what_its_golden_says(arguments: str, folder: Path, golden: Golden) -> None:
    """But for the resources, which `tests/program` compares."""
    ended = call("plan", *arguments.split(), "--json", cwd=folder)
    report = ended.json
    jsonschema.validate(report, TypeAdapter(PlanReport).json_schema())
    report |= {"exit code": ended.returncode, "resources": len(report["resources"])}
    report["cost"]["price_age_days"] = 0
    golden(f"plans/{re.split('[. ]', arguments)[0]}.json", in_full(report, width=200) + "\n")


@pytest.mark.slow
@pytest.mark.parametrize("command", ["choose llama2:7b", "modes --type g6.xlarge", "gpus --filter g6."])
def test_a_terminal_shows_the_same_in_colour(command: str, golden: Golden) -> None:
    code, screen = on_screen(*command.split())
    said = re.sub(r"\d+ days ago", "N days ago", screen)
    name = f"{command.split()[0]}-in-colour"
    golden(f"screens/{name}.txt", f"{said}exit code {code}\n".replace("\x1b", "␛"))


@pytest.mark.parametrize(("show", "piped"), [*((show, show is runs) for show in SHOWN), (findings, True)])
def test_what_was_found_is_shown_as_the_golden_says(
    show: Callable[[], None], piped: bool, golden: Golden, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a terminal, except for a bar that moves by the clock there; findings also in a pipe, a line each."""
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("TERM", "dumb" if piped else "xterm-256color")
    out = io.StringIO() if piped else Screen()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
        show()
        sys.stdout.flush()
    said = out.getvalue().replace(NOON.astimezone().strftime("%H:%M:%S"), "12:00:00")
    golden(f"screens/{show.__name__}{'-in-a-pipe' * piped}.txt", said.replace("\x1b", "␛").replace("\r", "␍"))
