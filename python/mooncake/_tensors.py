# SPDX-License-Identifier: Apache-2.0
"""Tensors of torch as values: methods of MooncakeDistributedStore.

A value is 304 bytes of metadata in Mooncake's layout and then the data. torch is
imported here, so when the first of these methods is called.
"""
from __future__ import annotations

import ctypes
import logging
import math
import struct
from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from mooncake.store import MooncakeDistributedStore, ReplicateConfig

INVALID_PARAMS = -600
MAGIC, VERSION = 0x4D4F4F4E, 1
FULL, SHARD = 0, 1
TENSOR_PARALLEL = 1
MAX_DIMS, MAX_AXES = 8, 4

# magic, version, header_size, dtype, ndim, layout_kind, reserved, data_offset,
# data_bytes
HEADER = struct.Struct("<IHHiiIIQQ")
# global_shape, local_shape, axis_count, reserved
LAYOUT = struct.Struct("<8q8qII")
# kind, axis_index, shard_rank, shard_count, split_dim, reserved
AXIS = struct.Struct("<Iiiiiiq")
METADATA = HEADER.size + LAYOUT.size + MAX_AXES * AXIS.size

# Their numbers in the header are their places here.
_NAMES = ["float32", "float64", "int8", "uint8", "int16", "uint16", "int32",
          "uint32", "int64", "uint64", "bool", "float16", "bfloat16",
          "float8_e4m3fn", "float8_e5m2"]
DTYPES = [getattr(torch, name, None) for name in _NAMES]

_log = logging.getLogger("mooncake.store")

Shard = tuple[Sequence[int], int, int, int]  # whole shape, rank, count, dim


def metadata_of(tensor: torch.Tensor, shard: Shard | None = None) -> bytes:
    """ValueError: a tensor that the layout has no words for."""
    if tensor.dtype not in DTYPES or tensor.dim() > MAX_DIMS:
        raise ValueError(f"{tensor.dtype} of {tensor.dim()} dimensions")
    local = list(tensor.shape) + [0] * (MAX_DIMS - tensor.dim())
    whole = local
    axes = b""
    if shard is not None:
        shape, rank, count, dim = shard
        whole = list(shape) + [0] * (MAX_DIMS - len(shape))
        axes = AXIS.pack(TENSOR_PARALLEL, 0, rank, count, dim, 0, 0)
    header = HEADER.pack(
        MAGIC, VERSION, HEADER.size, DTYPES.index(tensor.dtype), tensor.dim(),
        FULL if shard is None else SHARD, 0, METADATA,
        tensor.numel() * tensor.element_size())
    layout = LAYOUT.pack(*whole, *local, 0 if shard is None else 1, 0)
    return (header + layout + axes).ljust(METADATA, b"\0")


def read_metadata(data: bytes, size: int) -> tuple[torch.dtype, list[int], int]:
    """dtype, shape and where the data begins, of a value of so many bytes.

    ValueError: it is no tensor. Nothing of it is believed.
    """
    if len(data) < METADATA or size < METADATA:
        raise ValueError("too short")
    (magic, version, _, number, n_dims, _, _, offset,
     length) = HEADER.unpack_from(data)
    shape = list(LAYOUT.unpack_from(data, HEADER.size)[8:8 + max(n_dims, 0)])
    if (magic != MAGIC or version != VERSION
            or not 0 <= number < len(DTYPES) or DTYPES[number] is None
            or not 0 <= n_dims <= MAX_DIMS or any(n < 0 for n in shape)):
        raise ValueError("no metadata of a tensor")
    dtype = DTYPES[number]
    wanted = math.prod(shape) * torch.empty((), dtype=dtype).element_size()
    if length != wanted or offset < METADATA or offset + length > size:
        raise ValueError("its data is not where it says")
    return dtype, shape, offset


def _check(tensor: object, name: str) -> torch.Tensor:
    if not isinstance(tensor, torch.Tensor):
        raise TypeError(f"{name} must be a torch.Tensor, not {type(tensor)}")
    return tensor


def _write(store: MooncakeDistributedStore, keys: Sequence[str],
           tensors: Sequence[torch.Tensor], config: ReplicateConfig | None,
           upsert: bool, shards: Sequence[Shard] | None = None) -> list[int]:
    """Metadata and data as two pieces of each value."""
    if len(keys) != len(tensors):
        _log.warning("tensors_list has %d entries for %d keys", len(tensors),
                     len(keys))
        return [INVALID_PARAMS] * len(keys)
    held, addrs, sizes = [], [], []
    for i, one in enumerate(tensors):
        tensor = _check(one, "tensors_list").detach().cpu().contiguous()
        length = tensor.numel() * tensor.element_size()
        try:
            metadata = metadata_of(tensor, shards[i] if shards else None)
        except ValueError as error:
            _log.warning("tensor of key %d: no layout for %s", i, error)
            metadata, length = b"", 0
        head = ctypes.create_string_buffer(metadata, METADATA)
        held.append((tensor, head))
        addrs.append([ctypes.addressof(head)] + [tensor.data_ptr()] * (length > 0))
        sizes.append([METADATA if metadata else 0] + [length] * (length > 0))
    method = (store.batch_upsert_from_multi_buffers if upsert
              else store.batch_put_from_multi_buffers)
    return method(keys, addrs, sizes, config)


def _at(addr: int, size: int) -> torch.Tensor | None:
    """The tensor of a value at an address, as part of that memory."""
    try:
        dtype, shape, offset = read_metadata(
            ctypes.string_at(addr, min(size, METADATA)), size)
    except ValueError as error:
        _log.warning("the value is no tensor: %s", error)
        return None
    if not math.prod(shape):
        return torch.empty(shape, dtype=dtype)
    memory = (ctypes.c_char * (size - offset)).from_address(addr + offset)
    return torch.frombuffer(memory, dtype=dtype,
                            count=math.prod(shape)).reshape(shape)


# ---- whole tensors ----


def _write_one(store, key, tensor, config, upsert):
    return _write(store, [key], [_check(tensor, "tensor")], config, upsert)[0]


def put_tensor(store, key, tensor):
    return _write_one(store, key, tensor, None, False)


def batch_put_tensor(store, keys, tensors_list):
    return _write(store, keys, tensors_list, None, False)


def pub_tensor(store, key, tensor, config=None):
    return _write_one(store, key, tensor, config, False)


def batch_pub_tensor(store, keys, tensors_list, config=None):
    return _write(store, keys, tensors_list, config, False)


def upsert_tensor(store, key, tensor):
    return _write_one(store, key, tensor, None, True)


def batch_upsert_tensor(store, keys, tensors_list):
    return _write(store, keys, tensors_list, None, True)


def upsert_pub_tensor(store, key, tensor, config=None):
    return _write_one(store, key, tensor, config, True)


def batch_upsert_pub_tensor(store, keys, tensors_list, config=None):
    return _write(store, keys, tensors_list, config, True)


def get_tensor(store, key):
    return batch_get_tensor(store, [key])[0]


def batch_get_tensor(store, keys):
    tensors = []
    for handle in store.batch_get_buffer(keys):
        tensor = None if handle is None else _at(handle.ptr(), handle.size())
        # A copy: the handle's memory goes with it.
        tensors.append(None if tensor is None else tensor.clone())
    return tensors


# ---- memory of the caller's ----


def get_tensor_into(store, key, buffer_ptr, size):
    return batch_get_tensor_into(store, [key], [buffer_ptr], [size])[0]


def batch_get_tensor_into(store, keys, buffer_ptrs, sizes):
    got = store.batch_get_into(keys, buffer_ptrs, sizes)
    return [_at(addr, size) if size > 0 else None
            for addr, size in zip(buffer_ptrs, got)] + [None] * (
                len(got) - len(buffer_ptrs))


def put_tensor_from(store, key, buffer_ptr, size):
    return store.put_from(key, buffer_ptr, size)


def batch_put_tensor_from(store, keys, buffer_ptrs, sizes):
    return store.batch_put_from(keys, buffer_ptrs, sizes)


def upsert_tensor_from(store, key, buffer_ptr, size):
    return store.upsert_from(key, buffer_ptr, size)


def batch_upsert_tensor_from(store, keys, buffer_ptrs, sizes):
    return store.batch_upsert_from(keys, buffer_ptrs, sizes)


# ---- shards of tensor parallelism ----


def shard_key(key: str, rank: int) -> str:
    return f"{key}_tp_{rank}"


def pub_tensor_with_tp(store, key, tensor, config=None, tp_rank=0, tp_size=1,
                       split_dim=0):
    """All shards at once, whatever the rank."""
    _check(tensor, "tensor")
    if tp_size <= 1:
        return pub_tensor(store, key, tensor, config)
    if not 0 <= tp_rank < tp_size or not 0 <= split_dim < tensor.dim():
        _log.warning("tp_rank, tp_size or split_dim is out of range")
        return INVALID_PARAMS
    parts = tensor.chunk(tp_size, split_dim)
    if len(parts) != tp_size:
        _log.warning("tp_size is more than the tensor can be split into")
        return INVALID_PARAMS
    shards = [(tensor.shape, rank, tp_size, split_dim)
              for rank in range(tp_size)]
    codes = _write(store, [shard_key(key, rank) for rank in range(tp_size)],
                   parts, config, False, shards)
    return next((code for code in codes if code), 0)


def put_tensor_with_tp(store, key, tensor, tp_rank=0, tp_size=1, split_dim=0):
    return pub_tensor_with_tp(store, key, tensor, None, tp_rank, tp_size,
                              split_dim)


def batch_pub_tensor_with_tp(store, base_keys, tensors_list, config=None,
                             tp_rank=0, tp_size=1, split_dim=0):
    if len(base_keys) != len(tensors_list):
        _log.warning("tensors_list has %d entries for %d keys",
                     len(tensors_list), len(base_keys))
        return [INVALID_PARAMS] * len(base_keys)
    return [pub_tensor_with_tp(store, key, tensor, config, tp_rank, tp_size,
                               split_dim)
            for key, tensor in zip(base_keys, tensors_list)]


def batch_put_tensor_with_tp(store, base_keys, tensors_list, tp_rank=0,
                             tp_size=1, split_dim=0):
    return batch_pub_tensor_with_tp(store, base_keys, tensors_list, None,
                                    tp_rank, tp_size, split_dim)


def get_tensor_with_tp(store, key, tp_rank=0, tp_size=1, split_dim=0):
    """The shard; how it was split is told by its metadata alone."""
    return batch_get_tensor_with_tp(store, [key], tp_rank, tp_size)[0]


def batch_get_tensor_with_tp(store, base_keys, tp_rank=0, tp_size=1):
    if tp_size <= 1:
        return batch_get_tensor(store, base_keys)
    return batch_get_tensor(store, [shard_key(key, tp_rank)
                                    for key in base_keys])
