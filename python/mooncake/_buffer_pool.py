# SPDX-License-Identifier: Apache-2.0
"""Registered memory that is used again and again.

A pool registers regions with its store and cuts each of them into pieces of one
length. Who acquires one has a lease of it, until release() or the end of its
with statement. Memory that somebody can still see is never handed to anybody
else: a piece goes back when neither its lease nor a view of it is left.
"""
from __future__ import annotations

import collections
import ctypes
import functools
import operator
import threading
import time
import weakref
from collections.abc import Callable
from types import TracebackType
from typing import Any

from mooncake.store import MooncakeDistributedStore, MooncakeHostMemAllocator

PIECE_MIN = 64
REGION = 8 << 20  # registered at once; larger pieces are regions of their own
PAGE = 4096


class _Region:
    """Memory that is registered, cut into pieces of room bytes."""

    def __init__(self, memory: int, begin: int, length: int, room: int) -> None:
        self.memory = memory  # as it was allocated
        self.begin, self.length, self.room = begin, length, room
        self.used = 0  # how many of its pieces are


class _Piece:
    """Memory of a lease and of the views of it; goes back with the last of them."""

    def __init__(self, pool: BufferPool, region: _Region, ptr: int,
                 size: int) -> None:
        self.pool, self.region = pool, region
        self.ptr, self.size = ptr, size

    def __del__(self) -> None:
        self.pool._take_back(self.region, self.ptr, self.size)


class BufferLeaseView:
    """What memoryviews of a lease are of; it lives as long as one of them."""

    piece: _Piece


@functools.lru_cache(maxsize=64)
def _view_type(size: int) -> Any:
    return type("BufferLeaseView", (BufferLeaseView, ctypes.c_char * size), {})


class BufferLease:
    """A piece of a pool's: ptr is its address, size what was asked for."""

    def __init__(self, piece: _Piece) -> None:
        self._piece: _Piece | None = piece
        self._seen: Callable[[], Any] = _nothing
        self.size = piece.size

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
            # Views of nothing cannot be cast: they are of one byte.
            memory = _view_type(self.size or 1).from_address(piece.ptr)
            memory.piece = piece
            self._seen = weakref.ref(memory)
        return memoryview(memory).cast("B")[:self.size]

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


# ---- arguments: TypeError is for their types, RuntimeError for all else ----


def _size(value: Any, name: str) -> int:
    try:
        number = operator.index(value)
    except TypeError:
        raise TypeError(f"{name} must be an integer, not {type(value)}") from None
    if not 0 <= number < 1 << 64:
        raise TypeError(f"{name} must be 0 to 2^64 - 1, not {number}")
    return number


def _seconds(value: Any, name: str) -> float | None:
    if value is None:
        return None
    if isinstance(value, (int, float)) or hasattr(value, "__float__"):
        try:
            return float(value)
        except OverflowError:
            pass
    raise TypeError(f"{name} must be seconds or None, not {type(value)}")


def _flag(value: object, name: str) -> bool:
    if not isinstance(value, bool):
        raise TypeError(f"{name} must be a bool, not {type(value)}")
    return value


def _local_buffer_of(store: Any) -> int:
    """Bytes of the store's local buffer; 0: it has none."""
    ask = getattr(store, "_local_buffer_bytes", None)
    if store is not None and ask is None:
        raise RuntimeError("store must be a MooncakeDistributedStore, not "
                           f"{type(store)}")
    size: int | None = None if ask is None else ask()
    if size is None:
        raise RuntimeError("the store is not initialized: set it up first")
    return size


class BufferPool:
    """Pieces of any size, in memory that the store knows.

    Together leases have at most max_bytes, or what the store's local buffer has
    if that is more; 0 stands for twice the local buffer. At most max_regions
    are out at once. The memory that is registered for them is reused and may be
    up to twice as much, since pieces are cut from regions, which begin at
    multiples of alignment; min_size_class and prewarm() say what to cut, and
    max_size_class is not looked at. Any thread.
    """

    def __init__(self, store: MooncakeDistributedStore, max_bytes: int = 0,
                 min_size_class: int = 64 << 10,
                 max_size_class: int | None = None, alignment: int = 8 << 20,
                 block_on_exhaustion: bool = True,
                 default_timeout: float | None = None,
                 max_regions: int | None = None,
                 prewarm_size: int | None = None,
                 prewarm_count: int = 0) -> None:
        max_bytes = _size(max_bytes, "max_bytes")
        min_size_class = _size(min_size_class, "min_size_class")
        alignment = _size(alignment, "alignment")
        for value, name in ((max_size_class, "max_size_class"),
                            (max_regions, "max_regions"),
                            (prewarm_size, "prewarm_size")):
            if value is not None:
                _size(value, name)
        self._blocks = _flag(block_on_exhaustion, "block_on_exhaustion")
        self._timeout = _seconds(default_timeout, "default_timeout")
        prewarm_count = _size(prewarm_count, "prewarm_count")
        local_bytes = _local_buffer_of(store)
        if not min_size_class or not alignment:
            raise RuntimeError("min_size_class and alignment must be positive")
        if alignment < 8 or alignment & (alignment - 1):
            raise RuntimeError("alignment must be a power of two, and 8 at least, "
                               f"not {alignment}")
        if not local_bytes:
            raise RuntimeError("the store has no local buffer: "
                               "local_buffer_size was 0 when it was set up")
        self._store = store
        self._allocator = MooncakeHostMemAllocator()
        self._max_bytes = max(max_bytes, local_bytes) if max_bytes \
            else 2 * local_bytes
        self._max_leases = max_regions
        self._min_room = max(PIECE_MIN, min(min_size_class, REGION))
        self._alignment = alignment
        self._lock = threading.Lock()
        # All of these are guarded by it.
        self._waiters: tuple[threading.Lock, ...] = ()  # set as a whole
        self._free: dict[int, list[tuple[_Region, int]]] = {}  # by their room
        self._regions: list[_Region] = []
        self._bytes = 0  # of regions
        self._leases = self._leased = 0  # how many, and their bytes
        self._closed = False
        # Not guarded: the collector may find a lost lease while this thread has
        # the lock.
        self._returned: collections.deque[tuple[_Region, int, int]] = \
            collections.deque()
        if prewarm_size is not None and prewarm_count:
            self.prewarm(prewarm_size, prewarm_count)

    # ---- memory: with the lock ----

    def _room_for(self, size: int) -> int:
        """A power of two, or whole pages."""
        size = max(size, self._min_room)
        if size >= REGION:
            return -(-size // PAGE) * PAGE
        return 1 << (size - 1).bit_length()

    def _grow(self, room: int) -> None:
        """One more region. RuntimeError: it cannot be had."""
        length = max(room, REGION)
        if self._bytes + length > self._max_bytes:
            self._give_up(idle_only=True)
        if self._bytes + length > self._max_bytes:
            length = -(-room // PAGE) * PAGE
        memory = self._allocator.alloc(length + self._alignment) \
            if length + self._alignment < 1 << 63 else 0
        if not memory:
            raise RuntimeError("registration failed: there is no memory for "
                               f"{length} bytes at a multiple of "
                               f"{self._alignment}")
        begin = -(-memory // self._alignment) * self._alignment
        code = self._store.register_buffer(begin, length)
        if code != 0:
            self._allocator.free(memory)
            raise RuntimeError("registration failed: the store answers "
                               f"{code} for {length} bytes")
        region = _Region(memory, begin, length, room)
        self._regions.append(region)
        self._bytes += length
        self._free.setdefault(room, []).extend(
            (region, begin + i * room) for i in range(length // room))

    def _give_up(self, idle_only: bool = False) -> None:
        """Regions, or those of which nothing is in use."""
        kept = set()
        for region in self._regions:
            if idle_only and region.used:
                kept.add(region)
                continue
            self._store.unregister_buffer(region.begin)
            self._allocator.free(region.memory)
            self._bytes -= region.length
        self._regions = [one for one in self._regions if one in kept]
        self._free = {room: left for room, free in self._free.items()
                      if (left := [one for one in free if one[0] in kept])}

    def _collect(self) -> None:
        while self._returned:
            region, ptr, size = self._returned.popleft()
            self._leases -= 1
            self._leased -= size
            region.used -= 1
            self._free.setdefault(region.room, []).append((region, ptr))

    # ---- leases ----

    def acquire(self, size: int, block: bool | None = None,
                timeout: float | None = None) -> BufferLease:
        """Memory of size bytes.

        RuntimeError: it is more than the pool's capacity, the pool is exhausted
        and this is not to wait, or nothing came back in timeout seconds (None:
        wait for ever).
        """
        size = _size(size, "size")
        blocks = self._blocks if block is None else _flag(block, "block")
        wait = _seconds(timeout, "timeout")
        wait = self._timeout if wait is None else wait
        if wait is not None and not wait >= 0:
            raise RuntimeError(f"timeout must not be negative, but is {wait}")
        if size > self._max_bytes:
            raise RuntimeError(f"{size} bytes are more than the pool's capacity, "
                               f"{self._max_bytes}")
        deadline = None if wait is None else time.monotonic() + wait
        turn = threading.Lock()  # free once something has come back
        turn.acquire()
        try:
            while True:
                lease = self._lease(size, blocks, turn)
                if lease is not None:
                    return lease
                left = -1.0 if deadline is None else min(
                    max(0.0, deadline - time.monotonic()), threading.TIMEOUT_MAX)
                if not turn.acquire(timeout=left):
                    raise RuntimeError(f"timed out: {size} bytes did not come "
                                       f"back in {wait} s")
        finally:
            with self._lock:
                self._waiters = tuple(
                    one for one in self._waiters if one is not turn)

    def _lease(self, size: int, blocks: bool,
               turn: threading.Lock) -> BufferLease | None:
        """None: nothing is free, and turn is released when something may be."""
        taken = max(size, 1)
        with self._lock:
            if self._closed:
                raise RuntimeError("the pool is closed")
            if turn not in self._waiters:  # before looking: nothing is missed
                self._waiters += (turn,)
            self._collect()
            if (self._leased + taken <= self._max_bytes
                    and (self._max_leases is None
                         or self._leases < self._max_leases)):
                return BufferLease(self._cut(size, taken))
            if not blocks or not self._leases:
                raise RuntimeError(
                    f"the pool is exhausted: {size} bytes, beside {self._leased} "
                    f"of {self._leases} leases, are more than its "
                    f"{self._max_bytes}, or that many leases are all")
        return None

    def _cut(self, size: int, taken: int) -> _Piece:
        room = self._room_for(size)
        if not self._free.get(room):
            self._grow(room)
        region, ptr = self._free[room].pop()
        region.used += 1
        self._leases += 1
        self._leased += taken
        return _Piece(self, region, ptr, size)

    buffer = acquire

    def prewarm(self, size: int, count: int = 1) -> int:
        """Have so many pieces of size at hand, as far as they fit.

        Returns how many there are. What can be acquired is the same without it.
        """
        room = self._room_for(_size(size, "size"))
        wanted = min(_size(count, "count"), self._max_bytes // room)
        with self._lock:
            self._collect()
            while (not self._closed
                   and len(self._free.get(room, ())) < wanted
                   and self._bytes + room <= self._max_bytes):
                try:
                    self._grow(room)
                except RuntimeError:
                    break
            return len(self._free.get(room, ()))

    def _take_back(self, region: _Region, ptr: int, size: int) -> None:
        """Runs without the lock, and wherever the last reference ends."""
        self._returned.append((region, ptr, max(size, 1)))
        self._signal()

    def _signal(self) -> None:
        for waiter in self._waiters:
            try:
                waiter.release()
            except RuntimeError:
                pass  # it has been told already

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
RegisteredBufferLeaseView = BufferLeaseView
RegisteredBufferPool = BufferPool
