# SPDX-License-Identifier: Apache-2.0
"""Batches in the store and a catalog of them, kept in step.

The catalog may be another process's. Whatever could not be told to it is told again
before the next batch, and under the same number, so that it counts once.
"""
from __future__ import annotations

import functools
import logging
import threading
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mooncake._structured.handles import export_dataproto_ref, import_dataproto_ref

_log = logging.getLogger("mooncake.dataproto_catalog")
_RESULTS = "_mooncake_catalog_results"


class CatalogDrained(RuntimeError):
    """The catalog takes nothing any more."""


# What a catalog says of a batch that it will not take, however often it is asked.
_REFUSALS = (TypeError, ValueError, CatalogDrained)


def text_of(value: object, name: str) -> str:
    if not isinstance(value, str) or not value:
        raise ValueError(f"{name} must be a non-empty string, not {value!r}")
    return value


def names_of(values: object, name: str) -> list[str]:
    if isinstance(values, (str, bytes)) or not isinstance(values, Sequence):
        raise ValueError(f"{name} must be a sequence of strings, not {type(values)}")
    names = list(values)
    if not names or not all(isinstance(one, str) and one for one in names):
        raise ValueError(f"{name} must be non-empty strings, at least one")
    if len(set(names)) != len(names):
        raise ValueError(f"{name} must be unique")
    return names


@dataclass(frozen=True)
class _Task:
    """What did not succeed and has to be done again."""

    what: str
    run: Callable[[], object]
    blocks: bool = False  # no other batch goes before it


class DataProtoCatalogTransfer:
    """Writes batches with transfer, a MooncakeBundleTransfer, and publishes them.

    catalog_call(name, *args, **kwargs) calls a method of a DataProtoCatalog that
    may be elsewhere; it may raise whatever a call to there does. Batches that
    nobody needs any more are removed from the store as the catalog says so. Calls
    may come from any thread, and block.
    """

    def __init__(self, transfer: Any, catalog_call: Callable[..., Any]) -> None:
        self.transfer = transfer
        self._call = catalog_call
        self._settling = threading.RLock()  # who waits for it finds what stays
        self._lock = threading.Lock()
        self._left: list[_Task] = []  # guarded by it

    # ---- writing ----

    def put(self, data: Any, *, partition: str, keys: Sequence[str],
            tags: Sequence[Mapping[str, Any]] | None = None,
            **put_options: Any) -> dict[str, Any]:
        """Store a batch, a row for each key, and publish it; None: only tags.

        put_options are those of MooncakeBundleTransfer.put(). ValueError, TypeError
        or CatalogDrained: refused, and what was stored is gone. Another
        RuntimeError: an earlier batch could still not be published. Any other: the
        catalog did not answer twice; the batch is published before the next one.
        """
        self._settle()
        rows = names_of(keys, "keys")
        if tags is not None:
            tags = [dict(tag) for tag in tags]
        handle = None
        if data is not None:
            _check_rows(data, rows)
            handle = export_dataproto_ref(self.transfer.put(
                data, type="dataproto", partition=partition, **put_options))
        return self._published(
            "publish", (partition, rows), {"tags": tags, "handle": handle},
            lambda: handle and self.transfer.cleanup_dataproto(handle))

    def append(self, fragment_id: str, handle: Mapping[str, Any], data: Any, *,
               partition: str, keys: Sequence[str], stage: str,
               **append_options: Any) -> dict[str, Any]:
        """Store more fields of a batch's rows, and publish them as part of it.

        fragment_id and handle are from resolve(), keys all of the batch's in the
        order of its rows. As put(); ValueError also when the batch has changed.
        """
        self._settle()
        rows = names_of(keys, "keys")
        if append_options.get("overwrite"):
            raise ValueError("overwrite: fields of a catalog are not replaced so")
        _check_rows(data, rows)
        old = export_dataproto_ref(import_dataproto_ref(handle))
        if old["partition"] != partition:
            raise ValueError(f"handle: it is of partition {old['partition']!r}")
        there = self._call("resolve", partition, rows,
                           list(old["field_index"]))["handles"]
        if there.get(fragment_id) != old:
            raise ValueError(f"{fragment_id} has changed")
        new = export_dataproto_ref(self.transfer.append_dataproto_fields(
            old, data, stage=stage, **append_options))
        return self._published(
            "publish_append", (fragment_id, partition, rows),
            {"previous_handle": old, "handle": new},
            lambda: self.transfer.cleanup_dataproto_append(old, new))

    def _published(self, method: str, args: tuple[Any, ...], options: dict[str, Any],
                   withdraw: Callable[[], object]) -> dict[str, Any]:
        number = uuid.uuid4().hex

        def publish() -> dict[str, Any]:
            try:
                answer: dict[str, Any] = self._call(method, number, *args, **options)
            except _REFUSALS:
                self._do(_Task("remove what was refused", withdraw))
                raise
            if "append_rejected" in answer:
                self._do(_Task("remove what was refused", withdraw))
            self._do(_Task("acknowledge a publication", lambda: self._call(
                "ack_publication", number)))
            self._remove_retired(answer)
            return answer

        answer = self._publish_twice(publish)
        if "append_rejected" in answer:
            raise ValueError(answer["append_rejected"])
        return answer

    def _publish_twice(self, publish: Callable[[], dict[str, Any]]
                       ) -> dict[str, Any]:
        def publish_late() -> None:
            try:
                publish()
            except _REFUSALS:
                _log.exception("a batch that was to be published is refused")

        try:
            return publish()
        except _REFUSALS:
            raise
        except Exception:  # whatever a call to elsewhere raises
            _log.warning("a batch is published once more", exc_info=True)
        try:
            return publish()
        except _REFUSALS:
            raise
        except Exception:
            self._leave(_Task("publish a batch", publish_late, True))
            raise

    # ---- reading ----

    def resolve(self, partition: str, keys: Sequence[str],
                fields: Sequence[str] | None = None) -> dict[str, Any]:
        """As the catalog's, pinned until release_read() of its read_token."""
        answer: dict[str, Any] = self._call("resolve", partition, keys, fields, pin=True)
        return answer

    def release_read(self, token: int) -> None:
        self._remove_retired(self._call("release_read", token))

    def list(self, partition: str | None = None) -> dict[str, dict[str, Any]]:
        """As the catalog's."""
        answer: dict[str, dict[str, Any]] = self._call("list", partition)
        return answer

    def attach_results(self, output: Any, results: Sequence[Any]) -> None:
        """What output lies in, for release_result(output)."""
        setattr(output, _RESULTS, list(results))

    def release_result(self, output: Any) -> None:
        results = getattr(output, _RESULTS, ())
        setattr(output, _RESULTS, [])
        self.discard_results(results)

    def discard_results(self, results: Sequence[Any], *,
                        strict: bool = False) -> None:
        """RuntimeError, with strict: one of them could not be released."""
        for result in results:
            self._do(_Task("release a result", functools.partial(
                self.transfer.release_result, result)))
        if strict:
            self._settle(strict=True)

    # ---- removing ----

    def remove(self, partition: str, keys: Sequence[str]) -> None:
        """Forget rows; batches that had only these are removed."""
        self._remove_retired(self._call("remove", partition, keys))

    def drain(self) -> None:
        """Forget and remove all. RuntimeError: somebody reads, or not all went."""
        self._settle(strict=True)
        if not self._remove_retired(self._call("drain")) and (
                not self._remove_retired(self._call("drain"))):
            raise RuntimeError("drain: not all batches could be removed")

    def close(self) -> None:
        """RuntimeError: something could still not be done."""
        self._settle(strict=True)

    def _remove_retired(self, answer: Mapping[str, Any]) -> bool:
        """What stays is in the catalog's next answer."""
        removed = []
        handles = answer.get("retired_handles", ())
        for handle in handles:
            try:
                self.transfer.cleanup_dataproto(handle)
                removed.append(handle)
            except Exception:  # whatever a store of another kind raises
                _log.exception("a batch that nobody needs stays")
        if removed:
            self._do(_Task("acknowledge what is removed", lambda: self._call(
                "ack_retired", removed)))
        return len(removed) == len(handles)

    # ---- once more ----

    def _leave(self, task: _Task) -> None:
        with self._lock:
            self._left.append(task)

    def _do(self, task: _Task) -> bool:
        try:
            task.run()
        except Exception:  # whatever a call to elsewhere raises
            _log.warning("%s: left for later", task.what, exc_info=True)
            self._leave(task)
            return False
        return True

    def _settle(self, strict: bool = False) -> None:
        with self._settling:
            with self._lock:
                tasks, self._left = self._left, []
            failed = [task for task in tasks if not self._do(task)]
        if strict and failed:
            raise RuntimeError(f"could not {failed[0].what}")
        if any(task.blocks for task in failed):
            raise RuntimeError("an earlier batch could not be published")


def _check_rows(data: Any, keys: Sequence[str]) -> None:
    """Early, of a batch that says how long it is; the catalog checks all."""
    if not isinstance(data, Mapping) and hasattr(data, "__len__") and (
            len(data) != len(keys)):
        raise ValueError(f"{len(data)} rows for {len(keys)} keys")
