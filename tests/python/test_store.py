# SPDX-License-Identifier: Apache-2.0
"""mooncake.store: what puts, gets and the calls around them return."""
from __future__ import annotations

import array
import ctypes
import json
import mmap
import re
import urllib.request

import pytest
import vram
from mooncake.store import (MooncakeDistributedStore, ObjectDataType,
                            ReplicateConfig, SoftPinAction)
from pool import MB, Memory, lend, until


class Index:
    """An integer as numpy has them."""

    def __init__(self, value: int) -> None:
        self.value = value

    def __index__(self) -> int:
        return self.value


# ---- put and get ----


def test_a_value_comes_back(store):
    assert store.put("k", b"value") == 0
    assert store.get("k") == b"value"
    assert store.is_exist("k") == 1
    assert store.get_size("k") == 5


def test_a_put_leaves_what_is_there(store):
    assert store.put("k", b"first") == 0
    assert store.put("k", b"second") == 0
    assert store.get("k") == b"first"


def test_an_upsert_takes_its_place(store):
    assert store.put("k", b"first") == 0
    assert store.upsert("k", b"second") == 0
    assert store.upsert_parts("k2", b"a", b"bc") == 0
    assert store.upsert_batch(["k", "k3"], [b"third", b"x"]) == 0
    assert store.get_batch(["k", "k2", "k3"]) == [b"third", b"abc", b"x"]


def test_a_miss_is_no_error(store, capfd):
    capfd.readouterr()
    assert store.get("none") == b""
    assert store.get_buffer("none") is None
    assert store.is_exist("none") == 0
    assert store.get_size("none") == -704
    assert store.remove("none") == -704
    assert store.get_batch(["none", "none"]) == [b"", b""]
    assert store.batch_get_buffer(["none"]) == [None]
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("value", [
    b"bytes", bytearray(b"array"), memoryview(b"view")[1:3],
    array.array("i", [1, 2, 3]), memoryview(bytes(6)).cast("B", (2, 3))])
def test_any_contiguous_buffer_is_a_value(store, value):
    assert store.put("k", value) == 0
    assert store.get("k") == memoryview(value).tobytes()


def test_mapped_memory_is_a_value(store):
    with mmap.mmap(-1, 4096) as memory:
        memory[:4] = b"page"
        assert store.put("k", memory) == 0
    assert store.get("k")[:5] == b"page\0"


def test_parts_are_one_value(store):
    assert store.put_parts("k", b"head", memoryview(b"body"),
                           config=ReplicateConfig()) == 0
    assert store.get("k") == b"headbody"
    assert store.put_parts("none", b"", b"") == 0
    assert store.is_exist("none") == 0
    with pytest.raises(RuntimeError):
        store.put_parts("k", memoryview(b"abcd").cast("i"))
    with pytest.raises(RuntimeError):
        store.put_parts("k", memoryview(b"abcdef")[::2])
    with pytest.raises(RuntimeError):
        store.put_parts("k", "text")


def test_put_batch_returns_the_first_error(store):
    assert store.put_batch(["a", "", "b", "x" * 1025], [b"1"] * 4) == -600
    assert store.get_batch(["a", "b"]) == [b"1", b"1"]
    assert store.put_batch(["a"], []) == -600


def test_keys_are_any_bytes(store):
    keys = ["pre@m:tp_rank:0@x", "ключ", b"\xff\x00key", "a\0b"]
    assert store.put_batch(keys, [b"1", b"2", b"3", b"4"]) == 0
    assert store.batch_is_exist(keys) == [1, 1, 1, 1]
    assert store.get_batch(tuple(keys)) == [b"1", b"2", b"3", b"4"]
    assert store.put("\ud800", b"x") == -600


# ---- memory by address ----


def test_addresses_are_read_and_written(store):
    memory = Memory(4096)
    memory.fill(b"abcdefgh")
    assert store.register_buffer(memory.addr, 4096) == 0
    assert store.register_buffer(memory.addr, 4096) == -600
    assert store.put_from("k", memory.addr, 8) == 0
    assert store.get_into("k", memory.addr + 100, 8) == 8
    assert memory.read(100, 8) == b"abcdefgh"
    assert store.unregister_buffer(memory.addr) == 0
    assert store.unregister_buffer(memory.addr) == -600


def test_memory_needs_not_be_registered_nor_fit(store):
    memory = lend(store, 4096)
    memory.fill(b"abcdefgh")
    assert store.batch_put_from(["a", "b"], [memory.addr, memory.addr + 4],
                                [4, 4]) == [0, 0]
    got = store.batch_get_into(["b", "none", "a"],
                               [memory.addr + 100 * i for i in (1, 2, 3)],
                               [100, 100, 3])
    assert got == [4, -704, -600]
    assert memory.read(100, 5) == b"efgh\0"


def test_addresses_of_no_memory_are_refused(store):
    good = lend(store, 4096)
    for addr in (0, 8, 1 << 47, (1 << 64) - 8):
        assert store.put_from("k", addr, 8) == -600
        assert store.register_buffer(addr, 4096) == -600
        assert store.batch_put_from(["a", "b"], [addr, good.addr],
                                    [8, 8]) == [-600, 0]
        assert store.get_into("b", addr, 8) == -600
        assert store.batch_get_into(["b", "b"], [addr, good.addr],
                                    [8, 8]) == [-600, 8]
        assert store.batch_get_into_multi_buffers(
            ["b"], [[good.addr, addr]], [[4, 4]]) == [-600]
        assert store.get_into_ranges([addr, good.addr], [["b"], ["b"]],
                                     [[[0]], [[0]]], [[[0]], [[0]]],
                                     [[[8]], [[8]]]) == [[[-600]], [[8]]]


REGISTERED = 32


@pytest.fixture
def region(store):
    """Registered memory with the test's own around it."""
    memory = Memory(4096)
    addr = memory.addr + 1024
    assert store.register_buffer(addr, REGISTERED) == 0
    if vram.GPU:  # of which the rest may not be used else
        assert store.register_buffer(memory.addr, 512) == 0
    yield memory, addr
    assert store.unregister_buffer(addr) == 0
    if vram.GPU:
        assert store.unregister_buffer(memory.addr) == 0


CROSSING = [(31, 4), (0, 33), (28, 8), (1, 1 << 40)]


@pytest.mark.parametrize("skip,size", CROSSING)
def test_nothing_is_written_past_the_end_of_registered_memory(
        store, region, skip, size):
    memory, addr = region
    before = memory.read(0, memory.size)
    assert store.put("k", b"x" * REGISTERED) == 0
    place = addr + skip
    small = min(size, 8)
    assert store.get_into("k", place, size) == -600
    assert store.batch_get_into(["k", "k"], [place, memory.addr],
                                [size, 64]) == [-600, REGISTERED]
    memory.fill(before)
    assert store.batch_get_into_multi_buffers(
        ["k"], [[memory.addr, place]], [[1, size]]) == [-600]
    assert store.batch_get_session_start(["k"]) == [0]
    assert store.batch_get_into_multi_buffer_ranges(
        ["k"], [[place]], [[size]], [[0]]) == [-600]
    assert store.batch_get_session_end(["k"]) == 0
    assert store.get_into_ranges([place], [["k"]], [[[0]]], [[[0]]],
                                 [[[size]]]) == [[[-600]]]
    assert store.get_into_ranges([addr], [["k"]], [[[skip, 0]]], [[[0, 0]]],
                                 [[[size, small]]]) == [[[-600, small]]]
    memory.fill(before)
    assert memory.read(0, memory.size) == before


def test_ranges_end_in_the_memory_that_their_buffer_begins_in(store, region):
    memory, addr = region
    before = memory.read(0, memory.size)
    assert store.put("k", b"12345678") == 0
    for skip in (REGISTERED, REGISTERED + 1, 1000):
        assert store.get_into_ranges(
            [addr], [["k"]], [[[skip, 28]]], [[[0, 0]]],
            [[[4, 4]]]) == [[[-600, 4]]]
    assert memory.read(1024 + 28, 4) == b"1234"
    assert memory.read(1024 + 32, 2048) == before[1056:3104]


@pytest.mark.parametrize("skip,size", CROSSING)
def test_nothing_is_put_from_past_the_end_of_registered_memory(
        store, region, skip, size):
    memory, addr = region
    place = addr + skip
    assert store.put_from("k", place, size) == -600
    assert store.upsert_from("k", place, size) == -600
    assert store.put_from_with_metadata("k", place, memory.addr, size,
                                        8) == -600
    assert store.put_from_with_metadata("k", memory.addr, place, 8,
                                        size) == -600
    assert store.batch_put_from(["k", "l"], [place, memory.addr],
                                [size, 8]) == [-600, 0]
    assert store.batch_upsert_from(["k", "l"], [place, memory.addr],
                                   [size, 8]) == [-600, 0]
    for scattered in (store.batch_put_from_multi_buffers,
                      store.batch_upsert_from_multi_buffers):
        assert scattered(["k"], [[memory.addr, place]], [[1, size]]) == [-600]
    assert store.is_exist("k") == 0
    assert store.batch_put_session_start(["m"], [64]) == [0]
    assert store.batch_put_from_multi_buffer_ranges(
        ["m"], [[place]], [[size]], [[0]]) == [-600]
    assert store.batch_put_from_multi_buffer_ranges(
        ["m"], [[memory.addr]], [[64]], [[0]]) == [64]
    assert store.batch_put_session_end(["m"]) == [0]


def test_registered_memory_is_used_to_its_end(store, region):
    memory, addr = region
    memory.fill(b"abcd", 1024 + 28)
    assert store.put_from("k", addr + 28, 4) == 0
    assert store.get_into("k", addr, REGISTERED) == 4
    assert memory.read(1024, 4) == b"abcd"
    if not vram.GPU:  # what begins outside is not looked at by this rule
        assert store.get_into("k", addr - 2, 4) == 4
        assert store.get_into("k", addr + REGISTERED, 4) == 4
    # Another one follows: the first still ends where it ends.
    assert store.register_buffer(addr + REGISTERED, 32) == 0
    assert store.put_from("l", addr + 30, 4) == -600
    assert store.unregister_buffer(addr + REGISTERED) == 0


def test_a_line_says_why_memory_is_refused(store, region, capfd):
    _, addr = region
    assert store.put_from("k", addr + 31, 4) == -600
    assert "past the end" in capfd.readouterr().err


def test_nothing_is_read_into_memory_that_only_can_be_read(store):
    store.put("k", b"x" * 8)
    libc = ctypes.CDLL(None)
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int,
                          ctypes.c_int, ctypes.c_int, ctypes.c_long]
    addr = libc.mmap(None, 4096, mmap.PROT_READ,
                     mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, -1, 0)
    assert store.get_into("k", addr, 8) == -600
    assert store.put_from("zeros", addr, 8) == 0


def test_pieces_are_gathered_and_scattered(store):
    memory = lend(store, 4096)
    memory.fill(b"0123456789")
    base = memory.addr
    assert store.batch_put_from_multi_buffers(
        ["k", "l"], [[base, base + 5], [base + 9]], [[2, 3], [1]]) == [0, 0]
    assert store.get_batch(["k", "l"]) == [b"01567", b"9"]
    assert store.batch_get_into_multi_buffers(
        ("k",), ((base + 100, base + 200),), ((4, 96),)) == [5]
    assert memory.read(100, 4) + memory.read(200, 1) == b"01567"
    assert store.batch_upsert_from_multi_buffers(
        ["k"], [[base + 1]], [[1]]) == [0]
    assert store.get("k") == b"1"


def test_metadata_comes_before_the_data(store):
    memory = lend(store, 64)
    memory.fill(b"datameta")
    assert store.put_from_with_metadata(
        "k", memory.addr, memory.addr + 4, 4, 4) == 0
    assert store.get("k") == b"metadata"


def test_integers_are_what_has_an_index(store):
    memory = lend(store, 64)
    memory.fill(b"xyz")
    assert store.batch_put_from(["k"], [Index(memory.addr)], [Index(3)]) == [0]
    assert store.get_into("k", Index(memory.addr + 8), Index(8)) == 3
    numbers = array.array("Q", [memory.addr + 16])
    assert store.batch_get_into(["k"], numbers, (8,)) == [3]


def test_results_are_as_many_as_keys(store):
    memory = lend(store, 64)
    assert store.batch_put_from(["a", "b"], [memory.addr], [1, 1]) == [-600] * 2
    assert store.batch_get_into(["a", "b"], [memory.addr] * 2, [1]) == [-600] * 2
    assert store.batch_put_from(["a"], [memory.addr], [-1]) == [-600]
    assert store.batch_put_from(["a"], [1 << 64], [1]) == [-600]
    multi = store.batch_put_from_multi_buffers
    assert multi(["a", "b"], [[memory.addr]], [[1]]) == [-600] * 2
    good = [memory.addr]
    assert multi(["a", "b", "c", "d", "e"], [good, [], good, [0], good * 1024],
                 [[1, 1], [], [1], [1], [1] * 1024]) == [
                     -600, -600, 0, -600, -600]


def test_empty_lists_give_empty_lists(store):
    assert store.batch_put_from([], [], []) == []
    assert store.batch_put_from_multi_buffers((), (), ()) == []
    assert store.batch_get_into([], [], []) == []
    assert store.batch_get_into_multi_buffers([], [], []) == []
    assert store.batch_is_exist([]) == []
    assert store.batch_remove([]) == []
    assert store.get_batch([]) == []
    assert store.batch_get_buffer([]) == []
    assert store.batch_get_replica_desc([]) == {}
    assert store.batch_get_session_start([]) == []
    assert store.get_into_ranges([], [], [], [], []) == []
    assert store.put_batch([], []) == 0


def test_sizes_of_nothing(store):
    assert store.put("k", b"") == -600
    assert store.put_from("k", 0, 0) == 0
    assert store.is_exist("k") == 0


def test_thousands_of_keys_are_one_call(store):
    memory = lend(store, 8)
    keys = [f"k{i}" for i in range(10000)]
    assert store.batch_put_from(keys, [memory.addr] * 10000,
                                [8] * 10000) == [0] * 10000
    assert store.batch_is_exist(keys + ["none"]) == [1] * 10000 + [0]


# ---- handles ----


def test_a_handle_is_a_buffer(store):
    store.put("k", b"abcdef")
    handle = store.get_buffer("k")
    assert (handle.size(), handle.len(), len(handle)) == (6, 6, 6)
    view = memoryview(handle)
    assert (view.ndim, view.itemsize, view.format) == (1, 1, "B")
    assert view[2:4] == b"cd" and bytes(handle) == b"abcdef"
    assert handle.ptr() != 0


def test_a_view_outlives_its_handle_and_the_store(master):
    store = master.store()
    store.put("k", b"abcdef")
    view = memoryview(store.batch_get_buffer(["k"])[0])
    assert store.close() == 0
    assert bytes(view) == b"abcdef"
    view.release()


def test_values_larger_than_the_local_buffer_have_handles(master):
    store = master.store(local=0)
    value = bytes(range(256)) * 4096
    assert store.put("large", value) == 0
    assert bytes(store.get_buffer("large")) == value
    assert store.get("large") == value
    store.close()


# ---- parts ----


def test_what_is_put_in_parts_is_seen_at_the_end(store):
    memory = lend(store, 64)
    memory.fill(b"abcdef")
    base = memory.addr
    assert store.batch_put_session_start(["k", "l"], [6, 2],
                                         ReplicateConfig()) == [0, 0]
    assert store.batch_is_exist(["k"]) == [0]
    assert store.batch_put_from_multi_buffer_ranges(
        ["k", "l"], [[base + 2, base], [base]], [[4, 2], [2]],
        [[2, 0], [1]]) == [6, -600]
    assert store.batch_put_session_end(["k", "l"]) == [0, -700]
    assert store.batch_put_session_revoke(["l"]) == [0]
    assert store.get_batch(["k", "l"]) == [b"abcdef", b""]


def test_pieces_of_no_bytes_are_nothing_in_any_call(store):
    memory = lend(store, 8)
    memory.fill(b"abcdefgh")
    addr = memory.addr
    for nowhere in (addr + 8, 0, 1, (1 << 64) - 1):
        pieces, sizes = [[nowhere, addr, nowhere, addr + 4]], [[0, 4, 0, 4]]
        for put in (store.batch_put_from_multi_buffers,
                    store.batch_upsert_from_multi_buffers):
            assert put(["k"], pieces, sizes) == [0]
        assert store.batch_put_session_start([f"m{nowhere}"], [8]) == [0]
        assert store.batch_put_from_multi_buffer_ranges(
            [f"m{nowhere}"], pieces, sizes, [[8, 0, 3, 4]]) == [8]
        assert store.batch_put_from_multi_buffer_ranges(
            [f"m{nowhere}"], [[nowhere]], [[0]], [[9]]) == [-600]
        assert store.batch_put_session_end([f"m{nowhere}"]) == [0]
        assert store.get_batch(["k", f"m{nowhere}"]) == [b"abcdefgh"] * 2
        assert store.batch_get_into_multi_buffers(["k"], pieces, sizes) == [8]
        assert store.batch_get_session_start(["k"]) == [0]
        assert store.batch_get_into_multi_buffer_ranges(
            ["k"], pieces, sizes, [[8, 0, 3, 4]]) == [8]
        assert store.batch_get_into_multi_buffer_ranges(
            ["k", "none"], [[nowhere]] * 2, [[0]] * 2, [[0]] * 2) == [0, -704]
        assert store.batch_get_session_end(["k"]) == 0
        # A value of no bytes is none; some of Mooncake's calls want a 0 for it.
        for put in (store.batch_put_from, store.batch_upsert_from):
            assert put(["n"], [nowhere], [0]) == [-600]
        for put in (store.batch_put_from_multi_buffers,
                    store.batch_upsert_from_multi_buffers):
            assert put(["n"], [[nowhere]], [[0]]) == [-600]
        for put in (store.put_from, store.upsert_from):
            assert put("n", nowhere, 0) == 0
        assert store.is_exist("n") == 0


def test_parts_are_read(store):
    memory = lend(store, 64)
    base = memory.addr
    store.put("k", b"0123456789")
    assert store.batch_get_session_start(["k", "none"]) == [0, -704]
    assert store.batch_get_into_multi_buffer_ranges(
        ["k", "none"], [[base, base + 10], [base]], [[2, 3], [1]],
        [[8, 0], [0]]) == [5, -704]
    assert memory.read(0, 2) + memory.read(10, 3) == b"89012"
    assert store.batch_get_session_end(["k"]) == 0


def test_ranges_come_back_as_they_were_nested(store):
    memory = lend(store, 64)
    store.put_batch(["a", "b"], [b"01234", b"abcde"])
    got = store.get_into_ranges(
        [memory.addr, memory.addr + 32], [["a", "b"], ["b"]],
        [[[0, 10], [20]], [[0]]], [[[1, 3], [4]], [[9]]],
        [[[2, 1], [1]], [[1]]])
    assert got == [[[2, 1], [1]], [[-600]]]
    assert memory.read(0, 2) + memory.read(10, 1) + memory.read(20, 1) == b"123e"


# ---- removing, describing, moving ----


def test_removals_count(store):
    store.put_batch(["a1", "a2", "b1", "b2"], [b"x"] * 4)
    assert store.get("a1") == b"x"
    assert store.remove("a1") == -706
    assert store.remove("a1", True) == 0
    assert store.batch_remove(["a2", "none"], force=True) == [0, -704]
    assert store.remove_by_regex("^b[1]") == 1
    assert store.remove_by_regex("(") == -600
    assert store.remove_all() == 1


def test_replicas_are_described(store):
    store.put("k", b"x" * 100)
    described = store.batch_get_replica_desc(["k", "none"])
    assert list(described) == ["k"]
    (replica,) = store.get_replica_desc("k")
    assert replica.is_memory_replica()
    assert not replica.is_disk_replica()
    assert not replica.is_local_disk_replica()
    assert replica.status.name == "COMPLETE"
    place = replica.get_memory_descriptor().buffer_descriptor
    assert (place.size, place.transport_endpoint) == (100, store.get_hostname())
    with pytest.raises(RuntimeError):
        replica.get_disk_descriptor()
    assert store.get_replica_desc("none") == []
    assert store.batch_replica_clear(["none"]) == []


def test_tasks_copy_and_move(master, store):
    other = master.store()
    store.put("k", b"x")
    (here,) = store.get_replica_desc("k")
    at = here.get_memory_descriptor().buffer_descriptor.transport_endpoint
    target = ({store.get_hostname(), other.get_hostname()} - {at}).pop()
    task, rc = store.create_copy_task("k", [target])
    assert rc == 0
    until(lambda: store.query_task(task)[0].status.name in ("SUCCESS",
                                                            "FAILED"))
    response, rc = store.query_task(task)
    assert (rc, response.status.name, response.id) == (0, "SUCCESS", task)
    assert len(store.get_replica_desc("k")) == 2
    assert store.query_task((1, 2)) == (None, -1400)
    assert store.create_move_task("none", at, target) == ((0, 0), -704)
    other.close()


def drained(master, segment: str) -> None:
    """Nothing new comes to the segment from now on."""
    job = {"segments": [segment]}
    with urllib.request.urlopen(urllib.request.Request(
            f"http://{master.admin}/api/v1/drain_jobs",
            json.dumps(job).encode(),
            {"Content-Type": "application/json"})) as answer:
        assert answer.status == 200


def test_tasks_of_segments_that_cannot_be_are_refused(master, store):
    other = master.store()
    here, there = store.get_hostname(), other.get_hostname()
    config = ReplicateConfig()
    config.preferred_segment = here
    assert store.put("k", b"x", config) == 0

    def copy(key: str, targets: list[str]) -> int:
        task, code = store.create_copy_task(key, targets)
        assert code == 0 or task == (0, 0)
        return code

    def move(key: str, source: str, target: str) -> int:
        task, code = store.create_move_task(key, source, target)
        assert code == 0 or task == (0, 0)
        return code

    assert copy("none", []) == copy("k", []) == -600
    assert copy("none", ["nobody"]) == -704
    assert copy("k", ["nobody"]) == copy("k", [there, "nobody"]) == -600
    assert move("none", here, here) == move("none", "nobody", there) == -704
    assert move("k", here, here) == move("k", "nobody", "nobody") == -600
    assert move("k", here, "nobody") == move("k", "nobody", there) == -600
    assert move("k", there, here) == -600  # it has no replica
    drained(master, there)
    assert copy("k", [there]) == move("k", here, there) == -1010
    assert store.query_task((1, 2)) == (None, -1400)
    other.close()


def test_replicas_are_cleared_by_their_writer(master, store):
    other = master.store()
    two = ReplicateConfig()
    two.replica_num = 2
    keys = ["a", "b", "c"]
    assert store.put_batch(keys, [b"x"] * 3) == 0
    assert store.put("two", b"x", two) == 0
    assert other.batch_replica_clear([*keys, "two"]) == []  # it wrote none
    assert store.batch_replica_clear(["c", "", "none", "a"]) == ["c", "a"]
    assert store.batch_is_exist(keys) == [0, 1, 0]
    assert store.batch_replica_clear(["b"]) == []  # the look is a lease
    assert store.batch_replica_clear(["two"], "nobody") == []
    here, there = store.get_hostname(), other.get_hostname()
    assert store.batch_replica_clear(["two"], here) == ["two"]
    assert store.batch_replica_clear(["two"], here) == []
    assert store.batch_replica_clear(["two"], there) == ["two"]
    assert store.is_exist("two") == 0
    other.close()
    assert MooncakeDistributedStore().batch_replica_clear(["b"]) == []


def test_segments_come_and_go(store, tmp_path):
    answer = store.allocate_and_mount_segment(MB)
    assert (answer["ret"], answer["allocated_size"]) == (0, MB)
    assert re.fullmatch(r"\d+-\d+", answer["segment_ids"][0])
    assert store.unmount_and_free_segment(answer["segment_ids"]) == 0
    assert store.unmount_segment(answer["segment_ids"]) == -101
    file = tmp_path / "segment"
    file.write_bytes(bytes(MB))
    answer = store.mount_segment(str(file), MB, 0)
    assert answer["ret"] == 0
    assert store.unmount_segment(answer["segment_ids"], 1) == 0
    assert store.mount_segment(str(file), 2 * MB)["ret"] < 0
    for wrong in ("", "1", "1-", "-1", "1-2-3", "1-2 ", " 1-2", "x-y", "-1-2",
                  "18446744073709551616-0"):
        assert store.unmount_segment([wrong]) == -600
    assert store.unmount_segment(["1-2"]) == -101
    assert store.alloc_from_mem_pool(4096) == 0


# ---- how objects are kept ----


def test_a_config_is_checked_as_it_is_set():
    config = ReplicateConfig()
    for name, value in {
            "replica_num": 1, "nof_replica_num": 0, "dfs_replica_num": 0,
            "soft_pin_action": SoftPinAction.PRESERVE, "soft_pin_ttl_ms": None,
            "with_hard_pin": False, "preferred_segments": [],
            "preferred_nof_segments": [], "preferred_segment": "",
            "prefer_alloc_in_same_node": False,
            "data_type": ObjectDataType.UNKNOWN, "group_ids": None}.items():
        assert getattr(config, name) == value, name
    config.group_ids = ["", "g"]
    assert config.group_ids == ["", "g"]
    for name in ("group_ids", "with_soft_pin", "data_type"):
        assert hasattr(ReplicateConfig, name)
    for name, value in (("preferred_segment", 1), ("group_ids", "text"),
                        ("group_ids", [1]), ("replica_num", "1"),
                        ("with_hard_pin", "yes"), ("data_type", "TENSOR")):
        with pytest.raises(TypeError, match=name):
            setattr(config, name, value)
    config.with_soft_pin = True
    assert config.soft_pin_action.name == "ENABLE"
    assert "replica_num: 1" in str(config)
    for value in (-1, 3, 1 + 2**32):  # of the type, and none of its members
        with pytest.raises(ValueError, match="soft_pin_action"):
            config.soft_pin_action = int.__new__(SoftPinAction, value)
    with pytest.raises(TypeError):
        ReplicateConfig(1)


@pytest.mark.parametrize("field", ["replica_num", "nof_replica_num",
                                   "dfs_replica_num", "soft_pin_ttl_ms"])
def test_numbers_of_a_config_have_64_bits(field):
    config = ReplicateConfig()
    for good in (0, (1 << 64) - 1, Index(7)):
        setattr(config, field, good)
        assert getattr(config, field) == good.__index__()
    for wrong in (-1, 1 << 64, 1.0, "1", b"1"):
        with pytest.raises(TypeError, match=field):
            setattr(config, field, wrong)
    assert getattr(config, field) == 7


DAY_MS = 86_400_000


@pytest.mark.parametrize("action,ttl,code", [
    ("PRESERVE", None, 0), ("PRESERVE", 0, -600), ("PRESERVE", 1, -600),
    ("DISABLE", None, 0), ("DISABLE", 0, -600), ("DISABLE", DAY_MS, -600),
    ("ENABLE", None, 0), ("ENABLE", 0, 0), ("ENABLE", DAY_MS, 0),
    ("ENABLE", DAY_MS + 1, -600), ("ENABLE", (1 << 64) - 1, -600)])
def test_a_time_goes_with_a_pin(store, action, ttl, code):
    config = ReplicateConfig()
    config.soft_pin_action = SoftPinAction[action]
    config.soft_pin_ttl_ms = ttl
    memory = lend(store, 8)
    assert store.put("there", b"x") == 0
    assert store.put("there", b"x", config) == code
    assert store.upsert("there", b"x", config) == code
    assert store.put("a", b"x", config) == code
    assert store.put_parts("b", b"x", config=config) == code
    assert store.put_batch(["c"], [b"x"], config) == code
    assert store.put_from("d", memory.addr, 8, config) == code
    assert store.batch_put_from(["e"], [memory.addr], [8], config) == [code]
    assert store.batch_put_session_start(["f"], [8], config) == [code]
    assert store.batch_is_exist(list("abcde")) == [int(code == 0)] * 5
    if code == 0:
        assert store.batch_put_session_revoke(["f"]) == [0]


def soft_pins(master) -> int:
    with urllib.request.urlopen(f"http://{master.admin}/metrics") as answer:
        return int(re.search(r"^master_soft_pin_key_count (\d+)$",
                             answer.read().decode(), re.M)[1])


def test_upserts_keep_set_and_end_pins(master, store):
    def pins(action: SoftPinAction, ttl: int | None = None) -> int:
        config = ReplicateConfig()
        config.soft_pin_action, config.soft_pin_ttl_ms = action, ttl
        assert store.upsert("k", b"x", config) == 0
        return soft_pins(master)

    assert pins(SoftPinAction.PRESERVE) == 0
    assert pins(SoftPinAction.ENABLE) == pins(SoftPinAction.PRESERVE) == 1
    assert pins(SoftPinAction.DISABLE) == pins(SoftPinAction.PRESERVE) == 0
    assert pins(SoftPinAction.ENABLE, 100_000) == 1
    assert pins(SoftPinAction.ENABLE, 0) == pins(SoftPinAction.PRESERVE) == 0


def test_a_config_is_honoured(master, store):
    other = master.store()
    config = ReplicateConfig()
    config.replica_num = 2
    assert store.put("two", b"x", config) == 0
    assert len(store.get_replica_desc("two")) == 2
    config = ReplicateConfig()
    config.preferred_segment = other.get_hostname()
    assert store.put("there", b"x", config=config) == 0
    (replica,) = store.get_replica_desc("there")
    place = replica.get_memory_descriptor().buffer_descriptor
    assert place.transport_endpoint == other.get_hostname()
    config.group_ids = ["g"]
    assert store.put_batch(["a", "b"], [b"x", b"y"], config) == -600
    config.group_ids = ["g", "g"]
    assert store.put_batch(["a", "b"], [b"x", b"y"], config) == 0
    config.group_ids = None
    config.replica_num = 99
    assert store.put("c", b"x", config) == -600
    with pytest.raises(TypeError, match="config"):
        store.put("d", b"x", 1)
    other.close()


# ---- wrong types ----


@pytest.mark.parametrize("argument, call", [
    ("key", lambda s: s.put(1, b"x")),
    ("value", lambda s: s.put("k", "text")),
    ("value", lambda s: s.put("k", memoryview(b"abcdef")[::2])),
    ("keys", lambda s: s.batch_is_exist("key")),
    ("keys", lambda s: s.batch_is_exist(["a", 1])),
    ("keys", lambda s: s.get_batch(None)),
    ("values", lambda s: s.put_batch(["a"], ["text"])),
    ("buffer_ptr", lambda s: s.put_from("k", 1.5, 1)),
    ("size", lambda s: s.get_into("k", 1, "1")),
    ("buffer_ptrs", lambda s: s.batch_put_from(["a"], [None], [1])),
    ("sizes", lambda s: s.batch_get_into(["a"], [1], [1.0])),
    ("all_buffer_ptrs", lambda s: s.batch_put_from_multi_buffers(
        ["a"], [1], [[1]])),
    ("all_sizes", lambda s: s.batch_get_into_multi_buffers(
        ["a"], [[1]], [["1"]])),
    ("force", lambda s: s.remove_all(force="yes")),
    ("regex_pattern", lambda s: s.remove_by_regex(1)),
    ("size", lambda s: s.register_buffer(1, None)),
    ("targets", lambda s: s.create_copy_task("k", "one")),
    ("task_id", lambda s: s.query_task("id")),
    ("segment_ids", lambda s: s.unmount_segment(1)),
    ("config", lambda s: s.put("k", b"x", config={})),
    ("config", lambda s: s.put_from("k", 0, 0, {})),
    ("config", lambda s: s.put_parts("k", config={})),
])
def test_a_wrong_type_names_the_argument(store, argument, call):
    for one in (store, MooncakeDistributedStore()):
        with pytest.raises(TypeError, match=rf"\b{argument}\b"):
            call(one)
