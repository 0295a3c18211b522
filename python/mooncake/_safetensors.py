# SPDX-License-Identifier: Apache-2.0
"""Tensors in files of safetensors' format: methods of MooncakeDistributedStore.

A file is the length of a header, the header in JSON, and the data of the tensors.
The package safetensors is not needed; nothing that a file says is believed.
"""
from __future__ import annotations

import json
import logging
import math
import os

from mooncake._needs import torch
from mooncake._tensors import INVALID_PARAMS, OBJECT_NOT_FOUND

HEADER_MAX = 100 << 20  # as the format has it

# Names of the format and of torch, of which an old one has not all.
_TYPES = {"F32": "float32", "F64": "float64", "F16": "float16",
          "BF16": "bfloat16", "I8": "int8", "U8": "uint8", "I16": "int16",
          "U16": "uint16", "I32": "int32", "U32": "uint32", "I64": "int64",
          "U64": "uint64", "BOOL": "bool", "F8_E4M3": "float8_e4m3fn",
          "F8_E5M2": "float8_e5m2"}
DTYPES = {name: getattr(torch, of_torch) for name, of_torch in _TYPES.items()
          if hasattr(torch, of_torch)}
_NAMES = {dtype: name for name, dtype in DTYPES.items()}

_log = logging.getLogger("mooncake.store")


def encode(name: str, tensor: torch.Tensor) -> list[bytes | memoryview]:
    """A file of one tensor, in parts."""
    data = tensor.contiguous().reshape(-1).view(torch.uint8).numpy()
    header = json.dumps({name: {
        "dtype": _NAMES[tensor.dtype], "shape": list(tensor.shape),
        "data_offsets": [0, data.nbytes]}}).encode()
    header += b" " * (-len(header) % 8)
    return [len(header).to_bytes(8, "little"), header, memoryview(data)]


def decode(data: bytes, name: str) -> torch.Tensor:
    """The tensor of that name, or the only one. ValueError: no such file."""
    length = int.from_bytes(data[:8], "little")
    if len(data) < 8 or length > min(HEADER_MAX, len(data) - 8):
        raise ValueError("its header is longer than it")
    try:
        header = json.loads(data[8:8 + length])
    except (ValueError, RecursionError):
        raise ValueError("its header is no JSON") from None
    if not isinstance(header, dict):
        raise ValueError("its header is no object")
    header.pop("__metadata__", None)
    if name not in header and len(header) != 1:
        raise ValueError(f"{len(header)} tensors are in it, and none is {name!r}")
    entry = header.get(name) or next(iter(header.values()))
    return _tensor_of(entry, memoryview(data)[8 + length:])


def _tensor_of(entry: object, data: memoryview) -> torch.Tensor:
    if not isinstance(entry, dict):
        raise ValueError("what it says of the tensor is no object")
    dtype = DTYPES.get(str(entry.get("dtype")))
    shape, offsets = entry.get("shape"), entry.get("data_offsets")
    for numbers in (shape, offsets):
        if not isinstance(numbers, list) or not all(
                type(number) is int and 0 <= number < 1 << 63
                for number in numbers):
            raise ValueError("shape and data_offsets are not numbers")
    if dtype is None or len(offsets) != 2:
        raise ValueError("no such tensor is possible")
    begin, end = offsets
    if (not begin <= end <= len(data)
            or end - begin != math.prod(shape) * dtype.itemsize):
        raise ValueError("its data is not where it says")
    if begin == end:
        return torch.empty(shape, dtype=dtype)
    return torch.frombuffer(bytearray(data[begin:end]), dtype=dtype).reshape(shape)


def save_tensor_to_safetensor(store, key, file_name=None):
    tensor = store.get_tensor(key)
    if tensor is None:
        return OBJECT_NOT_FOUND
    path = os.fspath(key if file_name is None else file_name)
    try:
        with open(path, "wb") as file:
            file.writelines(encode(key, tensor))
    except OSError as error:
        _log.warning("file_name: %s", error)
        return INVALID_PARAMS
    return 0


def load_tensor_from_safetensor(store, key=None, file_name=None):
    path = key if file_name is None else file_name
    if path is None:
        _log.warning("neither key nor file_name says what to load")
        return None
    path = os.fspath(path)
    key = path if key is None else key
    try:
        with open(path, "rb") as file:
            tensor = decode(file.read(), key)
    except (OSError, ValueError, RuntimeError) as error:
        _log.warning("file_name: %s: %s", path, error)
        return None
    return tensor if store.put_tensor(key, tensor) == 0 else None
