# SPDX-License-Identifier: Apache-2.0
"""Bytes of payloads to and from a store, as calls of its methods.

The store may be of any kind. What it can do is looked up once; each method that
writes takes the Put that it belongs to.

A MooncakeDistributedStore without a pool of the caller's is written from where
the bytes lie and read to where they are wanted: its memory needs no registering.
What a put writes to it waits and goes out together, because each call costs two
round trips to the master.
"""
from __future__ import annotations

import contextlib
import ctypes
import threading
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import numpy as np

from mooncake._structured.config import _config_for_grouped_keys
from mooncake._structured.facade import replaceable
from mooncake._structured.manifest import chunk_keys, payload_spec
from mooncake._structured.memory import allocate
from mooncake._structured.payloads import _DirectCopyPayload, _MultiBufferPayload
from mooncake._structured.values import BundleTransferPolicy

CHUNK_BYTES = 64 << 20
AUTO_PARALLEL_MIN_CHUNKS = 8
MISSING_OBJECT = -704
ALREADY_REGISTERED = -600
_GATHER_MAX = 64  # buffers of a chunk that are not joined first
_SHORT = 4096  # on average, buffers of which are joined by bytes.join()
_WAITING_MAX = 64 << 20  # bytes of a put that wait; they may be copies

Payload = memoryview | _MultiBufferPayload | _DirectCopyPayload
Piece = tuple[int, int, int]  # of a payload: from, bytes, and where to


def check_status(operation: str, key: str, status: Any) -> None:
    """RuntimeError: it is neither None nor 0."""
    if status is not None and status != 0:
        raise RuntimeError(f"{operation} failed for {key}: {status}")


def with_config(config: Any, n_keys: int) -> dict[str, Any]:
    """The keyword config of a write, which is left out where there is none."""
    if config is None:
        return {}
    return {"config": _config_for_grouped_keys(config, n_keys)}


def bytes_view(value: Any) -> memoryview:
    """Its bytes; a copy where they do not lie together. TypeError: it has none."""
    if (type(value) is memoryview and value.format == "B" and value.ndim == 1
            and value.c_contiguous):
        return value
    try:
        view = memoryview(value)
        if not view.c_contiguous:
            view = memoryview(view.tobytes())
        return view.cast("B") if view.nbytes else memoryview(b"")
    except (TypeError, ValueError, NotImplementedError):
        pass
    if isinstance(value, np.ndarray) and not value.dtype.hasobject:
        # Of a type that buffers have no format for, as datetime64.
        return memoryview(np.ascontiguousarray(value).reshape(-1).view(np.uint8))
    raise TypeError(f"must be bytes-like, not a {type(value).__name__}")


def address_of(view: memoryview) -> int:
    """Of bytes that may be read-only; 0: there are none."""
    return np.frombuffer(view, np.uint8).ctypes.data if view.nbytes else 0


# ---- chunks ----


def _cut(views: Sequence[memoryview], chunk: int) -> list[list[memoryview]]:
    """Buffers one behind the other as chunks, the last of which is shorter."""
    chunks: list[list[memoryview]] = []
    room = 0
    for view in views:
        at = 0
        if 0 < len(view) <= room:
            chunks[-1].append(view)
            at, room = len(view), room - len(view)
        while at < view.nbytes:
            if not room:
                chunks.append([])
                room = chunk
            size = min(room, view.nbytes - at)
            chunks[-1].append(view[at:at + size])
            at += size
            room -= size
    return chunks


def _runs_of_arrays(arrays: Sequence[np.ndarray],
                    chunk: int) -> list[tuple[int, int, int]]:
    """First array, how many and their bytes, of each chunk: whole arrays."""
    runs: list[tuple[int, int, int]] = []
    for i, array in enumerate(arrays):
        if runs and runs[-1][2] + array.nbytes <= chunk:
            first, n, size = runs[-1]
            runs[-1] = first, n + 1, size + array.nbytes
        else:
            runs.append((i, 1, array.nbytes))
    return runs


def _joined(views: Sequence[memoryview]) -> memoryview:
    """Buffers as one; its memory is NumPy's, whose pages are large ones."""
    if len(views) == 1:
        return views[0]
    size = sum(map(len, views))
    if size < _SHORT * len(views):  # that is quicker, and needs few pages
        return memoryview(b"".join(views))
    whole = np.empty(size, np.uint8)
    np.concatenate([np.frombuffer(view, np.uint8) for view in views
                    if view.nbytes] or [whole], out=whole)
    return memoryview(whole)


def in_threads(n_items: int, n_threads: int, put: Callable[[int], None]) -> None:
    """put() of each number; contiguous runs of them, a thread each.

    After a failure no other thread begins with a number; the first error is raised.
    """
    n_threads = min(n_threads, n_items)
    failed = threading.Event()

    def run(first: int, end: int) -> None:
        for i in range(first, end):
            if failed.is_set():
                return
            try:
                put(i)
            except BaseException:
                failed.set()
                raise

    with ThreadPoolExecutor(max_workers=n_threads) as threads:
        futures = [threads.submit(run, n_items * i // n_threads,
                                  n_items * (i + 1) // n_threads)
                   for i in range(n_threads)]
    for future in futures:
        future.result()


# ---- stores and pools ----


def is_real(store: Any) -> bool:
    """Whether it is the one of this package, which may not be there."""
    try:
        from mooncake.store import MooncakeDistributedStore
    except ImportError:
        return False
    return isinstance(store, MooncakeDistributedStore)


def _own_pool(store: Any) -> Any:
    """A pool of a store that says it is a real one; None: there is none."""
    try:
        if store._get_pyclient_capsule() is None:
            return None
        from mooncake.buffer_pool import BufferPool

        return BufferPool(store)
    except (ImportError, AttributeError, RuntimeError, TypeError):
        return None


def _fill_lease(lease: Any, views: Sequence[memoryview]) -> None:
    """Copy buffers one behind the other into a lease."""
    copy = getattr(lease, "copy_from_buffers", None)
    if copy is not None:
        copy(list(views))
        return
    target = lease.buffer
    try:
        at = 0
        for view in views:
            target[at:at + view.nbytes] = view
            at += view.nbytes
    finally:
        target.release()  # or else the lease has views, and is not given back


class Put:
    """The values of one put: the keys of all, for a roll-back, and what waits.

    finish() puts what waits; without it those values are not stored.
    """

    def __init__(self, transport: Transport, config: Any) -> None:
        self.transport = transport
        self.config = config
        self.keys: list[str] = []
        self._clear()

    def _clear(self) -> None:
        self._waiting: list[str] = []
        self._addrs: list[list[int]] = []
        self._sizes: list[list[int]] = []
        self._owners: list[Any] = []  # of the memory that waits
        self._bytes = 0

    def add(self, key: str, addrs: list[int], sizes: list[int],
            owner: Any) -> None:
        """A value of several pieces of memory, which owner keeps.

        RuntimeError: values that waited could not be put.
        """
        self._waiting.append(key)
        self._addrs.append(addrs)
        self._sizes.append(sizes)
        self._owners.append(owner)
        self._bytes += sum(sizes)
        if self._bytes >= _WAITING_MAX:
            self.finish()

    def finish(self) -> None:
        """RuntimeError: not all of them were put."""
        if not self._waiting:
            return
        store, keys = self.transport.store, self._waiting
        check_all("batch_put_from_multi_buffers", keys,
                  store.batch_put_from_multi_buffers(
                      keys, self._addrs, self._sizes,
                      **with_config(self.config, len(keys))))
        self._clear()


def check_all(operation: str, keys: Sequence[str], results: Any) -> None:
    """RuntimeError: one of them is neither None nor 0."""
    if len(results) != len(keys):
        raise RuntimeError(f"{operation} failed for {keys[0]}: {len(results)} "
                           f"results for {len(keys)} keys")
    for key, status in zip(keys, results):
        check_status(operation, key, status)


class Transport:
    """Writes, reads and removes payloads of one store. Any thread."""

    def __init__(self, store: Any, default_chunk_bytes: int,
                 buffer_pool: Any = None) -> None:
        self.store = store
        self.default_chunk_bytes = default_chunk_bytes
        self.direct = buffer_pool is None and is_real(store)
        self.known_pool = buffer_pool  # the caller's, or made already
        self._pool_lock = threading.Lock()
        self._looked_for_pool = buffer_pool is not None or self.direct
        self.batch_put_from = getattr(store, "batch_put_from", None)
        self.batch_get_into = getattr(store, "batch_get_into", None)
        self.get_into = getattr(store, "get_into", None)
        self.get_into_ranges = getattr(store, "get_into_ranges", None)
        self._register = getattr(store, "register_buffer", None)
        self._unregister = getattr(store, "unregister_buffer", None)

    @property
    def registers(self) -> bool:
        return self._register is not None and self._unregister is not None

    def pool(self) -> Any:
        """The caller's, or one of its own, made once; None: there is none."""
        with self._pool_lock:
            if not self._looked_for_pool:
                self._looked_for_pool = True
                self.known_pool = _own_pool(self.store)
            return self.known_pool

    def chunk_bytes(self, chunk_bytes: int | None) -> int:
        """ValueError: chunks cannot be so small."""
        chunk = self.default_chunk_bytes if chunk_bytes is None else chunk_bytes
        if chunk <= 0:
            raise ValueError(f"chunk_bytes must be positive, not {chunk!r}")
        return chunk

    # ---- writing ----

    def put(self, key: str, data: Any, config: Any) -> None:
        """One value, by store.put(). RuntimeError: it is refused."""
        check_status("put", key, self.store.put(key, data,
                                                **with_config(config, 1)))

    def write(self, key: str, payload: Payload, chunk_bytes: int,
              policy: BundleTransferPolicy, put: Put) -> dict[str, Any]:
        """A payload in chunks, by the policy; returns its spec."""
        if policy.copy_mode == "zero_copy":
            raise RuntimeError(f"{key}: a zero-copy put is only for "
                               "tensor_object_buffer members")
        pool = None if policy.copy_mode == "copy" else self.pool()
        if isinstance(payload, _DirectCopyPayload):
            arrays = payload.arrays
            if (pool is not None and self.batch_put_from is not None
                    and replaceable("_concat_arrays_into") is not None
                    and len(arrays) > 1
                    and all(one.nbytes <= chunk_bytes for one in arrays)):
                return self._write_arrays(key, payload, pool, chunk_bytes, policy,
                                          put)
            if pool is not None or not self.direct or len(arrays) > _GATHER_MAX:
                views = [payload.joined()] if arrays else []
            else:
                views = [bytes_view(one) for one in arrays]
        elif isinstance(payload, _MultiBufferPayload):
            views = [bytes_view(one) for one in payload.buffers]
        else:
            views = [payload]
        chunks = _cut(views, chunk_bytes)
        spec = payload_spec(key, [sum(view.nbytes for view in chunk)
                                  for chunk in chunks])
        keys = chunk_keys(key, len(chunks))
        put.keys += keys
        if policy.copy_mode == "copy" or (pool is None and not self.direct):
            self._write_copies(keys, chunks, put.config)
        elif self.direct:
            self._add_chunks(keys, chunks, put)
        else:
            self._write_pooled(keys, chunks, pool, len(views) > 1, policy,
                               put.config)
        return spec

    def write_meta(self, key: str, meta: memoryview, chunk_bytes: int,
                   policy: BundleTransferPolicy, put: Put) -> dict[str, Any]:
        """As write(), which a store of another kind gets as a copy."""
        if not self.direct or policy.copy_mode == "zero_copy":
            policy = replace(policy, copy_mode="copy")
        return self.write(key, meta, chunk_bytes, policy, put)

    def _write_copies(self, keys: Sequence[str],
                      chunks: Sequence[Sequence[memoryview]],
                      config: Any) -> None:
        for key, views in zip(keys, chunks):
            self.put(key, _joined(views), config)

    @staticmethod
    def _add_chunks(keys: Sequence[str], chunks: Sequence[list[memoryview]],
                    put: Put) -> None:
        """From where they lie."""
        for key, views in zip(keys, chunks):
            if len(views) > _GATHER_MAX:
                views = [_joined(views)]
            put.add(key, [address_of(view) for view in views],
                    [view.nbytes for view in views], views)

    def _write_pooled(self, keys: Sequence[str],
                      chunks: Sequence[Sequence[memoryview]], pool: Any,
                      several: bool, policy: BundleTransferPolicy,
                      config: Any) -> None:
        if several and self.batch_put_from is None:
            self._write_copies(keys, chunks, config)
            return

        def put(i: int) -> None:
            size = sum(view.nbytes for view in chunks[i])
            self._put_leased(pool, keys[i], size,
                             lambda lease: _fill_lease(lease, chunks[i]), config)

        if several and keys and self._resolve_buffer_group_put_mode(
                chunks, policy) == "parallel":
            in_threads(len(keys), policy.max_inflight_put, put)
            return
        for i in range(len(keys)):
            put(i)

    def _write_arrays(self, key: str, payload: _DirectCopyPayload, pool: Any,
                      chunk_bytes: int, policy: BundleTransferPolicy,
                      put: Put) -> dict[str, Any]:
        """Whole arrays in each chunk, copied by the fast copy."""
        arrays = payload.arrays
        runs = _runs_of_arrays(arrays, chunk_bytes)
        spec = payload_spec(key, [size for _, _, size in runs])
        keys = chunk_keys(key, len(runs))
        put.keys += keys

        def put_run(i: int) -> None:
            first, n, size = runs[i]

            def fill(lease: Any) -> None:
                done = replaceable("_concat_arrays_into")(
                    arrays, lease.ptr, size, first, n)
                if done != size:
                    raise RuntimeError(f"{keys[i]}: native fast-copy wrote {done} "
                                       f"of {size} bytes")

            self._put_leased(pool, keys[i], size, fill, put.config)

        if (policy.put_mode != "batch" and policy.max_inflight_put > 1
                and len(runs) >= AUTO_PARALLEL_MIN_CHUNKS
                and spec["bytes"] >= replaceable("AUTO_PARALLEL_MIN_BYTES")):
            in_threads(len(runs), policy.max_inflight_put, put_run)
        else:
            for i in range(len(runs)):
                put_run(i)
        return spec

    def _resolve_buffer_group_put_mode(
            self, chunk_groups: Sequence[Sequence[Any]],
            policy: BundleTransferPolicy) -> str:
        """Whether chunks of several buffers are put by threads or in turn."""
        if policy.put_mode != "auto":
            return policy.put_mode
        total = sum(len(one) for group in chunk_groups for one in group)
        parallel = (policy.max_inflight_put > 1
                    and len(chunk_groups) >= AUTO_PARALLEL_MIN_CHUNKS
                    and total >= replaceable("AUTO_PARALLEL_MIN_BYTES"))
        return "parallel" if parallel else "batch"

    def _put_leased(self, pool: Any, key: str, size: int,
                    fill: Callable[[Any], None], config: Any) -> None:
        if self.batch_put_from is None:
            raise RuntimeError(f"{key}: the store has no batch_put_from, which "
                               "puts from a buffer pool need")
        lease = pool.acquire(size)
        try:
            fill(lease)
            check_all("batch_put_from", [key], self.batch_put_from(
                [key], [lease.ptr], [size], **with_config(config, 1)))
        finally:
            lease.release()

    # ---- reading ----

    def read_bytes(self, spec: Mapping[str, Any]) -> bytes:
        """All of a payload. RuntimeError: it is not there, or not whole."""
        chunks, total = spec["chunks"], spec["bytes"]
        if not total:
            return b""
        if (self.batch_get_into is None or not self.registers
                or (self.direct and len(chunks) == 1)):
            return b"".join([self._get(one["key"], one["bytes"])
                             for one in chunks])
        buffer = allocate(total, spec["key"])
        keys = [chunk["key"] for chunk in chunks]
        sizes = [chunk["bytes"] for chunk in chunks]
        begin = buffer.ctypes.data
        with self.registered(begin, total):
            got = self.batch_get_into(keys, _places(begin, sizes), sizes)
        if len(got) != len(keys):
            raise RuntimeError(f"batch_get_into failed for {spec['key']}: "
                               f"{len(got)} results for {len(keys)} keys")
        for key, size, result in zip(keys, sizes, got):
            if result != size:
                raise RuntimeError(f"get failed for {key}: {result}, not {size} "
                                   "bytes")
        return bytes(buffer)

    def _get(self, key: str, size: int) -> bytes:
        value: bytes | None = self.store.get(key)
        if value is None or len(value) != size:
            raise RuntimeError(f"get failed for {key}: it has {len(value or b'')} "
                               f"bytes, not {size}")
        return value

    @contextlib.contextmanager
    def registered(self, addr: int, size: int) -> Iterator[None]:
        """Memory that the store knows meanwhile."""
        if self.direct:
            yield
            return
        assert self._register is not None and self._unregister is not None
        status = self._register(addr, size)
        if status != ALREADY_REGISTERED:
            check_status("register_buffer", hex(addr), status)
        ours = status != ALREADY_REGISTERED
        try:
            yield
        except BaseException:
            if ours:
                with contextlib.suppress(Exception):  # the first error wins
                    self._unregister(addr)
            raise
        if ours:
            check_status("unregister_buffer", hex(addr), self._unregister(addr))

    def read_pieces(self, addr: int, size: int, spec: Mapping[str, Any],
                    pieces: Iterable[Piece]) -> None:
        """Pieces of a payload to fresh memory of size bytes, in one operation."""
        plan = _plan(spec, pieces)
        if not plan:
            return
        if not self.registers or self.get_into_ranges is None:
            self._read_by_get(addr, plan)
            return
        (length, fragments), *others = plan.values()
        key = next(iter(plan))
        with self.registered(addr, size):
            if (not others and self.get_into is not None and not self.direct
                    and len(fragments) == 1 and fragments[0][1] == length):
                got = self.get_into(key, addr + fragments[0][2], length)
                if got != length:
                    raise RuntimeError(f"get_into failed for {key}: {got}, not "
                                       f"{length} bytes")
                return
            self._read_ranges(addr, plan)

    def read_to(self, addr: int, spec: Mapping[str, Any],
                pieces: Iterable[Piece]) -> None:
        """Pieces of a payload to memory that is not registered for it."""
        plan = _plan(spec, pieces)
        if not plan:
            return
        if self.get_into_ranges is None:
            self._read_by_get(addr, plan)
        else:
            self._read_ranges(addr, plan)

    def read_together(self, reads: Iterable[
            tuple[int, Mapping[str, Any], Iterable[Piece]]]) -> None:
        """As read_to() of each address, payload and pieces, by one operation.

        Only of a store that needs no registering.
        """
        plans = [(addr, _plan(spec, pieces)) for addr, spec, pieces in reads]
        plans = [(addr, plan) for addr, plan in plans if plan]
        if plans:
            self._read_plans(plans)

    def _read_ranges(self, addr: int, plan: _Plan) -> None:
        self._read_plans([(addr, plan)])

    def _read_plans(self, plans: Sequence[tuple[int, _Plan]]) -> None:
        """By get_into_ranges(). RuntimeError: not all bytes came."""
        assert self.get_into_ranges is not None
        keys = [list(plan) for _, plan in plans]
        to, begins, sizes = ([[[one[column] for one in fragments]
                               for _, fragments in plan.values()]
                              for _, plan in plans] for column in (2, 0, 1))
        got = self.get_into_ranges([addr for addr, _ in plans], keys, to, begins,
                                   sizes)
        if len(got) != len(keys):
            raise RuntimeError(f"get_into_ranges failed for {keys[0][0]}: its "
                               f"results are not those of {len(keys)} buffers")
        for of_buffer, wanted, results in zip(keys, sizes, got):
            _check_ranges(of_buffer, wanted, results)

    def _read_by_get(self, addr: int, plan: _Plan) -> None:
        for key, (length, fragments) in plan.items():
            value = np.frombuffer(self._get(key, length), np.uint8)
            for begin, size, to in fragments:
                ctypes.memmove(addr + to, value.ctypes.data + begin, size)

    # ---- removing ----

    def remove_keys(self, keys: Iterable[str], strict: bool) -> None:
        """What is gone counts as removed.

        With strict what stays when all were tried is a RuntimeError, and exceptions
        pass; else nothing is raised.
        """
        keys = list(dict.fromkeys(keys))
        if not keys:
            return
        try:
            left = self._remove_batch(keys)
        except Exception:
            if strict:
                raise
            left = keys
        stays = []
        for key in left:
            try:
                status = self.store.remove(key, True)
            except KeyError:
                continue
            except Exception:
                if strict:
                    raise
                continue
            if not _is_gone(status):
                stays.append((key, status))
        if strict and stays:
            key, status = stays[0]
            others = f", and {len(stays) - 1} more" if stays[1:] else ""
            raise RuntimeError(f"remove failed for {key}: {status}{others}")

    def _remove_batch(self, keys: list[str]) -> list[str]:
        """Those that are to be removed one by one."""
        remove = getattr(self.store, "batch_remove", None)
        if remove is None:
            return keys
        try:
            results = remove(keys, True)
        except TypeError:  # it has no force
            results = remove(keys)
        if results is None:
            return []
        if isinstance(results, int):
            results = [results] * len(keys)
        if len(results) != len(keys):
            return keys
        return [key for key, status in zip(keys, results)
                if not _is_gone(status)]


_Plan = dict[str, tuple[int, list[Piece]]]  # bytes of a chunk, and its parts


def _is_gone(status: Any) -> bool:
    return status is None or status == 0 or status == MISSING_OBJECT


def _places(begin: int, sizes: Iterable[int]) -> list[int]:
    places = []
    for size in sizes:
        places.append(begin)
        begin += size
    return places


def _check_ranges(keys: Sequence[str], wanted: Sequence[Sequence[int]],
                  results: Sequence[Sequence[int]]) -> None:
    """RuntimeError: not all bytes of the ranges of each key came."""
    if len(results) != len(keys):
        raise RuntimeError(f"get_into_ranges failed for {keys[0]}: its results "
                           f"are not those of {len(keys)} keys")
    for key, sizes, result in zip(keys, wanted, results):
        if list(result) != list(sizes):
            raise RuntimeError(f"get_into_ranges failed for {key}: "
                               f"{_first_other(result, sizes)}")


def _first_other(got: Sequence[int], wanted: Sequence[int]) -> str:
    for one, size in zip(got, wanted):
        if one != size:
            return f"{one}, not {size} bytes"
    return f"{len(got)} results for {len(wanted)} ranges"


def _plan_of_one(spec: Mapping[str, Any], pieces: list[Piece]) -> _Plan:
    size = spec["bytes"]
    for begin, length, _ in pieces:
        if begin + length > size:
            raise ValueError(f"{spec['key']}: bytes {begin} and on are beyond its "
                             "end")
    return {spec["chunks"][0]["key"]: (size, pieces)} if pieces else {}


def _plan(spec: Mapping[str, Any], pieces: Iterable[Piece]) -> _Plan:
    """Which chunks have the pieces, each once, and what is read of them."""
    chunks = spec["chunks"]
    if len(chunks) == 1:
        return _plan_of_one(spec, [piece for piece in pieces if piece[1]])
    begins = _places(0, [chunk["bytes"] for chunk in chunks])
    plan: _Plan = {}
    for begin, size, to in pieces:
        while size:
            i = bisect_right(begins, begin) - 1
            chunk = chunks[i]
            offset = begin - begins[i]
            part = min(chunk["bytes"] - offset, size)
            if part <= 0:
                raise ValueError(f"{spec['key']}: bytes {begin} and on are beyond "
                                 "its end")
            plan.setdefault(chunk["key"], (chunk["bytes"], []))[1].append(
                (offset, part, to))
            begin, size, to = begin + part, size - part, to + part
    return plan
