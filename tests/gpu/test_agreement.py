"""What the tier measures is what a stack does: the engine's arguments, the expectation of a share, the GPU's name.

A difference would show only in the figures, on a machine with a GPU.
"""

import json
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path

import pytest

from components import mps_daemon
from components.share_proof.expectation import expectations
from sharing.fit.shares import place_on
from sharing.hardware.gpus import gpus, instance_types
from sharing.models.catalogue import KvType
from sharing.models.served import ServedModel
from sharing.modes.modes import Mps, TimeSlicing
from tests.gpu import machine, mps, node_daemon, shares
from tests.gpu.engine import llama_arguments
from tests.gpu.limited_servers import limits_of
from tests.gpu.pair import CONTEXT, SLOTS
from tests.gpu.plan import PAIR
from tests.gpu.shapes import SHAPES

ROOT = Path(__file__).resolve().parents[2]


def test_the_tier_needs_no_package() -> None:
    """Machines with a GPU may have no network."""
    # `-S`: without the folders of packages.
    command = [sys.executable, "-S", "-c", "import tests.gpu.__main__"]
    done = subprocess.run(command, cwd=ROOT, env={"PYTHONPATH": str(ROOT)}, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("kind", [KvType.F16, KvType.Q8_0])
def test_the_engine_gets_the_arguments_that_ollama_gives_it(kind: KvType) -> None:
    served = ServedModel.of(SHAPES["llama2:7b"].model, context=2048, slots=4, kv_type=kind)
    given = " ".join(llama_arguments(served, Path("/m.gguf"), 8080))
    # `starting llama-server` in the log of Ollama 0.32.15 (llm/llama_server.go), with this project's settings.
    cache = " --cache-type-k q8_0 --cache-type-v q8_0" if kind is KvType.Q8_0 else ""
    batch = served.effective_batch
    assert given == (
        "--model /m.gguf --port 8080 --host 127.0.0.1 --no-webui --offline -c 8192 -np 4 --log-verbosity 4 "
        f"--no-log-prefix --no-log-timestamps{cache} --flash-attn on -b {batch} -ub {batch} -ngl 999"
    )


@pytest.mark.parametrize(
    ("title", "name"),
    [
        # `nvidia-smi -L` of each.
        ("Tesla T4", "t4"),
        ("Tesla V100-SXM2-32GB", "v100-32gb"),
        ("NVIDIA A100-SXM4-40GB", "a100-40gb"),
        ("NVIDIA H100 80GB HBM3", "h100"),
        ("NVIDIA RTX PRO 6000 Blackwell Server Edition", "rtx-pro-server-6000"),
        # Not in the catalogue, and not taken for another GPU.
        ("NVIDIA GeForce RTX 5090", None),
    ],
)
def test_a_gpu_is_found_in_the_catalogue_by_the_name_that_the_driver_gives_it(title: str, name: str | None) -> None:
    gpu = machine.in_catalogue(title)
    assert (gpu and gpu.name) == name


@pytest.mark.parametrize(
    ("mode", "limits"),
    [
        (TimeSlicing(replicas=2), ()),
        (Mps(replicas=2), (15360 // 2,) * 2),
        (Mps(replicas=2, limits="per-model"), (9000, 4000)),
    ],
    ids=["time-slicing", "mps", "per-model"],
)
def test_two_processes_expect_what_two_pods_do(mode: TimeSlicing | Mps, limits: tuple[int, ...]) -> None:
    own = mode.needs_node_daemon
    [expected] = expectations(mode, gpus()["t4"], 1, limits if own else ())
    here = shares.expectation(expected.summary, expected.device_mib, limits, own=own)
    assert here == json.loads(json.dumps(asdict(expected.to_pods())))


def test_the_daemon_of_limits_per_model_runs_as_the_unit_of_a_node() -> None:
    lines = dict(line.split("=", 1) for line in mps_daemon.unit().splitlines() if "=" in line)
    program, *options = lines["ExecStart"].split()
    daemon = node_daemon.NodeDaemon(Path(program), Path("/node"))
    assert (Path(program).name, tuple(options)) == (mps.CONTROL, node_daemon.OPTIONS)
    assert {word.split("=")[0] for word in lines["Environment"].split()} == {*daemon.variables}
    assert lines["RestartSec"] == str(node_daemon.RESTART_SECONDS)


def test_a_client_has_the_variables_of_a_pod_in_another_directory() -> None:
    # The variables of Amazon ECS's agent, too: ecs-agent/utils/mps/mps.go.
    daemon = node_daemon.NodeDaemon(Path("/bin/control"), Path("/here"))
    assert daemon.client(9216, 0.6) == {
        "CUDA_MPS_PIPE_DIRECTORY": "/here/pipe",
        "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT": "0=9216M",
        "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": "60",
    }
    assert "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE" not in daemon.client(9216)


def test_two_servers_get_the_limits_that_a_plan_gives_their_models() -> None:
    models = [SHAPES[name].model for name in PAIR]
    served = [ServedModel.of(model, context=CONTEXT, slots=SLOTS) for model in models]
    planned = place_on(served, Mps(replicas=2, limits="per-model"), instance_types()["p5.4xlarge"], 1)
    assert [one.share_mib for one in planned] == limits_of(served, gpus()["h100"])
