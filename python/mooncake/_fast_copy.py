# SPDX-License-Identifier: Apache-2.0
"""Arrays of numpy one behind the other, at an address."""
from __future__ import annotations

import ctypes
import sys
import threading

from mooncake.store import _is_usable

from mooncake._needs import numpy as np


def concat_arrays_into(arrays: list[np.ndarray], dest_ptr: int, dest_size: int,
                       start: int = 0, count: int = -1, nthreads: int = 1, /
                       ) -> int:
    """Copy arrays[start : start + count] there; how many bytes that was.

    A count of -1 is all that follow. The GIL is released while bytes are copied,
    and nthreads copy as many arrays each. TypeError: one of them is no array.
    ValueError: it is not contiguous, or they do not fit; nothing has been copied
    then.
    """
    if not isinstance(arrays, list):
        raise TypeError(f"arrays must be a list, not {type(arrays)}")
    start = min(max(start, 0), len(arrays))
    chosen = arrays[start:len(arrays) if count < 0 else start + count]
    total = 0
    for i, array in enumerate(chosen, start):
        if not isinstance(array, np.ndarray):
            raise TypeError(f"arrays[{i}] is not an ndarray, but {type(array)}")
        if not array.flags.c_contiguous:
            raise ValueError(f"arrays[{i}] is not C-contiguous")
        total += array.nbytes
    if total > sys.maxsize:
        raise OverflowError(f"arrays: {total} bytes are more than memory can have")
    if total > dest_size:
        raise ValueError(f"destination buffer too small: need {total} bytes, have "
                         f"{dest_size}: they do not fit")
    if total and not _is_usable(dest_ptr, total, True):
        raise ValueError(f"dest_ptr: {total} bytes do not fit into the memory "
                         "that is there")
    if total:
        _copy(chosen, dest_ptr, min(nthreads, len(chosen)))
    return total


def _copy(arrays: list[np.ndarray], to: int, n_threads: int) -> None:
    """The last of the threads is this one."""
    others: list[threading.Thread] = []
    try:
        for left in range(n_threads, 1, -1):
            n = len(arrays) // left
            run, arrays = arrays[:n], arrays[n:]
            thread = threading.Thread(target=_copy_run, args=(run, to))
            thread.start()
            others.append(thread)
            to += sum(array.nbytes for array in run)
        _copy_run(arrays, to)
    finally:
        for thread in others:
            thread.join()


def _copy_run(arrays: list[np.ndarray], to: int) -> None:
    first = arrays[0]
    if first.itemsize and not first.dtype.hasobject and all(
            array.ndim == 1 and array.dtype == first.dtype for array in arrays):
        # One call of numpy takes half the time of one for each array.
        count = sum(map(len, arrays))
        there = (ctypes.c_char * (count * first.itemsize)).from_address(to)
        np.concatenate(arrays, out=np.ndarray(count, first.dtype, there))
        return
    for array in arrays:
        ctypes.memmove(to, array.ctypes.data, array.nbytes)
        to += array.nbytes
