"""Times `tandem choose` for two models over the whole catalogue.

    make bench            prints medians; fails nothing

- the whole command, as a process, and the same with Python's start and imports taken off
- the judgement of a refused file, with its advice
"""

import argparse
import datetime
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from sharing.choices import choose
from stacks.stack_file.judge import judge
from stacks.stack_file.yaml import Source
from tandem.choose.command import CAPACITIES
from tandem.planned.base_stack import of_models

ROOT = Path(__file__).resolve().parent.parent.parent
PAIR = ["llama2:7b", "mistral:7b"]
COMMAND = [sys.executable, "-m", "tandem", "choose", *PAIR, "--context", "2048"]
REFUSED = {
    "one share too small": {
        "sharing": {"mode": "mps", "replicas": 4},
        "models": [{"name": name, "context": 2048} for name in PAIR],
    },
    "48 models on one T4": {
        "sharing": {"mode": "timeslice", "replicas": 48},
        "models": [{"name": "llama2:7b", "context": 2048}] * 48,
    },
    "a layout of an H100": {
        "sharing": {"mode": "mig"},
        "gpu-nodes": {"instance-types": ["p5.4xlarge"]},
        "models": [{"name": name, "context": 32768, "slots": 16} for name in PAIR],
    },
}


def main() -> None:
    """Prints every figure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=9)
    rounds = parser.parse_args().rounds
    whole = median(lambda: subprocess.run(COMMAND, cwd=ROOT, stdout=subprocess.DEVNULL, check=True), rounds)
    print(f"tandem choose, two models, whole catalogue: {whole:.0f} ms as a process (at most 1000)")
    base = of_models(PAIR, {"context": 2048}, "us-east-1", None, datetime.date.today())
    print(f"  without start and imports: {median(lambda: choose(base.setup, CAPACITIES['any']), rounds):.0f} ms")
    for name, values in REFUSED.items():
        took = median(lambda values=values: judge(Source(values, {"aws:region": "us-east-1"}), "x"), rounds)  # type: ignore[misc]
        print(f"refused file, {name}: judged with advice in {took:.0f} ms (at most 200)")


def median(call: Callable[[], object], rounds: int) -> float:
    """Median milliseconds of a call, after one that is not counted."""
    call()
    times = []
    for _ in range(rounds):
        start = time.perf_counter()
        call()
        times.append((time.perf_counter() - start) * 1000)
    return statistics.median(times)


if __name__ == "__main__":
    main()
