# SPDX-License-Identifier: Apache-2.0
"""As SGLang's disaggregation: four queues of twelve threads to one session.

One code other than zero bans the peer, so what passes by itself must not be seen:
nobody listening yet, nobody accepting, a peer that stands still for a while.
"""
from __future__ import annotations

import queue
import signal
import threading
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait

import pytest
from blocks import Sender
from gate import Gate
from peer import ADDRESS, DEADLINE_S, Peer, free_port, until
from pool import Memory, only_host

QUEUES, THREADS = 4, 12
N, ENTRIES, SIZE = QUEUES * THREADS, 64, 4096
LENGTH = N * ENTRIES * SIZE


class Prefill(Sender):
    """A thread takes what each queue has and gives it to the queue's pool."""

    def __init__(self) -> None:
        super().__init__()
        self.queues = [queue.Queue() for _ in range(QUEUES)]
        self.pools = [ThreadPoolExecutor(THREADS) for _ in range(QUEUES)]
        for jobs, pool in zip(self.queues, self.pools):
            threading.Thread(target=self._take, args=(jobs, pool)).start()

    def _take(self, jobs: queue.Queue, pool: ThreadPoolExecutor) -> None:
        while (job := jobs.get()) is not None:
            session, part, answer = job
            pool.submit(self.write, session, part, ENTRIES, SIZE
                        ).add_done_callback(
                            lambda f, a=answer: a.set_result(f.result()))

    def begin(self, session: str) -> list[Future]:
        answers = [Future() for _ in range(N)]
        for part, answer in enumerate(answers):
            self.queues[part % QUEUES].put((session, part, answer))
        return answers

    def send_all(self, session: str) -> list[int]:
        return codes(self.begin(session))

    def close(self) -> None:
        for jobs, pool in zip(self.queues, self.pools):
            jobs.put(None)
            pool.shutdown()


def codes(answers: list[Future]) -> list[int]:
    return [answer.result(DEADLINE_S) for answer in answers]


@pytest.fixture
def prefill(monkeypatch) -> Iterator[Prefill]:
    """With the protocol that says rdma and the setting that says tcp."""
    monkeypatch.setenv("MC_FORCE_TCP", "1")
    one = Prefill()
    one.fill(1)
    yield one
    one.close()


def test_forty_eight_threads_write_to_one_session(prefill):
    with Peer(MC_FORCE_TCP="1") as decode:
        for turn in range(4):
            prefill.fill(turn)
            assert prefill.send_all(decode.name) == [0] * N
            assert prefill.has_reached(decode, LENGTH)


def test_decode_that_starts_later_is_waited_for(prefill):
    with Gate() as gate, Peer() as decode:
        answers = prefill.begin(gate.name)  # nobody listens
        gate.turn_away(5)
        assert not wait(answers, 0).done
        gate.open(decode.name)
        assert codes(answers) == [0] * N
        assert prefill.has_reached(decode, LENGTH)


def test_decode_that_nobody_gets_through_to_is_waited_for(prefill):
    with Gate() as gate, Peer() as decode:
        gate.overcrowd()
        answers = prefill.begin(gate.name)
        assert not wait(answers, 2).done  # its queue of connects is full
        gate.open(decode.name)
        assert codes(answers) == [0] * N
        assert prefill.has_reached(decode, LENGTH)


def test_decode_that_stands_still_is_waited_for(prefill):
    with Peer() as decode:
        assert prefill.send_all(decode.name) == [0] * N
        decode.stop()
        prefill.fill(2)
        answers = prefill.begin(decode.name)
        assert len(wait(answers, 3).not_done) > 0
        decode.process.send_signal(signal.SIGCONT)
        assert codes(answers) == [0] * N
        assert prefill.has_reached(decode, LENGTH)


def test_decode_that_restarted_on_its_port_is_found_again(prefill):
    port = free_port()
    for _ in range(3):
        with Peer(port) as decode:
            assert prefill.send_all(decode.name) == [0] * N
            assert prefill.has_reached(decode, LENGTH)


def test_probe_says_who_is_back(prefill, capfd):
    port = free_port()
    with Peer(port) as decode:
        assert prefill.engine.send_probe(decode.name) == 0
        capfd.readouterr()
        decode.kill()
        assert prefill.engine.send_probe(decode.name) == -1
        assert "Connection refused" in capfd.readouterr().err
    with Peer(port) as decode:
        assert prefill.engine.send_probe(decode.name) == 0
        decode.stop()
        assert prefill.engine.send_probe(decode.name) == -1
        assert "deadline passed" in capfd.readouterr().err
        decode.process.send_signal(signal.SIGCONT)
        assert until(lambda: prefill.engine.send_probe(decode.name) == 0)
        assert prefill.send_all(decode.name) == [0] * N


@only_host
def test_registering_twice_is_refused_and_changes_nothing(prefill):
    engine, memory = prefill.engine, Memory(4 * SIZE)
    parts = [memory.addr + i * SIZE for i in range(4)]
    assert engine.register_memory(memory.addr, 4 * SIZE) == 0
    assert engine.register_memory(memory.addr, 4 * SIZE) != 0
    assert engine.batch_register_memory(parts, [SIZE] * 4) != 0
    assert engine.unregister_memory(memory.addr) == 0
    assert engine.unregister_memory(memory.addr) != 0
    for _ in range(20):
        assert engine.batch_register_memory(parts, [SIZE] * 4) == 0
        assert engine.batch_unregister_memory(parts) == 0
    assert engine.batch_unregister_memory(parts) != 0
    assert engine.batch_register_memory([], []) == 0
    assert engine.batch_unregister_memory([]) == 0
    other = Memory(SIZE)
    other.fill(b"seen")
    with Peer() as decode:
        assert engine.transfer_sync_write(decode.name, other.addr, ADDRESS,
                                          SIZE) == 0
        assert decode.bytes_at(0, 4) == b"seen"
