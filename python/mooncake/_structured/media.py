# SPDX-License-Identifier: Apache-2.0
"""Columns of images and bytes, and of lists of them.

An image of PIL is stored as its pixels; mode and size are in the metadata, so that
it can be made again. Where there is no PIL its row is read as bytes.
"""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from mooncake._structured.infer import is_image
from mooncake._structured.pieces import back_to_back, bytes_like, pieces_of
from mooncake._structured.ragged import (
    Metadata, Payload, null_flags, offsets_of, payload_array, payload_bytes,
    row_flags, row_offsets)

_ALWAYS: Metadata = {"media_types": ["image/raw"],
                     "encode_source": "raw_pixels_from_object"}


def _encode_items(items: Sequence[Any]) -> tuple[list[Any], Metadata]:
    """The bytes of each, and how they were made. TypeError: it is no media."""
    pieces: list[Any] = []
    encodings: list[Metadata] = []
    for item in items:
        if item is None:
            pieces.append(b"")
            encodings.append({"kind": "null"})
        elif is_image(item):
            pieces.append(item.tobytes())
            encodings.append({"kind": "pil_raw", "mode": item.mode,
                              "size": list(item.size), "format": item.format})
        else:
            pieces.append(bytes_like(item))
            encodings.append({"kind": "bytes"})
    return pieces, {**_ALWAYS, "media_encodings": encodings}


def _image_of(data: bytes, encoding: Metadata) -> Any:
    try:
        from PIL import Image
    except ImportError:
        return data
    mode, size = encoding.get("mode"), encoding.get("size")
    if not isinstance(mode, str) or not (
            isinstance(size, list) and len(size) == 2
            and all(type(side) is int and side >= 0 for side in size)
            and size[0] * size[1] <= 8 * len(data)):  # a bit is the least
        raise ValueError(f"{len(data)} bytes are no image of mode {mode!r} and "
                         f"size {size!r}")
    image = Image.frombytes(mode, tuple(size), data)
    image.format = encoding.get("format")
    return image


def _decode_item(piece: memoryview | None, encoding: Any) -> Any:
    kind = encoding.get("kind") if isinstance(encoding, dict) else encoding
    if piece is None or kind == "null":
        return None
    if kind == "pil_raw":
        return _image_of(bytes(piece), encoding)
    if kind == "bytes":
        return bytes(piece)
    raise ValueError(f"no media is encoded as {kind!r}")


def encodings_of(metadata: Metadata, count: int) -> list[Any]:
    """How each item was made; those of which nothing is said are bytes.

    ValueError: it is said of more or fewer.
    """
    encodings = metadata.get("media_encodings", [{"kind": "bytes"}] * count)
    if not isinstance(encodings, list) or len(encodings) != count:
        raise ValueError(f"media_encodings are not of {count} items")
    return encodings


def encode_media(values: Sequence[Any]) -> tuple[Payload, Metadata]:
    """Rows that are images, bytes or None. TypeError: others."""
    pieces, metadata = _encode_items(values)
    return {"data": back_to_back(pieces),
            "offsets": offsets_of([len(piece) for piece in pieces]),
            "nulls": null_flags(values)}, metadata


def decode_media(payload: Payload, rows: int, metadata: Metadata) -> list[Any]:
    """Rows as images or bytes. ValueError: it is malformed."""
    return list(map(_decode_item, pieces_of(payload, rows),
                    encodings_of(metadata, rows)))


# ---- lists ----


def _check_list(row: Any, i: int) -> Sequence[Any]:
    if not isinstance(row, (list, tuple)):
        raise TypeError(f"row {i}: a {type(row).__name__} is no list of media")
    return row


def encode_media_list(values: Sequence[Any]) -> tuple[Payload, Metadata]:
    """Rows that are lists of images and bytes, or None. TypeError: others."""
    lists = [() if row is None else _check_list(row, i)
             for i, row in enumerate(values)]
    pieces, metadata = _encode_items([item for row in lists for item in row])
    return {"data": back_to_back(pieces),
            "row_offsets": offsets_of(list(map(len, lists))),
            "byte_offsets": offsets_of([len(piece) for piece in pieces]),
            "nulls": null_flags(values)}, metadata


def decode_media_list(payload: Payload, rows: int,
                      metadata: Metadata) -> list[Any]:
    """Rows as lists. ValueError: it is malformed."""
    data = payload_bytes(payload.get("data", b""))
    n_items = len(payload_array(payload, "byte_offsets", np.int64)) - 1
    items = row_offsets(payload, "row_offsets", rows, n_items).tolist()
    bounds = row_offsets(payload, "byte_offsets", n_items, len(data)).tolist()
    encodings = encodings_of(metadata, n_items)
    nulls = row_flags(payload, "nulls", rows).tolist()
    return [None if null else [
        _decode_item(data[bounds[k]:bounds[k + 1]], encodings[k])
        for k in range(begin, end)]
        for null, begin, end in zip(nulls, items, items[1:])]
