# SPDX-License-Identifier: Apache-2.0
"""Objects as they lie in a store: metadata, members, and then a manifest.

The manifest is written last, so whoever finds it finds all of the object. A put
that fails leaves nothing, and raises what it met.
"""
from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from mooncake._structured import manifest as manifests
from mooncake._structured.manifest import FIELD_SPECS, ObjectKeys
from mooncake._structured.members import MemberWriter, field_spec, field_specs_of
from mooncake._structured.payloads import _DirectCopyPayload
from mooncake._structured.reading import MemberReader
from mooncake._structured.transport import Put, Transport, bytes_view
from mooncake._structured.values import (
    BundleTransferPolicy, RemoteBundleRef, StructuredObjectPayload,
    StructuredObjectReadSpec, StructuredObjectResult, checked_policy)


def encode_metadata(metadata: object, specs: Mapping[str, Any]) -> bytes:
    """TypeError or ValueError: JSON cannot say it, or names that are reserved."""
    if not isinstance(metadata, Mapping):
        raise TypeError(f"metadata must be a mapping, not {type(metadata)}")
    if FIELD_SPECS in metadata:
        raise ValueError(f"metadata: {FIELD_SPECS!r} is reserved")
    layout = metadata.get("layout", "structured")
    if not isinstance(layout, str):
        raise ValueError(f"metadata: layout must be a str, not {layout!r}")
    whole = {**metadata, "layout": layout}
    if specs:
        whole[FIELD_SPECS] = dict(specs)
    return encode_json(whole)


def encode_json(metadata: Mapping[str, Any]) -> bytes:
    try:
        return json.dumps(metadata, separators=(",", ":")).encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise TypeError("metadata must be JSON-serializable, and is not: "
                        f"{error}") from None


def _named_view(name: str, value: Any) -> memoryview:
    try:
        return bytes_view(value)
    except TypeError as error:
        raise TypeError(f"{name} {error}") from None


class _BundleStore:
    """Writes, reads and removes objects under keys that begin with prefix."""

    def __init__(self, transport: Transport, prefix: str) -> None:
        self.transport = transport
        self.prefix = prefix

    payload_keys = staticmethod(manifests.payload_keys)

    # ---- writing ----

    @contextlib.contextmanager
    def _rolled_back(self, config: Any) -> Iterator[Put]:
        """A put; whatever is raised, what it has written goes."""
        put = Put(self.transport, config)
        try:
            yield put
        except BaseException:
            self.transport.remove_keys(put.keys, strict=False)
            raise

    def put_bundle(self, meta: Any, buffers: Mapping[str, Any], partition: str,
                   chunk_bytes: int | None, policy: BundleTransferPolicy,
                   config: Any) -> RemoteBundleRef:
        """Raw: buffers are written as bytes."""
        keys = ObjectKeys(self.prefix, manifests.new_object_id(partition))
        chunk = self.transport.chunk_bytes(chunk_bytes)
        view = _named_view("meta", meta)
        with self._rolled_back(config) as put:
            meta_spec = self.transport.write_meta(keys.meta, view, chunk, policy,
                                                  put)
            writer = MemberWriter(self.transport, chunk, policy, put)
            specs = {name: writer.write(keys.buffer(name), _named_view(name, value))
                     for name, value in buffers.items()}
            return self._put_manifest(keys, meta_spec, specs, {}, put)

    def put_members(self, payload: StructuredObjectPayload, partition: str,
                    chunk_bytes: int | None, policy: BundleTransferPolicy,
                    config: Any) -> RemoteBundleRef:
        """A structured object; all of it is checked before the first write."""
        keys = ObjectKeys(self.prefix, manifests.new_object_id(partition))
        chunk = self.transport.chunk_bytes(chunk_bytes)
        encode_metadata(payload.metadata, {})
        if not isinstance(payload.buffers, Mapping):
            raise TypeError("buffers must be a mapping of members, not "
                            f"{type(payload.buffers)}")
        members = {keys.buffer(name): (name, *field_spec(name, value))
                   for name, value in payload.buffers.items()}
        meta = encode_metadata(payload.metadata, {
            name: spec for name, spec, _ in members.values()})
        with self._rolled_back(config) as put:
            meta_spec = self.transport.write_meta(keys.meta, memoryview(meta), chunk,
                                                  policy, put)
            writer = MemberWriter(self.transport, chunk, policy, put)
            specs = {name: writer.write(key, value)
                     for key, (name, _, value) in members.items()}
            return self._put_manifest(keys, meta_spec, specs, {}, put)

    def put_bundle_manifest(self, meta: Any, buffers: Mapping[str, Any], *,
                            partition: str, chunk_bytes: int | None,
                            policy: BundleTransferPolicy | None,
                            cleanup_keys: Sequence[str] | None = None,
                            config: Any = None) -> RemoteBundleRef:
        """An object of payloads that other objects have: buffers are their specs.

        cleanup_keys are removed with it. ValueError: keys that no object has.
        """
        keys = ObjectKeys(self.prefix, manifests.new_object_id(partition))
        cleanup = list(dict.fromkeys(cleanup_keys or ()))
        ids = {manifests.object_id_of(self.prefix, spec["key"], "payload key")
               for spec in buffers.values()}
        ids |= {manifests.object_id_of(self.prefix, key, "cleanup_keys:")
                for key in cleanup}
        more: dict[str, Any] = {"buffer_object_ids": sorted(ids)}
        if cleanup:
            more["cleanup_keys"] = cleanup
        chunk = self.transport.chunk_bytes(chunk_bytes)
        with self._rolled_back(config) as put:
            meta_spec = self.transport.write_meta(keys.meta, bytes_view(meta), chunk,
                                                  checked_policy(policy), put)
            return self._put_manifest(keys, meta_spec, dict(buffers), more, put)

    def _put_manifest(self, keys: ObjectKeys, meta: dict[str, Any],
                      buffers: dict[str, Any], more: Mapping[str, Any],
                      put: Put) -> RemoteBundleRef:
        manifest = {"version": manifests.VERSION, "layout": manifests.LAYOUT,
                    "object_id": keys.object_id, "meta": meta, "buffers": buffers,
                    **more}
        put.finish()
        put.keys.append(keys.manifest)
        self.transport.put(keys.manifest, manifests.encode_manifest(manifest),
                           put.config)
        return RemoteBundleRef(keys.manifest, manifest)

    def _put_direct_copy_payload(
            self, key: str, payload: _DirectCopyPayload, *,
            chunk_bytes: int | None = None,
            transfer_policy: BundleTransferPolicy | None = None,
            config: Any = None) -> tuple[dict[str, Any], list[str]]:
        """One payload alone; returns its spec, and the keys of its chunks."""
        with self._rolled_back(config) as put:
            spec = self.transport.write(
                key, payload, self.transport.chunk_bytes(chunk_bytes),
                checked_policy(transfer_policy), put)
            put.finish()
        return spec, manifests.payload_keys(spec)

    # ---- reading ----

    def manifest(self, ref: object) -> dict[str, Any]:
        """RuntimeError: it is not there. ValueError: it is no manifest."""
        ref = manifests.ref_of(ref)
        manifest = dict(ref.manifest)
        if not manifest:
            data = self.transport.store.get(ref.manifest_key)
            if not data:
                raise RuntimeError(f"get failed for {ref.manifest_key}: it is not "
                                   "in the store")
            manifest = manifests._decode_manifest(data)
        return manifests.checked_manifest(manifest, self.prefix)

    def meta(self, manifest: Mapping[str, Any]) -> bytes:
        """The metadata as it is stored."""
        return self.transport.read_bytes(manifest["meta"])

    def metadata(self, manifest: Mapping[str, Any]) -> dict[str, Any]:
        """Of a structured object. ValueError: it is none."""
        try:
            metadata = json.loads(self.meta(manifest))
        except (ValueError, RecursionError) as error:
            raise ValueError(f"{manifest['meta']['key']}: no metadata of a "
                             f"structured object: {error}") from None
        if not isinstance(metadata, dict):
            raise ValueError(f"{manifest['meta']['key']}: metadata must be an "
                             "object of JSON")
        return metadata

    def reader(self, ref: object) -> tuple[dict[str, Any], MemberReader]:
        """The metadata of an object, and what reads its members."""
        manifest = self.manifest(ref)
        metadata = self.metadata(manifest)
        return metadata, MemberReader(self.transport, manifest["buffers"],
                                      field_specs_of(metadata, FIELD_SPECS))

    def materialize(self, spec: StructuredObjectReadSpec,
                    destinations: Mapping[str, Any]) -> StructuredObjectResult:
        """KeyError: it has no such member."""
        if spec.member_names is not None and not spec.member_names:
            raise ValueError("the read spec selected no members")
        metadata, reader = self.reader(spec.ref)
        names = (tuple(reader.buffers) if spec.member_names is None
                 else spec.member_names)
        missing = [name for name in names if name not in reader.buffers]
        if missing:
            raise KeyError(f"unknown structured object members: {missing}")
        slices = dict(spec.member_slices)
        return StructuredObjectResult(metadata, {
            name: reader.read(name, slices.get(name), destinations.get(name))
            for name in names})

    def manifest_key(self, ref: RemoteBundleRef,
                     manifest: Mapping[str, Any]) -> str:
        """Where its manifest lies. ValueError: the ref says that of another."""
        key = ObjectKeys(self.prefix, manifest["object_id"]).manifest
        if ref.manifest_key and ref.manifest_key != key:
            raise ValueError(f"manifest_key {ref.manifest_key!r} is not that of "
                             f"its object, {key!r}")
        return key

    # ---- removing ----

    def removal_keys(self, ref: object) -> list[str]:
        """All that goes with an object; none: its manifest is gone.

        ValueError: the ref's manifest_key is not that of its object.
        """
        ref = manifests.ref_of(ref)
        if not ref.manifest and self._is_gone(ref.manifest_key):
            return []
        manifest = self.manifest(ref)
        return manifests.removal_keys(manifest, self.manifest_key(ref, manifest))

    def _is_gone(self, manifest_key: str) -> bool:
        """Asks a real store, of which an empty answer may be a failure, too."""
        if not self.transport.direct:
            return False
        return bool(self.transport.store.is_exist(manifest_key) == 0)

    def remove(self, ref: object) -> None:
        """RuntimeError: something of it could not be removed."""
        self.transport.remove_keys(self.removal_keys(ref), strict=True)
