# SPDX-License-Identifier: Apache-2.0
"""Types of elements, by torch's names; torch is not needed."""
from __future__ import annotations

import math
from collections.abc import Sequence

# Their numbers in the metadata of a stored tensor are their places here.
NAMES = ["float32", "float64", "int8", "uint8", "int16", "uint16", "int32",
          "uint32", "int64", "uint64", "bool", "float16", "bfloat16",
          "float8_e4m3fn", "float8_e5m2"]


def has_strides(shape: Sequence[int], itemsize: int) -> bool:
    """Whether a tensor can be so, which one without elements need not."""
    return math.prod(max(n, 1) for n in shape) * itemsize < 1 << 63
