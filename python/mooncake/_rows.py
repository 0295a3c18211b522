# SPDX-License-Identifier: Apache-2.0
"""Values of any kind as bytes, a row each: columns that are no tensors.

A row is the length of a head, the head, and the bytes of the arrays in it. The head
is JSON, in which an object has one name: d, a dictionary; u, a tuple; b, bytes;
a, an array of numpy; s, a number of numpy; t, a tensor of torch; n, a list of
numbers. What comes back is of the kind that was given. No code is ever run.
"""
from __future__ import annotations

import json
import math
import re
import struct
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

from mooncake._bundle import is_count
from mooncake._layout import NAMES, has_strides

_LENGTH = struct.Struct("<I")
_DTYPE = re.compile(r"[<>|=]?[biufc]\d{1,2}\Z|[<>|=]?[SU]\d{1,9}\Z")


def torch_tensor(value: object) -> bool:
    """Whether it is one, without reading torch for the answer."""
    return type(value).__module__.partition(".")[0] == "torch" and hasattr(
        value, "data_ptr")


def dtype_of(name: object) -> np.dtype:
    """Of numbers or text, never of objects. ValueError: it is another."""
    if not isinstance(name, str) or not _DTYPE.match(name):
        raise ValueError(f"no type of elements is {name!r}")
    try:
        return np.dtype(name)
    except TypeError:
        raise ValueError(f"no type of elements is {name!r}") from None


def torch_dtype(name: object) -> Any:
    """ValueError: it is another. ImportError: there is no torch."""
    if name not in NAMES:
        raise ValueError(f"no type of elements is {name!r}")
    import torch

    if not hasattr(torch, name):
        raise ValueError(f"this torch has no {name}")
    return getattr(torch, name)


def torch_name(tensor: Any) -> str:
    """TypeError: a tensor that cannot be stored."""
    name = str(tensor.dtype).rpartition(".")[2]
    if name not in NAMES:
        raise TypeError(f"a tensor of {tensor.dtype} cannot be stored")
    return name


def check_text(array: np.ndarray) -> np.ndarray:
    """The array. ValueError: text of what are no characters."""
    if array.dtype.kind == "U":
        codes = array.reshape(-1).view(array.dtype.str[0] + "u4")
        if codes.max(initial=0) > sys.maxunicode:
            raise ValueError("text of what are no characters")
    return array


def shape_of(shape: object, itemsize: int, length: int) -> tuple[int, ...]:
    """ValueError: so many elements are not so many bytes."""
    if (not isinstance(shape, list) or not all(is_count(n) for n in shape)
            or len(shape) > 32 or math.prod(shape) * itemsize != length
            or not has_strides(shape, itemsize)):
        raise ValueError(f"{shape!r} is not the shape of {length} bytes")
    return tuple(shape)


# ---- encoding ----


class _Encoder:
    def __init__(self) -> None:
        self.parts: list[bytes] = []
        self.length = 0

    def attach(self, data: bytes) -> list[int]:
        """Where it will lie."""
        place = [self.length, len(data)]
        self.parts.append(data)
        self.length += len(data)
        return place

    def array(self, array: np.ndarray) -> list[Any]:
        if not _DTYPE.match(array.dtype.str):
            raise TypeError(f"an array of {array.dtype} cannot be stored")
        return [array.dtype.str, list(array.shape), *self.attach(array.tobytes())]

    def tensor(self, tensor: Any) -> list[Any]:
        import torch

        whole = tensor.detach().cpu().contiguous()
        data = whole.reshape(-1).view(torch.uint8).numpy().tobytes()
        return [torch_name(whole), list(whole.shape), *self.attach(data)]

    def numbers(self, values: list[Any]) -> list[Any] | None:
        """A list of many numbers of one kind as an array; None: it is none."""
        kind = type(values[0]) if len(values) > 8 else None
        if kind not in (int, float) or any(type(v) is not kind for v in values):
            return None
        try:
            array = np.array(values, np.int64 if kind is int else np.float64)
        except OverflowError:
            return None
        return self.array(array)

    def tree(self, value: Any) -> Any:
        if value is None or type(value) in (bool, int, float, str):
            return value
        if isinstance(value, (bytes, bytearray, memoryview)):
            return {"b": self.attach(bytes(value))}
        if isinstance(value, np.ndarray):
            if value.dtype.hasobject:
                return self.tree(value.tolist())
            return {"a": self.array(value)}
        if isinstance(value, np.generic):
            return {"s": self.array(np.asarray(value))}
        if torch_tensor(value):
            return {"t": self.tensor(value)}
        if isinstance(value, dict):
            if not all(isinstance(key, str) for key in value):
                raise TypeError("a dictionary whose keys are not str")
            return {"d": {key: self.tree(one) for key, one in value.items()}}
        if isinstance(value, tuple):
            return {"u": [self.tree(one) for one in value]}
        if isinstance(value, list):
            numbers = self.numbers(value)
            return {"n": numbers} if numbers else [self.tree(v) for v in value]
        raise TypeError(f"a {type(value).__name__} cannot be stored")


def encode(value: Any, as_list: np.dtype | None = None) -> bytes:
    """TypeError: it, or something in it, cannot be stored.

    With as_list it is a list of numbers of that type.
    """
    encoder = _Encoder()
    try:
        tree = ({"n": encoder.array(np.asarray(value, as_list))}
                if as_list is not None else encoder.tree(value))
        head = json.dumps(tree, separators=(",", ":")).encode()
    except RecursionError:
        raise TypeError("what holds itself cannot be stored") from None
    return b"".join([_LENGTH.pack(len(head)), head, *encoder.parts])


# ---- decoding ----


class _Decoder:
    def __init__(self, data: memoryview) -> None:
        self.data = data

    def bytes_at(self, place: Sequence[Any]) -> memoryview:
        offset, length = place
        if (not is_count(offset) or not is_count(length)
                or offset + length > len(self.data)):
            raise ValueError("bytes beyond its end")
        return self.data[offset:offset + length]

    def array(self, what: Sequence[Any]) -> np.ndarray:
        name, shape, *place = what
        data = self.bytes_at(place)
        dtype = dtype_of(name)
        shape = shape_of(shape, dtype.itemsize, len(data))
        if not dtype.itemsize:
            raise ValueError("elements of no bytes")
        return check_text(np.frombuffer(data, dtype).reshape(shape).copy())

    def tensor(self, what: Sequence[Any]) -> Any:
        name, shape, *place = what
        data = self.bytes_at(place)
        dtype = torch_dtype(name)
        import torch

        shape = shape_of(shape, dtype.itemsize, len(data))
        if not len(data):
            return torch.empty(shape, dtype=dtype)
        return torch.frombuffer(bytearray(data), dtype=dtype).reshape(shape)

    def value(self, tree: Any) -> Any:
        if isinstance(tree, list):
            return [self.value(one) for one in tree]
        if not isinstance(tree, dict):
            return tree
        (kind, what), = tree.items()
        if kind == "d":
            return {key: self.value(one) for key, one in what.items()}
        if kind == "u":
            return tuple(self.value(one) for one in what)
        if kind == "b":
            return bytes(self.bytes_at(what))
        if kind == "t":
            return self.tensor(what)
        if kind == "a":
            return self.array(what)
        if kind == "s":
            return self.array(what)[()]
        if kind == "n":
            return self.array(what).tolist()
        raise ValueError(f"nothing is called {kind!r}")


def decode(data: bytes | memoryview) -> Any:
    """ValueError: nobody has encoded this."""
    data = memoryview(data)
    try:
        (length,) = _LENGTH.unpack_from(data)
        if length > len(data) - _LENGTH.size:
            raise ValueError("its head is longer than it")
        head = json.loads(bytes(data[_LENGTH.size:_LENGTH.size + length]))
        return _Decoder(data[_LENGTH.size + length:]).value(head)
    except (struct.error, ValueError, TypeError, AttributeError,
            RecursionError) as error:
        raise ValueError(f"a row is malformed: {error}") from None
