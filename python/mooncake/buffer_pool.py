# SPDX-License-Identifier: Apache-2.0
"""Registered memory that is used again and again.

A pool registers regions with its store and cuts each of them into pieces of one
size, a power of two. Who acquires one has a lease of it, until release() or the
end of its with statement. Memory that somebody can still see is never handed to
anybody else: a piece goes back when neither its lease nor a view of it is left.
"""
from __future__ import annotations

import collections
import ctypes
import threading
import time
import weakref
from collections.abc import Callable
from types import TracebackType

from mooncake.store import MooncakeDistributedStore, MooncakeHostMemAllocator


class _Piece:
    """Memory of a lease and of the views of it; goes back with the last of them."""

    def __init__(self, pool: BufferPool, ptr: int, size_class: int) -> None:
        self.pool = pool
        self.ptr = ptr
        self.size_class = size_class

    def __del__(self) -> None:
        self.pool._take_back(self.ptr, self.size_class)


class BufferLease:
    """A piece of a pool's: ptr is its address, size what was asked for."""

    def __init__(self, piece: _Piece, size: int) -> None:
        self._piece: _Piece | None = piece
        # What views are of: it lives as long as one of them.
        self._seen: Callable[[], ctypes.Array[ctypes.c_char] | None] = _nothing
        self.size = size

    def _open(self) -> _Piece:
        if self._piece is None:
            raise RuntimeError("the lease is closed: it has been released")
        return self._piece

    @property
    def ptr(self) -> int:
        return self._open().ptr

    @property
    def buffer(self) -> memoryview:
        """Its bytes, to read and write until release()."""
        piece = self._open()
        memory = self._seen()
        if memory is None:
            memory = (ctypes.c_char * self.size).from_address(piece.ptr)
            memory.piece = piece  # type: ignore[attr-defined]
            self._seen = weakref.ref(memory)
        return memoryview(memory).cast("B")

    def release(self) -> None:
        """Give it back; once more does nothing.

        RuntimeError: there are views of it, in which its next user's bytes would
        show. The lease goes on.
        """
        if self._piece is not None and self._seen() is not None:
            raise RuntimeError("the lease has exported views: release them, or "
                               "delete what was made of its buffer, first")
        self._piece = None

    def __enter__(self) -> BufferLease:
        return self

    def __exit__(self, kind: type[BaseException] | None,
                 error: BaseException | None,
                 trace: TracebackType | None) -> None:
        if kind is None:
            self.release()
        else:  # what was raised may hold views: the memory waits for them
            self._piece = None


def _nothing() -> None:
    """Stands for a weak reference to what has gone."""


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
        self._lock = threading.Lock()
        # All of these are guarded by it.
        self._waiters: tuple[threading.Lock, ...] = ()  # set as a whole
        self._free: dict[int, list[int]] = {}
        self._regions: list[tuple[int, int]] = []  # allocated, registered
        self._bytes = self._leases = 0
        self._closed = False
        # Not guarded: the collector may find a lost lease while this thread has
        # the lock.
        self._returned: collections.deque[tuple[int, int]] = collections.deque()
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
        turn = threading.Lock()  # free once something has come back
        turn.acquire()
        try:
            while True:
                lease = self._lease(size, size_class, blocks, turn)
                if lease is not None:
                    return lease
                left = -1.0 if deadline is None else max(
                    0.0, deadline - time.monotonic())
                if not turn.acquire(timeout=left):
                    raise TimeoutError(f"no {size_class} bytes came back")
        finally:
            with self._lock:
                self._waiters = tuple(
                    one for one in self._waiters if one is not turn)

    def _lease(self, size: int, size_class: int, blocks: bool,
               turn: threading.Lock) -> BufferLease | None:
        """None: nothing is free, and turn is released when something may be."""
        with self._lock:
            if self._closed:
                raise RuntimeError("the pool is closed")
            if turn not in self._waiters:  # before looking: nothing is missed
                self._waiters += (turn,)
            self._collect()
            if self._free.get(size_class) or self._grow(size_class):
                self._leases += 1
                return BufferLease(
                    _Piece(self, self._free[size_class].pop(), size_class), size)
            if not blocks or not self._leases:
                raise MemoryError(f"no {size_class} bytes in the pool")
        return None

    buffer = acquire

    def prewarm(self, size: int, count: int = 1) -> int:
        """Have so many pieces of size at hand; returns how many there are."""
        size_class = self._class_of(size)
        with self._lock:
            self._collect()
            while (len(self._free.get(size_class, ())) < count
                   and self._grow(size_class)):
                pass
            return len(self._free.get(size_class, ()))

    def _take_back(self, ptr: int, size_class: int) -> None:
        """Runs without the lock, and wherever the last reference ends."""
        self._returned.append((ptr, size_class))
        self._signal()

    def _signal(self) -> None:
        for waiter in self._waiters:
            try:
                waiter.release()
            except RuntimeError:
                pass  # it has been told already

    def _collect(self) -> None:
        while self._returned:
            ptr, size_class = self._returned.popleft()
            self._leases -= 1
            self._free[size_class].append(ptr)

    def _give_up(self) -> None:
        for memory, begin in self._regions:
            self._store.unregister_buffer(begin)
            self._allocator.free(memory)
        self._regions.clear()
        self._free.clear()
        self._bytes = 0

    def close(self) -> None:
        """No more leases, and the memory goes; once more does nothing.

        RuntimeError: there are leases, or views of some. The pool goes on.
        """
        with self._lock:
            self._collect()
            if self._leases:
                raise RuntimeError(f"the pool has active leases: {self._leases} "
                                   "of its pieces, or views of them, are in use")
            self._closed = True
            self._give_up()
        self._signal()

    def __del__(self) -> None:
        """Nobody has a piece of it any more, since those have the pool."""
        if getattr(self, "_regions", None):
            self._give_up()

    def __enter__(self) -> BufferPool:
        return self

    def __exit__(self, kind: type[BaseException] | None,
                 error: BaseException | None,
                 trace: TracebackType | None) -> None:
        if kind is None:
            self.close()
            return
        with self._lock:  # what was raised may hold leases: memory waits for them
            self._closed = True
        self._signal()


# Their older names.
RegisteredBufferLease = BufferLease
RegisteredBufferPool = BufferPool
