# SPDX-License-Identifier: Apache-2.0
"""Shards of tensors, read: methods of MooncakeDistributedStore.

What is wanted is read as it is stored, where it is; else a shard of another
split, or the whole, is made of those shards that are.
"""
from __future__ import annotations

import ctypes
import logging
from typing import NamedTuple

from mooncake.store import _is_usable

from mooncake import _parallelism as parallel
from mooncake import _tensors as tensors
from mooncake._layout import METADATA
from mooncake._needs import torch
from mooncake._parallelism import ParallelAxis
from mooncake._shards import each, has_axes, read_manifest
from mooncake._tensors import Layout, Metadata, are_places

_log = logging.getLogger("mooncake.store")

Wanted = tuple[str, list[ParallelAxis]]  # mode, axes
Made = tuple[torch.Tensor, Layout | None]


# ---- reading: what a whole is stored as ----


class Split(NamedTuple):
    """Shards that make up a whole, along one dimension."""

    whole: list[int]
    dim: int
    keys: list[str]

    def piece(self) -> int:
        """How long each of them is along dim, but for the last ones."""
        return -(-self.whole[self.dim] // len(self.keys))


def _head(store, key: str) -> Metadata | None:
    """Without the data; None: a miss, or no tensor."""
    size = store.get_size(key)
    head = ctypes.create_string_buffer(METADATA)
    if size < METADATA or store.get_into_ranges(
            [ctypes.addressof(head)], [[key]], [[[0]]], [[[0]]],
            [[[METADATA]]]) != [[[METADATA]]]:
        return None
    try:
        return tensors.read_metadata(head.raw, size)
    except ValueError:
        return None


def _of_axes(store, key: str, axes: list[ParallelAxis]) -> Split | None:
    """Shards of several axes: by their manifest, or as they are asked for."""
    axis = parallel.tensor_axis(axes)
    told = read_manifest(store.get(parallel.manifest_key(key)))
    if not told:
        first = _head(store, parallel.shard_key(
            key, parallel.with_shard(axes, 0, axis.size)))
        if not first or not first.layout:
            return None
        told = list(first.layout.whole), axis.split_dim, axis.size
    whole, dim, count = told
    if axis.split_dim != dim or dim >= len(whole):
        return None
    shards = [parallel.with_shard(axes, rank, count) for rank in range(count)]
    keys = [parallel.shard_key(key, one) for one in shards]
    old = [parallel.old_shard_key(key, one) for one in shards]
    if keys != old and store.is_exist(keys[0]) != 1:
        keys = old
    return Split(whole, dim, keys)


def _of_writers(store, key: str) -> Split | None:
    told = read_manifest(store.get(parallel.writer_manifest_key(key)))
    if not told:
        return None
    whole, dim, count = told
    return Split(whole, dim, [
        parallel.writer_key(key, ParallelAxis("tp", rank, count, dim))
        for rank in range(count)])


def _split_of(store, key: str, axes: list[ParallelAxis]) -> Split | None:
    """How a key's tensor is stored; None: it is not, or nobody can tell."""
    if len(axes) > 1:
        return _of_axes(store, key, axes)
    whole, first = _head(store, key), _head(store, f"{key}_tp_0")
    if whole:
        return Split(whole.shape, 0, [key])
    axis = first and first.layout and parallel.tensor_axis(first.layout.axes)
    if axis and axis.split_dim is not None:
        return Split(list(first.layout.whole), axis.split_dim,
                     [f"{key}_tp_{rank}" for rank in range(axis.size)])
    return _of_writers(store, key)


def _slice(store, split: Split, dim: int, begin: int,
           end: int) -> torch.Tensor | None:
    """From begin to end along dim; None: a shard is missing, or not as told."""
    piece = split.piece()
    length = split.whole[split.dim]
    low, high = (begin, end) if dim == split.dim else (0, length)
    ranks = range(low // piece, -(-high // piece)) if piece else range(1)
    parts = []
    loaded = tensors.load(store, [split.keys[rank] for rank in ranks])
    for rank, one in zip(ranks, loaded):
        shape = list(split.whole)
        shape[split.dim] = max(0, min(length, (rank + 1) * piece) - rank * piece)
        if not one or list(one[0].shape) != shape:
            _log.warning("%s is not the shard that it should be", split.keys[rank])
            return None
        parts.append(one[0])
    if len({part.dtype for part in parts}) != 1:
        _log.warning("%s and other shards are of different types",
                     split.keys[ranks[0]])
        return None
    joined = torch.cat(parts, split.dim)
    offset = ranks[0] * piece if dim == split.dim else 0
    return joined.narrow(dim, begin - offset, end - begin).contiguous()


def _assemble(store, key: str, mode: str,
              axes: list[ParallelAxis]) -> Made | None:
    """A whole, or a shard, of shards of another split."""
    axis = parallel.tensor_axis(axes)
    if mode == "shard" and axis is None:
        return None
    split = _split_of(store, key, axes)
    if split is None:
        return None
    if axis and (axis.split_dim >= len(split.whole)
                 or split.whole[axis.split_dim] % axis.size):
        _log.warning("%s: dimension %d of %s is not split into %d equal shards",
                     key, axis.split_dim, split.whole, axis.size)
        return None
    if mode == "full":
        if not split.whole:
            whole = tensors.load(store, split.keys)[0]
            return whole and (whole[0], None)
        tensor = _slice(store, split, split.dim, 0, split.whole[split.dim])
        return None if tensor is None else (tensor, None)
    piece = split.whole[axis.split_dim] // axis.size
    tensor = _slice(store, split, axis.split_dim, axis.rank * piece,
                    (axis.rank + 1) * piece)
    return None if tensor is None else (tensor, Layout(split.whole, axes))


# ---- reading ----


def _wanted(target: object) -> Wanted | None:
    try:
        return parallel.target_of(target)
    except ValueError as error:
        _log.warning("target: %s", error)
        return None


def _direct_key(key: str, wanted: Wanted | None) -> str:
    """Where the very thing that is wanted may lie."""
    return key if not wanted or wanted[0] != "shard" else parallel.shard_key(
        key, wanted[1])


def get_tensor_with_parallelism(store, key, target=None):
    return batch_get_tensor_with_parallelism(store, [key], [target])[0]


def _elsewhere(store, key: str, axes: list[ParallelAxis]) -> Made | None:
    """A shard that an older version or a writer has stored."""
    keys = {parallel.old_shard_key(key, axes)} - {parallel.shard_key(key, axes)}
    if len(axes) == 1 and axes[0].kind == "tp":
        keys.add(parallel.writer_key(key, axes[0]))
    for found in tensors.load(store, list(keys)) if keys else ():
        if found and has_axes(found[1].layout, axes):
            return found[0], found[1].layout
    return None


def _of_all_writers(store, key: str) -> Made | None:
    split = _of_writers(store, key)
    tensor = split and _slice(store, split, split.dim, 0,
                              split.whole[split.dim])
    return None if tensor is None else (tensor, None)


def _found_or_made(store, key, wanted, found):
    """@found is what lies at the direct key, if it is a tensor."""
    mode, axes = wanted
    made = None
    if mode == "shard":
        if found and has_axes(found[1].layout, axes):
            return found[0], found[1].layout
        made = _elsewhere(store, key, axes)
    elif mode == "full" and not axes:
        made = _of_all_writers(store, key)
    if made:
        return made
    if found and not axes:
        return found[0], found[1].layout
    return None if mode == "as_stored" else _assemble(store, key, mode, axes)


def batch_get_tensor_with_parallelism(store, keys, targets=None):
    targets = each(targets, keys, "targets")
    if targets is None:
        return [None] * len(keys)
    wanted = [_wanted(target) for target in targets]
    loaded = tensors.load(store, list(map(_direct_key, keys, wanted)))
    got = [want and _found_or_made(store, key, want, found)
           for key, want, found in zip(keys, wanted, loaded)]
    return [one and one[0] for one in got]


# ---- reading into the caller's memory ----


def _fill(store, made: Made, addr: int, size: int) -> torch.Tensor | None:
    """Lay metadata and data down there, and return the tensor of them."""
    tensor, layout = made
    tensor = tensor.contiguous()
    length = tensor.numel() * tensor.element_size()
    if (METADATA + length > size or not tensors.is_inside(store, addr, size)
            or not _is_usable(addr, METADATA + length, True)):
        _log.warning("buffer_ptr: %d bytes do not fit into %d at %#x",
                     METADATA + length, size, addr)
        return None
    ctypes.memmove(addr, tensors.metadata_of(tensor, layout), METADATA)
    ctypes.memmove(addr + METADATA, tensor.data_ptr(), length)
    return tensors.tensor_at(addr, METADATA + length)[0]


def get_tensor_with_parallelism_into(store, key, buffer_ptr, size, target=None):
    return batch_get_tensor_with_parallelism_into(
        store, [key], [buffer_ptr], [size], [target])[0]


def batch_get_tensor_with_parallelism_into(store, keys, buffer_ptrs, sizes,
                                           targets=None):
    targets = each(targets, keys, "targets")
    if targets is None or not are_places(buffer_ptrs, sizes, keys):
        return [None] * len(keys)
    wanted = [_wanted(target) for target in targets]
    lengths = store.batch_get_into(list(map(_direct_key, keys, wanted)),
                                   buffer_ptrs, sizes)
    got = []
    for key, addr, size, want, length in zip(keys, buffer_ptrs, sizes, wanted,
                                             lengths):
        there = tensors.tensor_at(addr, length) if length > 0 else None
        made = want and _found_or_made(store, key, want, there)
        if not made or (there and made[0] is there[0]):
            got.append(made and made[0])
        else:
            got.append(_fill(store, made, addr, size))
    return got + [None] * (len(keys) - len(got))
