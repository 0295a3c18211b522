# SPDX-License-Identifier: Apache-2.0
"""An engine with a working set: target, or initiator of what it is told.

engine.py LENGTH managed|own
"""
from __future__ import annotations

import ctypes
import sys

import talk
from mooncake.engine import TransferEngine


class End:
    def __init__(self, length: int, kind: str) -> None:
        self.length = length
        self.engine = TransferEngine()
        if self.engine.initialize("127.0.0.1", "P2PHANDSHAKE", "tcp", ""):
            raise RuntimeError("initialize() failed")
        if kind == "managed":
            self.base = self.engine.allocate_managed_buffer(length)
            ctypes.memset(self.base, 1, length)
        else:
            self.memory = talk.Memory(length)
            self.base = self.memory.address
            if self.engine.register_memory(self.base, length):
                raise RuntimeError("register_memory() failed")
        self.peer, self.theirs = "", 0

    def do_where(self) -> talk.Order:
        return {"name": f"127.0.0.1:{self.engine.get_rpc_port()}",
                "base": self.base}

    def do_cpu(self) -> talk.Order:
        return {"cpu_s": talk.cpu_s()}

    def do_meet(self, name: str, base: int) -> talk.Order:
        """Connect, and see that bytes come where they belong."""
        self.peer, self.theirs = name, base
        text = b"there and back again"
        ctypes.memmove(self.base, text, len(text))
        for op, at in (("write", 0), ("read", 4096)):
            one = getattr(self.engine, "transfer_sync_" + op)
            if one(name, self.base + at, base, len(text)):
                raise RuntimeError(f"transfer_sync_{op}() failed")
        if ctypes.string_at(self.base + 4096, len(text)) != text:
            raise RuntimeError("other bytes came back")
        return {}

    def entries(self, size: int, batch: int) -> list[tuple[list[int], ...]]:
        """Batches of one after the other, over all memory of both sides."""
        starts = range(0, self.length - size * batch + 1, size * batch)
        offsets = [[start + i * size for i in range(batch)]
                   for start in starts]
        return [([self.base + o for o in many], [self.theirs + o for o in many],
                 [size] * batch) for many in offsets]

    def do_move(self, op: str, size: int, batch: int, threads: int,
                most: int, seconds: float) -> talk.Order:
        """Batches, in calls of @most entries if they have more."""
        entries = self.entries(size, batch)
        one = getattr(self.engine, "transfer_sync_" + op)
        many = getattr(self.engine, "batch_transfer_sync_" + op)

        def move_one(i: int) -> int:
            mine, theirs, _ = entries[i % len(entries)]
            if one(self.peer, mine[0], theirs[0], size):
                raise RuntimeError(f"transfer_sync_{op}() failed")
            return size

        def move_many(i: int) -> int:
            lists = entries[i % len(entries)]
            for at in range(0, batch, most):
                if many(self.peer, *(lst[at:at + most] for lst in lists)):
                    raise RuntimeError(f"batch_transfer_sync_{op}() failed")
            return size * batch

        move = move_one if batch == 1 else move_many
        move(0)
        before = talk.cpu_s()
        moved, elapsed = talk.repeat(move, seconds, threads)
        return {"gb_per_s": moved / elapsed / 1e9, "bytes": moved,
                "cpu_s": talk.cpu_s() - before}

    def do_latency(self, size: int, seconds: float) -> talk.Order:
        write = self.engine.transfer_sync_write

        def once() -> None:
            if write(self.peer, self.base, self.theirs, size):
                raise RuntimeError("transfer_sync_write() failed")

        return talk.times_us(once, seconds)


talk.obey(End(int(sys.argv[1]), sys.argv[2]))
