# SPDX-License-Identifier: Apache-2.0
"""One congestion control for all, also for peers that cannot be told."""
from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

SYSTEM = Path("/proc/sys/net/ipv4/tcp_congestion_control")


@contextmanager
def for_all(wanted: str) -> Iterator[str]:
    """Have @wanted be the system's own for the time; which it is then.

    That takes root. Without it all use what the system has, so that they are
    still alike.
    """
    before = SYSTEM.read_text(encoding="ascii").strip()
    if before == wanted:
        yield before
        return
    try:
        SYSTEM.write_text(wanted, encoding="ascii")
    except OSError as error:
        print(f"compare: all run with {before}, as the system does: "
              f"{SYSTEM}: {error.strerror}", file=sys.stderr)
        yield before
        return
    try:
        yield wanted
    finally:
        SYSTEM.write_text(before, encoding="ascii")
