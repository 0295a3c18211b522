# SPDX-License-Identifier: Apache-2.0
"""A directory of engines over HTTP: `te-metad`, which is inside the package.

Everything is in memory. Its answers are in docs/directories.md of the sources.
"""
from __future__ import annotations

import enum
import subprocess
import threading
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NoReturn

from mooncake._programs import become, find

CLOSE_S = 2


class KVPoll(enum.Enum):
    Failed = 0
    Bootstrapping = 1
    WaitingForInput = 2
    Transferring = 3
    Success = 4


@dataclass(frozen=True)
class Response:
    """What a request for metadata is answered with."""

    body: bytes
    status: int = 200
    content_type: str = "application/json"

    @property
    def text(self) -> str:
        return self.body.decode()


def _terminate(process: subprocess.Popen[str]) -> None:
    process.terminate()
    process.communicate()


class KVBootstrapServer:
    """The server as a process beside this one, from run() to close().

    It ends with an interpreter that ends as it should, too, but not with the
    object: nobody has to keep that. _handle_metadata() answers without it, of
    values in `store` that are this object's alone.
    """

    def __init__(self, port: int, host: str = "0.0.0.0") -> None:
        """port 0: any free one, which `port` says once it runs."""
        self.port = port
        self.host = host
        self.store: dict[str, bytes] = {}
        self._thread: threading.Thread | None = None
        self._end: Callable[[], object] = lambda: None

    async def _handle_metadata(self, request: Any) -> Response:
        """request: of aiohttp, or what has its method, query and read()."""
        key = request.query.get("key", "").strip()
        if not key:
            return Response(b"metadata key is required", 400)
        if request.method == "GET":
            if key in self.store:
                return Response(self.store[key])
            return Response(b"metadata not found", 404)
        if request.method == "PUT":
            value = await request.read()
            if "rpc_meta" in key and key in self.store:
                return Response(b"Duplicate rpc_meta key not allowed", 400)
            self.store[key] = value
            return Response(b"metadata updated")
        if request.method == "DELETE":
            if self.store.pop(key, None) is None:
                return Response(b"metadata not found", 404)
            return Response(b"metadata deleted")
        return Response(b"Method not allowed", 405)

    def run(self) -> threading.Thread:
        """Returns when it serves: what lives as long as it does.

        OSError: it could not; its words are on stderr.
        """
        if self._thread and self._thread.is_alive():
            return self._thread
        process = subprocess.Popen(
            [find("te-metad"), f"--port={self.port}", f"--host={self.host}"],
            stdout=subprocess.PIPE, text=True)
        self._end = weakref.finalize(self, _terminate, process)
        assert process.stdout
        line = process.stdout.readline()
        if not line:
            self.close()
            raise OSError(f"te-metad does not serve {self.host}:{self.port}")
        self.port = int(line.rsplit(None, 1)[1])
        self._thread = threading.Thread(target=self._wait, args=(process,),
                                        daemon=True, name="mooncake-metadata")
        self._thread.start()
        return self._thread

    def _wait(self, process: subprocess.Popen[str]) -> None:
        """Keeps this object as long as the server lives."""
        process.wait()

    def poll(self) -> KVPoll:
        """Success: it runs."""
        if self._thread and self._thread.is_alive():
            return KVPoll.Success
        return KVPoll.Failed

    def close(self) -> None:
        self._end()
        if self._thread:
            self._thread.join(CLOSE_S)
            self._thread = None


def main() -> NoReturn:
    become("te-metad")


if __name__ == "__main__":
    main()
