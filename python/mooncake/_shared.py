# SPDX-License-Identifier: Apache-2.0
"""SharedSegment of mooncake.engine: memory that several GPUs share.

There is none here. The class is, so that callers can ask.
"""
from __future__ import annotations


class SharedSegment:
    """Memory that several GPUs share: supported() says whether there is any."""

    def __init__(self) -> None:
        raise TypeError("SharedSegment: made by create()")

    @staticmethod
    def supported(mmap: bool = True, host_register: bool = False) -> bool:
        """No memory of several GPUs is supported here."""
        return False

    @staticmethod
    def create(name: str, size: int, world_size: int, rank_id: int,
               owner_rank: int = 0, device_id: int = 0, mmap: bool = True,
               host_register: bool = False) -> tuple[SharedSegment, bytes]:
        """RuntimeError."""
        raise RuntimeError(
            f"SharedSegment.create: {name}: memory of several GPUs is not "
            "supported here")
