# SPDX-License-Identifier: Apache-2.0
"""Batches of rows: their parts, their refs, and what a read of them gives."""
from __future__ import annotations

import json
import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from mooncake import _rows
from mooncake._bundle import RemoteBundleRef, is_count
from mooncake._members import Payload, Rows, TensorObjectBuffer, of_rows

SECTIONS = ("batch", "non_tensor_batch")
PARTS = (*SECTIONS, "meta_info")
HANDLE_TYPE, HANDLE_VERSION, HANDLE_KIND = (
    "mooncake_dataproto_ref", 1, "bundle_stages")


@dataclass
class FieldSchema:
    """What a field is. metadata: its "section", and the "dtype" of its numbers.

    codec: "auto", or what every row is: "ndarray", a number; "typed_ragged", an
    array or a list of numbers; "ragged_tensor", a tensor; "ragged_tensor_dict", a
    dictionary of tensors; "utf8_ragged", a str; "bytes_ragged", bytes;
    "json_ragged" and "msgpack_ragged", anything that can be stored. With nullable
    a row may be None.
    """

    codec: str
    nullable: bool = True
    metadata: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class StructuredFieldLocation:
    """Where a field is: a member of the object of a stage."""

    stage: str
    member: str
    section: str


@dataclass
class MooncakeDataProtoRef:
    """Where a batch is: the objects of its stages, and which field is in which."""

    batch_size: int
    stage_refs: dict[str, RemoteBundleRef]
    field_index: dict[str, StructuredFieldLocation]
    meta_info: dict[str, Any]
    namespace: str = "default"
    partition: str = "default"
    global_indexes: list[int] | None = None
    encoded_non_tensor: dict[str, Any] = field(default_factory=dict)


@dataclass
class Parts:
    """A batch as it is stored: others are payloads of rows, or arrays."""

    batch: dict[str, Any]
    others: dict[str, Payload | np.ndarray]
    meta_info: dict[str, Any]
    batch_size: int


def json_safe(value: Any, name: str = "metadata") -> Any:
    """TypeError: JSON has no word for it."""
    if value is None or type(value) in (bool, int, float, str):
        return value
    if isinstance(value, np.generic):
        return json_safe(value.item(), name)
    if isinstance(value, np.ndarray):
        return json_safe(value.tolist(), name)
    if isinstance(value, Mapping):
        return {str(key): json_safe(one, f"{name}[{key!r}]")
                for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [json_safe(one, name) for one in value]
    if isinstance(value, (int, float, str)):  # of a class of their own
        return json.loads(json.dumps(value))
    raise TypeError(f"{name}: JSON has no {type(value).__name__}")


# ---- what is stored ----


def _is_field(value: Any) -> bool:
    return (isinstance(value, TensorObjectBuffer)
            or _rows.torch_tensor(value)
            or (isinstance(value, np.ndarray) and not value.dtype.hasobject))


def _n_rows(value: Any) -> int | None:
    """None: it is a scalar."""
    if not isinstance(value, TensorObjectBuffer) and hasattr(value, "shape"):
        return value.shape[0] if len(value.shape) else None
    return len(value)


def _of_batch(name: str, value: Any, schema: FieldSchema | None) -> Any:
    """TypeError: it is none of tensors, arrays and what a schema makes one."""
    if schema is not None and isinstance(value, (list, tuple)):
        value = np.asarray(value, schema.metadata.get("dtype"))
    if not _is_field(value):
        raise TypeError(f"{name}: a {type(value).__name__} is no field of tensors")
    return value


_ROW_TYPES = {
    "typed_ragged": (np.ndarray, list, tuple), "utf8_ragged": (str,),
    "bytes_ragged": (bytes, bytearray, memoryview), "ragged_tensor_dict": (dict,)}
_CODECS = {"auto", "ndarray", "ragged_tensor", "json_ragged", "msgpack_ragged",
           *_ROW_TYPES}


def _check_row(name: str, schema: FieldSchema, row: Any) -> None:
    if row is None:
        if not schema.nullable:
            raise ValueError(f"{name}: a row is None")
        return
    tensors = (row.values() if schema.codec == "ragged_tensor_dict"
               and isinstance(row, dict) else [row]
               if schema.codec == "ragged_tensor" else [])
    if (not isinstance(row, _ROW_TYPES.get(schema.codec, object))
            or not all(map(_rows.torch_tensor, tensors))):
        raise TypeError(f"{name}: a row of {schema.codec} is a "
                        f"{type(row).__name__}")


def _encode_row(row: Any, codec: str, dtype: np.dtype | None) -> bytes:
    if codec != "typed_ragged" or row is None:
        return _rows.encode(row)
    if isinstance(row, (list, tuple)):
        return _rows.encode(row, dtype or np.asarray(row).dtype)
    return _rows.encode(np.asarray(row, dtype))


def _encoded(name: str, values: Any, schema: FieldSchema) -> Payload | np.ndarray:
    """A column of others. TypeError: what is in it cannot be stored."""
    if schema.codec not in _CODECS:
        raise ValueError(f"{name}: no codec is {schema.codec!r}")
    dtype = schema.metadata.get("dtype")
    if schema.codec == "ndarray":
        return np.asarray(values, dtype)
    if schema.codec == "auto" and isinstance(values, np.ndarray) and _is_field(
            values):
        return values
    dtype = None if dtype is None else _rows.dtype_of(np.dtype(dtype).str)
    rows = []
    for row in values:
        _check_row(name, schema, row)
        try:
            rows.append(_encode_row(row, schema.codec, dtype))
        except TypeError as error:
            raise TypeError(f"{name}: {error}") from None
    return of_rows(rows)


def _envelope(data: Any) -> dict[str, Mapping[str, Any]]:
    """The parts of a DataProto, or of a dictionary of them or of its fields."""
    if isinstance(data, Mapping):
        parts = dict(data) if data and set(data) <= set(PARTS) else {
            "batch": data}
    elif any(hasattr(data, name) for name in PARTS):
        parts = {name: getattr(data, name, None) for name in PARTS}
    else:
        raise TypeError(f"data: a {type(data).__name__} has no batch")
    for name, part in parts.items():
        if part is not None and not hasattr(part, "items"):
            raise TypeError(f"{name}: a {type(part).__name__} has no fields")
    return {name: dict(parts[name].items()) if parts.get(name) is not None else {}
            for name in PARTS}


def _sorted_out(data: Any, schemas: Mapping[str, FieldSchema]
                ) -> dict[str, dict[str, Any]]:
    """The parts of a dictionary of any fields.

    Where a schema says nothing: tensors and arrays are the batch, sequences of as
    many rows belong to it, and the rest is about the whole.
    """
    if not isinstance(data, Mapping):
        raise TypeError(f"data must be a dictionary, not {type(data)}")
    parts: dict[str, dict[str, Any]] = {name: {} for name in PARTS}
    left = {}
    for name, value in data.items():
        section = schemas[name].metadata.get("section") if name in schemas else None
        if section is None and _is_field(value) and (
                _rows.torch_tensor(value) or _n_rows(value) is not None):
            section = "batch"
        if section is not None and section not in PARTS:
            raise ValueError(f"{name}: no section is {section!r}")
        if section:
            parts[section][name] = value
        else:
            left[name] = value
    sequences = {name: value for name, value in left.items()
                 if isinstance(value, (list, tuple, np.ndarray))
                 and _n_rows(value) is not None}
    rows = next((n for fields in (parts["batch"], parts["non_tensor_batch"],
                                  sequences)
                 for n in map(_n_rows, fields.values()) if n is not None), None)
    for name, value in left.items():
        is_row = name in sequences and (_n_rows(value) == rows)
        parts["non_tensor_batch" if is_row else "meta_info"][name] = value
    return parts


def parts_of(data: Any, kind: str,
             schemas: Mapping[str, FieldSchema] | None) -> Parts:
    """TypeError: what cannot be stored. ValueError: rows that do not agree."""
    schemas = schemas or {}
    if kind not in ("dataproto", "dict"):
        raise ValueError(f"type is {kind!r}")
    parts = _envelope(data) if kind == "dataproto" else _sorted_out(data, schemas)
    batch, others = parts["batch"], parts["non_tensor_batch"]
    for name in {*batch, *others}:
        if not isinstance(name, str):
            raise TypeError(f"the name {name!r} of a field is no str")
    if batch.keys() & others.keys():
        raise ValueError(f"{(batch.keys() & others.keys()).pop()}: it is there "
                         "twice")
    batch = {name: _of_batch(name, value, schemas.get(name))
             for name, value in batch.items()}
    sizes = {name: n for name, value in [*batch.items(), *others.items()]
             for n in [_n_rows(value)] if n is not None}
    if len(set(sizes.values())) > 1:
        raise ValueError(f"fields have different numbers of rows: {sizes}")
    default = FieldSchema("auto")
    return Parts(batch, {name: _encoded(name, values, schemas.get(name, default))
                         for name, values in others.items()},
                 json_safe(parts["meta_info"], "meta_info"),
                 next(iter(sizes.values()), 0))


def check_append(ref: MooncakeDataProtoRef, parts: Parts, stage: str,
                 overwrite: bool) -> None:
    """ValueError: these fields cannot be added as that stage."""
    new = {*parts.batch, *parts.others}
    if new and ref.field_index and parts.batch_size != ref.batch_size:
        raise ValueError(f"{parts.batch_size} rows are not the {ref.batch_size} "
                         "that are there")
    if not overwrite and stage in ref.stage_refs:
        raise ValueError(f"there is a stage {stage!r}")
    again = sorted(new & ref.field_index.keys())
    if not overwrite and again:
        raise ValueError(f"there is a field {again[0]!r}")
    touched = {ref.field_index[name].stage for name in again} | {
        stage} & set(ref.stage_refs)
    left = sorted(name for name, at in ref.field_index.items()
                  if at.stage in touched and name not in new)
    if left:
        raise ValueError(f"{left[0]!r} is of a stage that would be replaced")


def merged(ref: MooncakeDataProtoRef,
           new: MooncakeDataProtoRef) -> MooncakeDataProtoRef:
    """The old one with what is new; stages without fields are left out."""
    index = {**ref.field_index, **new.field_index}
    used = {at.stage for at in index.values()}
    stages = {**ref.stage_refs, **new.stage_refs}
    return replace(
        ref, batch_size=ref.batch_size if ref.field_index else new.batch_size,
        stage_refs={name: one for name, one in stages.items() if name in used
                    or name in new.stage_refs},
        field_index=index, meta_info={**ref.meta_info, **new.meta_info})


# ---- what is read ----


def selected(ref: MooncakeDataProtoRef, fields: Sequence[str] | None,
             batch: Sequence[str] | None,
             others: Sequence[str] | None) -> list[str]:
    """KeyError: there is no such field."""
    if fields is None and batch is None and others is None:
        return list(ref.field_index)
    names: dict[str, None] = {}
    for wanted, section in ((fields, None), (batch, SECTIONS[0]),
                            (others, SECTIONS[1])):
        for name in wanted or ():
            at = ref.field_index.get(name)
            if at is None or section not in (None, at.section):
                raise KeyError(f"there is no field {name!r}" + (
                    f" in {section}" if section else ""))
            names[name] = None
    return list(names)


def _number(row: Any) -> int:
    if isinstance(row, np.bool_):  # a number to NumPy before 2.3
        raise TypeError("rows: a mask has no numbers")
    return operator.index(row)


def rows_of(rows: slice | Sequence[int] | None, n_rows: int) -> Rows | None:
    """ValueError: rows that are not there. TypeError: what are no integers."""
    if rows is None:
        return None
    indices = (range(*rows.indices(n_rows)) if isinstance(rows, slice)
               else list(map(_number, rows)))
    if any(not 0 <= row < n_rows for row in indices):
        raise ValueError(f"rows: there are {n_rows}")
    return Rows.of(indices)


def _object_array(values: list[Any]) -> np.ndarray:
    array = np.empty(len(values), object)
    for i, value in enumerate(values):
        array[i] = value
    return array


def built(ref: MooncakeDataProtoRef, values: Mapping[str, Any],
          meta_info_keys: Sequence[str] | None, data_cls: Any, kind: str) -> Any:
    meta_info = {name: value for name, value in ref.meta_info.items()
                 if meta_info_keys is None or name in meta_info_keys}
    if kind == "dict":
        return {**values, **meta_info}
    parts: dict[str, dict[str, Any]] = {section: {} for section in SECTIONS}
    for name, value in values.items():
        if isinstance(value, list):
            value = _object_array(value)
        parts[ref.field_index[name].section][name] = value
    if data_cls is None:
        return {**parts, "meta_info": meta_info}
    if hasattr(data_cls, "from_dict"):
        return data_cls.from_dict(parts["batch"], parts["non_tensor_batch"],
                                  meta_info=meta_info)
    return data_cls(**parts, meta_info=meta_info)


# ---- handles ----


def is_dataproto_ref_handle(value: Any) -> bool:
    return isinstance(value, Mapping) and value.get("type") == HANDLE_TYPE


def export_dataproto_ref(ref: MooncakeDataProtoRef) -> dict[str, Any]:
    """For JSON. TypeError: no ref, or its meta_info has what JSON has not."""
    if not isinstance(ref, MooncakeDataProtoRef):
        raise TypeError(f"ref must be a MooncakeDataProtoRef, not {type(ref)}")
    return {
        "type": HANDLE_TYPE, "version": HANDLE_VERSION, "kind": HANDLE_KIND,
        "batch_size": ref.batch_size, "namespace": ref.namespace,
        "partition": ref.partition,
        "global_indexes": json_safe(ref.global_indexes, "global_indexes"),
        "stage_refs": {stage: {"manifest_key": one.manifest_key}
                       for stage, one in ref.stage_refs.items()},
        "field_index": {
            name: {"stage": at.stage, "member": at.member, "section": at.section}
            for name, at in ref.field_index.items()},
        "meta_info": json_safe(ref.meta_info, "meta_info"),
        "encoded_non_tensor": json_safe(ref.encoded_non_tensor,
                                        "encoded_non_tensor")}


def _mapping(handle: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    part = handle.get(name, {})
    if not isinstance(part, Mapping) or not all(
            isinstance(key, str) for key in part):
        raise ValueError(f"handle: {name} is no mapping of names")
    return part


def _location(name: str, at: object, stages: Mapping[str, Any]
              ) -> StructuredFieldLocation:
    if (not isinstance(at, Mapping) or at.get("section") not in SECTIONS
            or not isinstance(at.get("member"), str)
            or not isinstance(at.get("stage"), str) or at["stage"] not in stages):
        raise ValueError(f"handle: it is not told where field {name!r} is")
    return StructuredFieldLocation(at["stage"], at["member"], at["section"])


def import_dataproto_ref(handle: Mapping[str, Any]) -> MooncakeDataProtoRef:
    """ValueError: it is no handle. Nothing is read from the store."""
    if (not is_dataproto_ref_handle(handle)
            or handle.get("version") != HANDLE_VERSION
            or handle.get("kind") != HANDLE_KIND):
        raise ValueError("handle: it is none of a DataProto of this version")
    stages = {}
    for stage, one in _mapping(handle, "stage_refs").items():
        if not isinstance(one, Mapping) or not isinstance(
                one.get("manifest_key"), str):
            raise ValueError(f"handle: stage {stage!r} has no manifest_key")
        stages[stage] = RemoteBundleRef(one["manifest_key"], {})
    indexes = handle.get("global_indexes")
    if not is_count(handle.get("batch_size")) or not (
            indexes is None or (isinstance(indexes, list)
                                and all(type(i) is int for i in indexes))):
        raise ValueError("handle: batch_size or global_indexes are no numbers")
    return MooncakeDataProtoRef(
        handle["batch_size"], stages,
        {name: _location(name, at, stages)
         for name, at in _mapping(handle, "field_index").items()},
        dict(_mapping(handle, "meta_info")),
        str(handle.get("namespace", "default")),
        str(handle.get("partition", "default")), indexes,
        dict(_mapping(handle, "encoded_non_tensor")))


export_ref = export_dataproto_ref
import_ref = import_dataproto_ref


def resolved(ref: MooncakeDataProtoRef | Mapping[str, Any]) -> MooncakeDataProtoRef:
    """A ref, or its handle."""
    if isinstance(ref, MooncakeDataProtoRef):
        return ref
    if is_dataproto_ref_handle(ref):
        return import_dataproto_ref(ref)
    raise TypeError(f"ref must be a MooncakeDataProtoRef, not {type(ref)}")
