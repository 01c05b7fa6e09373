"""How a process becomes a client of the MPS daemon of its node, with limits of its own.

CUDA reads the variables when a process initializes it. A daemon's own limit would be the highest that a client can
have, so the node's daemon has none.
"""

from collections.abc import Mapping

MPS_UNIT = "tandem-mps"
"""Name of the daemon's systemd unit, whose journal has its log."""
PIPE_DIRECTORY = "/run/tandem-mps"
"""Directory of the daemon's sockets, on the node and in each pod.

Not CUDA's default, which NVIDIA's runtime can mount into every GPU container: its processes would become clients
(amazon-ecs-ami#771).
"""
PIPE_VARIABLE = "CUDA_MPS_PIPE_DIRECTORY"
MEMORY_VARIABLE = "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"
THREADS_VARIABLE = "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"


def memory_limit(limit_mib: int) -> str:
    """Value of `MEMORY_VARIABLE`. With another number than 0 for the only GPU, there would be no limit and no error."""
    return f"0={limit_mib}M"


def client_environment(limit_mib: int, threads: float) -> Mapping[str, str]:
    """The variables of a process with these limits; with all threads, it has no limit of them."""
    variables = {PIPE_VARIABLE: PIPE_DIRECTORY, MEMORY_VARIABLE: memory_limit(limit_mib)}
    return variables if threads == 1 else {**variables, THREADS_VARIABLE: str(round(threads * 100))}
