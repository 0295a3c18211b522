# SPDX-License-Identifier: Apache-2.0
"""A peer in a process of its own, which does what it is told.

Run as a program it publishes memory at an address that every life of it has, says
its name in one line, and answers a line of JSON with one.
"""
from __future__ import annotations

import ctypes
import hashlib
import json
import os
import random
import signal
import socket
import subprocess
import sys
import threading
import time

import vram
from mooncake.engine import TransferEngine
from speed import stretched

ADDRESS = 0x200000000000
LENGTH = 16 << 20
DEADLINE_S = stretched(60)  # of what should be a matter of moments


def until(fact, deadline_s: float = DEADLINE_S) -> bool:
    """Ask until it is so; False: it never was."""
    end = time.monotonic() + deadline_s
    pause = threading.Event()
    while not fact():
        if time.monotonic() > end:
            return False
        pause.wait(0.005)
    return True


def free_port() -> int:
    """Below those that the kernel gives: it stays free while its owner is dead."""
    while True:
        port = random.randrange(17001, 32768)
        with socket.socket() as listener:
            try:
                listener.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port


class Peer:
    """The other process. With a port: the one it is started with again."""

    def __init__(self, port: int = 0, **environment: str) -> None:
        name = f"127.0.0.1:{port}" if port else "127.0.0.1"
        if port:
            environment["MC_LEGACY_RPC_PORT_BINDING"] = "1"
        self.process = subprocess.Popen(
            [sys.executable, __file__, name], text=True,
            env={**os.environ, **environment},
            stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.name = self.process.stdout.readline().strip()
        assert self.name, "the peer did not start"

    def __enter__(self) -> Peer:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def kill(self) -> None:
        self.process.kill()
        self.process.communicate()

    def stop(self) -> None:
        """Every thread of it stands still."""
        self.process.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, self.process.pid, os.WSTOPPED | os.WNOWAIT)

    def ask(self, **what: object):
        self.process.stdin.write(json.dumps(what) + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def bytes_at(self, offset: int, length: int) -> bytes:
        return bytes.fromhex(self.ask(do="read", offset=offset, length=length))

    def digest(self, offset: int, length: int) -> str:
        """Of more bytes than one would send through a pipe."""
        return self.ask(do="digest", offset=offset, length=length)

    @staticmethod
    def digest_of(content: bytes) -> str:
        return hashlib.sha256(content).hexdigest()


def map_memory() -> None:
    """LENGTH bytes at ADDRESS, where nothing else is."""
    if vram.GPU:
        vram.GPU.map_at(ADDRESS, LENGTH)
        return
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int,
                          ctypes.c_int, ctypes.c_int, ctypes.c_long]
    private_anonymous_fixed = 0x02 | 0x20 | 0x100000
    assert libc.mmap(ADDRESS, LENGTH, 3, private_anonymous_fixed, -1,
                     0) == ADDRESS


def obey(engine: TransferEngine, do: str, offset: int = 0, length: int = 0,
         text: str = ""):
    if do == "read":
        return vram.read(ADDRESS + offset, length).hex()
    if do == "digest":
        return Peer.digest_of(vram.read(ADDRESS + offset, length))
    if do == "write":
        vram.write(ADDRESS + offset, text.encode())
        return 0
    if do == "notifies":
        return [[note.name, note.msg] for note in engine.get_notifies()]
    raise ValueError(do)


def main() -> None:
    engine = TransferEngine()
    map_memory()
    assert engine.initialize(sys.argv[1], "P2PHANDSHAKE", "tcp", "") == 0
    assert engine.register_memory(ADDRESS, LENGTH) == 0
    print(f"127.0.0.1:{engine.get_rpc_port()}", flush=True)
    for line in sys.stdin:
        print(json.dumps(obey(engine, **json.loads(line))), flush=True)


if __name__ == "__main__":
    main()
