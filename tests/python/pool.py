# SPDX-License-Identifier: Apache-2.0
"""A master and owners as processes, for tests of mooncake.store."""
from __future__ import annotations

import ctypes
import os
import re
import signal
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path

import mooncake.store
from mooncake.store import MooncakeDistributedStore

MB = 1 << 20


def program(name: str) -> str:
    """Where the build has it; the modules lie in build/PRESET/python/mooncake."""
    if "/" in name:
        return name
    folder = os.environ.get("TE_BIN_DIR")
    beside = Path(mooncake.store.__file__).absolute().parents[2] / "bin"
    return str((Path(folder) if folder else beside) / name)


def until(condition: Callable[[], bool]) -> None:
    """Look again and again; ctest ends a test that waits for ever."""
    pause = threading.Event()
    while not condition():
        pause.wait(0.01)


PR_SET_PDEATHSIG = 1


def _die_with_parent() -> None:
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


class Program:
    """A process whose lines are read until one matches; never left behind."""

    def __init__(self, name: str, *args: str) -> None:
        self.process = subprocess.Popen(
            [program(name), *args], stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True,
            preexec_fn=_die_with_parent)

    def line(self, pattern: str) -> re.Match[str]:
        """ctest ends a test that waits for ever."""
        for line in self.process.stdout:
            found = re.search(pattern, line)
            if found:
                return found
        raise AssertionError(f"{pattern}: not said, and the process has ended")

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

    def store(self, segment: int = 16 * MB,
              local: int = 16 * MB) -> MooncakeDistributedStore:
        store = MooncakeDistributedStore()
        rc = store.setup("127.0.0.1", "P2PHANDSHAKE", segment, local, "tcp", "",
                         self.address)
        assert rc == 0
        return store


class Memory:
    """Bytes of the test's own, by address."""

    def __init__(self, size: int) -> None:
        self.bytes = (ctypes.c_char * size)()
        self.addr = ctypes.addressof(self.bytes)
        self.size = size

    def fill(self, data: bytes, offset: int = 0) -> int:
        """Returns where it lies."""
        ctypes.memmove(self.addr + offset, data, len(data))
        return self.addr + offset

    def read(self, offset: int, size: int) -> bytes:
        return ctypes.string_at(self.addr + offset, size)
