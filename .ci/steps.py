"""The steps that a submission must pass, on a clean clone and a new machine: the README's commands, and every tier.

TIERS names the tiers that this machine can run, e.g. TIERS="rules program cluster engine": it is an error if most tests
of one of them were skipped. Without TIERS these are the tiers that need only Python.
"""

import os
import re
import subprocess
import sys
import time
from pathlib import Path

STEPS = (
    *("plan", "test", "test-slow", "test-ollama", "test-wheel", "lint", "coverage", "site"),
    *("test-browser", "test-cluster", "test-engine"),
)
NEEDS_PYTHON_ALONE = "rules program"
COUNT = re.compile(r"(\d+) (passed|failed|skipped)")


def main() -> int:
    """Runs the steps until one fails. Prints the time of each and the tiers that ran; returns the exit code."""
    expected = os.environ.get("TIERS", NEEDS_PYTHON_ALONE).split()
    counts: dict[str, dict[str, int]] = {}
    lines: list[str] = []
    times: list[tuple[str, float]] = []
    failed = ""
    for step in STEPS:
        began = time.monotonic()
        code, said = run(step)
        times.append((step, time.monotonic() - began))
        lines += said
        for line in said:
            add(counts, line)
        if code:
            failed = step
            break
    print("\n".join(["", *lines, ""]))
    for step, seconds in times:
        print(f"{step:<14}{seconds:7.0f} s")
    print(f"{'total':<14}{sum(seconds for _, seconds in times):7.0f} s", flush=True)
    if failed:
        print(f"error: `make {failed}` failed. Repair what it names above.", file=sys.stderr)
        return 1
    missing = [tier for tier in expected if not has_run(counts.get(tier, {}))]
    if missing:
        print(f"error: skipped tiers: {', '.join(missing)}. Install what they need.", file=sys.stderr)
    return 1 if missing else 0


def run(step: str) -> tuple[int, list[str]]:
    """Runs one target and prints its output as it comes. Returns its exit code and its lines about tiers."""
    print(f"\n== make {step}", flush=True)
    said = []
    with subprocess.Popen(["make", step], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        for line in process.stdout or ():
            print(line, end="", flush=True)
            if line.startswith("tiers: "):
                said.append(line.rstrip())
    return process.returncode, said


def add(counts: dict[str, dict[str, int]], line: str) -> None:
    """Adds the numbers of a line such as `tiers: rules 12 passed | engine 3 passed, 40 skipped (no pulumi)`."""
    for part in line.removeprefix("tiers: ").split(" | "):
        tier, _, rest = part.partition(" ")
        for number, outcome in COUNT.findall(rest.partition(" (")[0]):
            found = counts.setdefault(tier, {})
            found[outcome] = found.get(outcome, 0) + int(number)


def has_run(outcomes: dict[str, int]) -> bool:
    """Whether most tests of a tier ran. Some tests have needs of their own, and some of each tier need nothing."""
    return outcomes.get("passed", 0) > outcomes.get("skipped", 0)


if __name__ == "__main__":
    os.chdir(Path(__file__).resolve().parent.parent)
    sys.exit(main())
