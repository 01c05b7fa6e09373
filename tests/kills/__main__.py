"""`make test-kills`: kills `pulumi`, the providers, everything or the language hosts, and follows `status`.

Prints its seed. The next call continues an interrupted run. `.tandem/kills/SEED` keeps the trials that have ended.
"""

import argparse
import json
import random
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from sharing.files import write_whole
from tandem.sandbox.pulumi import NoPulumiError, executable
from tests.engine.emulated import ROOT
from tests.kills.attempt import attempt
from tests.kills.bases import Bases
from tests.kills.results import summary
from tests.kills.trials import STACKS, Trial, planned

HOME = ROOT / ".tandem" / "kills"
RESULTS = Path(__file__).parent / "results.md"


def main(arguments: list[str]) -> int:
    """Runs the trials that have not ended; 0 when none found a fault, 1 when one did, 2 without an engine."""
    parsed = _parser().parse_args(arguments)
    try:
        executable()
    except NoPulumiError as reason:
        print(f"error: {reason}", file=sys.stderr)
        return 2
    seed = _latest() if parsed.seed is None else parsed.seed
    print(f'seed {seed}: `make test-kills KILLS="--seed {seed}"` does the same trials again')
    folder = HOME / str(seed)
    forget_other_code(folder)
    folder.mkdir(parents=True, exist_ok=True)
    chosen = [trial for trial in planned(seed) if not parsed.trials or trial.number in parsed.trials]
    ended = read(folder)
    left = [trial for trial in chosen if trial.number not in ended]
    if len(left) < len(chosen):
        print(f"{len(chosen) - len(left)} trials have ended before; {folder} keeps them")
    bases = Bases(folder / "stacks")
    for name in STACKS:
        bases.of(name, "up")
    with ThreadPoolExecutor(parsed.jobs) as pool:
        for record in pool.map(lambda trial: do(trial, bases, folder), left):
            ended[record["number"]] = record
    records = [ended[trial.number] for trial in chosen]
    text = summary(seed, records, total=len(planned(seed)))
    print(text)
    if not parsed.trials:
        RESULTS.write_text(text, encoding="utf-8")
        (folder / "complete").touch()
    return 1 if any(record["faults"] for record in records) else 0


def do(trial: Trial, bases: Bases, folder: Path) -> dict[str, Any]:
    """Runs a trial, and keeps its outcome and its output."""
    place = Path(tempfile.mkdtemp(prefix=f"kill-{trial.number}-"))
    try:
        came = attempt(trial, bases.of(trial.stack, trial.operation), place)
    finally:
        shutil.rmtree(place, ignore_errors=True)
    known = asdict(came)
    said = known.pop("said")
    record = {"number": trial.number, "kind": trial.kind, "operation": trial.operation, "what": str(trial), **known}
    record |= {"commit": commit(), "date": f"{datetime.now(UTC):%Y-%m-%d}"}
    (folder / f"{trial.number}.log").write_text("\n".join((str(trial), *came.faults, *said)), encoding="utf-8")
    write_whole(folder / f"{trial.number}.json", json.dumps(record))
    outcome = "; ".join(came.faults) or ("recovered" if came.killed else "ended before the kill")
    print(f"{trial}: {outcome}", flush=True)
    return record


def forget_other_code(folder: Path) -> None:
    """Removes a run that is complete, or of another commit, with its stacks: it says nothing about this code."""
    if (folder / "complete").exists() or {record["commit"] for record in read(folder).values()} - {commit()}:
        shutil.rmtree(folder)


def read(folder: Path) -> dict[int, dict[str, Any]]:
    """The trials that have ended."""
    return {int(path.stem): json.loads(path.read_text(encoding="utf-8")) for path in folder.glob("*[0-9].json")}


def commit() -> str:
    """The commit under trial; with a `+` where files have changed since."""
    asked = ("git", "describe", "--always", "--dirty=+", "--exclude=*")
    return subprocess.run(asked, cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()


def _latest() -> int:
    """The seed of a run that was interrupted, or a new one."""
    begun = [folder for folder in HOME.glob("[0-9]*") if not (folder / "complete").exists()]
    if begun:
        return int(max(begun, key=lambda folder: folder.stat().st_mtime).name)
    return random.SystemRandom().randrange(10**8)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.kills", description="Kills commands of `tandem sandbox`.")
    parser.add_argument("--seed", type=int, help="the trials of this seed (default: an interrupted run, or a new seed)")
    parser.add_argument("--trials", type=int, nargs="+", metavar="NUMBER", help="these trials only; no results file")
    parser.add_argument("--jobs", type=int, default=2, help="trials at a time (default: 2)")
    return parser


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
