# SPDX-License-Identifier: Apache-2.0
"""What is measured, and what a measurement gives."""
from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Work:
    """One row of the table: the same for whoever does it."""

    name: str
    way: str  # "tcp", "shm"; "store-tcp": a key/value server
    op: str  # "write", "read"
    size: int  # bytes of a block
    batch: int  # blocks submitted and awaited together
    hot: bool = False  # one buffer again and again, else 512 MiB walked over
    unit: str = "GB/s"  # or "us": latency of one block
    threads: int = 1  # each submits batches of its own
    than: str = ""  # a work that ours is to be compared with as well
    goals: tuple[tuple[str, float], ...] = ()  # peer, or @than: times theirs


@dataclass(frozen=True)
class Result:
    """gb_per_s or us, as the work's unit says; CPU of both sides if known."""

    value: float
    cpu_s_per_gb: float | None = None


class Skip(Exception):
    """This peer has not done this work, and why, in a few words."""


class Unfit(Skip):
    """It never does such work, so that nothing is wrong."""


KIB, MIB = 1 << 10, 1 << 20
WORKING_SET = 512 * MIB

MIB_WRITE = "tcp write 1 MiB x 16"

WORKS = (
    Work(MIB_WRITE, "tcp", "write", MIB, 16, goals=(("NIXL", 1.0),)),
    Work("tcp read 1 MiB x 16", "tcp", "read", MIB, 16,
         goals=(("NIXL", 4.0),)),
    Work("tcp write 1 MiB x 16, 2 threads", "tcp", "write", MIB, 16,
         threads=2, than=MIB_WRITE, goals=((MIB_WRITE, 1.0),)),
    Work("tcp write 1 MiB x 16, 8 threads", "tcp", "write", MIB, 16,
         threads=8, than=MIB_WRITE, goals=((MIB_WRITE, 1.0),)),
    Work("tcp write 64 KiB x 16", "tcp", "write", 64 * KIB, 16),
    Work("tcp read 64 KiB x 16", "tcp", "read", 64 * KIB, 16),
    Work("tcp write 4 KiB x 128", "tcp", "write", 4 * KIB, 128),
    Work("tcp read 4 KiB x 128", "tcp", "read", 4 * KIB, 128),
    Work("tcp write 1 MiB, hot", "tcp", "write", MIB, 16, hot=True,
         goals=(("iperf3", 0.85),)),
    Work("tcp read 1 MiB, hot", "tcp", "read", MIB, 16, hot=True,
         goals=(("iperf3", 0.85),)),
    Work("tcp write 4 KiB, one by one", "tcp", "write", 4 * KIB, 1, unit="us"),
    Work("tcp read 4 KiB, one by one", "tcp", "read", 4 * KIB, 1, unit="us"),
    Work("shm write 1 MiB x 16", "shm", "write", MIB, 16),
    Work("shm read 1 MiB x 16", "shm", "read", MIB, 16),
    Work("shm write 64 KiB x 16", "shm", "write", 64 * KIB, 16),
    Work("store put 1 MiB", "store-tcp", "write", MIB, 1),
    Work("store get 1 MiB", "store-tcp", "read", MIB, 1),
)
