# SPDX-License-Identifier: Apache-2.0
"""A port before a peer's own, through which peers come to it when they may."""
from __future__ import annotations

import selectors
import socket
import threading

from peer import free_port


class Gate:
    """Nobody listens at first. Only for control connections: data needs none."""

    def __init__(self) -> None:
        self.port = free_port()
        self.name = f"127.0.0.1:{self.port}"
        self.listener = None
        self.crowd: list[socket.socket] = []
        self.other: dict[socket.socket, socket.socket] = {}
        self.selector = selectors.DefaultSelector()
        self.over = threading.Event()
        self.thread = None

    def __enter__(self) -> Gate:
        return self

    def __exit__(self, *_: object) -> None:
        self.over.set()
        if self.thread:
            self.thread.join()
        for one in [*self.crowd, *self.other, self.listener]:
            if one:
                one.close()
        self.selector.close()

    def _listen(self, backlog: int) -> None:
        self.listener = socket.socket()
        self.listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.listener.bind(("127.0.0.1", self.port))
        self.listener.listen(backlog)

    def turn_away(self, n: int) -> None:
        """The next n that come are closed at once."""
        self._listen(16)
        for _ in range(n):
            self.listener.accept()[0].close()

    def overcrowd(self) -> None:
        """So many have come that nobody else is even answered."""
        self._listen(0)
        while True:
            one = socket.socket()
            one.settimeout(0.2)  # where there is room the kernel answers
            self.crowd.append(one)
            try:
                one.connect(("127.0.0.1", self.port))
            except TimeoutError:
                return

    def open(self, name: str) -> None:
        """From now on whoever comes is led to the peer of that name."""
        for one in self.crowd:
            one.close()
        self.crowd.clear()
        if not self.listener:
            self._listen(16)
        host, _, port = name.rpartition(":")
        self.listener.listen(16)
        self.selector.register(self.listener, selectors.EVENT_READ)
        self.thread = threading.Thread(target=self._run,
                                       args=((host, int(port)),))
        self.thread.start()

    def _run(self, to: tuple[str, int]) -> None:
        while not self.over.is_set():
            for key, _ in self.selector.select(0.05):
                if key.fileobj is self.listener:
                    self._join(self.listener.accept()[0],
                               socket.create_connection(to))
                else:
                    self._pass_on(key.fileobj)

    def _join(self, one: socket.socket, other: socket.socket) -> None:
        for a, b in ((one, other), (other, one)):
            self.other[a] = b
            self.selector.register(a, selectors.EVENT_READ)

    def _pass_on(self, one: socket.socket) -> None:
        other = self.other.get(one)
        if not other:
            return  # its other half has just gone
        try:
            data = one.recv(1 << 16)
            other.sendall(data)
        except OSError:
            data = b""
        if not data:
            for end in (one, other):
                self.selector.unregister(end)
                del self.other[end]
                end.close()
