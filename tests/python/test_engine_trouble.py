# SPDX-License-Identifier: Apache-2.0
"""mooncake.engine when something is wrong: no crash, no hang, no lie."""
from __future__ import annotations

import ctypes
import os
import subprocess
import sys
import textwrap
import threading
from pathlib import Path

import pytest

import vram
from conftest import Memory, make_engine
from gate import Gate
from mooncake.engine import TransferEngine, TransferNotify, TransferOpcode
from peer import ADDRESS, DEADLINE_S, LENGTH, Peer, free_port, until
from sanitizers import needs_fork

# Of each method: arguments that are right by their types.
CALLS = {
    "allocate_managed_buffer": [1],
    "free_managed_buffer": [1, 1],
    "transfer_sync_write": ["h:1", 1, 1, 1],
    "transfer_sync_read": ["h:1", 1, 1, 1],
    "transfer_sync": ["h:1", 1, 1, 1, TransferOpcode.Read],
    "batch_transfer_sync_write": ["h:1", [1], [1], [1]],
    "batch_transfer_sync_read": ["h:1", [1], [1], [1]],
    "batch_transfer_sync": ["h:1", [1], [1], [1], TransferOpcode.Read],
    "batch_transfer_async_write": ["h:1", [1], [1], [1]],
    "batch_transfer_async_read": ["h:1", [1], [1], [1]],
    "batch_transfer_async": ["h:1", [1], [1], [1], TransferOpcode.Read],
    "get_batch_transfer_status": [[1]],
    "transfer_submit_write": ["h:1", 1, 1, 1],
    "transfer_check_status": [1],
    "register_memory": [1, 1],
    "unregister_memory": [1],
    "batch_register_memory": [[1], [1]],
    "batch_unregister_memory": [[1]],
    "get_first_buffer_address": ["h:1"],
    "warmup_efa_segment": ["h:1"],
    "send_probe": ["h:1"],
    "transfer_write_on_cuda": ["h:1", 1, 1, 1, 0],
    "transfer_read_on_cuda": ["h:1", 1, 1, 1, 0],
    "batch_transfer_write_on_cuda": ["h:1", [1], [1], [1], 0],
    "batch_transfer_read_on_cuda": ["h:1", [1], [1], [1], 0],
}
# What stands for a failure where -1 does not.
FAILED = {name: 0 for name in CALLS if "async" in name or "submit" in name}
FAILED |= {"allocate_managed_buffer": 0, "get_first_buffer_address": 0}


def run(script: str, **environment: str) -> subprocess.CompletedProcess:
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)], text=True,
        capture_output=True, timeout=DEADLINE_S, check=False,
        cwd=os.path.dirname(__file__), env={**os.environ, **environment})


@pytest.mark.parametrize("name", CALLS)
def test_before_initialize_every_call_fails(name):
    call = getattr(TransferEngine(), name)
    if name.endswith("_on_cuda"):
        with pytest.raises(RuntimeError, match="not initialized"):
            call(*CALLS[name])
    else:
        assert call(*CALLS[name]) == FAILED.get(name, -1)


def test_before_initialize_there_is_nothing():
    engine = TransferEngine()
    assert engine.get_rpc_port() == -1
    assert engine.get_engine() is None and engine.get_engine_ptr() == 0
    assert engine.get_notifies() == []


@pytest.mark.parametrize("name", CALLS)
def test_wrong_types_name_the_argument(engine, name):
    for place in range(len(CALLS[name])):
        for wrong in (None, 1.5, object(), {}):
            arguments = list(CALLS[name])
            arguments[place] = wrong
            with pytest.raises(TypeError, match=r"^[a-z_]+ must be ") as e:
                getattr(engine, name)(*arguments)
            assert str(e.value).split()[0] in (
                getattr(TransferEngine, name).__text_signature__)


@pytest.mark.parametrize("name", CALLS)
def test_missing_arguments_are_named(engine, name):
    with pytest.raises(TypeError, match="required argument"):
        getattr(engine, name)()


def test_unknown_keywords_are_named(engine):
    with pytest.raises(TypeError, match="nonsense"):
        engine.transfer_sync_write("h:1", 1, 1, 1, nonsense=1)


@pytest.mark.parametrize("number", [-1, 0, 1, 2**63, 2**64 - 1, 2**64, 2**200])
def test_numbers_that_cannot_be_are_refused(engine, peer, memory, number):
    here, there = memory.address, ADDRESS
    assert engine.transfer_check_status(number) == -1  # none has begun
    for arguments in ([number, there, 8], [here, number, 8],
                      [here, there, number]):
        if arguments == [here, there, 1]:
            continue  # one byte can be
        assert engine.transfer_sync_write(peer.name, *arguments) == -1
        assert engine.transfer_sync_read(peer.name, *arguments) == -1
        assert engine.transfer_submit_write(
            peer.name, *arguments) == 0 or arguments[1] == number
    assert engine.register_memory(number, 4096) == -1
    assert engine.unregister_memory(number) in (-1, -3)
    assert engine.write_bytes_to_buffer(number, b"x", 1) == -1
    with pytest.raises(ValueError):
        engine.read_bytes_from_buffer(number, 1)


def test_memory_that_is_gone_is_refused(engine, peer):
    libc = ctypes.CDLL(None)
    libc.mmap.restype = ctypes.c_void_p
    address = libc.mmap(None, ctypes.c_size_t(8192), 3, 0x22, -1,
                        ctypes.c_long(0))
    libc.munmap(ctypes.c_void_p(address), ctypes.c_size_t(8192))
    assert engine.register_memory(address, 8192) == -1
    assert engine.transfer_sync_write(peer.name, address, ADDRESS, 10) == -1
    # Memory that can only be read may be sent, but not received into.
    address = libc.mmap(None, ctypes.c_size_t(8192), 1, 0x22, -1,
                        ctypes.c_long(0))
    assert engine.transfer_sync_write(peer.name, address, ADDRESS, 10) == 0
    assert engine.transfer_sync_read(peer.name, address, ADDRESS, 10) == -1


def test_memory_runs_not_past_what_is_registered(engine, peer, memory):
    here = memory.address
    assert engine.register_memory(here, 32) == 0
    memory.set(b"\7" * 64)
    for at, length in ((here, 33), (here + 31, 2)):
        for move in (engine.transfer_sync_read, engine.transfer_sync_write):
            assert move(peer.name, at, ADDRESS, length) == -1
        assert engine.batch_transfer_sync_read(
            peer.name, [at], [ADDRESS], [length]) == -1
        assert engine.transfer_submit_write(
            peer.name, at, ADDRESS, length) == 0
        assert engine.write_bytes_to_buffer(at, bytes(length), length) == -1
        with pytest.raises(ValueError):
            engine.read_bytes_from_buffer(at, length)
    assert memory.get(0, 64) == b"\7" * 64
    assert engine.transfer_sync_read(peer.name, here, ADDRESS, 32) == 0
    # What follows without a gap is registered, too; so is nothing before.
    assert engine.register_memory(here + 32, 8) == 0
    assert engine.transfer_sync_read(peer.name, here + 31, ADDRESS, 9) == 0
    assert engine.transfer_sync_read(peer.name, here + 31, ADDRESS, 10) == -1
    assert engine.unregister_memory(here) == 0
    assert engine.transfer_sync_read(peer.name, here + 31, ADDRESS, 2) == (
        -1 if vram.GPU else 0)


def test_what_the_peer_has_not_published_is_out_of_reach(
        engine, peer, lent):
    for address in (ADDRESS - 1, ADDRESS + LENGTH - 7, ADDRESS + LENGTH):
        assert engine.transfer_sync_write(
            peer.name, lent.address, address, 8) == -1
    assert engine.batch_transfer_sync_read(
        peer.name, [lent.address] * 3, [ADDRESS, 8, ADDRESS], [8] * 3) == -1
    assert engine.transfer_sync_read(
        peer.name, lent.address, ADDRESS, 8) == 0


def test_lists_of_different_lengths_are_refused(engine, peer, memory):
    assert engine.batch_transfer_sync_write(
        peer.name, [memory.address] * 2, [ADDRESS], [1]) == -1
    assert engine.batch_transfer_async_write(
        peer.name, [memory.address], [ADDRESS], [1, 1]) == 0
    assert engine.batch_register_memory([memory.address], []) == -1


@pytest.mark.parametrize("name", ["", "no port", "127.0.0.1:0", "[::1", "a\0b",
                                  "127.0.0.1:99999", "x" * 5000])
def test_names_that_are_none_are_refused(engine, memory, name):
    assert engine.transfer_sync_write(name, memory.address, 1, 1) == -1
    assert engine.send_probe(name) == -1


def test_bytes_that_are_no_text_are_refused(engine, memory):
    assert engine.transfer_sync_write(b"\xff", memory.address, 1, 1) == -1
    assert engine.get_local_topology(b"\xff") == engine.get_local_topology()


def test_notifications_that_cannot_be(engine, peer, lent):
    here = [peer.name, lent.address, ADDRESS, 1, TransferOpcode.Write]
    with pytest.raises(TypeError, match="notify"):
        engine.transfer_sync(*here, "text")
    assert engine.transfer_sync(*here, TransferNotify("", "x" * 70_000)) == -1
    assert engine.transfer_sync(*here, TransferNotify("a\0b", "\0")) == 0
    assert peer.ask(do="notifies") == [["a\0b", "\0"]]
    assert engine.transfer_sync(*here[:4], 7) == -1


def test_initialize_says_no(capfd):
    def start(*arguments):
        return TransferEngine().initialize(*arguments)

    assert start("127.0.0.1", "P2PHANDSHAKE", "rdma", "no_such_nic") == -1
    assert start("127.0.0.1", "P2PHANDSHAKE", "tcp", "no_such_nic") == -1
    assert start("127.0.0.1", "P2PHANDSHAKE", "carrier-pigeon", "") == -1
    assert start("127.0.0.1", "ftp://nowhere", "tcp", "") == -1
    assert start("a\0b", "P2PHANDSHAKE", "tcp", "") == -1
    assert "no_such_nic" in capfd.readouterr().err
    with pytest.raises(TypeError, match="protocol"):
        start("127.0.0.1", "P2PHANDSHAKE", 5, "")
    engine = make_engine()
    assert engine.initialize("127.0.0.1", "P2PHANDSHAKE", "tcp", "") == -1
    assert engine.get_rpc_port() > 0


@pytest.mark.parametrize("protocol", ["nvlink_intra", "nvlink"])
def test_nvlink_is_by_memory_of_the_host_and_tcp_without_a_line(protocol):
    script = f"""
        from mooncake.engine import TransferEngine
        assert TransferEngine().initialize(
            "127.0.0.1", "P2PHANDSHAKE", "{protocol}", "") == 0
        """
    done = run(script)
    assert (done.returncode, done.stderr) == (0, "")
    done = run(script, MC_FORCE_MNNVL="1")
    assert (done.returncode == 0) == (protocol == "nvlink_intra")
    assert "fabric handles" in done.stderr


def test_rdma_without_a_device_goes_by_tcp_with_one_line():
    done = run("""
        from mooncake.engine import TransferEngine
        assert TransferEngine().initialize(
            "127.0.0.1", "P2PHANDSHAKE", "rdma", "") == 0
        """)
    assert done.returncode == 0, done.stderr
    assert len(done.stderr.splitlines()) == 1 and "rdma" in done.stderr


def test_a_device_without_rdma_goes_by_tcp_with_one_line():
    up = [path.parent.name for path in Path("/sys/class/net").glob("*/operstate")
          if path.read_text().strip() == "up"]
    if not up:
        pytest.skip("no interface is up")
    done = run(f"""
        from mooncake.engine import TransferEngine
        assert TransferEngine().initialize(
            "127.0.0.1", "P2PHANDSHAKE", "rdma", "{up[0]}") == 0
        """)
    assert done.returncode == 0, done.stderr
    (line,) = done.stderr.splitlines()
    assert f'none of "{up[0]}" has RDMA' in line


@pytest.mark.parametrize("spelling", ["RPC", "PRC"])  # Mooncake reads both
def test_port_is_of_the_usual_range_or_what_is_said(spelling):
    assert 15000 <= make_engine().get_rpc_port() <= 17000
    port = free_port()
    done = run(f"""
        from conftest import make_engine
        first = make_engine()
        second = make_engine()
        assert first.get_rpc_port() == {port}
        assert second.get_rpc_port() not in (0, {port})
        """, **{f"MC_{end}_{spelling}_PORT": str(port) for end in ("MIN", "MAX")})
    assert done.returncode == 0, done.stderr


def test_other_spellings_of_initialize():
    engine = TransferEngine()
    assert engine.initialize_ext("127.0.0.1", "", "tcp", "", "p2p") == 0
    assert engine.get_rpc_port() > 0
    assert TransferEngine().initialize_ext(
        "127.0.0.1", "nowhere", "tcp", "", "ftp") == -1


def test_peer_that_starts_later_is_waited_for(engine, lent):
    # In this process: the engine can only start if the GIL was given away.
    codes, later = [], Memory(100)
    begun = threading.Event()
    lent.set(b"late")
    with Gate() as gate:  # nobody listens
        def write():
            begun.set()
            codes.append(engine.transfer_sync_write(
                gate.name, lent.address, later.address, 4))

        thread = threading.Thread(target=write)
        thread.start()
        assert begun.wait(DEADLINE_S)
        peer = make_engine()
        assert peer.register_memory(later.address, 100) == 0
        gate.open(f"127.0.0.1:{peer.get_rpc_port()}")
        thread.join(DEADLINE_S)
    assert codes == [0] and later.get(0, 4) == b"late"


def test_submitting_does_not_wait_for_the_peer(engine, memory):
    # Nobody will ever be there: who waited for that would not get on.
    os.environ["MC_TRANSFER_TIMEOUT"] = "86400"
    try:
        patient = make_engine()
    finally:
        del os.environ["MC_TRANSFER_TIMEOUT"]
    assert patient.register_memory(memory.address, memory.length) == 0
    here = [f"127.0.0.1:{free_port()}", memory.address, ADDRESS, 8]
    number = patient.transfer_submit_write(*here)
    lists = [here[0], *([value] for value in here[1:])]
    other = patient.batch_transfer_async_read(*lists)
    assert number > 0 and other > number
    for _ in range(100):
        assert patient.transfer_check_status(number) == 0
        assert patient.transfer_check_status(other) == 0
    # What goes elsewhere does not wait behind it.
    own = f"127.0.0.1:{engine.get_rpc_port()}"
    target = Memory(8)
    assert engine.register_memory(target.address, 8) == 0
    memory.set(b"not last")
    third = patient.transfer_submit_write(
        own, memory.address, target.address, 8)
    assert patient.get_batch_transfer_status([third]) == 0
    assert target.get(0, 8) == b"not last"
    assert engine.unregister_memory(target.address) == 0


def test_submission_to_who_starts_later_is_done_then(engine, lent):
    lent.set(b"early")
    with Gate() as gate:
        number = engine.transfer_submit_write(
            gate.name, lent.address, ADDRESS, 5)
        assert engine.transfer_check_status(number) == 0
        with Peer() as peer:
            gate.open(peer.name)
            assert engine.get_batch_transfer_status([number]) == 0
            assert peer.bytes_at(0, 5) == b"early"


def test_first_buffer_of_a_peer_just_submitted_to_is_waited_for(
        engine, lent):
    lent.set(b"first")
    with Peer() as peer:
        number = engine.transfer_submit_write(
            peer.name, lent.address, ADDRESS, 5)
        assert engine.get_first_buffer_address(peer.name) == ADDRESS
        assert engine.get_batch_transfer_status([number]) == 0


def test_submission_to_a_host_that_cannot_be_fails_before_its_time(
        engine, memory):
    number = engine.transfer_submit_write(
        "no.such.host.invalid:1", memory.address, ADDRESS, 8)
    codes = []

    def over():
        codes.append(engine.transfer_check_status(number))
        return codes[-1]

    assert until(over) and codes[-1] == -1
    assert engine.get_batch_transfer_status([engine.transfer_submit_write(
        "no.such.host.invalid:1", memory.address, ADDRESS, 8)]) == -1


@pytest.mark.parametrize("asynchronous", [False, True])
def test_peer_that_restarts_on_its_port_is_found_again(
        engine, lent, asynchronous):
    port = free_port()
    for life in (b"life 1", b"life 2", b"life 3"):
        with Peer(port) as peer:
            lent.set(life)
            if asynchronous:
                number = engine.transfer_submit_write(
                    peer.name, lent.address, ADDRESS, 6)
                assert engine.get_batch_transfer_status([number]) == 0
            else:
                assert engine.transfer_sync_write(
                    peer.name, lent.address, ADDRESS, 6) == 0
            assert peer.bytes_at(0, 6) == life
            assert engine.get_first_buffer_address(peer.name) == ADDRESS


def test_silent_peer_ends_a_transfer_at_its_deadline():
    done = run("""
        import os, signal
        from conftest import Memory, make_engine
        from peer import ADDRESS, Peer, until
        with Peer() as peer:
            engine, memory = make_engine(), Memory(1 << 20)
            assert engine.register_memory(memory.address, memory.length) == 0
            here = [peer.name, memory.address, ADDRESS]
            assert engine.transfer_sync_write(*here, 8) == 0
            peer.stop()
            number = engine.transfer_submit_write(*here, 1 << 20)
            assert engine.transfer_check_status(number) == 0
            codes = []
            def over():
                codes.append(engine.transfer_check_status(number))
                return codes[-1] != 0
            assert until(over) and codes[-1] == -2, codes[-1]
            os.kill(peer.process.pid, signal.SIGCONT)
            assert engine.transfer_sync_write(*here, 8) == 0
        """, MC_TRANSFER_TIMEOUT="5", MC_FORCE_TCP="1")
    assert done.returncode == 0, done.stderr


def test_sixty_four_threads(engine, peer):
    failed = []

    def work(number: int) -> None:
        memory = Memory(64 * 1024)
        name, here = peer.name, memory.address
        there = ADDRESS + number * memory.length
        for turn in range(5):
            memory.set(bytes([number + 1]) * memory.length)
            codes = [
                engine.register_memory(here, memory.length),
                engine.batch_transfer_sync_write(
                    name, [here + i * 256 for i in range(256)],
                    [there + i * 256 for i in range(256)], [256] * 256),
                engine.transfer_sync_read(name, here, there, memory.length),
                engine.get_batch_transfer_status([engine.transfer_submit_write(
                    name, here, there, 100)]),
                engine.unregister_memory(here),
            ]
            buffer = engine.allocate_managed_buffer(10_000)
            codes.append(engine.free_managed_buffer(buffer, 10_000))
            if any(codes) or memory.get(0, memory.length) != (
                    bytes([number + 1]) * memory.length):
                failed.append((number, turn, codes))

    threads = [threading.Thread(target=work, args=(n,)) for n in range(64)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(DEADLINE_S)
        assert not thread.is_alive()
    assert failed == []


def test_threads_that_ask_about_one_transfer(engine, peer, lent):
    number = engine.transfer_submit_write(
        peer.name, lent.address, ADDRESS, lent.length)
    codes = []

    def ask():
        code = 0
        while code == 0:
            code = engine.transfer_check_status(number)
        codes.append(code)

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(DEADLINE_S)
    assert sorted(codes) == [-1] * 7 + [1]


@needs_fork
def test_fork_child_is_refused_and_the_parent_goes_on(engine, peer, memory):
    assert engine.register_memory(memory.address, memory.length) == 0
    here = [peer.name, memory.address, ADDRESS, 8]
    assert engine.transfer_sync_write(*here) == 0
    number = engine.transfer_submit_write(*here)
    child = os.fork()
    if not child:
        code = 1
        try:
            codes = [engine.transfer_sync_write(*here),
                     engine.send_probe(peer.name),
                     engine.register_memory(ADDRESS, 1)]
            engine.transfer_check_status(number)
            engine.unregister_memory(memory.address)
            assert engine.get_notifies() == []
            own = make_engine()  # the child may have one of its own
            if not vram.GPU:  # whose driver is not there after a fork
                assert own.transfer_sync_write(*here) == 0
            del engine, own
            code = 0 if all(codes) else 2
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert engine.get_batch_transfer_status([number]) == 0
    assert engine.transfer_sync_write(*here) == 0
    assert engine.unregister_memory(memory.address) == 0


def test_exit_without_an_end():
    done = run("""
        import threading
        from conftest import Memory, make_engine
        from peer import free_port
        engine, memory = make_engine(), Memory(1 << 20)
        assert engine.register_memory(memory.address, memory.length) == 0
        assert engine.allocate_managed_buffer(1000)
        begun = threading.Barrier(9)
        def wait_for_nobody():
            begun.wait()
            engine.transfer_sync_write(
                f"127.0.0.1:{free_port()}", memory.address, 1, 1)
        for _ in range(8):
            threading.Thread(target=wait_for_nobody, daemon=True).start()
        begun.wait()
        name = f"127.0.0.1:{engine.get_rpc_port()}"
        engine.batch_transfer_async_write(
            name, [memory.address], [memory.address], [1 << 20])
        print("end")
        """)
    assert (done.returncode, done.stdout) == (0, "end\n"), done.stderr


def test_killed_peer_is_an_error_at_the_deadline_and_no_more():
    done = run("""
        from conftest import Memory, make_engine
        from peer import ADDRESS, Peer
        engine, memory = make_engine(), Memory(100)
        assert engine.register_memory(memory.address, memory.length) == 0
        with Peer() as peer:
            here = [peer.name, memory.address, ADDRESS, 8]
            assert engine.transfer_sync_write(*here) == 0
        assert engine.transfer_sync_write(*here) == -1
        with Peer() as peer:
            assert engine.transfer_sync_write(peer.name, *here[1:]) == 0
        """, MC_TRANSFER_TIMEOUT="5")
    assert done.returncode == 0, done.stderr
