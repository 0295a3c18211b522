# SPDX-License-Identifier: Apache-2.0
"""Which DataProto has a row's field: a catalog of handles, without any data.

Rows have keys, in partitions. Their fields may come one after the other, each in a
fragment: a DataProto of one stage, row i of which belongs to the i-th key. Whoever
reads asks the catalog, and gets the fields that lie together and where.
"""
from __future__ import annotations

import copy
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from mooncake._catalog_transfer import (
    CatalogDrained, DataProtoCatalogTransfer, names_of, text_of)
from mooncake._structured.handles import export_dataproto_ref, import_dataproto_ref
from mooncake._structured.values import MooncakeDataProtoRef

__all__ = ["CatalogDrained", "DataProtoCatalog", "DataProtoCatalogTransfer"]


@dataclass
class _Fragment:
    name: str  # the key of its manifest
    handle: dict[str, Any]
    managed: bool
    n_uses: int = 0  # fields of rows that lie in it
    n_readers: int = 0


@dataclass
class _Row:
    tag: dict[str, Any] = field(default_factory=dict)
    places: dict[str, tuple[_Fragment, int]] = field(default_factory=dict)


class DataProtoCatalog:
    """Rows, their tags, and where their fields are. Any thread; nothing blocks.

    Fragments that were given to publish() are managed: once no row has a field in
    them and nobody reads them, they are among retired_handles of every answer until
    ack_retired(), for the caller to remove; update() names them only when there are
    some. Others are forgotten. Arguments that cannot be are a TypeError or
    ValueError, and change nothing.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        # All of these are guarded by it.
        self._partitions: dict[str, dict[str, _Row]] = {}
        self._fragments: dict[str, _Fragment] = {}
        self._retired: dict[str, dict[str, Any]] = {}
        self._published: dict[str, dict[str, Any]] = {}
        self._reads: dict[int, list[_Fragment]] = {}
        self._last_read = 0
        self._drained = False

    # ---- writing ----

    def update(self, partition: str, keys: Sequence[str], *,
               tags: Sequence[Mapping[str, Any]] | None = None,
               handle: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Add to the tags of rows, and their fields that a fragment has."""
        with self._lock:
            answer = self._update(partition, keys, tags, handle, False)
        if not answer["retired_handles"]:
            del answer["retired_handles"]
        return answer

    def publish(self, operation_id: str, partition: str, keys: Sequence[str], *,
                tags: Sequence[Mapping[str, Any]] | None = None,
                handle: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """As update(), of a managed fragment; once more it only answers again.

        The answer is kept until ack_publication().
        """
        text_of(operation_id, "operation_id")
        with self._lock:
            if operation_id not in self._published:
                self._published[operation_id] = self._update(
                    partition, keys, tags, handle, handle is not None)
            return copy.deepcopy(self._published[operation_id])

    def publish_append(self, operation_id: str, fragment_id: str,
                       partition: str, keys: Sequence[str], *,
                       previous_handle: Mapping[str, Any],
                       handle: Mapping[str, Any]) -> dict[str, Any]:
        """Have more fields in a managed fragment, which stays the same one.

        handle is of previous_handle's DataProto with fields appended. An answer
        as of publish(), or {"append_rejected": why}; once more as publish().
        """
        text_of(operation_id, "operation_id")
        with self._lock:
            if operation_id not in self._published:
                self._published[operation_id] = self._append(
                    text_of(fragment_id, "fragment_id"),
                    text_of(partition, "partition"), names_of(keys, "keys"),
                    import_dataproto_ref(previous_handle),
                    import_dataproto_ref(handle))
            return copy.deepcopy(self._published[operation_id])

    def _append(self, name: str, partition: str, keys: list[str],
                old: MooncakeDataProtoRef,
                new: MooncakeDataProtoRef) -> dict[str, Any]:
        fragment = self._fragments.get(name)
        rows = self._partitions.get(partition, {})
        why = _why_not(fragment, [rows.get(key) for key in keys], partition,
                       old, new)
        if why:
            return {"append_rejected": f"{name}: {why}"}
        assert fragment
        added = [one for one in new.field_index if one not in old.field_index]
        for i, key in enumerate(keys):
            for one in added:
                self._place(rows[key], one, fragment, i)
        fragment.handle = export_dataproto_ref(new)
        return {"keys": keys,
                "tags": [copy.deepcopy(rows[key].tag) for key in keys],
                "fields": _fields_of(rows, keys), **self._answer()}

    def ack_publication(self, operation_id: str) -> None:
        with self._lock:
            self._published.pop(text_of(operation_id, "operation_id"), None)

    def _update(self, partition: str, keys: Sequence[str],
                tags: Sequence[Mapping[str, Any]] | None,
                handle: Mapping[str, Any] | None,
                managed: bool) -> dict[str, Any]:
        if self._drained:
            raise CatalogDrained("the catalog has been drained")
        text_of(partition, "partition")
        keys = names_of(keys, "keys")
        if tags is None and handle is None:
            raise ValueError("an update requires tags or a handle")
        if tags is not None:
            _check_tags(tags, len(keys))
        # Whatever cannot be copied is met before anything changes.
        tags = copy.deepcopy([dict(tag) for tag in tags or ()])
        found = None if handle is None else self._fragment(
            handle, len(keys), managed)
        rows = self._partitions.setdefault(partition, {})
        for i, key in enumerate(keys):
            row = rows.setdefault(key, _Row())
            row.tag.update(tags[i] if tags else {})
            if found:
                for name in found[1]:
                    self._place(row, name, found[0], i)
        return {"keys": keys,
                "tags": [copy.deepcopy(rows[key].tag) for key in keys],
                "fields": _fields_of(rows, keys), **self._answer()}

    def _fragment(self, handle: Mapping[str, Any], n_rows: int,
                  managed: bool) -> tuple[_Fragment, list[str]]:
        """It, and its fields."""
        ref = import_dataproto_ref(handle)
        if ref.batch_size != n_rows:
            raise ValueError(f"handle: its batch_size {ref.batch_size} does not match "
                             f"{n_rows} keys")
        if len(ref.stage_refs) != 1:
            raise ValueError("handle: a fragment is of exactly one DataProto stage, "
                             f"not of {len(ref.stage_refs)}")
        if not ref.field_index:
            raise ValueError("handle: its fields cannot be empty")
        (bundle,) = ref.stage_refs.values()
        new = _Fragment(bundle.manifest_key, export_dataproto_ref(ref), managed)
        if new.name in self._retired:
            raise ValueError(f"{new.name} is about to be removed")
        old = self._fragments.setdefault(new.name, new)
        if old.handle != new.handle:
            raise ValueError(f"collision: another fragment is called {new.name}")
        if old.managed != managed:
            raise ValueError(f"{new.name} is managed by one of publish() and update()")
        return old, list(ref.field_index)

    def remove(self, partition: str, keys: Sequence[str]) -> dict[str, Any]:
        """Forget rows; those that are not there are no error."""
        text_of(partition, "partition")
        keys = names_of(keys, "keys")
        with self._lock:
            rows = self._partitions.get(partition, {})
            for key in keys:
                row = rows.pop(key, _Row())
                for fragment, _ in row.places.values():
                    self._leave(fragment)
            if not rows:
                self._partitions.pop(partition, None)
            return self._answer()

    def drain(self) -> dict[str, Any]:
        """Forget all, for good: CatalogDrained is what writers get from now on.

        RuntimeError: somebody reads.
        """
        with self._lock:
            if self._reads:
                raise RuntimeError(f"{len(self._reads)} reads are under way")
            for fragment in list(self._fragments.values()):
                fragment.n_uses = 0
                self._retire(fragment)
            self._partitions.clear()
            self._published.clear()
            self._drained = True
            return self._answer()

    # ---- fragments that nobody needs ----

    def _place(self, row: _Row, name: str, fragment: _Fragment, i: int) -> None:
        """A field that is there already keeps its turn among the row's."""
        fragment.n_uses += 1
        before = row.places.get(name)
        row.places[name] = (fragment, i)
        if before is not None:
            self._leave(before[0])

    def _leave(self, fragment: _Fragment) -> None:
        fragment.n_uses -= 1
        self._retire(fragment)

    def _retire(self, fragment: _Fragment) -> None:
        if fragment.n_uses or fragment.n_readers:
            return
        self._fragments.pop(fragment.name, None)
        if fragment.managed:
            self._retired[fragment.name] = fragment.handle

    def _answer(self) -> dict[str, Any]:
        return {"retired_handles": copy.deepcopy(list(self._retired.values()))}

    def ack_retired(self, handles: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        """These have been removed."""
        refs = [import_dataproto_ref(handle) for handle in handles]
        with self._lock:
            for ref in refs:
                for bundle in ref.stage_refs.values():
                    self._retired.pop(bundle.manifest_key, None)
            return self._answer()

    # ---- reading ----

    def resolve(self, partition: str, keys: Sequence[str],
                fields: Sequence[str] | None = None, *,
                pin: bool = False) -> dict[str, Any]:
        """Where fields of these rows are; without a selection all of them.

        ValueError: there is no such row, or not yet such a field of it. With pin
        nothing of it is retired before release_read() of its read_token, and there
        is the meta_info of the fragments together; ValueError: they disagree.
        """
        text_of(partition, "partition")
        keys = names_of(keys, "keys")
        with self._lock:
            rows = self._partitions.get(partition, {})
            missing = [key for key in keys if key not in rows]
            if missing:
                raise ValueError(f"keys were not found in {partition!r}: {missing}")
            names = (_fields_of(rows, keys) if fields is None
                     else names_of(fields, "fields"))
            if not names:
                raise ValueError("these keys do not contain any fields")
            answer, used = _located(rows, keys, names)
            if pin:
                answer["meta_info"] = _meta_info_of(used)
                answer["read_token"] = self._pin(used)
            return answer

    def _pin(self, fragments: list[_Fragment]) -> int:
        self._last_read += 1
        self._reads[self._last_read] = fragments
        for fragment in fragments:
            fragment.n_readers += 1
        return self._last_read

    def release_read(self, token: int) -> dict[str, Any]:
        """A read has ended; once more does nothing."""
        with self._lock:
            for fragment in self._reads.pop(token, []):
                fragment.n_readers -= 1
                self._retire(fragment)
            return self._answer()

    def list(self, partition: str | None = None) -> dict[str, dict[str, Any]]:
        """The tags of rows, by partition and key."""
        if partition is not None:
            text_of(partition, "partition")
        with self._lock:
            return {name: {key: copy.deepcopy(row.tag)
                           for key, row in rows.items()}
                    for name, rows in self._partitions.items()
                    if partition is None or name == partition}


def _why_not(fragment: _Fragment | None, rows: Sequence[_Row | None],
             partition: str, old: MooncakeDataProtoRef,
             new: MooncakeDataProtoRef) -> str | None:
    """Why the fragment of these rows cannot have new's fields, too."""
    if (fragment is None or not fragment.managed
            or fragment.handle != export_dataproto_ref(old)):
        return "it has changed"
    if (new.batch_size != old.batch_size or new.batch_size != len(rows)
            or {old.partition, new.partition} != {partition}
            or old.field_index.items() - new.field_index.items()):
        return "the handle is not of the same rows and fields"
    for i, row in enumerate(rows):
        if row is None or not any(at is fragment and place == i
                                  for at, place in row.places.values()):
            return "keys are not those of its rows"
    return None


def _located(rows: Mapping[str, _Row], keys: Sequence[str],
             names: Sequence[str]) -> tuple[dict[str, Any], list[_Fragment]]:
    """What resolve() answers, and the fragments of it."""
    groups: dict[tuple[tuple[str, int], ...], list[str]] = {}
    used: dict[str, _Fragment] = {}
    for name in names:
        late = [key for key in keys if name not in rows[key].places]
        if late:
            raise ValueError(f"field {name!r} is not ready for keys {late}")
        places = [rows[key].places[name] for key in keys]
        used.update((fragment.name, fragment) for fragment, _ in places)
        groups.setdefault(tuple((fragment.name, row) for fragment, row in places),
                          []).append(name)
    return {
        "keys": list(keys),
        "tags": [copy.deepcopy(rows[key].tag) for key in keys],
        "fields": list(names),
        "field_groups": [{"fields": fields, "locations": list(places)}
                         for places, fields in groups.items()],
        "handles": {name: copy.deepcopy(one.handle)
                    for name, one in used.items()}}, list(used.values())


def _meta_info_of(fragments: Sequence[_Fragment]) -> dict[str, Any]:
    meta_info: dict[str, Any] = {}
    for fragment in fragments:
        for name, value in fragment.handle["meta_info"].items():
            if meta_info.setdefault(name, value) != value:
                raise ValueError(f"fragments disagree about meta_info {name!r}")
    return copy.deepcopy(meta_info)


def _check_tags(tags: Sequence[Mapping[str, Any]], n_keys: int) -> None:
    if len(tags) != n_keys:
        raise ValueError("tags and keys must have the same length, not "
                         f"{len(tags)} and {n_keys}")
    for tag in tags:
        if not isinstance(tag, Mapping):
            raise TypeError(f"a tag must be a mapping, not {type(tag)}")


def _fields_of(rows: Mapping[str, _Row], keys: Sequence[str]) -> list[str]:
    return list(dict.fromkeys(name for key in keys for name in rows[key].places))
