# SPDX-License-Identifier: Apache-2.0
"""mooncake.engine: what each method does when all is well."""
from __future__ import annotations

import ctypes
import json
import os
import socket

import pytest
import vram

from mooncake import engine as module
from mooncake.engine import (
    InnerTransferEngine, TransferEngine, TransferNotify, TransferOpcode)
from peer import ADDRESS, LENGTH, free_port, until


def pattern(length: int) -> bytes:
    return os.urandom(length)


def test_write_and_read_move_the_bytes(engine, peer, lent):
    content = pattern(100_000)
    lent.set(content)
    assert engine.transfer_sync_write(
        peer.name, lent.address, ADDRESS + 7, len(content)) == 0
    assert peer.bytes_at(7, len(content)) == content
    assert engine.transfer_sync_read(
        peer.name, lent.address + 200_000, ADDRESS + 7, len(content)) == 0
    assert lent.get(200_000, len(content)) == content


def test_arguments_have_names_and_any_integer_type(engine, peer, lent):
    class Number:
        def __init__(self, value):
            self.value = value

        def __index__(self):
            return self.value

    lent.set(b"named")
    assert engine.transfer_sync_write(
        target_hostname=peer.name, buffer=Number(lent.address),
        peer_buffer_address=Number(ADDRESS), length=Number(5),
        transport_hint="tcp") == 0
    assert peer.bytes_at(0, 5) == b"named"


@pytest.mark.parametrize("make", [list, tuple])
def test_ten_thousand_entries_are_one_operation(engine, peer, lent, make):
    n, size = 10_000, 64
    content = pattern(n * size)
    lent.set(content)
    places = make(lent.address + i * size for i in range(n))
    # Scattered there: the order is turned round.
    there = make(ADDRESS + (n - 1 - i) * size for i in range(n))
    sizes = make([size] * n)
    assert engine.batch_transfer_sync_write(
        peer.name, places, there, sizes) == 0
    landed = peer.bytes_at(0, n * size)
    assert all(landed[(n - 1 - i) * size:][:size] ==
               content[i * size:][:size] for i in range(n))
    lent.set(bytes(n * size))
    assert engine.batch_transfer_sync_read(
        peer.name, places, there, sizes) == 0
    assert lent.get(0, n * size) == content


def test_more_entries_than_a_batch_of_the_library_has(engine, peer, memory):
    n = 70_000
    content = pattern(n)
    memory.set(content)
    assert engine.register_memory(memory.address, memory.length) == 0
    assert engine.batch_transfer_sync_write(
        peer.name, range(memory.address, memory.address + n),
        range(ADDRESS, ADDRESS + n), [1] * n) == 0
    assert peer.bytes_at(0, n) == content
    assert engine.unregister_memory(memory.address) == 0


def test_empty_lists_are_done_at_once(engine, peer):
    assert engine.batch_transfer_sync_write(peer.name, [], [], []) == 0
    number = engine.batch_transfer_async_read(peer.name, [], [], [])
    assert number > 0 and engine.transfer_check_status(number) == 1


@pytest.mark.parametrize("many", [False, True])
def test_peer_is_told_after_the_data(engine, peer, lent, many):
    lent.set(b"told")
    note = TransferNotify("request 1", "grüße")
    if many:
        rc = engine.batch_transfer_sync(
            peer.name, [lent.address], [ADDRESS], [4], TransferOpcode.Write,
            note)
    else:
        rc = engine.transfer_sync(
            peer.name, lent.address, ADDRESS, 4, TransferOpcode.Write, note)
    assert rc == 0
    # It is there when the call returns, and so are the bytes.
    assert peer.ask(do="notifies") == [["request 1", "grüße"]]
    assert peer.bytes_at(0, 4) == b"told"
    assert peer.ask(do="notifies") == []


def test_notifications_come_in_order(peer, engine, lent):
    for i in range(20):
        assert engine.transfer_sync(
            peer.name, lent.address, ADDRESS, 1, TransferOpcode.Read,
            notify=TransferNotify(f"n{i}", "")) == 0
    assert peer.ask(do="notifies") == [[f"n{i}", ""] for i in range(20)]


def test_notify_has_attributes_that_can_be_set():
    note = TransferNotify("a", "b")
    note.name, note.msg = "c", "d"
    assert (note.name, note.msg) == ("c", "d")
    with pytest.raises(TypeError, match="name"):
        note.name = 5
    with pytest.raises(TypeError, match="msg"):
        TransferNotify("a", 5)


def test_asynchronous_transfers_are_asked_about_by_number(
        engine, peer, lent):
    content = pattern(1 << 20)
    lent.set(content)
    number = engine.batch_transfer_async_write(
        peer.name, [lent.address], [ADDRESS], [1 << 20])
    assert 1 <= number < 1 << 63
    assert until(lambda: engine.transfer_check_status(number) == 1)
    assert peer.bytes_at(0, 1 << 20) == content
    assert engine.transfer_check_status(number) == -1  # is forgotten


def test_several_asynchronous_transfers_are_awaited_together(
        engine, peer, lent):
    numbers = [engine.transfer_submit_write(
        peer.name, lent.address + i, ADDRESS + i, 1) for i in range(50)]
    numbers.append(engine.batch_transfer_async(
        peer.name, [lent.address], [ADDRESS], [8], TransferOpcode.Read))
    assert len(set(numbers)) == 51 and all(numbers)
    assert engine.get_batch_transfer_status(numbers) == 0
    assert engine.get_batch_transfer_status(numbers[:1]) == -1


def test_opcode_spellings():
    assert TransferOpcode.Read == TransferOpcode.READ == module.Read == 0
    assert TransferOpcode.Write == TransferOpcode.WRITE == module.Write == 1
    assert TransferEngine.TransferOpcode is TransferOpcode


def test_registration(engine, memory):
    half = memory.length // 2
    assert engine.register_memory(memory.address, half,
                                  vram.PLACE or "cpu:0") == 0
    assert engine.register_memory(memory.address, half) == -7
    assert engine.register_memory(memory.address + half - 1, 10) == -7
    # Next to each other is not overlapping.
    assert engine.register_memory(memory.address + half, half) == 0
    assert engine.unregister_memory(memory.address + half) == 0
    assert engine.unregister_memory(memory.address + half) == -3
    assert engine.unregister_memory(memory.address) == 0


def test_registration_of_many_is_all_or_nothing(engine, memory):
    places = [memory.address + i * 4096 for i in range(100)]
    assert engine.batch_register_memory(places, [4096] * 100) == 0
    assert engine.batch_unregister_memory(places) == 0
    assert engine.batch_register_memory(
        places + places[:1], [4096] * 101) == -7
    assert engine.batch_unregister_memory(places[:2]) == -3
    assert engine.batch_register_memory(tuple(places), [4096] * 100) == 0
    assert engine.batch_unregister_memory(places) == 0
    assert engine.batch_register_memory([], []) == 0


def test_managed_buffers(engine, peer):
    buffers = {}
    for length in (1, 8192, 8193, 100_000, 1 << 20, (256 << 20) + 1):
        address = engine.allocate_managed_buffer(length)
        assert address > 0
        buffers[address] = length
    spans = sorted(buffers.items())
    assert all(a + n <= b for (a, n), (b, _) in zip(spans, spans[1:]))
    first = spans[0][0]
    assert engine.write_bytes_to_buffer(first, b"managed", 4) == 0
    assert engine.write_bytes_to_buffer(0, b"", 0) == 0
    assert engine.transfer_sync_write(peer.name, first, ADDRESS, 4) == 0
    assert peer.bytes_at(0, 4) == b"mana"
    assert engine.read_bytes_from_buffer(first, 4) == b"mana"
    for address, length in buffers.items():
        assert engine.free_managed_buffer(address, length + 1) == -1
        assert engine.free_managed_buffer(address, length) == 0
        assert engine.free_managed_buffer(address, length) == -1


def test_a_managed_buffer_is_freed_by_what_was_asked_first(engine):
    class Changing:
        def __init__(self, *values: int) -> None:
            self.values = list(values)

        def __index__(self) -> int:
            return self.values.pop(0)

    address = engine.allocate_managed_buffer(8192)
    no_address = Changing(0xdead000, address, address)
    assert engine.free_managed_buffer(no_address, 8192) == -1
    assert engine.free_managed_buffer(Changing(address), 8192) == 0
    assert engine.allocate_managed_buffer(8192) == address


def test_managed_buffers_are_used_again(engine):
    seen = set()
    for _ in range(200):
        address = engine.allocate_managed_buffer(64 << 20)
        seen.add(address)
        assert engine.free_managed_buffer(address, 64 << 20) == 0
    assert len(seen) <= 4
    # What was cut to pieces is whole again.
    small = [engine.allocate_managed_buffer(8192) for _ in range(500)]
    for address in small:
        assert engine.free_managed_buffer(address, 8192) == 0
    assert engine.allocate_managed_buffer(256 << 20) == min(seen)


@pytest.mark.parametrize("make", [
    bytes, bytearray, memoryview,
    lambda b: (ctypes.c_char * len(b)).from_buffer_copy(b)])
def test_any_contiguous_buffer_can_be_written(engine, make):
    address = engine.allocate_managed_buffer(100)
    assert engine.write_bytes_to_buffer(address, make(b"0123"), 4) == 0
    assert engine.read_bytes_from_buffer(address, 4) == b"0123"
    assert engine.write_bytes_to_buffer(address, make(b"0123"), 5) == -1


def test_first_buffer_of_a_peer(engine, peer):
    assert engine.get_first_buffer_address(peer.name) == ADDRESS
    assert engine.transfer_sync_read(
        peer.name, engine.allocate_managed_buffer(10),
        ADDRESS + LENGTH - 10, 10) == 0


def test_topology_is_json(engine):
    whole = json.loads(engine.get_local_topology())
    assert all(len(ranks) == 2 for ranks in whole.values())
    nothing = json.loads(TransferEngine().get_local_topology("none-such"))
    assert set(nothing) == set(whole)
    assert all(ranks == [[], []] for ranks in nothing.values())


def test_engine_of_its_own_is_a_peer_too(engine, memory):
    name = f"127.0.0.1:{engine.get_rpc_port()}"
    assert engine.register_memory(memory.address, 1000) == 0
    memory.set(b"self")
    assert engine.transfer_sync_write(
        name, memory.address, memory.address + 500, 4) == 0
    assert memory.get(500, 4) == b"self"
    assert engine.unregister_memory(memory.address) == 0


def test_probe_and_warm_up(engine, peer):
    assert engine.send_probe(peer.name) == 0
    assert engine.warmup_efa_segment(peer.name) == 0


def test_probe_says_at_once_that_nobody_listens(engine, capfd):
    name = f"127.0.0.1:{free_port()}"
    for _ in range(3):
        assert engine.send_probe(name) == -1
        assert "Connection refused" in capfd.readouterr().err  # not timed out


def test_engine_for_the_store_keeps_itself_alive(memory):
    from conftest import make_engine

    engine = make_engine()
    port = engine.get_rpc_port()
    name = f"127.0.0.1:{port}"
    capsule = engine.get_engine()
    assert isinstance(capsule, InnerTransferEngine)
    assert engine.get_engine_ptr() != 0
    del engine
    assert make_engine().send_probe(name) == 0
    del capsule
    with socket.socket() as nobody_else:  # takes the port in the meantime
        nobody_else.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        nobody_else.bind(("", port))
        assert make_engine().send_probe(name) == -1


def test_names_of_the_interface():
    wanted = """initialize initialize_ext get_rpc_port allocate_managed_buffer
        free_managed_buffer transfer_sync_write transfer_sync_read
        transfer_sync batch_transfer_sync_write batch_transfer_sync_read
        batch_transfer_sync batch_transfer_async_write
        batch_transfer_async_read batch_transfer_async
        get_batch_transfer_status transfer_submit_write transfer_check_status
        write_bytes_to_buffer read_bytes_from_buffer register_memory
        unregister_memory batch_register_memory batch_unregister_memory
        get_local_topology get_first_buffer_address warmup_efa_segment
        get_notifies send_probe get_engine get_engine_ptr""".split()
    assert all(callable(getattr(TransferEngine, name)) for name in wanted)
    assert module.RpcInterface is module.CoroRPCInterface
    assert not module.SharedSegment.supported()
    with pytest.raises(RuntimeError, match="not supported"):
        module.SharedSegment.create("here", 4096, 1, 0)
    assert not module.SUPPORT_HIP and not module.SUPPORT_EFA
