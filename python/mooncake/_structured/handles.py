# SPDX-License-Identifier: Apache-2.0
"""Handles of batches: refs as JSON, small, and for any process."""
from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from mooncake._structured.config import STORAGE_GROUP_ID
from mooncake._structured.values import (
    MooncakeDataProtoRef, RemoteBundleRef, StructuredFieldLocation)

DATAPROTO_REF_HANDLE_TYPE = "mooncake_dataproto_ref"
DATAPROTO_REF_HANDLE_VERSION = 1
_KIND = "bundle_stages"
_READABLE = (1, 2)  # 2 is of a time between two releases, and is never written
SECTIONS = ("batch", "non_tensor_batch")


def json_safe(value: Any, name: str) -> Any:
    """TypeError: JSON has no word for it."""
    if value is None or isinstance(value, (bool, int, float, str)):
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
    raise TypeError(f"{name} must be JSON-safe, and a {type(value).__name__} is not")


def is_dataproto_ref_handle(value: Any) -> bool:
    return (isinstance(value, Mapping)
            and value.get("type") == DATAPROTO_REF_HANDLE_TYPE)


def export_dataproto_ref(ref: MooncakeDataProtoRef) -> dict[str, Any]:
    """For JSON. TypeError: no ref, or it has what JSON has not."""
    if not isinstance(ref, MooncakeDataProtoRef):
        raise TypeError(f"ref must be a MooncakeDataProtoRef, not {type(ref)}")
    handle = {
        "type": DATAPROTO_REF_HANDLE_TYPE,
        "version": DATAPROTO_REF_HANDLE_VERSION, "kind": _KIND,
        "batch_size": int(ref.batch_size), "namespace": ref.namespace,
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
    if ref._storage_group_id is not None:
        handle[STORAGE_GROUP_ID] = ref._storage_group_id
    return handle


def _mapping(handle: Mapping[str, Any], name: str,
             default: Mapping[str, Any] | None = None) -> dict[str, Any]:
    part = handle.get(name, default)
    if not isinstance(part, Mapping):
        raise ValueError(f"handle: {name} must be a mapping, not {type(part)}")
    return dict(part)


def _text(value: object, what: str) -> str:
    if not isinstance(value, str) or not value:
        raise ValueError(f"handle: {what} must be a non-empty str, not {value!r}")
    return value


def _stages(handle: Mapping[str, Any]) -> dict[str, RemoteBundleRef]:
    stages = {}
    for stage, one in _mapping(handle, "stage_refs").items():
        if not isinstance(one, Mapping):
            raise ValueError(f"handle: stage_refs[{stage!r}] must be a mapping, not "
                             f"{type(one)}")
        stages[_text(stage, "the name of a stage")] = RemoteBundleRef(_text(
            one.get("manifest_key"), f"manifest_key of stage {stage!r}"), {})
    return stages


def _location(name: object, at: object,
              stages: Mapping[str, Any]) -> StructuredFieldLocation:
    if not isinstance(at, Mapping):
        raise ValueError(f"handle: field_index[{name!r}] must be a mapping, not "
                         f"{type(at)}")
    stage = _text(at.get("stage"), f"the stage of field {name!r}")
    member = _text(at.get("member"), f"the member of field {name!r}")
    section = at.get("section")
    if section not in SECTIONS:
        raise ValueError(f"handle: the section of field {name!r} must be one of "
                         f"{SECTIONS}, not {section!r}")
    if stage not in stages:
        raise ValueError(f"handle: field {name!r} is of an unknown stage, "
                         f"{stage!r}")
    return StructuredFieldLocation(stage, member, section)


def _indexes(value: object) -> list[int] | None:
    if value is None:
        return None
    if not isinstance(value, list) or not all(
            isinstance(one, int) and not isinstance(one, bool) for one in value):
        raise ValueError("handle: global_indexes must be a list of int, or null")
    return list(value)


def _version(handle: Mapping[str, Any]) -> int:
    try:
        version = int(handle.get("version", 0))
    except (TypeError, ValueError, OverflowError):
        version = 0
    if version not in _READABLE:
        raise ValueError("unsupported DataProto ref handle version "
                         f"{handle.get('version')!r}")
    return version


def _group(handle: Mapping[str, Any], version: int) -> str | None:
    if STORAGE_GROUP_ID not in handle and version == 1:
        return None
    return _text(handle.get(STORAGE_GROUP_ID), STORAGE_GROUP_ID)


def _batch_size(value: Any) -> int:
    """As int() takes it, but for parts of a row."""
    try:
        size = int(value)
    except (TypeError, ValueError, OverflowError):
        size = -1
    if size < 0 or (isinstance(value, float) and size != value):
        raise ValueError("handle: batch_size must be an int of 0 or more, not "
                         f"{value!r}")
    return size


def import_dataproto_ref(handle: Mapping[str, Any]) -> MooncakeDataProtoRef:
    """ValueError: it is no handle. Nothing is read from the store."""
    if not is_dataproto_ref_handle(handle):
        raise ValueError("handle: this is not a Mooncake DataProto ref handle")
    version = _version(handle)
    if handle.get("kind") != _KIND:
        raise ValueError("unsupported DataProto ref handle kind "
                         f"{handle.get('kind')!r}")
    stages = _stages(handle)
    index = {_text(name, "the name of a field"): _location(name, at, stages)
             for name, at in _mapping(handle, "field_index").items()}
    return MooncakeDataProtoRef(
        _batch_size(handle.get("batch_size")), stages, index,
        _mapping(handle, "meta_info", {}),
        str(handle.get("namespace", "default")),
        str(handle.get("partition", "default")),
        _indexes(handle.get("global_indexes")),
        _mapping(handle, "encoded_non_tensor", {}), _group(handle, version))


def resolved(ref: object) -> MooncakeDataProtoRef:
    """A ref, or its handle. TypeError: it is neither."""
    if isinstance(ref, MooncakeDataProtoRef):
        return ref
    if is_dataproto_ref_handle(ref):
        return import_dataproto_ref(ref)  # type: ignore[arg-type]
    raise TypeError("ref must be a MooncakeDataProtoRef or its handle, not "
                    f"{type(ref)}")
