"""Times `tandem choose`, and `tandem plan` against its unavoidable imports, in turn: a slow machine slows both alike.

    make bench            prints medians and ratios; fails nothing

- an accepted stack, against a bare process that imports the SDKs and touches the resource classes of that stack; and
  against the same without garbage collection, as the command runs: the difference is our own time
- a refused file, against that, against the SDKs' packages alone (whose classes load when touched), and against
  pydantic, without which there is no answer
- planning again in one process, and ten clusters against one
- `tandem choose` for two models over the whole catalogue, as a process and without Python's start and imports
- the judgement of refused files, with their advice
"""

import datetime
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from importlib import import_module
from pathlib import Path

import pulumi

from components import GpuCluster, GpuClusterArgs
from sandbox.preview.program import run
from sharing.verdict.choices import choose
from stacks.stack_file.judge import judge, judge_file
from stacks.stack_file.yaml import Source
from tandem.choose.command import CAPACITIES
from tandem.dry_run.program import program_graph
from tandem.search.base_stack import of_models
from tests.shipped import STACKS

ROOT = Path(__file__).resolve().parent.parent.parent
ROUNDS = 9
SDKS = "import pulumi, pulumi_aws, pulumi_eks, pulumi_kubernetes, pulumi_random"
UNCOLLECTED = "import gc; gc.disable(); import atexit; atexit.register(gc.freeze)\n"
"""As the command begins and ends."""
REFUSED = """config:
  aws:region: us-east-1
  tandem:sharing: {mode: mps, replicas: 1}
  tandem:models: [{name: "llama2:7b"}]
"""
COMMAND = [sys.executable, "-m", "tandem", "plan"]
PAIR = ["llama2:7b", "mistral:7b"]
CHOOSE = [sys.executable, "-m", "tandem", "choose", *PAIR, "--context", "2048"]
ADVISED = {
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
WITH_BYTECODE = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
"""In a read-only checkout each process compiles our modules again, but not those of the SDKs: 50 ms."""


def main() -> None:
    """Prints every figure."""
    for stack in STACKS:
        against(
            f"tandem plan {stack}",
            [*COMMAND, stack],
            "bare SDKs and classes",
            [sys.executable, "-c", touching(stack)],
            1.0,
        )
    uncollected = [sys.executable, "-c", UNCOLLECTED + touching("timeslice")]
    against("tandem plan timeslice", [*COMMAND, "timeslice"], "the same without garbage collection", uncollected, 1.5)
    with tempfile.TemporaryDirectory() as folder:
        refused = Path(folder) / "refused.yaml"
        refused.write_text(REFUSED, encoding="utf-8")
        for other, program in (
            ("bare SDKs and classes", touching("timeslice")),
            ("bare SDK packages, no class", SDKS),
            ("pydantic and YAML", "import yaml; from pydantic import BaseModel"),
        ):
            against("refused file", [*COMMAND, str(refused)], other, [sys.executable, "-c", program], 0.4)
    for stack in STACKS:
        plan = judge_file(ROOT / f"Pulumi.{stack}.yaml").plan()
        again = median(lambda plan=plan: program_graph(plan))  # type: ignore[misc]
        print(f"planning {stack} again: {again * 1000:.0f} ms (at most 150)")
    one, ten = median(lambda: clusters(1)), median(lambda: clusters(10))
    print(f"ten clusters {ten * 1000:.0f} ms, one {one * 1000:.0f} ms: {ten / one:.1f} × (at most 12)")
    whole = median(lambda: timed(CHOOSE))
    print(f"tandem choose, two models, whole catalogue: {whole * 1000:.0f} ms as a process (at most 1000)")
    base = of_models([{"name": name, "context": 2048} for name in PAIR], "us-east-1", {}, datetime.date.today())
    print(f"  without start and imports: {median(lambda: choose(base.config, CAPACITIES['any'])) * 1000:.0f} ms")
    for name, values in ADVISED.items():
        took = median(lambda values=values: judge(Source(values, {"aws:region": "us-east-1"}), "x"))  # type: ignore[misc]
        print(f"refused file, {name}: judged with advice in {took * 1000:.0f} ms (at most 200)")


def against(name: str, ours: list[str], other: str, theirs: list[str], most: float) -> None:
    """Times two commands in turn and prints medians, and the median of the ratios of neighbours.

    Also for CPU time, which other programs on the machine change less.
    """
    pairs = [(timed(ours), timed(theirs)) for _ in range(ROUNDS + 1)][1:]
    for unit, seconds in (("", 0), (" of CPU", 1)):
        mine, bare = (statistics.median(run[seconds] for run in side) for side in zip(*pairs, strict=True))
        ratio = statistics.median(a[seconds] / b[seconds] for a, b in pairs)
        both = f"{mine * 1000:.0f} ms{unit}, {other}: {bare * 1000:.0f} ms{unit}"
        print(f"{name}: {both}, ratio {ratio:.2f} (at most {most})", flush=True)


def timed(command: list[str]) -> tuple[float, float]:
    """Seconds that the command takes as a whole process, and seconds of CPU."""
    start, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, cwd=ROOT, stdout=subprocess.DEVNULL, env=WITH_BYTECODE, check=False)
    took, after = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    return took, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def median(call: Callable[[], object]) -> float:
    """Median seconds of a call, after one that is not counted."""
    call()
    times = []
    for _ in range(ROUNDS):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def touching(stack: str) -> str:
    """A program that imports the SDKs and touches exactly the resource classes that the stack registers."""
    done = subprocess.run([*COMMAND, stack, "--json"], cwd=ROOT, capture_output=True, text=True, check=True)
    types = sorted({resource["type"] for resource in json.loads(done.stdout)["resources"]})
    return "\n".join([SDKS, *filter(None, map(class_of, types))])


def class_of(token: str) -> str:
    """`pulumi_aws.ec2.Vpc` for `aws:ec2/vpc:Vpc`; empty for a type that no SDK has."""
    package, module, name = token.split(":")
    if package == "pulumi":
        return f"pulumi_{name}.Provider" if module == "providers" else ""
    if package not in ("aws", "eks", "kubernetes", "random"):
        return ""
    area, _, rest = module.partition("/")
    if "karpenter" in area:
        return "pulumi_kubernetes.apiextensions.CustomResource"
    if package == "kubernetes":
        area = f"{area.split('.')[0]}.{rest}"
    path = f"pulumi_{package}" if area == "index" or package == "random" else f"pulumi_{package}.{area}"
    return f"{path}.{name}" if hasattr(import_module(path), name) else ""


def clusters(count: int) -> None:
    """Registers that many clusters in one program."""

    def program() -> None:
        for index in range(count):
            GpuCluster(f"c{index}", GpuClusterArgs(cluster_name=f"c{index}"), pulumi.ResourceOptions())

    run(program, project="bench", stack="bench")


if __name__ == "__main__":
    main()
