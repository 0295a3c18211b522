# SPDX-License-Identifier: Apache-2.0
"""Columns of arrays, lists of numbers and tensors, each row of its own shape.

data has the elements of all rows back to back; offsets (in elements, one more than
rows), shapes, ndims and nulls say where each row is. Rows are read as views of data.
"""
from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from mooncake._structured.infer import (
    common_dtype, dtypes_of, is_torch_tensor)
from mooncake._structured.payloads import (
    _DirectCopyPayload, _MultiBufferPayload, bytes_of, concat_arrays_into)
from mooncake._structured.release import OWNER, owner_of, with_owner

Payload = dict[str, Any]
Metadata = dict[str, Any]

NDIM_MAX = 32


# ---- what payloads are made of, and read as ----


def payload_bytes(value: Any) -> memoryview:
    """The bytes of a payload of bytes. ValueError: it is an array of others."""
    if isinstance(value, _MultiBufferPayload):
        return memoryview(b"".join(value.buffers))
    if isinstance(value, _DirectCopyPayload):
        return memoryview(b"".join(map(bytes_of, value.arrays)))
    if is_torch_tensor(value):
        value = value.detach().numpy(force=True)
    if not isinstance(value, np.ndarray):
        return memoryview(value).cast("B")
    if value.dtype.itemsize != 1:
        raise ValueError(f"a payload is of {value.dtype}, not of bytes")
    return bytes_of(np.ascontiguousarray(value))


def payload_array(payload: Payload, name: str, dtype: Any) -> np.ndarray:
    """A payload as an array of one dimension, a view where that can be.

    ValueError: it is not there, or of another type.
    """
    if name not in payload:
        raise ValueError(f"the payload {name!r} is missing")
    value, wanted = payload[name], np.dtype(dtype)
    if is_torch_tensor(value):
        value = value.detach().numpy(force=True)
    if isinstance(value, np.ndarray):
        if value.dtype == wanted:
            return value.reshape(-1)
        if value.dtype != np.uint8:
            raise ValueError(f"the payload {name!r} is of {value.dtype}, not "
                             f"{wanted}")
    data = value if isinstance(value, np.ndarray) else payload_bytes(value)
    if len(data) % wanted.itemsize:
        raise ValueError(f"the payload {name!r} has {len(data)} bytes, which are "
                         f"no elements of {wanted}")
    if isinstance(data, np.ndarray):
        return data.reshape(-1).view(wanted)
    return np.frombuffer(data, wanted) if len(data) else np.empty(0, wanted)


def row_offsets(payload: Payload, name: str, rows: int, total: int
                ) -> np.ndarray:
    """Where each row begins and the last ends. ValueError: not within total."""
    offsets = payload_array(payload, name, np.int64)
    if len(offsets) != rows + 1 or rows < 0:
        raise ValueError(f"{name} length is {len(offsets)}, not that of {rows} "
                         "rows and one more")
    if offsets[0] < 0 or offsets[-1] > total or (np.diff(offsets) < 0).any():
        raise ValueError(f"{name}: rows do not lie one behind the other within "
                         f"the {total} that there are")
    return offsets


def row_flags(payload: Payload, name: str, rows: int) -> np.ndarray:
    """A bool of each row. ValueError: of more or fewer."""
    flags = payload_array(payload, name, np.bool_)
    if len(flags) != rows:
        raise ValueError(f"{name} length is {len(flags)}, not {rows} rows")
    return flags


def null_flags(values: Sequence[Any]) -> np.ndarray:
    """Which rows have no value."""
    return np.array(list(map(operator.is_, values, itertools.repeat(None))),
                    np.bool_)


def offsets_of(lengths: Sequence[int] | np.ndarray) -> np.ndarray:
    """Where rows of these lengths begin, and the last of them ends."""
    offsets = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(np.asarray(lengths, np.int64), out=offsets[1:])
    return offsets


def array_dtype(name: Any) -> np.dtype:
    """The type of elements of that name. ValueError: it is none, or of objects."""
    try:
        dtype = np.dtype(name) if isinstance(name, str) else None
    except TypeError:
        dtype = None
    if dtype is None or dtype.hasobject or not dtype.itemsize:
        raise ValueError(f"no type of elements is {name!r}")
    return dtype


# ---- writing ----


def _flat_data(arrays: list[np.ndarray], dtype: np.dtype, total: int) -> Any:
    """The elements of arrays of one dimension, which are not copied."""
    if len(arrays) > 1 and not total:
        return np.empty(0, dtype)
    if len(arrays) > 1 and concat_arrays_into() is not None:
        return _DirectCopyPayload.from_flat_arrays(arrays, dtype, total)
    return _MultiBufferPayload(tuple(map(bytes_of, arrays)), (), dtype.str,
                               (total,))


def _row_format(values: Sequence[Any]) -> Metadata:
    if all(kind is type(None) or issubclass(kind, np.ndarray)
           for kind in set(map(type, values))):
        return {"row_format": "ndarray", "ndarray_rows": None,
                "physical_layout": "contiguous_flat"}
    arrays = [isinstance(row, np.ndarray) for row in values]
    mixed = any(arrays)
    return {"row_format": "mixed" if mixed else "list",
            "ndarray_rows": arrays if mixed else None}


def _metadata(dtype: np.dtype, max_ndim: int, layout: Metadata) -> Metadata:
    return {"dtype": str(dtype), "max_ndim": max_ndim, "shape_policy": "ragged",
            **layout}


def _encode_typed_ragged_regular_ndarray_rows(
        values: Sequence[Any], dtype: Any) -> tuple[Payload, Metadata] | None:
    """Rows that are contiguous arrays of one type and shape; None: they are not."""
    element = np.dtype(dtype)
    if (len(values) < 2 or not isinstance(values[0], np.ndarray)
            or getattr(values[1], "shape", None) != values[0].shape):
        return None
    shape, size, rows = values[0].shape, values[0].size, len(values)
    if not all(isinstance(row, np.ndarray) and row.shape == shape
               and row.dtype == element and row.flags.c_contiguous
               for row in values):
        return None
    shapes = np.zeros((rows, max(len(shape), 1)), np.int64)
    shapes[:, :len(shape)] = shape
    return {
        "data": _flat_data([np.asarray(row).reshape(-1) for row in values],
                           element, size * rows),
        "offsets": np.arange(rows + 1, dtype=np.int64) * size,
        "shapes": shapes,
        "ndims": np.full(rows, len(shape), np.int16),
        "nulls": np.zeros(rows, np.bool_),
    }, _metadata(element, len(shape), _row_format(values))


def _common(arrays: list[np.ndarray | None]) -> np.dtype:
    there = [array for array in arrays if array is not None]
    dtype = common_dtype(there)
    if dtype is None or dtype.hasobject:
        raise ValueError("typed_ragged rows have no common type of elements: "
                         + ", ".join(sorted({str(one.dtype) for one in there})))
    return dtype


def _shapes(arrays: list[np.ndarray | None], max_ndim: int) -> np.ndarray:
    """The dimensions of each row, padded to one number of them."""
    shapes = np.zeros((len(arrays), max(max_ndim, 1)), np.int64)
    for i, array in enumerate(arrays):
        if array is not None:
            shapes[i, :array.ndim] = array.shape
    return shapes


def _each(what: str, arrays: list[np.ndarray | None],
          there: list[np.ndarray]) -> np.ndarray:
    """An attribute of each array, 0 of None; there has those that are not."""
    if len(there) < len(arrays):
        return np.array([0 if array is None else getattr(array, what)
                         for array in arrays], np.int64)
    return np.array(list(map(operator.attrgetter(what), there)), np.int64)


def _flattened(arrays: list[np.ndarray], dtype: np.dtype) -> list[np.ndarray]:
    """The same elements of that type in arrays of one dimension, contiguous."""
    if dtypes_of(arrays) != [dtype]:
        arrays = [array.astype(dtype, order="C", copy=False) for array in arrays]
    return [array if array.ndim == 1 and array.flags.c_contiguous
            else np.ascontiguousarray(array).reshape(-1) for array in arrays]


def _encode_typed_ragged_values(
        values: Sequence[Any], dtype_hint: Any = None,
        made: Sequence[np.ndarray] | None = None) -> tuple[Payload, Metadata]:
    """Rows that are arrays, lists of numbers, numbers or None.

    made has arrays of those that have a value, if somebody has made them already.
    ValueError: they are of objects.
    """
    hint = None if dtype_hint is None else np.dtype(dtype_hint)
    arrays: list[np.ndarray | None]
    if made is None:
        if hint is None and set(map(type, values)) == {np.ndarray}:
            arrays = list(values)
        else:
            arrays = [None if row is None else np.asarray(row, hint)
                      for row in values]
    else:
        left = iter(made)
        arrays = [None if row is None else next(left) for row in values]
    dtype = hint if hint is not None else _common(arrays)
    if dtype.hasobject:
        raise ValueError(f"typed_ragged rows cannot be of {dtype}")
    regular = _encode_typed_ragged_regular_ndarray_rows(values, dtype)
    if regular is not None:
        return regular
    there = [array for array in arrays if array is not None]
    lengths = _each("size", arrays, there)
    ndims = _each("ndim", arrays, there)
    flat = len(there) == len(arrays) and bool((ndims == 1).all())
    max_ndim = int(ndims.max(initial=0))
    return {
        "data": _flat_data(_flattened(there, dtype), dtype, int(lengths.sum())),
        "offsets": offsets_of(lengths),
        "shapes": (lengths.reshape(-1, 1) if flat
                   else _shapes(arrays, max_ndim)),
        "ndims": ndims.astype(np.int16),
        "nulls": null_flags(values),
    }, _metadata(dtype, max_ndim, _row_format(values))


# ---- reading ----


def _shapes_of(payload: Payload, rows: int) -> tuple[np.ndarray, np.ndarray]:
    """Dimensions of each row, padded to one number, and their number."""
    ndims = payload_array(payload, "ndims", np.int16)
    shapes = payload_array(payload, "shapes", np.int64)
    width = len(shapes) // rows if rows else 1
    if len(ndims) != rows or len(shapes) != rows * width or width > NDIM_MAX:
        raise ValueError(f"shapes and ndims are not those of {rows} rows")
    if rows and (ndims.min() < 0 or ndims.max() > width or shapes.min() < 0):
        raise ValueError("shapes or ndims of a row are out of range")
    return shapes.reshape(rows, width), ndims


def _block(data: np.ndarray, offsets: np.ndarray, shapes: np.ndarray,
           ndims: np.ndarray, nulls: np.ndarray) -> np.ndarray | None:
    """All rows as one array, whose rows they are; None: they differ."""
    rows = len(ndims)
    if not rows or not ndims[0] or nulls.any() or (ndims != ndims[0]).any():
        return None
    shape = tuple(shapes[0, :ndims[0]].tolist())
    if (shapes != shapes[0]).any() or (
            np.diff(offsets) != math.prod(shape)).any():
        return None
    return data[offsets[0]:offsets[-1]].reshape(rows, *shape)


def _separate(data: np.ndarray, offsets: np.ndarray, shapes: np.ndarray,
              ndims: np.ndarray, nulls: np.ndarray) -> list[Any]:
    """Each row as a view of data, or None."""
    bounds, made = offsets.tolist(), []
    if (ndims == 1).all() and not nulls.any() and (
            shapes[:, 0] == np.diff(offsets)).all():
        return [data[begin:end] for begin, end in zip(bounds, bounds[1:])]
    for i, (shape, ndim, null) in enumerate(zip(
            shapes.tolist(), ndims.tolist(), nulls.tolist())):
        row = data[bounds[i]:bounds[i + 1]]
        try:
            made.append(None if null else row.reshape(shape[:ndim]))
        except ValueError:
            raise ValueError(f"row {i}: {row.size} elements are no array of "
                             f"{shape[:ndim]}") from None
    return made


def _lists(rows: Sequence[Any], keep: list[Any] | None) -> list[Any]:
    """Arrays as lists, but for those that are to stay arrays."""
    kept = keep if keep is not None else [False] * len(rows)
    return [row if row is None or stays else row.tolist()
            for row, stays in zip(rows, kept)]


def _decode_typed_ragged_values(payload: Payload, rows: int,
                                metadata: Metadata) -> list[Any]:
    """The rows; arrays are views of data. ValueError: it is malformed."""
    data = payload_array(payload, "data", array_dtype(metadata.get("dtype")))
    offsets = row_offsets(payload, "offsets", rows, len(data))
    shapes, ndims = _shapes_of(payload, rows)
    nulls = row_flags(payload, "nulls", rows)
    row_format = metadata.get("row_format", "ndarray")
    keep = metadata.get("ndarray_rows") if row_format == "mixed" else None
    if row_format not in ("ndarray", "list", "mixed") or (
            row_format == "mixed"
            and not (isinstance(keep, list) and len(keep) == rows)):
        raise ValueError(f"row_format is {row_format!r}, ndarray_rows "
                         f"{keep!r:.60}")
    block = _block(data, offsets, shapes, ndims, nulls)
    if row_format == "list" and block is not None:
        return list(block.tolist())
    found = (list(block) if block is not None
             else _separate(data, offsets, shapes, ndims, nulls))
    if row_format != "ndarray":
        found = _lists(found, keep)
    return found if row_format == "list" else with_owner(found, owner_of(data))


# ---- tensors ----


def _torch() -> Any:
    from mooncake._needs import torch

    return torch


def _array_of(tensor: Any, row: int) -> np.ndarray:
    if not is_torch_tensor(tensor):  # as one that has no detach()
        raise AttributeError(f"row {row}: a {type(tensor).__name__} is no tensor")
    try:
        return tensor.numpy(force=True)
    except (TypeError, RuntimeError) as error:
        raise ValueError(f"row {row}: a tensor of {tensor.dtype} cannot be a row "
                         f"of ragged_tensor: {error}") from None


def encode_ragged_tensor(values: Sequence[Any]) -> tuple[Payload, Metadata]:
    """Rows that are tensors of one type, or None. AttributeError: others."""
    types = sorted({str(row.dtype) for row in values if is_torch_tensor(row)})
    if "torch.bfloat16" in types:
        raise ValueError("ragged_tensor rows of bfloat16 cannot be stored: numpy "
                         "has no such type")
    if len(types) > 1:
        raise ValueError(f"mixed tensor dtype: {', '.join(types)}")
    arrays = [None if row is None else _array_of(row, i)
              for i, row in enumerate(values)]
    payload, metadata = _encode_typed_ragged_values(
        arrays, None if types else np.float32)
    return payload, {**metadata, "dtype": types[0] if types else "torch.float32"}


def _tensor_dtype(name: Any) -> np.dtype:
    """numpy's type of the elements of tensors. ValueError: it has none."""
    torch = _torch()
    dtype = getattr(torch, str(name).removeprefix("torch."), None)
    if isinstance(dtype, torch.dtype):
        try:
            return torch.empty(0, dtype=dtype).numpy().dtype
        except TypeError:
            pass
    raise ValueError(f"no type of elements of tensors is {name!r}")


def decode_ragged_tensor(payload: Payload, rows: int,
                         metadata: Metadata) -> list[Any]:
    """The rows as tensors, which share the memory of data if it can be written."""
    torch = _torch()
    dtype = _tensor_dtype(metadata.get("dtype"))
    data = payload_array(payload, "data", dtype)
    if not data.flags.writeable:
        data = data.copy()
    arrays = _decode_typed_ragged_values(
        {**payload, "data": data}, rows,
        {**metadata, "dtype": str(dtype), "row_format": "ndarray"})
    tensors = [None if array is None else torch.from_numpy(array)
               for array in arrays]
    owner = owner_of(data)
    for tensor in tensors if owner is not None else ():
        if tensor is not None:
            setattr(tensor, OWNER, owner)
    return with_owner(tensors, owner)


# ---- dictionaries of tensors ----


def _check_key(key: Any) -> None:
    if not isinstance(key, str):
        raise TypeError(f"the key {key!r} is a {type(key).__name__}, not a str")
    if not key:
        raise ValueError("a key must not be empty")
    for mark in "./\\":
        if mark in key:
            raise ValueError(f"the key {key!r} must not contain {mark!r}")


def _check_dict_row(row: Any, i: int, declared: Sequence[str] | None) -> None:
    if not isinstance(row, dict):
        raise TypeError(f"row {i}: a {type(row).__name__} is no dictionary of "
                        "tensors")
    for key, value in row.items():
        if value is None:
            raise TypeError(f"row {i}: explicit None at {key!r}: leave out the "
                            "keys that a row has not")
        _check_key(key)
    others = [] if declared is None else sorted(set(row) - set(declared))
    if others:
        raise ValueError(f"row {i}: keys not declared: {', '.join(others)}")


def encode_ragged_tensor_dict(values: Sequence[Any],
                              declared: Sequence[str] | None
                              ) -> tuple[Payload, Metadata]:
    """Rows that are dictionaries of tensors, or None: a column for each key."""
    for key in declared or ():
        _check_key(key)
    for i, row in enumerate(values):
        if row is not None:
            _check_dict_row(row, i, declared)
    keys = sorted({key for row in values if row is not None for key in row}
                  ) if declared is None else list(dict.fromkeys(declared))
    payload: Payload = {"null_mask": null_flags(values)}
    codecs: Metadata = {}
    for key in keys:
        column, codecs[key] = encode_ragged_tensor(
            [None if row is None else row.get(key) for row in values])
        payload.update((f"{key}.{name}", part) for name, part in column.items())
    return payload, {"keys": keys, "key_codecs": codecs}


def dict_columns(metadata: Metadata) -> dict[str, Metadata]:
    """The metadata of the column of each key. ValueError: it is malformed."""
    keys, codecs = metadata.get("keys"), metadata.get("key_codecs")
    if not isinstance(keys, list) or not isinstance(codecs, dict) or not all(
            isinstance(key, str) and isinstance(codecs.get(key), dict)
            for key in keys):
        raise ValueError("keys and key_codecs do not agree")
    return {key: codecs[key] for key in keys}


def part_of(payload: Payload, prefix: str) -> Payload:
    """The payloads whose names begin with a prefix, without it."""
    return {name[len(prefix):]: value for name, value in payload.items()
            if name.startswith(prefix)}


def decode_ragged_tensor_dict(payload: Payload, rows: int,
                              metadata: Metadata) -> list[Any]:
    """The dictionaries; what a row has not is not in its own."""
    nulls = row_flags(payload, "null_mask", rows).tolist()
    columns = {key: decode_ragged_tensor(part_of(payload, f"{key}."), rows, one)
               for key, one in dict_columns(metadata).items()}
    return [None if null else {key: column[i] for key, column in columns.items()
                               if column[i] is not None}
            for i, null in enumerate(nulls)]
