# SPDX-License-Identifier: Apache-2.0
"""The HTTP of the REST service: who is served, and what that may cost.

What a client sends costs at most what the limits below say, and a fault of its own:
nobody waits for a body or for a reader that is slow, as mooncake/_traffic.py has it.
A call of the store runs on a thread; the loop goes on meanwhile.
"""
from __future__ import annotations

import asyncio
import io
import ipaddress
import json
import logging
import re
import socket
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError

from mooncake._accept import Connection, Listener
from mooncake._insecure import Members
from mooncake._rest_answers import Refusal, reply, timed
from mooncake._rest_segments import only_shared
from mooncake._traffic import PIECE, SMALL, Cut, Flow, Quiet, Traffic

if TYPE_CHECKING:
    from mooncake.mooncake_store_service import MooncakeStoreService

logger = logging.getLogger(__name__)

BODY_MAX = 100 << 20
BODIES, BODY_S = 384 << 20, 60  # in memory together; one of them takes so long
VALUES, VALUE_S = 384 << 20, 600  # the same of those that are sent
VALUES_AT_ONCE = 16  # that clients take as fast as they can
LARGE_AT_ONCE = 2
FIRST_S = 10  # until the first request of a connection has come
KEPT_S = 75  # between two requests
LINE_MAX = 200  # of a line about what somebody has sent
LINGER_S = 2  # for what comes after the answer, so that it can be read
HOST = re.compile(r"(?:\[([\da-f.]*:[\da-f:.]*)\]|([^:\[\]]*?)\.?)(?::\d*)?",
                  re.ASCII | re.IGNORECASE)


class HttpLines(logging.Filter):
    """What aiohttp says of who speaks no HTTP: a line now and then."""

    def __init__(self) -> None:
        super().__init__()
        self.quiet = Quiet(logger)

    def filter(self, record: logging.LogRecord) -> bool:
        error = record.exc_info[1] if record.exc_info else None
        if not isinstance(error, HttpProcessingError):
            return True
        words = " ".join(str(error).split())  # and all that was no HTTP
        self.quiet.warn(f"{record.getMessage()}: {words[:LINE_MAX]}")
        return False


http_logger = logging.getLogger(f"{__name__}.http")
http_logger.addFilter(HttpLines())


@web.middleware
async def answer_refusals(request: web.Request,
                          handler: Callable[..., Any]) -> web.StreamResponse:
    """Whatever happens is an answer. A browser's page may not change anything."""
    try:
        if request.method != "GET" and "Origin" in request.headers:
            raise Refusal(403, "a page of another site may not change anything")
        return await handler(request)
    except Refusal as refusal:
        return reply(refusal.body, refusal.status)
    except Cut as cut:
        return web.json_response({"error": str(cut)},
                                 status=408 if cut.too_slow else 503,
                                 headers={"Retry-After": "1"})
    except web.RequestPayloadError as error:
        return web.json_response({"error": f"the body is malformed: {error}"},
                                 status=400)
    except web.HTTPException:
        raise
    except ConnectionError:
        return web.Response(status=400)  # which nobody is there to read
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


class Intake:
    """Connections, bodies and values of a service, and what they may cost."""

    def __init__(self, members: Members) -> None:
        self.members = members
        self.bodies = Traffic("bodies", BODIES, BODY_S, logger)
        self.values = Traffic("values", VALUES, VALUE_S, logger)
        self.large = asyncio.Semaphore(LARGE_AT_ONCE)  # bodies that are worked on
        self.listener: Listener | None = None
        self._serve: Callable[[], asyncio.BaseProtocol] | None = None

    def open(self, sockets: list[socket.socket],
             serve: Callable[[], asyncio.BaseProtocol]) -> None:
        self._serve = serve
        self.listener = Listener("REST", sockets, self._begin, logger, FIRST_S)

    async def _begin(self, accepted: socket.socket,
                     connection: Connection) -> asyncio.Transport:
        del connection  # requests find it by the transport
        assert self._serve
        transport, _ = await asyncio.get_running_loop().connect_accepted_socket(
            self._serve, accepted)
        return transport

    def close(self) -> None:
        if self.listener:
            self.listener.close()

    def connection(self, request: web.Request) -> Connection:
        known = self.listener.connections if self.listener else {}
        transport = request.transport
        if transport not in known:
            raise ConnectionResetError("the client has gone")
        return known[transport]

    @web.middleware
    async def count(self, request: web.Request,
                    handler: Callable[..., Any]) -> web.StreamResponse:
        connection = self.connection(request)
        with connection.request():
            self._check_user(request, connection)
            return await handler(request)

    def _check_user(self, request: web.Request, connection: Connection) -> None:
        """All that there is reads or changes the pool: others get none of it."""
        if connection.is_member or request.transport is None:
            return
        words = self.members.refusal(request.transport.get_extra_info("socket"))
        if words:
            if self.listener:
                self.listener.refuse(connection, words)
            raise Refusal(403, words)
        connection.is_member = True


class Received:
    """A request whose body has come, as handlers take it."""

    def __init__(self, body: bytes,
                 check: Callable[[dict[str, Any]], None] | None) -> None:
        self._body = body
        self._check = check

    async def json(self) -> Any:
        data = json.loads(self._body)
        if self._check and isinstance(data, dict):
            self._check(data)
        return data


class Pages:
    """What the service answers, with the limits of who comes over HTTP."""

    def __init__(self, service: MooncakeStoreService, intake: Intake) -> None:
        self.service = service
        self.intake = intake

    def routes(self) -> list[web.RouteDef]:
        service, body = self.service, self._with_body
        return [
            web.put("/api/put", body(service.handle_put)),
            web.get("/api/get/{key}", self._get, allow_head=False),
            web.get("/api/exist/{key}", service.handle_exist, allow_head=False),
            web.delete("/api/remove/{key}", service.handle_remove),
            web.delete("/api/remove_all", service.handle_remove_all),
            web.post("/api/mount_shm", body(service.handle_mount_shm, only_shared)),
            web.post("/api/unmount_shm", body(service.handle_unmount_shm)),
            web.post("/api/mount", body(service.handle_mount)),
            web.post("/api/unmount", body(service.handle_unmount)),
            web.post("/api/unmount_local_disk",
                     body(service.handle_unmount_local_disk)),
            web.post("/api/reconfigure",
                     body(service.handle_reconfigure, only_shared)),
        ]

    def _with_body(self, handler: Callable[[Received], Any],
                   check: Callable[[dict[str, Any]], None] | None = None
                   ) -> Callable[[web.Request], Any]:
        """A handler of what the body says, which is there as long as it runs."""
        async def handle(request: web.Request) -> web.Response:
            connection = self.intake.connection(request)
            flow = self.intake.bodies.flow(connection.peer)
            with connection.carry(flow):
                body = await _receive(request, flow)
                flow.pause()
                if len(body) <= SMALL:
                    return await handler(Received(body, check))
                async with self.intake.large:
                    return await handler(Received(body, check))
        return handle

    async def _get(self, request: web.Request) -> web.StreamResponse:
        """As handle_get, from where the value lies: it is not copied."""
        key = request.match_info["key"]
        connection = self.intake.connection(request)
        response = web.StreamResponse()
        try:
            with timed("GET"), connection.carry(
                    self.intake.values.flow(connection.peer)) as flow:
                await flow.enter(VALUES // VALUES_AT_ONCE, 0)
                flow.pause()
                value = await self.service.value_of(key)
                flow.hold(len(value))
                flow.resume()
                await _send(request, response, memoryview(value), flow)
        except Cut:
            if not response.prepared:
                raise
            if request.transport:
                request.transport.abort()
        return response


async def _receive(request: web.Request, flow: Flow) -> bytes:
    length = request.content_length
    content = io.BytesIO()  # the bytes at its end are not one more copy
    while True:
        if max(length or 0, flow.held) > BODY_MAX:
            raise Refusal(413, f"a body has {BODY_MAX} bytes at most")
        piece = await request.content.readany()
        if not piece:
            return content.getvalue()
        flow.moved(len(piece))
        flow.hold(len(piece))
        content.write(piece)
        await flow.enter(BODY_MAX if length is None else length)


async def _send(request: web.Request, response: web.StreamResponse,
                value: memoryview, flow: Flow) -> None:
    """Without a copy."""
    response.content_type = "application/octet-stream"
    response.content_length = len(value)
    await response.prepare(request)
    for at in range(0, len(value), PIECE):
        piece = value[at:at + PIECE]
        await response.write(piece)
        flow.moved(len(piece))
    await response.write_eof()
