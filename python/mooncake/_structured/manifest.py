# SPDX-License-Identifier: Apache-2.0
"""Keys of objects, and manifests: what is in them, and what one may name.

All keys of an object begin with <prefix>/<partition>/<uuid>/, so that a manifest
which lies can name nothing of another object's.
"""
from __future__ import annotations

import json
import uuid
from collections.abc import Iterable, Mapping
from typing import Any

from mooncake._structured.values import RemoteBundleRef

VERSION, LAYOUT = 1, "bundle"
FIELD_SPECS = "__mooncake_structured_fields__"  # in the metadata of an object


def _has_control(text: str) -> bool:
    return any(ord(one) < 32 for one in text)


def checked_prefix(prefix: object) -> str:
    """ValueError: no keys can begin with it."""
    stripped = prefix.strip("/") if isinstance(prefix, str) else ""
    if not stripped or _has_control(stripped):
        raise ValueError("key_prefix must be a str that is not empty and has no "
                         f"control characters, not {prefix!r}")
    return stripped


def checked_name(name: object, what: str) -> str:
    """ValueError: it cannot be a part of a key."""
    if not isinstance(name, str) or not name or "/" in name or _has_control(name):
        raise ValueError(f"invalid bundle {what} {name!r}: it must be a str that "
                         "is not empty, without / and control characters")
    return name


def new_object_id(partition: object) -> str:
    """ValueError: the partition is none."""
    return f"{checked_name(partition, 'partition')}/{uuid.uuid4().hex}"


class ObjectKeys:
    """The keys of one object."""

    def __init__(self, prefix: str, object_id: str) -> None:
        self.object_id = object_id
        self.base = f"{prefix}/{object_id}"
        self.manifest = f"{self.base}/manifest"
        self.meta = f"{self.base}/meta"

    def buffer(self, name: object) -> str:
        """ValueError: no member is called so."""
        return f"{self.base}/buffer/{checked_name(name, 'buffer name')}"


def object_id_of(prefix: str, key: object, what: str) -> str:
    """Of a key of an object. ValueError: it is none."""
    parts = (key.removeprefix(f"{prefix}/").split("/")
             if isinstance(key, str) and key.startswith(f"{prefix}/") else [])
    if len(parts) < 3 or not all(parts):
        raise ValueError(f"{what} {key!r} is outside the objects of {prefix}/")
    return "/".join(parts[:2])


# ---- payload specs ----


def payload_spec(key: str, sizes: list[int]) -> dict[str, Any]:
    """Of a payload that has chunks of these sizes."""
    return {"key": key, "bytes": sum(sizes), "chunks": [
        {"key": one, "bytes": size}
        for one, size in zip(chunk_keys(key, len(sizes)), sizes)]}


def chunk_keys(key: str, n_chunks: int) -> list[str]:
    if n_chunks == 1:
        return [key]
    return [f"{key}/chunk/{i}" for i in range(n_chunks)]


def payload_keys(spec: Mapping[str, Any]) -> list[str]:
    """Where the chunks of a payload lie."""
    return [chunk["key"] for chunk in spec["chunks"]]


def _is_count(value: object) -> bool:
    return type(value) is int and 0 <= value < 1 << 63


def _check_payload(spec: object, what: str, bases: Iterable[str]) -> None:
    """ValueError: nothing is stored so, or not there."""
    if not isinstance(spec, dict):
        raise ValueError(f"{what}: its payload spec is no mapping")
    key, size, chunks = spec.get("key"), spec.get("bytes"), spec.get("chunks")
    if not isinstance(key, str) or not any(map(key.startswith, bases)):
        raise ValueError(f"{what}: its payload key is outside the object's "
                         f"namespace: {key!r}")
    if not _is_count(size):
        raise ValueError(f"{what}: bytes must be an int >= 0, not {size!r}")
    if not isinstance(chunks, list) or (size and not chunks):
        raise ValueError(f"{what}: chunks must be a list, of one at least")
    total = _checked_chunks(chunks, key, what)
    if total != size:
        raise ValueError(f"{what}: its chunks have {total} bytes, not {size}")


def _checked_chunks(chunks: list[Any], key: str, what: str) -> int:
    """Their bytes together."""
    seen, total = set(), 0
    for chunk in chunks:
        if not isinstance(chunk, dict):
            raise ValueError(f"{what}: a chunk is no mapping")
        name, length = chunk.get("key"), chunk.get("bytes")
        if not isinstance(name, str) or not (
                name == key or name.startswith(key + "/")):
            raise ValueError(f"{what}: a chunk key is outside the payload "
                             f"namespace: {name!r}")
        if name in seen:
            raise ValueError(f"{what}: chunk key {name!r} is there twice")
        if not isinstance(length, int) or not _is_count(length):
            raise ValueError(f"{what}: a chunk has {length!r} bytes")
        seen.add(name)
        total += length
    return total


# ---- manifests ----


def encode_manifest(manifest: Mapping[str, Any]) -> bytes:
    return json.dumps(manifest, separators=(",", ":")).encode()


def _decode_manifest(data: bytes) -> dict[str, Any]:
    """ValueError: it is no manifest of an object."""
    try:
        manifest = json.loads(bytes(data))
    except (ValueError, RecursionError) as error:
        raise ValueError(f"a bundle manifest is no JSON: {error}") from None
    if not isinstance(manifest, dict):
        raise ValueError("a bundle manifest must be an object of JSON")
    return manifest


def _ids_of(manifest: Mapping[str, Any]) -> list[str]:
    """Of the objects whose payloads it may name."""
    object_id, others = manifest.get("object_id"), manifest.get(
        "buffer_object_ids", [])
    if not isinstance(object_id, str) or not object_id:
        raise ValueError("manifest: object_id must be a str, not "
                         f"{object_id!r}")
    if not isinstance(others, list) or not all(
            isinstance(one, str) and one for one in others):
        raise ValueError("manifest: buffer_object_ids must be a list of str")
    return [object_id, *others]


def checked_manifest(manifest: dict[str, Any], prefix: str) -> dict[str, Any]:
    """The manifest. ValueError: it is malformed, or names what is not its own."""
    if (manifest.get("version") != VERSION or manifest.get("layout") != LAYOUT):
        raise ValueError("invalid bundle manifest: version "
                         f"{manifest.get('version')!r}, layout "
                         f"{manifest.get('layout')!r}")
    bases = [f"{prefix}/{one}/" for one in _ids_of(manifest)]
    _check_payload(manifest.get("meta"), "meta", bases[:1])
    buffers = manifest.get("buffers")
    if not isinstance(buffers, dict):
        raise ValueError("manifest: buffers must be a mapping of members")
    for name, spec in buffers.items():
        checked_name(name, "buffer name")
        _check_payload(spec, name, bases)
    cleanup = manifest.get("cleanup_keys", [])
    if not isinstance(cleanup, list) or not all(
            isinstance(key, str) and any(map(key.startswith, bases))
            for key in cleanup):
        raise ValueError("manifest: cleanup_keys are outside its objects' "
                         "namespaces, or no list")
    return manifest


def removal_keys(manifest: Mapping[str, Any], manifest_key: str) -> list[str]:
    """All that goes with an object, the manifest last."""
    specs = [manifest["meta"], *manifest["buffers"].values()]
    return list(dict.fromkeys([
        *(key for spec in specs for key in payload_keys(spec)),
        *manifest.get("cleanup_keys", ()), manifest_key]))


# ---- refs ----


def ref_of(ref: object) -> RemoteBundleRef:
    """A ref, or a mapping that has manifest_key, manifest or both.

    ValueError: it has neither. TypeError: it is something else.
    """
    if isinstance(ref, RemoteBundleRef):
        return ref
    if not isinstance(ref, Mapping):
        raise TypeError(f"ref must be a RemoteBundleRef, not {type(ref)}")
    key, manifest = ref.get("manifest_key"), ref.get("manifest")
    if (manifest and not isinstance(manifest, Mapping)) or not (
            manifest or (isinstance(key, str) and key)):
        raise ValueError("ref must have a manifest_key that is a non-empty str, "
                         "or a manifest")
    return RemoteBundleRef(key if isinstance(key, str) else "",
                           dict(manifest or {}))
