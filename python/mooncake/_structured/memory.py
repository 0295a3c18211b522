# SPDX-License-Identifier: Apache-2.0
"""Memory that results are read to, which later results use again.

The kernel zeroes memory that a process has not had before, which takes longer than
to fill it. Blocks of results that nobody holds any more are therefore kept, up to
KEPT_MOST bytes, and marked by MADV_FREE: the kernel takes their pages whenever it
is short of memory, before it swaps or ends a process.
"""
from __future__ import annotations

import ctypes
import mmap
import os
import weakref

import numpy as np

_HUGE_PAGE = 2 << 20
_LEAST = 4 << 20  # of a block; malloc() keeps the memory of smaller results
_SPARE = 8  # a block is used again if at most an eighth of it stays unused
KEPT_MOST = min(8 << 30, os.sysconf("SC_PHYS_PAGES") * mmap.PAGESIZE // 8)

# Blocks that nobody uses. They come back when an array dies: in any thread, within
# any statement, allocate()'s, too. So there is no lock, which that could already
# hold: append() and remove() are atomic, and loops bear both.
_kept: list[mmap.mmap] = []


def allocate(size: int, what: str) -> np.ndarray:
    """Bytes to read to, of any content. ValueError: there are not so many.

    Large ones begin at a huge page: the ends of one that begins elsewhere are
    small pages, which take as long as all the rest.
    """
    try:
        if size < _LEAST or -size % _HUGE_PAGE > size // _SPARE:
            return np.empty(size, np.uint8)
        return _array_in(_kept_block(size) or _new_block(size), size)
    except (MemoryError, ValueError, OSError, OverflowError):
        raise ValueError(f"{what}: there is no memory for {size} bytes") from None


def _new_block(size: int) -> mmap.mmap:
    """A block of whole huge pages for size bytes, wherever they begin in it."""
    block = mmap.mmap(-1, (-(-size // _HUGE_PAGE) + 1) * _HUGE_PAGE,
                      flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    _advise(block, mmap.MADV_HUGEPAGE)
    return block


def _advise(block: mmap.mmap, advice: int) -> bool:
    try:
        block.madvise(advice)
    except OSError:
        return False
    return True


def _kept_block(size: int) -> mmap.mmap | None:
    """The smallest block that size bytes nearly fill, which is kept no longer."""
    while True:
        fitting = [block for block in _kept
                   if 0 <= len(block) - _HUGE_PAGE - size <= size // _SPARE]
        if not fitting:
            return None
        block = min(fitting, key=len)
        try:
            _kept.remove(block)
        except ValueError:  # another thread has it
            continue
        return block


def _array_in(block: mmap.mmap, size: int) -> np.ndarray:
    """An array from the block's first huge page on, which is the block's user.

    So is whatever shares its memory.
    """
    begin = -ctypes.addressof(ctypes.c_char.from_buffer(block)) % _HUGE_PAGE
    memory = (ctypes.c_ubyte * size).from_buffer(block, begin)
    weakref.finalize(memory, _keep, block).atexit = False
    return np.frombuffer(memory, np.uint8)


def _keep(block: mmap.mmap) -> None:
    """Keep the block; one too many is unmapped with the last reference to it."""
    if sum(map(len, _kept)) + len(block) <= KEPT_MOST and _advise(
            block, mmap.MADV_FREE):
        _kept.append(block)
