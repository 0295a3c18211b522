# SPDX-License-Identifier: Apache-2.0
"""Processes that a measurement starts: bounded in time, ended by their pid."""
from __future__ import annotations

import contextlib
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence

from .work import Skip


def free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return sock.getsockname()[1]


def run(command: Sequence[str], seconds: float,
        env: dict[str, str] | None = None) -> str:
    """What @command prints, both streams; Skip when it fails or hangs."""
    try:
        done = subprocess.run(command, timeout=seconds, text=True,
                              errors="replace", stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT,
                              env={**os.environ, **(env or {})})
    except subprocess.TimeoutExpired as error:
        raise Skip(f"did not end within {seconds:.0f} s") from error
    except OSError as error:
        raise Skip(str(error)) from error
    if done.returncode:
        last = done.stdout.strip().splitlines()[-1:] or ["no output"]
        raise Skip(f"exit {done.returncode}: {last[0][:120]}")
    return done.stdout


class Server:
    """A process that serves until it is stopped; its output goes to a file."""

    def __init__(self, process: subprocess.Popen[bytes], log: str) -> None:
        self.process = process
        self._log = log

    def output(self) -> str:
        with open(self._log, encoding="utf-8", errors="replace") as log:
            return log.read()

    def line(self, pattern: str, seconds: float = 10.0) -> re.Match[str]:
        """The first match of @pattern in what it prints."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            match = re.search(pattern, self.output())
            if match:
                return match
            if self.process.poll() is not None:
                break
            time.sleep(0.02)
        last = self.output().strip().splitlines()[-1:] or ["no output"]
        raise Skip(f"its server does not come up: {last[0][:120]}")

    def cpu_s(self) -> float:
        """CPU time that the process has used so far."""
        with open(f"/proc/{self.process.pid}/stat", encoding="ascii") as stat:
            fields = stat.read().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def await_port(port: int, server: Server, seconds: float = 10.0) -> None:
    until = time.monotonic() + seconds
    while time.monotonic() < until and server.process.poll() is None:
        with contextlib.suppress(OSError):
            socket.create_connection(("127.0.0.1", port), 1.0).close()
            return
        time.sleep(0.02)
    server.line("$^", 0.0)  # says why


@contextlib.contextmanager
def serving(command: Sequence[str],
            env: dict[str, str] | None = None) -> Iterator[Server]:
    with tempfile.NamedTemporaryFile(prefix="compare-") as log:
        try:
            process = subprocess.Popen(command, stdin=subprocess.DEVNULL,
                                       stdout=log, stderr=log,
                                       start_new_session=True,
                                       env={**os.environ, **(env or {})})
        except OSError as error:
            raise Skip(str(error)) from error
        try:
            yield Server(process, log.name)
        finally:
            # Its own group: a wrapper's child would outlive the wrapper.
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGTERM)
            try:
                process.wait(5)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()


def await_listening(port: int, seconds: float = 10.0) -> None:
    """Until @port is bound, for servers whose one client must not be us."""
    wanted = f":{port:04X} "
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        for table in ("/proc/net/tcp", "/proc/net/tcp6"):
            with open(table, encoding="ascii") as rows:
                if any(wanted in row and " 0A " in row for row in rows):
                    return
        time.sleep(0.02)
    raise Skip("its server does not listen")


# Ends with the process that has started it, however that ends.
_BUSY_LOOP = """
import os, sys
while os.getppid() == int(sys.argv[1]):
    for _ in range(1000000):
        pass
"""


@contextlib.contextmanager
def busy(loops_per_core: int) -> Iterator[list[subprocess.Popen[bytes]]]:
    """Busy loops beside what is measured, as many bound to each core."""
    loops: list[subprocess.Popen[bytes]] = []
    try:
        for core in sorted(os.sched_getaffinity(0)) * loops_per_core:
            loops.append(subprocess.Popen(
                [sys.executable, "-c", _BUSY_LOOP, str(os.getpid())],
                stdin=subprocess.DEVNULL))
            os.sched_setaffinity(loops[-1].pid, {core})
        yield loops
    finally:
        for loop in loops:
            loop.kill()
        for loop in loops:
            loop.wait()
