# SPDX-License-Identifier: Apache-2.0
"""Registered memory that is used again and again.

A pool registers regions with its store and cuts each of them into pieces of one
size, a power of two. Who acquires one has a lease of it, until release() or the
end of its with statement.
"""
from __future__ import annotations

import ctypes
import threading
import time
from types import TracebackType

from mooncake.store import MooncakeDistributedStore, MooncakeHostMemAllocator


class BufferLease:
    """A piece of a pool's: ptr is its address, size what was asked for."""

    def __init__(self, pool: BufferPool, ptr: int, size: int,
                 size_class: int) -> None:
        self._pool: BufferPool | None = pool
        self._class = size_class
        self.ptr = ptr
        self.size = size

    @property
    def buffer(self) -> memoryview:
        """Its bytes, to read and write until release()."""
        if self._pool is None:
            raise ValueError("the lease is over")
        return memoryview(
            (ctypes.c_char * self.size).from_address(self.ptr)).cast("B")

    def release(self) -> None:
        """Give it back; once more does nothing."""
        pool, self._pool = self._pool, None
        if pool is not None:
            pool._take_back(self.ptr, self._class)

    def __enter__(self) -> BufferLease:
        return self

    def __exit__(self, kind: type[BaseException] | None,
                 error: BaseException | None,
                 trace: TracebackType | None) -> None:
        self.release()


class BufferPool:
    """Pieces from min_size_class to max_size_class bytes.

    max_bytes and max_regions bound the memory (0 and None: nothing does).
    Regions are whole multiples of alignment, and begin at one. Any thread.
    """

    def __init__(self, store: MooncakeDistributedStore, max_bytes: int = 0,
                 min_size_class: int = 64 << 10,
                 max_size_class: int | None = None, alignment: int = 8 << 20,
                 block_on_exhaustion: bool = True,
                 default_timeout: float | None = None,
                 max_regions: int | None = None,
                 prewarm_size: int | None = None,
                 prewarm_count: int = 0) -> None:
        if not hasattr(store, "register_buffer"):
            raise TypeError("store must be a MooncakeDistributedStore, not "
                            f"{type(store)}")
        if max_bytes < 0 or (max_regions is not None and max_regions < 0):
            raise ValueError("max_bytes and max_regions must not be negative")
        if min_size_class <= 0 or alignment <= 0 or alignment & (alignment - 1):
            raise ValueError("min_size_class must be positive, and alignment a "
                             "power of two")
        self._store = store
        self._allocator = MooncakeHostMemAllocator()
        self._max_bytes, self._max_regions = max_bytes, max_regions
        self._min_class, self._max_class = min_size_class, max_size_class
        self._alignment = alignment
        self._blocks, self._timeout = block_on_exhaustion, default_timeout
        self._changed = threading.Condition()
        # All of these are guarded by it.
        self._free: dict[int, list[int]] = {}
        self._regions: list[tuple[int, int]] = []  # allocated, registered
        self._bytes = self._leases = 0
        self._closed = False
        if prewarm_size is not None and prewarm_count:
            self.prewarm(prewarm_size, prewarm_count)

    def _class_of(self, size: int) -> int:
        if size <= 0:
            raise ValueError("size must be positive")
        size_class = self._min_class
        while size_class < size:
            size_class *= 2
        if self._max_class is not None and size_class > self._max_class:
            raise ValueError(f"size {size} is more than the largest piece, "
                             f"{self._max_class}")
        return size_class

    def _grow(self, size_class: int) -> bool:
        """One more region; False: there is no room for one."""
        length = -(-size_class // self._alignment) * self._alignment
        if self._max_bytes and self._bytes + length > self._max_bytes:
            length = -(-size_class // 4096) * 4096  # a small pool: one piece
        full = self._max_bytes and self._bytes + length > self._max_bytes
        if full or (self._max_regions is not None
                    and len(self._regions) >= self._max_regions):
            return False
        memory = self._allocator.alloc(length + self._alignment)
        if not memory:
            return False
        begin = -(-memory // self._alignment) * self._alignment
        if self._store.register_buffer(begin, length) != 0:
            self._allocator.free(memory)
            return False
        self._regions.append((memory, begin))
        self._bytes += length
        self._free.setdefault(size_class, []).extend(
            begin + i * size_class for i in range(length // size_class))
        return True

    def acquire(self, size: int, block: bool | None = None,
                timeout: float | None = None) -> BufferLease:
        """Memory of at least size bytes.

        TimeoutError: none came back in timeout seconds (None: wait for ever);
        MemoryError: there is none, and it is not to wait.
        """
        size_class = self._class_of(size)
        blocks = self._blocks if block is None else block
        wait = self._timeout if timeout is None else timeout
        deadline = None if wait is None else time.monotonic() + wait
        with self._changed:
            while True:
                if self._closed:
                    raise RuntimeError("the pool is closed")
                if self._free.get(size_class) or self._grow(size_class):
                    break
                if not blocks or not self._leases:
                    raise MemoryError(f"no {size_class} bytes in the pool")
                left = (None if deadline is None
                        else deadline - time.monotonic())
                if left is not None and left <= 0:
                    raise TimeoutError(f"no {size_class} bytes came back")
                self._changed.wait(left)
            self._leases += 1
            return BufferLease(self, self._free[size_class].pop(), size,
                               size_class)

    buffer = acquire

    def prewarm(self, size: int, count: int = 1) -> int:
        """Have so many pieces of size at hand; returns how many there are."""
        size_class = self._class_of(size)
        with self._changed:
            while (len(self._free.get(size_class, ())) < count
                   and self._grow(size_class)):
                pass
            return len(self._free.get(size_class, ()))

    def _take_back(self, ptr: int, size_class: int) -> None:
        with self._changed:
            self._leases -= 1
            self._free[size_class].append(ptr)
            if self._closed and not self._leases:
                self._give_up()
            self._changed.notify_all()

    def _give_up(self) -> None:
        for memory, begin in self._regions:
            self._store.unregister_buffer(begin)
            self._allocator.free(memory)
        self._regions.clear()
        self._free.clear()
        self._bytes = 0

    def close(self) -> None:
        """No more leases; memory goes when the last of them is released."""
        with self._changed:
            if not self._closed:
                self._closed = True
                if not self._leases:
                    self._give_up()
            self._changed.notify_all()

    def __enter__(self) -> BufferPool:
        return self

    def __exit__(self, kind: type[BaseException] | None,
                 error: BaseException | None,
                 trace: TracebackType | None) -> None:
        self.close()


# Their older names.
RegisteredBufferLease = BufferLease
RegisteredBufferPool = BufferPool
