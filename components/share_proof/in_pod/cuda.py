"""Access to a pod's GPU or GPU share through the driver's library, without the CUDA toolkit and without compiling.

It runs in the cluster with `shares` and uses only Python's standard library.
"""

import ctypes
import uuid
from dataclasses import dataclass
from typing import Any

LIBRARY = "libcuda.so.1"
"""The driver's library, which NVIDIA's container runtime mounts."""
FULL = "CUDA_ERROR_OUT_OF_MEMORY"
MIB = 2**20


@dataclass(frozen=True)
class Sight:
    """A pod's view of its device, with memory in MiB."""

    devices: int
    """Number of visible devices. The other fields describe the first one."""
    name: str
    uuid: str
    """UUID of the GPU or the MIG slice."""
    total_mib: int
    """Total memory by the device's properties."""
    info_total_mib: int
    """Total memory by `cuMemGetInfo`, which llama.cpp uses."""
    info_free_mib: int


class CudaError(Exception):
    """A call of the driver failed. The message has the function and the driver's name of the error."""


class Share:
    """The pod's only device, with a context that is held until the process ends. Raises `CudaError`."""

    def __init__(self) -> None:
        try:
            self._driver = ctypes.CDLL(LIBRARY)
        except OSError as error:
            raise CudaError(f"cannot load {LIBRARY}: {error}") from None
        count, self._device, context = ctypes.c_int(), ctypes.c_int(), ctypes.c_void_p()
        self._held: list[ctypes.c_uint64] = []
        self._call("cuInit", 0)
        self._call("cuDeviceGetCount", ctypes.byref(count))
        self._count = count.value
        self._call("cuDeviceGet", ctypes.byref(self._device), 0)
        # The primary context, which CUDA's runtime (and therefore Ollama) also uses.
        self._call("cuDevicePrimaryCtxRetain", ctypes.byref(context), self._device)
        self._call("cuCtxSetCurrent", context)

    def look(self) -> Sight:
        """Reads the device's current state."""
        name, id = ctypes.create_string_buffer(256), (ctypes.c_ubyte * 16)()
        total, free, info_total = ctypes.c_size_t(), ctypes.c_size_t(), ctypes.c_size_t()
        self._call("cuDeviceGetName", name, len(name), self._device)
        self._call("cuDeviceGetUuid_v2", id, self._device)
        self._call("cuDeviceTotalMem_v2", ctypes.byref(total), self._device)
        self._call("cuMemGetInfo_v2", ctypes.byref(free), ctypes.byref(info_total))
        return Sight(
            devices=self._count,
            name=name.value.decode(errors="replace"),
            uuid=str(uuid.UUID(bytes=bytes(id))),
            total_mib=total.value // MIB,
            info_total_mib=info_total.value // MIB,
            info_free_mib=free.value // MIB,
        )

    def allocate(self, mib: int) -> str | None:
        """Allocates memory. Returns None, or the driver's name of the error if it refuses."""
        pointer = ctypes.c_uint64()
        code = self._driver.cuMemAlloc_v2(ctypes.byref(pointer), ctypes.c_size_t(mib * MIB))
        if code:
            return self._name(code)
        self._held.append(pointer)
        return None

    def free(self) -> None:
        """Frees all allocated memory."""
        while self._held:
            self._call("cuMemFree_v2", self._held.pop())

    def _call(self, function: str, *arguments: Any) -> None:
        try:
            code = getattr(self._driver, function)(*arguments)
        except AttributeError:
            raise CudaError(f"{LIBRARY} is too old: it has no {function}") from None
        if code:
            raise CudaError(f"{function}: {self._name(code)}")

    def _name(self, code: int) -> str:
        text = ctypes.c_char_p()
        if self._driver.cuGetErrorName(code, ctypes.byref(text)) or not text.value:
            return f"CUDA error {code}"
        return text.value.decode()
