# SPDX-License-Identifier: Apache-2.0
"""Memory of a GPU for tests that else have the host's: TE_TEST_MEMORY=cuda:0.

By the driver that TE_CUDA_LIBRARY names, or else by one in memory, whose addresses no
processor can touch (tests/lib/fake_cuda). What is written and compared goes by copies
of that driver.
"""
from __future__ import annotations

import ctypes
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

PLACE = os.environ.get("TE_TEST_MEMORY", "")
NON_BLOCKING, PINNED, ON_DEVICE, READ_WRITE = 1, 1, 1, 3
BY_DESCRIPTORS = 1


class Kind(ctypes.Structure):
    """CUmemAllocationProp."""

    _fields_ = [("type", ctypes.c_int), ("handle_types", ctypes.c_int),
                ("place_type", ctypes.c_int), ("place", ctypes.c_int),
                ("security", ctypes.c_void_p), ("flags", ctypes.c_ubyte * 8)]


class Access(ctypes.Structure):
    """CUmemAccessDesc."""

    _fields_ = [("place_type", ctypes.c_int), ("place", ctypes.c_int),
                ("flags", ctypes.c_int)]


class Gpu:
    """One GPU; its context lives as long as the process."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.cuda = ctypes.CDLL(os.environ["TE_CUDA_LIBRARY"])
        self.lock = threading.Lock()
        self.context, self.stream = ctypes.c_void_p(), ctypes.c_void_p()
        self.call("cuInit", 0)
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(self.context), number)
        with self.entered():
            self.call("cuStreamCreate", ctypes.byref(self.stream), NON_BLOCKING)

    def call(self, name: str, *args: object) -> None:
        """Numbers of C are given as such; Python's own are ints of C."""
        error = getattr(self.cuda, name)(*args)
        if error:
            raise MemoryError(f"{name}: error {error}")

    @contextmanager
    def entered(self) -> Iterator[None]:
        """The context is this thread's, and the stream nobody else's."""
        out = ctypes.c_void_p()
        with self.lock:
            self.call("cuCtxPushCurrent_v2", self.context)
            try:
                yield
            finally:
                self.call("cuCtxPopCurrent_v2", ctypes.byref(out))

    def allocate(self, size: int) -> int:
        at = ctypes.c_uint64()
        with self.entered():
            self.call("cuMemAlloc_v2", ctypes.byref(at), ctypes.c_size_t(size))
        return at.value

    def free(self, at: int) -> None:
        with self.entered():
            self.call("cuMemFree_v2", ctypes.c_uint64(at))

    def map_at(self, address: int, size: int) -> None:
        """One chunk at an address that was chosen; peers may import it."""
        at, handle = ctypes.c_uint64(), ctypes.c_uint64()
        length, none = ctypes.c_size_t(size), ctypes.c_uint64(0)
        kind = Kind(type=PINNED, handle_types=BY_DESCRIPTORS,
                    place_type=ON_DEVICE, place=self.number)
        access = Access(ON_DEVICE, self.number, READ_WRITE)
        with self.entered():
            self.call("cuMemAddressReserve", ctypes.byref(at), length,
                      ctypes.c_size_t(0), ctypes.c_uint64(address), none)
            assert at.value == address
            self.call("cuMemCreate", ctypes.byref(handle), length,
                      ctypes.byref(kind), none)
            self.call("cuMemMap", at, length, ctypes.c_size_t(0), handle, none)
            self.call("cuMemSetAccess", at, length, ctypes.byref(access),
                      ctypes.c_size_t(1))

    def copy(self, name: str, to: object, of: object, size: int) -> None:
        with self.entered():
            self.call(name, to, of, ctypes.c_size_t(size), self.stream)
            self.call("cuStreamSynchronize", self.stream)

    def write(self, at: int, data: bytes) -> None:
        if data:
            self.copy("cuMemcpyHtoDAsync_v2", ctypes.c_uint64(at),
                      ctypes.c_char_p(data), len(data))

    def read(self, at: int, size: int) -> bytes:
        data = ctypes.create_string_buffer(max(size, 1))
        if size:
            self.copy("cuMemcpyDtoHAsync_v2", data, ctypes.c_uint64(at), size)
        return data.raw[:size]


class Host:
    """The same for memory that a processor reaches."""

    @staticmethod
    def write(at: int, data: bytes) -> None:
        ctypes.memmove(at, data, len(data))

    @staticmethod
    def read(at: int, size: int) -> bytes:
        return ctypes.string_at(at, size)


def open_place() -> Gpu | None:
    """What TE_TEST_MEMORY names; engines of this process are told the driver."""
    if not PLACE.startswith("cuda:"):
        return None
    os.environ.setdefault("TE_CUDA_LIBRARY", str(
        Path(os.environ["TE_TESTS_DIR"]) / "fake_cuda.so"))
    return Gpu(int(PLACE[5:]))


GPU = open_place()
MEMORY = GPU or Host
write: Callable[[int, bytes], None] = MEMORY.write
read: Callable[[int, int], bytes] = MEMORY.read
