# SPDX-License-Identifier: Apache-2.0
"""A master and owners as processes, for tests of mooncake.store."""
from __future__ import annotations

import ctypes
import inspect
import os
import re
import subprocess
import threading
import time
import weakref
from collections.abc import Callable
from pathlib import Path

import mooncake.store
import pytest
import vram
from mooncake.store import MooncakeDistributedStore
from speed import stretched

MB = 1 << 20


def program(name: str) -> str:
    """Where the build has it; the modules lie in build/PRESET/python/mooncake."""
    if "/" in name:
        return name
    folder = os.environ.get("TE_BIN_DIR")
    beside = Path(mooncake.store.__file__).absolute().parents[2] / "bin"
    return str((Path(folder) if folder else beside) / name)


DEADLINE_S = stretched(120)  # of what should be a matter of moments


def until(condition: Callable[[], bool]) -> None:
    """Look again and again."""
    end = time.monotonic() + DEADLINE_S
    pause = threading.Event()
    while not condition():
        if time.monotonic() > end:
            raise AssertionError(f"not so after {DEADLINE_S} s: "
                                 + inspect.getsource(condition).strip())
        pause.wait(0.01)


ANOTHER_USER = 64998  # that nobody is

only_root = pytest.mark.skipif(os.geteuid() != 0,
                               reason="only root has processes of other users")


def ask_as(user: int, port: int, sent: bytes, take: str = "cat") -> bytes:
    """What a process of that user is told on loopback; take reads it."""
    return subprocess.run(
        ["bash", "-c", f"exec 3<>/dev/tcp/127.0.0.1/{port} && cat >&3 && "
         f"timeout {DEADLINE_S} {take} <&3"],
        input=sent, stdout=subprocess.PIPE, check=False, cwd="/",
        user=user, group=user, extra_groups=[]).stdout


class Program:
    """A process whose lines are read until one matches; never left behind.

    Nothing of Python's runs between fork and exec: other threads may hold locks.
    """

    def __init__(self, name: str, *args: str) -> None:
        self.process = subprocess.Popen(
            ["setpriv", "--pdeathsig", "KILL", program(name), *args],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

    def line(self, pattern: str) -> re.Match[str]:
        """ctest ends a test that waits for ever."""
        said = ""
        for line in self.process.stdout:
            found = re.search(pattern, line)
            if found:
                return found
            said += line
        raise AssertionError(f"{pattern}: the process has ended, and said\n"
                             + said)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()


class Master:
    def __init__(self, *args: str) -> None:
        self.args = args
        self._start("0")

    def _start(self, port: str) -> None:
        self.program = Program(
            "mooncake_master", "--port", port, "--rpc_address", "127.0.0.1",
            "--metrics_host", "127.0.0.1", "--metrics_port", "0", *self.args)
        found = self.program.line(r"Master service started on port (\d+)")
        self.address = f"127.0.0.1:{found[1]}"
        found = self.program.line(r"HTTP metrics server started on port (\d+)")
        self.admin = f"127.0.0.1:{found[1]}"

    def restart(self) -> None:
        """On the same port, as if it had crashed."""
        self.kill()
        self._start(self.address.rpartition(":")[2])

    def kill(self) -> None:
        self.program.kill()

    def owner(self, *args: str, port: int = 0) -> Program:
        """Memory of the pool in a process of its own."""
        one = Program(
            "mooncake_client", "--port", str(port), "--host", "127.0.0.1",
            "--master_server_address", self.address, "--global_segment_size",
            "16 MB", *args)
        one.line(" serves ")
        return one

    def store(self, segment: int = 16 * MB,
              local: int = 16 * MB) -> MooncakeDistributedStore:
        store = MooncakeDistributedStore()
        rc = store.setup("127.0.0.1", "P2PHANDSHAKE", segment, local, "tcp", "",
                         self.address)
        assert rc == 0
        return store


class Memory:
    """Bytes of the test's own, by address: the host's, or a GPU's (vram.py)."""

    def __init__(self, size: int) -> None:
        self.size = size
        if vram.GPU:
            self.addr = vram.GPU.allocate(size)
            weakref.finalize(self, vram.GPU.free, self.addr).atexit = False
            self.clear()
        else:
            self.bytes = (ctypes.c_char * size)()
            self.addr = ctypes.addressof(self.bytes)

    def fill(self, data: bytes, offset: int = 0) -> int:
        """Returns where it lies."""
        vram.write(self.addr + offset, data)
        return self.addr + offset

    def read(self, offset: int, size: int) -> bytes:
        return vram.read(self.addr + offset, size)

    def clear(self) -> None:
        vram.write(self.addr, bytes(self.size))


only_host = pytest.mark.skipif(
    vram.GPU is not None, reason="only the host's memory may go unregistered")


only_host_forks = pytest.mark.skipif(
    vram.GPU is not None, reason="a child of a fork has no driver of GPUs")


def register_gpu(store: MooncakeDistributedStore, memory: Memory) -> None:
    """What is needed of a GPU's memory; the host's goes unregistered, too."""
    if vram.GPU:
        assert store.register_buffer(memory.addr, memory.size) == 0


def lend(store: MooncakeDistributedStore, size: int) -> Memory:
    """Memory that the store may use as long as it lives, as the host's may."""
    memory = Memory(size)
    register_gpu(store, memory)
    if vram.GPU:  # called before what frees it
        weakref.finalize(memory, store.unregister_buffer,
                         memory.addr).atexit = False
    return memory
