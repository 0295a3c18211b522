# SPDX-License-Identifier: Apache-2.0
"""Objects of named members in the store, whole or in part; batches of rows.

A structured object is metadata in JSON and members: arrays of numpy, tensors of
torch, bytes. A DataProto is a batch of rows: fields that are tensors or arrays,
fields of any other values, and metadata of the whole. Its handle is JSON, small,
and for any process. What lies in the store is what Mooncake's module writes and
reads. Nothing that is stored is ever run: there is no pickle, and what torch.save()
has made is read as weights only.

What cannot be read because it is not there is a RuntimeError, what is malformed a
ValueError, and a value that cannot be stored a TypeError, which names it. Calls may
come from any thread, and block.
"""
from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from mooncake._structured import dataproto as batches
from mooncake._structured import transport as transports
from mooncake._structured.bundles import _BundleStore
from mooncake._structured.codecs import _encode_with_schema
from mooncake._structured.config import (
    STORAGE_GROUP_ID, _config_for_grouped_keys)
from mooncake._structured.handles import (
    DATAPROTO_REF_HANDLE_TYPE, DATAPROTO_REF_HANDLE_VERSION,
    export_dataproto_ref, import_dataproto_ref, is_dataproto_ref_handle, resolved)
from mooncake._structured.infer import (
    MISSING, _choose_leaf_codec, _escape_key, infer_structure)
from mooncake._structured.manifest import (
    FIELD_SPECS, _decode_manifest, checked_prefix, ref_of)
from mooncake._structured.payloads import (
    _DirectCopyPayload, _MultiBufferPayload, _package_concat)
from mooncake._structured.pieces import (
    _decode_msgpack_ragged_values, _encode_msgpack_ragged_values)
from mooncake._structured.ragged import (
    _decode_typed_ragged_values, _encode_typed_ragged_regular_ndarray_rows,
    _encode_typed_ragged_values)
from mooncake._structured.release import release_result as _release_result
from mooncake._structured.schema import FieldSchema
from mooncake._structured.transport import AUTO_PARALLEL_MIN_CHUNKS
from mooncake._structured.values import (
    BundleTransferPolicy, MooncakeDataProtoRef, RemoteBundleRef,
    StructuredFieldLocation, StructuredMemberSlice, StructuredObjectPayload,
    StructuredObjectReadSpec, StructuredObjectResult, checked_policy,
    raw_destination, tensor_object_buffer)

__all__ = [
    "BundleStore", "BundleTransferPolicy", "DataProtoRefLike", "FieldSchema",
    "MooncakeBundleTransfer", "MooncakeDataProtoRef", "RemoteBundleRef",
    "StructuredFieldLocation", "StructuredMemberSlice", "StructuredObjectPayload",
    "StructuredObjectReadSpec", "StructuredObjectResult", "export_dataproto_ref",
    "export_ref", "import_dataproto_ref", "import_ref",
    "is_dataproto_ref_handle", "raw_destination", "tensor_object_buffer"]

DEFAULT_BUNDLE_CHUNK_BYTES = transports.CHUNK_BYTES
AUTO_PARALLEL_MIN_BYTES = DEFAULT_BUNDLE_CHUNK_BYTES
MISSING_OBJECT_ERROR = transports.MISSING_OBJECT
STRUCTURED_FIELD_SPECS_KEY = FIELD_SPECS
DataProtoRefLike = MooncakeDataProtoRef | Mapping[str, Any]

export_ref = export_dataproto_ref
import_ref = import_dataproto_ref

# Callers replace these two, so they are looked up here when they are used.
_concat_arrays_into = _package_concat


def _has_tensor_codec_helpers() -> bool:
    """Whether mooncake.store lays tensors down, and reads them."""
    try:
        from mooncake.store import _deserialize_tensor, _serialize_tensor
    except ImportError:
        return False
    return callable(_serialize_tensor) and callable(_deserialize_tensor)


_WRAPPED = "__mooncake_wrapped_object__"  # in the metadata: one value alone


class BundleStore(Protocol):
    """What a store must have; MooncakeDistributedStore has more, which is used."""

    def put(self, key: str, value: Any, **options: Any) -> int | None: ...

    def get(self, key: str) -> bytes: ...

    def remove(self, key: str, force: bool = False) -> int | None: ...


class MooncakeBundleTransfer:
    """Writes, reads and removes objects under keys that begin with key_prefix.

    store and buffer_pool are borrowed. With a pool all bytes go through its
    leases, and results may lie in some until release_result(). Without one a
    MooncakeDistributedStore writes from where members lie, and nothing may change
    them meanwhile.
    """

    def __init__(self, store: BundleStore, key_prefix: str = "bundle",
                 default_chunk_bytes: int = DEFAULT_BUNDLE_CHUNK_BYTES,
                 buffer_pool: Any = None) -> None:
        self.key_prefix = checked_prefix(key_prefix)
        if default_chunk_bytes <= 0:
            raise ValueError("default_chunk_bytes: chunk_bytes must be positive, not "
                             f"{default_chunk_bytes!r}")
        self.store = store
        self.default_chunk_bytes = default_chunk_bytes
        self._transport = transports.Transport(store, default_chunk_bytes,
                                               buffer_pool)
        self._bundle_store = _BundleStore(self._transport, self.key_prefix)
        self._batches = batches.Batches(self._bundle_store)

    # ---- objects of members ----

    def put_bundle(self, meta: Any, buffers: Mapping[str, Any],
                   partition: str = "default", chunk_bytes: int | None = None,
                   policy: BundleTransferPolicy | None = None,
                   max_inflight_put: int | None = None,
                   config: Any = None) -> RemoteBundleRef:
        """Store bytes and named buffers as they are."""
        return self._bundle_store.put_bundle(
            meta, buffers, partition, chunk_bytes,
            checked_policy(policy, max_inflight_put), config)

    def put_structured_object(
            self, payload: StructuredObjectPayload, partition: str = "default",
            chunk_bytes: int | None = None,
            policy: BundleTransferPolicy | None = None,
            max_inflight_put: int | None = None,
            config: Any = None) -> RemoteBundleRef:
        """Store it under new keys; config as for MooncakeDistributedStore.put()."""
        return self._bundle_store.put_members(
            payload, partition, chunk_bytes,
            checked_policy(policy, max_inflight_put), config)

    def put_object(self, obj: Any, partition: str = "default",
                   chunk_bytes: int | None = None,
                   policy: BundleTransferPolicy | None = None,
                   max_inflight_put: int | None = None,
                   config: Any = None) -> RemoteBundleRef:
        """Store a mapping of members, or one array, tensor or bytes."""
        payload = (StructuredObjectPayload({}, obj) if isinstance(obj, Mapping)
                   else StructuredObjectPayload({_WRAPPED: True}, {"value": obj}))
        return self.put_structured_object(payload, partition, chunk_bytes, policy,
                                          max_inflight_put, config)

    def get_object(self, ref: RemoteBundleRef | Mapping[str, Any]) -> Any:
        """What put_object() stored."""
        result = self.materialize(self.read_spec(ref))
        return (result.objects["value"] if result.metadata.get(_WRAPPED)
                else result.objects)

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

        That is an ndarray as what is read, raw_destination(), or for tensors
        tensor_object_buffer(), and is what the result has, or lies under it.
        """
        return self._bundle_store.materialize(spec, destinations or {})

    def remove_bundle(self, ref: RemoteBundleRef | Mapping[str, Any]) -> None:
        """All that is there of an object."""
        self._bundle_store.remove(ref)

    # ---- batches of rows ----

    def put(self, data: Any, *, type: str = "dataproto",
            namespace: str = "default", partition: str = "default",
            stage: str = "default", chunk_bytes: int | None = None,
            policy: BundleTransferPolicy | None = None, config: Any = None,
            field_schemas: Mapping[str, FieldSchema] | None = None,
            ) -> MooncakeDataProtoRef:
        """Store a DataProto, or with type "dict" a dictionary of any fields."""
        made = self._prepared(data, type, field_schemas, None)
        return self._batches.put(made, namespace, partition, stage, batches.Options(
            chunk_bytes, checked_policy(policy), config))

    @staticmethod
    def _prepared(data: Any, type: str,
                  schemas: Mapping[str, FieldSchema] | None,
                  ref: MooncakeDataProtoRef | None) -> batches.Prepared:
        _check_type(type)
        schemas = schemas or {}
        sections = (batches.sections_of(data) if type == "dataproto"
                    else batches.sections_of_dict(data, schemas))
        return batches.prepared(sections, schemas, ref)

    def put_dataproto(self, data: Any, *, namespace: str = "default",
                      partition: str = "default", stage: str = "default",
                      chunk_bytes: int | None = None,
                      policy: BundleTransferPolicy | None = None,
                      field_schemas: Mapping[str, FieldSchema] | None = None,
                      config: Any = None) -> MooncakeDataProtoRef:
        """As put()."""
        return self.put(data, namespace=namespace, partition=partition, stage=stage,
                        chunk_bytes=chunk_bytes, policy=policy,
                        field_schemas=field_schemas, config=config)

    def append_dataproto_fields(
            self, ref: DataProtoRefLike, data: Any, *, stage: str,
            overwrite: bool = False, chunk_bytes: int | None = None,
            policy: BundleTransferPolicy | None = None,
            field_schemas: Mapping[str, FieldSchema] | None = None,
            config: Any = None) -> MooncakeDataProtoRef:
        """Store more fields of the same rows; returns the ref of all of them.

        ValueError: there are fields of that name and overwrite is not set, or it
        leaves part of the stage. The old ref can still be read, but for a stage
        that was overwritten.
        """
        old = resolved(ref)
        made = self._prepared(data, "dataproto", field_schemas, old)
        return self._batches.append(old, made, stage, overwrite, batches.Options(
            chunk_bytes, checked_policy(policy), config))

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
        _check_type(type)
        old = resolved(ref)
        values = self._batches.values(
            old, batches.selected(old, fields, batch_fields, non_tensor_fields),
            batches.rows_of(rows, old.batch_size), destinations or {})
        if type == "dict":
            return batches.flattened(old, values, meta_info_keys)
        return batches.built(old, values, meta_info_keys, data_cls)

    def get_dataproto(
            self, ref: DataProtoRefLike, *,
            fields: Sequence[str] | None = None,
            batch_fields: Sequence[str] | None = None,
            non_tensor_fields: Sequence[str] | None = None,
            meta_info_keys: Sequence[str] | None = None,
            data_cls: Any = None,
            destinations: Mapping[str, Any] | None = None,
            rows: slice | StructuredMemberSlice | Sequence[int] | None = None,
            ) -> Any:
        """As get()."""
        return self.get(ref, fields=fields, batch_fields=batch_fields,
                        non_tensor_fields=non_tensor_fields,
                        meta_info_keys=meta_info_keys, data_cls=data_cls,
                        destinations=destinations, rows=rows)

    def dataproto_manifest_view(self, ref: DataProtoRefLike) -> dict[str, Any]:
        """Of each field: its stage and section, and how it is stored."""
        return self._batches.view(resolved(ref))

    def cleanup_dataproto(self, ref: DataProtoRefLike) -> None:
        """Remove all that a ref or its handle is of; what is gone is no error."""
        self._batches.remove(resolved(ref))

    def cleanup_dataproto_append(self, previous: DataProtoRefLike,
                                 appended: DataProtoRefLike) -> None:
        """Remove what append_dataproto_fields() wrote, and nothing else."""
        self._batches.remove_appended(resolved(previous), resolved(appended))

    def put_dict(self, data: Mapping[str, Any],
                 **options: Any) -> MooncakeDataProtoRef:
        """As put() with type "dict"."""
        return self.put(data, type="dict", **options)

    def get_dict(self, ref: DataProtoRefLike,
                 **options: Any) -> dict[str, Any]:
        """As get() with type "dict"."""
        flat: dict[str, Any] = self.get(ref, type="dict", **options)
        return flat

    put_legacy_dict = put_dict
    get_legacy_dict = get_dict
    remove_legacy_dict = cleanup_dataproto

    @staticmethod
    def release_result(result: Any) -> None:
        """Give back the leases of a pool that a result lies in."""
        _release_result(result)


def _check_type(type: str) -> None:
    if type not in ("dataproto", "dict"):
        raise ValueError(f"unsupported Mooncake payload type {type!r}")
