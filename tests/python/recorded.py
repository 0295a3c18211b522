# SPDX-License-Identifier: Apache-2.0
"""Stores of this process, and pools, that write down how they are called."""
from __future__ import annotations

import ctypes
from typing import Any


class PlainStore:
    """What every store has. fail, codes: what methods raise and return."""

    def __init__(self) -> None:
        self.values: dict[str, bytes] = {}
        self.calls: list[tuple[Any, ...]] = []
        self.fail: dict[str, Exception] = {}
        self.codes: dict[str, int] = {}

    def note(self, name: str, *args: Any) -> int:
        """The code that a test wants of this method."""
        self.calls.append((name, *args))
        if name in self.fail:
            raise self.fail[name]
        return self.codes.get(name, 0)

    def names(self) -> list[str]:
        return [call[0] for call in self.calls]

    def put(self, key: str, value: Any, **options: Any) -> int:
        code = self.note("put", key, options)
        if not code:
            self.values[key] = bytes(value)
        return code

    def get(self, key: str) -> bytes:
        self.note("get", key)
        return self.values.get(key, b"")

    def remove(self, key: str, force: bool = False) -> int:
        code = self.note("remove", key, force)
        if not code and self.values.pop(key, None) is None:
            return -704
        return code


class FastStore(PlainStore):
    """A store with what is fast, too."""

    def register_buffer(self, ptr: int, size: int) -> int:
        return self.note("register_buffer", ptr, size)

    def unregister_buffer(self, ptr: int) -> int:
        return self.note("unregister_buffer", ptr)

    def batch_put_from(self, keys: list[str], ptrs: list[int], sizes: list[int],
                       **options: Any) -> list[int]:
        code = self.note("batch_put_from", keys, sizes, options)
        for key, ptr, size in zip(keys, ptrs, sizes):
            self.values[key] = ctypes.string_at(ptr, size)
        return [code] * len(keys)

    def put_from(self, key: str, ptr: int, size: int, **options: Any) -> int:
        code = self.note("put_from", key, ptr, size, options)
        self.values[key] = ctypes.string_at(ptr, size)
        return code

    def batch_get_into(self, keys: list[str], ptrs: list[int],
                       sizes: list[int]) -> list[int]:
        code = self.note("batch_get_into", keys, sizes)
        for key, ptr, size in zip(keys, ptrs, sizes):
            ctypes.memmove(ptr, self.values.get(key, b"").ljust(size), size)
        return [code or (size if key in self.values else -704)
                for key, size in zip(keys, sizes)]

    def get_into(self, key: str, ptr: int, size: int) -> int:
        code = self.note("get_into", key, size)
        ctypes.memmove(ptr, self.values[key], size)
        return code or size

    def get_into_ranges(self, ptrs: list[int], keys: list, dsts: list, srcs: list,
                        sizes: list) -> list:
        code = self.note("get_into_ranges", len(ptrs), keys, dsts, srcs, sizes)
        for ptr, *buffer in zip(ptrs, keys, dsts, srcs, sizes):
            for key, *parts in zip(*buffer):
                for dst, src, size in zip(*parts):
                    ctypes.memmove(ptr + dst, self.values[key][src:src + size],
                                   size)
        return [[[code or size for size in part] for part in buffer]
                for buffer in sizes]

    def batch_remove(self, keys: list[str], force: bool = False) -> list[int]:
        code = self.note("batch_remove", keys, force)
        if code:
            return [code] * len(keys)
        return [0 if self.values.pop(key, None) is not None else -704
                for key in keys]


class Lease:
    def __init__(self, pool: Pool, size: int) -> None:
        self.pool, self.memory = pool, (ctypes.c_char * max(size, 1))()
        self.ptr = ctypes.addressof(self.memory)
        self.size = size

    @property
    def buffer(self) -> memoryview:
        return memoryview(self.memory).cast("B")[:self.size]

    def release(self) -> None:
        self.pool.released += 1


class Pool:
    """Leases of any size. sizes: those that were acquired."""

    def __init__(self) -> None:
        self.sizes: list[int] = []
        self.released = 0
        self.fail: Exception | None = None

    def acquire(self, size: int) -> Lease:
        self.sizes.append(size)
        if self.fail is not None:
            raise self.fail
        return Lease(self, size)
