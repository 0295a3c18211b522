# SPDX-License-Identifier: Apache-2.0
"""Memory and streams of a GPU, of a driver in memory (tests/lib/fake_cuda)."""
from __future__ import annotations

import ctypes
import os
from pathlib import Path

from pool import MB

SIZE = 3 * MB
LIBRARY = str(Path(os.environ["TE_TESTS_DIR"]) / "fake_cuda.so")
NON_BLOCKING = 1


class Gpu:
    """Memory of cuda:0, whose context is this thread's."""

    def __init__(self) -> None:
        self.cuda = ctypes.CDLL(LIBRARY)
        self.cuda.fake_cuda_bytes.restype = ctypes.c_void_p
        self.cuda.fake_cuda_bytes.argtypes = [ctypes.c_uint64]
        self.context, address = ctypes.c_void_p(), ctypes.c_uint64()
        self.call("cuInit", 0)
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(self.context), 0)
        self.call("cuCtxPushCurrent_v2", self.context)
        self.call("cuMemAlloc_v2", ctypes.byref(address), ctypes.c_size_t(SIZE))
        self.address = address.value

    def call(self, name: str, *args: object) -> None:
        assert getattr(self.cuda, name)(*args) == 0

    def set(self, value: bytes) -> None:
        ctypes.memmove(self.cuda.fake_cuda_bytes(self.address), value, len(value))

    def get(self, length: int) -> bytes:
        return ctypes.string_at(self.cuda.fake_cuda_bytes(self.address), length)

    def close(self) -> None:
        self.call("cuMemFree_v2", ctypes.c_uint64(self.address))
        self.call("cuCtxPopCurrent_v2", ctypes.byref(self.context))
        self.call("cuDevicePrimaryCtxRelease_v2", 0)


class Stream:
    """A stream of the GPU's context, or with a number a default one."""

    def __init__(self, gpu: Gpu, number: int | None = None) -> None:
        self.gpu, self.number = gpu, number
        if number is None:
            handle = ctypes.c_void_p()
            gpu.call("cuStreamCreate", ctypes.byref(handle), NON_BLOCKING)
            self.number = handle.value
        self.handle = ctypes.c_void_p(self.number)

    def copy_in(self, value: ctypes.Array, offset: int = 0) -> None:
        """Copy to the GPU; the value must stay until then."""
        self.gpu.call("cuMemcpyHtoDAsync_v2",
                      ctypes.c_uint64(self.gpu.address + offset), value,
                      ctypes.c_size_t(len(value)), self.handle)

    def copy_out(self, to: ctypes.Array, offset: int = 0) -> None:
        self.gpu.call("cuMemcpyDtoHAsync_v2", to,
                      ctypes.c_uint64(self.gpu.address + offset),
                      ctypes.c_size_t(len(to)), self.handle)

    def capture(self, on: bool) -> None:
        self.gpu.cuda.fake_cuda_capture(self.handle, ctypes.c_bool(on))

    def synchronize(self) -> None:
        self.gpu.call("cuStreamSynchronize", self.handle)

    def close(self) -> None:
        self.synchronize()
        self.gpu.call("cuStreamDestroy_v2", self.handle)


class Word:
    """A word that a stream is made to wait for."""

    def __init__(self, gpu: Gpu) -> None:
        self.gpu, self.at = gpu, ctypes.c_void_p()
        gpu.call("cuMemHostAlloc", ctypes.byref(self.at), ctypes.c_size_t(4096), 1)

    def stop(self, stream: Stream) -> None:
        self.gpu.call("cuStreamWaitValue64_v2", stream.handle,
                      ctypes.c_uint64(self.at.value), ctypes.c_uint64(1), 0)

    def go_on(self) -> None:
        ctypes.c_uint64.from_address(self.at.value).value = 1

    def close(self) -> None:
        self.gpu.call("cuMemFreeHost", self.at)
