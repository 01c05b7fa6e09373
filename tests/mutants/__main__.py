"""`make mutants`: changes 200 places of the code, one at a time, and counts the changes that no test notices.

It works in a copy under `.tandem/mutants`, and continues there after an interruption. Run nothing else meanwhile: the
time that each test takes decides which tests are tried.
"""

import argparse
import datetime
import json
import os
import random
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

from tests.mutants.sample import CRITICAL, ROOMS, draw, read_equivalent
from tests.mutants.selection import Selection, record_lines

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / ".tandem" / "mutants"
RESULTS = Path(__file__).with_name("results.md")
MOST_SURVIVORS = 0.03
SURVIVED, EQUIVALENT = "survived", "equivalent"
Tried = dict[str, Any]


def main() -> int:
    """Returns 1 if too many survive, 130 if it was interrupted."""
    parser = argparse.ArgumentParser(prog="make mutants", description=__doc__)
    parser.add_argument("--seed", type=int, help="draws the mutants of an earlier run")
    parser.add_argument("--count", type=int, default=200, help="how many mutants (default: 200)")
    parser.add_argument("--restart", action="store_true", help="forget an interrupted run")
    parsed = parser.parse_args()
    if parsed.restart or (FOLDER / "finished").exists():
        shutil.rmtree(FOLDER, ignore_errors=True)
    run = _begin(random.randrange(10**6) if parsed.seed is None else parsed.seed, parsed.count)
    if parsed.seed not in (None, run["seed"]):
        parser.error(f"an interrupted run has seed {run['seed']}. Leave out --seed to go on, or add --restart.")
    print(f"seed {run['seed']}, commit {run['commit']}", flush=True)
    try:
        tried = _try_all(run)
    except KeyboardInterrupt:
        print("Interrupted. `make mutants` goes on from here.")
        return 130
    report, failed = _describe(run, tried)
    RESULTS.write_text(report, encoding="utf-8")
    (FOLDER / "finished").touch()
    print(f"{report}\nWrote {RESULTS.relative_to(ROOT)}")
    return 1 if failed else 0


def _begin(seed: int, count: int) -> dict[str, Any]:
    """The interrupted run, or a new one with a copy of all files that git tracks or does not ignore."""
    begun = FOLDER / "run.json"
    if not begun.exists():
        shutil.rmtree(FOLDER, ignore_errors=True)
        for name in filter(os.path.isfile, _git("ls-files", "-co", "--exclude-standard").splitlines()):
            (FOLDER / "tree" / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, FOLDER / "tree" / name)
        for room in ROOMS:
            shutil.copytree(FOLDER / "tree" / room, FOLDER / "source" / room)
        commit = _git("describe", "--always", "--dirty", "--exclude=*").strip()
        record_lines(FOLDER)
        begun.write_text(json.dumps({"seed": seed, "count": count, "commit": commit}))
    run: dict[str, Any] = json.loads(begun.read_text())
    return run


def _git(*arguments: str) -> str:
    return subprocess.run(["git", *arguments], cwd=ROOT, check=True, capture_output=True, text=True).stdout


def _try_all(run: dict[str, Any]) -> list[Tried]:
    kept = FOLDER / "tried.jsonl"
    tried: list[Tried] = [json.loads(line) for line in kept.read_text().splitlines()] if kept.exists() else []
    equivalent = read_equivalent()
    # A killed run leaves its last fault in the tree.
    shutil.copytree(FOLDER / "source", FOLDER / "tree", dirs_exist_ok=True)
    with Selection(FOLDER) as selection, kept.open("a") as log:
        for part, mutant in list(draw(FOLDER / "source", run["seed"], run["count"]))[len(tried) :]:
            source = (FOLDER / "source" / mutant.path).read_bytes()
            file = FOLDER / "tree" / mutant.path
            before, after = mutant.change(source)
            known = (mutant.path, before, after) in equivalent
            try:
                file.write_bytes(mutant.apply(source))
                outcome = EQUIVALENT if known else selection.test(mutant)
            finally:
                file.write_bytes(source)
            entry = {"part": part, "path": mutant.path, "line": mutant.line, "fault": mutant.fault}
            tried.append({**entry, "outcome": outcome, "before": before, "after": after})
            print(json.dumps(tried[-1]), file=log, flush=True)
            print(f"{len(tried):3} {outcome:10} {mutant.path}:{mutant.line} {mutant.fault}", flush=True)
    return tried


def _describe(run: dict[str, Any], tried: list[Tried]) -> tuple[str, bool]:
    counts = Counter((one["part"], one["outcome"]) for one in tried)
    survivors = [one for one in tried if one["outcome"] == SURVIVED]
    share = len(survivors) / (len(tried) - sum(one["outcome"] == EQUIVALENT for one in tried))
    failed = share > MOST_SURVIVORS or any(one["part"] in CRITICAL for one in survivors)
    lines = [
        "# Mutants",
        "",
        f'`make mutants MUTANTS="--seed {run["seed"]}"` at commit {run["commit"]}, '
        f"{datetime.datetime.now(datetime.UTC):%Y-%m-%d}: {len(survivors)} of {len(tried)} mutants survived "
        f"({share:.1%}; at most {MOST_SURVIVORS:.0%}, and none in {', '.join(CRITICAL)}).",
        "",
        "| part | killed | timeout | survived | equivalent |",
        "| --- | ---: | ---: | ---: | ---: |",
    ]
    for part in dict.fromkeys(one["part"] for one in sorted(tried, key=lambda one: str(one["part"]))):
        numbers = [counts[part, outcome] for outcome in ("killed", "timeout", SURVIVED, EQUIVALENT)]
        lines.append(f"| {part} | {' | '.join(map(str, numbers))} |")
    for one in survivors:
        lines += [
            "",
            f"- `{one['path']}:{one['line']}` {one['fault']}",
            f"  - `{one['before']}`",
            f"  - `{one['after']}`",
        ]
    return "\n".join(lines) + "\n", failed


if __name__ == "__main__":
    os.chdir(ROOT)
    sys.exit(main())
