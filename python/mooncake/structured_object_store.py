# SPDX-License-Identifier: Apache-2.0
"""Objects of named members in the store, whole or in part; batches of rows.

A structured object is metadata in JSON and members: arrays of numpy, tensors of
torch, bytes. A DataProto is a batch of rows: fields that are tensors or arrays,
fields of any other values, and metadata of the whole. Its handle is JSON, small,
and for any process. Nothing that is stored is ever run: there is no pickle.

What cannot be read because it is not there is a RuntimeError, what is malformed a
ValueError, and a value that cannot be stored a TypeError, which names it. Calls may
come from any thread, and block.
"""
from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from mooncake import _dataproto as dataproto
from mooncake._bundle import CHUNK_BYTES, BundleStore, Payload, RemoteBundleRef, ref_of
from mooncake._dataproto import (
    FieldSchema, MooncakeDataProtoRef, StructuredFieldLocation,
    export_dataproto_ref, export_ref, import_dataproto_ref, import_ref,
    is_dataproto_ref_handle)
from mooncake._members import (
    RawDestination, Reader, Rows, TensorObjectBuffer, of_bytes, payload_of)
from mooncake.store import MooncakeDistributedStore, ReplicateConfig

__all__ = [
    "BundleTransferPolicy", "FieldSchema", "MooncakeBundleTransfer",
    "MooncakeDataProtoRef", "RemoteBundleRef", "StructuredFieldLocation",
    "StructuredMemberSlice", "StructuredObjectPayload",
    "StructuredObjectReadSpec", "StructuredObjectResult", "export_dataproto_ref",
    "export_ref", "import_dataproto_ref", "import_ref",
    "is_dataproto_ref_handle", "raw_destination", "tensor_object_buffer"]

_WRAPPED = "__mooncake_wrapped_object__"  # in the metadata: one value alone

DEFAULT_BUNDLE_CHUNK_BYTES = CHUNK_BYTES
DATAPROTO_REF_HANDLE_TYPE = dataproto.HANDLE_TYPE
DATAPROTO_REF_HANDLE_VERSION = dataproto.HANDLE_VERSION
DataProtoRefLike = MooncakeDataProtoRef | Mapping[str, Any]

tensor_object_buffer = TensorObjectBuffer
raw_destination = RawDestination


@dataclass(frozen=True)
class BundleTransferPolicy:
    """How members are written: all of them at once, from where they lie.

    With copy_mode "zero_copy" a tensor that is no tensor_object_buffer is refused.
    max_inflight_put and put_mode have no effect: a put is one batch.
    """

    max_inflight_put: int = 1
    put_mode: str = "auto"
    copy_mode: str = "auto"

    def __post_init__(self) -> None:
        if self.copy_mode not in ("auto", "copy", "zero_copy"):
            raise ValueError(f"copy_mode is {self.copy_mode!r}")


@dataclass(frozen=True)
class StructuredObjectPayload:
    """What to store: metadata for JSON, and members by name."""

    metadata: Mapping[str, Any] | None = None
    buffers: Mapping[str, Any] | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.buffers, Mapping):
            raise TypeError("buffers must be a mapping of members")
        if self.metadata is None:
            object.__setattr__(self, "metadata", {})


@dataclass
class StructuredObjectResult:
    metadata: dict[str, Any]
    objects: dict[str, Any]


@dataclass(frozen=True)
class StructuredMemberSlice:
    """Rows start to end of a member, each step-th; the axis is 0."""

    axis: int
    start: int
    end: int
    step: int = 1

    def rows(self) -> Rows:
        if (self.axis != 0 or self.step < 1
                or not 0 <= self.start <= self.end):
            raise ValueError(f"{self} is not of rows in their order")
        return Rows.of(range(self.start, self.end, self.step))


@dataclass(frozen=True)
class StructuredObjectReadSpec:
    """What to read of an object; each method makes another."""

    ref: RemoteBundleRef | Mapping[str, Any]
    member_names: tuple[str, ...] | None = None
    member_slices: tuple[tuple[str, StructuredMemberSlice], ...] = ()

    def select_members(
            self, names: Sequence[str] | None) -> StructuredObjectReadSpec:
        """Only these; None: all."""
        return replace(self, member_names=None if names is None else tuple(names))

    def slice_member(self, name: str, axis: int, start: int, end: int,
                     step: int = 1) -> StructuredObjectReadSpec:
        slices = dict(self.member_slices)
        slices[name] = StructuredMemberSlice(axis, start, end, step)
        return replace(self, member_slices=tuple(slices.items()))

    def member_slice(self, name: str) -> StructuredMemberSlice | None:
        return dict(self.member_slices).get(name)


class MooncakeBundleTransfer:
    """Writes, reads and removes objects under keys that begin with key_prefix.

    store is borrowed. buffer_pool is not needed: memory is not registered.
    """

    def __init__(self, store: MooncakeDistributedStore,
                 key_prefix: str = "bundle",
                 default_chunk_bytes: int = CHUNK_BYTES,
                 buffer_pool: Any = None) -> None:
        del buffer_pool
        if not isinstance(key_prefix, str) or not key_prefix.strip("/"):
            raise ValueError(f"key_prefix is {key_prefix!r}")
        self.store = store
        self.key_prefix = key_prefix.strip("/")
        self.default_chunk_bytes = self._chunk(default_chunk_bytes)
        self._bundles = BundleStore(store, self.key_prefix)

    def _chunk(self, chunk_bytes: int | None) -> int:
        if chunk_bytes is None:
            return self.default_chunk_bytes
        if not isinstance(chunk_bytes, int) or chunk_bytes < 1:
            raise ValueError(f"chunk_bytes is {chunk_bytes!r}")
        return chunk_bytes

    # ---- objects of members ----

    def put_bundle(self, meta: bytes | bytearray | memoryview,
                   buffers: Mapping[str, Any], partition: str = "default",
                   chunk_bytes: int | None = None,
                   policy: BundleTransferPolicy | None = None,
                   max_inflight_put: int | None = None,
                   config: ReplicateConfig | None = None) -> RemoteBundleRef:
        """Store bytes and named buffers; the bytes are the member ""."""
        return self.put_structured_object(
            StructuredObjectPayload({}, {**buffers, "": of_bytes(meta)}),
            partition, chunk_bytes, policy, max_inflight_put, config)

    def put_object(self, obj: Any, partition: str = "default",
                   chunk_bytes: int | None = None,
                   policy: BundleTransferPolicy | None = None,
                   max_inflight_put: int | None = None,
                   config: ReplicateConfig | None = None) -> RemoteBundleRef:
        """Store a mapping of members, or one array, tensor or bytes."""
        wrapped = not isinstance(obj, Mapping)
        return self.put_structured_object(
            StructuredObjectPayload({_WRAPPED: True} if wrapped else {},
                                    {"value": obj} if wrapped else obj),
            partition, chunk_bytes, policy, max_inflight_put, config)

    def get_object(self, ref: RemoteBundleRef | Mapping[str, Any]) -> Any:
        """What put_object() stored."""
        result = self.materialize(self.read_spec(ref))
        return (result.objects["value"] if result.metadata.get(_WRAPPED)
                else result.objects)

    def remove_bundle(self, ref: RemoteBundleRef | Mapping[str, Any]) -> None:
        """All that is there of an object."""
        self._bundles.remove(ref)

    def put_structured_object(
            self, payload: StructuredObjectPayload, partition: str = "default",
            chunk_bytes: int | None = None,
            policy: BundleTransferPolicy | None = None,
            max_inflight_put: int | None = None,
            config: ReplicateConfig | None = None) -> RemoteBundleRef:
        """Store it under a new key; config as for MooncakeDistributedStore.put().

        Members are written from where they lie, so nothing may change them
        meanwhile.
        """
        del max_inflight_put
        zero_copy = policy is not None and policy.copy_mode == "zero_copy"
        members: dict[str, Payload] = {}
        for name, value in payload.buffers.items():
            if not isinstance(name, str):
                raise TypeError(f"buffers: the name {name!r} is no str")
            self._check_end(name, value)
            members[name] = payload_of(name, value, zero_copy)
        return self._bundles.put(members, dataproto.json_safe(payload.metadata),
                                 partition, self._chunk(chunk_bytes), config)

    def read_spec(self, ref: RemoteBundleRef
                  | Mapping[str, Any]) -> StructuredObjectReadSpec:
        """All of an object; nothing is read yet."""
        return StructuredObjectReadSpec(ref_of(ref))

    def materialize(self, spec: StructuredObjectReadSpec) -> StructuredObjectResult:
        """Read it into memory of its own. KeyError: it has no such member."""
        return self.materialize_into(spec, None)

    def materialize_into(
            self, spec: StructuredObjectReadSpec,
            destinations: Mapping[str, Any] | None) -> StructuredObjectResult:
        """Read it, those members that have a destination to there.

        A destination is an array or tensor as what is read, raw_destination() or
        tensor_object_buffer(), and is what the result has, or lies under it.
        """
        rows = {name: part.rows() for name, part in spec.member_slices}
        manifest, objects = self._read(spec.ref, spec.member_names, rows,
                                       destinations or {})
        return StructuredObjectResult(dict(manifest["metadata"]), objects)

    def _read(self, ref: RemoteBundleRef | Mapping[str, Any],
              names: Sequence[str] | None, rows: Mapping[str, Rows],
              destinations: Mapping[str, Any]) -> tuple[dict, dict[str, Any]]:
        """The manifest, and the members: all in two operations of the store."""
        manifest = self._bundles.manifest(ref)
        there = manifest["members"]
        names = list(there) if names is None else names
        missing = [name for name in {*names, *rows, *destinations}
                   if name not in there]
        if missing:
            raise KeyError(f"the object has no member {missing[0]!r}")
        for name, place in destinations.items():
            self._check_end(name, place)
        readers = [Reader(name, there[name], rows.get(name),
                          destinations.get(name)) for name in names]
        for reads in ("first_reads", "reads"):
            self._bundles.read(ref, manifest, [
                read for reader in readers for read in getattr(reader, reads)()])
        return manifest, {reader.name: reader.result() for reader in readers}

    def _check_end(self, name: str, place: object) -> None:
        """ValueError: it begins in registered memory and ends behind it.

        The store sees only the parts of it that it copies.
        """
        if not isinstance(place, (RawDestination, TensorObjectBuffer)):
            return
        left = self._bundles.store._registered_bytes(place.ptr)
        if left and place.size > left:
            raise ValueError(f"{name}: {place.size} bytes at {place.ptr:#x} run past "
                             f"the end of registered memory, which has {left} there")

    # ---- batches of rows ----

    def put(self, data: Any, *, type: str = "dataproto",
            namespace: str = "default", partition: str = "default",
            stage: str = "default", chunk_bytes: int | None = None,
            policy: BundleTransferPolicy | None = None,
            field_schemas: Mapping[str, FieldSchema] | None = None,
            config: ReplicateConfig | None = None) -> MooncakeDataProtoRef:
        """Store a DataProto, or with type "dict" a dictionary of any fields."""
        parts = dataproto.parts_of(data, type, field_schemas)
        return self._put_stage(parts, namespace, partition, stage, chunk_bytes,
                               policy, config)

    def _put_stage(self, parts: dataproto.Parts, namespace: str, partition: str,
                   stage: str, chunk_bytes: int | None,
                   policy: BundleTransferPolicy | None,
                   config: ReplicateConfig | None) -> MooncakeDataProtoRef:
        bundle = self.put_structured_object(
            StructuredObjectPayload(
                {"batch_size": parts.batch_size, "stage": stage},
                {**parts.batch, **parts.others}),
            f"{namespace}/{partition}", chunk_bytes, policy, None, config)
        index = {name: StructuredFieldLocation(stage, name, section)
                 for section, fields in zip(dataproto.SECTIONS,
                                            (parts.batch, parts.others))
                 for name in fields}
        return MooncakeDataProtoRef(
            parts.batch_size, {stage: bundle}, index, parts.meta_info, namespace,
            partition)

    def append_dataproto_fields(
            self, ref: DataProtoRefLike, data: Any, *,
            stage: str, chunk_bytes: int | None = None,
            policy: BundleTransferPolicy | None = None, overwrite: bool = False,
            field_schemas: Mapping[str, FieldSchema] | None = None,
            config: ReplicateConfig | None = None) -> MooncakeDataProtoRef:
        """Store more fields of the same rows; returns the ref of all of them.

        ValueError: there are fields or a stage of that name, and overwrite is
        not set, or it would leave part of a stage. Stages whose fields are all
        replaced are removed.
        """
        ref = dataproto.resolved(ref)
        parts = dataproto.parts_of(data, "dataproto", field_schemas)
        dataproto.check_append(ref, parts, stage, overwrite)
        new = dataproto.merged(ref, self._put_stage(
            parts, ref.namespace, ref.partition, stage, chunk_bytes, policy,
            config))
        for name, bundle in ref.stage_refs.items():
            if new.stage_refs.get(name) is not bundle:
                self.remove_bundle(bundle)
        return new

    def get(self, ref: DataProtoRefLike, *,
            type: str = "dataproto", fields: Sequence[str] | None = None,
            batch_fields: Sequence[str] | None = None,
            non_tensor_fields: Sequence[str] | None = None,
            meta_info_keys: Sequence[str] | None = None,
            data_cls: Any = None,
            destinations: Mapping[str, Any] | None = None,
            rows: slice | StructuredMemberSlice | Sequence[int] | None = None,
            ) -> Any:
        """Read fields: without a selection all, of all rows or of these.

        A dictionary of batch, non_tensor_batch and meta_info, or a data_cls of
        them; with type "dict" one dictionary of all fields. KeyError: there is
        no such field.
        """
        if type not in ("dataproto", "dict"):
            raise ValueError(f"type is {type!r}")
        ref = dataproto.resolved(ref)
        names = dataproto.selected(ref, fields, batch_fields, non_tensor_fields)
        wanted = (rows.rows() if isinstance(rows, StructuredMemberSlice)
                  else dataproto.rows_of(rows, ref.batch_size))
        values = self._read_fields(ref, names, wanted, destinations or {})
        return dataproto.built(ref, values, meta_info_keys, data_cls, type)

    def _read_fields(self, ref: MooncakeDataProtoRef, names: Sequence[str],
                     rows: Rows | None,
                     destinations: Mapping[str, Any]) -> dict[str, Any]:
        values: dict[str, Any] = {}
        for stage, bundle in ref.stage_refs.items():
            there = {name: ref.field_index[name].member for name in names
                     if ref.field_index[name].stage == stage}
            if not there:
                continue
            _, objects = self._read(
                bundle, list(there.values()),
                {} if rows is None else dict.fromkeys(there.values(), rows),
                {there[name]: to for name, to in destinations.items()
                 if name in there})
            values.update((name, objects[member])
                          for name, member in there.items())
        return values

    def put_dataproto(self, data: Any, **options: Any) -> MooncakeDataProtoRef:
        """As put()."""
        return self.put(data, type="dataproto", **options)

    def get_dataproto(self, ref: DataProtoRefLike, **options: Any) -> Any:
        """As get()."""
        return self.get(ref, type="dataproto", **options)

    def put_dict(self, data: Mapping[str, Any],
                 **options: Any) -> MooncakeDataProtoRef:
        """As put() with type "dict"."""
        return self.put(data, type="dict", **options)

    def get_dict(self, ref: DataProtoRefLike,
                 **options: Any) -> dict[str, Any]:
        """As get() with type "dict"."""
        return self.get(ref, type="dict", **options)

    put_legacy_dict = put_dict
    get_legacy_dict = get_dict

    def cleanup_dataproto(self, ref: DataProtoRefLike) -> None:
        """Remove all that a ref or its handle is of; what is gone is no error."""
        for bundle in dataproto.resolved(ref).stage_refs.values():
            self.remove_bundle(bundle)

    remove_legacy_dict = cleanup_dataproto

    def cleanup_dataproto_append(
            self, previous: DataProtoRefLike,
            appended: DataProtoRefLike) -> None:
        """Remove what append_dataproto_fields() wrote, and nothing else."""
        old = {bundle.manifest_key for bundle in
               dataproto.resolved(previous).stage_refs.values()}
        for bundle in dataproto.resolved(appended).stage_refs.values():
            if bundle.manifest_key not in old:
                self.remove_bundle(bundle)

    def dataproto_manifest_view(self,
                                ref: DataProtoRefLike) -> dict[str, Any]:
        """Of each field: its stage and section, and how it is stored."""
        ref = dataproto.resolved(ref)
        members = {stage: self._bundles.manifest(bundle)["members"]
                   for stage, bundle in ref.stage_refs.items()}
        return {
            "batch_size": ref.batch_size,
            "fields": {
                name: {"stage": at.stage, "section": at.section,
                       **members[at.stage].get(at.member, {})}
                for name, at in ref.field_index.items()},
            "meta_info": dict(ref.meta_info)}

    @staticmethod
    def release_result(result: Any) -> None:
        """Nothing: results have memory of their own, which goes with them."""
        del result
