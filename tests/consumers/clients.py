# SPDX-License-Identifier: Apache-2.0
"""How each consumer of the store puts and gets a block, for what all of them meet."""
from __future__ import annotations

import asyncio
import struct
from collections.abc import Sequence

from mooncake.engine import TransferEngine
from mooncake.store import (MooncakeDistributedStore, ObjectDataType,
                            ReplicateConfig)
from pool import MB, Master, Memory

PIECES, PIECE = 32, 4096
BLOCK = PIECES * PIECE
N_BLOCKS = 64
IS_THERE = -705

Blocks = Sequence[int]


class Client:
    """Blocks are saved from one half of the memory and loaded into the other."""

    def __init__(self, master: Master, segment: int = 16 * MB) -> None:
        self.store = MooncakeDistributedStore()
        assert not self.set_up(master.address, segment)
        self.saved, self.loaded = (Memory(N_BLOCKS * BLOCK) for _ in range(2))
        for memory in (self.saved, self.loaded):
            assert self.store.register_buffer(memory.addr, memory.size) == 0
        for block in range(N_BLOCKS):
            self.saved.fill(struct.pack("<Q", block + 1) * (BLOCK // 8),
                            block * BLOCK)

    def set_up(self, address: str, segment: int) -> int:
        return self.store.setup("127.0.0.1", "P2PHANDSHAKE", segment, 16 * MB,
                                "tcp", "", address)

    def keys(self, blocks: Blocks) -> list[str]:
        return [f"{type(self).__name__}@{block:064x}" for block in blocks]

    def save(self, blocks: Blocks) -> list[int]:
        """Codes, one a block."""
        raise NotImplementedError

    def load(self, blocks: Blocks) -> list[int]:
        """Bytes, or a code, one a block."""
        return self.store.batch_get_into(
            self.keys(blocks), self.addrs(self.loaded, blocks),
            [BLOCK] * len(blocks))

    def forget(self) -> None:
        """What was loaded before."""
        self.loaded.clear()

    def holds(self, block: int) -> bool:
        at = block * BLOCK
        return self.loaded.read(at, BLOCK) == self.saved.read(at, BLOCK)

    @staticmethod
    def addrs(memory: Memory, blocks: Blocks) -> list[int]:
        return [memory.addr + block * BLOCK for block in blocks]

    @staticmethod
    def pieces(memory: Memory,
               blocks: Blocks) -> tuple[list[list[int]], list[list[int]]]:
        return ([[addr + i * PIECE for i in range(PIECES)]
                 for addr in Client.addrs(memory, blocks)],
                [[PIECE] * PIECES for _ in blocks])


class Vllm(Client):
    """Pieces, and a segment that is preferred."""

    def keys(self, blocks: Blocks) -> list[str]:
        return [f"cache@some/{type(self).__name__}-7B@tp_rank:0@pcp0@dcp0"
                f"@pp_rank:0@group:0@{block:064x}" for block in blocks]

    def set_up(self, address: str, segment: int) -> int:
        return self.store.setup("127.0.0.1", "P2PHANDSHAKE", segment, 4096 * MB,
                                "rdma", "", address)

    def save(self, blocks: Blocks) -> list[int]:
        config = ReplicateConfig()
        config.preferred_segment = self.store.get_hostname()
        return self.store.batch_put_from_multi_buffers(
            self.keys(blocks), *self.pieces(self.saved, blocks), config)

    def load(self, blocks: Blocks) -> list[int]:
        return self.store.batch_get_into_multi_buffers(
            self.keys(blocks), *self.pieces(self.loaded, blocks))


class EncoderCache(Vllm):
    """Registers what it puts, for that one put."""

    def save(self, blocks: Blocks) -> list[int]:
        config = ReplicateConfig()
        config.data_type = ObjectDataType.TENSOR
        codes = []
        for block in blocks:
            tensor = Memory(BLOCK)
            tensor.fill(self.saved.read(block * BLOCK, BLOCK))
            code = self.store.register_buffer(tensor.addr, BLOCK)
            if code:
                codes.append(code)
                continue
            codes += self.store.batch_put_from_multi_buffers(
                self.keys(range(block, block + 1)),
                [[tensor.addr, tensor.addr + 24]], [[24, BLOCK - 24]], config)
            assert self.store.unregister_buffer(tensor.addr) == 0
        return codes


class Ascend(Vllm):
    """An engine that is shared; what is put is written in a session."""

    def set_up(self, address: str, segment: int) -> int:
        engine = TransferEngine()
        assert engine.initialize("127.0.0.1", "P2PHANDSHAKE", "tcp", "") == 0
        return self.store.setup(
            f"127.0.0.1:{engine.get_rpc_port()}", "P2PHANDSHAKE", segment, 0,
            "tcp", "", address, engine.get_engine())

    def save(self, blocks: Blocks) -> list[int]:
        keys = self.keys(blocks)
        addrs, sizes = self.pieces(self.saved, blocks)
        codes = self.store.batch_put_session_start(keys, [BLOCK] * len(keys))
        begun = [i for i, code in enumerate(codes) if code == 0]
        codes = [0 if code == IS_THERE else code for code in codes]
        mine = [keys[i] for i in begun]
        offsets = [[i * PIECE for i in range(PIECES)] for _ in begun]
        self.store.batch_put_from_multi_buffer_ranges(
            mine, [addrs[i] for i in begun], [sizes[i] for i in begun], offsets)
        for i, code in zip(begun, self.store.batch_put_session_end(mine)):
            codes[i] = code
        return codes


class Sglang(Client):
    """Eight arguments, groups."""

    def set_up(self, address: str, segment: int) -> int:
        return self.store.setup("127.0.0.1", "P2PHANDSHAKE", segment, 16 * MB,
                                "rdma", "", address, None,
                                tenant_id="default")

    def save(self, blocks: Blocks) -> list[int]:
        config = ReplicateConfig()
        config.group_ids = [f"group{block // 2}" for block in blocks]
        return self.store.batch_put_from(
            self.keys(blocks), self.addrs(self.saved, blocks),
            [BLOCK] * len(blocks), config)


class Lmcache(Client):
    """Texts for a setup, asyncio around all calls, no local buffer."""

    def set_up(self, address: str, segment: int) -> int:
        return self.store.setup({
            "local_hostname": "127.0.0.1", "metadata_server": "P2PHANDSHAKE",
            "global_segment_size": str(segment), "local_buffer_size": "0",
            "protocol": "tcp", "device_name": "",
            "master_server_address": address, "transfer_timeout": "1"})

    async def _save(self, blocks: Blocks) -> list[int]:
        return await asyncio.gather(*[
            asyncio.to_thread(self.store.put_from, key, addr, BLOCK,
                              ReplicateConfig())
            for key, addr in zip(self.keys(blocks),
                                 self.addrs(self.saved, blocks))])

    def save(self, blocks: Blocks) -> list[int]:
        return asyncio.run(self._save(blocks))

    def load(self, blocks: Blocks) -> list[int]:
        async def run() -> list[int]:
            return await asyncio.to_thread(super(Lmcache, self).load, blocks)
        return asyncio.run(run())


CLIENTS = [Vllm, EncoderCache, Ascend, Sglang, Lmcache]
