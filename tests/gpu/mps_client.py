"""One process that uses the GPU as a client of MPS, and says what it gets. It runs alone, as a model's engine does.

`Client` starts it: CUDA reads the variables of MPS when a process starts. It answers each line of its input with one
line of JSON. With the argument `watch`, it says ten times a second how much memory is free for it, until a call fails.
"""

import ctypes
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from components.share_proof.in_pod.cuda import MIB, CudaError, Share
else:
    # The prober's own calls. Its package would import Pulumi, and this tier needs no package.
    sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "components" / "share_proof"))
    from in_pod.cuda import MIB, CudaError, Share

WAYS = ("cuMemAlloc", "cuMemCreate")
"""How programs allocate. The pool of llama.cpp's CUDA backend uses the second one (ggml-cuda.cu, pool_vmm)."""
SIZES_MIB = (512, 64, 2)
"""Sizes of the allocations, until the driver refuses the smallest. 2 MiB is the granularity of `cuMemCreate`."""
MULTIPROCESSORS = 16
"""CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, and below CU_MEM_ALLOCATION_TYPE_PINNED and CU_MEM_LOCATION_TYPE_DEVICE.
Source: cuda.h of CUDA 13.0."""
PINNED, ON_DEVICE = 1, 1
SECONDS = 60
ENDED = "the process ended with"


class Properties(ctypes.Structure):
    """`CUmemAllocationProp` of cuda.h; everything that is not set here is 0."""

    _fields_ = (
        ("type", ctypes.c_int),
        ("requestedHandleTypes", ctypes.c_int),
        ("location_type", ctypes.c_int),
        ("location_id", ctypes.c_int),
        ("win32HandleMetaData", ctypes.c_void_p),
        ("allocFlags", ctypes.c_ubyte * 8),
    )


class Allocator(Share):
    """A context that allocates in both ways until the driver refuses."""

    def __init__(self) -> None:
        super().__init__()
        self._made: list[ctypes.c_uint64] = []

    def multiprocessors(self) -> int:
        """Those that the process may use."""
        found = ctypes.c_int()
        self._call("cuDeviceGetAttribute", ctypes.byref(found), MULTIPROCESSORS, self._device)
        return found.value

    def fill(self, way: str) -> dict[str, Any]:
        """Allocates all memory that it gets, and keeps it. Returns how much that is, and the driver's refusal."""
        make = self.allocate if way == WAYS[0] else self._create
        allocated, refused = 0, None
        for size in SIZES_MIB:
            while (refused := make(size)) is None:
                allocated += size
        return {"allocated_mib": allocated, "refused": refused}

    def free(self) -> None:
        super().free()
        while self._made:
            self._call("cuMemRelease", self._made.pop())

    def _create(self, mib: int) -> str | None:
        """As `allocate`. Memory counts as taken even if no address leads to it."""
        handle = ctypes.c_uint64()
        wanted = Properties(type=PINNED, location_type=ON_DEVICE, location_id=self._device.value)
        code = self._driver.cuMemCreate(
            ctypes.byref(handle), ctypes.c_size_t(mib * MIB), ctypes.byref(wanted), ctypes.c_ulonglong(0)
        )
        if code:
            return self._name(code)
        self._made.append(handle)
        return None


@dataclass(frozen=True)
class Client:
    """The process, seen from the one that starts it."""

    process: "subprocess.Popen[str]"

    def ask(self, question: str) -> dict[str, Any]:
        """The answer; it has `error` where a call of the driver failed, or the process ended."""
        assert self.process.stdin
        assert self.process.stdout
        with suppress(OSError):
            self.process.stdin.write(question + "\n")
            self.process.stdin.flush()
        if line := self.process.stdout.readline():
            answer: dict[str, Any] = json.loads(line)
            return answer
        assert self.process.stderr
        said = self.process.stderr.read().strip()[-300:]
        return {"error": f"{ENDED} {self.process.wait(SECONDS)}: {said}"}


def command(*arguments: str) -> Sequence[str]:
    """How to start it."""
    return (sys.executable, "-B", "-P", str(Path(__file__).resolve()), *arguments)


@contextmanager
def client(environment: Mapping[str, str], *before: str) -> Iterator[Client]:
    """A process with these variables, until the block ends; `before` is a program that starts it."""
    process = subprocess.Popen(
        [*before, *command()],
        env={**os.environ, **environment},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        yield Client(process)
    finally:
        # It ends by itself: MPS does not like clients that are killed (docs.nvidia.com/deploy/mps, client termination).
        assert process.stdin
        with suppress(OSError):
            process.stdin.close()
        try:
            process.wait(SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def main(arguments: Sequence[str]) -> None:
    """Answers questions, or watches."""
    if "watch" in arguments:
        watch()
    share: Allocator | None = None
    for line in sys.stdin:
        question, _, way = line.strip().partition(" ")
        try:
            share = share or Allocator()
            if question == "fill":
                answer = share.fill(way)
            elif question == "free":
                share.free()
                answer = {}
            else:
                sight = share.look()
                answer = {"free_mib": sight.info_free_mib, "total_mib": sight.info_total_mib}
                answer["multiprocessors"] = share.multiprocessors()
        except CudaError as error:
            answer = {"error": str(error)}
        print(json.dumps(answer), flush=True)


def watch() -> None:
    """Runs until it is killed. After a failed call, it says nothing more: it stays, as an engine without requests."""
    try:
        share = Share()
        while True:
            print(share.look().info_free_mib, flush=True)
            time.sleep(0.1)
    except CudaError as error:
        print(error, flush=True)
    time.sleep(600)


if __name__ == "__main__":
    main(sys.argv[1:])
