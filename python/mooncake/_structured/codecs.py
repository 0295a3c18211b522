# SPDX-License-Identifier: Apache-2.0
"""Fields that are no tensors: rows of Python values as payloads, and back.

A codec turns rows into payloads, each of which becomes a member of its own, and a
metadata that is JSON. encode_field() chooses the codec by what the rows are, or uses
the one that a schema names. decode_field() needs all payloads, decode_rows() only
what belongs to some rows. Values of payloads to be written are arrays, bytes and
the classes of payloads.py; values that were read may be arrays, tensors or bytes.
Rows that are arrays or tensors are views of what was read, and keep it.

What is read is checked: a malformed payload or metadata is a ValueError.
"""
from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from mooncake._structured import media, pieces, ragged
from mooncake._structured.infer import NUMERIC, Leaf, Node, _choose_leaf_codec
from mooncake._structured.ragged import (
    Metadata, Payload, array_dtype, null_flags, payload_array, row_flags)
from mooncake._structured.recursive import (
    RECURSIVE, decode_recursive, encode_recursive, inferred, is_apart,
    structure_of)
from mooncake._structured.schema import (
    NON_TENSOR, FieldSchema, rows_of, schema_dtype)
from mooncake._structured.selection import (
    Ranges, payload_ranges, read_spans, spans_of)


@dataclass(frozen=True)
class EncodedField:
    """A field as it is stored; rows is how many it has."""

    codec: str
    rows: int
    payload: Payload
    metadata: Metadata


# ---- numbers, one a row ----


def _encode_numbers(values: Sequence[Any],
                    dtype: np.dtype) -> tuple[Payload, Metadata]:
    """Rows that are numbers or None. ValueError, TypeError: they are not."""
    filled = [0 if row is None else row for row in values]
    if dtype.kind not in NUMERIC:
        raise ValueError(f"rows of ndarray cannot be of {dtype}")
    data = np.asarray(filled, dtype)
    return {"data": data, "nulls": null_flags(values)}, {
        "dtype": str(dtype), "shape": list(data.shape)}


def _decode_numbers(payload: Payload, rows: int,
                    metadata: Metadata) -> list[Any]:
    """Rows as numbers of Python, or None."""
    data = payload_array(payload, "data", array_dtype(metadata.get("dtype")))
    shape = metadata.get("shape", [rows])
    if not isinstance(shape, list) or not all(
            type(n) is int and n >= 0 for n in shape):
        raise ValueError(f"shape is {shape!r}")
    try:
        values = data.reshape(rows, *shape[1:]).tolist()
    except ValueError:
        raise ValueError(f"{len(data)} numbers are no {rows} rows of "
                         f"{shape[1:]}") from None
    nulls = row_flags(payload, "nulls", rows).tolist()
    return [None if null else row for null, row in zip(nulls, values)]


# ---- the codecs ----


class _Codec(NamedTuple):
    """encode is of a path, rows and hints, which a schema or an inference gives."""

    encode: Callable[[str, Sequence[Any], Metadata], tuple[Payload, Metadata]]
    decode: Callable[[Payload, int, Metadata], list[Any]]


def _by_values(encode: Callable[[Sequence[Any]], tuple[Payload, Metadata]]
               ) -> Callable[[str, Sequence[Any], Metadata],
                             tuple[Payload, Metadata]]:
    return lambda path, values, hints: encode(values)


# hints: dtype, a numpy type or its name; made, arrays of the rows that have a value;
# keys, those of dictionaries.
_CODECS: dict[str, _Codec] = {
    "typed_ragged": _Codec(
        lambda path, values, hints: ragged._encode_typed_ragged_values(
            values, hints.get("dtype"), hints.get("made")),
        ragged._decode_typed_ragged_values),
    "ragged_tensor": _Codec(_by_values(ragged.encode_ragged_tensor),
                            ragged.decode_ragged_tensor),
    "ragged_tensor_dict": _Codec(
        lambda path, values, hints: ragged.encode_ragged_tensor_dict(
            values, hints.get("keys")), ragged.decode_ragged_tensor_dict),
    "ndarray": _Codec(
        lambda path, values, hints: _encode_numbers(
            values, np.dtype(hints["dtype"])), _decode_numbers),
    "bytes_ragged": _Codec(_by_values(pieces.encode_bytes),
                           pieces.decode_bytes),
    "utf8_ragged": _Codec(_by_values(pieces.encode_utf8), pieces.decode_utf8),
    "json_ragged": _Codec(_by_values(pieces.encode_json), pieces.decode_json),
    "msgpack_ragged": _Codec(
        lambda path, values, hints: pieces._encode_msgpack_ragged_values(
            path, values), pieces.decode_msgpack),
    "media_bytes": _Codec(_by_values(media.encode_media), media.decode_media),
    "media_list_ragged": _Codec(_by_values(media.encode_media_list),
                                media.decode_media_list),
}


# ---- writing: by what the rows are ----


def _encode_apart(path: str, leaves: list[Leaf], nodes: list[Node],
                  rows: int) -> EncodedField:
    payload, metadata = encode_recursive(path, leaves, nodes, _encode_column)
    return EncodedField(RECURSIVE, rows, payload, metadata)


def _encode_column(leaf: Leaf) -> tuple[Payload, Metadata]:
    if leaf.decision.codec == "msgpack_ragged":
        return pieces.encode_msgpack(leaf.path, leaf.values)
    hints = {**leaf.decision.metadata, "made": leaf.decision.made}
    return _CODECS[leaf.decision.codec].encode(leaf.path, leaf.values, hints)


def _encode_leaf(leaf: Leaf) -> EncodedField:
    payload, metadata = _encode_column(leaf)
    return EncodedField(leaf.decision.codec, len(leaf.values), payload, {
        **inferred(leaf), **leaf.decision.metadata, **metadata})


def _root_leaf(path: str, values: list[Any], leaves: list[Leaf],
               nodes: list[Node]) -> Leaf:
    """The column as one leaf, whose codec is known if it has no nodes."""
    return leaves[0] if not nodes else Leaf(path, values,
                                            _choose_leaf_codec(values))


def _encode_inferred(path: str, values: list[Any]) -> EncodedField:
    """ValueError: no codec stores such rows without a schema."""
    leaves, nodes = structure_of(path, values)
    if is_apart(leaves, nodes):
        return _encode_apart(path, leaves, nodes, len(values))
    leaf = _root_leaf(path, values, leaves, nodes)
    if not leaf.decision.accepted:
        raise ValueError("unsupported structured non-tensor field: "
                         f"{leaf.decision.reason}: {path}")
    return _encode_leaf(leaf)


def _encode_auto(path: str, values: list[Any]) -> EncodedField:
    """As inferred, else as plain values. ValueError: nothing stores them."""
    errors = []
    try:
        return _encode_inferred(path, values)
    except (TypeError, ValueError, OverflowError) as error:
        errors.append(str(error))
    for codec in ("msgpack_ragged", "json_ragged"):
        try:
            payload, metadata = _CODECS[codec].encode(
                path, pieces.plain(values), {})
        except (TypeError, ValueError, OverflowError, RecursionError) as error:
            errors.append(f"{codec}: {error}")
        else:
            return EncodedField(codec, len(values), payload, metadata)
    raise ValueError(f"{path}: unable to infer a safe codec: "
                     + "; ".join(errors))


# ---- writing: by a schema ----


def _checked_rows(name: str, values: Any, schema: FieldSchema) -> list[Any]:
    """TypeError: they are no rows. ValueError: one is None, and must not be."""
    rows = rows_of(name, values)
    nulls = [] if schema.nullable else [
        i for i, row in enumerate(rows) if row is None]
    if nulls:
        raise ValueError(f"{name}: row {nulls[0]} is None, and the field is not "
                         "nullable")
    return rows


def _encode_with_schema(path: str, values: Any,
                        schema: FieldSchema) -> EncodedField:
    """A field by the codec of its schema.

    TypeError, AttributeError, ValueError: the rows are not what it stores.
    """
    name = path.removeprefix(f"{NON_TENSOR}.")
    rows = _checked_rows(name, values, schema)
    dtype = schema_dtype(name, schema)
    if schema.codec == "auto" or (schema.codec == "ndarray" and dtype is None):
        return _encode_auto(path, rows)
    if schema.codec not in _CODECS:
        raise ValueError(f"{name}: unsupported schema codec {schema.codec!r}: it "
                         f"is none of auto, {', '.join(_CODECS)}")
    hints = {"dtype": dtype, "keys": _declared_keys(name, schema)}
    payload, metadata = _CODECS[schema.codec].encode(path, rows, hints)
    return EncodedField(schema.codec, len(rows), payload, metadata)


def _declared_keys(name: str, schema: FieldSchema) -> list[Any] | None:
    keys = schema.metadata.get("keys")
    if keys is None or schema.codec != "ragged_tensor_dict":
        return None
    if isinstance(keys, str) or not hasattr(keys, "__iter__"):
        raise TypeError(f"{name}: keys must be a list or a mapping of names, not "
                        f"a {type(keys).__name__}")
    return list(keys)


# The first of these that an error is becomes the one that is raised.
_ERRORS = (TypeError, ValueError, RuntimeError, AttributeError)


def encode_field(path: str, values: Any,
                 schema: FieldSchema | None = None) -> EncodedField:
    """A field, whose path is non_tensor_batch and its name.

    Without a schema values is an object array, or a sequence of rows; so it is
    with codec "auto". With a schema an error is of the codec's own type and names
    the field. ValueError: no codec stores such rows.
    """
    name = path.removeprefix(f"{NON_TENSOR}.")
    if schema is None:
        return _encode_inferred(path, rows_of(name, values))
    try:
        if schema.codec != "auto":
            return _encode_with_schema(path, values, schema)
        return _encode_inferred(path, _checked_rows(name, values, schema))
    except _ERRORS as error:
        kind = next(one for one in (type(error), *_ERRORS) if one in _ERRORS
                    and isinstance(error, one))
        raise kind(f"failed to encode {NON_TENSOR} field {name!r} with "
                   f"FieldSchema codec {schema.codec!r}: {error}") from error


# ---- reading ----


def decode_field(codec: str, payload: Payload, rows: int,
                 metadata: Metadata) -> list[Any]:
    """All rows of a field; release.row_array() makes an array of them.

    ValueError: there is no such codec, or what was read is malformed.
    """
    if type(rows) is not int or rows < 0 or not isinstance(metadata, dict):
        raise ValueError(f"{codec}: rows are {rows!r}, metadata is a "
                         f"{type(metadata).__name__}")
    if codec == RECURSIVE:
        return decode_recursive(payload, rows, metadata, _decode_leaf)
    return _decode_leaf(codec, payload, rows, metadata)


def _decode_leaf(codec: str, payload: Payload, rows: int,
                 metadata: Metadata) -> list[Any]:
    if codec not in _CODECS:
        raise ValueError(f"no codec is {codec!r}")
    try:
        return _CODECS[codec].decode(payload, rows, metadata)
    except ValueError as error:
        raise ValueError(f"{codec}: {error}") from None


def decode_rows(codec: str, metadata: Metadata, rows: int,
                indices: Sequence[int],
                read: Callable[[Ranges], Payload]) -> list[Any]:
    """Some rows of a field, in the order of their indices, which may repeat.

    read is called with spans (begin, end) of elements of payloads along their
    first dimension, none of which is empty, at most three times. It returns of
    each payload the elements of its spans, one after the other, in one array,
    tensor or bytes; an element of bytes is a byte. What lies outside of a payload
    it refuses. Of many spans near ones are read as one. Indices are of 0 to rows.
    """
    if type(rows) is not int or not isinstance(metadata, dict):
        raise ValueError(f"{codec}: rows are {rows!r}, metadata is a "
                         f"{type(metadata).__name__}")
    if not len(indices):
        return []
    plan = payload_ranges(codec, metadata, spans_of(indices))
    try:
        wanted = next(plan)
        while True:
            wanted = plan.send(read_spans(wanted, read))
    except StopIteration as stop:
        payload, cut = stop.value
    return decode_field(codec, payload, len(indices), cut)
