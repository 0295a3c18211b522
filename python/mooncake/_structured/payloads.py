# SPDX-License-Identifier: Apache-2.0
"""Member values that lie in several pieces and are never joined in memory.

Names with an underscore are those that callers of Mooncake's module import.
"""
from __future__ import annotations

import operator
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from mooncake._structured.infer import dtypes_of

_Concat = Callable[..., int]

_package_concat: _Concat | None
try:
    from mooncake._fast_copy import concat_arrays_into as _package_concat
except ImportError:  # without mooncake.store there is none
    _package_concat = None


@dataclass(frozen=True)
class _MultiBufferPayload:
    """Buffers that make up a member back to back, and what keeps them alive.

    With dtype and shape the member is an array, else bytes.
    """

    buffers: tuple[memoryview, ...]
    owners: tuple[Any, ...] = ()
    dtype: str | None = None
    shape: tuple[int, ...] | None = None

    @property
    def nbytes(self) -> int:
        return sum(buffer.nbytes for buffer in self.buffers)


@dataclass(frozen=True)
class _DirectCopyPayload:
    """Contiguous arrays whose elements make up a member back to back."""

    arrays: list[np.ndarray]
    total_bytes: int
    dtype: str | None = None
    shape: tuple[int, ...] | None = None

    @property
    def nbytes(self) -> int:
        return self.total_bytes

    def joined(self) -> memoryview:
        """The bytes of all arrays, copied."""
        first = self.arrays[0]
        if set(map(operator.attrgetter("ndim"), self.arrays)) == {1} and all(
                dtype == first.dtype for dtype in dtypes_of(self.arrays)):
            return bytes_of(np.concatenate(self.arrays))
        return memoryview(b"".join(map(bytes_of, self.arrays)))

    @staticmethod
    def from_flat_arrays(flat_arrays: list[np.ndarray], dtype: Any,
                         total_elems: int) -> _DirectCopyPayload:
        """An array of total_elems elements; flat_arrays have one dimension."""
        element = np.dtype(dtype)
        return _DirectCopyPayload(flat_arrays, total_elems * element.itemsize,
                                  element.str, (total_elems,))


def concat_arrays_into() -> _Concat | None:
    """What copies arrays to an address; None: nothing does.

    Callers replace _concat_arrays_into of the public module, so each use asks.
    """
    module = sys.modules.get("mooncake.structured_object_store")
    return getattr(module, "_concat_arrays_into", _package_concat)


def bytes_of(array: np.ndarray) -> memoryview:
    """The bytes of a contiguous array, which is not copied."""
    return memoryview(array.reshape(-1).view(np.uint8))
