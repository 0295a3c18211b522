# SPDX-License-Identifier: Apache-2.0
"""How a tensor is laid down in a value; torch is not needed."""
from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from typing import NamedTuple

from mooncake._parallelism import MAX_AXES

MAGIC, VERSION = 0x4D4F4F4E, 1
FULL, SHARD = 0, 1
MAX_DIMS = 8

# The metadata before the data, in Mooncake's layout:
# magic, version, header_size, dtype, ndim, layout_kind, reserved, data_offset,
# data_bytes
HEADER = struct.Struct("<IHHiiIIQQ")
# global_shape, local_shape, axis_count, reserved
LAYOUT = struct.Struct("<8q8qII")
# kind, axis_index, shard_rank, shard_count, split_dim, reserved
AXIS = struct.Struct("<Iiiiiiq")
METADATA = HEADER.size + LAYOUT.size + MAX_AXES * AXIS.size

# Types of elements by torch's names; their numbers are their places here.
NAMES = ["float32", "float64", "int8", "uint8", "int16", "uint16", "int32",
          "uint32", "int64", "uint64", "bool", "float16", "bfloat16",
          "float8_e4m3fn", "float8_e5m2"]


def has_strides(shape: Sequence[int], itemsize: int) -> bool:
    """Whether a tensor can be so, which one without elements need not."""
    return math.prod(max(n, 1) for n in shape) * itemsize < 1 << 63


class Stored(NamedTuple):
    number: int  # of the type, in NAMES
    shape: list[int]
    kind: int  # FULL, SHARD
    offset: int  # of the data in the value
    length: int  # of the data


def read_stored(data: bytes, size: int | None) -> Stored:
    """What metadata says of a value of so many bytes, as far as types do not matter.

    None: it is not known how many. ValueError: it is no tensor. Nothing of it is
    believed.
    """
    if len(data) < METADATA or (size is not None and size < METADATA):
        raise ValueError("too short")
    (magic, version, _, number, n_dims, kind, _, offset,
     length) = HEADER.unpack_from(data)
    shape = list(LAYOUT.unpack_from(data, HEADER.size)[8:8 + max(n_dims, 0)])
    if (magic != MAGIC or version != VERSION or kind not in (FULL, SHARD)
            or not 0 <= number < len(NAMES) or not 0 <= n_dims <= MAX_DIMS
            or any(n < 0 for n in shape)):
        raise ValueError("no metadata of a tensor")
    if offset < METADATA or size not in (None, offset + length):
        raise ValueError("its data is not what lies behind its metadata")
    return Stored(number, shape, kind, offset, length)


def _tensor_metadata_size() -> int:
    return METADATA
