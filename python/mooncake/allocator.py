# SPDX-License-Identifier: Apache-2.0
"""Allocators of GPUs' memory for torch: pools of memory that others can be given.

    pool = torch.cuda.MemPool(NVLinkAllocator.get_allocator(device).allocator())

Its memory is the driver's cuMemCreate(), which can be exported to other processes of
the host and to NICs. torch is imported when an allocator is asked for.
"""
from __future__ import annotations

import ctypes
import errno
import threading
from enum import IntEnum
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    import torch
    from torch.cuda.memory import CUDAPluggableAllocator

LIBRARY = Path(__file__).parent / "lib" / "nvlink_allocator.so"


class MemoryBackend(IntEnum):
    """Where memory comes from."""

    USE_CUDAMALLOC = 0
    USE_CUMEMCREATE = 1
    UNKNOWN = -1
    UNSUPPORTED = -2


class NVLinkAllocator:
    """Memory of GPUs that processes of one host can share."""

    _made: ClassVar[dict[str, CUDAPluggableAllocator]] = {}
    _lock: ClassVar[threading.Lock] = threading.Lock()

    @classmethod
    def detect_mem_backend(cls) -> MemoryBackend:
        """By what the first GPU of the process can do; starts the driver, no context.

        UNSUPPORTED: there is no GPU. USE_CUDAMALLOC: one without cuMemCreate().
        """
        rc = ctypes.CDLL(str(LIBRARY)).mc_nvlink_probe(0)
        if rc == 0:
            return MemoryBackend.USE_CUMEMCREATE
        return (MemoryBackend.USE_CUDAMALLOC if rc == -errno.EOPNOTSUPP
                else MemoryBackend.UNSUPPORTED)

    @classmethod
    def get_allocator(cls, device: torch.device | str | int) -> CUDAPluggableAllocator:
        """The same one for each device. ImportError: torch is not here."""
        from mooncake._needs import torch

        with cls._lock:
            if str(device) not in cls._made:
                cls._made[str(device)] = torch.cuda.memory.CUDAPluggableAllocator(
                    str(LIBRARY), "mc_nvlink_malloc", "mc_nvlink_free")
            return cls._made[str(device)]


class BarexAllocator:
    """Known, so that it can be imported: memory of one vendor's NICs is not here."""

    @classmethod
    def get_allocator(cls, device: torch.device | str | int) -> CUDAPluggableAllocator:
        """Always an ImportError."""
        raise ImportError(
            f"no memory for {device} from libaccl_barex.so, which is not supported: "
            "use NVLinkAllocator, or no memory pool of its own")
