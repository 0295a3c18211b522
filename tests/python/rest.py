# SPDX-License-Identifier: Apache-2.0
"""The REST service as a process, and requests to it and to other servers."""
from __future__ import annotations

import json
import sys
import urllib.error
import urllib.request
from typing import Any

from pool import Program


def ask(url: str, method: str = "GET", body: bytes | None = None,
        **headers: str) -> tuple[int, bytes]:
    """Status and body, also of a refusal."""
    request = urllib.request.Request(url, body, headers, method=method)
    try:
        with urllib.request.urlopen(request) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as refusal:
        return refusal.code, refusal.read()


def command(*args: str) -> list[str]:
    return [sys.executable, "-m", "mooncake.mooncake_store_service", *args]


class Service(Program):
    """On a free port of loopback, with a segment of 16 MiB."""

    def __init__(self, master: str, *args: str) -> None:
        super().__init__(*command(
            "--port", "0", "-D", f"master_server_address={master}",
            "-D", "local_hostname=127.0.0.1", "-D", "global_segment_size=16MB",
            "-D", "local_buffer_size=1MB", *args))
        self.port = 0

    def started(self) -> Service:
        self.port = int(self.line(r"REST API started on port (\d+)")[1])
        return self

    def ask(self, method: str, path: str, data: Any = None,
            **headers: str) -> tuple[int, Any]:
        """JSON both ways; the bytes of a value as they are."""
        body = None if data is None else json.dumps(data).encode()
        code, answer = ask(f"http://127.0.0.1:{self.port}/api/{path}", method,
                           body, **headers)
        try:
            return code, json.loads(answer)
        except ValueError:
            return code, answer

    def put(self, key: str, value: str) -> tuple[int, Any]:
        return self.ask("PUT", "put", {"key": key, "value": value})
