# SPDX-License-Identifier: Apache-2.0
"""Named members under one manifest: how structured objects lie in the store.

A manifest is a value of JSON. The bytes of a member are in values beside it, of
one length but for the last, whose keys follow from the manifest's: it can name
nothing else. It is written last, so whoever finds it finds all of the object.
"""
from __future__ import annotations

import json
import math
import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from mooncake.store import MooncakeDistributedStore, ReplicateConfig

FORMAT, VERSION = "mooncake-bundle", 1
CHUNK_BYTES = 64 << 20
CHUNKS_MAX = 1 << 20  # of one member
_CONFIG_FIELDS = (
    "replica_num", "nof_replica_num", "dfs_replica_num", "soft_pin_action",
    "soft_pin_ttl_ms", "with_hard_pin", "preferred_segment",
    "preferred_segments", "preferred_nof_segments", "data_type")


@dataclass
class RemoteBundleRef:
    """Where an object lies; an empty manifest is read when it is needed."""

    manifest_key: str
    manifest: dict[str, Any]


@dataclass
class Payload:
    """Bytes of a member at an address, and what keeps them there."""

    spec: dict[str, Any]
    addr: int
    size: int
    owner: Any


@dataclass
class Read:
    """Bytes begin to end of a member, to addr."""

    name: str
    begin: int
    end: int
    addr: int


def is_count(value: object, limit: int = 1 << 62) -> bool:
    return type(value) is int and 0 <= value < limit


def ref_of(ref: object) -> RemoteBundleRef:
    """A ref, or a mapping with the same names."""
    if isinstance(ref, Mapping):
        ref = RemoteBundleRef(ref.get("manifest_key"), ref.get("manifest") or {})
    if not isinstance(ref, RemoteBundleRef) or not isinstance(
            ref.manifest_key, str) or not isinstance(ref.manifest, Mapping):
        raise TypeError(f"ref must be a RemoteBundleRef, not {ref!r}")
    return ref


def _check(manifest: object, key: str) -> dict[str, Any]:
    """ValueError: it is no manifest."""
    if (not isinstance(manifest, dict) or manifest.get("format") != FORMAT
            or manifest.get("version") != VERSION
            or not isinstance(manifest.get("metadata"), dict)
            or not isinstance(manifest.get("members"), dict)):
        raise ValueError(f"{key} is no manifest of an object")
    for name, spec in manifest["members"].items():
        if (not isinstance(spec, dict) or not is_count(spec.get("bytes"))
                or not is_count(spec.get("first"))
                or not is_count(spec.get("chunk")) or not spec["chunk"]
                or spec["bytes"] > spec["chunk"] * CHUNKS_MAX):
            raise ValueError(f"{key}: member {name!r} is not told rightly")
    return manifest


class BundleStore:
    """Writes, reads and removes bundles. Any thread."""

    def __init__(self, store: MooncakeDistributedStore, prefix: str) -> None:
        self.store = store
        self.prefix = prefix

    def put(self, members: Mapping[str, Payload], metadata: Mapping[str, Any],
            partition: str, chunk_bytes: int,
            config: ReplicateConfig | None) -> RemoteBundleRef:
        """RuntimeError: the store refused it, and nothing of it is left."""
        key = f"{self.prefix}/{partition}/{uuid.uuid4().hex}"
        specs: dict[str, Any] = {}
        keys: list[str] = []
        addrs: list[int] = []
        sizes: list[int] = []
        for name, payload in members.items():
            specs[name] = {**payload.spec, "bytes": payload.size,
                           "chunk": chunk_bytes, "first": len(keys)}
            if payload.size > chunk_bytes * CHUNKS_MAX:
                raise ValueError(f"{name}: chunk_bytes is too small for it")
            for at in range(0, payload.size, chunk_bytes):
                keys.append(f"{key}/{len(keys)}")
                addrs.append(payload.addr + at)
                sizes.append(min(chunk_bytes, payload.size - at))
        manifest = {"format": FORMAT, "version": VERSION,
                    "metadata": dict(metadata), "members": specs}
        text = json.dumps(manifest, separators=(",", ":")).encode()
        self._put_all(keys, addrs, sizes, config)
        code = self.store.put(key, text, _for_keys(config, 1))
        if code:
            self._remove_keys(keys)
            raise RuntimeError(f"put of {key}: {code}")
        return RemoteBundleRef(key, json.loads(text))

    def _put_all(self, keys: list[str], addrs: list[int], sizes: list[int],
                 config: ReplicateConfig | None) -> None:
        if not keys:
            return
        codes = self.store.batch_put_from(keys, addrs, sizes,
                                          _for_keys(config, len(keys)))
        failed = next((code for code in codes if code), 0)
        if failed or len(codes) != len(keys):
            self._remove_keys(keys)
            raise RuntimeError(f"put of {keys[0]} and others: {failed}")

    def _remove_keys(self, keys: list[str]) -> None:
        if keys:
            self.store.batch_remove(keys, True)

    def manifest(self, ref: object) -> dict[str, Any]:
        """RuntimeError: it is not there. ValueError: it is no manifest."""
        ref = ref_of(ref)
        if ref.manifest:
            return _check(dict(ref.manifest), ref.manifest_key)
        text = self.store.get(ref.manifest_key)
        if not text:
            raise RuntimeError(f"{ref.manifest_key} is not in the store")
        try:
            manifest = json.loads(text)
        except (ValueError, RecursionError):
            raise ValueError(
                f"{ref.manifest_key} is no manifest of an object") from None
        return _check(manifest, ref.manifest_key)

    def read(self, ref: object, manifest: Mapping[str, Any],
             reads: Iterable[Read]) -> None:
        """All of them in one operation. RuntimeError: something is missing."""
        key = ref_of(ref).manifest_key
        reads = [read for read in reads if read.begin < read.end]
        plans = [_ranges(key, manifest["members"][read.name], read)
                 for read in reads]
        if not reads:
            return
        keys, targets, sources, sizes = (
            [plan[i] for plan in plans] for i in range(4))
        results = self.store.get_into_ranges(
            [read.addr for read in reads], keys, targets, sources, sizes)
        if results == sizes:
            return
        if not results:
            raise RuntimeError(f"{key}: the store is not set up")
        for read, wanted, got in zip(reads, sizes, results):
            if got != wanted:
                raise RuntimeError(f"{key}: member {read.name!r} cannot be read: "
                                   f"{got[0] if got else got}")

    def remove(self, ref: object) -> None:
        """What is not there is no error. Refs with a manifest need no look-up."""
        ref = ref_of(ref)
        try:
            members = self.manifest(ref)["members"]
        except RuntimeError:
            return
        total = max((spec["first"] + math.ceil(spec["bytes"] / spec["chunk"])
                     for spec in members.values()), default=0)
        if total > CHUNKS_MAX * max(1, len(members)):
            raise ValueError(f"{ref.manifest_key} is no manifest of an object")
        self._remove_keys([f"{ref.manifest_key}/{i}" for i in range(total)])
        self._remove_keys([ref.manifest_key])


def _ranges(key: str, spec: Mapping[str, Any], read: Read) -> tuple:
    """Keys of a read, and of each the target, the source and the size."""
    chunk, first = spec["chunk"], spec["first"]
    keys, targets, sources, sizes = [], [], [], []
    at = read.begin
    while at < read.end:
        number, offset = divmod(at, chunk)
        size = min(chunk - offset, read.end - at)
        keys.append(f"{key}/{first + number}")
        targets.append([at - read.begin])
        sources.append([offset])
        sizes.append([size])
        at += size
    return keys, targets, sources, sizes


def _for_keys(config: ReplicateConfig | None, n: int) -> ReplicateConfig | None:
    """An object's one group is that of each of its keys."""
    groups = getattr(config, "group_ids", None)
    if not groups or len(groups) == n:
        return config
    if len(groups) != 1:
        raise ValueError("config: an object is in one group")
    copy = ReplicateConfig()
    for name in _CONFIG_FIELDS:
        setattr(copy, name, getattr(config, name))
    copy.group_ids = list(groups) * n
    return copy
