"""A fake of NVIDIA's driver in this process, for pods of a share proof. `libcuda.c` is the same for real processes."""

from collections.abc import Mapping
from typing import Any

MIB = 2**20
NAMES = {
    2: b"CUDA_ERROR_OUT_OF_MEMORY",
    46: b"CUDA_ERROR_DEVICE_UNAVAILABLE",
    100: b"CUDA_ERROR_NO_DEVICE",
    101: b"CUDA_ERROR_INVALID_DEVICE",
    805: b"CUDA_ERROR_MPS_CONNECTION_FAILED",
}
"""Codes and names of cuda.h."""
DEVICE, CONTEXT, INVALID = 7, 5, 101
NO_CONTEXT = 201
"""CUDA_ERROR_INVALID_CONTEXT, "most frequently" for a thread without a current context (cuda.h)."""


class FakeDriver:
    """The functions that a share proof calls, as ctypes would. `fake` sets what differs from a T4 of its own."""

    def __init__(self, fake: Mapping[str, str]) -> None:
        self._fake = fake
        self._sizes: dict[int, int] = {}
        self._has_context = False
        self.name = b"Tesla T4"
        self.ledger: list[int] = []
        """MiB that were allocated and, below 0, freed."""

    def _number(self, name: str, otherwise: int) -> int:
        return int(self._fake.get(f"FAKE_{name}", otherwise))

    def cuInit(self, flags: int) -> int:
        return self._number("INIT", 0) if flags == 0 else 1

    def cuDeviceGetCount(self, found: Any) -> int:
        found._obj.value = self._number("COUNT", 1)
        return 0

    def cuDeviceGet(self, device: Any, ordinal: int) -> int:
        device._obj.value = DEVICE
        return 0 if ordinal == 0 < self._number("COUNT", 1) else INVALID

    def cuDevicePrimaryCtxRetain(self, context: Any, device: Any) -> int:
        context._obj.value = CONTEXT
        return self._number("CONTEXT", 0) if device.value == DEVICE else INVALID

    def cuCtxSetCurrent(self, context: Any) -> int:
        self._has_context = context.value == CONTEXT
        return 0 if self._has_context else 1

    def cuDeviceGetName(self, name: Any, size: int, device: Any) -> int:
        name.value = self.name[: size - 1]
        return 0 if device.value == DEVICE else INVALID

    def cuDeviceGetUuid_v2(self, id: Any, device: Any) -> int:
        id[:] = [self._number("GPU", 0xAA)] * 16
        return 0 if device.value == DEVICE else INVALID

    def cuDeviceTotalMem_v2(self, size: Any, device: Any) -> int:
        size._obj.value = self._number("MIB", 15110) * MIB
        return 0 if device.value == DEVICE else INVALID

    def cuMemGetInfo_v2(self, free: Any, total: Any) -> int:
        total._obj.value = self._number("INFO_MIB", self._number("MIB", 15110)) * MIB
        free._obj.value = total._obj.value - sum(self._sizes.values())
        return 0 if self._has_context else NO_CONTEXT

    def cuMemAlloc_v2(self, pointer: Any, size: Any) -> int:
        if refusal := self._number("REFUSAL", 0 if self._has_context else NO_CONTEXT):
            return refusal
        if sum(self._sizes.values()) + size.value > self._number("LIMIT_MIB", 15110) * MIB:
            return 2
        pointer._obj.value = len(self.ledger) + 1
        self._sizes[pointer._obj.value] = size.value
        self.ledger.append(size.value // MIB)
        return 0

    def cuMemFree_v2(self, pointer: Any) -> int:
        self.ledger.append(-self._sizes.pop(pointer.value) // MIB)
        return 0

    def cuGetErrorName(self, code: int, text: Any) -> int:
        text._obj.value = NAMES.get(code)
        return 0 if code in NAMES else 1


class OldDriver:
    """A driver without any of these functions."""
