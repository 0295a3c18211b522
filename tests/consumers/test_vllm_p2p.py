# SPDX-License-Identifier: Apache-2.0
"""As vLLM's MooncakeConnector: prefill writes blocks into decode's memory.

asyncio drives ten threads, all of them towards one session. Only zero is a
success; an engine lives as long as its process and is never closed.
"""
from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest
import vram
from blocks import Sender
from peer import DEADLINE_S, Peer, free_port

THREADS, ENTRIES, SIZE = 10, 4096, 384
PART = ENTRIES * SIZE


class Worker(Sender):
    def __init__(self) -> None:
        # Entries here go over the ends of layers, which a GPU's may not.
        super().__init__(1 if vram.GPU else 8)
        self.pool = ThreadPoolExecutor(THREADS)

    async def _send_all(self, session: str) -> list[int]:
        loop = asyncio.get_running_loop()
        return await asyncio.gather(*[
            loop.run_in_executor(self.pool, self.write, session, part, ENTRIES,
                                 SIZE) for part in range(THREADS)])

    def send_all(self, session: str) -> list[int]:
        return asyncio.run(self._send_all(session))


@pytest.mark.parametrize("tcp", [False, True])
def test_ten_threads_write_batches_to_one_session(monkeypatch, tcp):
    if tcp:
        monkeypatch.setenv("MC_FORCE_TCP", "1")
    worker = Worker()
    with Peer() as decode:
        for turn in range(3):
            worker.fill(turn)
            assert worker.send_all(decode.name) == [0] * THREADS
            assert worker.has_reached(decode, THREADS * PART)


@pytest.mark.parametrize("tcp", [False, True])
def test_decode_that_is_killed_fails_and_works_again_on_its_port(
        monkeypatch, tcp):
    monkeypatch.setenv("MC_TRANSFER_TIMEOUT", "15")
    if tcp:
        monkeypatch.setenv("MC_FORCE_TCP", "1")
    worker, port = Worker(), free_port()
    for life in range(3):
        with Peer(port) as decode:
            worker.fill(life)
            assert worker.send_all(decode.name) == [0] * THREADS
            assert worker.has_reached(decode, THREADS * PART)
    assert all(worker.send_all(decode.name))
    with Peer(port) as decode:
        assert worker.send_all(decode.name) == [0] * THREADS
        assert worker.has_reached(decode, THREADS * PART)


def test_decode_that_is_killed_amid_batches_fails_only_itself(monkeypatch):
    monkeypatch.setenv("MC_TRANSFER_TIMEOUT", "15")
    worker, port = Worker(), free_port()
    with Peer(port) as decode, Peer() as other:
        futures = [worker.pool.submit(worker.write, decode.name, part % THREADS,
                                      ENTRIES, SIZE) for part in range(20)]
        futures[0].result(DEADLINE_S)
        decode.kill()
        assert worker.write(other.name, 0, ENTRIES, SIZE) == 0
        assert worker.has_reached(other, PART)
        codes = {future.result(DEADLINE_S) for future in futures}
        assert codes <= {0, -1} and -1 in codes
    with Peer(port) as decode:
        assert worker.send_all(decode.name) == [0] * THREADS
        assert worker.has_reached(decode, THREADS * PART)


def test_processes_end_without_closing_their_engine():
    script = """
from peer import Peer
from test_vllm_p2p import THREADS, Worker
decode, worker = Peer(), Worker()
assert worker.send_all(decode.name) == [0] * THREADS
decode.stop()
worker.engine.batch_transfer_async_write(decode.name, *worker.batch(0, 4096, 384))
decode.process.kill()
print("end")
"""
    done = subprocess.run(
        [sys.executable, "-c", script], text=True, capture_output=True,
        timeout=DEADLINE_S, check=False, cwd=os.path.dirname(__file__),
        env={**os.environ, "MC_FORCE_TCP": "1"})
    assert (done.returncode, done.stdout) == (0, "end\n"), done.stderr
