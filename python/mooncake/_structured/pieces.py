# SPDX-License-Identifier: Apache-2.0
"""Columns whose rows are bytes, or are written as bytes: text, JSON, MessagePack.

data has the bytes of all rows back to back, offsets where each begins and the last
ends, nulls which rows have no value; those have no bytes either.
"""
from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from mooncake._structured import msgpack
from mooncake._structured.payloads import _MultiBufferPayload
from mooncake._structured.ragged import (
    Metadata, Payload, null_flags, offsets_of, payload_bytes, row_flags,
    row_offsets)

def back_to_back(pieces: Sequence[Any]) -> _MultiBufferPayload:
    """Bytes of rows as one payload; they are not copied."""
    return _MultiBufferPayload(tuple(
        memoryview(piece) for piece in pieces if len(piece)))


def bytes_like(value: Any) -> Any:
    """Its bytes, contiguous. TypeError: it is no bytes."""
    if isinstance(value, memoryview):
        return (value.cast("B") if value.c_contiguous and value.nbytes
                else value.tobytes())
    if not isinstance(value, (bytes, bytearray)):
        raise TypeError(f"a {type(value).__name__} is no bytes")
    return value


def _encode(values: Sequence[Any], encode: Callable[[Any], Any]) -> Payload:
    pieces = [b"" if row is None else encode(row) for row in values]
    return {"data": back_to_back(pieces),
            "offsets": offsets_of([len(piece) for piece in pieces]),
            "nulls": null_flags(values)}


def _parts(payload: Payload,
           rows: int) -> tuple[memoryview, np.ndarray, np.ndarray]:
    """data, offsets and nulls. ValueError: it is malformed."""
    if "data" not in payload:
        raise ValueError("the payload 'data' is missing")
    data = payload_bytes(payload["data"])
    return (data, row_offsets(payload, "offsets", rows, len(data)),
            row_flags(payload, "nulls", rows))


def pieces_of(payload: Payload, rows: int) -> list[memoryview | None]:
    """The bytes of each row, or None. ValueError: it is malformed."""
    data, offsets, nulls = _parts(payload, rows)
    bounds = offsets.tolist()
    return [None if null else data[begin:end]
            for null, begin, end in zip(nulls.tolist(), bounds, bounds[1:])]


def _decode(payload: Payload, rows: int,
            decode: Callable[[memoryview], Any]) -> list[Any]:
    return [None if piece is None else decode(piece)
            for piece in pieces_of(payload, rows)]


# ---- bytes, text, JSON ----


def encode_bytes(values: Sequence[Any]) -> tuple[Payload, Metadata]:
    """TypeError: a row is no bytes."""
    return _encode(values, bytes_like), {}


def decode_bytes(payload: Payload, rows: int, metadata: Metadata) -> list[Any]:
    """Rows as bytes."""
    return _decode(payload, rows, bytes)


def encode_utf8(values: Sequence[Any]) -> tuple[Payload, Metadata]:
    """AttributeError: a row is no str."""
    return _encode(values, lambda row: row.encode("utf-8")), {}


def decode_utf8(payload: Payload, rows: int, metadata: Metadata) -> list[Any]:
    """Rows as str. ValueError: they are none."""
    return _decode(payload, rows, lambda piece: str(piece, "utf-8"))


def _to_json(value: Any) -> bytes:
    try:
        return json.dumps(value, ensure_ascii=False,
                          separators=(",", ":")).encode("utf-8")
    except RecursionError:
        raise ValueError("a row is nested too deep for JSON") from None


def _of_json(piece: memoryview) -> Any:
    try:
        return json.loads(str(piece, "utf-8"))
    except RecursionError:
        raise ValueError("a row of JSON is nested too deep") from None


def encode_json(values: Sequence[Any]) -> tuple[Payload, Metadata]:
    """TypeError, ValueError: JSON has no word for a row."""
    return _encode(values, _to_json), {}


def decode_json(payload: Payload, rows: int, metadata: Metadata) -> list[Any]:
    """Rows as values of JSON. ValueError: they are none."""
    return _decode(payload, rows, _of_json)


# ---- MessagePack ----


def encode_msgpack(path: str, values: Sequence[Any]) -> tuple[Payload, Metadata]:
    """TypeError, ValueError, OverflowError: a row has what MessagePack has not."""
    pack, made = msgpack.packer(), []
    for i, row in enumerate(values):
        try:
            made.append(b"" if row is None else pack(row))
        except (TypeError, ValueError, OverflowError) as error:
            kind = (ValueError if isinstance(error, ValueError)
                    else type(error))  # what is no Unicode has no text of ours
            raise kind(f"{path}: row {i} cannot be stored as msgpack_ragged: "
                       f"{error}") from None
    return {"data": b"".join(made), "offsets": offsets_of(list(map(len, made))),
            "nulls": null_flags(values)}, {}


def _encode_msgpack_ragged_values(path: str, values: Sequence[Any]
                                  ) -> tuple[Payload, Metadata]:
    """As encode_msgpack(), but a type that cannot be packed is a ValueError."""
    try:
        return encode_msgpack(path, values)
    except TypeError as error:
        raise ValueError(str(error)) from None


def _decode_msgpack_ragged_values(payload: Payload, rows: int) -> list[Any]:
    """ValueError: it is malformed."""
    data, offsets, nulls = _parts(payload, rows)
    lengths, begin = np.diff(offsets), int(offsets[0])
    if lengths[nulls].any():  # as nobody writes it: they are left out
        data, begin = memoryview(b"".join(
            [piece for piece in pieces_of(payload, rows) if piece])), 0
    bounds = [begin, *(begin + np.cumsum(lengths[~nulls])).tolist()]
    made: list[Any] = []
    try:
        msgpack.unpack_rows(data, bounds, made)
    except (ValueError, TypeError) as error:
        raise ValueError(f"msgpack_ragged: decoded {len(made)} of {rows} rows: "
                         f"{error}") from None
    if not nulls.any():
        return made
    values = iter(made)
    return [None if null else next(values) for null in nulls.tolist()]


def decode_msgpack(payload: Payload, rows: int, metadata: Metadata) -> list[Any]:
    """Rows as values of MessagePack."""
    return _decode_msgpack_ragged_values(payload, rows)


# ---- values of numpy, for codecs that know only those of Python ----


def plain(value: Any) -> Any:
    """The same of Python's types: arrays become lists, tuples too."""
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, np.ndarray):
        return plain(value.tolist())
    if isinstance(value, dict):
        return {plain(key): plain(one) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(one) for one in value]
    return value
