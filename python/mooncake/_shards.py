# SPDX-License-Identifier: Apache-2.0
"""Shards of tensors, stored: methods of MooncakeDistributedStore.

A shard lies under a key that its axes give, with its place in the whole in its
metadata. mooncake/_gather.py reads them.
"""
from __future__ import annotations

import ctypes
import logging
import struct
from collections.abc import Sequence
from typing import NamedTuple

from mooncake import _parallelism as parallel
from mooncake import _tensors as tensors
from mooncake._needs import torch
from mooncake._parallelism import ParallelAxis
from mooncake._tensors import DTYPES, INVALID_PARAMS, Layout, Metadata

# magic, version, its size, dtype, ndim, split_dim, shard_count, reserved; and the
# shape of the whole
MANIFEST = struct.Struct("<IHHiiiii4x8q")
MANIFEST_MAGIC, MANIFEST_VERSION = 0x574D414E, 1

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
    dim = axis.split_dim
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


def _plan(key: str, tensor: torch.Tensor, axes: list[ParallelAxis],
          writer: ParallelAxis | None) -> Write:
    """ValueError: the tensor cannot be split so."""
    if writer is not None:
        return Write(parallel.writer_key(key, writer), _part(tensor, writer),
                     Layout(tensor.shape, [writer]),
                     parallel.writer_manifest_key(key))
    if not axes:
        return Write(key, tensor)
    axis = parallel.tensor_axis(axes)
    if axis is None:
        return Write(parallel.shard_key(key, axes), tensor,
                     Layout(tensor.shape, axes))
    if len(axes) == 1:  # the tensor is the shard
        return Write(parallel.shard_key(key, axes), tensor,
                     Layout(_whole_of(tensor, axes), axes),
                     parallel.manifest_key(key))
    return Write(parallel.shard_key(key, axes), _part(tensor, axis),
                 Layout(tensor.shape, axes), parallel.manifest_key(key))


def _all_shards(key: str, tensor: torch.Tensor,
                axes: list[ParallelAxis]) -> list[Write]:
    """Those of each rank of tensor parallelism. ValueError: as _plan()."""
    size = parallel.tensor_axis(axes).size
    shards = [parallel.with_shard(axes, rank, size) for rank in range(size)]
    return [Write(parallel.shard_key(key, one),
                  _part(tensor, parallel.tensor_axis(one)),
                  Layout(tensor.shape, one)) for one in shards]


def _manifest(write: Write) -> bytes:
    axis = parallel.tensor_axis(write.layout.axes)
    whole = list(write.layout.whole)
    return MANIFEST.pack(
        MANIFEST_MAGIC, MANIFEST_VERSION, MANIFEST.size,
        DTYPES.index(write.tensor.dtype), len(whole), axis.split_dim, axis.size,
        0, *whole, *[tensors.UNUSED] * (tensors.MAX_DIMS - len(whole)))


def read_manifest(data: bytes) -> tuple[list[int], int, int] | None:
    """The whole's shape, the dimension, and how many shards; None: none."""
    if len(data) != MANIFEST.size:
        return None
    magic, version, _, _, n_dims, dim, count, _, *shape = MANIFEST.unpack(data)
    if (magic != MANIFEST_MAGIC or version != MANIFEST_VERSION
            or not 0 <= dim < n_dims <= tensors.MAX_DIMS
            or not 0 < count <= parallel.MAX_SHARDS
            or any(n < 0 for n in shape[:n_dims])):
        return None
    return shape[:n_dims], dim, count


def _for_writes(config: object, places: Sequence[int]) -> object:
    """The configuration of writes for the keys at these places: each has its
    key's group."""
    groups = getattr(config, "group_ids", None)
    if not groups or list(places) == list(range(len(groups))):
        return config
    from mooncake._structured.config import _with_group_ids
    return _with_group_ids(config, [groups[place] for place in places])


def _write_manifests(store, writes: Sequence[Write], config: object,
                     upsert: bool) -> list[int]:
    held = [ctypes.create_string_buffer(_manifest(one), MANIFEST.size)
            for one in writes]
    put = store.batch_upsert_from if upsert else store.batch_put_from
    return put([one.manifest_key for one in writes], list(map(ctypes.addressof, held)),
               [MANIFEST.size] * len(held), config)


def _store_all(store, plans: Sequence[list[Write] | None], config: object,
               upsert: bool) -> list[int]:
    """A code for each plan, which is a key's; None: it was refused. Manifests
    follow what they tell of."""
    groups = getattr(config, "group_ids", None)
    if groups and len(groups) != len(plans):
        _log.warning("config: it has %d group_ids for %d keys", len(groups), len(plans))
        return [INVALID_PARAMS] * len(plans)
    places, writes = [], []
    for place, plan in enumerate(plans):
        places += [place] * len(plan or ())
        writes += plan or ()
    results = [INVALID_PARAMS if plan is None else 0 for plan in plans]
    codes = tensors.write(
        store, [write.key for write in writes],
        [write.tensor for write in writes], _for_writes(config, places), upsert,
        [write.layout for write in writes])
    for place, code in zip(places, codes):
        results[place] = results[place] or code
    told = [(place, write) for place, write in zip(places, writes)
            if write.manifest_key and not results[place]]
    if told:
        places, writes = zip(*told)
        codes = _write_manifests(store, writes, _for_writes(config, places), upsert)
        for place, code in zip(places, codes):
            results[place] = code
    return results


def each(values: object, keys: Sequence[str], name: str) -> list | None:
    """One for each key; None stands for all of them. None: too many or few."""
    if values is None:
        return [None] * len(keys)
    return list(values) if tensors.are_as_many(values, keys, name) else None


def _planned(key: str, tensor: object, layout: Layout | None, parallelism: object,
             partition: object, all_ranks: bool) -> list[Write] | None:
    """None: said why it is refused."""
    if (all_ranks and tensor is None) or not tensors.is_tensor(tensor):
        return None
    try:
        axes = parallel.axes_of(parallelism)
        writer = parallel.writer_axis(partition)
        if writer is not None and axes:
            raise ValueError("parallelism and writer_partition exclude each other")
        if not all_ranks or not parallel.tensor_axis(axes):
            return [_plan(key, tensor, axes, writer)]
        if layout is None:
            return _all_shards(key, tensor, axes)
        if not has_axes(layout, axes):
            raise ValueError("what lies there is a shard, but not this one")
        return [Write(parallel.shard_key(key, axes), tensor, layout)]
    except ValueError as error:
        _log.warning("%s: %s", key, error)
        return None


def _write_all(store, keys, tensors_list, parallelisms, config, partitions,
               upsert, layouts=None, all_ranks=False):
    """Of all ranks of tensor parallelism, or of the one that is named."""
    lists = [each(tensors_list, keys, "tensors_list"),
             each(layouts, keys, "layouts"),
             each(parallelisms, keys, "parallelisms"),
             each(partitions, keys, "writer_partitions")]
    if None in lists:
        return [INVALID_PARAMS] * len(keys)
    return _store_all(store, [_planned(*one, all_ranks)
                              for one in zip(keys, *lists)], config, upsert)


def _are_both(parallelisms: object, partitions: object) -> bool:
    if parallelisms is None or partitions is None:
        return False
    _log.warning("parallelisms and writer_partitions exclude each other")
    return True


def put_tensor_with_parallelism(store, key, tensor, parallelism=None,
                                config=None, writer_partition=None):
    return _write_all(store, [key], [tensor], [parallelism], config,
                      [writer_partition], False)[0]


def upsert_tensor_with_parallelism(store, key, tensor, parallelism=None,
                                   config=None, writer_partition=None):
    return _write_all(store, [key], [tensor], [parallelism], config,
                      [writer_partition], True)[0]


def _write_batch(store, keys, tensors_list, parallelisms, config, partitions,
                 upsert):
    if (_are_both(parallelisms, partitions)
            or not tensors.are_as_many(tensors_list, keys, "tensors_list")):
        return [INVALID_PARAMS] * len(keys)
    return _write_all(store, keys, tensors_list, parallelisms, config, partitions,
                      upsert)


def batch_put_tensor_with_parallelism(store, keys, tensors_list,
                                      parallelisms=None, config=None,
                                      writer_partitions=None):
    return _write_batch(store, keys, tensors_list, parallelisms, config,
                        writer_partitions, False)


def batch_upsert_tensor_with_parallelism(store, keys, tensors_list,
                                         parallelisms=None, config=None,
                                         writer_partitions=None):
    return _write_batch(store, keys, tensors_list, parallelisms, config,
                        writer_partitions, True)


# ---- writing what lies in the caller's memory ----


def _found(store, addr: int,
           size: int) -> tuple[torch.Tensor, Metadata] | None:
    """None: said why there is no tensor."""
    return (tensors.tensor_at(addr, size)
            if tensors.is_readable(store, addr, size) else None)


def _write_from(store, keys, buffer_ptrs, sizes, parallelisms, config, partitions,
                upsert):
    """What lies there is a whole: all shards of it, or a shard: it alone."""
    if not tensors.are_places(buffer_ptrs, sizes, keys):
        return [INVALID_PARAMS] * len(keys)
    found = [_found(store, *place) for place in zip(buffer_ptrs, sizes)]
    return _write_all(store, keys, [one and one[0] for one in found],
                      parallelisms, config, partitions, upsert,
                      [one and one[1].layout for one in found], True)


def _write_batch_from(store, keys, buffer_ptrs, sizes, parallelisms, config,
                      partitions, upsert):
    if _are_both(parallelisms, partitions):
        return [INVALID_PARAMS] * len(keys)
    return _write_from(store, keys, buffer_ptrs, sizes, parallelisms, config,
                       partitions, upsert)


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
    return _write_batch_from(store, keys, buffer_ptrs, sizes, parallelisms,
                             config, writer_partitions, False)


def batch_upsert_tensor_with_parallelism_from(store, keys, buffer_ptrs, sizes,
                                              parallelisms=None, config=None,
                                              writer_partitions=None):
    return _write_batch_from(store, keys, buffer_ptrs, sizes, parallelisms,
                             config, writer_partitions, True)


# ---- tensor parallelism: all shards of a tensor at once ----


def _tp_writes(key: str, tensor: object, tp_rank: int, tp_size: int,
               split_dim: int) -> list[Write] | None:
    """None: said why it is refused."""
    if not tensors.is_tensor(tensor):
        return None
    if tp_size <= 1:
        return [Write(key, tensor)]
    if not 0 <= tp_rank < tp_size <= parallel.MAX_SHARDS or split_dim < 0:
        _log.warning("tp_rank, tp_size or split_dim is out of range")
        return None
    try:
        return _all_shards(key, tensor, [
            ParallelAxis("tp", tp_rank, tp_size, split_dim)])
    except ValueError as error:
        _log.warning("%s: %s", key, error)
        return None


def pub_tensor_with_tp(store, key, tensor, config=None, tp_rank=0, tp_size=1,
                       split_dim=0):
    """All shards at once, whatever the rank."""
    return batch_pub_tensor_with_tp(store, [key], [tensor], config, tp_rank,
                                    tp_size, split_dim)[0]


def put_tensor_with_tp(store, key, tensor, tp_rank=0, tp_size=1, split_dim=0):
    return pub_tensor_with_tp(store, key, tensor, None, tp_rank, tp_size,
                              split_dim)


def batch_pub_tensor_with_tp(store, base_keys, tensors_list, config=None,
                             tp_rank=0, tp_size=1, split_dim=0):
    if (not tensors.are_as_many(tensors_list, base_keys, "tensors_list")
            or not tensors.suits(config)):
        return [INVALID_PARAMS] * len(base_keys)
    return _store_all(store, [_tp_writes(key, tensor, tp_rank, tp_size, split_dim)
                              for key, tensor in zip(base_keys, tensors_list)],
                      config, False)


def batch_put_tensor_with_tp(store, base_keys, tensors_list, tp_rank=0,
                             tp_size=1, split_dim=0):
    return batch_pub_tensor_with_tp(store, base_keys, tensors_list, None,
                                    tp_rank, tp_size, split_dim)


def has_axes(layout: Layout | None, axes: list[ParallelAxis]) -> bool:
    """Whether a value of that layout is the shard of these axes."""
    stored = {axis.kind: axis for axis in (layout.axes if layout else ())}
    return len(stored) == len(axes) and all(
        axis.kind in stored
        and (stored[axis.kind].rank, stored[axis.kind].size)
        == (axis.rank, axis.size)
        and axis.split_dim in (None, stored[axis.kind].split_dim)
        for axis in axes)


def _tp_writes_from(store, key: str, addr: int, size: int, tp_rank: int,
                    tp_size: int, split_dim: int) -> list[Write] | None:
    """None: said why it is refused."""
    found = _found(store, addr, size)
    if found is None:
        return None
    tensor, metadata = found
    if tp_size <= 1 or metadata.layout is None:
        return _tp_writes(key, tensor, tp_rank, tp_size, split_dim)
    axis = ParallelAxis("tp", tp_rank, tp_size, split_dim)
    if has_axes(metadata.layout, [axis]):
        return [Write(parallel.shard_key(key, [axis]), tensor, metadata.layout)]
    _log.warning("buffer_ptr: it is a shard, but not this one")
    return None


def put_tensor_with_tp_from(store, key, buffer_ptr, size, tp_rank=0, tp_size=1,
                            split_dim=0):
    """All shards of a whole that lies there; of a shard, it alone."""
    return batch_put_tensor_with_tp_from(store, [key], [buffer_ptr], [size],
                                         tp_rank, tp_size, split_dim)[0]


def batch_put_tensor_with_tp_from(store, base_keys, buffer_ptrs, sizes, tp_rank=0,
                                  tp_size=1, split_dim=0):
    if not tensors.are_places(buffer_ptrs, sizes, base_keys):
        return [INVALID_PARAMS] * len(base_keys)
    return _store_all(store, [_tp_writes_from(store, *one, tp_rank, tp_size, split_dim)
                              for one in zip(base_keys, buffer_ptrs, sizes)],
                      None, False)


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
    return tensors.get_tensor_into(store, *_tp_keys([key], tp_rank, tp_size),
                                   buffer_ptr, size)


def batch_get_tensor_with_tp_into(store, base_keys, buffer_ptrs, sizes, tp_rank=0,
                                  tp_size=1):
    if not tensors.is_set_up(store):
        return [None] * len(base_keys)
    return tensors.batch_get_tensor_into(
        store, _tp_keys(base_keys, tp_rank, tp_size), buffer_ptrs, sizes)
