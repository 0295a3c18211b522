# SPDX-License-Identifier: Apache-2.0
"""Tensors of torch as values: methods of MooncakeDistributedStore.

A value is 304 bytes of metadata in Mooncake's layout and then the data. torch is
imported here, so when the first of these methods is called.
"""
from __future__ import annotations

import ctypes
import logging
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from mooncake.store import _is_usable

from mooncake._layout import (
    AXIS, FULL, HEADER, LAYOUT, MAGIC, MAX_DIMS, METADATA, NAMES, SHARD, VERSION,
    has_strides, read_stored)
from mooncake._needs import torch
from mooncake._parallelism import KINDS, MAX_AXES, MAX_SHARDS, ParallelAxis

if TYPE_CHECKING:
    from mooncake.store import MooncakeDistributedStore, ReplicateConfig

INVALID_PARAMS = -600
OBJECT_NOT_FOUND = -704
UNUSED = -1  # dimension

DTYPES = [getattr(torch, name, None) for name in NAMES]

_log = logging.getLogger("mooncake.store")


class Layout(NamedTuple):
    """Which part of a whole a shard is."""

    whole: Sequence[int]  # its shape
    axes: Sequence[ParallelAxis]


class Metadata(NamedTuple):
    dtype: torch.dtype
    shape: list[int]
    offset: int  # of the data in the value
    layout: Layout | None  # None: it is whole


def _id_of(axis: ParallelAxis) -> int:
    """What else tells shards of its kind apart."""
    return {"ep": axis.expert_id, "pp": axis.stage_id}.get(axis.kind) or 0


def metadata_of(tensor: torch.Tensor, layout: Layout | None = None) -> bytes:
    """ValueError: a tensor that the layout has no words for."""
    whole, axes = (tensor.shape, ()) if layout is None else layout
    if (tensor.dtype not in DTYPES or tensor.dim() > MAX_DIMS
            or len(whole) > MAX_DIMS):
        raise ValueError(f"{tensor.dtype} of {tensor.dim()} dimensions")
    header = HEADER.pack(
        MAGIC, VERSION, METADATA, DTYPES.index(tensor.dtype), tensor.dim(),
        FULL if layout is None else SHARD, 0, METADATA,
        tensor.numel() * tensor.element_size())
    shapes = [dim for shape in (whole, tensor.shape)
              for dim in [*shape, *[UNUSED] * (MAX_DIMS - len(shape))]]
    packed = b"".join(
        AXIS.pack(KINDS.index(axis.kind), i, axis.rank, axis.size,
                  *((UNUSED, _id_of(axis), 0) if axis.split_dim is None else
                    (axis.split_dim, _id_of(axis),
                     tensor.shape[axis.split_dim])))
        for i, axis in enumerate(axes))
    return (header + LAYOUT.pack(*shapes, len(axes), 0) + packed).ljust(
        METADATA, b"\0")


def _read_layout(data: bytes, n_dims: int) -> Layout:
    """ValueError: it cannot be so."""
    *shapes, n_axes, _ = LAYOUT.unpack_from(data, HEADER.size)
    if n_axes > MAX_AXES or any(n < 0 for n in shapes[:n_dims]):
        raise ValueError("no layout of a shard")
    axes = []
    for i in range(n_axes):
        kind, _, rank, size, dim, _, _ = AXIS.unpack_from(
            data, HEADER.size + LAYOUT.size + i * AXIS.size)
        if (kind >= len(KINDS) or not 0 <= rank < size <= MAX_SHARDS
                or dim >= n_dims):
            raise ValueError("no axis of a shard")
        axes.append(ParallelAxis(KINDS[kind], rank, size,
                                 None if dim < 0 else dim))
    return Layout(shapes[:n_dims], axes)


def read_metadata(data: bytes, size: int) -> Metadata:
    """Of a value of so many bytes.

    ValueError: it is no tensor. Nothing of it is believed.
    """
    number, shape, kind, offset, length = read_stored(data, size)
    dtype = DTYPES[number]
    if dtype is None:
        raise ValueError("no metadata of a tensor")
    itemsize = torch.empty((), dtype=dtype).element_size()
    if not has_strides(shape, itemsize):
        raise ValueError(f"no tensor has the shape {shape}")
    if length != math.prod(shape) * itemsize:
        raise ValueError("its data is not what lies behind its metadata")
    return Metadata(dtype, shape, offset,
                    _read_layout(data, len(shape)) if kind == SHARD else None)


def are_as_many(values: object, keys: Sequence[str], name: str) -> bool:
    """Whether it is a list of one for each key; says so if not."""
    if isinstance(values, (list, tuple)) and len(values) == len(keys):
        return True
    _log.warning("%s is no list, or not of one entry for each of %d keys", name,
                 len(keys))
    return False


def are_places(buffer_ptrs: Sequence[int], sizes: Sequence[int],
               keys: Sequence[str]) -> bool:
    """Whether there is an address and a size for each key; says so if not."""
    return (are_as_many(buffer_ptrs, keys, "buffer_ptrs")
            and are_as_many(sizes, keys, "sizes"))


def is_set_up(store: MooncakeDistributedStore) -> bool:
    return store.health_check() != 1


def is_tensor(value: object) -> bool:
    """Says so if not."""
    if isinstance(value, torch.Tensor):
        return True
    _log.warning("tensor: it is no torch.Tensor, but %s", type(value))
    return False


def suits(config: ReplicateConfig | None) -> bool:
    """Whether preferred segments are one for each replica; says so if not."""
    preferred = getattr(config, "preferred_segments", ())
    if not preferred or len(preferred) == config.replica_num:
        return True
    _log.warning("config: it has %d preferred_segments for %d replicas",
                 len(preferred), config.replica_num)
    return False


def _laid_out(value: object,
              layout: Layout | None) -> tuple[bytes, torch.Tensor] | None:
    """Metadata and data; None: said why there are none."""
    if not is_tensor(value):
        return None
    try:
        tensor = value.detach().cpu().contiguous()
        return metadata_of(tensor, layout), tensor
    except ValueError as error:
        _log.warning("tensor: no layout for %s", error)
    except RuntimeError as error:  # a sparse one, or one without data
        _log.warning("tensor: %s", error)
    return None


def write(store: MooncakeDistributedStore, keys: Sequence[str],
          tensors: Sequence[torch.Tensor], config: ReplicateConfig | None,
          upsert: bool,
          layouts: Sequence[Layout | None] | None = None) -> list[int]:
    """Metadata and data as two pieces of each value."""
    if not are_as_many(tensors, keys, "tensors_list"):
        return [INVALID_PARAMS] * len(keys)
    held, addrs, sizes = [], [], []
    for i, one in enumerate(tensors):
        laid = _laid_out(one, layouts[i] if layouts else None)
        metadata, tensor = laid if laid else (b"", None)  # to be refused
        length = tensor.numel() * tensor.element_size() if laid else 0
        head = ctypes.create_string_buffer(metadata, METADATA)
        held.append((tensor, head))
        addrs.append([ctypes.addressof(head)] + (
            [tensor.data_ptr()] if length else []))
        sizes.append([len(metadata)] + ([length] if length else []))
    method = (store.batch_upsert_from_multi_buffers if upsert
              else store.batch_put_from_multi_buffers)
    return method(keys, addrs, sizes, config)


def tensor_at(addr: int, size: int) -> tuple[torch.Tensor, Metadata] | None:
    """That of a value at an address, as part of that memory."""
    try:
        metadata = read_metadata(ctypes.string_at(addr, min(size, METADATA)), size)
    except ValueError as error:
        _log.warning("the value is no tensor: %s", error)
        return None
    dtype, shape, offset, _ = metadata
    if not math.prod(shape):
        return torch.empty(shape, dtype=dtype), metadata
    memory = (ctypes.c_char * (size - offset)).from_address(addr + offset)
    return torch.frombuffer(memory, dtype=dtype,
                            count=math.prod(shape)).reshape(shape), metadata


# ---- whole tensors ----


def _pub(store, keys, tensors_list, config, upsert):
    if not suits(config):
        return [INVALID_PARAMS] * len(keys)
    return write(store, keys, tensors_list, config, upsert)


def put_tensor(store, key, tensor):
    return write(store, [key], [tensor], None, False)[0]


def batch_put_tensor(store, keys, tensors_list):
    return write(store, keys, tensors_list, None, False)


def pub_tensor(store, key, tensor, config=None):
    return _pub(store, [key], [tensor], config, False)[0]


def batch_pub_tensor(store, keys, tensors_list, config=None):
    return _pub(store, keys, tensors_list, config, False)


def upsert_tensor(store, key, tensor):
    return write(store, [key], [tensor], None, True)[0]


def batch_upsert_tensor(store, keys, tensors_list):
    return write(store, keys, tensors_list, None, True)


def upsert_pub_tensor(store, key, tensor, config=None):
    return _pub(store, [key], [tensor], config, True)[0]


def batch_upsert_pub_tensor(store, keys, tensors_list, config=None):
    return _pub(store, keys, tensors_list, config, True)


def get_tensor(store, key):
    return batch_get_tensor(store, [key])[0]


def load(store: MooncakeDistributedStore, keys: Sequence[str],
         ) -> list[tuple[torch.Tensor, Metadata] | None]:
    """With memory of their own; None: a miss, or no tensor."""
    loaded = []
    for handle in store.batch_get_buffer(keys):
        found = (None if handle is None
                 else tensor_at(handle.ptr(), handle.size()))
        # A copy: the handle's memory goes with it.
        loaded.append(found and (found[0].clone(), found[1]))
    return loaded


def batch_get_tensor(store, keys):
    return [found and found[0] for found in load(store, keys)]


# ---- memory of the caller's ----


def is_inside(store, addr: int, size: int) -> bool:
    """Whether memory that begins in registered memory ends in it, too."""
    left = store._registered_bytes(addr)
    return not left or size <= left


def get_tensor_into(store, key, buffer_ptr, size):
    found = batch_get_tensor_into(store, [key], [buffer_ptr], [size])[0]
    return found if isinstance(found, torch.Tensor) else None


def batch_get_tensor_into(store, keys, buffer_ptrs, sizes):
    """A call that cannot be has codes; a key that cannot be read has None."""
    if (not is_set_up(store) or not are_places(buffer_ptrs, sizes, keys)
            or not all(buffer_ptrs)):
        return [INVALID_PARAMS] * len(keys)
    got = store.batch_get_into(keys, buffer_ptrs, sizes)
    found = [tensor_at(addr, size) if size > 0 else None
             for addr, size in zip(buffer_ptrs, got)]
    return [one and one[0] for one in found]


def is_readable(store, addr: int, size: int) -> bool:
    """Says so if not."""
    if is_inside(store, addr, size) and _is_usable(addr, size, False):
        return True
    _log.warning("buffer_ptr: %d bytes at %#x are not readable memory", size,
                 addr)
    return False


def _is_tensor_at(store, addr: int, size: int) -> bool:
    """Whether it is one from end to end; says so if not."""
    return is_readable(store, addr, size) and tensor_at(addr, size) is not None


def _write_from(store, keys, buffer_ptrs, sizes, upsert):
    if not are_places(buffer_ptrs, sizes, keys) or not all(
            _is_tensor_at(store, *place) for place in zip(buffer_ptrs, sizes)):
        return [INVALID_PARAMS] * len(keys)
    method = store.batch_upsert_from if upsert else store.batch_put_from
    return method(keys, buffer_ptrs, sizes)


def put_tensor_from(store, key, buffer_ptr, size):
    return _write_from(store, [key], [buffer_ptr], [size], False)[0]


def batch_put_tensor_from(store, keys, buffer_ptrs, sizes):
    return _write_from(store, keys, buffer_ptrs, sizes, False)


def upsert_tensor_from(store, key, buffer_ptr, size):
    return _write_from(store, [key], [buffer_ptr], [size], True)[0]


def batch_upsert_tensor_from(store, keys, buffer_ptrs, sizes):
    return _write_from(store, keys, buffer_ptrs, sizes, True)


# ---- any other tensor; those of a GPU: _gpu_tensors.py ----


def _fill(tensor, value):
    """The data of a stored tensor into another. How many bytes, or a code."""
    found = tensor_at(value.ptr(), value.size())
    if not found:
        return INVALID_PARAMS
    stored = found[0]
    if (not tensor.is_contiguous() or tensor.dtype != stored.dtype
            or tensor.numel() != stored.numel()):
        _log.warning("tensor: it has to be contiguous, and as large as what is "
                     "stored and of its type")
        return INVALID_PARAMS
    tensor.detach().view(-1).copy_(stored.view(-1))
    return stored.numel() * stored.element_size()


def fill(tensor, value, why_not: int) -> int:
    """As get_tensor_into_cuda(); @value None: it could not be read."""
    if not is_tensor(tensor):
        return INVALID_PARAMS
    return why_not if value is None else _fill(tensor, value)


# ---- without a store ----


def _serialize_tensor(tensor):
    """Metadata, address of the data, its bytes, and what keeps them there.

    ValueError: it is no tensor, or one that the format has no words for.
    """
    if not isinstance(tensor, torch.Tensor):
        raise ValueError(f"no tensor of torch: {type(tensor)}")
    whole = tensor.detach().cpu().contiguous()
    return (metadata_of(whole), whole.data_ptr(),
            whole.numel() * whole.element_size(), whole)


def _deserialize_tensor(value):
    """A tensor of its own memory. ValueError: the value is none."""
    held = ctypes.create_string_buffer(value, len(value))
    found = tensor_at(ctypes.addressof(held), len(value))
    if not found:
        raise ValueError("the value is no tensor")
    return found[0].clone()
