# SPDX-License-Identifier: Apache-2.0
"""How a tensor is laid down in a value; torch is not needed."""
from __future__ import annotations

import math
import struct
from collections.abc import Sequence

from mooncake._parallelism import MAX_AXES

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


def _tensor_metadata_size() -> int:
    return METADATA
