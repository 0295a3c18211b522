# SPDX-License-Identifier: Apache-2.0
"""Members of structured objects: values as bytes in the store, and back.

Of four encodings: bytes; an array, of numpy or (with torch's name of its type) a
tensor; a tensor object, which is a tensor in Mooncake's layout; and rows, which are
where each row ends, as int64, and then the rows as mooncake/_rows.py has them.
"""
from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from mooncake.store import _is_usable

from mooncake import _rows
from mooncake._bundle import Payload, Read
from mooncake._layout import METADATA


@dataclass(frozen=True)
class TensorObjectBuffer:
    """Metadata and data of a tensor at an address, which owner keeps there."""

    ptr: int
    size: int
    owner: Any
    batch_size: int | None = None

    def __len__(self) -> int:
        if self.batch_size is None:
            raise TypeError("a tensor object buffer of a batch needs batch_size")
        return self.batch_size


@dataclass(frozen=True)
class RawDestination:
    """Memory at an address, which owner keeps there."""

    ptr: int
    size: int
    owner: Any
    pre_registered: bool = False


@dataclass(frozen=True)
class Rows:
    """Which rows to read: runs of them from begin to end, in this order."""

    runs: tuple[tuple[int, int], ...]

    @classmethod
    def of(cls, indices: Sequence[int]) -> Rows:
        runs: list[tuple[int, int]] = []
        for index in indices:
            if runs and runs[-1][1] == index:
                runs[-1] = (runs[-1][0], index + 1)
            else:
                runs.append((index, index + 1))
        return cls(tuple(runs))

    @property
    def count(self) -> int:
        return sum(end - begin for begin, end in self.runs)


# ---- writing ----


def _of_array(array: np.ndarray, spec: dict[str, Any]) -> Payload:
    flat = np.ascontiguousarray(array)
    return Payload(spec, flat.ctypes.data if flat.nbytes else 0, flat.nbytes,
                   flat)


def of_bytes(data: Any) -> Payload:
    """TypeError: no contiguous buffer."""
    view = memoryview(data)
    if not view.contiguous:
        view = memoryview(view.tobytes())
    return _of_array(np.frombuffer(view.cast("B"), np.uint8),
                     {"encoding": "bytes"})


def of_rows(encoded: Sequence[bytes]) -> Payload:
    ends = np.cumsum([len(row) for row in encoded], dtype=np.int64)
    payload = of_bytes(ends.tobytes() + b"".join(encoded))
    payload.spec = {"encoding": "rows", "shape": [len(encoded)]}
    return payload


def _of_tensor(tensor: Any) -> Payload:
    whole = tensor.detach().cpu().contiguous()
    spec = {"encoding": "array", "torch": _rows.torch_name(whole),
            "shape": list(whole.shape)}
    return Payload(spec, whole.data_ptr(), whole.numel() * whole.element_size(),
                   whole)


def _of_tensor_object(buffer: TensorObjectBuffer, name: str) -> Payload:
    if buffer.size < METADATA or not _is_usable(buffer.ptr, buffer.size, False):
        raise ValueError(f"{name}: no tensor object lies in its buffer")
    return Payload({"encoding": "tensor_object", "rows": buffer.batch_size},
                   buffer.ptr, buffer.size, buffer.owner)


def _check_dtype(name: str, dtype: np.dtype) -> None:
    try:
        _rows.dtype_of(dtype.str)
    except ValueError:
        raise TypeError(f"{name}: an array of {dtype} cannot be a member"
                        ) from None


def payload_of(name: str, value: Any, zero_copy: bool = False) -> Payload:
    """TypeError: it cannot be a member. ValueError: not without a copy."""
    if isinstance(value, Payload):
        return value
    if isinstance(value, TensorObjectBuffer):
        return _of_tensor_object(value, name)
    if _rows.torch_tensor(value):
        if zero_copy:
            raise ValueError(f"{name}: with copy_mode zero_copy a tensor has to "
                             "be a tensor_object_buffer")
        return _of_tensor(value)
    if isinstance(value, np.ndarray):
        _check_dtype(name, value.dtype)
        return _of_array(value, {"encoding": "array", "dtype": value.dtype.str,
                                 "shape": list(value.shape)})
    try:
        return of_bytes(value)
    except TypeError:
        raise TypeError(f"{name}: a {type(value).__name__} cannot be a member"
                        ) from None


# ---- reading ----


def _of_memory(ptr: int, size: int, owner: Any, name: str) -> np.ndarray:
    """Bytes at an address, which keep their owner."""
    if not _is_usable(ptr, size, True):
        raise ValueError(f"{name}: {size} bytes at {ptr:#x} are not memory")
    memory = (ctypes.c_ubyte * size).from_address(ptr)
    # A lease of a pool is not released as long as there is a view of it.
    memory.owner = owner, getattr(owner, "buffer", None)
    return np.frombuffer(memory, np.uint8)


class Reader:
    """One member that is being read: reads() into place, then result()."""

    def __init__(self, name: str, spec: dict[str, Any], rows: Rows | None,
                 destination: Any) -> None:
        self.name, self.spec, self.rows = name, spec, rows
        self.size = spec["bytes"]
        self.destination = destination
        encoding = spec.get("encoding")
        if encoding not in ("bytes", "array", "tensor_object", "rows"):
            raise ValueError(f"{name}: nothing is encoded as {encoding!r}")
        self.encoding = encoding
        if encoding == "array":
            self._plan_array()
        elif rows is not None and encoding != "rows":
            raise ValueError(f"{name}: rows of {encoding} cannot be read")
        elif encoding == "rows":
            self._plan_rows()

    def _plan_array(self) -> None:
        spec = self.spec
        if "torch" in spec:
            self.dtype = _rows.torch_dtype(spec["torch"])
        else:
            self.dtype = _rows.dtype_of(spec.get("dtype"))
        self.shape = _rows.shape_of(spec.get("shape"), self.dtype.itemsize,
                                    self.size)
        if self.rows is None:
            self.spans = [(0, self.size)]
            return
        if not self.shape:
            raise ValueError(f"{self.name}: it has no rows")
        each = self.size // self.shape[0] if self.shape[0] else 0
        self._check_rows(self.shape[0])
        self.shape = (self.rows.count, *self.shape[1:])
        self.spans = [(begin * each, end * each) for begin, end in self.rows.runs]

    def _plan_rows(self) -> None:
        shape = self.spec.get("shape")
        if not isinstance(shape, list) or len(shape) != 1 or (
                type(shape[0]) is not int or not 0 <= shape[0] * 8 <= self.size):
            raise ValueError(f"{self.name}: so many rows are not in it")
        self.n_rows = shape[0]
        self._check_rows(self.n_rows)

    def _check_rows(self, n_rows: int) -> None:
        if self.rows and any(end > n_rows for _, end in self.rows.runs):
            raise ValueError(f"{self.name}: it has {n_rows} rows")

    # Of rows: where they end comes first, in a read of its own.

    def first_reads(self) -> list[Read]:
        if self.encoding != "rows" or self.rows is None:
            return []
        self.ends = self._allocate(8 * self.n_rows).view(np.int64)
        return [Read(self.name, 0, self.ends.nbytes, self.ends.ctypes.data)]

    def reads(self) -> list[Read]:
        if self.encoding == "rows" and self.rows is not None:
            self._find_rows()
        elif self.encoding != "array":
            self.spans = [(0, self.size)]
        addr = self._place()
        reads = []
        for begin, end in self.spans:
            reads.append(Read(self.name, begin, end, addr))
            addr += end - begin
        return reads

    def _bounds(self, ends: np.ndarray, limit: int) -> list[int]:
        bounds = [0, *ends.tolist()]
        if (any(a > b for a, b in zip(bounds, bounds[1:]))
                or bounds[-1] != limit):
            raise ValueError(f"{self.name}: its rows do not end where it does")
        return bounds

    def _find_rows(self) -> None:
        base = 8 * self.n_rows
        bounds = self._bounds(self.ends, self.size - base)
        self.spans = [(base + bounds[begin], base + bounds[end])
                      for begin, end in self.rows.runs]
        self.lengths = [bounds[i + 1] - bounds[i] for begin, end in self.rows.runs
                        for i in range(begin, end)]

    def _allocate(self, size: int) -> np.ndarray:
        try:
            return np.empty(size, np.uint8)
        except MemoryError:
            raise ValueError(f"{self.name}: {size} bytes of it") from None

    def _place(self) -> int:
        """Memory for all of it, and its address."""
        size = sum(end - begin for begin, end in self.spans)
        to = self.destination
        if to is None:
            self.memory = self._allocate(size)
        elif self.encoding == "rows":
            raise ValueError(f"{self.name}: rows have no destination")
        elif isinstance(to, TensorObjectBuffer):
            return self._place_tensor_object(to, size)
        elif isinstance(to, RawDestination):
            if to.size < size:
                raise ValueError(f"{self.name}: {to.size} bytes are not {size}")
            self.memory = _of_memory(to.ptr, size, to.owner, self.name)
        else:
            return self._place_array(to, size)
        return self.memory.ctypes.data

    def _place_tensor_object(self, to: TensorObjectBuffer, size: int) -> int:
        head = METADATA if self.encoding == "array" else 0
        if self.encoding == "bytes" or (head and "torch" not in self.spec):
            raise ValueError(f"{self.name}: it is no tensor")
        if to.size < head + size:
            raise ValueError(f"{self.name}: {to.size} bytes are not {head + size}")
        self.memory = _of_memory(to.ptr, head + size, to.owner, self.name)
        return to.ptr + head

    def _place_array(self, to: Any, size: int) -> int:
        """An array of numpy or a tensor that is as what is read."""
        tensor = _rows.torch_tensor(to)
        if self.encoding != "array" or not (tensor or isinstance(to, np.ndarray)):
            raise ValueError(f"{self.name}: no destination for it is a "
                             f"{type(to).__name__}")
        whole = (to.is_contiguous() and to.device.type == "cpu" if tensor
                 else to.flags.c_contiguous and to.flags.writeable)
        if (not whole or tuple(to.shape) != self.shape or to.dtype != self.dtype):
            raise ValueError(f"{self.name}: the destination has to be contiguous, "
                             f"{self.dtype} of {list(self.shape)}")
        return to.data_ptr() if tensor else to.ctypes.data

    def result(self) -> Any:
        """When all is there. ValueError: it is not what it is said to be."""
        to = self.destination
        if self.encoding == "rows":
            return self._decoded()
        if self.encoding == "tensor_object" or isinstance(to, TensorObjectBuffer):
            return self._tensor_object()
        if to is not None and not isinstance(to, RawDestination):
            return to
        if self.encoding == "bytes":
            return self.memory if to is not None else self.memory.tobytes()
        if "torch" not in self.spec:
            return _rows.check_text(
                self.memory.view(self.dtype).reshape(self.shape))
        import torch

        if not len(self.memory):
            return torch.empty(self.shape, dtype=self.dtype)
        return torch.frombuffer(self.memory, dtype=self.dtype).reshape(self.shape)

    def _tensor_object(self) -> Any:
        from mooncake import _tensors

        if self.encoding == "array":
            import torch

            head = _tensors.metadata_of(torch.empty(
                self.shape, dtype=self.dtype, device="meta"))
            self.memory[:METADATA] = np.frombuffer(head, np.uint8)
        found = _tensors.tensor_at(self.memory.ctypes.data, len(self.memory))
        if found is None:
            raise ValueError(f"{self.name}: it is no tensor")
        if self.destination is None:
            return found[0].clone()
        found[0]._mooncake_memory = self.memory  # which has its owner
        return found[0]

    def _decoded(self) -> list[Any]:
        data = memoryview(self.memory)
        if self.rows is None:
            base = 8 * self.n_rows
            bounds = self._bounds(np.frombuffer(data[:base], np.int64),
                                  self.size - base)
            data = data[base:]
        else:
            bounds = [0, *np.cumsum(self.lengths, dtype=np.int64).tolist()]
        return [_rows.decode(data[begin:end])
                for begin, end in zip(bounds, bounds[1:])]
