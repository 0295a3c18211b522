# SPDX-License-Identifier: Apache-2.0
"""Batches of rows: what is put of one, where it lies, and what a read gives."""
from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from mooncake._structured import manifest as manifests
from mooncake._structured.bundles import _BundleStore, encode_json
from mooncake._structured.codecs import decode_field, decode_rows, encode_field
from mooncake._structured.config import (
    config_for_group, group_for_append, group_for_put)
from mooncake._structured.handles import SECTIONS
from mooncake._structured.manifest import FIELD_SPECS
from mooncake._structured.members import field_specs_of
from mooncake._structured.reading import MemberReader, Rows
from mooncake._structured.release import row_array
from mooncake._structured.schema import (
    Schemas, check_sections, row_schemas, split_flat_dict)
from mooncake._structured.values import (
    BundleTransferPolicy, MooncakeDataProtoRef, RemoteBundleRef,
    StructuredFieldLocation, StructuredMemberSlice, StructuredObjectPayload,
    rows_of_slice)

PARTS = (*SECTIONS, "meta_info")
STAGE_VERSION = 1


@dataclass
class Sections:
    """A batch as its caller has it."""

    batch: dict[str, Any]
    non_tensor_batch: dict[str, Any]
    meta_info: dict[str, Any]


@dataclass
class Prepared:
    """A batch as it is stored."""

    batch_size: int
    meta_info: dict[str, Any]
    members: dict[str, Any] = field(default_factory=dict)
    locations: dict[str, tuple[str, str]] = field(default_factory=dict)
    encoded: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Options:
    """How a stage is written."""

    chunk_bytes: int | None
    policy: BundleTransferPolicy
    config: Any


# ---- what is put ----


def _has_fields(value: object) -> bool:
    return callable(getattr(value, "items", None))


def sections_of(data: Any) -> Sections:
    """Of a DataProto, of a mapping of its parts, or of one of batch fields.

    TypeError: a part is no mapping.
    """
    if isinstance(data, Mapping):
        if not data or not set(data) <= set(PARTS) or not all(
                value is None or _has_fields(value) for value in data.values()):
            return Sections(dict(data), {}, {})
        parts = dict(data)
    elif any(hasattr(data, name) for name in PARTS):
        parts = {name: getattr(data, name, None) for name in PARTS}
    else:
        raise TypeError(f"data: a {type(data).__name__} is no DataProto, and no "
                        "mapping")
    for name, part in parts.items():
        if part is not None and not _has_fields(part):
            raise TypeError(f"{name} must be a mapping, not {type(part)}")
    return Sections(*({} if parts.get(name) is None else dict(parts[name].items())
                      for name in PARTS))


def sections_of_dict(data: Any, schemas: Schemas) -> Sections:
    """Of a dictionary of any fields, by what they are and what schemas say."""
    return Sections(*split_flat_dict(data, schemas))


def batch_size_of(sections: Sections) -> int:
    """ValueError: fields have different numbers of rows."""
    sizes = {name: len(value) for name, value in [
        *sections.batch.items(), *sections.non_tensor_batch.items()]}
    if len(set(sizes.values())) > 1:
        raise ValueError(f"inconsistent batch sizes: {sizes}")
    return next(iter(sizes.values()), 0)


def prepared(sections: Sections, schemas: Schemas,
             ref: MooncakeDataProtoRef | None) -> Prepared:
    """ValueError or TypeError: it cannot be stored, or not beside ref's rows."""
    check_sections(schemas, (sections.batch, sections.non_tensor_batch,
                             sections.meta_info))
    schemas = row_schemas(schemas)
    size = batch_size_of(sections)
    if ref is not None and size != ref.batch_size:
        raise ValueError(f"batch size {size} of the fields is not that of the ref, "
                         f"{ref.batch_size}")
    both = sorted(sections.batch.keys() & sections.non_tensor_batch.keys())
    if both:
        raise ValueError(f"fields of batch and non_tensor_batch overlap: {both}")
    made = Prepared(size, sections.meta_info)
    for name, value in sections.batch.items():
        made.members[f"batch.{name}"] = value
        made.locations[name] = f"batch.{name}", "batch"
    for name, value in sections.non_tensor_batch.items():
        member = f"non_tensor_batch.{name}"
        made.locations[name] = member, "non_tensor_batch"
        if name not in schemas and not (isinstance(value, np.ndarray)
                                        and value.dtype == object):
            made.members[member] = value
            continue
        encoded = encode_field(member, value, schemas.get(name))
        members = {payload: f"{member}.{payload}" for payload in encoded.payload}
        for payload, one in encoded.payload.items():
            made.members[members[payload]] = one
        made.encoded[name] = {"codec": encoded.codec, "rows": encoded.rows,
                              "metadata": encoded.metadata,
                              "payload_members": members}
    return made


class Batches:
    """Writes, reads and removes batches. Any thread."""

    def __init__(self, bundles: _BundleStore) -> None:
        self.bundles = bundles

    # ---- writing ----

    def put(self, made: Prepared, namespace: str, partition: str, stage: str,
            options: Options) -> MooncakeDataProtoRef:
        """A new batch, of one stage; without fields nothing is stored."""
        group = group_for_put(options.config)
        ref = MooncakeDataProtoRef(made.batch_size, {}, {}, dict(made.meta_info),
                                   namespace, partition, _storage_group_id=group)
        if not made.members:
            return ref
        bundle = self._put_stage(made, ref, stage, replace(
            options, config=config_for_group(options.config, group)))
        return _with_stage(ref, made, stage, bundle)

    def _put_stage(self, made: Prepared, ref: MooncakeDataProtoRef, stage: str,
                   options: Options) -> RemoteBundleRef:
        return self.bundles.put_members(
            StructuredObjectPayload({
                "layout": "dataproto_stage",
                "dataproto": {"version": STAGE_VERSION, "namespace": ref.namespace,
                              "partition": ref.partition, "stage": stage,
                              "batch_size": made.batch_size}}, made.members),
            ref.partition, options.chunk_bytes, options.policy, options.config)

    def append(self, ref: MooncakeDataProtoRef, made: Prepared, stage: str,
               overwrite: bool, options: Options) -> MooncakeDataProtoRef:
        """More fields of the same rows; the old ref stays what it was.

        ValueError: there are such fields and overwrite is not set, or it leaves
        part of a stage.
        """
        if not made.members:
            return replace(ref, meta_info={**ref.meta_info, **made.meta_info})
        _check_fields(ref, made, stage, overwrite)
        group = group_for_append(options.config, ref._storage_group_id)
        options = replace(options, config=config_for_group(options.config, group))
        bundle = self._put_stage(made, ref, stage, options)
        old = ref.stage_refs.get(stage)
        if old is not None and not overwrite:
            bundle = self._merge(old, bundle, ref.partition, options)
        elif old is not None:
            self._replace(old, bundle)
        return _with_stage(ref, made, stage, bundle)

    def _replace(self, old: RemoteBundleRef, new: RemoteBundleRef) -> None:
        """Remove old; new goes as long as all of old is there."""
        try:
            keys = self.bundles.removal_keys(old)
        except BaseException:
            with contextlib.suppress(Exception):  # the first error wins
                self.bundles.remove(new)
            raise
        self.bundles.transport.remove_keys(keys, strict=True)

    def _merge(self, old: RemoteBundleRef, new: RemoteBundleRef, partition: str,
               options: Options) -> RemoteBundleRef:
        """An object of the members of both; old stays as it is."""
        bundles = self.bundles
        try:
            old_manifest = bundles.manifest(old)
            new_manifest = bundles.manifest(new)
            cleanup = [*old_manifest.get("cleanup_keys", ()),
                       *_own_keys(bundles, old, old_manifest),
                       *_own_keys(bundles, new, new_manifest)]
            merged = bundles.put_bundle_manifest(
                _merged_metadata(bundles.metadata(old_manifest),
                                 bundles.metadata(new_manifest)),
                _merged_members(old_manifest["buffers"], new_manifest["buffers"]),
                partition=partition, chunk_bytes=options.chunk_bytes,
                policy=options.policy, cleanup_keys=cleanup,
                config=options.config)
        except BaseException:
            with contextlib.suppress(Exception):  # the first error wins
                bundles.remove(new)
            raise
        bundles.transport.remove_keys(_own_keys(bundles, new, new_manifest),
                                      strict=False)
        return merged

    # ---- reading ----

    def values(self, ref: MooncakeDataProtoRef, names: Sequence[str],
               rows: range | list[int] | None,
               destinations: Mapping[str, Any]) -> dict[str, Any]:
        """Fields of all rows, or of some; those that are encoded come last."""
        values: dict[str, Any] = {}
        for encoded in (False, True):
            for stage, bundle in ref.stage_refs.items():
                there = [name for name in names
                         if ref.field_index[name].stage == stage
                         and (name in ref.encoded_non_tensor) == encoded]
                if not there:
                    continue
                _, reader = self.bundles.reader(bundle)
                values.update(
                    {name: _decoded(reader, ref, name, rows) for name in there}
                    if encoded else
                    _plain(reader, {name: ref.field_index[name].member
                                    for name in there}, rows, destinations))
        return values

    # ---- removing ----

    def remove(self, ref: MooncakeDataProtoRef) -> None:
        """All stages of it."""
        bundles = {one.manifest_key: one for one in ref.stage_refs.values()}
        for bundle in bundles.values():
            self.bundles.remove(bundle)

    def remove_appended(self, old: MooncakeDataProtoRef,
                        new: MooncakeDataProtoRef) -> None:
        """What append() has written; old stays as it was."""
        for stage, bundle in new.stage_refs.items():
            before = old.stage_refs.get(stage)
            if before is not None and before.manifest_key == bundle.manifest_key:
                continue
            kept = set() if before is None else set(
                self.bundles.removal_keys(before))
            self.bundles.transport.remove_keys(
                [key for key in self.bundles.removal_keys(bundle)
                 if key not in kept], strict=True)

    # ---- looking ----

    def view(self, ref: MooncakeDataProtoRef) -> dict[str, Any]:
        """Of each field: where it is, and how it is stored."""
        stages: dict[str, Any] = {}
        specs: dict[str, dict[str, Any]] = {}
        for stage, bundle in ref.stage_refs.items():
            metadata, reader = self.bundles.reader(bundle)
            stages[stage] = {"manifest_key": bundle.manifest_key,
                             "dataproto": dict(metadata.get("dataproto", {}))}
            specs[stage] = {name: reader.specs.get(name, {"encoding": "bytes"})
                            for name in reader.buffers}
        fields: dict[str, dict[str, Any]] = {section: {} for section in SECTIONS}
        for name, at in ref.field_index.items():
            fields[at.section][name] = {
                "section": at.section, "stage": at.stage, "member": at.member,
                "spec": _spec_of(ref, name, specs[at.stage])}
        return {"namespace": ref.namespace, "partition": ref.partition,
                "batch_size": ref.batch_size, "batch_fields": fields["batch"],
                "non_tensor_fields": fields["non_tensor_batch"],
                "meta_info_keys": list(ref.meta_info), "stages": stages}


def _check_fields(ref: MooncakeDataProtoRef, made: Prepared, stage: str,
                  overwrite: bool) -> None:
    known = sorted(made.locations.keys() & ref.field_index.keys())
    if known and not overwrite:
        raise ValueError(f"fields already exist: {known}")
    left = sorted(name for name, at in ref.field_index.items()
                  if at.stage == stage and name not in made.locations)
    if left and overwrite:
        raise ValueError(f"an overwrite of stage {stage!r} must include existing "
                         f"fields: {left}")


def _with_stage(ref: MooncakeDataProtoRef, made: Prepared, stage: str,
                bundle: RemoteBundleRef) -> MooncakeDataProtoRef:
    index = {name: StructuredFieldLocation(stage, member, section)
             for name, (member, section) in made.locations.items()}
    encoded = {name: one for name, one in ref.encoded_non_tensor.items()
               if name not in index}
    return replace(
        ref, stage_refs={**ref.stage_refs, stage: bundle},
        field_index={**ref.field_index, **index},
        meta_info={**ref.meta_info, **made.meta_info},
        encoded_non_tensor={**encoded, **made.encoded})


def _own_keys(bundles: _BundleStore, ref: RemoteBundleRef,
              manifest: Mapping[str, Any]) -> list[str]:
    """Its manifest and metadata, without its members."""
    return [bundles.manifest_key(ref, manifest),
            *manifests.payload_keys(manifest["meta"])]


def _merged_metadata(old: dict[str, Any], new: dict[str, Any]) -> bytes:
    """ValueError: they are not of the same rows."""
    if old.get("dataproto") != new.get("dataproto"):
        raise ValueError(f"stage metadata mismatch: {old.get('dataproto')} and "
                         f"{new.get('dataproto')}")
    return encode_json({**old, FIELD_SPECS: {
        **field_specs_of(old, FIELD_SPECS), **field_specs_of(new, FIELD_SPECS)}})


def _merged_members(old: Mapping[str, Any],
                    new: Mapping[str, Any]) -> dict[str, Any]:
    both = sorted(old.keys() & new.keys())
    if both:
        raise ValueError(f"members already exist in the stage: {both}")
    return {**old, **new}


def _spec_of(ref: MooncakeDataProtoRef, name: str,
             specs: Mapping[str, Any]) -> dict[str, Any]:
    entry = ref.encoded_non_tensor.get(name)
    if entry is None:
        return dict(specs.get(ref.field_index[name].member, {}))
    members = entry["payload_members"]
    return {"encoding": "structured_non_tensor", "codec": entry["codec"],
            "metadata": entry["metadata"], "payload_members": dict(members),
            "payload_specs": {payload: dict(specs.get(member, {}))
                              for payload, member in members.items()}}


# ---- what is read ----


def selected(ref: MooncakeDataProtoRef, fields: Sequence[str] | None,
             batch: Sequence[str] | None,
             others: Sequence[str] | None) -> list[str]:
    """KeyError: there is no such field."""
    if fields is not None and (batch is not None or others is not None):
        raise ValueError("fields cannot be combined with batch_fields and "
                         "non_tensor_fields")
    index = ref.field_index
    if fields is None and batch is None and others is None:
        return list(index)
    wanted = [*(fields or ()), *(batch or ()), *(others or ())]
    unknown = [name for name in wanted if name not in index]
    if unknown:
        raise KeyError(f"unknown DataProto fields: {unknown}")
    return list(dict.fromkeys(wanted))


def rows_of(rows: Any, batch_size: int) -> range | list[int] | None:
    """TypeError: no rows. IndexError: they are not there."""
    if rows is None:
        return None
    if isinstance(rows, slice):
        return rows_of_slice(rows, batch_size)
    if isinstance(rows, StructuredMemberSlice):
        return rows.rows_of(batch_size)
    if isinstance(rows, (str, bytes)) or not (
            isinstance(rows, (Sequence, np.ndarray))):
        raise TypeError("rows must be a slice, a StructuredMemberSlice or row "
                        f"indices, not {type(rows)}")
    indices = []
    for row in rows:
        if isinstance(row, bool) or not isinstance(row, (int, np.integer)):
            raise TypeError(f"row indices must be integers, not {type(row)}")
        if not -batch_size <= row < batch_size:
            raise IndexError(f"row index {row} is out of range: there are "
                             f"{batch_size} rows")
        indices.append(int(row) % batch_size)
    return indices


def _plain(reader: MemberReader, members: Mapping[str, str],
           rows: range | list[int] | None,
           destinations: Mapping[str, Any]) -> dict[str, Any]:
    """Fields that are members each; all rows of all of them together."""
    unknown = [one for one in members.values() if one not in reader.buffers]
    if unknown:
        raise KeyError(f"unknown structured object members: {unknown}")
    if (rows is None and not destinations.keys() & members.keys()
            and len(set(members.values())) == len(members)):
        got = reader.read_all(list(members.values()))
        return {name: got[member] for name, member in members.items()}
    part: Rows | None = rows
    if isinstance(rows, range):
        part = StructuredMemberSlice(0, rows.start, rows.stop, rows.step)
    return {name: reader.read(member, part, destinations.get(name))
            for name, member in members.items()}


def _decoded(reader: MemberReader, ref: MooncakeDataProtoRef, name: str,
             rows: range | list[int] | None) -> Any:
    """Rows of values; of some rows only what they need is read."""
    entry = ref.encoded_non_tensor[name]
    codec, n_rows, metadata, members = _checked_entry(name, entry)
    missing = [one for one in members.values() if one not in reader.buffers]
    if missing:
        raise KeyError(f"unknown structured object members: {missing}")
    if rows is None:
        got = reader.read_all(list(members.values()))
        return decode_field(codec, {payload: got[member] for payload, member
                                    in members.items()}, n_rows, metadata)
    if isinstance(rows, range) and rows.step != 1:
        raise ValueError(f"{name}: rows of an encoded field are sliced with step=1, "
                         f"not {rows.step}")
    if len(rows) and max(rows) >= n_rows:
        raise ValueError(f"{name}: it has {n_rows} rows")
    return decode_rows(codec, metadata, n_rows, rows, lambda wanted: {
        payload: reader.read_spans(_member(name, members, payload), spans)
        for payload, spans in wanted.items()})


def _member(name: str, members: Mapping[str, str], payload: str) -> str:
    if payload not in members:
        raise ValueError(f"{name}: the payload {payload!r} is missing")
    return members[payload]


def _checked_entry(name: str, entry: Any) -> tuple[
        str, int, dict[str, Any], dict[str, str]]:
    """ValueError: a handle tells of no field that is encoded so."""
    if isinstance(entry, Mapping):
        codec, rows = entry.get("codec"), entry.get("rows")
        metadata, members = entry.get("metadata"), entry.get("payload_members")
        if (isinstance(codec, str) and type(rows) is int and rows >= 0
                and isinstance(metadata, Mapping) and isinstance(members, Mapping)
                and all(isinstance(one, str) for one in members.values())):
            return codec, rows, dict(metadata), dict(members)
    raise ValueError(f"encoded_non_tensor: {name!r} is not told rightly")


def built(ref: MooncakeDataProtoRef, values: Mapping[str, Any],
          meta_info_keys: Sequence[str] | None, data_cls: Any) -> Any:
    """A DataProto of what was read. TypeError: data_cls makes none of it."""
    parts: dict[str, dict[str, Any]] = {section: {} for section in SECTIONS}
    for name, value in values.items():
        if name in ref.encoded_non_tensor:
            value = row_array(value)
        parts[ref.field_index[name].section][name] = value
    meta_info = _meta_info(ref, meta_info_keys)
    if data_cls is None or data_cls is dict:
        return {**parts, "meta_info": meta_info}
    try:
        if callable(getattr(data_cls, "from_dict", None)):
            return data_cls.from_dict(parts["batch"], parts["non_tensor_batch"],
                                      meta_info=meta_info)
        return data_cls(**parts, meta_info=meta_info)
    except TypeError as error:
        raise TypeError(f"{data_cls!r} cannot be constructed of a DataProto's "
                        f"parts: {error}") from error


def flattened(ref: MooncakeDataProtoRef, values: Mapping[str, Any],
              meta_info_keys: Sequence[str] | None) -> dict[str, Any]:
    """One dictionary of all. ValueError: a key is in two sections."""
    flat = _meta_info(ref, meta_info_keys)
    both = sorted(flat.keys() & values.keys())
    if both:
        raise ValueError(f"Duplicate keys in meta_info and fields: {both}")
    for section in SECTIONS:
        for name, value in values.items():
            if ref.field_index[name].section != section:
                continue
            if isinstance(value, np.ndarray) and value.dtype == object:
                value = value.tolist()
            flat[name] = value
    return flat


def _meta_info(ref: MooncakeDataProtoRef,
               keys: Sequence[str] | None) -> dict[str, Any]:
    return {name: value for name, value in ref.meta_info.items()
            if keys is None or name in keys}
