"""`.ci/run` says how long each step took, and fails where an expected tier did not run."""

import os
import re
import subprocess
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parent.parent
MAKE = """#!/bin/sh
case "$1" in
  test) echo "tiers: rules 900 passed | program 700 passed, 1 skipped (no GPU) | cluster not asked for" ;;
  test-cluster) echo "tiers: cluster 30 passed, 4 skipped (charts are not reachable)" ;;
  test-engine) echo "tiers: engine 6 passed, 120 skipped (`pulumi` is not on the PATH | 3 passed)" ;;
  "$FAILS") echo "it broke"; exit 2 ;;
esac
"""
"""Prints the last line of `make` for each tier."""


def ci(folder: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    make = folder / "make"
    make.write_text(MAKE.replace("`", r"\`"), encoding="utf-8")
    make.chmod(0o755)
    env = {key: value for key, value in os.environ.items() if key != "TIERS"}
    env["PATH"] = f"{folder}:{env['PATH']}"
    return subprocess.run([ROOT / ".ci" / "run"], env={**env, **variables}, capture_output=True, text=True)


def test_it_prints_the_time_of_each_step_and_passes_with_the_tiers_that_need_python_alone(tmp_path: Path) -> None:
    done = ci(tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    timed = re.findall(r"^(\S+) +\d+ s$", done.stdout, flags=re.MULTILINE)
    assert timed[-1] == "total"
    assert {"plan", "test", "test-slow", "lint", "coverage", "site", "test-cluster", "test-engine"} <= set(timed)


@pytest.mark.parametrize(("tiers", "missing"), [("rules cluster", ""), ("program engine", "engine"), ("gpu", "gpu")])
def test_a_tier_that_the_caller_expects_must_have_run(tiers: str, missing: str, tmp_path: Path) -> None:
    done = ci(tmp_path, TIERS=tiers)
    error = f"error: skipped tiers: {missing}. Install what they need.\n" if missing else ""
    assert (done.returncode, done.stderr) == (1 if missing else 0, error)


def test_a_step_that_fails_ends_it_and_is_named(tmp_path: Path) -> None:
    done = ci(tmp_path, FAILS="lint")
    assert (done.returncode, done.stderr) == (1, "error: `make lint` failed. Repair what it names above.\n")
    assert "== make coverage" not in done.stdout
    assert "it broke" in done.stdout


def test_the_workflows_run_what_a_submission_must_pass() -> None:
    [path] = (ROOT / ".github" / "workflows").glob("*.yml")
    jobs = yaml.safe_load(path.read_text(encoding="utf-8"))["jobs"]
    steps = [step for job in jobs.values() for step in job["steps"]]
    assert any(step.get("run") == ".ci/run" for step in steps)
    used = [step["uses"] for step in steps if "uses" in step]
    assert used
    assert [use for use in used if not re.fullmatch(r"[\w./-]+@[0-9a-f]{40}", use)] == []


def test_make_help_names_every_target_that_people_call() -> None:
    done = subprocess.run(["make", "help"], capture_output=True, text=True, cwd=ROOT)
    [phony] = re.findall(r"^\.PHONY: (.*)$", (ROOT / "Makefile").read_text(encoding="utf-8"), flags=re.MULTILINE)
    listed = re.findall(r"^  ([a-z-]+) +\S", done.stdout, flags=re.MULTILINE)
    assert sorted(listed) == sorted(set(phony.split()))
    assert max(map(len, done.stdout.splitlines())) <= 80
