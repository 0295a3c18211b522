# SPDX-License-Identifier: Apache-2.0
"""A plain TCP stream and a blocking ping-pong: what there is to compare with.

raw.py LENGTH; sends from, and its child receives into, LENGTH bytes each.
"""
from __future__ import annotations

import os
import socket
import sys
import threading

import talk

CHUNK = 1 << 20
ANSWER = 8  # bytes, at most


def receive_all(sock: socket.socket, area: memoryview) -> bool:
    """False: the other side is gone."""
    while area:
        n = sock.recv_into(area)
        if not n:
            return False
        area = area[n:]
    return True


class Peer:
    """The other side: takes a stream, or sends back what comes."""

    def __init__(self, length: int) -> None:
        self.memory = talk.Memory(length)
        self.view = memoryview(self.memory.map)

    def drain(self, sock: socket.socket) -> None:
        at = 0
        while receive_all(sock, self.view[at:at + CHUNK]):
            at = (at + CHUNK) % (self.memory.length - CHUNK + 1)

    def answer(self, sock: socket.socket) -> None:
        """The first four bytes say how many are sent to and fro."""
        head = bytearray(4)
        if not receive_all(sock, memoryview(head)):
            return
        size = int.from_bytes(head, "little")
        while receive_all(sock, self.view[:size]):
            sock.sendall(self.view[:min(size, ANSWER)])


def serve(listener: socket.socket, pipe: int, length: int) -> None:
    """One connection after the other; its first byte says what it is for."""
    peer = Peer(length)
    while True:
        sock, _ = listener.accept()
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        before = talk.cpu_s()
        (peer.drain if sock.recv(1) == b"s" else peer.answer)(sock)
        sock.close()
        os.write(pipe, f"{talk.cpu_s() - before}\n".encode())


class Raw:
    def __init__(self, length: int) -> None:
        listener = socket.create_server(("127.0.0.1", 0))
        self.address = listener.getsockname()
        reader, writer = os.pipe()
        keep, gone = os.pipe()  # closed with us: the child ends too
        if not os.fork():
            os.close(gone)
            os.close(reader)
            threading.Thread(target=serve, daemon=True,
                             args=(listener, writer, length)).start()
            os.read(keep, 1)
            os._exit(0)
        os.close(keep)
        listener.close()
        self.reader = os.fdopen(reader, encoding="ascii")
        self.memory = talk.Memory(length)
        self.view = memoryview(self.memory.map)

    def connect(self, what: bytes) -> socket.socket:
        sock = socket.create_connection(self.address)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.sendall(what)
        return sock

    def do_stream(self, seconds: float) -> talk.Order:
        chunks = self.memory.length // CHUNK
        sock = self.connect(b"s")

        def send(i: int) -> int:
            at = i % chunks * CHUNK
            sock.sendall(self.view[at:at + CHUNK])
            return CHUNK

        before = talk.cpu_s()
        moved, elapsed = talk.repeat(send, seconds)
        sock.close()
        cpu = talk.cpu_s() - before + float(self.reader.readline())
        return {"gb_per_s": moved / elapsed / 1e9,
                "cpu_s_per_gb": cpu / moved * 1e9}

    def do_pingpong(self, size: int, seconds: float) -> talk.Order:
        """As a write: @size bytes one way, and a short answer."""
        sock = self.connect(b"p")
        sock.sendall(size.to_bytes(4, "little"))

        def once() -> None:
            sock.sendall(self.view[:size])
            receive_all(sock, self.view[:min(size, ANSWER)])

        times = talk.times_us(once, seconds)
        sock.close()
        self.reader.readline()
        return times


talk.obey(Raw(int(sys.argv[1])))
