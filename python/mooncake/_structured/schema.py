# SPDX-License-Identifier: Apache-2.0
"""What callers say about fields, and where the fields of a flat dictionary belong."""
from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from mooncake._structured.infer import NUMERIC, is_torch_tensor
from mooncake._structured.release import row_array

BATCH, NON_TENSOR, META_INFO = SECTIONS = (
    "batch", "non_tensor_batch", "meta_info")
ROW_SECTIONS = (BATCH, NON_TENSOR)

Fields = dict[str, Any]
Parts = tuple[Fields, Fields, Fields]  # in the order of SECTIONS


@dataclass(frozen=True)
class FieldSchema:
    """How a field is stored, instead of what its rows suggest.

    codec is one of mooncake._structured.codecs, or "auto". Without nullable no
    row may be None. metadata may have "section", of the three of a DataProto;
    "dtype", of ndarray and typed_ragged; "keys", of ragged_tensor_dict.
    """

    codec: str
    nullable: bool = True
    metadata: dict[str, Any] = field(default_factory=dict)


Schemas = Mapping[str, FieldSchema]


def section_of(name: str, schema: FieldSchema | None) -> str | None:
    """Where a schema says that its field is; None: nothing. ValueError: nowhere."""
    section = schema.metadata.get("section") if schema is not None else None
    if section is not None and section not in SECTIONS:
        raise ValueError(f"{name}: section {section!r} is none of "
                         f"{', '.join(SECTIONS)}")
    return section


def schema_dtype(name: str, schema: FieldSchema) -> np.dtype | None:
    """The type of elements of a schema. ValueError: it is of no numbers."""
    given = schema.metadata.get("dtype")
    if given is None:
        return None
    try:
        dtype = np.dtype(given)
    except TypeError:
        dtype = None
    if dtype is None or dtype.kind not in NUMERIC:
        raise ValueError(f"{name}: dtype {given!r} is no type of numbers")
    return dtype


def check_sections(schemas: Schemas, parts: Sequence[Mapping[str, Any]]) -> None:
    """ValueError: a schema names another section than the data has its field in."""
    for name, schema in schemas.items():
        section = section_of(name, schema)
        there = [one for one, fields in zip(SECTIONS, parts) if name in fields]
        if section is not None and there and section not in there:
            raise ValueError(f"{name}: its schema declares section {section!r}, "
                             f"but it is in {' and '.join(there)}")


def row_schemas(schemas: Schemas) -> dict[str, FieldSchema]:
    """The schemas that are about fields of non_tensor_batch."""
    return {name: schema for name, schema in schemas.items()
            if section_of(name, schema) in (None, NON_TENSOR)}


def rows_of(name: str, values: Any) -> list[Any]:
    """The rows of a field that is no tensor. TypeError: it is no sequence."""
    if isinstance(values, np.ndarray) and values.ndim:
        # Rows of an object array of several dimensions are lists.
        return (values.tolist() if values.dtype.hasobject and values.ndim > 1
                else list(values))
    if not _is_sequence(values):
        raise TypeError(f"{name}: a {type(values).__name__} is no array and no "
                        "sequence of rows")
    return list(values)


# ---- flat dictionaries ----


def _is_sequence(value: Any) -> bool:
    return isinstance(value, Sequence) and not isinstance(
        value, (str, bytes, bytearray, memoryview))


def _is_dense(value: Any) -> bool:
    """Whether it has rows of numbers."""
    if is_torch_tensor(value):
        return bool(value.dim())
    return (isinstance(value, np.ndarray) and value.ndim > 0
            and not value.dtype.hasobject)


def _length(name: str, value: Any) -> int:
    try:
        return len(value)
    except TypeError:
        raise ValueError(f"{name}: a {type(value).__name__} has no number of "
                         "rows") from None


def _same(lengths: dict[str, int], problem: str) -> int:
    if len(set(lengths.values())) > 1:
        raise ValueError(f"{problem}: " + ", ".join(
            f"{name} has {n}" for name, n in lengths.items()))
    return next(iter(lengths.values()))


def _row_count(data: Mapping[str, Any], sections: Mapping[str, str | None]
               ) -> int | None:
    """How many rows there are; None: nothing has rows.

    ValueError: fields do not agree.
    """
    declared = {name: _length(name, value) for name, value in data.items()
                if sections[name] in ROW_SECTIONS}
    if declared:
        return _same(declared, "inconsistent batch sizes")
    free = {name: value for name, value in data.items()
            if sections[name] is None}
    dense = {name: len(value) for name, value in free.items()
             if _is_dense(value)}
    if dense:
        return _same(dense, "ambiguous batch sizes of arrays")
    others = {name: len(value) for name, value in free.items()
              if _is_sequence(value) or (isinstance(value, np.ndarray)
                                         and value.ndim)}
    return _same(others, "ambiguous batch sizes") if others else None


def _cast(name: str, value: Any, schema: FieldSchema | None) -> Any:
    """A field of one type of numbers, without None, as an array of it."""
    if schema is None or schema.codec != "ndarray":
        return value
    dtype = schema_dtype(name, schema)
    if dtype is None or not (
            isinstance(value, np.ndarray) or _is_sequence(value)):
        return value
    if isinstance(value, np.ndarray) and not value.dtype.hasobject:
        return value.astype(dtype, copy=False)
    if any(row is None for row in value):
        return value
    return np.asarray(value, dtype)


def _placed(value: Any, rows: int | None, any_declared: bool) -> str:
    """The section of a field that no schema places."""
    if not rows and not (rows == 0 and _is_sequence(value)):
        return META_INFO
    if _is_dense(value):
        return BATCH if len(value) == rows else META_INFO
    if _is_sequence(value) and len(value) == rows and not any_declared:
        return NON_TENSOR
    return META_INFO


def split_flat_dict(data: Any, schemas: Schemas) -> Parts:
    """The batch, the fields that are no tensors and meta_info of a dictionary.

    TypeError: it is none, or a field of rows is no sequence. ValueError: it cannot
    be told how many rows there are, or a field has others.
    """
    if not isinstance(data, Mapping):
        raise TypeError(f"data must be a mapping, not a {type(data).__name__}")
    sections = {name: section_of(name, schemas.get(name)) for name in data}
    rows = _row_count(data, sections)
    any_declared = any(one in ROW_SECTIONS for one in sections.values())
    parts: dict[str, Fields] = {section: {} for section in SECTIONS}
    for name, value in data.items():
        section = sections[name]
        if section is None:
            section = _placed(value, rows, any_declared)
            if section == NON_TENSOR:
                value = row_array(list(value))
        elif section == NON_TENSOR:
            rows_of(name, value)
        if section in ROW_SECTIONS:
            value = _cast(name, value, schemas.get(name))
        parts[section][name] = value
    return parts[BATCH], parts[NON_TENSOR], parts[META_INFO]
