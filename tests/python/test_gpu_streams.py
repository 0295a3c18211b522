# SPDX-License-Identifier: Apache-2.0
"""Transfers in the order of a GPU's stream, with a driver in memory."""
from __future__ import annotations

import ctypes
import os
import subprocess
import sys
import textwrap
import threading

import pytest
from conftest import make_engine
from gpu import LIBRARY, SIZE, Stream, Word
from mooncake import engine as module
from peer import ADDRESS, DEADLINE_S, Peer, free_port, until
from sanitizers import needs_fork

PATTERN = bytes(range(256)) * (SIZE // 256)
BLOCK = 16384
WAIT_S = "5"  # of a transfer, the least there may be
Bytes = ctypes.c_char * SIZE


class Ends:
    """An engine with the GPU's memory, and its peer with the host's."""

    def __init__(self, gpu) -> None:
        self.gpu = gpu
        self.user, self.owner = make_engine(), make_engine()
        self.memory = Bytes()
        self.there = ctypes.addressof(self.memory)
        assert self.user.register_memory(gpu.address, SIZE) == 0
        assert self.owner.register_memory(self.there, SIZE) == 0
        self.name = f"127.0.0.1:{self.owner.get_rpc_port()}"

    def write(self, stream: Stream, offset: int = 0, length: int = SIZE) -> None:
        assert self.user.transfer_write_on_cuda(
            self.name, self.gpu.address + offset, self.there + offset, length,
            stream.number) is None

    def read(self, stream: Stream, offset: int = 0, length: int = SIZE) -> None:
        assert self.user.transfer_read_on_cuda(
            self.name, self.gpu.address + offset, self.there + offset, length,
            stream_ptr=stream.number) is None


@pytest.fixture
def ends(gpu, monkeypatch):
    monkeypatch.setenv("MC_TRANSFER_TIMEOUT", WAIT_S)
    one = Ends(gpu)
    yield one
    del one.user, one.owner


@pytest.fixture
def stream(gpu, ends):
    one = Stream(gpu)
    yield one
    one.close()


@pytest.fixture
def word(gpu, stream):
    one = Word(gpu)
    yield one
    one.go_on()
    stream.synchronize()
    one.close()


@pytest.fixture
def slow(gpu):
    """Copies take three milliseconds each."""
    gpu.cuda.fake_cuda_delay(3000)
    yield
    gpu.cuda.fake_cuda_delay(0)


def raised_later(call, match: str) -> bool:
    """Whether a failure of an earlier transfer comes up, as it ends by itself."""
    try:
        call()
    except RuntimeError as error:
        assert match in str(error), error
        return True
    return False


def test_a_write_sees_what_was_before_it(ends, stream, slow):
    first, second = Bytes(*PATTERN), Bytes(*PATTERN[::-1])
    stream.copy_in(first)
    ends.write(stream)
    stream.copy_in(second)
    stream.synchronize()
    assert bytes(ends.memory) == PATTERN
    assert ends.gpu.get(SIZE) == PATTERN[::-1]


def test_what_follows_sees_a_read(ends, stream, slow):
    out, before = Bytes(), Bytes(*PATTERN[::-1])
    ends.memory[:] = PATTERN
    stream.copy_in(before)
    ends.read(stream)
    stream.copy_out(out)
    stream.synchronize()
    assert bytes(out) == PATTERN


def test_batches_on_several_streams(ends, gpu, slow):
    streams, kept = [Stream(gpu) for _ in range(3)], []
    n = SIZE // BLOCK // len(streams)
    for i, stream in enumerate(streams):
        at = [(i * n + k) * BLOCK for k in range(n)]
        for turn in range(4):
            value = (ctypes.c_char * (n * BLOCK))(*bytes([turn + 1]) * n * BLOCK)
            kept.append(value)
            stream.copy_in(value, at[0])
            assert ends.user.batch_transfer_write_on_cuda(
                ends.name, [gpu.address + k for k in at],
                [ends.there + k for k in at], [BLOCK] * n, stream.number) is None
            assert ends.user.batch_transfer_read_on_cuda(
                ends.name, [gpu.address + at[0]], [ends.there + at[0]], [BLOCK],
                stream.number, "tcp") is None
    for stream in streams:
        stream.close()
    assert bytes(ends.memory)[:3 * n * BLOCK] == bytes([4]) * 3 * n * BLOCK


def test_the_hosts_memory_goes_in_order_too(ends, stream, gpu, slow):
    here = Bytes()
    ends.memory[:] = PATTERN
    assert ends.user.transfer_read_on_cuda(
        ends.name, ctypes.addressof(here), ends.there, SIZE, stream.number) is None
    stream.copy_in(here)
    stream.synchronize()
    assert gpu.get(SIZE) == PATTERN


@pytest.mark.parametrize("number", [0, 1, 2])
def test_default_streams(ends, gpu, number, slow):
    stream, value = Stream(gpu, number), Bytes(*PATTERN)
    stream.copy_in(value)
    assert ends.user.transfer_write_on_cuda(
        ends.name, gpu.address, ends.there, SIZE, number) is None
    stream.synchronize()
    assert bytes(ends.memory) == PATTERN


def test_no_entries_are_no_work(ends, stream):
    assert ends.user.batch_transfer_write_on_cuda(
        ends.name, [], [], [], stream.number) is None


def test_the_next_call_tells_of_a_failure(ends, stream):
    """The stream goes on, and so does the engine."""
    assert ends.user.transfer_write_on_cuda(
        ends.name, ends.gpu.address, ends.there + SIZE, 8, stream.number) is None
    stream.synchronize()
    match = ("an earlier transfer_write_on_cuda of 1 entries to "
             f"{ends.name} failed: ")
    assert until(lambda: raised_later(lambda: ends.write(stream), match))
    ends.gpu.set(PATTERN)
    ends.write(stream)
    stream.synchronize()
    assert bytes(ends.memory) == PATTERN


def test_failures_are_counted(ends, stream):
    blocked = Word(ends.gpu)
    blocked.stop(stream)
    for _ in range(3):
        assert ends.user.transfer_read_on_cuda(
            ends.name, ends.gpu.address, ends.there + SIZE, 8,
            stream.number) is None
    blocked.go_on()
    stream.synchronize()
    told = []

    def all_told() -> bool:
        try:
            ends.read(stream, length=8)
        except RuntimeError as error:
            text = str(error)
            told.append(1 + int(text.split("(and ")[1].split()[0])
                        if "(and" in text else 1)
        return sum(told) == 3

    assert until(all_told)
    stream.synchronize()
    blocked.close()


def test_a_peer_that_goes_costs_the_deadline(gpu, ends, stream, word):
    with Peer() as peer:
        word.stop(stream)
        assert ends.user.transfer_write_on_cuda(
            peer.name, gpu.address, ADDRESS, 8, stream.number) is None
    word.go_on()
    stream.synchronize()
    assert until(lambda: raised_later(lambda: ends.write(stream), "failed: "))


def test_a_peer_that_is_not_there(ends, stream):
    with pytest.raises(RuntimeError, match="^Failed to open segment "):
        ends.user.transfer_write_on_cuda(
            f"127.0.0.1:{free_port()}", ends.gpu.address, ends.there, 8,
            stream.number)


def test_an_engine_may_go_while_a_stream_waits(ends, stream, word):
    word.stop(stream)
    ends.write(stream)
    ends.user = None  # nothing was moved, nothing is left in the stream's way
    word.go_on()
    stream.synchronize()
    assert bytes(ends.memory) == bytes(SIZE)


def test_what_is_wrong_is_told_at_once(ends, stream, gpu):
    user, here = ends.user, gpu.address
    with pytest.raises(RuntimeError, match="not equally many: 2, 1, 1"):
        user.batch_transfer_write_on_cuda(ends.name, [here, here], [ends.there],
                                          [8], stream.number)
    with pytest.raises(RuntimeError, match="length is 0"):
        user.transfer_write_on_cuda(ends.name, here, ends.there, 0, stream.number)
    with pytest.raises(RuntimeError, match="stream_ptr is out of range"):
        user.transfer_write_on_cuda(ends.name, here, ends.there, 8, -1)
    with pytest.raises(RuntimeError, match="length is out of range"):
        user.transfer_read_on_cuda(ends.name, here, ends.there, -8, stream.number)
    with pytest.raises(RuntimeError, match="stream: cuStreamGetCtx"):
        user.transfer_read_on_cuda(ends.name, here, ends.there, 8, 4096)
    stream.capture(True)
    with pytest.raises(RuntimeError, match="recorded into a graph"):
        ends.write(stream)
    stream.capture(False)
    gpu.cuda.fake_cuda_fail(b"cuStreamWaitValue64", 700)
    with pytest.raises(RuntimeError, match="cuStreamWaitValue64: CUDA_ERROR_ILL"):
        ends.write(stream)
    gpu.cuda.fake_cuda_fail(b"cuStreamWaitValue64", 0)
    stream.synchronize()
    assert bytes(ends.memory) == bytes(SIZE)


def test_without_an_engine():
    with pytest.raises(RuntimeError, match="not initialized"):
        module.TransferEngine().transfer_write_on_cuda("h:1", 1, 1, 1)


def test_calls_of_several_threads(ends, gpu):
    """Each with a stream and a piece of the memory of its own."""
    streams, failed = [Stream(gpu) for _ in range(4)], []
    gpu.set(PATTERN)

    def work(i: int) -> None:
        try:
            for _ in range(25):
                ends.write(streams[i], i * BLOCK, BLOCK)
                ends.read(streams[i], i * BLOCK, BLOCK)
        except (AssertionError, RuntimeError) as error:
            failed.append(error)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for stream in streams:
        stream.close()
    assert not failed
    assert bytes(ends.memory)[:4 * BLOCK] == PATTERN[:4 * BLOCK]


@needs_fork
def test_a_fork_child_is_refused(ends, stream):
    ends.write(stream, length=8)
    pid = os.fork()
    if not pid:
        code = 1
        try:
            ends.write(stream, length=8)
        except RuntimeError:
            code = 0
        finally:
            os._exit(code)
    assert os.waitpid(pid, 0)[1] == 0
    ends.write(stream, length=8)
    stream.synchronize()


# ---- SUPPORT_CUDA ----


def run(script: str, library: str) -> None:
    subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)], check=True,
        timeout=DEADLINE_S, env={**os.environ, "TE_CUDA_LIBRARY": library})


def test_support_is_asked_for_not_assumed():
    """Importing loads and starts nothing."""
    run(f"""
        import ctypes
        def inits():
            return ctypes.CDLL({LIBRARY!r}).fake_cuda_n_inits()
        import mooncake.engine
        with open("/proc/self/maps") as maps:
            assert "fake_cuda" not in maps.read()
        assert inits() == 0
        assert "SUPPORT_CUDA" in dir(mooncake.engine)
        assert "SUPPORT_CUDA" in mooncake.engine.__all__
        assert inits() == 0
        from mooncake.engine import SUPPORT_CUDA
        assert SUPPORT_CUDA is True and inits() == 1
        """, LIBRARY)


def test_without_a_driver_there_is_no_support():
    run("""
        import ctypes
        from mooncake.engine import SUPPORT_CUDA, SUPPORT_HIP, TransferEngine
        assert SUPPORT_CUDA is False and SUPPORT_HIP is False
        peer, engine, memory = TransferEngine(), TransferEngine(), (
            ctypes.c_char * 8)()
        for one in peer, engine:
            assert one.initialize("127.0.0.1", "P2PHANDSHAKE", "tcp", "") == 0
        at = ctypes.addressof(memory)
        assert peer.register_memory(at, 8) == 0
        try:
            engine.transfer_write_on_cuda(
                f"127.0.0.1:{peer.get_rpc_port()}", at, at, 8)
        except RuntimeError as error:
            assert "/nowhere/libcuda.so.1" in str(error), error
        else:
            raise AssertionError("nothing was raised")
        """, "/nowhere/libcuda.so.1")


def test_without_a_gpu_there_is_no_support(monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    run("""
        from mooncake.engine import SUPPORT_CUDA
        assert SUPPORT_CUDA is False
        """, LIBRARY)
