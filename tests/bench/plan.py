"""Times `tandem plan` and `tandem choose`, next to the imports that nothing can avoid.

make bench            prints medians; fails nothing
"""

import datetime
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from sharing.verdict.choices import choose
from stacks.stack_file.judge import judge, judge_file
from stacks.stack_file.yaml import Source
from tandem.dry_run.program import program_graph
from tandem.search.base_stack import CAPACITIES, of_models
from tests.shipped import STACKS

ROOT = Path(__file__).resolve().parent.parent.parent
ROUNDS = 9
SDKS = "import pulumi, pulumi_aws, pulumi_eks, pulumi_kubernetes, pulumi_random"
REFUSED = """config:
  aws:region: us-east-1
  tandem:sharing: {mode: mps, replicas: 1}
  tandem:models: [{name: "llama2:7b"}]
"""
TANDEM = (sys.executable, "-m", "tandem")
PAIR = ["llama2:7b", "mistral:7b"]
ADVISED: dict[str, dict[str, Any]] = {
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
    show("the SDKs' packages alone", partial(start, sys.executable, "-c", SDKS))
    for stack in STACKS:
        show(f"tandem plan {stack}", partial(start, *TANDEM, "plan", stack))
        show("  again in one process (at most 150)", partial(program_graph, judge_file(file_of(stack)).plan()))
    with tempfile.TemporaryDirectory() as folder:
        refused = Path(folder) / "refused.yaml"
        refused.write_text(REFUSED, encoding="utf-8")
        show("tandem plan of a refused file", partial(start, *TANDEM, "plan", str(refused)))
    show("tandem choose, two models (at most 1000)", partial(start, *TANDEM, "choose", *PAIR, "--context", "2048"))
    base = of_models([{"name": name, "context": 2048} for name in PAIR], "us-east-1", {}, datetime.date.today())
    show("  without start and imports", partial(choose, base.config, CAPACITIES))
    for name, values in ADVISED.items():
        source = Source(values, {"aws:region": "us-east-1"})
        show(f"advice for a refused file, {name} (at most 200)", partial(judge, source, "x"))


def file_of(stack: str) -> Path:
    """The stack file."""
    return ROOT / f"Pulumi.{stack}.yaml"


def start(*command: str) -> None:
    """Runs a command to its end."""
    subprocess.run(command, cwd=ROOT, stdout=subprocess.DEVNULL, check=False)


def show(name: str, call: Callable[[], object]) -> None:
    """Prints the median of some calls, after one that is not counted."""
    call()
    times = []
    for _ in range(ROUNDS):
        began = time.perf_counter()
        call()
        times.append(time.perf_counter() - began)
    print(f"{name}: {statistics.median(times) * 1000:.0f} ms", flush=True)


if __name__ == "__main__":
    main()
