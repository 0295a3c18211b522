# SPDX-License-Identifier: Apache-2.0
"""Objects of a pool over HTTP: put, get, exist, remove."""
from __future__ import annotations

from typing import Any

from aiohttp import web

from mooncake._rest_answers import (
    Handlers, Refusal, handles, read_object, reply, success)


class ObjectHandlers(Handlers):
    @handles("PUT")
    async def handle_put(self, request: Any) -> web.Response:
        body = await read_object(request)
        key, value = body.get("key"), body.get("value")
        if not key or value is None:
            raise Refusal(400, "Missing key or value")
        if not isinstance(key, str) or not isinstance(value, str):
            raise Refusal(400, "key and value should be texts")
        try:
            data = value.encode()
            key.encode()
        except UnicodeEncodeError as error:
            raise Refusal(400, "key or value is no text", detail=str(error)
                          ) from None
        code = await self._call(self.store.put, key, data)
        if code:
            raise Refusal(500, "PUT operation failed", code=code)
        return success()

    @handles("GET")
    async def handle_get(self, request: Any) -> web.Response:
        key = request.match_info["key"]
        await self._require(key)
        value = await self._call(self.store.get, key)
        if value is None:
            raise Refusal(500, "GET operation failed")
        if value == b"":  # what a store has, too, that has no such key
            await self._require(key)
        return web.Response(status=200, body=value,
                            content_type="application/octet-stream")

    async def value_of(self, key: str) -> Any:
        """In the store's own memory. Refusal: it is not there, or why not."""
        value = await self._call(self.store.get_buffer, key)
        if value is None:
            await self._is_there(key)  # or why nobody knows
            raise Refusal(404, "Key not found")
        return value

    async def _require(self, key: str) -> None:
        if not await self._is_there(key):
            raise Refusal(404, "Key not found")

    async def _is_there(self, key: str) -> bool:
        code = await self._call(self.store.is_exist, key)
        if code < 0:
            raise Refusal(500, "Exist check failed", code=code)
        return bool(code)

    @handles("EXIST")
    async def handle_exist(self, request: Any) -> web.Response:
        return reply({"exists": await self._is_there(request.match_info["key"])})

    @handles("REMOVE")
    async def handle_remove(self, request: Any) -> web.Response:
        code = await self._call(self.store.remove, request.match_info["key"])
        if code:
            raise Refusal(500, "Remove operation failed", code=code)
        return success()

    @handles("REMOVE_ALL")
    async def handle_remove_all(self, request: Any) -> web.Response:
        del request
        count = await self._call(self.store.remove_all)
        if count < 0:
            raise Refusal(500, "RemoveAll operation failed", code=count)
        return reply({"status": f"success removed {count} keys"})
