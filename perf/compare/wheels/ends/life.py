# SPDX-License-Identifier: Apache-2.0
"""A client that joins a pool, works for a moment and leaves, timed.

life.py PORT LOCAL
"""
from __future__ import annotations

import os
import sys
import time

import talk

START = time.perf_counter()
from mooncake.store import MooncakeDistributedStore  # noqa: E402

IMPORTED = time.perf_counter()


def resident() -> int:
    """Bytes of memory that this process has touched."""
    with open("/proc/self/statm", encoding="ascii") as statm:
        return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def main() -> None:
    port, local = int(sys.argv[1]), int(sys.argv[2])
    store, before = MooncakeDistributedStore(), resident()
    start = time.perf_counter()
    rc = store.setup("127.0.0.1", "P2PHANDSHAKE", 0, local, "tcp", "",
                     f"127.0.0.1:{port}")
    ready = time.perf_counter()
    grown = resident() - before
    if rc or store.put("life", b"x" * 4096) or len(store.get("life")) != 4096:
        raise RuntimeError(f"setup() = {rc}, or put() and get() failed")
    store.remove("life", True)
    leaving = time.perf_counter()
    store.close()
    talk.say(import_ms=(IMPORTED - START) * 1e3, setup_ms=(ready - start) * 1e3,
             setup_mb=grown / 1e6,
             close_ms=(time.perf_counter() - leaving) * 1e3)
    os._exit(0)


main()
