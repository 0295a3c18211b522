# SPDX-License-Identifier: Apache-2.0
"""Segments over HTTP: memory of this host that the pool gets and gives back."""
from __future__ import annotations

import asyncio
import os
from typing import Any

from aiohttp import web

from mooncake._rest_answers import (
    Handlers, Refusal, handles, logger, read_object, success)

GRACE_MAX_S = 3600
SHARED = ("/dev/shm", "/dev/hugepages")  # nothing else becomes memory of a pool
SEGMENT_NOT_FOUND = -101


def _whole(body: dict[str, Any], name: str, default: int, maximum: int) -> int:
    value = body.get(name, default)
    if isinstance(value, bool) or not isinstance(value, int) or (
            not 0 <= value <= maximum):
        most = f" no greater than {maximum}" if maximum < 1 << 63 else ""
        raise Refusal(400, f"Invalid {name}, must be a non-negative integer{most}")
    return value


def _text(body: dict[str, Any], name: str, default: str) -> str:
    value = body.get(name, default)
    if not isinstance(value, str):
        raise Refusal(400, f"Invalid {name}, must be a text")
    return value


def _is_size(value: Any) -> bool:
    return type(value) is int and 0 <= value < 1 << 63


def _shm_name_to_path(name: Any) -> str | None:
    """Of a file in shared memory; None: it is no name of one."""
    if not isinstance(name, str):
        return None
    name = name.removeprefix("/")
    if name in ("", ".", "..") or "/" in name:
        return None
    return f"{SHARED[0]}/{name}"


def only_shared(body: dict[str, Any]) -> None:
    """Leave a file that others name in body as its path, if it is shared memory."""
    path, name = body.pop("path", None), body.pop("name", None)
    path = _shm_name_to_path(name) if path is None else path
    if not isinstance(path, str) or "\0" in path:
        return
    try:
        real = os.path.realpath(path)
    except UnicodeEncodeError:  # "\\ud800" in JSON
        return
    if os.path.dirname(real) in SHARED:
        body["path"] = real


def _ids_of(body: dict[str, Any]) -> list[str]:
    ids = body.get("segment_ids")
    ids = [ids] if isinstance(ids, str) else ids
    if not ids:
        raise Refusal(400, "Missing segment_ids")
    if not isinstance(ids, list) or not all(isinstance(i, str) for i in ids):
        raise Refusal(400, "Invalid segment_ids, must be a text or a list of texts")
    return ids


def _grace(body: dict[str, Any]) -> int:
    return _whole(body, "grace_period_seconds", 0, GRACE_MAX_S)


class SegmentHandlers(Handlers):
    config: Any
    # What reconfigure has lent, and for which role. Guarded by _state_lock.
    current_mode: str
    mounted_segment_ids: list[str]
    last_mount_info: dict[str, Any]
    _state_lock: asyncio.Lock

    def _protocol(self, body: dict[str, Any]) -> str:
        return _text(body, "protocol", self.config.protocol)

    def _piece(self, body: dict[str, Any], path: Any, wrong: str
               ) -> dict[str, Any]:
        """Of a file: what mount_segment() takes, in its order but for the size."""
        size = body.get("size")
        if not path or not isinstance(path, str) or not _is_size(size):
            raise Refusal(400, wrong)
        return {"path": path, "offset": _whole(body, "offset", 0, 1 << 63),
                "size": size, "protocol": self._protocol(body),
                "location": _text(body, "location", "")}

    async def _mount(self, piece: dict[str, Any]) -> dict[str, Any]:
        answer: dict[str, Any] = await self._call(
            self.store.mount_segment, piece["path"], piece["size"],
            piece["offset"], piece["protocol"], piece["location"])
        return answer

    # ---- roles ----

    @handles("RECONFIGURE")
    async def handle_reconfigure(self, request: Any) -> web.Response:
        """Who decodes lends shared memory; who prefills has all of it back."""
        body = await read_object(request)
        mode = str(body.get("mode")).lower()
        if mode == "decode":
            path = body.get("path") or _shm_name_to_path(body.get("name"))
            piece = self._piece(body, path, "Missing path or size for decode mode")
            async with self._state_lock:
                return await self._decode(piece)
        if mode != "prefill":
            raise Refusal(400, "Invalid mode. Use 'decode' or 'prefill'")
        async with self._state_lock:
            return await self._prefill()

    async def _decode(self, piece: dict[str, Any]) -> web.Response:
        """The new segments are there before those of earlier are given back."""
        earlier = list(self.mounted_segment_ids)
        mounted = await self._mount(piece)
        code = mounted["ret"]
        if code and earlier:
            raise Refusal(500, f"Mount failed, ret={code}: keeping previous decode "
                          "segments", mode=self.current_mode, code=code)
        if code:
            self._become_prefill()
            raise Refusal(500, f"Mount failed, ret={code}: rolled back to prefill",
                          mode=self.current_mode, code=code)
        ids = list(mounted["segment_ids"])
        self.current_mode, self.last_mount_info = "decode", piece
        self.mounted_segment_ids = ids + earlier
        failed = await self._give_back(earlier)
        if failed:
            logger.warning("segments of before stay mounted: %s", failed)
        return success(mode="decode", segment_ids=ids)

    async def _prefill(self) -> web.Response:
        ids = list(self.mounted_segment_ids)
        code = await self._call(self.store.unmount_segment, ids) if ids else 0
        if code == SEGMENT_NOT_FOUND:  # some went another way: nothing to wait for
            await self._give_back(ids)
            code = code if self.mounted_segment_ids else 0
        if code:
            raise Refusal(500, f"Unmount failed, ret={code}",
                          mode=self.current_mode, code=code)
        self._become_prefill()
        return success(mode="prefill")

    def _become_prefill(self) -> None:
        self.current_mode = "prefill"
        self.mounted_segment_ids = []
        self.last_mount_info = {}

    async def _give_back(self, ids: list[str], *grace_s: int) -> list[str]:
        """Each on its own; what is not there any more is forgotten: who failed."""
        failed = []
        for one in ids:
            code = await self._call(self.store.unmount_segment, [one], *grace_s)
            if code:
                failed.append(one)
            if not code or code == SEGMENT_NOT_FOUND:
                self._forget([one])
        return failed

    def _forget(self, ids: list[str]) -> None:
        self.mounted_segment_ids = [
            one for one in self.mounted_segment_ids if one not in ids]

    def _check_role(self) -> None:
        if not self.mounted_segment_ids:
            self._become_prefill()

    # ---- shared memory ----

    @handles("MOUNT_SHM")
    async def handle_mount_shm(self, request: Any) -> web.Response:
        body = await read_object(request)
        path = (_shm_name_to_path(body["name"]) if "name" in body
                else body.get("path"))
        mounted = await self._mount(
            self._piece(body, path, "Missing or invalid name or size"))
        if mounted["ret"]:
            raise Refusal(500, f"Mount failed, ret={mounted['ret']}",
                          code=mounted["ret"])
        return success(segment_ids=mounted["segment_ids"])

    @handles("UNMOUNT_SHM")
    async def handle_unmount_shm(self, request: Any) -> web.Response:
        body = await read_object(request)
        ids, grace_s = _ids_of(body), _grace(body)
        async with self._state_lock:
            failed = await self._give_back(ids, grace_s)
            self._check_role()
        if failed:
            raise Refusal(500, "Unmount failed for one or more segments",
                          failed_segment_ids=failed)
        return success()

    # ---- fresh memory ----

    @handles("MOUNT")
    async def handle_mount(self, request: Any) -> web.Response:
        body = await read_object(request)
        size = body.get("size")
        if not _is_size(size) or not size:
            raise Refusal(400, "Invalid size, must be a positive integer")
        mounted = await self._call(
            self.store.allocate_and_mount_segment, size, self._protocol(body),
            _text(body, "location", ""))
        if mounted["ret"]:
            raise Refusal(500, f"Mount failed, ret={mounted['ret']}",
                          code=mounted["ret"])
        return success(segment_ids=mounted["segment_ids"],
                       allocated_size=mounted["allocated_size"])

    @handles("UNMOUNT")
    async def handle_unmount(self, request: Any) -> web.Response:
        body = await read_object(request)
        ids, grace_s = _ids_of(body), _grace(body)
        async with self._state_lock:
            code = await self._call(self.store.unmount_and_free_segment, ids,
                                    grace_s)
            if code:
                raise Refusal(500, f"Unmount and free failed, ret={code}",
                              code=code)
            self._forget(ids)
            self._check_role()
        return success()

    @handles("UNMOUNT_LOCAL_DISK")
    async def handle_unmount_local_disk(self, request: Any) -> web.Response:
        grace_s = _grace(await read_object(request))
        code = await asyncio.to_thread(self.store.unmount_local_disk_segment,
                                       grace_s)
        if code:
            raise Refusal(500, f"Unmount of the local disk failed, ret={code}",
                          code=code)
        return success()
