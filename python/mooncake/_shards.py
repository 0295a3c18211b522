# SPDX-License-Identifier: Apache-2.0
"""Shards of tensors, stored: methods of MooncakeDistributedStore.

A shard lies under a key that its axes give, with its place in the whole in its
metadata. mooncake/_gather.py reads them.
"""
from __future__ import annotations

import logging
import struct
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import torch
from mooncake.store import _is_usable

from mooncake import _parallelism as parallel
from mooncake import _tensors as tensors
from mooncake._parallelism import ParallelAxis
from mooncake._tensors import DTYPES, INVALID_PARAMS, Layout, Metadata

# magic, version, its size, dtype, ndim, split_dim, shard_count, reserved; and the
# shape of the whole
MANIFEST = struct.Struct("<IHHiiiii4x8q")
MANIFEST_MAGIC, MANIFEST_VERSION, MANIFEST_HEADER = 0x574D414E, 1, 28

_log = logging.getLogger("mooncake.store")


class Write(NamedTuple):
    """What a put of a shard stores."""

    key: str
    tensor: torch.Tensor
    layout: Layout | None = None
    manifest_key: str | None = None  # where it is told how the whole was split


# ---- writing ----


def _part(tensor: torch.Tensor, axis: ParallelAxis) -> torch.Tensor:
    """The shard of a whole that every rank has as much of; ValueError: no."""
    dim = axis.split_dim or 0
    if dim >= tensor.dim() or tensor.shape[dim] % axis.size:
        raise ValueError(f"dimension {dim} of {list(tensor.shape)} is not split "
                         f"into {axis.size} equal shards")
    length = tensor.shape[dim] // axis.size
    return tensor.narrow(dim, axis.rank * length, length)


def _whole_of(shard: torch.Tensor, axes: Sequence[ParallelAxis]) -> list[int]:
    """The shape of what it is a shard of."""
    whole = list(shard.shape)
    for axis in axes:
        if axis.split_dim is None:
            continue
        if axis.split_dim >= len(whole):
            raise ValueError(f"split_dim is {axis.split_dim}, of {len(whole)} "
                             "dimensions")
        whole[axis.split_dim] *= axis.size
    if max(whole, default=0) >= 1 << 63:
        raise ValueError(f"a whole of {whole} elements")
    return whole


def _named(axes: list[ParallelAxis]) -> list[ParallelAxis]:
    """With the dimension that tensor parallelism splits when none is said."""
    return [replace(axis, split_dim=axis.split_dim or 0)
            if axis.kind == "tp" else axis for axis in axes]


def _plan(key: str, tensor: torch.Tensor, parallelism: object,
          partition: object) -> Write:
    """ValueError: these arguments do not go together."""
    axes = parallel.axes_of(parallelism)
    writer = parallel.writer_axis(partition)
    if writer is not None:
        if axes:
            raise ValueError("parallelism and writer_partition exclude each other")
        return Write(parallel.writer_key(key, writer), _part(tensor, writer),
                     Layout(tensor.shape, [writer]),
                     parallel.writer_manifest_key(key))
    if not axes:
        return Write(key, tensor)
    axis = parallel.tensor_axis(axes)
    named = _named(axes)
    if axis is None or len(axes) == 1:  # the tensor is the shard
        return Write(parallel.shard_key(key, axes), tensor,
                     Layout(_whole_of(tensor, named), named))
    return Write(parallel.shard_key(key, axes), _part(tensor, axis),
                 Layout(tensor.shape, named), parallel.manifest_key(key))


def _manifest(write: Write) -> bytes:
    axis = parallel.tensor_axis(write.layout.axes)
    whole = list(write.layout.whole)
    return MANIFEST.pack(
        MANIFEST_MAGIC, MANIFEST_VERSION, MANIFEST_HEADER,
        DTYPES.index(write.tensor.dtype), len(whole), axis.split_dim, axis.size,
        0, *whole, *[0] * (tensors.MAX_DIMS - len(whole)))


def read_manifest(data: bytes) -> tuple[list[int], int, int] | None:
    """The whole's shape, the dimension, and how many shards; None: none."""
    if len(data) != MANIFEST.size:
        return None
    magic, version, _, _, n_dims, dim, count, _, *shape = MANIFEST.unpack(data)
    if (magic != MANIFEST_MAGIC or version != MANIFEST_VERSION
            or not 0 <= dim < n_dims <= tensors.MAX_DIMS
            or not 0 < count <= parallel.MAX_SHARDS
            or any(n < 0 for n in shape)):
        return None
    return shape[:n_dims], dim, count


def _store_all(store, writes: Sequence[Write | None], config: object,
               upsert: bool) -> list[int]:
    """A code for each; None: it was refused. Manifests follow what they tell of."""
    codes = [INVALID_PARAMS] * len(writes)
    there = [i for i, write in enumerate(writes) if write is not None]
    if there:
        results = tensors.write(
            store, [writes[i].key for i in there],
            [writes[i].tensor for i in there], config, upsert,
            [writes[i].layout for i in there])
        for i, code in zip(there, results):
            codes[i] = code
    for i in there:
        if codes[i] == 0 and writes[i].manifest_key:
            put = store.upsert if upsert else store.put
            codes[i] = put(writes[i].manifest_key, _manifest(writes[i]), config)
    return codes


def each(values: object, keys: Sequence[str], name: str) -> list | None:
    """One for each key; None stands for all of them. None: too many or few."""
    if values is None:
        return [None] * len(keys)
    return list(values) if tensors.are_as_many(values, keys, name) else None


def are_places(buffer_ptrs: Sequence[int], sizes: Sequence[int],
               keys: Sequence[str]) -> bool:
    """Whether there is one for each key; says so if not."""
    if len(buffer_ptrs) == len(keys) == len(sizes):
        return True
    _log.warning("%d buffer_ptrs and %d sizes for %d keys", len(buffer_ptrs),
                 len(sizes), len(keys))
    return False


def _planned(key: str, tensor: torch.Tensor | None, parallelism: object,
             partition: object) -> Write | None:
    """None: said why it is refused."""
    if tensor is None:
        return None
    try:
        return _plan(key, tensor, parallelism, partition)
    except ValueError as error:
        _log.warning("%s: %s", key, error)
        return None


def _write_all(store, keys, tensors_list, parallelisms, config, partitions,
               upsert):
    lists = [each(tensors_list, keys, "tensors_list"),
             each(parallelisms, keys, "parallelisms"),
             each(partitions, keys, "writer_partitions")]
    if None in lists:
        return [INVALID_PARAMS] * len(keys)
    return _store_all(store, [_planned(*one) for one in zip(keys, *lists)],
                      config, upsert)


def put_tensor_with_parallelism(store, key, tensor, parallelism=None,
                                config=None, writer_partition=None):
    return _write_all(store, [key], [tensors.check(tensor, "tensor")],
                      [parallelism], config, [writer_partition], False)[0]


def upsert_tensor_with_parallelism(store, key, tensor, parallelism=None,
                                   config=None, writer_partition=None):
    return _write_all(store, [key], [tensors.check(tensor, "tensor")],
                      [parallelism], config, [writer_partition], True)[0]


def _checked(tensors_list: object) -> list[torch.Tensor]:
    return [tensors.check(tensor, "tensors_list") for tensor in tensors_list]


def batch_put_tensor_with_parallelism(store, keys, tensors_list,
                                      parallelisms=None, config=None,
                                      writer_partitions=None):
    return _write_all(store, keys, _checked(tensors_list), parallelisms, config,
                      writer_partitions, False)


def batch_upsert_tensor_with_parallelism(store, keys, tensors_list,
                                         parallelisms=None, config=None,
                                         writer_partitions=None):
    return _write_all(store, keys, _checked(tensors_list), parallelisms, config,
                      writer_partitions, True)


# ---- writing what lies in the caller's memory ----


def _found(store, addr: int,
           size: int) -> tuple[torch.Tensor, Metadata] | None:
    if not (tensors.is_inside(store, addr, size)
            and _is_usable(addr, size, False)):
        _log.warning("buffer_ptr: %d bytes at %#x are not readable memory", size,
                     addr)
        return None
    return tensors.tensor_at(addr, size)


def _write_from(store, keys, buffer_ptrs, sizes, parallelisms, config, partitions,
                upsert):
    if not are_places(buffer_ptrs, sizes, keys):
        return [INVALID_PARAMS] * len(keys)
    found = [_found(store, *place) for place in zip(buffer_ptrs, sizes)]
    return _write_all(store, keys, [one and one[0] for one in found],
                      parallelisms, config, partitions, upsert)


def put_tensor_with_parallelism_from(store, key, buffer_ptr, size,
                                     parallelism=None, config=None,
                                     writer_partition=None):
    return _write_from(store, [key], [buffer_ptr], [size], [parallelism], config,
                       [writer_partition], False)[0]


def upsert_tensor_with_parallelism_from(store, key, buffer_ptr, size,
                                        parallelism=None, config=None,
                                        writer_partition=None):
    return _write_from(store, [key], [buffer_ptr], [size], [parallelism], config,
                       [writer_partition], True)[0]


def batch_put_tensor_with_parallelism_from(store, keys, buffer_ptrs, sizes,
                                           parallelisms=None, config=None,
                                           writer_partitions=None):
    return _write_from(store, keys, buffer_ptrs, sizes, parallelisms, config,
                       writer_partitions, False)


def batch_upsert_tensor_with_parallelism_from(store, keys, buffer_ptrs, sizes,
                                              parallelisms=None, config=None,
                                              writer_partitions=None):
    return _write_from(store, keys, buffer_ptrs, sizes, parallelisms, config,
                       writer_partitions, True)


# ---- tensor parallelism: all shards of a tensor at once ----


def _tp_writes(key: str, tensor: torch.Tensor, tp_rank: int, tp_size: int,
               split_dim: int) -> list[Write] | None:
    """None: said why it is refused."""
    if tp_size <= 1:
        return [Write(key, tensor)]
    if (not 0 <= tp_rank < tp_size <= parallel.MAX_SHARDS
            or not 0 <= split_dim < tensor.dim()):
        _log.warning("tp_rank, tp_size or split_dim is out of range")
        return None
    parts = tensor.chunk(tp_size, split_dim)
    if len(parts) != tp_size:
        _log.warning("tp_size is more than the tensor can be split into")
        return None
    axes = [ParallelAxis("tp", rank, tp_size, split_dim)
            for rank in range(tp_size)]
    return [Write(parallel.shard_key(key, [axis]), part,
                  Layout(tensor.shape, [axis]))
            for part, axis in zip(parts, axes)]


def _store_tp(store, writes: list[Write] | None, config: object) -> int:
    codes = (_store_all(store, writes, config, False) if writes
             else [INVALID_PARAMS])
    return next((code for code in codes if code), 0)


def pub_tensor_with_tp(store, key, tensor, config=None, tp_rank=0, tp_size=1,
                       split_dim=0):
    """All shards at once, whatever the rank."""
    return _store_tp(store, _tp_writes(key, tensors.check(tensor, "tensor"),
                                       tp_rank, tp_size, split_dim), config)


def put_tensor_with_tp(store, key, tensor, tp_rank=0, tp_size=1, split_dim=0):
    return pub_tensor_with_tp(store, key, tensor, None, tp_rank, tp_size,
                              split_dim)


def batch_pub_tensor_with_tp(store, base_keys, tensors_list, config=None,
                             tp_rank=0, tp_size=1, split_dim=0):
    if not tensors.are_as_many(tensors_list, base_keys, "tensors_list"):
        return [INVALID_PARAMS] * len(base_keys)
    return [pub_tensor_with_tp(store, key, tensor, config, tp_rank, tp_size,
                               split_dim)
            for key, tensor in zip(base_keys, tensors_list)]


def batch_put_tensor_with_tp(store, base_keys, tensors_list, tp_rank=0,
                             tp_size=1, split_dim=0):
    return batch_pub_tensor_with_tp(store, base_keys, tensors_list, None,
                                    tp_rank, tp_size, split_dim)


def fits(metadata: Metadata, axes: list[ParallelAxis]) -> bool:
    """Whether a value is the shard of these axes."""
    if not axes:
        return True
    stored = {axis.kind: axis for axis in
              (metadata.layout.axes if metadata.layout else ())}
    return len(stored) == len(axes) and all(
        axis.kind in stored
        and (stored[axis.kind].rank, stored[axis.kind].size)
        == (axis.rank, axis.size)
        and axis.split_dim in (None, stored[axis.kind].split_dim)
        for axis in axes)


def put_tensor_with_tp_from(store, key, buffer_ptr, size, tp_rank=0, tp_size=1,
                            split_dim=0):
    """All shards of a whole that lies there; of a shard, it alone."""
    found = _found(store, buffer_ptr, size)
    if found is None:
        return INVALID_PARAMS
    tensor, metadata = found
    if tp_size > 1 and metadata.layout is not None:
        axis = ParallelAxis("tp", tp_rank, tp_size, split_dim)
        if not fits(metadata, [axis]):
            _log.warning("buffer_ptr: it is a shard, but not this one")
            return INVALID_PARAMS
        return _store_tp(store, [Write(parallel.shard_key(key, [axis]), tensor,
                                       metadata.layout)], None)
    return _store_tp(store, _tp_writes(key, tensor, tp_rank, tp_size, split_dim),
                     None)


def batch_put_tensor_with_tp_from(store, base_keys, buffer_ptrs, sizes, tp_rank=0,
                                  tp_size=1, split_dim=0):
    if not are_places(buffer_ptrs, sizes, base_keys):
        return [INVALID_PARAMS] * len(base_keys)
    return [put_tensor_with_tp_from(store, *one, tp_rank, tp_size, split_dim)
            for one in zip(base_keys, buffer_ptrs, sizes)]


def _tp_keys(base_keys: Sequence[str], tp_rank: int,
             tp_size: int) -> Sequence[str]:
    """How they were split is told by their metadata alone."""
    return base_keys if tp_size <= 1 else [f"{key}_tp_{tp_rank}"
                                           for key in base_keys]


def get_tensor_with_tp(store, key, tp_rank=0, tp_size=1, split_dim=0):
    del split_dim
    return batch_get_tensor_with_tp(store, [key], tp_rank, tp_size)[0]


def batch_get_tensor_with_tp(store, base_keys, tp_rank=0, tp_size=1):
    return tensors.batch_get_tensor(store, _tp_keys(base_keys, tp_rank, tp_size))


def get_tensor_with_tp_into(store, key, buffer_ptr, size, tp_rank=0, tp_size=1,
                            split_dim=0):
    del split_dim
    return batch_get_tensor_with_tp_into(store, [key], [buffer_ptr], [size],
                                         tp_rank, tp_size)[0]


def batch_get_tensor_with_tp_into(store, base_keys, buffer_ptrs, sizes, tp_rank=0,
                                  tp_size=1):
    return tensors.batch_get_tensor_into(
        store, _tp_keys(base_keys, tp_rank, tp_size), buffer_ptrs, sizes)
