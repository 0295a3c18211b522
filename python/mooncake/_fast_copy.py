# SPDX-License-Identifier: Apache-2.0
"""Arrays of numpy one behind the other, at an address."""
from __future__ import annotations

import ctypes

import numpy as np
from mooncake.store import _is_usable


def concat_arrays_into(arrays: list[np.ndarray], dest_ptr: int, dest_size: int,
                       start: int = 0, count: int = -1,
                       nthreads: int = 1) -> int:
    """Copy arrays[start : start + count] there; how many bytes that was.

    A count of -1 is all that follow. The GIL is released while bytes are copied;
    nthreads has no effect. TypeError: one of them is no array. ValueError: it is
    not contiguous, or they do not fit; nothing has been copied then.
    """
    del nthreads
    if not isinstance(arrays, list):
        raise TypeError(f"arrays must be a list, not {type(arrays)}")
    start = min(max(start, 0), len(arrays))
    end = len(arrays) if count < 0 else start + count
    chosen = arrays[start:end]
    for i, array in enumerate(chosen, start):
        if not isinstance(array, np.ndarray):
            raise TypeError(f"arrays[{i}] must be an array, not {type(array)}")
        if not array.flags.c_contiguous:
            raise ValueError(f"arrays[{i}] is not contiguous")
    total = sum(array.nbytes for array in chosen)
    if total > dest_size or (total and not _is_usable(dest_ptr, total, True)):
        raise ValueError(f"dest_ptr: {total} bytes do not fit there")
    at = dest_ptr
    for array in chosen:
        ctypes.memmove(at, array.ctypes.data, array.nbytes)
        at += array.nbytes
    return total
