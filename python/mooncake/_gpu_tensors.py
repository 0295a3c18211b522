# SPDX-License-Identifier: Apache-2.0
"""Stored tensors into tensors of a GPU: get_tensor_into_cuda() and its batch.

Memory that is registered is read into straight. Other memory, and all of a dummy's,
whose daemon cannot reach it, is copied into by the GPU's driver from where the value
lies in memory of the host. torch is not needed here: a tensor is what has its methods.
"""
from __future__ import annotations

import ctypes
import logging
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from mooncake.store import _copy_to_gpus

from mooncake._layout import METADATA, NAMES, read_stored

if TYPE_CHECKING:
    from mooncake.store import MooncakeDistributedStore

INVALID_PARAMS = -600
OBJECT_NOT_FOUND = -704
TRANSFER_FAIL = -800

_log = logging.getLogger("mooncake.store")


class Place(NamedTuple):
    """Memory of a GPU that a tensor has."""

    addr: int
    length: int  # bytes
    count: int  # of elements
    dtype: str  # as in NAMES


def _place_of(tensor: Any) -> Place | None:
    """None: it has no memory in one piece; said why."""
    count, size = tensor.numel(), tensor.element_size()
    if not tensor.is_contiguous():
        _log.warning("tensor: it has to be contiguous")
        return None
    return Place(tensor.data_ptr(), count * size, count,
                 str(tensor.dtype).removeprefix("torch."))


def _data_of(place: Place, head: bytes, size: int | None) -> int | None:
    """Where in a value of so many bytes, if that is known, the data begins.

    None: it is none; said why.
    """
    try:
        number, shape, _, offset, length = read_stored(head, size)
    except ValueError as error:
        _log.warning("the value is no tensor: %s", error)
        return None
    if (NAMES[number] == place.dtype and math.prod(shape) == place.count
            and length == place.length):
        return offset
    _log.warning("tensor: it has to be as large as what is stored, and of its type")
    return None


def _why_not(store: MooncakeDistributedStore, key: str) -> int:
    """The code of a key that could not be read."""
    return min(store.get_size(key), 0) or OBJECT_NOT_FOUND


# ---- into registered memory ----


def _read_heads(store: MooncakeDistributedStore, keys: Sequence[str],
                places: Sequence[Place]) -> list[int]:
    """For each key where its data begins, or a code."""
    heads = ctypes.create_string_buffer(METADATA * len(keys))
    starts = range(0, len(heads), METADATA)
    (got,) = store.get_into_ranges(
        [ctypes.addressof(heads)], [list(keys)], [[[at] for at in starts]],
        [[[0]] * len(keys)], [[[METADATA]] * len(keys)])
    offsets = [_data_of(place, heads.raw[at:at + METADATA], None)
               if n == METADATA else None
               for place, at, (n,) in zip(places, starts, got)]
    return [offset or min(n, 0) or INVALID_PARAMS
            for offset, (n,) in zip(offsets, got)]


def _read_straight(store: MooncakeDistributedStore, keys: Sequence[str],
                   places: Sequence[Place]) -> list[int]:
    """Values whole, so that they are verified: metadata to the host, data to the GPU.

    The metadata says first whether the data belongs there.
    """
    results = _read_heads(store, keys, places)
    fit = [i for i, offset in enumerate(results) if offset > 0]
    heads = {i: ctypes.create_string_buffer(results[i]) for i in fit}
    got = store.batch_get_into_multi_buffers(
        [keys[i] for i in fit],
        [[ctypes.addressof(heads[i]), places[i].addr] for i in fit],
        [[results[i], places[i].length] for i in fit]) if fit else []
    for i, n in zip(fit, got):
        # It may have been replaced since.
        same = n > 0 and _data_of(places[i], heads[i].raw, n) == results[i]
        results[i] = places[i].length if same else min(n, 0) or INVALID_PARAMS
    return results


# ---- by way of the host ----


def _copy(places: Sequence[Place], sources: Sequence[int]) -> list[int]:
    """The bytes of each place, or a code, from these addresses of the host."""
    if _copy_to_gpus([place.addr for place in places], sources,
                     [place.length for place in places]):
        return [place.length for place in places]
    if len(places) == 1:
        return [TRANSFER_FAIL]
    return [_copy([place], [source])[0] for place, source in zip(places, sources)]


def _read_by_host(store: MooncakeDistributedStore, keys: Sequence[str],
                  places: Sequence[Place]) -> list[int]:
    results = [INVALID_PARAMS] * len(keys)
    values = store.batch_get_buffer(keys)
    sources: dict[int, int] = {}
    for i, (key, place, value) in enumerate(zip(keys, places, values)):
        if value is None:
            results[i] = _why_not(store, key)
            continue
        at, size = value.ptr(), value.size()
        offset = _data_of(place, ctypes.string_at(at, min(size, METADATA)), size)
        if offset and place.length:
            sources[i] = at + offset
        elif offset:
            results[i] = 0
    copied = _copy([places[i] for i in sources],
                   list(sources.values())) if sources else []
    for i, n in zip(sources, copied):
        results[i] = n
    return results


# ---- the methods ----


def _read_into_gpus(store: MooncakeDistributedStore, keys: Sequence[str],
                    tensors: Sequence[Any]) -> list[int]:
    results = [INVALID_PARAMS] * len(keys)
    ways: dict[Any, list[tuple[int, Place]]] = {_read_straight: [], _read_by_host: []}
    for i, tensor in enumerate(tensors):
        place = _place_of(tensor)
        if place is None:
            continue
        is_registered = place.length <= store._registered_bytes(place.addr)
        ways[_read_straight if place.length and is_registered
             else _read_by_host].append((i, place))
    for way, chosen in ways.items():
        got = way(store, [keys[i] for i, _ in chosen],
                  [place for _, place in chosen]) if chosen else []
        for (i, _), n in zip(chosen, got):
            results[i] = n
    return results


def _read_into_others(store: MooncakeDistributedStore, keys: Sequence[str],
                      tensors: Sequence[Any]) -> list[int]:
    from mooncake import _tensors

    return [_tensors.fill(tensor, value,
                          _why_not(store, key) if value is None else 0)
            for key, tensor, value in zip(keys, tensors,
                                          store.batch_get_buffer(keys))]


def get_tensor_into_cuda(store, key, tensor):
    return batch_get_tensor_into_cuda(store, [key], [tensor])[0]


def batch_get_tensor_into_cuda(store, keys, tensors_list):
    if (not isinstance(tensors_list, (list, tuple))
            or len(tensors_list) != len(keys)):
        _log.warning("tensors_list is no list, or not of one entry for each of "
                     "%d keys", len(keys))
        return [INVALID_PARAMS] * len(keys)
    if store.health_check() == 1:  # not set up
        return [INVALID_PARAMS] * len(keys)
    results = [INVALID_PARAMS] * len(keys)
    of_gpu = [bool(getattr(one, "is_cuda", False)) for one in tensors_list]
    for read, is_gpu in (_read_into_gpus, True), (_read_into_others, False):
        chosen = [i for i, one in enumerate(of_gpu) if one == is_gpu]
        got = read(store, [keys[i] for i in chosen],
                   [tensors_list[i] for i in chosen]) if chosen else []
        for i, n in zip(chosen, got):
            results[i] = n
    return results
