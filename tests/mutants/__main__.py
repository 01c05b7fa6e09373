"""`make mutants`: changes 200 places of the committed code, one at a time, and counts the changes that no test notices.

It works in a worktree under `.tandem/mutants`, and continues there after an interruption.
"""

import argparse
import datetime
import json
import os
import random
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

from tests.mutants.noticing import KILLED, SURVIVED, TIMEOUT, Tests, record
from tests.mutants.sample import CRITICAL, draw

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / ".tandem" / "mutants"
TREE, BEGUN, TRIED = FOLDER / "tree", FOLDER / "run.json", FOLDER / "tried.jsonl"
RESULTS = Path(__file__).with_name("results.md")
MOST_SURVIVORS = 0.03
OUTCOMES = KILLED, TIMEOUT, SURVIVED
Tried = dict[str, Any]


def main() -> int:
    """Returns 1 if too many survive, 130 if it was interrupted."""
    parser = argparse.ArgumentParser(prog="make mutants", description=__doc__)
    parser.add_argument("--seed", type=int, help="draws the mutants of an earlier run")
    parser.add_argument("--count", type=int, default=200, help="how many mutants (default: 200)")
    parsed = parser.parse_args()
    run = json.loads(BEGUN.read_text()) if BEGUN.exists() else {}
    if not run or parsed.seed not in (None, run["seed"]):
        run = _begin(random.randrange(10**6) if parsed.seed is None else parsed.seed, parsed.count)
    print(f"seed {run['seed']}, commit {run['commit']}", flush=True)
    try:
        tried = _try_all(run)
    except KeyboardInterrupt:
        print("Interrupted. `make mutants` goes on from here.")
        return 130
    report, failed = _describe(run, tried)
    RESULTS.write_text(report, encoding="utf-8")
    _forget()
    print(f"{report}\nWrote {RESULTS.relative_to(ROOT)}")
    return 1 if failed else 0


def _git(*arguments: str, folder: Path = ROOT) -> str:
    return subprocess.run(["git", *arguments], cwd=folder, check=True, capture_output=True, text=True).stdout


def _begin(seed: int, count: int) -> dict[str, Any]:
    """Forgets a run with another seed."""
    _forget()
    _git("worktree", "add", "--detach", str(TREE))
    record(TREE)
    commit = _git("describe", "--always", "--exclude=*").strip()
    run = {"seed": seed, "count": count, "commit": commit}
    BEGUN.write_text(json.dumps(run))
    return run


def _forget() -> None:
    if TREE.exists():
        _git("worktree", "remove", "--force", str(TREE))
    for file in FOLDER.glob("*"):
        file.unlink()


def _try_all(run: dict[str, Any]) -> list[Tried]:
    tried: list[Tried] = [json.loads(line) for line in TRIED.read_text().splitlines()] if TRIED.exists() else []
    # A killed run leaves its last fault in the tree.
    _git("checkout", "--quiet", ".", folder=TREE)
    tests = Tests(TREE)
    for part, mutant in draw(TREE, run["seed"], run["count"])[len(tried) :]:
        file = TREE / mutant.path
        source = file.read_bytes()
        before, after = mutant.change(source)
        try:
            file.write_bytes(mutant.apply(source))
            outcome = tests.notice(mutant)
        finally:
            file.write_bytes(source)
        entry = {"part": part, "path": mutant.path, "line": mutant.line, "fault": mutant.fault}
        tried.append({**entry, "outcome": outcome, "before": before, "after": after})
        with TRIED.open("a") as log:
            print(json.dumps(tried[-1]), file=log)
        print(f"{len(tried):3} {outcome:10} {mutant.path}:{mutant.line} {mutant.fault}", flush=True)
    return tried


def _describe(run: dict[str, Any], tried: list[Tried]) -> tuple[str, bool]:
    counts = Counter((each["part"], each["outcome"]) for each in tried)
    survivors = [each for each in tried if each["outcome"] == SURVIVED]
    share = len(survivors) / len(tried)
    failed = share > MOST_SURVIVORS or any(each["part"] in CRITICAL for each in survivors)
    lines = [
        "# Mutants",
        "",
        f'`make mutants MUTANTS="--seed {run["seed"]}"` at commit {run["commit"]}, '
        f"{datetime.datetime.now(datetime.UTC):%Y-%m-%d}: {len(survivors)} of {len(tried)} mutants survived "
        f"({share:.1%}; at most {MOST_SURVIVORS:.0%}, and none in {', '.join(CRITICAL)}).",
        "",
        f"| part | {' | '.join(OUTCOMES)} |",
        "| --- | ---: | ---: | ---: |",
    ]
    for part in sorted({part for part, _ in counts}):
        numbers = [counts[part, outcome] for outcome in OUTCOMES]
        lines.append(f"| {part} | {' | '.join(map(str, numbers))} |")
    for mutant in survivors:
        lines += ["", f"- `{mutant['path']}:{mutant['line']}` {mutant['fault']}"]
        lines += [f"  - `{mutant[version]}`" for version in ("before", "after")]
    return "\n".join(lines) + "\n", failed


if __name__ == "__main__":
    os.chdir(ROOT)
    sys.exit(main())
