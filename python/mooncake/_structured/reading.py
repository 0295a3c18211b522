# SPDX-License-Identifier: Apache-2.0
"""Members of objects as they are read: whole, some rows, to where callers say."""
from __future__ import annotations

import ctypes
import importlib
import io
import math
import re
import struct
import sys
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from mooncake._structured.members import check_end
from mooncake._structured.memory import allocate
from mooncake._structured.release import pool_array
from mooncake._structured.transport import Piece, Transport
from mooncake._structured.values import (
    RawDestination, StructuredMemberSlice, TensorObjectBuffer)

_DTYPE = re.compile(
    r"[<>|=]?[biufc]\d{1,2}\Z|[<>|=]?[SUV]\d{1,9}\Z|[<>=]?[mM]8(\[\w{1,8}\])?\Z")
# Where the metadata of a stored tensor has what changes with its rows.
_DATA_BYTES, _GLOBAL_SHAPE, _LOCAL_SHAPE, _HEAD_MIN = 32, 40, 104, 168

_TOGETHER_MAX = 256 << 20  # bytes: 4 s at the slowest that a read may be

Indices = range | list[int]
Rows = Indices | StructuredMemberSlice


def _is_count(value: object) -> bool:
    return type(value) is int and 0 <= value < 1 << 62


def dtype_of(name: object) -> np.dtype:
    """Of numbers, text or bytes, never of objects. ValueError: it is another."""
    if isinstance(name, str) and _DTYPE.match(name):
        try:
            dtype = np.dtype(name)
            if dtype.itemsize:
                return dtype
        except TypeError:
            pass
    raise ValueError(f"no type of elements is {name!r}")


def shape_of(shape: object, itemsize: int, size: int) -> tuple[int, ...]:
    """ValueError: so many elements are not so many bytes."""
    if (not isinstance(shape, list) or not all(map(_is_count, shape))
            or len(shape) > 32 or math.prod(shape) * itemsize != size
            or math.prod(max(n, 1) for n in shape) * itemsize >= 1 << 63):
        raise ValueError(f"{shape!r} is not the shape of {size} bytes")
    return tuple(shape)


def checked_text(array: np.ndarray) -> np.ndarray:
    """The array. ValueError: text of what are no characters."""
    if array.dtype.kind == "U":
        codes = array.reshape(-1).view(array.dtype.str[0] + "u4")
        if codes.max(initial=0) > sys.maxunicode:
            raise ValueError("text of what are no characters")
    return array


def _is_usable(addr: int, size: int) -> bool:
    try:
        from mooncake.store import _is_usable as usable
    except ImportError:
        return True
    return bool(usable(addr, size, True))


def memory_at(name: str, place: RawDestination, size: int) -> np.ndarray:
    """Bytes at the destination, which keep its owner.

    ValueError: it is too small, or no memory.
    """
    if place.size < size:
        raise ValueError(f"{name}: expected at least {size} bytes at the "
                         f"destination, not {place.size}")
    if size and not _is_usable(place.ptr, size):
        raise ValueError(f"{name}: {size} bytes at {place.ptr:#x} are not memory")
    memory: Any = (ctypes.c_ubyte * size).from_address(place.ptr)
    # A lease of a pool is not released as long as there is a view of it.
    memory.owner = place.owner, getattr(place.owner, "buffer", None)
    return np.frombuffer(memory, np.uint8)


def _row_pieces(rows: Indices | None, n_bytes: int, each: int, base: int,
                to: int) -> list[Piece]:
    """Of rows of each bytes that begin at base, to where they lie together."""
    if rows is None:
        return [(base, n_bytes, to)] if n_bytes else []
    if not each or not len(rows):
        return []
    if isinstance(rows, range):  # of step 1
        return [(base + rows.start * each, len(rows) * each, to)]
    return [(base + row * each, each, to + i * each)
            for i, row in enumerate(rows)]


def _check_rows(name: str, rows: Rows | None, shape: tuple[int, ...]) -> None:
    """IndexError: these rows, of numbers that are not negative, are not there."""
    if rows is None or isinstance(rows, StructuredMemberSlice):
        return
    if not shape or (len(rows) and max(rows) >= shape[0]):
        raise IndexError(f"{name}: rows are out of range of its shape {shape}")


class _Layout(NamedTuple):
    """How the elements of an array or a tensor lie in its payload."""

    shape: tuple[int, ...]
    dtype: np.dtype | None  # None: of a tensor, whose metadata tells it
    head: int  # bytes before them


class MemberReader:
    """Reads members of one object, whose manifest and metadata are there."""

    def __init__(self, transport: Transport, buffers: Mapping[str, Any],
                 specs: Mapping[str, Any]) -> None:
        self.transport = transport
        self.buffers = buffers
        self.specs = specs

    def read(self, name: str, rows: Rows | None = None,
             destination: Any = None) -> Any:
        """A member: all of it, a slice, or rows by their numbers."""
        spec = self.specs.get(name, {"encoding": "bytes"})
        encoding = spec.get("encoding")
        if encoding == "ndarray":
            return self._array(name, spec, rows, destination)
        if encoding == "torch_tensor":
            return self._tensor(name, spec, rows, destination)
        if encoding != "bytes":
            raise ValueError(f"{name}: unsupported structured field encoding "
                             f"{encoding!r}")
        if rows is not None:
            raise ValueError(f"{name}: a bytes member does not support slicing")
        if destination is not None:
            raise ValueError(f"{name}: a bytes member does not support "
                             "materialize_into")
        return self._bytes(name)

    def read_all(self, names: Sequence[str]) -> dict[str, Any]:
        """Members, all of each; arrays and tensors by few operations where that
        can be."""
        layouts = {name: self._whole_layout(name) for name in dict.fromkeys(names)
                   } if self.transport.direct else {}
        together = self._read_together({
            name: layout for name, layout in layouts.items() if layout})
        return {name: together[name] if name in together else self.read(name)
                for name in names}

    def read_spans(self, name: str, spans: Sequence[tuple[int, int]]) -> Any:
        """Rows of a member from begin to end, one span after the other.

        A row of bytes is a byte. ValueError: they are not all there.
        """
        spec, payload = self.specs.get(name, {}), self.buffers[name]
        dtype, head = np.dtype(np.uint8), 0
        shape: tuple[int, ...] = (payload["bytes"],)
        is_tensor = spec.get("encoding") == "torch_tensor"
        if is_tensor:
            layout = _layout_of(spec, payload)
            if layout is None:
                return _joined_spans(self.read(name), spans)
            shape, dtype, head = layout[0], np.dtype(f"V{layout[1]}"), layout[2]
        elif spec.get("encoding") == "ndarray":
            dtype = dtype_of(spec.get("dtype"))
            shape = shape_of(spec.get("shape"), dtype.itemsize, payload["bytes"])
        each = math.prod(shape[1:]) * dtype.itemsize
        n_rows, pieces = 0, []
        for begin, end in spans:
            if not 0 <= begin <= end <= (shape[0] if shape else 0):
                raise ValueError(f"{name}: it has no rows {begin} to {end}")
            pieces.append((head + begin * each, (end - begin) * each, n_rows * each))
            n_rows += end - begin
        memory = allocate(n_rows * each, payload["key"])
        self.transport.read_pieces(memory.ctypes.data, n_rows * each, payload,
                                   pieces)
        shape = (n_rows, *shape[1:])
        if is_tensor:
            return _tensor_of(name, memory, spec.get("dtype"), shape)
        return memory.view(dtype).reshape(shape)

    def _bytes(self, name: str) -> Any:
        payload = self.buffers[name]
        size = payload["bytes"]
        memory = self._leased(size, payload, [(0, size, 0)])
        return self.transport.read_bytes(payload) if memory is None else memory

    def _leased(self, size: int, payload: Mapping[str, Any],
                pieces: Sequence[Piece]) -> np.ndarray | None:
        """Read to a lease of a pool; None: there is none."""
        transport = self.transport
        pool = transport.pool() if size else None
        if pool is None or transport.get_into_ranges is None:
            return None
        try:
            lease = pool.acquire(size)
        except RuntimeError:
            return None
        try:
            transport.read_to(lease.ptr, payload, pieces)
        except BaseException:
            lease.release()
            raise
        return pool_array(lease, np.dtype(np.uint8), (size,))

    # ---- arrays ----

    def _elements(self, name: str, spec: Mapping[str, Any]
                  ) -> tuple[np.dtype, tuple[int, ...]]:
        """Their type and shape. ValueError: its bytes are no such array."""
        try:
            dtype = dtype_of(spec.get("dtype"))
            return dtype, shape_of(spec.get("shape"), dtype.itemsize,
                                   self.buffers[name]["bytes"])
        except ValueError as error:
            raise ValueError(f"{name}: {error}") from None

    def _whole_layout(self, name: str) -> _Layout | None:
        """Of an array or a tensor; None: of another member, or it is not told.

        ValueError: it is malformed.
        """
        spec, payload = self.specs.get(name, {}), self.buffers[name]
        if spec.get("encoding") == "ndarray":
            dtype, shape = self._elements(name, spec)
            return _Layout(shape, dtype, 0)
        if (spec.get("encoding") != "torch_tensor" or spec.get("nested")
                or payload.get("format") == "torch_save"):
            return None
        told = _layout_of(spec, payload)
        return told and _Layout(told[0], None, told[2])

    def _read_together(self, layouts: Mapping[str, _Layout]) -> dict[str, Any]:
        """Up to _TOGETHER_MAX bytes by one operation: within one lease."""
        made: dict[str, Any] = {}
        memories: dict[str, np.ndarray] = {}
        together = 0  # bytes of them
        for name, layout in layouts.items():
            payload = self.buffers[name]
            size = payload["bytes"] - layout.head
            if memories and together + size > _TOGETHER_MAX:
                made |= self._read_group(layouts, memories)
                memories, together = {}, 0
            memories[name] = allocate(size, payload["key"])
            together += size
        return made | self._read_group(layouts, memories)

    def _read_group(self, layouts: Mapping[str, _Layout],
                    memories: Mapping[str, np.ndarray]) -> dict[str, Any]:
        self.transport.read_together(
            (memory.ctypes.data, self.buffers[name],
             [(layouts[name].head, memory.nbytes, 0)])
            for name, memory in memories.items())
        return {name: self._made_of(name, layouts[name], memory)
                for name, memory in memories.items()}

    def _made_of(self, name: str, layout: _Layout, memory: np.ndarray) -> Any:
        """The array or the tensor whose elements were read."""
        if layout.dtype is None:
            return _tensor_of(name, memory, self.specs[name].get("dtype"),
                              layout.shape)
        try:
            return checked_text(memory.view(layout.dtype).reshape(layout.shape))
        except ValueError as error:
            raise ValueError(f"{name}: {error}") from None

    def _array(self, name: str, spec: Mapping[str, Any], rows: Rows | None,
               destination: Any) -> np.ndarray:
        payload = self.buffers[name]
        dtype, shape = self._elements(name, spec)
        if isinstance(rows, StructuredMemberSlice):
            if not shape:
                raise ValueError(f"{name}: a 0-dim array has no rows")
            rows = rows.rows_of(shape[0])
        each = math.prod(shape[1:]) * dtype.itemsize
        if isinstance(rows, range) and rows.step != 1:
            return self._strided(name, payload, rows, (dtype, shape, each),
                                 destination)
        _check_rows(name, rows, shape)
        if rows is not None:
            shape = (len(rows), *shape[1:])
        size = math.prod(shape) * dtype.itemsize
        pieces = _row_pieces(rows, size, each, 0, 0)
        whole = rows is None or isinstance(rows, range)
        try:
            if destination is None:
                memory = self._fresh(size, payload, pieces, whole)
            else:
                return self._array_at(name, destination, dtype, shape, payload,
                                      pieces)
            return checked_text(memory.view(dtype).reshape(shape))
        except ValueError as error:
            raise ValueError(f"{name}: {error}") from None

    def _fresh(self, size: int, payload: Mapping[str, Any],
               pieces: Sequence[Piece], pooled: bool) -> np.ndarray:
        memory = self._leased(size, payload, pieces) if pooled else None
        if memory is None:
            memory = allocate(size, payload["key"])
            self.transport.read_pieces(memory.ctypes.data, size, payload, pieces)
        return memory

    def _array_at(self, name: str, destination: Any, dtype: np.dtype,
                  shape: tuple[int, ...], payload: Mapping[str, Any],
                  pieces: Sequence[Piece]) -> np.ndarray:
        size = math.prod(shape) * dtype.itemsize
        if not isinstance(destination, RawDestination):
            array = _checked_array(destination, dtype, shape)
            self.transport.read_pieces(array.ctypes.data, size, payload, pieces)
            return array
        check_end(self.transport.store, name, destination)
        memory = memory_at(name, destination, size)
        if destination.pre_registered or self.transport.direct:
            self.transport.read_to(destination.ptr, payload, pieces)
        elif len(pieces) > 1:
            memory[:] = self._fresh(size, payload, pieces, False)
        else:
            self.transport.read_pieces(destination.ptr, size, payload, pieces)
        return checked_text(memory.view(dtype).reshape(shape))

    def _strided(self, name: str, payload: Mapping[str, Any], rows: range,
                 kind: tuple[np.dtype, tuple[int, ...], int],
                 destination: Any) -> np.ndarray:
        """Reads the rows from the first to the last, and copies some of them."""
        dtype, shape, each = kind
        part = (len(rows), *shape[1:])
        if isinstance(destination, RawDestination):
            check_end(self.transport.store, name, destination)
            memory = memory_at(name, destination, math.prod(part) * dtype.itemsize)
            result = memory.view(dtype).reshape(part)
        elif destination is not None:
            try:
                result = _checked_array(destination, dtype, part)
            except ValueError as error:
                raise ValueError(f"{name}: {error}") from None
        else:
            result = np.empty(part, dtype)
        if len(rows):
            cover = range(rows[0], rows[-1] + 1)
            size = len(cover) * each
            covering = self._fresh(size, payload,
                                   _row_pieces(cover, size, each, 0, 0), False)
            result[...] = covering.view(dtype).reshape(
                len(cover), *shape[1:])[::rows.step]
        return checked_text(result)

    # ---- tensors ----

    def _tensor(self, name: str, spec: Mapping[str, Any], rows: Rows | None,
                destination: Any) -> Any:
        payload = self.buffers[name]
        if destination is not None:
            if not isinstance(destination, (TensorObjectBuffer, RawDestination)):
                raise ValueError(f"{name}: the destination of a tensor must be a "
                                 "tensor_object_buffer or raw_destination, not "
                                 f"{type(destination)}")
            check_end(self.transport.store, name, destination)
        if spec.get("nested"):
            if destination is not None:
                raise ValueError(f"{name}: a nested tensor does not support "
                                 "destinations")
            return self._nested(name, spec, payload, rows)
        if payload.get("format") == "torch_save":
            return self._saved(name, payload, rows, destination)
        if rows is not None:
            return self._tensor_rows(name, spec, payload, rows, destination)
        if destination is not None:
            return self._tensor_to(name, payload, destination)
        if self.transport.direct and _layout_of(spec, payload) is not None:
            return self._tensor_rows(name, spec, payload, None, None)
        if payload.get("kind") == "tensor":
            return self._get_tensor(name, payload)
        return deserialized(name, self.transport.read_bytes(payload))

    def _get_tensor(self, name: str, payload: Mapping[str, Any]) -> Any:
        get = getattr(self.transport.store, "get_tensor", None)
        if not callable(get):
            raise RuntimeError(f"{name}: the store does not support get_tensor")
        tensor = get(payload["key"])
        if tensor is None:
            raise RuntimeError(f"get_tensor failed for {payload['key']}")
        return tensor

    def _tensor_to(self, name: str, payload: Mapping[str, Any],
                   destination: Any) -> Any:
        size = payload["bytes"]
        if payload.get("kind") == "tensor":
            get = getattr(self.transport.store, "get_tensor_into", None)
            if not callable(get):
                raise RuntimeError(f"{name}: the store does not support "
                                   "get_tensor_into")
            if self.transport.direct:
                _check_room(name, destination, size)
            tensor = get(payload["key"], destination.ptr, destination.size)
            if tensor is None and self.transport.direct:
                raise RuntimeError(f"get_tensor_into failed for {payload['key']}")
            return destination if tensor is None else tensor
        _check_room(name, destination, size)
        self.transport.read_to(destination.ptr, payload, [(0, size, 0)])
        return destination

    def _tensor_rows(self, name: str, spec: Mapping[str, Any],
                     payload: Mapping[str, Any], rows: Rows | None,
                     destination: Any) -> Any:
        layout = _layout_of(spec, payload)
        if layout is None:
            raise ValueError(f"{name}: missing slice metadata: it is not told how "
                             "its rows lie")
        shape, itemsize, head = layout
        if isinstance(rows, StructuredMemberSlice):
            rows = _rows_of_tensor(name, rows, shape)
        if isinstance(rows, range) and rows.step != 1:
            raise ValueError(f"{name}: rows of a tensor are read with step=1, not "
                             f"{rows.step}")
        _check_rows(name, rows, shape)
        if rows is not None:
            shape = (len(rows), *shape[1:])
        each = math.prod(shape[1:]) * itemsize
        size = math.prod(shape) * itemsize
        if destination is None and self.transport.direct:
            memory = allocate(size, payload["key"])
            self.transport.read_to(memory.ctypes.data, payload, _row_pieces(
                rows, size, each, head, 0))
            return _tensor_of(name, memory, spec.get("dtype"), shape)
        metadata = allocate(head, payload["key"])
        self.transport.read_pieces(metadata.ctypes.data, head, payload,
                                   [(0, head, 0)])
        _patch(metadata, size, shape[0])
        pieces = _row_pieces(rows, size, each, head, head)
        if destination is not None:
            _check_room(name, destination, head + size)
            ctypes.memmove(destination.ptr, metadata.ctypes.data, head)
            self.transport.read_to(destination.ptr, payload, pieces)
            return destination
        memory = allocate(head + size, payload["key"])
        memory[:head] = metadata
        self.transport.read_pieces(memory.ctypes.data, head + size, payload, pieces)
        return deserialized(name, memory.tobytes())

    def _saved(self, name: str, payload: Mapping[str, Any], rows: Rows | None,
               destination: Any) -> Any:
        """As torch.save() made it."""
        if destination is None:
            tensor = _loaded(self.transport.read_bytes(payload))
            return tensor if rows is None else _indexed(name, tensor, rows)
        if rows is not None:
            raise ValueError(f"{name}: a tensor as of torch.save() does not support "
                             "destinations of rows")
        return self._tensor_to(name, payload, destination)

    def _nested(self, name: str, spec: Mapping[str, Any],
                payload: Mapping[str, Any], rows: Rows | None) -> Any:
        from mooncake._needs import torch

        data = self.transport.read_bytes(payload)
        tensor = (_loaded(data, nested=True) if spec.get("format") == "torch_save"
                  else _of_parts(name, spec, data))
        if rows is None:
            return tensor
        each = list(tensor.unbind())
        if isinstance(rows, StructuredMemberSlice):
            rows = _rows_of_tensor(name, rows, (len(each),))
        chosen = [each[row] for row in rows]
        if chosen:
            return torch.nested.nested_tensor(chosen, layout=torch.jagged) \
                if _ragged_of(tensor) == 1 else _renested(tensor, chosen)
        return _empty_jagged(tensor)


def _joined_spans(tensor: Any, spans: Sequence[tuple[int, int]]) -> Any:
    from mooncake._needs import torch

    return torch.cat([tensor[:0], *(tensor[begin:end] for begin, end in spans)])


def _check_room(name: str, destination: Any, size: int) -> None:
    if destination.size < size:
        raise ValueError(f"{name}: expected at least {size} bytes at the "
                         f"destination, not {destination.size}")
    if size and not _is_usable(destination.ptr, size):
        raise ValueError(f"{name}: {size} bytes at {destination.ptr:#x} are not "
                         "memory")


def _checked_array(array: Any, dtype: np.dtype,
                   shape: tuple[int, ...]) -> np.ndarray:
    """TypeError or ValueError: the rows cannot be read to it."""
    if not isinstance(array, np.ndarray):
        raise TypeError("the destination of an array must be an ndarray or "
                        f"raw_destination, not {type(array)}")
    if array.dtype != dtype:
        raise ValueError(f"destination dtype mismatch: {array.dtype}, not {dtype}")
    if array.shape != shape:
        raise ValueError(f"destination shape mismatch: {array.shape}, not {shape}")
    if not array.flags.c_contiguous:
        raise ValueError("the destination must be C-contiguous")
    if not array.flags.writeable:
        raise ValueError("the destination must be writeable")
    return array


def _rows_of_tensor(name: str, rows: StructuredMemberSlice,
                    shape: tuple[int, ...]) -> range:
    if not shape:
        raise ValueError(f"{name}: a 0-dim tensor has no rows")
    return rows.rows_of(shape[0])


def _layout_of(spec: Mapping[str, Any], payload: Mapping[str, Any],
               ) -> tuple[tuple[int, ...], int, int] | None:
    """Shape, bytes of an element and of the metadata; None: they are not told.

    ValueError: they cannot be so.
    """
    shape, itemsize = spec.get("shape"), spec.get("element_size")
    head = payload.get("metadata_bytes")
    if shape is None or itemsize is None or not head:
        return None
    if (not _is_count(itemsize) or not _is_count(head) or head < _HEAD_MIN
            or head > payload["bytes"]):
        raise ValueError(f"{payload['key']}: element_size or metadata_bytes cannot "
                         "be so")
    return shape_of(shape, itemsize, payload["bytes"] - head), itemsize, head


def _patch(metadata: np.ndarray, size: int, n_rows: int) -> None:
    """Have the metadata of a tensor tell of some of its rows."""
    view = memoryview(metadata).cast("B")
    struct.pack_into("<Q", view, _DATA_BYTES, size)
    struct.pack_into("<q", view, _GLOBAL_SHAPE, n_rows)
    struct.pack_into("<q", view, _LOCAL_SHAPE, n_rows)


def _tensor_of(name: str, memory: np.ndarray, dtype_name: object,
               shape: tuple[int, ...]) -> Any:
    """ValueError: torch has no such type of elements."""
    from mooncake._needs import torch

    prefix, _, short = str(dtype_name).partition(".")
    dtype = getattr(torch, short, None) if prefix == "torch" else None
    if not isinstance(dtype, torch.dtype):
        raise ValueError(f"{name}: torch has no type of elements {dtype_name!r}")
    if math.prod(shape) * torch.empty(0, dtype=dtype).element_size() != \
            memory.nbytes:
        raise ValueError(f"{name}: {memory.nbytes} bytes are no {dtype} of {shape}")
    if not memory.nbytes:
        return torch.empty(shape, dtype=dtype)
    return torch.frombuffer(memory, dtype=dtype).reshape(shape)


def deserialized(name: str, data: bytes) -> Any:
    """A tensor as the store lays it down. RuntimeError: nothing here can."""
    try:
        from mooncake.store import _deserialize_tensor
    except ImportError:
        raise RuntimeError(f"{name}: mooncake.store has no _deserialize_tensor, "
                           "which this tensor needs") from None
    try:
        return _deserialize_tensor(data)
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from None


def _loaded(data: bytes, nested: bool = False) -> Any:
    from mooncake._needs import torch

    if nested:  # or else nested tensors are no weights
        importlib.import_module("torch._dynamo")
        importlib.import_module("torch.nested")
    return torch.load(io.BytesIO(data), weights_only=True)


def _indexed(name: str, tensor: Any, rows: Rows) -> Any:
    if isinstance(rows, StructuredMemberSlice):
        rows = _rows_of_tensor(name, rows, tuple(tensor.shape))
    if isinstance(rows, range):
        return tensor[rows.start:rows.stop:rows.step]
    return tensor[list(rows)]


# ---- nested tensors ----


def _ragged_of(tensor: Any) -> int:
    return int(getattr(tensor, "_ragged_idx", 1))


def _of_parts(name: str, spec: Mapping[str, Any], data: bytes) -> Any:
    """ValueError: the table of its parts is not that of its bytes."""
    from mooncake._needs import torch

    sizes, has_lengths = spec.get("part_bytes"), spec.get("has_lengths")
    ragged = spec.get("ragged_idx", 1)
    if (not isinstance(sizes, list) or not all(map(_is_count, sizes))
            or len(sizes) != (3 if has_lengths else 2)
            or not _is_count(ragged) or not ragged):
        raise ValueError(f"{name}: the part table of a nested tensor cannot be "
                         f"{sizes!r}")
    if sum(sizes) > len(data):
        raise ValueError(f"{name}: a nested tensor is truncated: {len(data)} of "
                         f"{sum(sizes)} bytes")
    if sum(sizes) < len(data):
        raise ValueError(f"{name}: a nested tensor has trailing bytes: {len(data)}, "
                         f"not {sum(sizes)}")
    parts, at = [], 0
    for size in sizes:
        parts.append(deserialized(name, data[at:at + size]))
        at += size
    try:
        return torch.nested.nested_tensor_from_jagged(
            parts[0], parts[1], lengths=parts[2] if has_lengths else None,
            jagged_dim=ragged)
    except (RuntimeError, IndexError, TypeError) as error:
        raise ValueError(f"{name}: the parts are no nested tensor: {error}"
                         ) from None


def _renested(tensor: Any, chosen: list[Any]) -> Any:
    """Some rows of a tensor whose ragged dimension is not the first of a row."""
    from mooncake._needs import torch

    dim = _ragged_of(tensor) - 1
    offsets = torch.tensor([0, *np.cumsum([one.shape[dim] for one in chosen])],
                           dtype=torch.int64)
    return torch.nested.nested_tensor_from_jagged(
        torch.cat(chosen, dim), offsets, jagged_dim=dim + 1)


def _empty_jagged(tensor: Any) -> Any:
    from mooncake._needs import torch

    dim = _ragged_of(tensor) - 1
    values = tensor.values()
    return torch.nested.nested_tensor_from_jagged(
        values.narrow(dim, 0, 0), torch.zeros(1, dtype=torch.int64),
        jagged_dim=dim + 1)
