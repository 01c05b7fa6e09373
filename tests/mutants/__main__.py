"""`make mutants`: changes 200 places of the committed code, one at a time, and counts the changes that no test notices.

It works in a worktree for each processor under `.tandem/mutants`.
"""

import argparse
import datetime
import os
import random
import shutil
import subprocess
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

from tests.mutants.faults import Mutant
from tests.mutants.forks import KILLED, OUTCOMES, SURVIVED
from tests.mutants.noticing import record
from tests.mutants.sample import CRITICAL, draw

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / ".tandem" / "mutants"
TREES = [FOLDER / f"tree{number}" for number in range(os.cpu_count() or 1)]
RESULTS = Path(__file__).with_name("results.md")
MOST_SURVIVORS = 0.03
APART = ["unshare", "--user", "--map-root-user", "--pid", "--fork", "--mount-proc", "--kill-child"]
"""Gives a program its own process numbers (util-linux): a mutant that ends wrong processes sees no others."""
REAPING = ["sh", "-c", '"$@"; exit $?', "sh"]
"""The first process of such a namespace inherits orphaned processes, and Python would not wait for them."""


class Tried(NamedTuple):
    part: str
    mutant: Mutant
    outcome: str


def main() -> int:
    """Returns 1 if too many survive."""
    parser = argparse.ArgumentParser(prog="make mutants", description=__doc__)
    parser.add_argument("--seed", type=int, default=random.randrange(10**6), help="draws the mutants of an earlier run")
    parser.add_argument("--count", type=int, default=200, help="how many mutants (default: 200)")
    parsed = parser.parse_args()
    if shutil.which(APART[0]) is None or subprocess.run([*APART, "true"]).returncode:
        raise SystemExit("error: A mutant may kill all of your processes. Run this on Linux, where `unshare` works.")
    try:
        _plant_trees()
        commit = _git("describe", "--always", "--exclude=*").strip()
        print(
            f"seed {parsed.seed}, commit {commit}; running all tests once, to learn which runs which line", flush=True
        )
        record(TREES[0])
        tried = _try_all(parsed.seed, parsed.count)
        report, failed = _describe(parsed.seed, commit, tried)
    finally:
        _fell_trees()
    RESULTS.write_text(report, encoding="utf-8")
    print(f"{report}\nWrote {RESULTS.relative_to(ROOT)}")
    return 1 if failed else 0


def _git(*arguments: str) -> str:
    return subprocess.run(["git", *arguments], cwd=ROOT, check=True, capture_output=True, text=True).stdout


def _plant_trees() -> None:
    _fell_trees()
    for tree in TREES:
        _git("worktree", "add", "--detach", str(tree))


def _fell_trees() -> None:
    for tree in FOLDER.glob("tree*/"):
        _git("worktree", "remove", "--force", str(tree))
    shutil.rmtree(FOLDER, ignore_errors=True)


def _try_all(seed: int, count: int) -> list[Tried]:
    drawn = draw(TREES[0], seed, count)
    outcomes: dict[int, str] = {}

    def try_in(tree: Path, numbers: list[int]) -> None:
        while left := [number for number in numbers if number not in outcomes]:
            command = [sys.executable, "-m", "tests.mutants.forks", str(seed), str(count), *map(str, left)]
            with subprocess.Popen(
                [*APART, *REAPING, *command],
                cwd=tree,
                env={**os.environ, "PYTHONPATH": str(tree)},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                text=True,
            ) as process:
                for line in process.stdout or ():
                    number, outcome = line.split()
                    note(int(number), outcome)
            if process.returncode:
                # The mutant has killed this process too.
                note(next(number for number in left if number not in outcomes), KILLED)

    def note(number: int, outcome: str) -> None:
        outcomes[number] = outcome
        mutant = drawn[number][1]
        print(f"{len(outcomes):3} {outcome:10} {mutant.path}:{mutant.line} {mutant.fault}", flush=True)

    with ThreadPoolExecutor() as pool:
        list(pool.map(try_in, TREES, [[*range(len(drawn))][at :: len(TREES)] for at in range(len(TREES))]))
    return [Tried(*mutant, outcomes[number]) for number, mutant in enumerate(drawn)]


def _describe(seed: int, commit: str, tried: list[Tried]) -> tuple[str, bool]:
    counts = Counter((part, outcome) for part, _, outcome in tried)
    survivors = [each for each in tried if each.outcome == SURVIVED]
    share = len(survivors) / len(tried)
    failed = share > MOST_SURVIVORS or any(each.part in CRITICAL for each in survivors)
    lines = [
        "# Mutants",
        "",
        f'`make mutants MUTANTS="--seed {seed}"` at commit {commit}, {datetime.datetime.now(datetime.UTC):%Y-%m-%d}: '
        f"{len(survivors)} of {len(tried)} mutants survived "
        f"({share:.1%}; at most {MOST_SURVIVORS:.0%}, and none in {', '.join(CRITICAL)}).",
        "",
        f"| part | {' | '.join(OUTCOMES)} |",
        "| --- | ---: | ---: | ---: |",
    ]
    for part in sorted({part for part, _ in counts}):
        numbers = [counts[part, outcome] for outcome in OUTCOMES]
        lines.append(f"| {part} | {' | '.join(map(str, numbers))} |")
    for _, mutant, _ in survivors:
        before, after = mutant.change((TREES[0] / mutant.path).read_bytes())
        lines += ["", f"- `{mutant.path}:{mutant.line}` {mutant.fault}", f"  - `{before}`", f"  - `{after}`"]
    return "\n".join(lines) + "\n", failed


if __name__ == "__main__":
    sys.exit(main())
