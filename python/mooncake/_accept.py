# SPDX-License-Identifier: Apache-2.0
"""Connections of a server: as many as its process can afford, and whose they are.

When there are too many, one gives way to who comes: that on which nothing has come
for the longest time, of a peer that has most of them, and one that never brought a
whole message before all others. What the server itself has to answer stays. Peers of other hosts are told apart by
address; each connection from this host is a peer of its own.
"""
from __future__ import annotations

import asyncio
import collections
import heapq
import logging
import resource
import socket
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager

from mooncake._traffic import Flow, Quiet

CONNECTIONS_MAX = 2048
BACKLOG = 1024
SWEEP_S = 1
BATCH = 32  # a part of all that gives way at once
PAUSE_S = 0.1  # after no connection could be accepted


def connections_max() -> int:
    """Leaves half of the process's descriptors to others."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return min(CONNECTIONS_MAX, soft // 2) if soft > 0 else CONNECTIONS_MAX


def listen(host: str | None, port: int) -> list[socket.socket]:
    """Sockets for each address of host (None: all). OSError: not even one."""
    found = socket.getaddrinfo(host or None, port, type=socket.SOCK_STREAM,
                               flags=socket.AI_PASSIVE)
    sockets: list[socket.socket] = []
    try:
        for family, _, _, _, address in found:
            sockets.append(socket.create_server(
                address[:2], family=family, backlog=BACKLOG))
            sockets[-1].setblocking(False)
    except OSError:
        for one in sockets:
            one.close()
        raise
    return sockets


class Connection:
    """What a server knows of one, from accept() to the end of its transport."""

    def __init__(self, accepted: socket.socket) -> None:
        peer, here = accepted.getpeername(), accepted.getsockname()
        self.is_local = peer[0] == here[0]
        self.name = f"{peer[0]}:{peer[1]}"
        self.peer = self.name if self.is_local else str(peer[0])
        self.since = time.monotonic()  # when it came, or its last message was answered
        self.served = self.serving = 0  # messages
        self.is_member = False  # as far as is known
        self.flow: Flow | None = None

    def rank(self) -> tuple[bool, float]:
        """The least gives way first."""
        return self.served > 0, self.flow.moved_at if self.flow else self.since

    def gives_way(self) -> bool:
        return not self.serving or (self.flow is not None
                                    and not self.flow.complete)

    @contextmanager
    def request(self) -> Iterator[None]:
        """One is being served: it gives way only if what it brings is slow."""
        self.serving += 1
        try:
            yield
        finally:
            self.serving -= 1
            self.served += 1
            self.since = time.monotonic()

    @contextmanager
    def carry(self, flow: Flow) -> Iterator[Flow]:
        self.flow = flow
        try:
            with flow:
                yield flow
        finally:
            self.flow = None


class Listener:
    """Accepts for start, which returns the transport of what it began to serve.

    Who has asked nothing first_s after it came is closed (None: it need not).
    """

    def __init__(self, name: str, sockets: list[socket.socket],
                 start: Callable[[socket.socket, Connection],
                                 Awaitable[asyncio.Transport]],
                 logger: logging.Logger, first_s: float | None = None) -> None:
        self.name, self.sockets, self.start = name, sockets, start
        self.first_s = first_s
        self.loop = asyncio.get_running_loop()
        self.max = connections_max()
        self.connections: dict[asyncio.Transport, Connection] = {}
        self.crowd, self.failed = Quiet(logger), Quiet(logger)
        self.refused = Quiet(logger), Quiet(logger)  # of other hosts, of this one
        self.tasks = [self.loop.create_task(self._accept(one)) for one in sockets]
        self.tasks.append(self.loop.create_task(self._sweep()))

    def close(self) -> None:
        """Accept no more; connections go on."""
        for task in self.tasks:
            task.cancel()
        for one in self.sockets:
            self.loop.remove_reader(one)
            one.close()

    def refuse(self, connection: Connection, why: str) -> None:
        """Log why one is not served."""
        self.refused[connection.is_local].warn(
            f"{self.name}: refused {connection.name}: {why}")

    async def _accept(self, listener: socket.socket) -> None:
        while True:
            try:
                accepted, _ = await self.loop.sock_accept(listener)
            except OSError as error:
                self.failed.warn(f"{self.name}: cannot accept: {error}")
                await asyncio.sleep(PAUSE_S)
                continue
            try:
                await self._begin(accepted)
            except OSError:
                accepted.close()  # it has gone already
            except Exception as error:  # must not end the port
                accepted.close()
                self.failed.warn(f"{self.name}: accept: {error!r}")

    async def _begin(self, accepted: socket.socket) -> None:
        accepted.setblocking(False)
        connection = Connection(accepted)
        if len(self.connections) >= self.max and not self._make_way(connection):
            accepted.close()
            return
        transport = await self.start(accepted, connection)
        self.connections[transport] = connection

    def _prune(self) -> None:
        for transport in list(self.connections):
            if transport.is_closing():
                del self.connections[transport]

    def _make_way(self, comer: Connection) -> bool:
        """False: all are busy with what has come."""
        self._prune()
        if len(self.connections) < self.max:
            return True
        peers = collections.Counter(
            one.peer for one in self.connections.values())
        most = max(peers.values(), default=0)
        victims = [transport for transport, one in self.connections.items()
                   if one.gives_way() and 2 * peers[one.peer] >= most]
        if not victims:
            self.refuse(comer, f"all {len(self.connections)} connections have "
                        f"requests under way, and more {self._limit()}")
            return False
        # Looking at all is dear: those that bring nothing go several at a time.
        first, *others = heapq.nsmallest(
            1 + self.max // BATCH, victims,
            key=lambda transport: self.connections[transport].rank())
        self.crowd.warn(
            f"{self.name}: closed the connection of {self.connections[first].name} "
            f"for that of {comer.name}: more than {len(self.connections)} "
            f"{self._limit()}")
        for transport in [first, *(one for one in others
                                   if not self.connections[one].serving)]:
            del self.connections[transport]
            transport.abort()
        return True

    def _limit(self) -> str:
        return (f"are not kept (half of the limit of open files, ulimit -n, "
                f"{CONNECTIONS_MAX} at most)")

    async def _sweep(self) -> None:
        while True:
            await asyncio.sleep(SWEEP_S)
            self._prune()
            if self.first_s is None:
                continue
            late = time.monotonic() - self.first_s
            for transport, one in self.connections.items():
                if not (one.served or one.serving) and one.since < late:
                    transport.abort()
