# SPDX-License-Identifier: Apache-2.0
"""Memory that results are read to, which later results use again.

The kernel zeroes memory that a process has not had before, which takes longer than
to fill it. Blocks of results that nobody holds any more are therefore kept, up to
KEPT_MAX bytes, and marked by MADV_FREE: the kernel takes their pages whenever it is
short of memory, before it swaps or ends a process.
"""
from __future__ import annotations

import ctypes
import mmap
import os
import weakref

import numpy as np

_HUGE_PAGE = 2 << 20
_SIZE_MIN = 4 << 20  # of a result with a block; malloc() keeps smaller memory
_UNUSED_SHARE = 8  # a block serves a result that leaves an eighth of it unused
KEPT_MAX = min(8 << 30, os.sysconf("SC_PHYS_PAGES") * mmap.PAGESIZE // 8)
# As of Linux; a Python that was built with old headers does not name them.
_MADV_FREE = getattr(mmap, "MADV_FREE", 8)
_MADV_HUGEPAGE = getattr(mmap, "MADV_HUGEPAGE", 14)

# Blocks that nobody uses, oldest first. A finalizer appends to it in any thread, also
# in the middle of allocate(), so a lock could deadlock: append(), remove() and clear()
# are atomic under the GIL, and a loop over it does not mind them.
_kept: list[mmap.mmap] = []


def allocate(size: int, what: str) -> np.ndarray:
    """Bytes to read to, of any content. ValueError: there are not so many.

    Large ones begin at a huge page: the ends of one that begins elsewhere are
    small pages, which take as long as all the rest.
    """
    try:
        if size < _SIZE_MIN or -size % _HUGE_PAGE > size // _UNUSED_SHARE:
            return np.empty(size, np.uint8)
        return _array_in(_kept_block(size) or _new_block(size), size)
    except (MemoryError, ValueError, OSError, OverflowError):
        raise ValueError(f"{what}: there is no memory for {size} bytes") from None


def _new_block(size: int) -> mmap.mmap:
    """A block of whole huge pages for size bytes, wherever they begin in it."""
    length = (-(-size // _HUGE_PAGE) + 1) * _HUGE_PAGE
    try:
        block = _map(length)
    except OSError:  # what is kept has addresses, and counts for some limits
        _kept.clear()
        block = _map(length)
    _advise(block, _MADV_HUGEPAGE)
    return block


def _map(length: int) -> mmap.mmap:
    return mmap.mmap(-1, length, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)


def _advise(block: mmap.mmap, advice: int) -> bool:
    try:
        block.madvise(advice)
    except OSError:
        return False
    return True


def _kept_block(size: int) -> mmap.mmap | None:
    """The smallest block that size bytes nearly fill, which is kept no longer."""
    while True:
        fitting = [block for block in _kept if 0 <= len(block) - _HUGE_PAGE - size
                   <= size // _UNUSED_SHARE]
        if not fitting:
            return None
        block = min(fitting, key=len)
        try:
            _kept.remove(block)
        except ValueError:  # another thread has it
            continue
        return block


def _array_in(block: mmap.mmap, size: int) -> np.ndarray:
    """An array from the block's first huge page on.

    The block is kept again when the last array or view of this memory has died. The
    array is a view, so its base is an array, too: the garbage collector does not
    know those, and never takes the memory for dead while it ends what holds them.
    """
    begin = -ctypes.addressof(ctypes.c_char.from_buffer(block)) % _HUGE_PAGE
    memory = (ctypes.c_ubyte * size).from_buffer(block, begin)
    weakref.finalize(memory, _keep, block).atexit = False
    return np.frombuffer(memory, np.uint8).view()


def _keep(block: mmap.mmap) -> None:
    """Keep the block in place of the oldest ones, if there are too many.

    What is kept no longer is unmapped with the last reference to it.
    """
    if len(block) > KEPT_MAX or not _advise(block, _MADV_FREE):
        return
    _kept.append(block)
    try:
        while sum(map(len, _kept)) > KEPT_MAX:
            del _kept[0]
    except IndexError:  # another thread has done that
        pass
