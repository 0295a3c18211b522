# SPDX-License-Identifier: Apache-2.0
"""A directory of engines over HTTP: `te-metad`, which is inside the package.

Everything is in memory. Its answers are in docs/directories.md of the sources.
"""
from __future__ import annotations

import enum
import subprocess
import weakref
from collections.abc import Callable
from typing import NoReturn

from mooncake._programs import become, find


class KVPoll(enum.IntEnum):
    Failed = 0
    Bootstrapping = 1
    WaitingForInput = 2
    Transferring = 3
    Success = 4


def _terminate(process: subprocess.Popen[str]) -> None:
    process.terminate()
    process.communicate()


class KVBootstrapServer:
    """The server as a process beside this one, from run() to close().

    It ends with the object, too, and with an interpreter that ends as it should.
    """

    def __init__(self, port: int, host: str = "0.0.0.0") -> None:
        """port 0: any free one, which `port` says once it runs."""
        self.port = port
        self.host = host
        self._process: subprocess.Popen[str] | None = None
        self._end: Callable[[], object] = lambda: None

    def run(self) -> None:
        """Returns when it serves. OSError: it could not; its words are on stderr."""
        if self.poll() is KVPoll.Success:
            return
        process = subprocess.Popen(
            [find("te-metad"), f"--port={self.port}", f"--host={self.host}"],
            stdout=subprocess.PIPE, text=True)
        self._process = process
        self._end = weakref.finalize(self, _terminate, process)
        assert process.stdout
        line = process.stdout.readline()
        if not line:
            self.close()
            raise OSError(f"te-metad does not serve {self.host}:{self.port}")
        self.port = int(line.rsplit(None, 1)[1])

    def poll(self) -> KVPoll:
        """Success: it runs."""
        if self._process and self._process.poll() is None:
            return KVPoll.Success
        return KVPoll.Failed

    def close(self) -> None:
        self._end()
        self._process = None


def main() -> NoReturn:
    become("te-metad")


if __name__ == "__main__":
    main()
