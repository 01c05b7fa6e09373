"""The workflows run `.ci/run`, and `make help` lists every target."""

import re
import subprocess
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parent.parent


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
