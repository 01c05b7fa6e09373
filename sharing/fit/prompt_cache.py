"""Whether the engine's prompt cache saves time: what one conversation takes there, and what a copy costs.

llama-server copies a conversation to RAM when another one takes its slot, and back when it returns. The request waits
for both. Source: llama.cpp tools/server, `get_available_slot` and `server_prompt_cache`; decision 0152 measures it.
"""

from sharing.hardware.gpus import Gpu
from sharing.models.catalogue import MIB
from sharing.models.kv_cache import kv_bytes
from sharing.models.ollama import checkpoint_bytes, checkpoints
from sharing.models.served import ServedModel
from sharing.sections.pools import GpuPool
from sharing.speed.forecast import weights_per_token
from sharing.speed.gpus import gpu_speeds

CELL_BYTES = 20
"""Position, sequence and place in a picture of one token. Source: llama.cpp llama-kv-cache.cpp, state_write_meta."""
STEP_MIB = 64
"""The sizes to write are multiples of this."""
COPIED_MIB_PER_SECOND = 1_340
"""MiB of a conversation that one second copies from GPU to RAM: 375 in 0.28 s on an H100, with llama2:7b.

A PCIe bus is ten times as fast. The time goes into new pages of RAM, so other nodes are assumed to take the same.
"""


def state_mib(served: ServedModel) -> float:
    """RAM of one conversation that fills its slot: keys and values, recurrent state and the slot's checkpoints, in MiB.

    Source: llama.cpp tools/server/server-task.cpp, `server_prompt_cache::alloc`.
    """
    kept = kv_bytes(served) / served.effective_slots + checkpoints(served) * checkpoint_bytes(served)
    # Layers with and without a window have caches of their own.
    return (kept + 2 * CELL_BYTES * served.effective_context) / MIB


def enough_mib(served: ServedModel) -> int:
    """The smallest useful cache, in MiB: the conversation that leaves a slot must not evict the one that returns."""
    return int(-(-2 * state_mib(served) // STEP_MIB) * STEP_MIB)


def copies_seconds(served: ServedModel) -> float:
    """How long a conversation that returns and fills its slot waits: it is copied back, and another one to RAM.

    Only copies to RAM are measured. Those back are assumed to take as long.
    """
    return 2 * state_mib(served) / COPIED_MIB_PER_SECOND


def read_seconds(served: ServedModel, gpu: Gpu, part: float) -> float | None:
    """How long the same conversation takes as a new prompt, on a `part` of the GPU; None if nobody measured it."""
    speed = gpu_speeds().get(gpu.name)
    if speed is None or not speed.readings:
        return None
    return speed.prompt_seconds(tokens=served.effective_context, weights=weights_per_token(served.model)) / part


def slow_copies(served: ServedModel, pool: GpuPool) -> Gpu | None:
    """A GPU of the pool that reads a conversation faster than its node copies two, when one returns.

    The share of the memory stands for the share of the multiprocessors: the same with MPS, and nearly so with MIG.
    """
    for gpu in (kind.gpu for kind in pool.known_types):
        parts = [(shares.memory_mib or gpu.cuda_mib) / gpu.cuda_mib for shares in pool.sharing.offers(gpu)]
        reads = read_seconds(served, gpu, min(parts, default=1.0))
        if reads is not None and reads < copies_seconds(served):
            return gpu
    return None
