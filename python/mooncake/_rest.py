# SPDX-License-Identifier: Apache-2.0
"""Objects of a pool over HTTP: put, get, exist, remove.

What a client sends costs at most what the limits below say, and a fault of its own.
A call of the store runs on a thread; the loop goes on meanwhile.
"""
from __future__ import annotations

import asyncio
import ipaddress
import json
import logging
import re
import socket
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from aiohttp import web

from mooncake.store import MooncakeDistributedStore

logger = logging.getLogger(__name__)

BODY_MAX = 100 << 20
SMALL = 1 << 20  # bytes; bodies up to here do not wait for large ones
SMALL_AT_ONCE, LARGE_AT_ONCE, READS_AT_ONCE, CALLS_AT_ONCE = 64, 2, 16, 16
PIECE = 1 << 20
PATIENCE_S = 10  # for each piece that a client takes
BODY_PATIENCE_S = 60  # for all that it sends
HOST = re.compile(r"(?:\[([\da-f.]*:[\da-f:.]*)\]|([^:\[\]]*?)\.?)(?::\d*)?",
                  re.ASCII | re.IGNORECASE)


class Refusal(Exception):
    """The answer to a request that was not done, and why."""

    def __init__(self, status: int, error: str, **more: Any) -> None:
        super().__init__(error)
        self.status = status
        self.body = {"error": error, **more}


@web.middleware
async def answer_refusals(request: web.Request,
                          handler: Callable[..., Any]) -> web.StreamResponse:
    """Whatever happens is an answer. A browser's page may not change anything."""
    try:
        if request.method != "GET" and "Origin" in request.headers:
            raise Refusal(403, "a page of another site may not change anything")
        return await handler(request)
    except Refusal as refusal:
        return web.json_response(refusal.body, status=refusal.status)
    except web.HTTPRequestEntityTooLarge:
        return web.json_response({"error": f"a body has {BODY_MAX} bytes at most"},
                                 status=413)
    except (web.HTTPException, ConnectionError):
        raise
    except Exception:
        logger.exception("%s %r", request.method, request.path)
        return web.json_response({"error": "internal error, see the log"},
                                 status=500)


class Hosts:
    """Which names a request may be for, of a server that only this host reaches.

    A page of another site can have its own name point here (DNS rebinding), and
    what it asks for by that name is not of another site any more. Addresses,
    localhost and the machine's name are always meant; others have to be told.
    """

    def __init__(self, names: Iterable[str]) -> None:
        self.names = {"localhost", socket.gethostname().lower(),
                      *map(_host_of, names)} - {""}
        self.any = False  # who reaches it from elsewhere may call it anything

    @web.middleware
    async def check(self, request: web.Request,
                    handler: Callable[..., Any]) -> web.StreamResponse:
        name = _host_of(request.headers.get("Host", "localhost"))
        if not self.any and name not in self.names and not _is_address(name):
            raise Refusal(403, f"this host has another name than {name!r}: "
                          "--allow-host says otherwise")
        return await handler(request)


def _host_of(header: str) -> str:
    """The name or address in "host", "host:port", "[v6]" or "[v6]:port", or "".

    Nothing else may follow: "[v6]host" is not this host's address.
    """
    found = HOST.fullmatch(header)
    return (found[1] or found[2]).lower() if found else ""


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def _parse(body: bytes) -> dict[str, Any]:
    try:
        data = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise Refusal(400, "Malformed JSON body", detail=str(error)) from None
    if not isinstance(data, dict):
        raise Refusal(400, "Malformed JSON body", detail="should be an object")
    return data


class Rest:
    """Base of what answers: bodies, and calls of the store on threads."""

    def __init__(self, store: MooncakeDistributedStore) -> None:
        self.store = store
        self._threads = ThreadPoolExecutor(CALLS_AT_ONCE, "mooncake-rest")
        self._small = asyncio.Semaphore(SMALL_AT_ONCE)
        self._large = asyncio.Semaphore(LARGE_AT_ONCE)

    async def call(self, method: Callable[..., Any], *args: Any) -> Any:
        return await asyncio.get_running_loop().run_in_executor(
            self._threads, method, *args)

    def close(self) -> None:
        """Waits for calls under way."""
        self._threads.shutdown()

    def with_body(self, handler: Callable[[dict[str, Any]], Any]
                  ) -> Callable[[web.Request], Any]:
        """A handler of what the body says, which is there as long as it runs."""
        async def handle(request: web.Request) -> web.Response:
            length = request.content_length
            if length is not None and length > BODY_MAX:
                raise Refusal(413, f"a body has {BODY_MAX} bytes at most")
            small = length is not None and length <= SMALL
            async with self._small if small else self._large:
                try:
                    body = await asyncio.wait_for(request.read(),
                                                  BODY_PATIENCE_S)
                except asyncio.TimeoutError:
                    raise Refusal(408, "the body did not come within "
                                  f"{BODY_PATIENCE_S} s") from None
                return await handler(_parse(body))
        return handle


class Objects(Rest):
    def __init__(self, store: MooncakeDistributedStore) -> None:
        super().__init__(store)
        self._reads = asyncio.Semaphore(READS_AT_ONCE)

    def routes(self) -> list[web.RouteDef]:
        return [
            web.put("/api/put", self.with_body(self.put)),
            web.get("/api/get/{key}", self.get, allow_head=False),
            web.get("/api/exist/{key}", self.exist, allow_head=False),
            web.delete("/api/remove/{key}", self.remove),
            web.delete("/api/remove_all", self.remove_all),
        ]

    async def put(self, body: dict[str, Any]) -> web.Response:
        key, value = body.get("key"), body.get("value")
        if not key or value is None:
            raise Refusal(400, "Missing key or value")
        if not isinstance(key, str) or not isinstance(value, str) or not value:
            raise Refusal(400, "key and value should be texts, and not empty")
        try:
            data = value.encode()
            key.encode()
        except UnicodeEncodeError as error:
            raise Refusal(400, "key or value is no text", detail=str(error)
                          ) from None
        code = await self.call(self.store.put, key, data)
        if code:
            raise Refusal(500, "PUT operation failed", code=code)
        return web.json_response({"status": "success"})

    async def get(self, request: web.Request) -> web.StreamResponse:
        key = request.match_info["key"]
        async with self._reads:
            value = await self.call(self.store.get_buffer, key)
            if value is None:
                await self._there("GET", key)  # or why nobody knows
                raise Refusal(404, "Key not found")
            return await _send(request, memoryview(value))

    async def exist(self, request: web.Request) -> web.Response:
        there = await self._there("EXIST", request.match_info["key"])
        return web.json_response({"exists": there})

    async def _there(self, what: str, key: str) -> bool:
        code = await self.call(self.store.is_exist, key)
        if code < 0:
            raise Refusal(500, f"{what} operation failed", code=code)
        return bool(code)

    async def remove(self, request: web.Request) -> web.Response:
        code = await self.call(self.store.remove, request.match_info["key"])
        if code:
            raise Refusal(500, "Remove operation failed", code=code)
        return web.json_response({"status": "success"})

    async def remove_all(self, _: web.Request) -> web.Response:
        count = await self.call(self.store.remove_all)
        if count < 0:
            raise Refusal(500, "Remove all operation failed", code=count)
        return web.json_response({"status": f"success removed {count} keys"})


async def _send(request: web.Request, value: memoryview) -> web.StreamResponse:
    """Without a copy. Who does not take it is cut off."""
    response = web.StreamResponse()
    response.content_type = "application/octet-stream"
    response.content_length = len(value)
    await response.prepare(request)
    try:
        for at in range(0, len(value), PIECE):
            await asyncio.wait_for(response.write(value[at:at + PIECE]),
                                   PATIENCE_S)
        await response.write_eof()
    except asyncio.TimeoutError:
        if request.transport:
            request.transport.abort()
    return response
