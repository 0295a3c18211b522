# SPDX-License-Identifier: Apache-2.0
"""The side that sends KV blocks by addresses, as connectors of engines do."""
from __future__ import annotations

import random

from mooncake.engine import TransferEngine
from peer import ADDRESS, LENGTH, Peer
from pool import Memory


class Sender:
    """One engine for all of its life: it registers once and is never closed."""

    def __init__(self, n_layers: int = 8) -> None:
        self.engine = TransferEngine()
        assert self.engine.initialize("127.0.0.1", "P2PHANDSHAKE", "rdma",
                                      "") == 0
        assert self.engine.get_rpc_port() > 0
        self.memory = Memory(LENGTH)
        layer = LENGTH // n_layers
        assert self.engine.batch_register_memory(
            [self.memory.addr + i * layer for i in range(n_layers)],
            [layer] * n_layers) == 0

    def fill(self, seed: int) -> None:
        self.memory.fill(random.Random(seed).randbytes(LENGTH))

    def batch(self, part: int, n: int,
              size: int) -> tuple[list[int], list[int], list[int]]:
        """Of that part of the memory, in an order that nothing can merge."""
        at = [part * n * size + i * size for i in range(n)]
        random.Random(part).shuffle(at)
        return ([self.memory.addr + offset for offset in at],
                [ADDRESS + offset for offset in at], [size] * n)

    def write(self, session: str, part: int, n: int, size: int) -> int:
        return self.engine.batch_transfer_sync_write(
            session, *self.batch(part, n, size))

    def has_reached(self, peer: Peer, length: int) -> bool:
        return peer.digest(0, length) == Peer.digest_of(
            self.memory.read(0, length))
