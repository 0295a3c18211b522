# SPDX-License-Identifier: Apache-2.0
"""The part of MessagePack that rows of plain values need.

Values are None, bool, int of 64 bits, float, str, bytes, list and dict, of exactly
these types; bytearray and memoryview are written as bytes. The package msgpack does
the work where it is installed, five times as fast and with the same bytes.
"""
from __future__ import annotations

import functools
import struct
from collections.abc import Callable, Sequence
from typing import Any

DEPTH_MAX = 511

_library: Any = None
try:
    import msgpack
except ImportError:
    pass
else:
    _library = msgpack


# ---- writing ----


_INT_FORMS = (  # lowest and highest value, first byte, form
    (0, 0xff, 0xcc, ">BB"), (0, 0xffff, 0xcd, ">BH"),
    (0, 0xffffffff, 0xce, ">BI"), (0, (1 << 64) - 1, 0xcf, ">BQ"),
    (-0x80, -1, 0xd0, ">Bb"), (-0x8000, -1, 0xd1, ">Bh"),
    (-0x80000000, -1, 0xd2, ">Bi"), (-(1 << 63), -1, 0xd3, ">Bq"))


def _pack_int(value: int, to: bytearray) -> None:
    if -32 <= value < 128:
        to.append(value & 0xff)
        return
    for low, high, first, form in _INT_FORMS:
        if low <= value <= high:
            to += struct.pack(form, first, value)
            return
    raise OverflowError("an int beyond 64 bits cannot be packed")


# First bytes of lengths of 0 to 15 or 31, of 8, of 16 and of 32 bits; 0: none.
_Head = tuple[int, int, int, int, int]
_STR: _Head = (0xa0, 32, 0xd9, 0xda, 0xdb)
_BIN: _Head = (0, 0, 0xc4, 0xc5, 0xc6)
_LIST: _Head = (0x90, 16, 0, 0xdc, 0xdd)
_DICT: _Head = (0x80, 16, 0, 0xde, 0xdf)


def _pack_head(head: _Head, length: int, to: bytearray) -> None:
    short, short_end, of_8, of_16, of_32 = head
    if length < short_end:
        to.append(short | length)
    elif of_8 and length < 1 << 8:
        to += struct.pack(">BB", of_8, length)
    elif length < 1 << 16:
        to += struct.pack(">BH", of_16, length)
    elif length < 1 << 32:
        to += struct.pack(">BI", of_32, length)
    else:
        raise ValueError(f"{length} are too many to be packed as one value")


def _pack_compound(value: Any, to: bytearray, depth: int) -> None:
    if depth >= DEPTH_MAX:
        raise ValueError(f"nested more than {DEPTH_MAX} deep")
    if type(value) is list:
        _pack_head(_LIST, len(value), to)
        for item in value:
            _pack(item, to, depth + 1)
    elif type(value) is dict:
        _pack_head(_DICT, len(value), to)
        for key, item in value.items():
            _pack(key, to, depth + 1)
            _pack(item, to, depth + 1)
    else:
        raise TypeError(f"a {type(value).__name__} cannot be packed")


def _pack(value: Any, to: bytearray, depth: int) -> None:
    kind = type(value)
    if kind is str:
        data = value.encode()
        _pack_head(_STR, len(data), to)
        to += data
    elif kind is int:
        _pack_int(value, to)
    elif value is None or kind is bool:
        to.append({None: 0xc0, False: 0xc2, True: 0xc3}[value])
    elif kind is float:
        to += struct.pack(">Bd", 0xcb, value)
    elif kind in (bytes, bytearray, memoryview):
        data = value.tobytes() if kind is memoryview else value
        _pack_head(_BIN, len(data), to)
        to += data
    else:
        _pack_compound(value, to, depth)


def _pack_one(value: Any) -> bytes:
    to = bytearray()
    try:
        _pack(value, to, 0)
    except RecursionError:
        raise ValueError("nested too deep") from None
    return bytes(to)


def packer() -> Callable[[Any], bytes]:
    """What packs one value after the other.

    TypeError: of another type. OverflowError: an int beyond 64 bits. ValueError:
    nested too deep, or too long.
    """
    if _library is None:
        return _pack_one
    pack: Callable[[Any], bytes] = _library.Packer(
        use_bin_type=True, strict_types=True).pack
    return pack


# ---- reading ----


_NUMBERS = {0xca: ">f", 0xcb: ">d", 0xcc: ">B", 0xcd: ">H", 0xce: ">I",
            0xcf: ">Q", 0xd0: ">b", 0xd1: ">h", 0xd2: ">i", 0xd3: ">q"}
_CONSTANTS = {0xc0: None, 0xc2: False, 0xc3: True}
_LENGTHS = {0xc4: ("bin", ">B"), 0xc5: ("bin", ">H"), 0xc6: ("bin", ">I"),
            0xd9: ("str", ">B"), 0xda: ("str", ">H"), 0xdb: ("str", ">I"),
            0xdc: ("list", ">H"), 0xdd: ("list", ">I"),
            0xde: ("dict", ">H"), 0xdf: ("dict", ">I")}


class _Unpacker:
    """Reads values from data, in which it is at an offset."""

    def __init__(self, data: memoryview) -> None:
        self.data, self.at = data, 0

    def take(self, length: int) -> memoryview:
        if length > len(self.data) - self.at:
            raise ValueError("it ends within a value")
        self.at += length
        return self.data[self.at - length:self.at]

    def number(self, form: str) -> Any:
        return struct.unpack(form, self.take(struct.calcsize(form)))[0]

    def value(self, depth: int) -> Any:
        first = self.take(1)[0]
        if first < 0x80:
            return first
        if first >= 0xe0:
            return first - 0x100
        if first in _CONSTANTS:
            return _CONSTANTS[first]
        if first in _NUMBERS:
            return self.number(_NUMBERS[first])
        if first in _LENGTHS:
            kind, form = _LENGTHS[first]
            return self.several(kind, self.number(form), depth)
        if first < 0x90:
            return self.several("dict", first & 0xf, depth)
        if first < 0xa0:
            return self.several("list", first & 0xf, depth)
        if first < 0xc0:
            return self.several("str", first & 0x1f, depth)
        raise ValueError(f"a value begins with {first:#x}")

    def several(self, kind: str, length: int, depth: int) -> Any:
        if kind == "str":
            return str(self.take(length), "utf-8")
        if kind == "bin":
            return bytes(self.take(length))
        if depth >= DEPTH_MAX:
            raise ValueError(f"nested more than {DEPTH_MAX} deep")
        if kind == "list":
            return [self.value(depth + 1) for _ in range(length)]
        made = {}
        for _ in range(length):
            key = self.value(depth + 1)
            made[key] = self.value(depth + 1)
        return made


def _refuse_extension(code: int, data: bytes) -> None:
    raise ValueError(f"an extension of type {code}")


def _unpack_one(data: memoryview) -> Any:
    unpacker = _Unpacker(data)
    try:
        value = unpacker.value(0)
    except RecursionError:
        raise ValueError("nested too deep") from None
    if unpacker.at != len(data):
        raise ValueError(f"{len(data) - unpacker.at} bytes follow a value")
    return value


_OPTIONS = {"raw": False, "strict_map_key": False, "ext_hook": _refuse_extension}


def unpacker() -> Callable[[memoryview], Any]:
    """What unpacks the one value that some bytes are.

    ValueError, TypeError: they are none, or several.
    """
    if _library is None:
        return _unpack_one
    return functools.partial(_library.unpackb, **_OPTIONS)


def _unpack_stream(data: memoryview, ends: Sequence[int], to: list[Any]) -> None:
    """By one unpacker, which takes a third of the time of one for each row."""
    stream = _library.Unpacker(max_buffer_size=len(data), **_OPTIONS)
    stream.feed(data)
    unpack, tell = stream.unpack, stream.tell
    try:
        for end in ends:
            value = unpack()
            if tell() != end:
                raise ValueError("a value does not end where its row does")
            to.append(value)
    except _library.OutOfData:
        raise ValueError("it ends within a value") from None


def unpack_rows(data: memoryview, bounds: Sequence[int], to: list[Any]) -> None:
    """Append the values of rows, each of which lies between two bounds.

    ValueError, TypeError: a row is no value, or several. Those before it are there.
    """
    if len(bounds) < 2:
        return
    begin = bounds[0]
    if _library is not None and begin < bounds[-1]:
        _unpack_stream(data[begin:bounds[-1]], [end - begin for end in bounds[1:]],
                       to)
        return
    unpack = unpacker()
    for start, end in zip(bounds, bounds[1:]):
        to.append(unpack(data[start:end]))
