# SPDX-License-Identifier: Apache-2.0
"""Segments over HTTP: memory of this host that the pool gets and gives back."""
from __future__ import annotations

import os
from typing import Any

from aiohttp import web

from mooncake._rest import Intake, Refusal, Rest
from mooncake.store import MooncakeDistributedStore

GRACE_MAX_S = 3600
SHARED = ("/dev/shm", "/dev/hugepages")  # nothing else becomes memory of a pool


def _whole(body: dict[str, Any], name: str, default: int, maximum: float) -> int:
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
    return (isinstance(value, int) and not isinstance(value, bool)
            and 0 < value < 1 << 63)


def _path_of(body: dict[str, Any]) -> str | None:
    """Of the file in shared memory that name, or path, means; None: of none."""
    path = body.get("path")
    name = body.get("name")
    if path is None and isinstance(name, str):
        path = f"{SHARED[0]}/{name.removeprefix('/')}" if name.strip("/") else None
    if not isinstance(path, str) or "\0" in path:
        return None
    try:
        real = os.path.realpath(path)
    except UnicodeEncodeError:  # "\\ud800" in JSON
        return None
    return real if os.path.dirname(real) in SHARED else None


def _ids_of(body: dict[str, Any]) -> list[str]:
    ids = body.get("segment_ids")
    ids = [ids] if isinstance(ids, str) else ids
    if not ids:
        raise Refusal(400, "Missing segment_ids")
    if not isinstance(ids, list) or not all(isinstance(i, str) for i in ids):
        raise Refusal(400, "Invalid segment_ids, must be a text or a list of texts")
    return ids


class Segments(Rest):
    def __init__(self, store: MooncakeDistributedStore, intake: Intake) -> None:
        super().__init__(store, intake)
        self._lent: list[str] = []  # by reconfigure, as long as it decodes

    def routes(self) -> list[web.RouteDef]:
        return [
            web.post("/api/mount_shm", self.with_body(self.mount_shm)),
            web.post("/api/unmount_shm", self.with_body(self.unmount_shm)),
            web.post("/api/mount", self.with_body(self.mount)),
            web.post("/api/unmount", self.with_body(self.unmount)),
            web.post("/api/unmount_local_disk",
                     self.with_body(self.unmount_local_disk)),
            web.post("/api/reconfigure", self.with_body(self.reconfigure)),
        ]

    async def mount_shm(self, body: dict[str, Any]) -> web.Response:
        ids = await self._mount_file(body, "Missing or invalid name or size")
        return web.json_response({"status": "success", "segment_ids": ids})

    async def _mount_file(self, body: dict[str, Any], wrong: str) -> list[str]:
        path, size = _path_of(body), body.get("size")
        if not path or not _is_size(size):
            raise Refusal(400, wrong)
        done = await self.call(
            self.store.mount_segment, path, size,
            _whole(body, "offset", 0, 1 << 63), _text(body, "protocol", "tcp"),
            _text(body, "location", ""))
        if done["ret"]:
            raise Refusal(500, f"Mount failed, ret={done['ret']}")
        return done["segment_ids"]

    async def unmount_shm(self, body: dict[str, Any]) -> web.Response:
        await self._unmount(_ids_of(body), _grace(body))
        return web.json_response({"status": "success"})

    async def _unmount(self, ids: list[str], grace_s: int) -> None:
        failed = [one for one in ids if await self.call(
            self.store.unmount_segment, [one], grace_s)]
        if failed:
            raise Refusal(500, "Unmount failed for one or more segments",
                          failed_segment_ids=failed)

    async def mount(self, body: dict[str, Any]) -> web.Response:
        if not _is_size(body.get("size")):
            raise Refusal(400, "Invalid size, must be a positive integer")
        done = await self.call(
            self.store.allocate_and_mount_segment, body["size"],
            _text(body, "protocol", "tcp"), _text(body, "location", ""))
        if done["ret"]:
            raise Refusal(500, f"Mount failed, ret={done['ret']}")
        return web.json_response({"status": "success",
                                  "segment_ids": done["segment_ids"],
                                  "allocated_size": done["allocated_size"]})

    async def unmount(self, body: dict[str, Any]) -> web.Response:
        code = await self.call(self.store.unmount_and_free_segment,
                               _ids_of(body), _grace(body))
        if code:
            raise Refusal(500, f"Unmount and free failed, ret={code}")
        return web.json_response({"status": "success"})

    async def unmount_local_disk(self, body: dict[str, Any]) -> web.Response:
        """There is none: disks are not here yet."""
        _grace(body)
        return web.json_response({"status": "success"})

    async def reconfigure(self, body: dict[str, Any]) -> web.Response:
        """Who decodes lends shared memory; who prefills has all of it back."""
        mode = body.get("mode")
        if mode == "decode":
            ids = await self._mount_file(
                body, "Missing path or size for decode mode")
            self._lent += ids
            return web.json_response({"status": "success", "mode": mode,
                                      "segment_ids": ids})
        if mode != "prefill":
            raise Refusal(400, "Invalid mode. Use 'decode' or 'prefill'")
        lent, self._lent = self._lent, []
        try:
            await self._unmount(lent, 0)
        except Refusal as refusal:
            self._lent += refusal.body["failed_segment_ids"]
            raise
        return web.json_response({"status": "success", "mode": mode})


def _grace(body: dict[str, Any]) -> int:
    return _whole(body, "grace_period_seconds", 0, GRACE_MAX_S)
